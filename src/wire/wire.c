/*
 * wire.c
 *		The loop: requests in, socket events through libcurl, results out.
 *
 * Memory running out must not swallow a request either.  What cannot be given
 * a record when it comes is kept as its bare tag, and its record is made when
 * it is asked for; one record is set aside for that.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "process.h"
#include "request.h"

#define OLDEST_LIBCURL 0x075000 /* 7.80.0, CURLOPT_PREREQFUNCTION */
#define FIRST_KEPT 512			/* connections; more when more are under way */
#define EVENTS_PER_RUN 256
#define STARVED_MAX 16384		/* bare tags kept; more cannot be under way in practice */

struct AlWire
{
	CURLM	   *multi;			/* NULL while there is no memory for one */
	bool		unsound;		/* libcurl left a call half done */
	AlRequestCommon common;
	int64_t		deadline_us;	/* when libcurl wants to be called; -1: never */
	AlRequest  *under_way;
	int			n_under_way;
	int			n_kept;			/* connections that libcurl may keep, busy ones included */
	int			n_deaf;			/* of those, with a socket that epoll refused */
	AlFinished *first_finished;
	AlFinished *last_finished;
	AlFinished *set_aside;
	int			n_starved;
	uint64_t	starved[STARVED_MAX];
};

static bool set_up(AlWire *wire, char *err, size_t err_len);
static bool make_multi(AlWire *wire);
static void act(AlWire *wire, curl_socket_t fd, int bits);
static void begin_anew(AlWire *wire);
static void start(AlWire *wire, const AlWireRequest *wanted, AlFinished *finished);
static void link_request(AlWire *wire, AlRequest *request);
static void unlink_request(AlWire *wire, AlRequest *request);
static void collect(AlWire *wire);
static void end_deaf(AlWire *wire);
static void end(AlWire *wire, AlRequest *request, CURLcode code);
static void queue_refused(AlWire *wire, AlFinished *finished, AlEnding ending, const char *words);
static void queue(AlWire *wire, AlFinished *finished);
static AlFinished *feed_starved(AlWire *wire);
static int	on_socket(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp);
static int	on_timer(CURLM *multi, long timeout_ms, void *clientp);
static int64_t now_us(void);

/* Sets up libcurl, epoll and the environment. */
AlWire *
al_wire_create(char *err, size_t err_len)
{
	AlWire	   *wire;
	sigset_t	before;
	bool		done;

	al_process_clean_environment();
	al_process_ignore_sigpipe();
	wire = calloc(1, sizeof(AlWire));
	if (wire == NULL)
	{
		(void) snprintf(err, err_len, "out of memory");
		return NULL;
	}
	wire->common.sockets.epoll_fd = -1;
	wire->deadline_us = -1;
	wire->n_kept = FIRST_KEPT;

	al_process_block_signals(&before);
	done = set_up(wire, err, err_len);
	al_process_restore_signals(&before);
	if (!done)
	{
		free(wire);
		return NULL;
	}
	return wire;
}

/* Takes everything down; what is under way is dropped. */
void
al_wire_destroy(AlWire *wire)
{
	sigset_t	before;
	AlWireResult *result;

	if (wire == NULL)
		return;

	al_process_block_signals(&before);
	while (wire->under_way)
	{
		AlRequest  *request = wire->under_way;

		(void) curl_multi_remove_handle(wire->multi, request->easy);
		unlink_request(wire, request);
		al_request_destroy(request);
	}
	(void) curl_multi_cleanup(wire->multi);
	(void) curl_share_cleanup(wire->common.share);
	al_sockets_release(&wire->common.sockets);
	curl_global_cleanup();
	al_process_restore_signals(&before);

	wire->n_starved = 0;
	while ((result = al_wire_next(wire)) != NULL)
		al_wire_result_free(result);
	free(wire->set_aside);
	free(wire);
}

/* Gives the descriptor to wait on. */
int
al_wire_fd(const AlWire *wire)
{
	return wire->common.sockets.epoll_fd;
}

