/*
 * test_wire.c
 *		The wire against real sockets: what it sends, and what it says was seen.
 *
 * The other side is scripted.h; what a test claims about effects is counted
 * there.  Every wait is for a condition and has a bound.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>

#include <curl/curl.h>

#include "../../src/wire/wire.h"
#include "scripted.h"
#include "tap.h"

#define PATIENCE_MS 20000		/* bound of every wait */
#define ANY (-1)

static Scripted server;
static AlWire *wire;

/* One exchange and what must be seen of it; ANY where libcurl versions differ. */
typedef struct Exchange
{
	const char *name;
	const char *method;
	const char *path;
	int			ending;
	bool		head_complete;
	int			status;
	bool		framing_complete;
	int			body_len;
} Exchange;

static const Exchange exchanges[] = {
	{"an answer with a length", "POST", "/length", AL_END_OK, true, 200, true, 5},
	{"a chunked answer", "POST", "/chunked", AL_END_OK, true, 200, true, 11},
	{"a chunked answer that breaks off", "POST", "/chunked-cut", AL_END_PARTIAL, true, 200, false, 5},
	{"a chunked answer of HTTP/1.0 that breaks off", "POST", "/chunked-10", ANY, true, 200, false, ANY},
	{"a connection closed without a byte", "POST", "/silent", AL_END_RECEIVE, false, 0, false, 0},
	{"a head that is cut off", "POST", "/head-cut", ANY, false, 200, false, 0},
	{"a status of four digits", "POST", "/status-2000", AL_END_GARBLED, false, 0, false, 0},
	{"an answer that is not HTTP", "POST", "/not-http", AL_END_GARBLED, false, 0, false, 0},
	{"a body shorter than its length", "POST", "/short", AL_END_PARTIAL, true, 200, false, 5},
	{"a body that ends with the connection", "POST", "/eof", AL_END_OK, true, 200, false, 5},
	{"204", "POST", "/no-content", AL_END_OK, true, 204, true, 0},
	{"304 with a length", "GET", "/not-modified", AL_END_OK, true, 304, true, 0},
	{"205 with no length but zero", "POST", "/reset-content", AL_END_OK, true, 205, true, 0},
	{"a redirect", "POST", "/redirect", AL_END_OK, true, 302, true, 0},
	{"a redirect that keeps the method", "POST", "/redirect-307", AL_END_OK, true, 307, true, 0},
	{"a challenge", "POST", "/unauthorized", AL_END_OK, true, 401, true, 0},
	{"an answer to HEAD", "HEAD", "/head-only", AL_END_OK, true, 200, true, 0},
	{"an informational answer first", "POST", "/early-hints", AL_END_OK, true, 200, true, 5},
	{"a switch of protocols", "POST", "/switch", ANY, false, 0, false, 0},
	{"a NUL in a header", "POST", "/nul-in-header", ANY, false, 200, false, 0},
	{"a head without end", "POST", "/endless-head", AL_END_CAPPED, false, 200, false, 0},
	{"503", "POST", "/unavailable", AL_END_OK, true, 503, true, 0},
};

/* A request that must come back without a connection. */
typedef struct Refusal
{
	const char *name;
	const char *method;
	const char *url;			/* %d: the port */
	const char *header;
	AlEnding	ending;
} Refusal;

