/*
 * wired.h
 *		Driving a wire against the scripted server, as its owner does.
 *
 * Included once per test program, after tap.h.  Every wait is for a condition
 * and has a bound.
 */
#ifndef AL_TEST_WIRED_H
#define AL_TEST_WIRED_H

#include <time.h>

#include "../../src/wire/wire.h"
#include "scripted.h"

#define PATIENCE_MS 20000		/* bound of every wait */

static Scripted server;
static AlWire *wire;

static AlWireRequest request_for(const char *method, const char *path);
static const char *url_for(const char *host, const char *path);
static AlWireResult *exchange(const AlWireRequest *request);
static AlWireResult *next_result(void);
static bool wait_for(atomic_int *count, int wanted);
static void turn(int limit_ms);
static int64_t now_ms(void);
static bool body_contains(const AlWireResult *result, const char *text);
static int	closed_port(void);

/* A request with everything permitted. */
static AlWireRequest __attribute__((unused))
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
static const char * __attribute__((unused))
url_for(const char *host, const char *path)
{
	static char urls[8][256];
	static int	turns = 0;
	char	   *url = urls[turns++ % 8];

	(void) snprintf(url, sizeof(urls[0]), "http://%s:%d%s", host, server.port, path);
	return url;
}

/* Send one request and wait for its result; NULL, and a failed test, when none comes. */
static AlWireResult * __attribute__((unused))
exchange(const AlWireRequest *request)
{
	al_wire_send(wire, request);
	return next_result();
}

/* Wait for a result. */
static AlWireResult * __attribute__((unused))
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
static bool __attribute__((unused))
wait_for(atomic_int *count, int wanted)
{
	int64_t		bound = now_ms() + PATIENCE_MS;

	while (*count < wanted && now_ms() < bound)
		turn(5);
	return *count >= wanted;
}

/* Wait as an owner does, at most so long, then let the wire run. */
static void __attribute__((unused))
turn(int limit_ms)
{
	struct pollfd ready = {.fd = al_wire_fd(wire), .events = POLLIN};
	long		timeout_ms = al_wire_timeout_ms(wire);

	if (timeout_ms < 0 || timeout_ms > limit_ms)
		timeout_ms = limit_ms;
	(void) poll(&ready, 1, (int) timeout_ms);
	al_wire_run(wire);
}

static int64_t __attribute__((unused))
now_ms(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool __attribute__((unused))
body_contains(const AlWireResult *result, const char *text)
{
	return result->body && memmem(result->body, result->body_len, text, strlen(text)) != NULL;
}

/* A port where nobody listens. */
static int __attribute__((unused))
closed_port(void)
{
	int			port;

	close(scripted_listen(&port));
	return port;
}

#endif							/* AL_TEST_WIRED_H */
