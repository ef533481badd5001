/*
 * wire.h
 *		Sending frozen bytes over HTTP and bringing back evidence.
 *
 * libcurl and libc only, no PostgreSQL.  The wire knows nothing of actions: it
 * takes a request and a tag, and gives back what was observed.  It never
 * blocks: the owner waits on al_wire_fd() and al_wire_timeout_ms() together
 * with whatever else it waits for.  It never sends a request twice: libcurl
 * asks before every transmission, and the second one is refused.
 *
 * Memory: everything is malloc'ed, bounded by the caps of the request, and
 * freed on every path.  Not thread-safe; one owner.  Signals are blocked around
 * libcurl calls, because resolver threads inherit the mask.
 */
#ifndef AL_WIRE_H
#define AL_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "../rules/classify.h"
#include "../rules/head.h"

typedef struct AlWire AlWire;

/* One request.  Everything is copied by al_wire_send(). */
typedef struct AlWireRequest
{
	uint64_t	tag;			/* the owner's number, comes back with the result */
	const char *method;			/* upper-case token */
	const char *url;			/* absolute http or https */
	const char *const *headers; /* "Name: value" lines, n_headers of them */
	int			n_headers;
	const char *const *secrets; /* what the headers hold and no answer may bring back, n_secrets of them */
	int			n_secrets;
	const void *body;			/* NULL for none (no Content-Length is sent then, except 0 for POST, PUT, PATCH) */
	size_t		body_len;
	int64_t		timeout_ms;		/* total, from this send; > 0 */
	int64_t		connect_timeout_ms; /* > 0 */
	bool		fresh;			/* a connection of its own, not kept afterwards */
	bool		allow_http;		/* plain http is permitted */
	bool		allow_private;	/* loopback, private and link-local addresses are permitted */
	const char *ca_file;		/* NULL: the system's */
	const char *client_cert;	/* PEM file, or NULL */
	const char *client_key;		/* PEM file, or NULL */
	size_t		max_body;		/* response bytes kept, > 0; the rest is not read */
	const char *const *keep_headers;	/* lower-case names, NULL at the end; borrowed, must
										 * outlive the request; NULL: none */
	int		   *unsent;			/* a count of the owner's, borrowed likewise: up by one while the
								 * request is under way and its transmission has not begun; NULL: none */
} AlWireRequest;

/* Where the time went, microseconds from the start of the transfer; 0 when not reached. */
typedef struct AlWireTiming
{
	int64_t		resolved;
	int64_t		connected;
	int64_t		tls;
	int64_t		first_byte;
	int64_t		total;
} AlWireTiming;

/*
 * What was observed.  Secrets of the request are masked in the head's values,
 * the body and the detail (mask.h).  Freed by al_wire_result_free().
 */
typedef struct AlWireResult
{
	uint64_t	tag;
	AlEvidence	evidence;		/* .replayed is left false: the owner knows the marker */
	int			curl_code;		/* CURLcode, for the record; never decided by */
	char		detail[256];	/* libcurl's words, printable, without URL or header values */
	AlHead		head;
	unsigned char *body;		/* NULL when empty; any bytes */
	size_t		body_len;
	bool		body_capped;	/* more came than max_body */
	bool		reused;			/* sent on a kept connection */
	AlWireTiming timing;
} AlWireResult;

/*
 * Create a wire.  Returns NULL and a message in err when libcurl or epoll
 * cannot be set up, or libcurl is older than 7.80 (no PREREQFUNCTION).
 * Unsets *_proxy and SSLKEYLOGFILE in this process's environment.
 */
extern AlWire *al_wire_create(char *err, size_t err_len);

/* Close everything.  Requests under way are dropped without a result. */
extern void al_wire_destroy(AlWire *wire);

/* Readable when there is something to do: an epoll descriptor. */
extern int	al_wire_fd(const AlWire *wire);

/* Milliseconds until al_wire_run() must be called even without readiness; -1: no limit. */
extern long al_wire_timeout_ms(const AlWire *wire);

/* How many requests are under way. */
extern int	al_wire_in_flight(const AlWire *wire);

/*
 * Begin a request.  Always leads to exactly one result: what cannot even be
 * started (no memory, malformed URL, CR/LF/NUL in a header) comes back as a
 * not_sent result from al_wire_next().
 */
extern void al_wire_send(AlWire *wire, const AlWireRequest *request);

/* Do what is ready, without waiting. */
extern void al_wire_run(AlWire *wire);

/* The next finished request, or NULL. */
extern AlWireResult *al_wire_next(AlWire *wire);

extern void al_wire_result_free(AlWireResult *result);

/* End every request under way now; their results (ending AL_END_ABORTED) follow from al_wire_next(). */
extern void al_wire_abort_all(AlWire *wire);

#endif							/* AL_WIRE_H */