static const Refusal refusals[] = {
	{"CR and LF in a header", "POST", "http://127.0.0.1:%d/length", "X-A: b\r\nX-Injected: c", AL_END_BAD_REQUEST},
	{"a bare LF in a header", "POST", "http://127.0.0.1:%d/length", "X-A: b\nX-Injected: c", AL_END_BAD_REQUEST},
	{"a bare CR in a header", "POST", "http://127.0.0.1:%d/length", "X-A: b\rc", AL_END_BAD_REQUEST},
	{"a header without a value", "POST", "http://127.0.0.1:%d/length", "Idempotency-Key:", AL_END_BAD_REQUEST},
	{"a header with a blank value", "POST", "http://127.0.0.1:%d/length", "Idempotency-Key:  ", AL_END_BAD_REQUEST},
	{"libcurl's form of an empty header", "POST", "http://127.0.0.1:%d/length", "X-A;", AL_END_BAD_REQUEST},
	{"a header without a name", "POST", "http://127.0.0.1:%d/length", ": b", AL_END_BAD_REQUEST},
	{"a space in a header's name", "POST", "http://127.0.0.1:%d/length", "X A: b", AL_END_BAD_REQUEST},
	{"a Content-Length of the caller's", "POST", "http://127.0.0.1:%d/length", "Content-Length: 1", AL_END_BAD_REQUEST},
	{"a Transfer-Encoding of the caller's", "POST", "http://127.0.0.1:%d/length", "transfer-encoding: chunked", AL_END_BAD_REQUEST},
	{"an Expect of the caller's", "POST", "http://127.0.0.1:%d/length", "Expect: 100-continue", AL_END_BAD_REQUEST},
	{"a method in lower case", "post", "http://127.0.0.1:%d/length", NULL, AL_END_BAD_REQUEST},
	{"a method with a space", "POST /x", "http://127.0.0.1:%d/length", NULL, AL_END_BAD_REQUEST},
	{"an empty method", "", "http://127.0.0.1:%d/length", NULL, AL_END_BAD_REQUEST},
	{"CONNECT", "CONNECT", "http://127.0.0.1:%d/length", NULL, AL_END_BAD_REQUEST},
	{"user information in the URL", "POST", "http://alice:secret@127.0.0.1:%d/length", NULL, AL_END_BAD_REQUEST},
	{"a space in the URL", "POST", "http://127.0.0.1:%d/a b", NULL, AL_END_BAD_REQUEST},
	{"LF in the URL", "POST", "http://127.0.0.1:%d/a\nb", NULL, AL_END_BAD_REQUEST},
	{"a URL without a host", "POST", "http:///length", NULL, AL_END_BAD_REQUEST},
	{"a relative URL", "POST", "/length", NULL, AL_END_BAD_REQUEST},
	{"a file", "GET", "file:///etc/passwd", NULL, AL_END_BAD_REQUEST},
	{"another protocol", "GET", "gopher://127.0.0.1:%d/", NULL, AL_END_BAD_REQUEST},
	{"a port out of range", "GET", "http://127.0.0.1:99999/", NULL, AL_END_BAD_REQUEST},
};

static const char *const forbidden_hosts[] = {
	"127.0.0.1", "127.1", "0x7f000001", "2130706433", "localhost", "[::1]",
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "0"
};

static void test_exchanges(void);
static void test_refusals(void);
static void test_permissions(void);
static void test_message(void);
static void test_bodies(void);
static void test_caps(void);
static void test_no_second_transmission(void);
static void test_nothing_leaks_between_requests(void);
static void test_guard(void);
static void test_times(void);
static void test_refused_connections(void);
static void test_trust(void);
static void test_abort(void);
static void test_descriptors(void);
static void test_process(void);
static void test_many(void);
static AlWireRequest request_for(const char *method, const char *path);
static const char *url_for(const char *host, const char *path);
static AlWireResult *exchange(const AlWireRequest *request);
static AlWireResult *next_result(void);
static bool wait_for(atomic_int *count, int wanted);
static void turn(int limit_ms);
static int64_t now_ms(void);
static bool body_contains(const AlWireResult *result, const char *text);
static int	closed_port(void);

int
main(void)
{
	char		err[256];

	server = scripted_start();
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	setenv("all_Proxy", "http://127.0.0.1:1", 1);
	setenv("SSLKEYLOGFILE", "/nonexistent/keys", 1);
	wire = al_wire_create(err, sizeof(err));
	if (wire == NULL)
	{
		diag("%s", err);
		return 1;
	}

	test_process();
	test_exchanges();
	test_refusals();
	test_permissions();
	test_message();
	test_bodies();
	test_caps();
	test_no_second_transmission();
	test_nothing_leaks_between_requests();
	test_guard();
	test_times();
	test_refused_connections();
	test_trust();
	test_abort();
	test_descriptors();
	test_many();

	al_wire_destroy(wire);
	scripted_stop(&server);
	return done_testing();
}

