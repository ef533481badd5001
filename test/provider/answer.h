/*
 * answer.h
 *		Rendering answers: head and body.
 */
#ifndef PROVIDER_ANSWER_H
#define PROVIDER_ANSWER_H

#include "buf.h"
#include "ops.h"

/* What a lookup asks for; id is SLICE_NONE for everything. */
typedef struct Lookup
{
	Slice		id;
	int64_t		hide_us;		/* younger effects are not shown */
	int64_t		limit;			/* at most so many, 1 to 100 */
	const char *status;			/* that they are shown with */
} Lookup;

typedef struct Head
{
	const char *line;			/* status line without CRLF, or NULL for the usual one */
	int64_t		length;			/* Content-Length, -1: none */
	bool		chunked;
	bool		replayed;
	bool		close;
} Head;

extern void answer_head(const Answer *answer, const Head *head, Buf *out);
extern void answer_body(const Answer *answer, Buf *out);
extern const Effect *answer_find(const Lookup *lookup);
extern void answer_one(const Effect *effect, const Lookup *lookup, Buf *out);
extern void answer_list(const Lookup *lookup, Buf *out);
extern void answer_truth(bool self_open, Buf *out);

#endif							/* PROVIDER_ANSWER_H */
