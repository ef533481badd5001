/*
 * sockets.c
 *		libcurl's sockets in one epoll descriptor, with few system calls.
 *
 * Some descriptors are not ours: the resolver's wake-up pairs are opened and
 * closed by libcurl without a callback, and their numbers come back as
 * something else.  For those nothing is put off.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "sockets.h"

#define FIRST_STATES 128

static bool make_room(AlSockets *sockets, int fd);
static bool register_socket(AlSockets *sockets, int fd, uint8_t wanted);
static void drop_socket(AlSockets *sockets, int fd);

/* Opens the epoll descriptor. */
bool
al_sockets_init(AlSockets *sockets)
{
	sockets->n_states = 0;
	sockets->states = NULL;
	sockets->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return sockets->epoll_fd >= 0;
}

/* Gives everything back. */
void
al_sockets_release(AlSockets *sockets)
{
	if (sockets->epoll_fd >= 0)
		close(sockets->epoll_fd);
	free(sockets->states);
	sockets->epoll_fd = -1;
	sockets->n_states = 0;
	sockets->states = NULL;
}

/* Starts the record of a new socket of ours. */
bool
al_sockets_opened(AlSockets *sockets, int fd)
{
	if (!make_room(sockets, fd))
		return false;
	sockets->states[fd] = (AlSocketState) {.ours = true};
	return true;
}

/* Ends the record of a socket before its number can be given out again. */
void
al_sockets_closing(AlSockets *sockets, int fd)
{
	if (fd < 0 || fd >= sockets->n_states)
		return;
	if (sockets->states[fd].registered)
		drop_socket(sockets, fd);
	sockets->states[fd] = (AlSocketState) {0};
}

/* Notes what libcurl wants, and tells epoll only what is new. */
bool
al_sockets_want(AlSockets *sockets, int fd, int what)
{
	AlSocketState *state;
	uint8_t		wanted = what == CURL_POLL_REMOVE ? 0 : (uint8_t) (what & CURL_POLL_INOUT);

	if (!make_room(sockets, fd))
		return wanted == 0;

	state = &sockets->states[fd];
	state->wanted = wanted;
	if (wanted == 0)
	{
		if (!state->ours && state->registered)
			drop_socket(sockets, fd);
		return true;
	}
	return state->registered == wanted || register_socket(sockets, fd, wanted);
}

/* Translates an epoll event into libcurl's words. */
int
al_sockets_read_event(AlSockets *sockets, const struct epoll_event *event)
{
	int			fd = event->data.fd;
	int			wanted = fd < sockets->n_states ? sockets->states[fd].wanted : 0;
	int			bits = 0;

	if (wanted == 0)
	{
		drop_socket(sockets, fd);
		return 0;
	}

	/*
	 * CURL_CSELECT_ERR would end the transfer with a message of libcurl's own;
	 * letting it read or write finds the socket's real error, and what arrived
	 * before it.
	 */
	if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP) && wanted & CURL_POLL_IN)
		bits |= CURL_CSELECT_IN;
	if (event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP) && wanted & CURL_POLL_OUT)
		bits |= CURL_CSELECT_OUT;
	return bits;
}

/* Grows the table until it has a place for this descriptor. */
static bool
make_room(AlSockets *sockets, int fd)
{
	AlSocketState *states;
	int			n_states = sockets->n_states > 0 ? sockets->n_states : FIRST_STATES;

	if (fd < 0)
		return false;
	if (fd < sockets->n_states)
		return true;
	while (n_states <= fd)
		n_states *= 2;

	states = realloc(sockets->states, (size_t) n_states * sizeof(AlSocketState));
	if (states == NULL)
		return false;
	memset(states + sockets->n_states, 0,
		   (size_t) (n_states - sockets->n_states) * sizeof(AlSocketState));
	sockets->states = states;
	sockets->n_states = n_states;
	return true;
}

/* Tells epoll what is wanted of a socket. */
static bool
register_socket(AlSockets *sockets, int fd, uint8_t wanted)
{
	AlSocketState *state = &sockets->states[fd];
	struct epoll_event event = {.data.fd = fd};
	int			operation = state->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (wanted & CURL_POLL_IN)
		event.events |= EPOLLIN;
	if (wanted & CURL_POLL_OUT)
		event.events |= EPOLLOUT;

	/* A number that changed hands behind our back is registered the other way round. */
	if (epoll_ctl(sockets->epoll_fd, operation, fd, &event) != 0)
	{
		if (errno == ENOENT && operation == EPOLL_CTL_MOD)
			operation = EPOLL_CTL_ADD;
		else if (errno == EEXIST && operation == EPOLL_CTL_ADD)
			operation = EPOLL_CTL_MOD;
		else
			return false;
		if (epoll_ctl(sockets->epoll_fd, operation, fd, &event) != 0)
			return false;
	}
	state->registered = wanted;
	return true;
}

/* Takes a socket out of epoll; that it may be gone already does not matter. */
static void
drop_socket(AlSockets *sockets, int fd)
{
	(void) epoll_ctl(sockets->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	if (fd < sockets->n_states)
		sockets->states[fd].registered = 0;
}
