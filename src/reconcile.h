/*
 * reconcile.h
 *		Whether an unknown outcome can be found out at once.
 */
#ifndef AL_RECONCILE_H
#define AL_RECONCILE_H

#include "postgres.h"

#include "judge.h"

/* What reconcile_now would do. */
typedef struct AlReconcile
{
	bool		allowed;
	AlDecision	decision;		/* of the state machine: look it up, or send it again */
	bool		renew;			/* lookups that are used up begin anew */
} AlReconcile;

/* Ask the state machine; changes nothing but the standing. */
extern AlReconcile al_reconcile_consider(AlStanding *standing, const AlTool *tool, TimestampTz now);

/* Do it, in somebody's name.  The action is locked. */
extern void al_reconcile_apply(const AlStanding *standing, const AlTool *tool, const AlReconcile *reconcile, const char *who, TimestampTz now);

/* What happens now, and what it can show. */
extern char *al_reconcile_message(const AlStanding *standing, const AlTool *tool, const AlReconcile *reconcile, TimestampTz now);

#endif							/* AL_RECONCILE_H */
