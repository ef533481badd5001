/*
 * policy.c
 *		The state machine, as a table.
 *
 * Attempts are folded into what is known; what is known, the pressure to end
 * and the kind of action choose a cell; the cell and the tool's lookup give the
 * decision.  The table follows the one in the design line by line: a rule is
 * changed there first, and here in one cell.
 */
#include <stddef.h>
#include <string.h>

#include "policy.h"

/* What makes an action end: nothing yet, its bounds, or somebody. */
typedef enum Pressure
{
	NO_PRESSURE,
	USED_UP,
	STOPPED
} Pressure;
#define N_PRESSURES 3

/* The columns: non_idempotent is two, by the state of its key. */
typedef enum Column
{
	COLUMN_READ_ONLY,
	COLUMN_IDEMPOTENT,
	COLUMN_KEYED,				/* non_idempotent, key honoured and in its window */
	COLUMN_UNKEYED,				/* non_idempotent otherwise */
	COLUMN_IRREVERSIBLE
} Column;
#define N_COLUMNS 5

/* The cells.  REVIEW is zero, so that a hole in the table sends nothing. */
typedef enum Cell
{
	REVIEW = 0,					/* a person decides */
	LOOKUP_ELSE_REVIEW,
	LOOKUP_ELSE_RESEND,
	LOOKUP_ELSE_WAIT,			/* for a callback */
	RESEND,						/* the same request, while an earlier one is open */
	SEND,						/* the first time */
	RETRY,						/* nothing earlier is open */
	CONFIRM,
	FAIL_REJECTED,
	FAIL_RETRIES,				/* nothing happened, and no try is left */
	FAIL_NO_ANSWER,				/* no effect is possible, and no answer came */
	FAIL_ABSENT,				/* proved not to have happened */
	RESEND_ELSE_FAIL,			/* the same, and one send more where the tool allows it */
	FAIL_STOPPED				/* cancelled or expired */
} Cell;

#define ROW(read_only, idempotent, keyed, unkeyed, irreversible) \
	{ \
		[COLUMN_READ_ONLY] = read_only, \
		[COLUMN_IDEMPOTENT] = idempotent, \
		[COLUMN_KEYED] = keyed, \
		[COLUMN_UNKEYED] = unkeyed, \
		[COLUMN_IRREVERSIBLE] = irreversible \
	}
#define ROW_OF(cell) ROW(cell, cell, cell, cell, cell)

/* *INDENT-OFF* */
/* clang-format off */
static const Cell table[AL_N_KNOWN][N_PRESSURES][N_COLUMNS] = {
	/* nothing is open: an end is a plain failure */
	[AL_KNOWN_NOTHING] = {
		[NO_PRESSURE] = ROW_OF(SEND),
		[USED_UP]     = ROW_OF(SEND),
		[STOPPED]     = ROW_OF(FAIL_STOPPED),
	},
	[AL_KNOWN_NOT_SENT] = {
		[NO_PRESSURE] = ROW_OF(RETRY),
		[USED_UP]     = ROW_OF(FAIL_RETRIES),
		[STOPPED]     = ROW_OF(FAIL_STOPPED),
	},
	[AL_KNOWN_REJECTED_TRANSIENT] = {
		[NO_PRESSURE] = ROW_OF(RETRY),
		[USED_UP]     = ROW_OF(FAIL_RETRIES),
		[STOPPED]     = ROW_OF(FAIL_STOPPED),
	},

	/* all is known: nothing changes it */
	[AL_KNOWN_REJECTED] = {
		[NO_PRESSURE] = ROW_OF(FAIL_REJECTED),
		[USED_UP]     = ROW_OF(FAIL_REJECTED),
		[STOPPED]     = ROW_OF(FAIL_REJECTED),
	},
	[AL_KNOWN_CONFIRMED] = {
		[NO_PRESSURE] = ROW_OF(CONFIRM),
		[USED_UP]     = ROW_OF(CONFIRM),
		[STOPPED]     = ROW_OF(CONFIRM),
	},

	/* an outcome is open   read_only           idempotent          keyed               unkeyed             irreversible */
	[AL_KNOWN_IN_PROGRESS] = {
		[NO_PRESSURE] = ROW(LOOKUP_ELSE_RESEND, LOOKUP_ELSE_RESEND, LOOKUP_ELSE_RESEND, LOOKUP_ELSE_WAIT,   LOOKUP_ELSE_WAIT),
		[USED_UP]     = ROW(FAIL_NO_ANSWER,     LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, REVIEW),
		[STOPPED]     = ROW(FAIL_STOPPED,       LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW),
	},
	[AL_KNOWN_UNKNOWN] = {
		[NO_PRESSURE] = ROW(RESEND,             RESEND,             RESEND,             LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW),
		[USED_UP]     = ROW(FAIL_NO_ANSWER,     LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, REVIEW),
		[STOPPED]     = ROW(FAIL_STOPPED,       LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW),
	},
	[AL_KNOWN_UNKNOWN_ENDED] = {
		[NO_PRESSURE] = ROW(FAIL_NO_ANSWER,     LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW),
		[USED_UP]     = ROW(FAIL_NO_ANSWER,     LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, REVIEW),
		[STOPPED]     = ROW(FAIL_STOPPED,       LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW, LOOKUP_ELSE_REVIEW),
	},

	/* a lookup proved the absence: nothing is open any more */
	[AL_KNOWN_ABSENT] = {
		[NO_PRESSURE] = ROW(RESEND_ELSE_FAIL,   RESEND_ELSE_FAIL,   RESEND_ELSE_FAIL,   RESEND_ELSE_FAIL,   FAIL_ABSENT),
		[USED_UP]     = ROW_OF(FAIL_ABSENT),
		[STOPPED]     = ROW_OF(FAIL_ABSENT),
	},

	/* it was done more than once: no lookup can tell which one counts */
	[AL_KNOWN_SEVERAL] = {
		[NO_PRESSURE] = ROW_OF(REVIEW),
		[USED_UP]     = ROW_OF(REVIEW),
		[STOPPED]     = ROW_OF(REVIEW),
	},
};

