/*
 * vocabulary.h
 *		The words of the ledger, as the deciding code knows them.
 *
 * Pure C, libc only.  Every name that a user can read (statuses, steps,
 * verdicts, action types) has its spelling in vocabulary.c and nowhere else.
 */
#ifndef AL_VOCABULARY_H
#define AL_VOCABULARY_H

#include <stdbool.h>

/* What kind of effect a tool has on the world; fixed when the tool is created. */
typedef enum AlActionType
{
	AL_TYPE_READ_ONLY,			/* no effect at all */
	AL_TYPE_IDEMPOTENT,			/* sets the same end state however often */
	AL_TYPE_NON_IDEMPOTENT,		/* every execution is a new effect */
	AL_TYPE_IRREVERSIBLE		/* and nothing takes it back */
} AlActionType;
#define AL_N_ACTION_TYPES 4

/* The five statuses of an action. */
typedef enum AlStatus
{
	AL_STATUS_PREPARED,
	AL_STATUS_SUBMITTED,
	AL_STATUS_CONFIRMED,
	AL_STATUS_FAILED,
	AL_STATUS_NEEDS_RECONCILIATION
} AlStatus;
#define AL_N_STATUSES 5

/* What may safely happen next to an action (its next_step). */
typedef enum AlStep
{
	AL_STEP_APPROVE,
	AL_STEP_SEND,
	AL_STEP_WAIT,
	AL_STEP_RESEND,
	AL_STEP_LOOKUP,
	AL_STEP_APPLY,
	AL_STEP_REVIEW,
	AL_STEP_BLOCKED,
	AL_STEP_NONE
} AlStep;
#define AL_N_STEPS 9

/* What one attempt proves. */
typedef enum AlVerdict
{
	AL_VERDICT_NOT_SENT,		/* not one request byte left */
	AL_VERDICT_REJECTED,		/* the destination refused this attempt */
	AL_VERDICT_CONFIRMED,		/* the destination did it */
	AL_VERDICT_IN_PROGRESS,		/* the destination is still at it */
	AL_VERDICT_UNKNOWN			/* no evidence either way */
} AlVerdict;
#define AL_N_VERDICTS 5

/* Spellings, as in SQL; never NULL. */
extern const char *al_type_name(AlActionType type);
extern const char *al_status_name(AlStatus status);
extern const char *al_step_name(AlStep step);
extern const char *al_verdict_name(AlVerdict verdict);

/* Readers of the same spellings; false (and *out untouched) for any other text. */
extern bool al_type_parse(const char *name, AlActionType *out);
extern bool al_status_parse(const char *name, AlStatus *out);
extern bool al_step_parse(const char *name, AlStep *out);
extern bool al_verdict_parse(const char *name, AlVerdict *out);

#endif							/* AL_VOCABULARY_H */
