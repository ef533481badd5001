/*
 * policy.h
 *		The state machine: what may happen next to an action.
 *
 * Pure C, libc only.  One table, read by every path: the dispatcher, the
 * operator's verbs, callbacks, outside executors and crash recovery.
 */
#ifndef AL_POLICY_H
#define AL_POLICY_H

#include "classify.h"

/* What all attempts of an action prove together (the fold); stored with it. */
typedef enum AlKnown
{
	AL_KNOWN_NOTHING,			/* no attempt yet */
	AL_KNOWN_NOT_SENT,			/* every send is proven undelivered */
	AL_KNOWN_REJECTED_TRANSIENT,	/* refused, may be accepted later; nothing unknown */
	AL_KNOWN_REJECTED,			/* refused for good; nothing unknown */
	AL_KNOWN_CONFIRMED,
	AL_KNOWN_IN_PROGRESS,		/* the destination said it is at it */
	AL_KNOWN_UNKNOWN,			/* may have happened */
	AL_KNOWN_UNKNOWN_ENDED,		/* may have happened, and re-sending has ended */
	AL_KNOWN_ABSENT,			/* a lookup proved that it did not happen and will not */
	AL_KNOWN_SEVERAL			/* a lookup found it more than once */
} AlKnown;
#define AL_N_KNOWN 10

/* The idempotency key at the destination, now. */
typedef enum AlKeyState
{
	AL_KEY_NOT_HONOURED,
	AL_KEY_OPEN,				/* honoured and inside its window less the margin */
	AL_KEY_PASSED				/* honoured, but its window is over */
} AlKeyState;
#define AL_N_KEY_STATES 3

/* Sends left: by count and by the retry window, both. */
typedef enum AlBudget
{
	AL_BUDGET_OPEN,
	AL_BUDGET_USED_UP
} AlBudget;
#define AL_N_BUDGETS 2

/* The tool's lookup, with a budget of its own. */
typedef enum AlLookup
{
	AL_LOOKUP_NONE,
	AL_LOOKUP_OPEN,
	AL_LOOKUP_USED_UP
} AlLookup;
#define AL_N_LOOKUPS 3

/* Whether somebody or something wants this action to end. */
typedef enum AlStop
{
	AL_STOP_NO,
	AL_STOP_CANCELLED,
	AL_STOP_EXPIRED
} AlStop;
#define AL_N_STOPS 3

/* Whether a person has to allow the action before anything is sent. */
typedef enum AlApproval
{
	AL_APPROVAL_GIVEN,			/* or none is needed */
	AL_APPROVAL_WAITED,
	AL_APPROVAL_LAPSED			/* nobody gave it in time */
} AlApproval;
#define AL_N_APPROVALS 3

/*
 * All that the decision depends on.  For an action whose unknown outcome
 * cannot be re-sent, budget is that of the lookups, where the tool has one, not
 * of the sends: the caller supplies it, so that one spent send does not cut the
 * lookups off.
 */
typedef struct AlSituation
{
	AlActionType type;
	AlKnown		known;
	AlKeyState	key;
	AlBudget	budget;
	AlLookup	lookup;
	AlStop		stop;
	bool		resend;			/* the tool allows one send more after a proved absence, and it has not been used */
	AlApproval	approval;
	bool		overridden;		/* a person has decided to send once more, whatever that may do */
} AlSituation;

/* When the step is due. */
typedef enum AlWhen
{
	AL_WHEN_NEVER,				/* nothing will happen by itself */
	AL_WHEN_NOW,
	AL_WHEN_BACKOFF,			/* after the retry delay */
	AL_WHEN_PROCESSED,			/* not before the max processing time since the last send is over */
	AL_WHEN_WINDOW_END,			/* a callback may come until the retry window ends */
	AL_WHEN_APPROVAL_END		/* a person may approve until then */
} AlWhen;

