/*
 * envelope.h
 *		The answer in which callers see an action.
 */
#ifndef AL_ENVELOPE_H
#define AL_ENVELOPE_H

#include "postgres.h"
#include "utils/jsonb.h"

#include "refusal.h"

/* Who asks for an envelope. */
typedef enum AlAsked
{
	AL_ASKED_LOOK,				/* somebody looks at an action */
	AL_ASKED_CREATED,			/* this call has recorded it */
	AL_ASKED_AGAIN				/* this call asked for what was recorded before */
} AlAsked;

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
extern Jsonb *al_envelope_asked(int64 action_id, Oid role, AlAsked asked, AlSeen *seen);

/* The envelope of a proposal for which no action stands. */
extern Jsonb *al_envelope_refused(const AlRefusal *refusal);

/* Findings as they stand in it: [{"at", "got", "want", "suggest"}]. */
extern Jsonb *al_envelope_findings(List *findings);

#endif							/* AL_ENVELOPE_H */