/* From a row's status to a column's; terminal ones lead nowhere. */
static const bool moves[AL_N_STATUSES][AL_N_STATUSES] = {
	[AL_STATUS_PREPARED] = {
		[AL_STATUS_PREPARED] = true,
		[AL_STATUS_SUBMITTED] = true,
		[AL_STATUS_CONFIRMED] = true,				/* evidence came from outside */
		[AL_STATUS_FAILED] = true,
		[AL_STATUS_NEEDS_RECONCILIATION] = true,	/* a restored copy cannot know */
	},
	[AL_STATUS_SUBMITTED] = {
		[AL_STATUS_PREPARED] = true,				/* it was not sent, or refused for now */
		[AL_STATUS_SUBMITTED] = true,
		[AL_STATUS_CONFIRMED] = true,
		[AL_STATUS_FAILED] = true,
		[AL_STATUS_NEEDS_RECONCILIATION] = true,
	},
	[AL_STATUS_NEEDS_RECONCILIATION] = {
		[AL_STATUS_PREPARED] = true,				/* a person's retry, nothing sent */
		[AL_STATUS_SUBMITTED] = true,
		[AL_STATUS_CONFIRMED] = true,
		[AL_STATUS_FAILED] = true,
		[AL_STATUS_NEEDS_RECONCILIATION] = true,
	},
};
/* clang-format on */
/* *INDENT-ON* */

static const char *const known_names[AL_N_KNOWN] = {
	[AL_KNOWN_NOTHING] = "nothing",
	[AL_KNOWN_NOT_SENT] = "not_sent",
	[AL_KNOWN_REJECTED_TRANSIENT] = "rejected_transient",
	[AL_KNOWN_REJECTED] = "rejected",
	[AL_KNOWN_CONFIRMED] = "confirmed",
	[AL_KNOWN_IN_PROGRESS] = "in_progress",
	[AL_KNOWN_UNKNOWN] = "unknown",
	[AL_KNOWN_UNKNOWN_ENDED] = "unknown_ended",
	[AL_KNOWN_ABSENT] = "absent",
	[AL_KNOWN_SEVERAL] = "several",
};

static const char *const sight_names[AL_N_SIGHTS] = {
	[AL_FOUND_NOTHING_SURE] = "nothing_sure",
	[AL_FOUND_CONFIRMED] = "confirmed",
	[AL_FOUND_REJECTED] = "rejected",
	[AL_FOUND_REJECTED_TRANSIENT] = "rejected_transient",
	[AL_FOUND_IN_PROGRESS] = "in_progress",
	[AL_FOUND_NONE] = "none",
	[AL_FOUND_SEVERAL] = "several",
};