/* Each kind of answer is executed once and seen as it was, on fresh and on kept connections. */
static void
test_exchanges(void)
{
	for (int fresh = 1; fresh >= 0; fresh--)
	{
		for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		{
			const Exchange *wanted = &exchanges[i];
			AlWireRequest request = request_for(wanted->method, wanted->path);
			AlWireResult *result;
			AlEvidence *evidence;

			scripted_reset(&server);
			request.fresh = fresh;
			request.tag = 1000 + i;
			result = exchange(&request);
			if (result == NULL)
				continue;
			evidence = &result->evidence;

			tap_group(wanted->name);
			tap_cell(result->tag == 1000 + i, "tag %d", (int) result->tag);
			tap_cell(wanted->ending == ANY || (int) evidence->ending == wanted->ending,
					 "ending %d, code %d, \"%s\"", evidence->ending, result->curl_code, result->detail);
			tap_cell(evidence->prereqs == 1, "prereqs %d", evidence->prereqs);
			tap_cell(evidence->head_complete == wanted->head_complete, "head %d", evidence->head_complete);
			tap_cell(evidence->status == wanted->status, "status %d", evidence->status);
			tap_cell(evidence->framing_complete == wanted->framing_complete,
					 "framing %d", evidence->framing_complete);
			tap_cell(evidence->upload_complete, "upload %d", evidence->upload_complete);
			tap_cell(wanted->body_len == ANY || (int) result->body_len == wanted->body_len,
					 "body of %zu", result->body_len);
			tap_cell(server.truth->executions == 1, "executed %d times", server.truth->executions);
			tap_cell(server.truth->connections == (result->reused ? 0 : 1),
					 "%d connections, reused %d", server.truth->connections, result->reused);
			tap_cell(!(fresh && result->reused), "fresh on a kept connection");
			tap_group_end();
			al_wire_result_free(result);
		}
	}
}

/* What is not to be sent comes back as a result, without a connection. */
static void
test_refusals(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
	{
		const Refusal *wanted = &refusals[i];
		AlWireRequest request = request_for(wanted->method, "");
		char		url[256];
		AlWireResult *result;

		(void) snprintf(url, sizeof(url), "%s", wanted->url);
		if (strstr(wanted->url, "%d"))
			(void) snprintf(url, sizeof(url), "%.*s%d%s", (int) (strstr(wanted->url, "%d") - wanted->url),
							wanted->url, server.port, strstr(wanted->url, "%d") + 2);
		request.url = url;
		request.headers = &wanted->header;
		request.n_headers = wanted->header ? 1 : 0;
		scripted_reset(&server);
		result = exchange(&request);
		if (result == NULL)
			continue;
		tap_group(wanted->name);
		tap_cell(result->evidence.ending == wanted->ending, "ending %d", result->evidence.ending);
		tap_cell(result->evidence.prereqs == 0, "prereqs %d", result->evidence.prereqs);
		tap_cell(result->detail[0] != '\0', "there is a detail");
		tap_cell(strstr(result->detail, "secret") == NULL && strstr(result->detail, "127.0") == NULL,
				 "detail \"%s\"", result->detail);
		tap_cell(server.truth->connections == 0, "%d connections", server.truth->connections);
		tap_group_end();
		al_wire_result_free(result);
	}
}

/* Plain http needs its permission. */
static void
test_permissions(void)
{
	AlWireRequest request = request_for("POST", "/length");
	AlWireResult *result;

	scripted_reset(&server);
	request.allow_http = false;
	if ((result = exchange(&request)) == NULL)
		return;
	is_int(result->evidence.ending, AL_END_BAD_REQUEST, "plain http is refused unless permitted");
	is_int(server.truth->connections, 0, "and nothing is connected to");
	al_wire_result_free(result);
}

