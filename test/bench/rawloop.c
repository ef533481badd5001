/*
 * rawloop.c
 *		The baseline of the benchmarks: a plain libcurl multi loop.
 *
 * It sends the requests that a dispatcher would send, with the same libcurl
 * options, and keeps no ledger.  What the dispatcher reaches is told as a ratio
 * to what this loop reaches in the same run.
 */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#define BODY_SIZE 200
#define TIMEOUT_MS 60000L

typedef struct Options
{
	const char *url;
	const char *body_file;
	const char *ca_file;
	long		requests;
	long		concurrency;
	bool		fresh;
} Options;

/* One place for a request in flight; the handle and the headers are used again and again. */
typedef struct Slot
{
	CURL	   *easy;
	struct curl_slist *headers;
	char	   *key;			/* the 36 characters of the key inside headers */
} Slot;

typedef struct Loop
{
	CURLM	   *multi;
	Slot	   *slots;
	long		n_slots;
	long		started;
	long		done;
	long		failed;
} Loop;

static bool read_options(int argc, char **argv, Options *options);
static char *read_body(const char *path, size_t *len);
static bool prepare_slot(Slot *slot, const Options *options, const char *body, size_t body_len);
static size_t ignore_body(char *data, size_t size, size_t count, void *arg);
static void start(Loop *loop, Slot *slot);
static bool run(Loop *loop, long requests);
static void collect(Loop *loop, long requests);
static double now(void);

