/*
 * sockets.h
 *		libcurl's sockets in one epoll descriptor, with few system calls.
 *
 * libcurl gives up interest in a socket at the end of a transfer and takes it
 * again with the next one on the same connection.  So giving up is only noted;
 * the registration stays until it is changed, the socket is closed, or it fires
 * unwanted.
 */
#ifndef AL_SOCKETS_H
#define AL_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

typedef struct AlSocketState
{
	uint8_t		wanted;			/* CURL_POLL_IN, CURL_POLL_OUT, both or 0 */
	uint8_t		registered;		/* the same, as epoll knows it */
	bool		ours;			/* its closing will be announced */
} AlSocketState;

typedef struct AlSockets
{
	int			epoll_fd;
	int			n_states;
	AlSocketState *states;		/* by descriptor */
} AlSockets;

/* Set up; false when there is no epoll descriptor to be had. */
extern bool al_sockets_init(AlSockets *sockets);

/* Close the epoll descriptor and forget everything. */
extern void al_sockets_release(AlSockets *sockets);

/* A socket was opened by us; false, with nothing noted, when out of memory. */
extern bool al_sockets_opened(AlSockets *sockets, int fd);

/* A socket is about to be closed. */
extern void al_sockets_closing(AlSockets *sockets, int fd);

/*
 * libcurl wants this of a socket (CURL_POLL_*, CURL_POLL_REMOVE).  False when
 * the kernel or memory refuses: events of it would never be seen.
 */
extern bool al_sockets_want(AlSockets *sockets, int fd, int what);

/*
 * What to tell libcurl of an event (CURL_CSELECT_*); 0 when nobody wants it,
 * and then the socket is dropped from epoll.
 */
extern int	al_sockets_read_event(AlSockets *sockets, const struct epoll_event *event);

#endif							/* AL_SOCKETS_H */
