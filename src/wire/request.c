/*
 * request.c
 *		One libcurl handle: its options, and the callbacks that watch it.
 *
 * Every request has a new handle.  Resetting a used one would save 3 % of the
 * time, but when memory runs out in curl_easy_reset(), which cannot say so, half
 * of the defaults are missing (7.88.1: a receive buffer of no bytes).
 *
 * What libcurl would do of its own accord (redirects, proxies from the
 * environment, decompression, a second transmission) is switched off here and
 * nowhere else.
 */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../rules/fault.h"
#include "check.h"
#include "guard.h"
#include "request.h"

#define FIRST_BODY_CAPACITY 1024
#define OWN_HEADERS 2			/* at most, besides the caller's */

/* Sets an option unless one before it was refused. */
#define SET(option, value) \
	(ok = ok && curl_easy_setopt(request->easy, (option), (value)) == CURLE_OK)

typedef struct Copies
{
	struct curl_slist *headers;
	const char *body;
} Copies;

static bool copy_request(AlRequest *request, const AlWireRequest *wanted, Copies *copies);
static bool set_transport(AlRequest *request, const AlWireRequest *wanted);
static bool set_trust(AlRequest *request, const AlWireRequest *wanted);
static bool set_message(AlRequest *request, const AlWireRequest *wanted, const Copies *copies);
static bool set_watchers(AlRequest *request);
static bool method_has_length(const char *method);
static long clamp_to_int(int64_t value);
static int	on_prereq(void *clientp, char *peer, char *local, int peer_port, int local_port);
static curl_socket_t on_open(void *clientp, curlsocktype purpose, struct curl_sockaddr *address);
static int	on_close(void *clientp, curl_socket_t fd);
static size_t on_head_line(char *line, size_t size, size_t n, void *clientp);
static size_t on_body(char *data, size_t size, size_t n, void *clientp);
static bool grow_body(AlRequest *request, size_t needed);
#ifdef AL_FAULT_BUILD
static int	on_debug(CURL *easy, curl_infotype type, char *data, size_t size, void *clientp);
#endif

/* Makes an empty result; the head, most of its 10 kB, is cleared only once. */
AlFinished *
al_finished_create(uint64_t tag)
{
	const size_t after_head = offsetof(AlFinished, result.head) + sizeof(AlHead);
	AlFinished *finished = malloc(sizeof(AlFinished));

	if (finished == NULL)
		return NULL;
	memset(finished, 0, offsetof(AlFinished, result.head));
	al_head_init(&finished->result.head);
	memset((char *) finished + after_head, 0, sizeof(AlFinished) - after_head);
	finished->result.tag = tag;
	return finished;
}

/* Makes a request with a libcurl handle. */
AlRequest *
al_request_create(AlRequestCommon *common)
{
	AlRequest  *request = calloc(1, sizeof(AlRequest));

	if (request == NULL)
		return NULL;
	request->common = common;
	request->easy = curl_easy_init();
	if (request->easy == NULL ||
		curl_easy_setopt(request->easy, CURLOPT_SHARE, common->share) != CURLE_OK)
	{
		al_request_destroy(request);
		return NULL;
	}
	return request;
}

/* Copies the request and sets every option. */
bool
al_request_prepare(AlRequest *request, const AlWireRequest *wanted, AlFinished *finished)
{
	Copies		copies;

	request->finished = finished;
	request->request_body_len = wanted->body_len;
	request->max_body = wanted->max_body;
	request->keep_headers = wanted->keep_headers;
	request->allow_private = wanted->allow_private;
	request->is_head = strcmp(wanted->method, "HEAD") == 0;

	return copy_request(request, wanted, &copies) &&
		set_transport(request, wanted) &&
		set_trust(request, wanted) &&
		set_message(request, wanted, &copies) &&
		set_watchers(request);
}