typedef struct AlDecision
{
	AlStatus	status;
	AlStep		step;
	AlWhen		when;
	const char *error_code;		/* NULL, or rejected, retries_exhausted, no_answer,
								 * absent, cancelled, expired, approval_expired
								 * (failed); outcome_unknown (submitted with an
								 * open outcome, needs_reconciliation); static
								 * storage */
} AlDecision;

/* What a lookup found. */
typedef enum AlSightKind
{
	AL_FOUND_NOTHING_SURE,		/* no answer, or one that proves nothing: look again */
	AL_FOUND_CONFIRMED,			/* exactly one object, and it says that it was done */
	AL_FOUND_REJECTED,			/* exactly one, and it says that it was refused or has failed */
	AL_FOUND_REJECTED_TRANSIENT,	/* and that the same request may be accepted later */
	AL_FOUND_IN_PROGRESS,		/* exactly one, not done yet */
	AL_FOUND_NONE,				/* a whole answer without it */
	AL_FOUND_SEVERAL			/* it was done more than once */
} AlSightKind;
#define AL_N_SIGHTS 7

/* What a lookup proves, and what its answer can prove. */
typedef struct AlSighting
{
	AlSightKind	finding;
	bool		authoritative;	/* the tool declares that the destination shows what it has done */
	bool		processed;		/* it began after the max processing time since the last send was over */
	bool		never_sent;		/* nothing was sent from here: another place may have done so */
} AlSighting;

/*
 * Fold one more attempt into what was known.  Any confirmed is confirmed; else
 * any unknown or in_progress counts; only without one do rejected and not_sent
 * decide.  A conclusive outcome decides for all earlier attempts.  A permanent
 * rejection after an unknown one gives AL_KNOWN_UNKNOWN_ENDED, which later
 * unknowns do not undo (a read_only action, which has no effect to be unsure of,
 * is simply rejected); so does an outcome that ends re-sending, for every type,
 * because it answers nothing.  Attempts of terminal knowledge (confirmed,
 * rejected) change nothing, except that confirmed always wins.  Of in_progress
 * and unknown the later one counts.  An unknown outcome is never conclusive,
 * whatever its flag says.  After several were found only a confirmation counts.
 */
extern AlKnown al_policy_fold(AlActionType type, AlKnown before, const AlOutcome *outcome);

/*
 * Fold a lookup into what was known.  What it finds about exactly one object
 * is conclusive for all sends.  That it finds none proves the absence only
 * where the tool declares so and nothing can be in progress any more; then
 * nothing earlier counts.  All else leaves what was known, and so does a lookup
 * when there was nothing to look for.
 */
extern AlKnown al_policy_fold_lookup(AlActionType type, AlKnown before, const AlSighting *sighting);

/* Whether an effect may exist that nobody has confirmed. */
extern bool al_policy_is_open(AlKnown known);

/*
 * Decide what happens next.  Total over the full product of its inputs.  Without
 * the approval that it needs, nothing is sent, whatever the table says.
 */
extern AlDecision al_policy_decide(const AlSituation *situation);

/* Whether a person may decide to send again: while it is open, unless it was found more than once. */
extern bool al_policy_may_override(AlKnown known);

/*
 * Whether evidence says the contrary of an action's status: that something
 * happened, or is about to, that has not been sent or has failed; that a confirmed
 * one was refused.  A refusal speaks for one attempt only, so it contradicts a
 * confirmation when it is conclusive or there was but one send (sole).
 */
extern bool al_policy_contradicts(AlStatus status, bool sole, const AlOutcome *outcome);

/* Whether an action may ever go from one status to another (same status: false for terminal ones only). */
extern bool al_policy_may_move(AlStatus from, AlStatus to);

/* Spelling of a finding; never NULL; and its reader. */
extern const char *al_sight_name(AlSightKind finding);
extern bool al_sight_parse(const char *name, AlSightKind *out);

/* Spelling of the fold, as stored; never NULL; and its reader. */
extern const char *al_known_name(AlKnown known);
extern bool al_known_parse(const char *name, AlKnown *out);

#endif							/* AL_POLICY_H */
