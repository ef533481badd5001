/*
 * test_wire.c
 *		The wire against real sockets: what it says was seen.
 *
 * The other side is scripted.h; what a test claims about effects is counted
 * there.
 */
#include <pthread.h>

#include "tap.h"
#include "wired.h"

#define ANY (-1)

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

static void test_process(void);
static void test_exchanges(void);
static void test_bodies(void);
static void test_caps(void);
static void test_times(void);
static void test_refused_connections(void);
static void test_trust(void);
static void test_kept_connection_ends(void);
static void test_many(void);
static bool keep_one_connection(void);

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
	test_bodies();
	test_caps();
	test_times();
	test_refused_connections();
	test_trust();
	test_kept_connection_ends();
	test_many();

	al_wire_destroy(wire);
	scripted_stop(&server);
	return done_testing();
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

			/* What a connection closed without a byte does when kept has a test of its own. */
			if (!fresh && strcmp(wanted->path, "/silent") == 0)
				continue;
			if (!fresh && !keep_one_connection())
				return;

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
			tap_cell(result->reused == !fresh, "reused %d", result->reused);
			tap_cell(server.truth->connections == fresh, "%d connections", server.truth->connections);
			tap_group_end();
			al_wire_result_free(result);
		}
	}
}

/* Begin with a new wire that has one connection, and that one alive. */
static bool
keep_one_connection(void)
{
	AlWireRequest request = request_for("POST", "/length");
	char		err[256];

	al_wire_destroy(wire);
	wire = al_wire_create(err, sizeof(err));
	if (!wire)
		return ok(false, "a wire can be created again");
	al_wire_result_free(exchange(&request));
	return true;
}

/* Bodies are bytes, in both directions. */
static void
test_bodies(void)
{
	static const char *const keep[] = {"content-encoding", NULL};
	const size_t size = 1024 * 1024;
	const size_t more_than_sockets_hold = 16 * size;
	char	   *body = calloc(1, more_than_sockets_hold);
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
	request.body_len = more_than_sockets_hold;
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
	static const size_t caps[] = {1, 7, 15, 1000, 1024, 65536, 262144};

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

/* A kept connection that the server ends does not keep the owner awake. */
static void
test_kept_connection_ends(void)
{
	AlWireRequest request = request_for("POST", "/length-and-end");
	struct pollfd ready = {.fd = al_wire_fd(wire), .events = POLLIN};

	tap_group("the end of a kept connection wakes the owner once");
	for (int i = 0; i < 10; i++)
	{
		/* libcurl 8 may take a connection that has ended, and then nothing is answered. */
		al_wire_result_free(exchange(&request));
		(void) poll(&ready, 1, 200);
		al_wire_run(wire);
		tap_cell(poll(&ready, 1, 0) == 0, "still readable");
	}
	tap_group_end();
}

/* Many at once, on fresh and on kept connections. */
static void
test_many(void)
{
	enum
	{
		MANY = 200
	};
	AlWireRequest request = request_for("POST", "/length");
	bool		seen[MANY] = {false};

	/* Under valgrind, so many processes of the server's take their time. */
	request.timeout_ms = request.connect_timeout_ms = 60000;
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
