/*
 * vocabulary.c
 *		The one place where the ledger's words are spelled.
 *
 * A value outside its enum reads as "invalid", which no reader accepts, so
 * that a broken value shows itself and cannot be stored and read back.
 */
#include <stddef.h>
#include <string.h>

#include "vocabulary.h"

static const char *const type_names[AL_N_ACTION_TYPES] = {
	[AL_TYPE_READ_ONLY] = "read_only",
	[AL_TYPE_IDEMPOTENT] = "idempotent",
	[AL_TYPE_NON_IDEMPOTENT] = "non_idempotent",
	[AL_TYPE_IRREVERSIBLE] = "irreversible",
};

static const char *const status_names[AL_N_STATUSES] = {
	[AL_STATUS_PREPARED] = "prepared",
	[AL_STATUS_SUBMITTED] = "submitted",
	[AL_STATUS_CONFIRMED] = "confirmed",
	[AL_STATUS_FAILED] = "failed",
	[AL_STATUS_NEEDS_RECONCILIATION] = "needs_reconciliation",
};

static const char *const step_names[AL_N_STEPS] = {
	[AL_STEP_APPROVE] = "approve",
	[AL_STEP_SEND] = "send",
	[AL_STEP_WAIT] = "wait",
	[AL_STEP_RESEND] = "resend",
	[AL_STEP_LOOKUP] = "lookup",
	[AL_STEP_APPLY] = "apply",
	[AL_STEP_REVIEW] = "review",
	[AL_STEP_BLOCKED] = "blocked",
	[AL_STEP_NONE] = "none",
};

static const char *const verdict_names[AL_N_VERDICTS] = {
	[AL_VERDICT_NOT_SENT] = "not_sent",
	[AL_VERDICT_REJECTED] = "rejected",
	[AL_VERDICT_CONFIRMED] = "confirmed",
	[AL_VERDICT_IN_PROGRESS] = "in_progress",
	[AL_VERDICT_UNKNOWN] = "unknown",
};

static const char *name_of(const char *const *names, int n, int value);
static int	position_of(const char *const *names, int n, const char *name);

/* Spells an action type. */
const char *
al_type_name(AlActionType type)
{
	return name_of(type_names, AL_N_ACTION_TYPES, (int) type);
}

/* Spells a status. */
const char *
al_status_name(AlStatus status)
{
	return name_of(status_names, AL_N_STATUSES, (int) status);
}

/* Spells a recovery step. */
const char *
al_step_name(AlStep step)
{
	return name_of(step_names, AL_N_STEPS, (int) step);
}

/* Spells a verdict. */
const char *
al_verdict_name(AlVerdict verdict)
{
	return name_of(verdict_names, AL_N_VERDICTS, (int) verdict);
}

/* Reads an action type. */
bool
al_type_parse(const char *name, AlActionType *out)
{
	int			position = position_of(type_names, AL_N_ACTION_TYPES, name);

	if (position < 0)
		return false;
	*out = (AlActionType) position;
	return true;
}

/* Reads a status. */
bool
al_status_parse(const char *name, AlStatus *out)
{
	int			position = position_of(status_names, AL_N_STATUSES, name);

	if (position < 0)
		return false;
	*out = (AlStatus) position;
	return true;
}

/* Reads a recovery step. */
bool
al_step_parse(const char *name, AlStep *out)
{
	int			position = position_of(step_names, AL_N_STEPS, name);

	if (position < 0)
		return false;
	*out = (AlStep) position;
	return true;
}

/* Reads a verdict. */
bool
al_verdict_parse(const char *name, AlVerdict *out)
{
	int			position = position_of(verdict_names, AL_N_VERDICTS, name);

	if (position < 0)
		return false;
	*out = (AlVerdict) position;
	return true;
}

/* Gives the name at a position, or "invalid" outside the list. */
static const char *
name_of(const char *const *names, int n, int value)
{
	if (value < 0 || value >= n || names[value] == NULL)
		return "invalid";
	return names[value];
}

/* Finds the position of a name, or -1. */
static int
position_of(const char *const *names, int n, const char *name)
{
	if (name == NULL)
		return -1;
	for (int i = 0; i < n; i++)
	{
		if (names[i] != NULL && strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}
