/*
 * test_wire_memory.c
 *		The wire when memory runs out: each allocation of an exchange fails once.
 *
 * The n-th allocation is refused, for every n until an exchange needs fewer.
 * Whatever fails, the request has exactly one result, and a result that says
 * "not sent" was not executed.
 */
#include <pthread.h>
#include <time.h>

#include "../../src/wire/wire.h"
#include "scripted.h"
#include "tap.h"

#define PATIENCE_MS 20000
#define ALLOCATIONS_MAX 20000	/* far more than an exchange makes */

static volatile long allocations_left = -1;	/* until one is refused; negative: none will be */
static volatile bool refused = false;

static Scripted server;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static bool can_refuse(void);
static bool exchange_without(long n, bool from_creation);
static AlWireResult *wait_for_result(AlWire *wire);
static int64_t now_ms(void);

#ifndef __SANITIZE_ADDRESS__

/* Tell whether this allocation is the one. */
static bool
refuse_this_one(void)
{
	if (allocations_left < 0 || allocations_left-- > 0)
		return false;
	refused = true;
	return true;
}

/* glibc's allocator, with failures. */
void *
malloc(size_t size)
{
	return refuse_this_one() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	return refuse_this_one() ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *old, size_t size)
{
	return refuse_this_one() ? NULL : __libc_realloc(old, size);
}
#endif

int
main(void)
{
	if (!can_refuse())
	{
		printf("1..0 # SKIP another allocator is in charge\n");
		return 0;
	}
	server = scripted_start();
	for (int from_creation = 0; from_creation <= 1; from_creation++)
	{
		long		n = 0;

		tap_group(from_creation ? "each allocation fails once, from the creation of the wire on" :
				  "each allocation fails once, from the sending on");
		while (n < ALLOCATIONS_MAX && exchange_without(n, from_creation))
			n++;
		tap_cell(n > 20 && n < ALLOCATIONS_MAX, "%ld allocations", n);
		tap_group_end();
	}
	scripted_stop(&server);
	return done_testing();
}

/* Tell whether our allocator is the one in use; under valgrind or a sanitizer it is not. */
static bool
can_refuse(void)
{
	void	   *volatile memory;

	allocations_left = 0;
	memory = malloc(16);
	allocations_left = -1;
	free(memory);
	return memory == NULL;
}

/* Make one exchange in which allocation n is refused; false when it needs fewer. */
static bool
exchange_without(long n, bool from_creation)
{
	char		url[128];
	char		err[256];
	static const char *const headers[] = {"X-One: 1", "Content-Type: text/plain"};
	static const char *const keep[] = {"x-kept", NULL};
	AlWireRequest request = {
		.tag = (uint64_t) n, .method = "POST", .url = url, .headers = headers, .n_headers = 2,
		.body = "x", .body_len = 1, .timeout_ms = 5000, .connect_timeout_ms = 5000,
		.allow_http = true, .allow_private = true, .max_body = 1000, .keep_headers = keep
	};
	AlWire	   *wire;
	AlWireResult *result;
	int			executions;

	(void) snprintf(url, sizeof(url), "http://127.0.0.1:%d/length", server.port);
	scripted_reset(&server);
	refused = false;

	allocations_left = from_creation ? n : -1;
	wire = al_wire_create(err, sizeof(err));
	if (wire == NULL)
	{
		allocations_left = -1;
		return tap_cell(refused && err[0] != '\0', "a wire that cannot be created says why");
	}
	if (!from_creation)
		allocations_left = n;
	al_wire_send(wire, &request);
	result = wait_for_result(wire);
	allocations_left = -1;

	executions = server.truth->executions;
	if (tap_cell(result != NULL, "allocation %ld: a result", n))
	{
		const AlEvidence *evidence = &result->evidence;

		tap_cell(result->tag == (uint64_t) n, "allocation %ld: tag %d", n, (int) result->tag);
		tap_cell(executions <= 1 && executions <= evidence->prereqs,
				 "allocation %ld: executed %d times, prereqs %d", n, executions, evidence->prereqs);
		tap_cell(refused || (evidence->status == 200 && evidence->framing_complete),
				 "allocation %ld: status %d, ending %d, \"%s\"", n, evidence->status, evidence->ending,
				 result->detail);
		tap_cell(evidence->ending != AL_END_OK || (evidence->status == 200 && result->body_len == 5),
				 "allocation %ld: an answer is whole or not OK", n);
	}
	tap_cell(al_wire_next(wire) == NULL && al_wire_in_flight(wire) == 0, "allocation %ld: one result", n);
	al_wire_result_free(result);

	/* The wire has survived. */
	request.tag = 7;
	al_wire_send(wire, &request);
	result = wait_for_result(wire);
	tap_cell(result && result->tag == 7 && result->evidence.status == 200,
			 "allocation %ld: the next request is answered, ending %d, \"%s\"", n,
			 result ? (int) result->evidence.ending : -1, result ? result->detail : "");
	al_wire_result_free(result);
	al_wire_destroy(wire);
	return refused;
}

/* Drive the wire until there is a result. */
static AlWireResult *
wait_for_result(AlWire *wire)
{
	int64_t		bound = now_ms() + PATIENCE_MS;
	AlWireResult *result;

	while ((result = al_wire_next(wire)) == NULL && now_ms() < bound)
	{
		struct pollfd ready = {.fd = al_wire_fd(wire), .events = POLLIN};
		long		timeout_ms = al_wire_timeout_ms(wire);

		(void) poll(&ready, 1, timeout_ms < 0 || timeout_ms > 1000 ? 1000 : (int) timeout_ms);
		al_wire_run(wire);
	}
	return result;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
