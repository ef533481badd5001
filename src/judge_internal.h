/*
 * judge_internal.h
 *		What the judging of sends and of lookups share.
 */
#ifndef AL_JUDGE_INTERNAL_H
#define AL_JUDGE_INTERNAL_H

#include "judge.h"

/* What a decision depends on.  last_lookup_at: when the last lookup began; 0 where that is not known. */
extern AlSituation al_judge_situation(const AlStanding *standing, const AlTool *tool, AlKnown known,
									  TimestampTz last_lookup_at, TimestampTz now);

/* When a step is due; retry_after_s < 0: no answer has said. */
extern TimestampTz al_judge_due_time(const AlStanding *standing, const AlTool *tool, const AlDecision *decision,
									 int64 retry_after_s, TimestampTz now);

/* The answer's Retry-After in seconds, -1 for none. */
extern int64 al_judge_retry_after(const AlEnded *ended);

/* Whether an attempt says nothing of the destination: it was stopped on our side before anything left. */
extern bool al_judge_is_no_try(const AlEvidence *evidence, const AlOutcome *outcome);

/* Fill what closes the attempt. */
extern void al_judge_closing(const AlEnded *ended, const AlOutcome *outcome, int64 retry_after_s, bool bare,
							 AlClosing *closing);

#endif							/* AL_JUDGE_INTERNAL_H */