/* Frees a request; its handle must have left the multi handle. */
void
al_request_destroy(AlRequest *request)
{
	curl_easy_cleanup(request->easy);
	free(request->copy);
	if (request->finished)
		al_wire_result_free(&request->finished->result);
	free(request);
}

/* Copies headers, secrets and body into one piece of memory, in the form libcurl reads. */
static bool
copy_request(AlRequest *request, const AlWireRequest *wanted, Copies *copies)
{
	const char *lines[OWN_HEADERS];
	int			n_own = 0;
	size_t		n_lines;
	size_t		size;
	struct curl_slist *nodes;
	char	   *text;

	/* An empty value tells libcurl not to write this header of its own. */
	lines[n_own++] = "Expect:";
	if (!al_check_has_header(wanted, "content-type"))
		lines[n_own++] = "Content-Type:";

	n_lines = (size_t) n_own + (size_t) wanted->n_headers;
	size = n_lines * sizeof(struct curl_slist) + (size_t) wanted->n_secrets * sizeof(char *) + wanted->body_len + 1;
	for (size_t i = 0; i < n_lines; i++)
		size += strlen(i < (size_t) n_own ? lines[i] : wanted->headers[i - (size_t) n_own]) + 1;
	for (int i = 0; i < wanted->n_secrets; i++)
		size += strlen(wanted->secrets[i]) + 1;

	request->copy = malloc(size);
	if (request->copy == NULL)
		return false;
	nodes = request->copy;
	request->secrets = (const char **) (nodes + n_lines);
	request->n_secrets = wanted->n_secrets;
	text = (char *) (request->secrets + wanted->n_secrets);
	for (size_t i = 0; i < n_lines; i++)
	{
		const char *line = i < (size_t) n_own ? lines[i] : wanted->headers[i - (size_t) n_own];
		size_t		len = strlen(line) + 1;

		nodes[i].data = memcpy(text, line, len);
		nodes[i].next = i + 1 < n_lines ? &nodes[i + 1] : NULL;
		text += len;
	}
	for (int i = 0; i < wanted->n_secrets; i++)
	{
		size_t		len = strlen(wanted->secrets[i]) + 1;

		request->secrets[i] = memcpy(text, wanted->secrets[i], len);
		text += len;
	}
	if (wanted->body_len > 0)
		memcpy(text, wanted->body, wanted->body_len);
	text[wanted->body_len] = '\0';

	copies->headers = nodes;
	copies->body = text;
	return true;
}

/* Sets where the request goes and how, and that it goes nowhere else. */
static bool
set_transport(AlRequest *request, const AlWireRequest *wanted)
{
	bool		ok = true;

	SET(CURLOPT_ERRORBUFFER, request->error);
	SET(CURLOPT_PRIVATE, (void *) request);
	SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	SET(CURLOPT_QUICK_EXIT, 1L);
#endif
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, wanted->allow_http ? "http,https" : "https");
#else
	SET(CURLOPT_PROTOCOLS,
		(long) (wanted->allow_http ? CURLPROTO_HTTP | CURLPROTO_HTTPS : CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_HTTP09_ALLOWED, 0L);
	SET(CURLOPT_HTTP_CONTENT_DECODING, 0L);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_TIMEOUT_MS, clamp_to_int(wanted->timeout_ms));
	SET(CURLOPT_CONNECTTIMEOUT_MS, clamp_to_int(wanted->connect_timeout_ms));
	if (wanted->fresh)
	{
		SET(CURLOPT_FRESH_CONNECT, 1L);
		SET(CURLOPT_FORBID_REUSE, 1L);
	}
	return ok;
}