/* The message on the wire is the caller's, and nothing else. */
static void
test_message(void)
{
	static const char *const own[] = {"X-One: 1", "Authorization: Bearer abc", "X-High: \xc3\xa4"};
	static const char *const unwanted[] = {
		"Expect:", "Content-Type:", "Accept-Encoding:", "User-Agent:", "Proxy", "Cookie:"
	};
	static const char *const methods[] = {"POST", "PUT", "PATCH"};
	static const char *const bare[] = {"GET", "DELETE", "OPTIONS"};
	AlWireRequest request = request_for("DELETE", "/echo-head");
	AlWireResult *result;

	request.url = url_for("127.0.0.1", "/echo-head");
	request.headers = own;
	request.n_headers = 3;
	tap_group("headers go out as they are, and libcurl adds none");
	if ((result = exchange(&request)) != NULL)
	{
		tap_cell(body_contains(result, "DELETE /echo-head HTTP/1.1\r\n"), "request line");
		for (int i = 0; i < 3; i++)
			tap_cell(body_contains(result, own[i]), "%s", own[i]);
		for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
			tap_cell(!body_contains(result, unwanted[i]), "no %s", unwanted[i]);
		al_wire_result_free(result);
	}
	tap_group_end();

	tap_group("a length of zero is said where the method calls for one");
	for (int i = 0; i < 3; i++)
	{
		request = request_for(methods[i], "/echo-head");
		if ((result = exchange(&request)) != NULL)
			tap_cell(body_contains(result, "\r\nContent-Length: 0\r\n"), "%s", methods[i]);
		al_wire_result_free(result);
		request = request_for(bare[i], "/echo-head");
		if ((result = exchange(&request)) != NULL)
			tap_cell(!body_contains(result, "Content-Length"), "%s", bare[i]);
		al_wire_result_free(result);
	}
	tap_group_end();

	/* The server knows /echo-head, but not this. */
	request = request_for("GET", "/x/../echo-head");
	result = exchange(&request);
	is_int(result ? (int) result->body_len : 0, 0, "dot segments are not rewritten");
	al_wire_result_free(result);
}

/* Bodies are bytes, in both directions. */
static void
test_bodies(void)
{
	static const char *const keep[] = {"content-encoding", NULL};
	const size_t size = 1024 * 1024;
	char	   *body = malloc(size);
	AlWireRequest request = request_for("PUT", "/echo-body");
	AlWireResult *result;

	for (size_t i = 0; body && i < size; i++)
		body[i] = (char) (i * 7 % 256);
	request.body = body;
	request.body_len = 256;
	result = exchange(&request);
	ok(result && result->body_len == 256 && memcmp(result->body, body, 256) == 0,
	   "every byte value travels, NUL included");
	al_wire_result_free(result);

	request.body_len = size;
	request.max_body = size;
	result = exchange(&request);
	ok(result && result->body_len == size && memcmp(result->body, body, size) == 0 &&
	   result->evidence.framing_complete && !result->body_capped,
	   "a megabyte travels both ways, exactly to the cap");
	ok(result && result->evidence.upload_complete, "and its upload counts as complete");
	al_wire_result_free(result);

	scripted_reset(&server);
	request = request_for("POST", "/refuse-upload");
	request.fresh = true;
	request.body = body;
	request.body_len = size;
	result = exchange(&request);
	ok(result && result->evidence.status == 413 && result->evidence.head_complete &&
	   result->evidence.prereqs == 1, "an answer before the end of the upload is seen");
	ok(result && !result->evidence.upload_complete, "and the upload counts as incomplete");
	is_int(server.truth->connections, 1, "and it is not tried again");
	al_wire_result_free(result);

	request = request_for("POST", "/gzip");
	request.keep_headers = keep;
	result = exchange(&request);
	ok(result && result->body_len == 8 && memcmp(result->body, "\x1f\x8b\x08\0\0\0\0\0", 8) == 0,
	   "a compressed body is kept as it came");
	is_str(result ? al_head_find(&result->head, "Content-Encoding") : NULL, "gzip",
		   "and a header asked for is kept");
	al_wire_result_free(result);
	free(body);
}

/* What has no end is stopped at the cap. */
static void
test_caps(void)
{
	static const size_t caps[] = {1, 1000, 1024, 65536, 262144};

	tap_group("an endless body is cut at the cap");
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
	{
		AlWireRequest request = request_for("POST", "/endless-body");
		AlWireResult *result;

		request.max_body = caps[i];
		if (!tap_cell((result = exchange(&request)) != NULL, "a result"))
			continue;
		tap_cell(result->evidence.ending == AL_END_CAPPED && result->body_capped, "capped at %zu", caps[i]);
		tap_cell(result->body_len == caps[i], "%zu of %zu bytes kept", result->body_len, caps[i]);
		tap_cell(result->evidence.head_complete && result->evidence.status == 200 &&
				 !result->evidence.framing_complete, "evidence at %zu", caps[i]);
		al_wire_result_free(result);
	}
	tap_group_end();
}