static AlKnown fold_first(const AlOutcome *outcome);
static AlKnown fold_open(AlActionType type, AlKnown before, const AlOutcome *outcome);
static AlKnown none_found(AlKnown before, const AlSighting *sighting);
static AlKnown refused_later(AlActionType type);
static Pressure pressure_of(const AlSituation *situation);
static Column column_of(const AlSituation *situation);
static AlDecision resolve(Cell cell, const AlSituation *situation);
static AlDecision unapproved(const AlSituation *situation);
static AlDecision fail(const char *error_code);
static AlDecision open_outcome(AlStatus status, AlStep step, AlWhen when);
static const char *stop_code(AlStop stop);

/* Folds one more attempt into what was known. */
AlKnown
al_policy_fold(AlActionType type, AlKnown before, const AlOutcome *outcome)
{
	bool		conclusive = outcome->conclusive && outcome->verdict != AL_VERDICT_UNKNOWN;

	if (before == AL_KNOWN_CONFIRMED || outcome->verdict == AL_VERDICT_CONFIRMED)
		return AL_KNOWN_CONFIRMED;
	if (before == AL_KNOWN_REJECTED || before == AL_KNOWN_SEVERAL)
		return before;
	if (conclusive)
		return fold_first(outcome);
	if (al_policy_is_open(before))
		return fold_open(type, before, outcome);

	/* A send that never left does not undo what is known of earlier ones. */
	if ((before == AL_KNOWN_REJECTED_TRANSIENT || before == AL_KNOWN_ABSENT) &&
		outcome->verdict == AL_VERDICT_NOT_SENT)
		return before;
	return fold_first(outcome);
}

/* Folds a lookup into what was known. */
AlKnown
al_policy_fold_lookup(AlActionType type, AlKnown before, const AlSighting *sighting)
{
	AlOutcome	found = {.conclusive = true};

	if (!al_policy_is_open(before))
		return before;
	switch (sighting->finding)
	{
		case AL_FOUND_NOTHING_SURE:
			return before;
		case AL_FOUND_CONFIRMED:
			found.verdict = AL_VERDICT_CONFIRMED;
			break;
		case AL_FOUND_REJECTED_TRANSIENT:
			found.transient = true;
			found.verdict = AL_VERDICT_REJECTED;
			break;
		case AL_FOUND_REJECTED:
			found.verdict = AL_VERDICT_REJECTED;
			break;
		case AL_FOUND_IN_PROGRESS:
			/* It does not re-open what has ended. */
			found.conclusive = false;
			found.verdict = AL_VERDICT_IN_PROGRESS;
			break;
		case AL_FOUND_NONE:
			return none_found(before, sighting);
		case AL_FOUND_SEVERAL:
			return AL_KNOWN_SEVERAL;
	}
	return al_policy_fold(type, before, &found);
}

/* Says whether an effect may exist that nobody has confirmed. */
bool
al_policy_is_open(AlKnown known)
{
	switch (known)
	{
		case AL_KNOWN_NOTHING:
		case AL_KNOWN_NOT_SENT:
		case AL_KNOWN_REJECTED_TRANSIENT:
		case AL_KNOWN_REJECTED:
		case AL_KNOWN_CONFIRMED:
		case AL_KNOWN_ABSENT:
			return false;
		case AL_KNOWN_IN_PROGRESS:
		case AL_KNOWN_UNKNOWN:
		case AL_KNOWN_UNKNOWN_ENDED:
		case AL_KNOWN_SEVERAL:
			break;
	}
	return true;
}

/* Decides what happens next. */
AlDecision
al_policy_decide(const AlSituation *situation)
{
	Pressure	pressure = pressure_of(situation);
	Column		column = column_of(situation);
	AlDecision	decision = resolve(table[situation->known][pressure][column], situation);

	if (situation->overridden && pressure != STOPPED && al_policy_may_override(situation->known))
		decision = open_outcome(AL_STATUS_SUBMITTED, AL_STEP_RESEND, AL_WHEN_NOW);
	if ((decision.step == AL_STEP_SEND || decision.step == AL_STEP_RESEND) &&
		situation->approval != AL_APPROVAL_GIVEN)
		return unapproved(situation);
	return decision;
}

/* Says whether a person may decide to send again what may have happened. */
bool
al_policy_may_override(AlKnown known)
{
	return al_policy_is_open(known) && known != AL_KNOWN_SEVERAL;
}