/* Sets whom to trust, and who we are. */
static bool
set_trust(AlRequest *request, const AlWireRequest *wanted)
{
	bool		ok = true;

	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);

	/*
	 * A directory of CAs would be trusted besides a CA file of the service's
	 * own, and keeps libcurl from caching the certificates it has parsed: every
	 * handshake would read them all again.
	 */
	if (wanted->ca_file)
		SET(CURLOPT_CAINFO, wanted->ca_file);
	if (wanted->ca_file || request->common->ca_in_file)
		SET(CURLOPT_CAPATH, NULL);

	if (wanted->client_cert)
		SET(CURLOPT_SSLCERT, wanted->client_cert);
	if (wanted->client_key)
		SET(CURLOPT_SSLKEY, wanted->client_key);

	/* Without one, OpenSSL asks the terminal for the password of a locked key. */
	if (wanted->client_cert || wanted->client_key)
		SET(CURLOPT_KEYPASSWD, "");
	return ok;
}

/* Sets the message: method, URL, headers and body. */
static bool
set_message(AlRequest *request, const AlWireRequest *wanted, const Copies *copies)
{
	bool		ok = true;

	SET(CURLOPT_URL, wanted->url);
	SET(CURLOPT_HTTPHEADER, copies->headers);

	if (request->is_head)
		SET(CURLOPT_NOBODY, 1L);
	else if (wanted->body_len > 0 || method_has_length(wanted->method))
	{
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) wanted->body_len);
		SET(CURLOPT_POSTFIELDS, copies->body);
		if (strcmp(wanted->method, "POST") != 0)
			SET(CURLOPT_CUSTOMREQUEST, wanted->method);
	}
	else
	{
		SET(CURLOPT_HTTPGET, 1L);
		if (strcmp(wanted->method, "GET") != 0)
			SET(CURLOPT_CUSTOMREQUEST, wanted->method);
	}
	return ok;
}

/* Sets the callbacks. */
static bool
set_watchers(AlRequest *request)
{
	bool		ok = true;

	SET(CURLOPT_PREREQFUNCTION, on_prereq);
	SET(CURLOPT_PREREQDATA, (void *) request);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
	SET(CURLOPT_OPENSOCKETDATA, (void *) request);
	SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
	SET(CURLOPT_CLOSESOCKETDATA, (void *) &request->common->sockets);
	SET(CURLOPT_HEADERFUNCTION, on_head_line);
	SET(CURLOPT_HEADERDATA, (void *) request);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, (void *) request);
#ifdef AL_FAULT_BUILD
	SET(CURLOPT_DEBUGFUNCTION, on_debug);
	SET(CURLOPT_VERBOSE, 1L);
#endif
	return ok;
}

/* Tells whether a method without a body says so with Content-Length: 0 (RFC 9110 section 8.6). */
static bool
method_has_length(const char *method)
{
	return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
		strcmp(method, "PATCH") == 0;
}

/* Fits a number of milliseconds into what libcurl takes. */
static long
clamp_to_int(int64_t value)
{
	return value > INT_MAX ? (long) INT_MAX : (long) value;
}

/*
 * Counts transmissions.  libcurl calls it when the connection stands and before
 * each first request byte; the second call is a hidden re-send and is refused.
 */
static int
on_prereq(void *clientp, char *peer, char *local, int peer_port, int local_port)
{
	AlRequest  *request = clientp;
	AlWireResult *result = &request->finished->result;

	(void) local;
	(void) peer_port;
	(void) local_port;

	if (result->evidence.prereqs > 0)
	{
		request->resend_blocked = true;
		return CURL_PREREQFUNC_ABORT;
	}

	/* A kept connection was opened under another request's permissions. */
	if (!al_guard_allows_text(peer, request->allow_private))
	{
		request->peer_refused = true;
		(void) snprintf(request->refused_address, sizeof(request->refused_address), "%s", peer);
		return CURL_PREREQFUNC_ABORT;
	}
	if (AL_FAULT_POINT("connected"))
	{
		request->local_failure = true;
		return CURL_PREREQFUNC_ABORT;
	}
	result->reused = request->n_opened == 0;
	result->evidence.prereqs++;
	al_request_leave_unsent(request);
	return CURL_PREREQFUNC_OK;
}