/* A kept connection that dies with the request on it is not replaced by another. */
static void
test_no_second_transmission(void)
{
	AlWireRequest first = request_for("POST", "/length");
	AlWireRequest second = request_for("POST", "/silent");
	AlWireResult *result;

	for (int n_kept = 1; n_kept <= 3; n_kept++)
	{
		tap_group("a kept connection dies with the request on it");
		for (int i = 0; i < n_kept; i++)
			al_wire_send(wire, &first);
		for (int i = 0; i < n_kept; i++)
			al_wire_result_free(next_result());

		scripted_reset(&server);
		second.body = n_kept == 2 ? NULL : "{}";
		second.body_len = n_kept == 2 ? 0 : 2;
		if (tap_cell((result = exchange(&second)) != NULL, "a result"))
		{
			tap_cell(result->reused, "sent on a kept connection");
			tap_cell(result->evidence.ending == AL_END_RESEND_BLOCKED, "ending %d, \"%s\"",
					 result->evidence.ending, result->detail);
			tap_cell(result->evidence.prereqs == 1, "prereqs %d", result->evidence.prereqs);
			tap_cell(!result->evidence.head_complete, "head");
		}
		al_wire_result_free(result);

		/* Whatever is on its way would be counted before this one's answer. */
		first.fresh = true;
		al_wire_result_free(exchange(&first));
		first.fresh = false;
		tap_cell(server.truth->executions == 2, "executed %d times", server.truth->executions - 1);
		tap_group_end();
	}

	/* And with nobody listening any more. */
	{
		Scripted	mortal = scripted_start();
		Scripted	immortal = server;

		server = mortal;
		first.url = url_for("127.0.0.1", "/length");
		al_wire_result_free(exchange(&first));
		second.url = url_for("127.0.0.1", "/last-words");
		result = exchange(&second);
		tap_group("the server is gone after reading the request");
		tap_cell(result && result->evidence.prereqs == 1, "prereqs");
		tap_cell(result && result->evidence.ending == AL_END_RECEIVE, "ending %d, \"%s\"",
				 result ? (int) result->evidence.ending : -1, result ? result->detail : "");
		tap_cell(server.truth->executions == 2, "executed %d times", server.truth->executions - 1);
		tap_group_end();
		al_wire_result_free(result);
		server = immortal;
		scripted_stop(&mortal);
	}
}

/* A handle that was used before, or is in use beside, gives nothing of its request away. */
static void
test_nothing_leaks_between_requests(void)
{
	static const char *const first_header[] = {"Authorization: Bearer first"};
	static const char *const second_header[] = {"X-Second: second"};
	AlWireRequest first = request_for("POST", "/echo-head");
	AlWireRequest second = request_for("GET", "/echo-head");
	AlWireResult *result;

	first.headers = first_header;
	first.n_headers = 1;
	first.body = "first body";
	first.body_len = 10;
	first.tag = 1;
	second.headers = second_header;
	second.n_headers = 1;
	second.tag = 2;

	tap_group("requests do not leak into one another");
	for (int together = 0; together <= 1; together++)
	{
		al_wire_send(wire, &first);
		if (!together)
		{
			result = next_result();
			tap_cell(result && body_contains(result, "Bearer first"), "the first alone");
			al_wire_result_free(result);
		}
		al_wire_send(wire, &second);
		for (int i = 0; i <= together; i++)
		{
			if (!tap_cell((result = next_result()) != NULL, "a result"))
				continue;
			tap_cell(body_contains(result, "Bearer first") == (result->tag == 1), "tag %d", (int) result->tag);
			tap_cell(body_contains(result, "X-Second") == (result->tag == 2), "tag %d", (int) result->tag);
			tap_cell(body_contains(result, "Content-Length") == (result->tag == 1), "tag %d", (int) result->tag);
			al_wire_result_free(result);
		}
	}
	tap_group_end();
}

