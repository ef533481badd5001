/*
 * request.h
 *		One request under way: its copies, its libcurl handle, what was seen.
 *
 * Private to the wire.
 */
#ifndef AL_REQUEST_H
#define AL_REQUEST_H

#include <arpa/inet.h>

#include <curl/curl.h>

#include "sockets.h"
#include "wire.h"

/* A result and its place in the queue; the result comes first. */
typedef struct AlFinished
{
	AlWireResult result;
	struct AlFinished *next;
} AlFinished;

/* What all requests of a wire have in common. */
typedef struct AlRequestCommon
{
	AlSockets	sockets;
	CURLSH	   *share;			/* TLS sessions, so that fresh connections resume */
	bool		ca_in_file;		/* the system's CAs are in one file */
} AlRequestCommon;

typedef struct AlRequest
{
	struct AlRequest *next;		/* among those under way */
	struct AlRequest *previous;
	struct AlRequest *next_done;	/* among those that libcurl has finished with */
	CURLcode	code;			/* and how */
	CURL	   *easy;
	AlRequestCommon *common;	/* of the wire */
	AlFinished *finished;		/* what will be handed over; owned until then */
	void	   *copy;			/* header list, secrets and body, in one piece */
	const char **secrets;		/* in it */
	int			n_secrets;
	size_t		request_body_len;
	int		   *unsent;			/* the owner's count that this one is in, or NULL */
	size_t		max_body;
	size_t		body_capacity;	/* of finished->result.body */
	const char *const *keep_headers;
	bool		allow_private;
	bool		is_head;		/* the answer has no body whatever its length says */

	/* What our callbacks saw. */
	int			n_opened;		/* sockets opened for it */
	int			n_refused;		/* addresses the guard refused */
	bool		resend_blocked;
	bool		peer_refused;	/* the guard refused a kept connection's peer */
	bool		socket_failure; /* no socket could be opened for an address */
	bool		local_failure;	/* memory or the kernel's tables ran out here */
	bool		capped;
	bool		garbled;
	bool		aborted;
	char		refused_address[INET6_ADDRSTRLEN];
	char		error[CURL_ERROR_SIZE];
} AlRequest;

/* An empty result, freed by al_wire_result_free(), or NULL. */
extern AlFinished *al_finished_create(uint64_t tag);

/* A request with a libcurl handle that takes part in the share, or NULL. */
extern AlRequest *al_request_create(AlRequestCommon *common);

/*
 * Take over the request and the finished record, set every option.  False when
 * memory is short or libcurl refuses an option; the record is taken all the same.
 */
extern bool al_request_prepare(AlRequest *request, const AlWireRequest *wanted,
							   AlFinished *finished);

/* Fill the finished record from what was seen, and let go of it. */
extern AlFinished *al_request_conclude(AlRequest *request, CURLcode code);

/* Take it out of its owner's count of requests whose transmission has not begun. */
extern void al_request_leave_unsent(AlRequest *request);

/* Free a request; its handle must have left the multi handle. */
extern void al_request_destroy(AlRequest *request);

/* Write a message into a result's detail, printable and cut at its size. */
extern void al_request_describe(AlWireResult *result, const char *message);

#endif							/* AL_REQUEST_H */
