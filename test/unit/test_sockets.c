/*
 * test_sockets.c
 *		The epoll table: which system calls are saved, and that none is missed.
 */
#include <poll.h>
#include <unistd.h>

#include <curl/curl.h>

#include "../../src/wire/sockets.h"
#include "tap.h"

static AlSockets sockets;

static void test_giving_up_is_put_off(void);
static void test_closing_forgets(void);
static void test_foreign_descriptors(void);
static void test_large_numbers(void);
static int	next_event(void);
static bool is_quiet(void);

int
main(void)
{
	if (!ok(al_sockets_init(&sockets), "an epoll descriptor is made"))
		return done_testing();
	test_giving_up_is_put_off();
	test_closing_forgets();
	test_foreign_descriptors();
	test_large_numbers();
	al_sockets_release(&sockets);
	return done_testing();
}

/* What libcurl gives up and takes again costs nothing, and what fires in between is dropped. */
static void
test_giving_up_is_put_off(void)
{
	int			ends[2];

	if (pipe(ends) != 0)
		return;
	ok(al_sockets_opened(&sockets, ends[0]) && al_sockets_want(&sockets, ends[0], CURL_POLL_IN),
	   "a socket of ours is registered");
	ok(al_sockets_want(&sockets, ends[0], CURL_POLL_REMOVE), "it is given up");
	is_int(sockets.states[ends[0]].registered, CURL_POLL_IN, "epoll is not told");
	ok(al_sockets_want(&sockets, ends[0], CURL_POLL_IN) && is_quiet(), "it is taken again");
	(void) !write(ends[1], "x", 1);
	is_int(next_event(), CURL_CSELECT_IN, "and its events arrive");

	(void) al_sockets_want(&sockets, ends[0], CURL_POLL_REMOVE);
	is_int(next_event(), 0, "an event that nobody wants is not passed on");
	ok(is_quiet(), "and wakes only once");
	ok(al_sockets_want(&sockets, ends[0], CURL_POLL_IN) && next_event() == CURL_CSELECT_IN,
	   "after that the socket can be taken again");

	close(ends[1]);
	(void) al_sockets_want(&sockets, ends[0], CURL_POLL_IN);
	is_int(next_event(), CURL_CSELECT_IN, "a hang-up is passed on as what was wanted");
	al_sockets_closing(&sockets, ends[0]);
	close(ends[0]);
}

/* A number that is closed and comes back is registered anew. */
static void
test_closing_forgets(void)
{
	int			first[2];
	int			second[2];

	if (pipe(first) != 0)
		return;
	(void) al_sockets_opened(&sockets, first[0]);
	(void) al_sockets_want(&sockets, first[0], CURL_POLL_IN);
	(void) !write(first[1], "x", 1);
	al_sockets_closing(&sockets, first[0]);
	ok(is_quiet(), "a socket about to be closed is silent");
	close(first[0]);
	if (pipe(second) != 0)
		return;
	is_int(second[0], first[0], "its number comes back");
	(void) al_sockets_opened(&sockets, second[0]);
	(void) al_sockets_want(&sockets, second[0], CURL_POLL_IN);
	(void) !write(second[1], "x", 1);
	is_int(next_event(), CURL_CSELECT_IN, "and its events arrive");
	al_sockets_closing(&sockets, second[0]);
	close(second[0]);
	close(second[1]);
	close(first[1]);
}

/* Nothing is put off for a descriptor whose closing will not be announced. */
static void
test_foreign_descriptors(void)
{
	int			first[2];
	int			second[2];

	if (pipe(first) != 0)
		return;
	(void) al_sockets_want(&sockets, first[0], CURL_POLL_IN);
	(void) al_sockets_want(&sockets, first[0], CURL_POLL_REMOVE);
	is_int(sockets.states[first[0]].registered, 0, "epoll is told at once");

	(void) al_sockets_want(&sockets, first[0], CURL_POLL_IN);
	close(first[0]);
	if (pipe(second) != 0)
		return;
	is_int(second[0], first[0], "a number comes back without a word");
	ok(al_sockets_want(&sockets, second[0], CURL_POLL_INOUT), "it is registered all the same");
	(void) !write(second[1], "x", 1);
	is_int(next_event(), CURL_CSELECT_IN, "and its events arrive");
	(void) al_sockets_want(&sockets, second[0], CURL_POLL_REMOVE);
	close(second[0]);
	close(second[1]);
	close(first[1]);
}

/* The table grows as far as it must; impossible numbers are refused. */
static void
test_large_numbers(void)
{
	ok(al_sockets_opened(&sockets, 1000) && sockets.n_states > 1000, "a number far up has its place");
	ok(!al_sockets_want(&sockets, 1000, CURL_POLL_IN), "what is not open cannot be registered");
	ok(!al_sockets_opened(&sockets, -1), "a negative number is refused");
	al_sockets_closing(&sockets, -1);
	al_sockets_closing(&sockets, 1 << 20);
	ok(al_sockets_want(&sockets, 1000, CURL_POLL_REMOVE), "giving up always works");
}

/* The next event, as libcurl would be told; -1 when there is none. */
static int
next_event(void)
{
	struct epoll_event event;

	if (epoll_wait(sockets.epoll_fd, &event, 1, 1000) != 1)
		return -1;
	return al_sockets_read_event(&sockets, &event);
}

/* Whether there is no event. */
static bool
is_quiet(void)
{
	struct pollfd ready = {.fd = sockets.epoll_fd, .events = POLLIN};

	return poll(&ready, 1, 0) == 0;
}