/* Forbidden addresses are refused before the first packet, and on kept connections. */
static void
test_guard(void)
{
	AlWireRequest request = request_for("POST", "/length");
	AlWireResult *result;

	tap_group("forbidden addresses are not connected to");
	for (size_t i = 0; i < sizeof(forbidden_hosts) / sizeof(forbidden_hosts[0]); i++)
	{
		scripted_reset(&server);
		request.allow_private = false;
		request.fresh = true;
		request.url = url_for(forbidden_hosts[i], "/length");
		if (!tap_cell((result = exchange(&request)) != NULL, "a result"))
			continue;
		tap_cell(result->evidence.ending == AL_END_ADDRESS_REFUSED && result->evidence.prereqs == 0,
				 "%s: ending %d, \"%s\"", forbidden_hosts[i], result->evidence.ending, result->detail);
		tap_cell(server.truth->connections == 0, "%s: %d connections", forbidden_hosts[i],
				 server.truth->connections);
		al_wire_result_free(result);
	}
	tap_group_end();

	request = request_for("POST", "/length");
	al_wire_result_free(exchange(&request));
	scripted_reset(&server);
	request.allow_private = false;
	result = exchange(&request);
	ok(result && result->evidence.ending == AL_END_ADDRESS_REFUSED && result->evidence.prereqs == 0,
	   "a connection kept by a permitted request is refused to another");
	is_int(server.truth->executions, 0, "and nothing is sent on it");
	al_wire_result_free(result);
}

/* Time limits before and after sending. */
static void
test_times(void)
{
	static const char *const hanging[] = {"/hang", "/hints-then-hang"};
	AlWireRequest request;
	AlWireResult *result;
	int64_t		started;

	for (int i = 0; i < 2; i++)
	{
		scripted_reset(&server);
		request = request_for("POST", hanging[i]);
		request.timeout_ms = 300;
		started = now_ms();
		result = exchange(&request);
		ok(result && result->evidence.ending == AL_END_TIMEOUT && result->evidence.prereqs == 1 &&
		   !result->evidence.head_complete && result->evidence.status == 0,
		   "a time limit after sending to %s is seen as such", hanging[i]);
		ok(now_ms() - started >= 290 && now_ms() - started < 5000, "and in time");
		is_int(server.truth->executions, 1, "the request was executed");
		al_wire_result_free(result);
	}

	/* A server that says nothing to a TLS greeting: connected, yet nothing is sent. */
	for (int i = 0; i < 2; i++)
	{
		char		url[128];

		scripted_reset(&server);
		(void) snprintf(url, sizeof(url), "https://127.0.0.1:%d/length", server.port);
		request = request_for("POST", "/length");
		request.url = url;
		request.timeout_ms = i == 0 ? 300 : 10000;
		request.connect_timeout_ms = i == 0 ? 10000 : 300;
		started = now_ms();
		result = exchange(&request);
		ok(result && result->evidence.ending == AL_END_TIMEOUT && result->evidence.prereqs == 0,
		   "the %s time limit before sending is seen as such", i == 0 ? "total" : "connect");
		ok(now_ms() - started < 5000, "and in time");
		is_int(server.truth->executions, 0, "nothing was executed");
		al_wire_result_free(result);
	}
}

/* Nothing leaves where nobody listens or the name is unknown. */
static void
test_refused_connections(void)
{
	AlWireRequest request = request_for("POST", "/");
	AlWireResult *result;
	char		url[128];

	(void) snprintf(url, sizeof(url), "http://127.0.0.1:%d/?secret=1", closed_port());
	request.url = url;
	result = exchange(&request);
	ok(result && result->evidence.ending == AL_END_CONNECT && result->evidence.prereqs == 0,
	   "a refused connection is seen as such");
	ok(result && result->detail[0] != '\0' && strstr(result->detail, "secret") == NULL,
	   "its detail does not quote the URL");
	al_wire_result_free(result);

	request.url = "http://name.invalid/";
	request.timeout_ms = 2000;
	result = exchange(&request);
	ok(result && result->evidence.prereqs == 0 &&
	   (result->evidence.ending == AL_END_RESOLVE || result->evidence.ending == AL_END_TIMEOUT),
	   "an unknown name is seen as such");
	al_wire_result_free(result);
}

