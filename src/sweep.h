/*
 * sweep.h
 *		Settling what nobody is at any more, without the network.
 *
 * The dispatcher's looks and reconcile() do the same with the same code.  Rows
 * are taken with SKIP LOCKED, and what is seen is looked at again under the lock:
 * a live claim is never touched.
 */
#ifndef AL_SWEEP_H
#define AL_SWEEP_H

#include "postgres.h"

#include "turn.h"

/* What a sweep has settled. */
typedef enum AlSwept
{
	AL_SWEPT_ORPHANED,			/* attempts whose dispatcher has died */
	AL_SWEPT_LEASES,			/* attempts whose executor has not reported in time */
	AL_SWEPT_EXPIRED,
	AL_SWEPT_UNAPPROVED,		/* nobody approved them in time */
	AL_SWEPT_ENDED				/* whose tries or window are used up */
} AlSwept;
#define AL_N_SWEPT 5

typedef struct AlSweep
{
	int64		incarnation;	/* of the dispatcher that sweeps; 0: somebody calls reconcile() */
	const char *by_whom;		/* who that is */
	int			index;			/* services number % count = index */
	int			count;
	bool		everything;		/* also what a dispatcher would find: none does */
	int64		after;			/* actions after this one; 0: from the beginning, or there are no more */
	int			n[AL_N_SWEPT];
} AlSweep;

/*
 * A dispatcher's look, in a transaction of its own: at its start the claims of
 * the dead, and once more later, for those that were alive then; always a page
 * of what outside executors do or should.
 */
extern void al_sweep_look(AlDispatcher *dispatcher);

/*
 * Judge the attempts of dead incarnations as lost: their outcomes are unknown.
 * True when others are alive, or their actions locked: look again later.
 */
extern bool al_sweep_orphans(AlSweep *sweep);

/*
 * Look at a page of due actions after sweep->after, and move it there: leases
 * that ended the max processing time ago, expiries, windows that are over.
 */
extern void al_sweep_due(AlSweep *sweep);

/* Move an action that is due to where the state machine says, false when that is a send. */
extern bool al_sweep_move_on(const AlStanding *standing, const AlTool *tool, TimestampTz now, AlJudgement *out);

/* Move on the clocks that stood still while pauses held an action that was due at a time. */
extern void al_sweep_give_back(AlStanding *standing, const AlTool *tool, const AlSpan *spans, int n_spans,
							   TimestampTz next_at, TimestampTz now);

#endif							/* AL_SWEEP_H */