/* Rounds up, so that libcurl's time has come when the owner wakes up. */
long
al_wire_timeout_ms(const AlWire *wire)
{
	int64_t		left;

	if (wire->first_finished || wire->n_starved > 0)
		return 0;
	if (wire->deadline_us < 0)
		return -1;
	left = wire->deadline_us - now_us();
	if (left <= 0)
		return 0;
	return left > (int64_t) INT_MAX * 1000 ? INT_MAX : (long) ((left + 999) / 1000);
}

/* Counts what libcurl has. */
int
al_wire_in_flight(const AlWire *wire)
{
	return wire->n_under_way;
}

/* Checks a request and gives it to libcurl. */
void
al_wire_send(AlWire *wire, const AlWireRequest *request)
{
	AlFinished *finished = al_finished_create(request->tag);
	const char *reason;

	if (finished == NULL)
	{
		if (wire->n_starved < STARVED_MAX)
			wire->starved[wire->n_starved++] = request->tag;
		return;
	}

	reason = al_check_request(request);
	if (reason)
		queue_refused(wire, finished, AL_END_BAD_REQUEST, reason);
	else
	{
		sigset_t	before;

		al_process_block_signals(&before);
		start(wire, request, finished);
		al_process_restore_signals(&before);
	}
}

/* Passes on what is ready and gathers what is done. */
void
al_wire_run(AlWire *wire)
{
	struct epoll_event events[EVENTS_PER_RUN];
	sigset_t	before;
	int			n;

	if (wire->multi == NULL)
		return;
	al_process_block_signals(&before);

	/* Sockets before time limits: an answer that is here is not late. */
	n = epoll_wait(wire->common.sockets.epoll_fd, events, EVENTS_PER_RUN, 0);
	for (int i = 0; i < n; i++)
	{
		int			bits = al_sockets_read_event(&wire->common.sockets, &events[i]);

		if (bits != 0)
			act(wire, events[i].data.fd, bits);
	}
	if (wire->deadline_us >= 0 && wire->deadline_us <= now_us())
	{
		wire->deadline_us = -1;
		act(wire, CURL_SOCKET_TIMEOUT, 0);
	}
	collect(wire);
	if (wire->n_deaf > 0)
		end_deaf(wire);
	if (wire->unsound)
		begin_anew(wire);

	al_process_restore_signals(&before);
}

/* Takes the oldest result off the queue. */
AlWireResult *
al_wire_next(AlWire *wire)
{
	AlFinished *finished = wire->first_finished;

	if (finished == NULL)
		finished = feed_starved(wire);
	else
	{
		wire->first_finished = finished->next;
		if (wire->first_finished == NULL)
			wire->last_finished = NULL;
	}
	return finished ? &finished->result : NULL;
}

/* Frees a result, which is the first part of its place in the queue. */
void
al_wire_result_free(AlWireResult *result)
{
	if (result == NULL)
		return;
	free(result->body);
	free((AlFinished *) result);
}

/* Cancels everything under way; what libcurl has finished already keeps its own ending. */
void
al_wire_abort_all(AlWire *wire)
{
	sigset_t	before;

	al_process_block_signals(&before);
	if (wire->multi)
		collect(wire);
	while (wire->under_way)
	{
		wire->under_way->aborted = true;
		end(wire, wire->under_way, CURLE_ABORTED_BY_CALLBACK);
	}
	al_process_restore_signals(&before);
}

