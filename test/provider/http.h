/*
 * http.h
 *		Reading HTTP/1.x requests out of a byte buffer.
 *
 * All slices of a request borrow from the buffer that was parsed.
 */
#ifndef PROVIDER_HTTP_H
#define PROVIDER_HTTP_H

#include "buf.h"

#define HTTP_MAX_HEAD (64 * 1024)
#define HTTP_MAX_BODY ((size_t) 64 * 1024 * 1024)

typedef struct HttpRequest
{
	Slice		method;
	Slice		target;			/* as sent, query included */
	Slice		path;			/* without the query */
	Slice		query;
	Slice		headers;		/* the raw header lines */
	Slice		body;
	Slice		key;			/* Idempotency-Key */
	Slice		action;			/* Actionledger-Action */
	Slice		attempt;		/* Actionledger-Attempt */
	Slice		auth;			/* Authorization */
	Slice		operation;		/* X-Operation */
	int64_t		content_length; /* -1: none given */
	bool		chunked;
	bool		keep_alive;
	bool		expect_continue;
} HttpRequest;

/* How far the decoding of a chunked request body got. */
typedef struct HttpChunks
{
	size_t		at;				/* offset behind the head */
	size_t		left;			/* bytes of the present chunk still to come */
	enum
	{
		CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_DONE
	}			state;
} HttpChunks;

extern size_t http_find_head_end(const char *data, size_t len, size_t *scanned);
extern int	http_parse_head(Slice head, HttpRequest *request);
extern Slice http_get_header(Slice headers, const char *name);
extern int	http_dechunk(HttpChunks *chunks, Slice data, Buf *body);
extern const char *http_reason(int status);

#endif							/* PROVIDER_HTTP_H */
