/*
 * judge.h
 *		From an attempt that has ended to what the ledger will say.
 *
 * classify → fold → decide, with the tool's numbers and the clock; no
 * statement is run here.
 */
#ifndef AL_JUDGE_H
#define AL_JUDGE_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "ledger.h"
#include "registry.h"
#include "wire/wire.h"

/* An attempt that has ended, waiting to be recorded. */
typedef struct AlEnded
{
	int64		action_id;
	int			attempt;
	bool		lookup;			/* no send */
	bool		elsewhere;		/* a lookup that did not ask where the action was sent */
	TimestampTz started_at;		/* of a lookup; 0: not known */
	uint64		digest;			/* of the definition that a lookup was made by */
	AlParticulars *particulars; /* of a lookup with a result, while it is being recorded */
	int32		tool_id;
	int32		service_id;
	TimestampTz finished_at;
	AlStanding	standing;		/* as this dispatcher left the action; action_id 0: not known */
	AlEvidence	evidence;
	AlWireResult *result;		/* NULL: nothing came from the wire */
} AlEnded;

/* What to record of it. */
typedef struct AlJudgement
{
	AlClosing	closing;
	AlMove		move;
	bool		moves;			/* false: the action is at rest already */
	AlEvent		event;
	bool		has_event;
} AlJudgement;

/*
 * Judge an attempt.  bare: keep nothing of the answer but its status, for an
 * answer that could not be recorded otherwise.
 */
extern void al_judge(const AlEnded *ended, const AlStanding *standing, const AlTool *tool,
					 TimestampTz now, bool bare, AlJudgement *out);

/* The same for a lookup (judge_lookup.c). */
extern void al_judge_lookup(const AlEnded *ended, const AlStanding *standing, const AlTool *tool,
							TimestampTz now, bool bare, AlJudgement *out);

/*
 * Fold an outcome into what is known of an action and decide: fills the move, or
 * for an action at rest the event that keeps the evidence.  not_a_try: what was
 * proven undelivered was stopped on our side, and is forgiven.
 */
extern AlDecision al_judge_outcome(const AlStanding *standing, const AlTool *tool, const AlOutcome *outcome, bool not_a_try,
								   int64 retry_after_s, TimestampTz now, AlJudgement *out);

/*
 * What may happen next to an action that is due, before anything is sent: the
 * key's window, the retry window or the expiry may have passed while it waited.
 */
extern AlDecision al_judge_due(const AlStanding *standing, const AlTool *tool, TimestampTz now);

/* The same where the tool's lookup cannot be made for this action. */
extern AlDecision al_judge_due_unseen(const AlStanding *standing, const AlTool *tool, TimestampTz now);

/* When nothing that was sent can be in progress any more: timeout and max processing time are over. */
extern TimestampTz al_judge_processed_at(const AlStanding *standing, const AlTool *tool);

/* The move that a decision makes, when no attempt has just ended. */
extern void al_judge_move(const AlStanding *standing, const AlTool *tool, const AlDecision *decision,
						  TimestampTz now, AlMove *move);

#endif							/* AL_JUDGE_H */
