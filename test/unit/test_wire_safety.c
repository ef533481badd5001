/*
 * test_wire_safety.c
 *		The wire against real sockets: what it must never do.
 *
 * It sends nothing that was not asked for, to no address that is forbidden, and
 * nothing twice.  The other side is scripted.h; effects are counted there.
 */
#include <sys/resource.h>

#include "tap.h"
#include "wired.h"

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

static void test_refusals(void);
static void test_permissions(void);
static void test_message(void);
static void test_echoed_secret(void);
static void test_no_second_transmission(void);
static void test_nothing_leaks_between_requests(void);
static void test_guard(void);
static void test_abort(void);
static void test_descriptors(void);

int
main(void)
{
	char		err[256];

	server = scripted_start();
	wire = al_wire_create(err, sizeof(err));
	if (wire == NULL)
	{
		diag("%s", err);
		return 1;
	}

	test_refusals();
	test_permissions();
	test_message();
	test_echoed_secret();
	test_no_second_transmission();
	test_nothing_leaks_between_requests();
	test_guard();
	test_abort();
	test_descriptors();

	al_wire_destroy(wire);
	scripted_stop(&server);
	return done_testing();
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
			tap_cell(body_contains(result, "\r\nContent-Length: 0\r\n") &&
					 memcmp(result->body, methods[i], strlen(methods[i])) == 0, "%s", methods[i]);
		al_wire_result_free(result);
		request = request_for(bare[i], "/echo-head");
		if ((result = exchange(&request)) != NULL)
			tap_cell(!body_contains(result, "Content-Length") && result->body &&
					 memcmp(result->body, bare[i], strlen(bare[i])) == 0, "%s", bare[i]);
		al_wire_result_free(result);
	}
	tap_group_end();

	/* The server knows /echo-head, but not this. */
	request = request_for("GET", "/x/../echo-head");
	result = exchange(&request);
	is_int(result ? (int) result->body_len : 0, 0, "dot segments are not rewritten");
	al_wire_result_free(result);
}

/* A destination that echoes what it was sent does not bring a secret back. */
static void
test_echoed_secret(void)
{
	static const char *const own[] = {"Authorization: Bearer sk_live_4711", "X-Account: 12345678"};
	static const char *const secrets[] = {"sk_live_4711"};
	AlWireRequest request = request_for("GET", "/echo-head");
	AlWireResult *result;

	request.headers = own;
	request.n_headers = 2;
	request.secrets = secrets;
	request.n_secrets = 1;
	tap_group("an echoed secret is masked");
	if ((result = exchange(&request)) != NULL)
	{
		tap_cell(!body_contains(result, "sk_live_4711"), "it is not in the body");
		tap_cell(body_contains(result, "\r\nAuthorization: Bearer ************\r\n"), "asterisks are");
		tap_cell(body_contains(result, "\r\nX-Account: 12345678\r\n"), "another header is as it was");
		tap_cell(result->evidence.framing_complete, "the body has its length");
	}
	al_wire_result_free(result);
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