/* Takes a request out of its owner's count of those that have not begun. */
void
al_request_leave_unsent(AlRequest *request)
{
	if (request->unsent)
		(*request->unsent)--;
	request->unsent = NULL;
}

/* Opens a socket, if the guard permits the address. */
static curl_socket_t
on_open(void *clientp, curlsocktype purpose, struct curl_sockaddr *address)
{
	AlRequest  *request = clientp;
	int			fd;

	if (purpose != CURLSOCKTYPE_IPCXN || !al_guard_allows(&address->addr, request->allow_private))
	{
		request->n_refused++;
		if (getnameinfo(&address->addr, address->addrlen, request->refused_address,
						sizeof(request->refused_address), NULL, 0, NI_NUMERICHOST) != 0)
			request->refused_address[0] = '\0';
		return CURL_SOCKET_BAD;
	}

	fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
				address->protocol);
	if (fd < 0)
	{
		/* A family this host does not have is libcurl's to pass over. */
		if (errno != EAFNOSUPPORT)
			request->socket_failure = true;
		return CURL_SOCKET_BAD;
	}
	if (!al_sockets_opened(&request->common->sockets, fd))
	{
		request->socket_failure = true;
		close(fd);
		return CURL_SOCKET_BAD;
	}
	request->n_opened++;
	return fd;
}

/* Closes a socket; called long after the request that opened it, too. */
static int
on_close(void *clientp, curl_socket_t fd)
{
	al_sockets_closing(clientp, fd);
	return close(fd);
}

/* Takes one line of the response head; anything but n stops the transfer. */
static size_t
on_head_line(char *line, size_t size, size_t n, void *clientp)
{
	AlRequest  *request = clientp;
	AlHead	   *head = &request->finished->result.head;
	size_t		len = size * n;
	bool		too_long = head->bytes + len > AL_HEAD_MAX_BYTES;

	if (al_head_line(head, line, len, request->keep_headers))
		return len;
	if (too_long)
		request->capped = true;
	else
		request->garbled = true;
	return 0;
}

/* Takes a piece of the response body, up to the cap. */
static size_t
on_body(char *data, size_t size, size_t n, void *clientp)
{
	AlRequest  *request = clientp;
	AlWireResult *result = &request->finished->result;
	size_t		len = size * n;
	size_t		kept = len;

	if (!result->head.complete)
	{
		request->garbled = true;
		return 0;
	}
	if (kept > request->max_body - result->body_len)
	{
		kept = request->max_body - result->body_len;
		request->capped = true;
		result->body_capped = true;
	}
	if (kept > 0)
	{
		if (!grow_body(request, result->body_len + kept))
		{
			request->local_failure = true;
			return 0;
		}
		memcpy(result->body + result->body_len, data, kept);
		result->body_len += kept;
	}
	return kept == len ? len : 0;
}

/* Makes room for that many body bytes, doubling up to the cap. */
static bool
grow_body(AlRequest *request, size_t needed)
{
	AlWireResult *result = &request->finished->result;
	size_t		capacity = request->body_capacity;
	unsigned char *body;

	if (needed <= capacity)
		return true;
	if (capacity == 0)
		capacity = FIRST_BODY_CAPACITY;
	while (capacity < needed)
		capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
	if (capacity > request->max_body)
		capacity = request->max_body;

	body = realloc(result->body, capacity);
	if (body == NULL)
		return false;
	result->body = body;
	request->body_capacity = capacity;
	return true;
}

#ifdef AL_FAULT_BUILD

/* Notices the moment after the first request bytes were sent; prints nothing. */
static int
on_debug(CURL *easy, curl_infotype type, char *data, size_t size, void *clientp)
{
	(void) easy;
	(void) data;
	(void) size;
	(void) clientp;

	if (type == CURLINFO_HEADER_OUT)
		(void) AL_FAULT_POINT("first_byte");
	return 0;
}
#endif