/* Unusable files are told from handshakes that fail. */
static void
test_trust(void)
{
	AlWireRequest request = request_for("POST", "/length");
	AlWireResult *result;
	char		url[128];

	(void) snprintf(url, sizeof(url), "https://127.0.0.1:%d/length", server.port);
	request.url = url;
	request.ca_file = "/nonexistent/ca.pem";
	result = exchange(&request);
	ok(result && result->evidence.ending == AL_END_BAD_TRUST && result->evidence.prereqs == 0,
	   "a missing CA file is configuration");
	al_wire_result_free(result);

	request.ca_file = NULL;
	request.client_cert = "/nonexistent/cert.pem";
	request.client_key = "/nonexistent/key.pem";
	result = exchange(&request);
	ok(result && result->evidence.ending == AL_END_BAD_TRUST && result->evidence.prereqs == 0,
	   "a missing client certificate is configuration");
	al_wire_result_free(result);
}

/* Cancelling tells what left from what did not. */
static void
test_abort(void)
{
	AlWireRequest unsent = request_for("POST", "/hang");
	AlWireRequest greeting = request_for("POST", "/hang");
	AlWireRequest sent = request_for("POST", "/hang");
	int			seen[4] = {0};
	char		url[128];

	(void) snprintf(url, sizeof(url), "https://127.0.0.1:%d/hang", server.port);
	scripted_reset(&server);
	greeting.url = url;
	greeting.tag = 1;
	sent.tag = 2;
	sent.fresh = true;
	unsent.tag = 3;
	al_wire_send(wire, &greeting);
	al_wire_send(wire, &sent);
	ok(wait_for(&server.truth->executions, 1) && wait_for(&server.truth->connections, 2),
	   "one request is executed, another is still greeting");
	al_wire_send(wire, &unsent);
	is_int(al_wire_in_flight(wire), 3, "three requests are under way");

	al_wire_abort_all(wire);
	is_int(al_wire_in_flight(wire), 0, "after cancelling, none is");
	is_int(al_wire_timeout_ms(wire), 0, "and results are ready");
	for (int i = 0; i < 3; i++)
	{
		AlWireResult *result = al_wire_next(wire);

		if (result && result->tag < 4 && result->evidence.ending == AL_END_ABORTED)
			seen[result->tag] = 1 + result->evidence.prereqs;
		al_wire_result_free(result);
	}
	ok(al_wire_next(wire) == NULL, "each has one result");
	is_int(seen[1], 1, "the one that was greeting was not sent");
	is_int(seen[2], 2, "the one that was executed was sent");
	is_int(seen[3], 1, "the one that had not begun was not sent");
}

/* Running out of descriptors is this side's trouble. */
static void
test_descriptors(void)
{
	AlWireRequest request = request_for("POST", "/length");
	AlWireResult *result;
	struct rlimit before;
	struct rlimit none;
	int			fd = dup(0);

	close(fd);
	(void) getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit) {.rlim_cur = (rlim_t) fd, .rlim_max = before.rlim_max};
	scripted_reset(&server);
	request.fresh = true;
	(void) setrlimit(RLIMIT_NOFILE, &none);
	result = exchange(&request);
	(void) setrlimit(RLIMIT_NOFILE, &before);
	ok(result && result->evidence.ending == AL_END_LOCAL && result->evidence.prereqs == 0,
	   "no descriptor left is a local failure");
	al_wire_result_free(result);

	result = exchange(&request);
	ok(result && result->evidence.status == 200, "and is over when it is over");
	al_wire_result_free(result);
}