/* Says whether evidence contradicts a status. */
bool
al_policy_contradicts(AlStatus status, bool sole, const AlOutcome *outcome)
{
	switch (status)
	{
		case AL_STATUS_PREPARED:
		case AL_STATUS_FAILED:
			return outcome->verdict == AL_VERDICT_CONFIRMED || outcome->verdict == AL_VERDICT_IN_PROGRESS;
		case AL_STATUS_CONFIRMED:
			return outcome->verdict == AL_VERDICT_REJECTED && !outcome->transient && (outcome->conclusive || sole);
		case AL_STATUS_SUBMITTED:
		case AL_STATUS_NEEDS_RECONCILIATION:
			break;
	}
	return false;
}

/* Says whether an action may ever go from one status to another. */
bool
al_policy_may_move(AlStatus from, AlStatus to)
{
	return moves[from][to];
}

/* Spells a finding. */
const char *
al_sight_name(AlSightKind finding)
{
	if ((int) finding < 0 || (int) finding >= AL_N_SIGHTS)
		return "invalid";
	return sight_names[finding];
}

/* Reads a finding. */
bool
al_sight_parse(const char *name, AlSightKind *out)
{
	if (name == NULL)
		return false;
	for (int i = 0; i < AL_N_SIGHTS; i++)
	{
		if (strcmp(sight_names[i], name) == 0)
		{
			*out = (AlSightKind) i;
			return true;
		}
	}
	return false;
}

/* Spells what is known, as it is stored. */
const char *
al_known_name(AlKnown known)
{
	if ((int) known < 0 || (int) known >= AL_N_KNOWN)
		return "invalid";
	return known_names[known];
}

/* Reads what is known, as it is stored. */
bool
al_known_parse(const char *name, AlKnown *out)
{
	if (name == NULL)
		return false;
	for (int i = 0; i < AL_N_KNOWN; i++)
	{
		if (strcmp(known_names[i], name) == 0)
		{
			*out = (AlKnown) i;
			return true;
		}
	}
	return false;
}

/* Gives what one outcome proves by itself. */
static AlKnown
fold_first(const AlOutcome *outcome)
{
	switch (outcome->verdict)
	{
		case AL_VERDICT_NOT_SENT:
			return AL_KNOWN_NOT_SENT;
		case AL_VERDICT_REJECTED:
			return outcome->transient ? AL_KNOWN_REJECTED_TRANSIENT : AL_KNOWN_REJECTED;
		case AL_VERDICT_CONFIRMED:
			return AL_KNOWN_CONFIRMED;
		case AL_VERDICT_IN_PROGRESS:
			return outcome->ends_resending ? AL_KNOWN_UNKNOWN_ENDED : AL_KNOWN_IN_PROGRESS;
		case AL_VERDICT_UNKNOWN:
			break;
	}
	return outcome->ends_resending ? AL_KNOWN_UNKNOWN_ENDED : AL_KNOWN_UNKNOWN;
}

/* Folds an outcome that speaks for its own attempt only into an open one. */
static AlKnown
fold_open(AlActionType type, AlKnown before, const AlOutcome *outcome)
{
	if (outcome->ends_resending && outcome->verdict != AL_VERDICT_REJECTED)
		return AL_KNOWN_UNKNOWN_ENDED;

	switch (outcome->verdict)
	{
		case AL_VERDICT_NOT_SENT:
			return before;
		case AL_VERDICT_REJECTED:
			return outcome->transient ? before : refused_later(type);
		case AL_VERDICT_CONFIRMED:
			return AL_KNOWN_CONFIRMED;
		case AL_VERDICT_IN_PROGRESS:
			return before == AL_KNOWN_UNKNOWN_ENDED ? before : AL_KNOWN_IN_PROGRESS;
		case AL_VERDICT_UNKNOWN:
			break;
	}
	return before == AL_KNOWN_UNKNOWN_ENDED ? before : AL_KNOWN_UNKNOWN;
}

/* Gives what a whole answer without the object proves; before several it proves nothing. */
static AlKnown
none_found(AlKnown before, const AlSighting *sighting)
{
	if (before == AL_KNOWN_SEVERAL || !sighting->authoritative || !sighting->processed)
		return before;
	return sighting->never_sent ? AL_KNOWN_NOTHING : AL_KNOWN_ABSENT;
}

/* Gives what a refusal for good leaves known of an open outcome: a read has no effect to be unsure of. */
static AlKnown
refused_later(AlActionType type)
{
	return type == AL_TYPE_READ_ONLY ? AL_KNOWN_REJECTED : AL_KNOWN_UNKNOWN_ENDED;
}

