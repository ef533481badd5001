/*
 * suspect.h
 *		One action whose claim raises must not keep the others from being sent.
 *
 * After a turn that failed while it claimed, actions are claimed one by one
 * until it is clear which of them it is.  That one is blocked, for a person to
 * see to; if not even that can be written, its due row alone is put away.
 */
#ifndef AL_SUSPECT_H
#define AL_SUSPECT_H

#include "postgres.h"

#include "ledger.h"

typedef struct AlSuspect
{
	int			singly;			/* claim so many one by one; 0: in batches */
	int64		action_id;		/* of the claim at hand; 0: not known yet */
	int64		failed_id;		/* whose claim has failed */
	int			tries;			/* how often in a row */
	int			park_tries;		/* how often that could not be written */
	bool		parked;			/* in this turn */
	char		error[200];
} AlSuspect;

/* Choose the one lot and action that are claimed singly; false when nothing is due. */
extern bool al_suspect_choose(AlSuspect *suspect, AlLot *lots, int n, TimestampTz now);

/* Whether the action that has failed is to be put away, and do it; in the turn's transaction. */
extern bool al_suspect_put_away(AlSuspect *suspect, int64 incarnation);

/* The turn has been committed. */
extern void al_suspect_cleared(AlSuspect *suspect, bool claimed);

/* The turn has failed while it claimed; whether to pause before the next. */
extern bool al_suspect_failed(AlSuspect *suspect, const ErrorData *error);

#endif							/* AL_SUSPECT_H */