/* The process is left as it was, except for what would redirect or record requests. */
static void
test_process(void)
{
	AlWireRequest request = request_for("POST", "/length");
	AlWireResult *result;
	sigset_t	mask;
	bool		clean = true;

	ok(!getenv("http_proxy") && !getenv("HTTPS_PROXY") && !getenv("all_Proxy") && !getenv("SSLKEYLOGFILE"),
	   "proxy and key log variables are gone");
	ok(getenv("PATH") != NULL, "others are not");
	is_int(al_wire_timeout_ms(wire), -1, "an idle wire waits for nothing");

	result = exchange(&request);
	ok(result && result->evidence.status == 200 && result->timing.total > 0 &&
	   result->timing.first_byte > 0 && !result->reused, "a request is timed");
	al_wire_result_free(result);
	result = exchange(&request);
	ok(result && result->evidence.status == 200 && result->reused, "the next uses the same connection");
	al_wire_result_free(result);

	(void) pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int signal_number = 1; signal_number < 32; signal_number++)
		clean = clean && sigismember(&mask, signal_number) == 0;
	ok(clean, "no signal is left blocked");
}

/* Many at once, more than there are pooled handles and kept connections. */
static void
test_many(void)
{
	enum
	{
		MANY = 300
	};
	AlWireRequest request = request_for("POST", "/length");
	bool		seen[MANY] = {false};

	scripted_reset(&server);
	tap_group("many requests at once each have one result");
	for (int i = 0; i < MANY; i++)
	{
		request.tag = (uint64_t) i;
		request.fresh = i % 3 == 0;
		al_wire_send(wire, &request);
	}
	for (int i = 0; i < MANY; i++)
	{
		AlWireResult *result = next_result();

		if (!tap_cell(result && result->tag < MANY && !seen[result->tag], "result %d", i))
			break;
		seen[result->tag] = true;
		tap_cell(result->evidence.status == 200 && result->evidence.framing_complete,
				 "status %d, ending %d, \"%s\"", result->evidence.status, result->evidence.ending, result->detail);
		al_wire_result_free(result);
	}
	tap_cell(server.truth->executions == MANY, "%d executed", server.truth->executions);
	tap_group_end();
}

/* A request with everything permitted. */
static AlWireRequest
request_for(const char *method, const char *path)
{
	bool		bare = strcmp(method, "POST") != 0 || strcmp(path, "/echo-head") == 0;

	return (AlWireRequest) {
		.method = method,
		.url = url_for("127.0.0.1", path),
		.body = bare ? NULL : "{\"a\":1}",
		.body_len = bare ? 0 : 7,
		.timeout_ms = 10000,
		.connect_timeout_ms = 5000,
		.allow_http = true,
		.allow_private = true,
		.max_body = 65536
	};
}

/* A URL of the server, good until eight more have been asked for. */
static const char *
url_for(const char *host, const char *path)
{
	static char urls[8][256];
	static int	turns = 0;
	char	   *url = urls[turns++ % 8];

	(void) snprintf(url, sizeof(urls[0]), "http://%s:%d%s", host, server.port, path);
	return url;
}

/* Send one request and wait for its result; NULL, and a failed test, when none comes. */
static AlWireResult *
exchange(const AlWireRequest *request)
{
	al_wire_send(wire, request);
	return next_result();
}

/* Wait for a result. */
static AlWireResult *
next_result(void)
{
	int64_t		bound = now_ms() + PATIENCE_MS;
	AlWireResult *result;

	while ((result = al_wire_next(wire)) == NULL && now_ms() < bound)
		turn(1000);
	if (result == NULL)
		ok(false, "a result comes in time");
	return result;
}

/* Drive the wire until a count of the server's is reached. */
static bool
wait_for(atomic_int *count, int wanted)
{
	int64_t		bound = now_ms() + PATIENCE_MS;

	while (*count < wanted && now_ms() < bound)
		turn(5);
	return *count >= wanted;
}

/* Wait as an owner does, at most so long, then let the wire run. */
static void
turn(int limit_ms)
{
	struct pollfd ready = {.fd = al_wire_fd(wire), .events = POLLIN};
	long		timeout_ms = al_wire_timeout_ms(wire);

	if (timeout_ms < 0 || timeout_ms > limit_ms)
		timeout_ms = limit_ms;
	(void) poll(&ready, 1, (int) timeout_ms);
	al_wire_run(wire);
}

static int64_t
now_ms(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool
body_contains(const AlWireResult *result, const char *text)
{
	return result->body && memmem(result->body, result->body_len, text, strlen(text)) != NULL;
}

/* A port where nobody listens. */
static int
closed_port(void)
{
	int			port;

	close(scripted_listen(&port));
	return port;
}