/* Names the pressure; a stop comes before the bounds. */
static Pressure
pressure_of(const AlSituation *situation)
{
	switch (situation->stop)
	{
		case AL_STOP_NO:
			break;
		case AL_STOP_CANCELLED:
		case AL_STOP_EXPIRED:
			return STOPPED;
	}
	switch (situation->budget)
	{
		case AL_BUDGET_OPEN:
			return NO_PRESSURE;
		case AL_BUDGET_USED_UP:
			break;
	}
	return USED_UP;
}

/* Names the column; only for non_idempotent does the key make a difference. */
static Column
column_of(const AlSituation *situation)
{
	switch (situation->type)
	{
		case AL_TYPE_READ_ONLY:
			return COLUMN_READ_ONLY;
		case AL_TYPE_IDEMPOTENT:
			return COLUMN_IDEMPOTENT;
		case AL_TYPE_NON_IDEMPOTENT:
			switch (situation->key)
			{
				case AL_KEY_OPEN:
					return COLUMN_KEYED;
				case AL_KEY_PASSED:
				case AL_KEY_NOT_HONOURED:
					return COLUMN_UNKEYED;
			}
			return COLUMN_UNKEYED;
		case AL_TYPE_IRREVERSIBLE:
			break;
	}
	return COLUMN_IRREVERSIBLE;
}

/* Turns a cell into a decision, given the tool's lookup and the kind of stop. */
static AlDecision
resolve(Cell cell, const AlSituation *situation)
{
	bool		lookup = situation->lookup == AL_LOOKUP_OPEN;

	switch (cell)
	{
		case SEND:
			return (AlDecision) {AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_NOW, NULL};
		case RETRY:
			return (AlDecision) {AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_BACKOFF, NULL};
		case RESEND:
			return open_outcome(AL_STATUS_SUBMITTED, AL_STEP_RESEND, AL_WHEN_BACKOFF);
		case LOOKUP_ELSE_RESEND:
			return open_outcome(AL_STATUS_SUBMITTED,
								lookup ? AL_STEP_LOOKUP : AL_STEP_RESEND, AL_WHEN_BACKOFF);
		case LOOKUP_ELSE_WAIT:
			if (lookup)
				return open_outcome(AL_STATUS_SUBMITTED, AL_STEP_LOOKUP, AL_WHEN_BACKOFF);
			return open_outcome(AL_STATUS_SUBMITTED, AL_STEP_WAIT, AL_WHEN_WINDOW_END);
		case LOOKUP_ELSE_REVIEW:
			if (lookup)
				return open_outcome(AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_LOOKUP, AL_WHEN_PROCESSED);
			break;
		case REVIEW:
			break;
		case CONFIRM:
			return (AlDecision) {AL_STATUS_CONFIRMED, AL_STEP_NONE, AL_WHEN_NEVER, NULL};
		case FAIL_REJECTED:
			return fail("rejected");
		case FAIL_RETRIES:
			return fail("retries_exhausted");
		case FAIL_NO_ANSWER:
			return fail("no_answer");
		case RESEND_ELSE_FAIL:
			if (situation->resend)
				return (AlDecision) {AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_BACKOFF, NULL};
			return fail("absent");
		case FAIL_ABSENT:
			return fail("absent");
		case FAIL_STOPPED:
			return fail(stop_code(situation->stop));
	}
	return open_outcome(AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_REVIEW, AL_WHEN_NEVER);
}

/* Decides in the place of a send that nobody has approved. */
static AlDecision
unapproved(const AlSituation *situation)
{
	if (al_policy_is_open(situation->known))
		return open_outcome(AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_REVIEW, AL_WHEN_NEVER);
	if (situation->approval == AL_APPROVAL_LAPSED)
		return fail("approval_expired");
	return (AlDecision) {AL_STATUS_PREPARED, AL_STEP_APPROVE, AL_WHEN_APPROVAL_END, NULL};
}

/* Makes the decision that it did not happen and will not. */
static AlDecision
fail(const char *error_code)
{
	return (AlDecision) {AL_STATUS_FAILED, AL_STEP_NONE, AL_WHEN_NEVER, error_code};
}

/* Makes a decision for an action of which an effect may exist. */
static AlDecision
open_outcome(AlStatus status, AlStep step, AlWhen when)
{
	return (AlDecision) {status, step, when, "outcome_unknown"};
}

/* Names the stop as an error code. */
static const char *
stop_code(AlStop stop)
{
	switch (stop)
	{
		case AL_STOP_NO:
		case AL_STOP_CANCELLED:
			break;
		case AL_STOP_EXPIRED:
			return "expired";
	}
	return "cancelled";
}
