/*
 * retry.h
 *		Whether and how an action may be sent at once.
 */
#ifndef AL_RETRY_H
#define AL_RETRY_H

#include "postgres.h"

#include "judge.h"

/* What a retry would do. */
typedef struct AlRetry
{
	bool		allowed;
	AlDecision	decision;		/* of the state machine */
	bool		restart;		/* the retry window begins anew */
	bool		override;		/* only because a person has decided so */
	int64		held_us;		/* by which clocks that stood still are moved */
	char	   *why;			/* not allowed: a sentence */
	char	   *hint;
} AlRetry;

/* Ask the state machine; changes nothing but the standing. */
extern AlRetry al_retry_consider(AlStanding *standing, const AlTool *tool, bool force, TimestampTz now);

/* Do it.  The action is locked. */
extern void al_retry_apply(const AlStanding *standing, const AlRetry *retry, TimestampTz now);

/* When it goes out, in words. */
extern char *al_retry_message(const AlStanding *standing, const AlTool *tool, const AlRetry *retry);

#endif							/* AL_RETRY_H */
