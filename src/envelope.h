/*
 * envelope.h
 *		The answer in which callers see an action.
 */
#ifndef AL_ENVELOPE_H
#define AL_ENVELOPE_H

#include "postgres.h"
#include "utils/jsonb.h"

/* What a reader of the envelope's action has to know besides. */
typedef struct AlSeen
{
	bool		at_rest;		/* nothing will change by itself: waiting is pointless */
	bool		own_transaction;	/* the current transaction has written it */
} AlSeen;

/*
 * The envelope {ok, data, error, meta} of an action, NULL when there is none
 * that the role may see.
 */
extern Jsonb *al_envelope(int64 action_id, Oid role, AlSeen *seen);

#endif							/* AL_ENVELOPE_H */