/* Sets up what a wire consists of; on failure nothing of it is left. */
static bool
set_up(AlWire *wire, char *err, size_t err_len)
{
	const char *failure = NULL;
	curl_version_info_data *version;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		(void) snprintf(err, err_len, "could not initialize libcurl");
		return false;
	}

	version = curl_version_info(CURLVERSION_NOW);
	if (version->version_num < OLDEST_LIBCURL)
		failure = "libcurl is older than 7.80";
	else if (!al_sockets_init(&wire->common.sockets))
		failure = "could not create an epoll descriptor";
	else if ((wire->set_aside = al_finished_create(0)) == NULL ||
			 (wire->common.share = curl_share_init()) == NULL)
		failure = "out of memory";
	else if (curl_share_setopt(wire->common.share, CURLSHOPT_SHARE,
							   CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK ||
			 !make_multi(wire))
		failure = "out of memory, or libcurl refused an option";
	if (failure == NULL)
	{
		wire->common.ca_in_file = version->cainfo != NULL;
		return true;
	}

	(void) snprintf(err, err_len, "%s", failure);
	(void) curl_share_cleanup(wire->common.share);
	free(wire->set_aside);
	al_sockets_release(&wire->common.sockets);
	curl_global_cleanup();
	return false;
}

/* Makes the multi handle; false, and none, when that fails. */
static bool
make_multi(AlWire *wire)
{
	CURLM	   *multi = curl_multi_init();

	if (multi == NULL)
		return false;
	if (curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
		curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, (void *) wire) != CURLM_OK ||
		curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer) != CURLM_OK ||
		curl_multi_setopt(multi, CURLMOPT_TIMERDATA, (void *) wire) != CURLM_OK ||
		curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long) CURLPIPE_NOTHING) != CURLM_OK ||
		curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) wire->n_kept) != CURLM_OK)
	{
		(void) curl_multi_cleanup(multi);
		return false;
	}
	wire->multi = multi;
	return true;
}

/* Lets libcurl act on a socket or on its time, unless it broke off before. */
static void
act(AlWire *wire, curl_socket_t fd, int bits)
{
	int			running;

	if (!wire->unsound &&
		curl_multi_socket_action(wire->multi, fd, bits, &running) != CURLM_OK)
		wire->unsound = true;
}

/*
 * Ends what is under way and replaces the multi handle.  When memory runs out
 * in a call, libcurl (7.88.1) forgets sockets and timers of some transfers,
 * which would then never end, and divides by zero in a later call.
 */
static void
begin_anew(AlWire *wire)
{
	while (wire->under_way)
	{
		wire->under_way->local_failure = true;
		end(wire, wire->under_way, CURLE_OUT_OF_MEMORY);
	}
	(void) curl_multi_cleanup(wire->multi);
	wire->multi = NULL;
	wire->deadline_us = -1;
	wire->unsound = false;
	(void) make_multi(wire);
}

/* Puts a checked request under way, or queues why not. */
static void
start(AlWire *wire, const AlWireRequest *wanted, AlFinished *finished)
{
	AlRequest  *request = NULL;

	if (wire->multi || make_multi(wire))
		request = al_request_create(&wire->common);
	if (request == NULL)
	{
		queue_refused(wire, finished, AL_END_LOCAL, "out of memory");
		return;
	}
	if (!al_request_prepare(request, wanted, finished))
	{
		request->finished = NULL;
		al_request_destroy(request);
		queue_refused(wire, finished, AL_END_LOCAL, "out of memory, or libcurl refused an option");
		return;
	}
	link_request(wire, request);
	request->unsent = wanted->unsent;
	if (request->unsent)
		(*request->unsent)++;
	if (curl_multi_add_handle(wire->multi, request->easy) != CURLM_OK)
	{
		request->local_failure = true;
		end(wire, request, CURLE_OUT_OF_MEMORY);
	}
}

/* Enters a request among those under way. */
static void
link_request(AlWire *wire, AlRequest *request)
{
	request->previous = NULL;
	request->next = wire->under_way;
	if (request->next)
		request->next->previous = request;
	wire->under_way = request;
	wire->n_under_way++;

	/* With fewer than are busy, each would be closed when it becomes free. */
	if (wire->n_under_way > wire->n_kept)
	{
		wire->n_kept = wire->n_under_way + wire->n_under_way / 2;
		(void) curl_multi_setopt(wire->multi, CURLMOPT_MAXCONNECTS, (long) wire->n_kept);
	}
}

