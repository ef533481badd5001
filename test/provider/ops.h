/*
 * ops.h
 *		Operations, the effects they had, and the answers stored for their keys.
 */
#ifndef PROVIDER_OPS_H
#define PROVIDER_OPS_H

#include "buf.h"

typedef enum BodyKind
{
	BODY_OK,					/* the refund, or what a lookup asks for */
	BODY_STATUS,				/* the refund for 2xx, else an error */
	BODY_ERROR,					/* an error with text as its code */
	BODY_TEXT,					/* text as it is */
	BODY_NUL,
	BODY_GZIP,
	BODY_DEEP,
	BODY_BADUTF8,
	BODY_HUGENUM,
	BODY_BIG,
	BODY_ACCEPTED,
	BODY_OKFALSE
} BodyKind;

struct Op;

/* One thing that was done in the world. */
typedef struct Effect
{
	uint64_t	id;
	struct Op  *op;
	int64_t		amount;
	bool		has_amount;
	int64_t		wall;			/* microseconds since 1970 */
	int64_t		mono;			/* microseconds, mono_us() */
	struct Effect *next_of_op;
	struct Effect *next;		/* over all operations */
} Effect;

/* An answer, rendered only when it is sent. */
typedef struct Answer
{
	int			status;
	BodyKind	body;
	int64_t		size;			/* BODY_BIG: bytes */
	const Effect *effect;		/* NULL when nothing was executed */
	const char *headers;		/* extra lines, each with CRLF, or NULL */
	const char *text;			/* BODY_TEXT, BODY_ERROR */
} Answer;

/* All requests that mean the same thing. */
typedef struct Op
{
	struct Op  *next;
	uint64_t	hash;
	uint32_t	n;				/* requests so far */
	uint32_t	executed;
	bool		has_key;
	bool		stored;			/* answer is to be replayed */
	const void *processing;		/* who holds the key, or NULL */
	unsigned char body_hash[32];
	int64_t		stored_at;		/* mono_us() */
	Answer		answer;
	Effect	   *first;
	Effect	   *last;
	size_t		id_len;
	char		id[];
} Op;

typedef enum Execution
{
	EXECUTION_DONE,
	EXECUTION_REPLAYED,
	EXECUTION_MISMATCH
} Execution;

/* What an execution depends on. */
typedef struct Execute
{
	bool		keyed;
	const unsigned char *body_hash;
	int64_t		key_ttl_us;		/* 0: for ever */
	int64_t		amount;
	bool		has_amount;
} Execute;

extern Op  *ops_get(Slice id, bool lookup);
extern Op  *ops_find(Slice id);
extern Execution ops_execute(Op *op, const Execute *how, Answer *answer);
extern const Effect *ops_effects(void);

#endif							/* PROVIDER_OPS_H */