/* Sends the requests and prints the rate. */
int
main(int argc, char **argv)
{
	Options		options = {.concurrency = 50};
	Loop		loop = {0};
	struct rlimit limit;
	char	   *body;
	size_t		body_len;
	double		begin;
	double		seconds;

	if (!read_options(argc, argv, &options))
		return 1;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	signal(SIGPIPE, SIG_IGN);
	body = read_body(options.body_file, &body_len);
	if (body == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		return 1;
	loop.multi = curl_multi_init();
	loop.n_slots = options.concurrency < options.requests ? options.concurrency : options.requests;
	loop.slots = calloc((size_t) loop.n_slots, sizeof(Slot));
	if (loop.multi == NULL || loop.slots == NULL)
		return 1;
	curl_multi_setopt(loop.multi, CURLMOPT_MAXCONNECTS, loop.n_slots);
	for (long i = 0; i < loop.n_slots; i++)
	{
		if (!prepare_slot(&loop.slots[i], &options, body, body_len))
			return 1;
	}

	begin = now();
	if (!run(&loop, options.requests))
		return 1;
	seconds = now() - begin;
	printf("requests %ld seconds %.3f rate %.0f failed %ld\n", loop.done, seconds,
		   (double) loop.done / seconds, loop.failed);

	for (long i = 0; i < loop.n_slots; i++)
	{
		curl_multi_remove_handle(loop.multi, loop.slots[i].easy);
		curl_easy_cleanup(loop.slots[i].easy);
		curl_slist_free_all(loop.slots[i].headers);
	}
	curl_multi_cleanup(loop.multi);
	curl_global_cleanup();
	free(loop.slots);
	free(body);
	return loop.failed > 0 ? 3 : 0;
}

/* Reads the command line. */
static bool
read_options(int argc, char **argv, Options *options)
{
	static const struct option names[] = {
		{"fresh", no_argument, NULL, 'f'},
		{"body", required_argument, NULL, 'b'},
		{"cacert", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
	{
		if (option == 'f')
			options->fresh = true;
		else if (option == 'b')
			options->body_file = optarg;
		else if (option == 'c')
			options->ca_file = optarg;
		else
			return false;
	}
	if (argc - optind == 3)
	{
		options->url = argv[optind];
		options->requests = atol(argv[optind + 1]);
		options->concurrency = atol(argv[optind + 2]);
	}
	if (options->url == NULL || options->requests < 1 || options->concurrency < 1)
	{
		fprintf(stderr, "usage: rawloop [--fresh] [--body FILE] [--cacert FILE] "
				"URL REQUESTS CONCURRENCY\n");
		return false;
	}
	return true;
}

/* Reads the body, or makes the usual one of 200 bytes of JSON. */
static char *
read_body(const char *path, size_t *len)
{
	FILE	   *file;
	char	   *body;
	long		size;
	int			used;

	if (path == NULL)
	{
		body = malloc(BODY_SIZE + 1);
		if (body == NULL)
			return NULL;
		used = snprintf(body, BODY_SIZE + 1, "{\"amount\":1200,\"currency\":\"eur\",\"note\":\"");
		memset(body + used, 'x', (size_t) (BODY_SIZE - used));
		memcpy(body + BODY_SIZE - 2, "\"}", 3);
		*len = BODY_SIZE;
		return body;
	}
	file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
	{
		fprintf(stderr, "rawloop: could not read \"%s\"\n", path);
		return NULL;
	}
	rewind(file);
	body = malloc((size_t) size + 1);
	if (body != NULL)
		*len = fread(body, 1, (size_t) size, file);
	fclose(file);
	return body;
}

/* Makes a handle with the options that every attempt of the dispatcher has. */
static bool
prepare_slot(Slot *slot, const Options *options, const char *body, size_t body_len)
{
	static const char KeyName[] = "Idempotency-Key: ";
	struct curl_slist *first;

	slot->easy = curl_easy_init();
	first = curl_slist_append(NULL, "Idempotency-Key: 00000000-0000-4000-8000-000000000000");
	if (slot->easy == NULL || first == NULL)
		return false;
	slot->headers = first;
	slot->key = first->data + sizeof(KeyName) - 1;
	if (curl_slist_append(first, "Content-Type: application/json") == NULL ||
		curl_slist_append(first, "Expect:") == NULL)
		return false;
	curl_easy_setopt(slot->easy, CURLOPT_URL, options->url);
	curl_easy_setopt(slot->easy, CURLOPT_HTTPHEADER, slot->headers);
	curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) body_len);
	curl_easy_setopt(slot->easy, CURLOPT_WRITEFUNCTION, ignore_body);
	curl_easy_setopt(slot->easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(slot->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(slot->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(slot->easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(slot->easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(slot->easy, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(slot->easy, CURLOPT_PRIVATE, (void *) slot);
	if (options->ca_file != NULL)
		curl_easy_setopt(slot->easy, CURLOPT_CAINFO, options->ca_file);
	if (options->fresh)
	{
		curl_easy_setopt(slot->easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(slot->easy, CURLOPT_FORBID_REUSE, 1L);
	}
	return true;
}

/* Takes the body of an answer and forgets it. */
static size_t
ignore_body(char *data, size_t size, size_t count, void *arg)
{
	(void) data;
	(void) arg;
	return size * count;
}

/* Starts the next request, with a key that no other request and no other run has. */
static void
start(Loop *loop, Slot *slot)
{
	static unsigned long run_id;
	char		key[64];

	if (run_id == 0)
		run_id = ((unsigned long) time(NULL) << 16 ^ (unsigned long) getpid()) | 1;
	snprintf(key, sizeof(key), "%08lx-%04lx-4000-8000-%012lx", run_id >> 16 & 0xffffffff,
			 run_id & 0xffff, (unsigned long) loop->started & 0xffffffffffff);
	memcpy(slot->key, key, 36);
	loop->started++;
	curl_multi_add_handle(loop->multi, slot->easy);
}

/* Keeps the slots filled until all requests are done. */
static bool
run(Loop *loop, long requests)
{
	int			running;

	for (long i = 0; i < loop->n_slots; i++)
		start(loop, &loop->slots[i]);
	while (loop->done < requests)
	{
		long		before = loop->done;

		if (curl_multi_perform(loop->multi, &running) != CURLM_OK)
			return false;
		collect(loop, requests);
		if (loop->done == before && curl_multi_poll(loop->multi, NULL, 0, 1000, NULL) != CURLM_OK)
			return false;
	}
	return true;
}

/* Takes what is finished and starts what is left. */
static void
collect(Loop *loop, long requests)
{
	CURLMsg    *message;
	int			left;

	while ((message = curl_multi_info_read(loop->multi, &left)) != NULL)
	{
		CURL	   *easy = message->easy_handle;
		CURLcode	result = message->data.result;
		long		status = 0;
		Slot	   *slot;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **) &slot);
		curl_multi_remove_handle(loop->multi, easy);
		loop->done++;
		if (result != CURLE_OK || status != 200)
		{
			if (loop->failed++ == 0)
				fprintf(stderr, "rawloop: first failure: %s, status %ld\n",
						curl_easy_strerror(result), status);
		}
		if (loop->started < requests)
			start(loop, slot);
	}
}

/* Returns seconds on a clock that never jumps. */
static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}