/* Takes a request out from among those under way. */
static void
unlink_request(AlWire *wire, AlRequest *request)
{
	if (request->previous)
		request->previous->next = request->next;
	else
		wire->under_way = request->next;
	if (request->next)
		request->next->previous = request->previous;
	wire->n_under_way--;
}

/*
 * Ends every transfer that libcurl reports as done.  All messages are read
 * first: removing a handle searches through those that are left.
 */
static void
collect(AlWire *wire)
{
	CURLMsg    *message;
	AlRequest  *done = NULL;
	AlRequest **last = &done;
	int			left;

	while ((message = curl_multi_info_read(wire->multi, &left)) != NULL)
	{
		char	   *found = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &found);
		if (found)
		{
			AlRequest  *request = (AlRequest *) found;

			request->code = message->data.result;
			request->next_done = NULL;
			*last = request;
			last = &request->next_done;
		}
	}
	while (done)
	{
		AlRequest  *request = done;

		done = request->next_done;
		end(wire, request, request->code);
	}
}

/* Ends the requests whose sockets would never be heard of again. */
static void
end_deaf(AlWire *wire)
{
	AlRequest  *request = wire->under_way;

	wire->n_deaf = 0;
	while (request)
	{
		AlRequest  *next = request->next;

		if (request->local_failure)
			end(wire, request, CURLE_OUT_OF_MEMORY);
		request = next;
	}
}

/* Takes a request from libcurl and queues its result. */
static void
end(AlWire *wire, AlRequest *request, CURLcode code)
{
	(void) curl_multi_remove_handle(wire->multi, request->easy);
	queue(wire, al_request_conclude(request, code));
	unlink_request(wire, request);
	al_request_destroy(request);
}

/* Queues the result of a request that was never put under way. */
static void
queue_refused(AlWire *wire, AlFinished *finished, AlEnding ending, const char *words)
{
	finished->result.evidence = (AlEvidence) {.ending = ending};
	al_request_describe(&finished->result, words);
	queue(wire, finished);
}

/* Puts a result at the end of the queue. */
static void
queue(AlWire *wire, AlFinished *finished)
{
	finished->next = NULL;
	if (wire->last_finished)
		wire->last_finished->next = finished;
	else
		wire->first_finished = finished;
	wire->last_finished = finished;
}

/* Makes the record of a request of which only the tag could be kept, or NULL. */
static AlFinished *
feed_starved(AlWire *wire)
{
	AlFinished *finished;

	if (wire->set_aside == NULL)
		wire->set_aside = al_finished_create(0);
	if (wire->n_starved == 0 || wire->set_aside == NULL)
		return NULL;

	finished = wire->set_aside;
	wire->set_aside = NULL;
	finished->result.tag = wire->starved[--wire->n_starved];
	finished->result.evidence = (AlEvidence) {.ending = AL_END_LOCAL};
	al_request_describe(&finished->result, "out of memory");
	return finished;
}

/* Hears from libcurl which events it wants of a socket. */
static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp)
{
	AlWire	   *wire = clientp;
	char	   *request = NULL;

	(void) socketp;
	if (al_sockets_want(&wire->common.sockets, fd, what))
		return 0;

	/* An error return would stop every transfer, not only this one. */
	(void) curl_easy_getinfo(easy, CURLINFO_PRIVATE, &request);
	if (request)
	{
		((AlRequest *) request)->local_failure = true;
		wire->n_deaf++;
	}
	return 0;
}

/* Hears from libcurl when it wants to be called. */
static int
on_timer(CURLM *multi, long timeout_ms, void *clientp)
{
	AlWire	   *wire = clientp;

	(void) multi;
	wire->deadline_us = timeout_ms < 0 ? -1 : now_us() + (int64_t) timeout_ms * 1000;
	return 0;
}

/* The monotonic clock; a jump of the wall clock ends nothing early. */
static int64_t
now_us(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
