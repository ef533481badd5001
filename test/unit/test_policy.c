/*
 * test_policy.c
 *		The state machine does what the design's table says, in every cell.
 *
 * The expectation is written from the prose, column by column (one function per
 * kind of action), so that it shares nothing with the table under test but the
 * design.  Behind it come claims that must hold whatever the table says, the
 * fold in every cell, and seeded random histories against a model that looks
 * at the whole list of outcomes at once.
 */
#include <stdint.h>
#include <stdlib.h>

#include "rules/policy.h"

#include "situations.h"
#include "tap.h"

#define BIT(known) (1u << (known))

static uint64_t seed = UINT64_C(20260117);

static void check_decisions(void);
static void check_claims(void);
static void check_override(void);
static void check_moves(void);
static void check_open(void);
static void check_contradictions(void);
static void check_fold(void);
static void check_lookups(void);
static void check_histories(void);

int
main(void)
{
	check_decisions();
	check_claims();
	check_override();
	check_moves();
	check_open();
	check_contradictions();
	check_fold();
	check_lookups();
	check_histories();
	return done_testing();
}

/*
 * A person's decision to send once more counts in every situation in which
 * something may have happened and nobody has stopped it, and in no other: what
 * is not open, was found more than once, was cancelled or has expired goes on as
 * if nobody had decided.
 */
static void
check_override(void)
{
	tap_group("a decision to send once more");
	for (int type = 0; type < AL_N_ACTION_TYPES; type++)
		for (int known = 0; known < AL_N_KNOWN; known++)
			for (int key = 0; key < AL_N_KEY_STATES; key++)
				for (int budget = 0; budget < AL_N_BUDGETS; budget++)
					for (int lookup = 0; lookup < AL_N_LOOKUPS; lookup++)
						for (int stop = 0; stop < AL_N_STOPS; stop++)
						{
							AlSituation situation = {type, known, key, budget, lookup, stop, .approval = AL_APPROVAL_GIVEN};
							AlDecision	plain = al_policy_decide(&situation);
							AlDecision	decided;
							bool		counts = stop == AL_STOP_NO &&
								(known == AL_KNOWN_IN_PROGRESS || known == AL_KNOWN_UNKNOWN || known == AL_KNOWN_UNKNOWN_ENDED);

							situation.overridden = true;
							decided = al_policy_decide(&situation);
							if (counts)
								tap_cell(decided.status == AL_STATUS_SUBMITTED && decided.step == AL_STEP_RESEND && decided.when == AL_WHEN_NOW,
										 "type %d known %d key %d budget %d lookup %d", type, known, key, budget, lookup);
							else
								tap_cell(decided.status == plain.status && decided.step == plain.step && decided.when == plain.when,
										 "type %d known %d key %d budget %d lookup %d stop %d", type, known, key, budget, lookup, stop);
						}
	tap_group_end();
}

/* ---- What the prose says of a decision ---- */

static AlDecision
say(AlStatus status, AlStep step, AlWhen when, const char *error_code)
{
	AlDecision	said = {status, step, when, error_code};

	return said;
}

static AlDecision
failed(const char *why)
{
	return say(AL_STATUS_FAILED, AL_STEP_NONE, AL_WHEN_NEVER, why);
}

static AlDecision
send_again_same_key(void)
{
	return say(AL_STATUS_SUBMITTED, AL_STEP_RESEND, AL_WHEN_BACKOFF, "outcome_unknown");
}

static AlDecision
person(void)
{
	return say(AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_REVIEW, AL_WHEN_NEVER, "outcome_unknown");
}

/* "lookup after the max processing time, else review" */
static AlDecision
lookup_else_review(AlLookup lookup)
{
	if (lookup == AL_LOOKUP_OPEN)
		return say(AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_LOOKUP, AL_WHEN_PROCESSED, "outcome_unknown");
	return person();
}

/* The destination is at it: ask it, else poll by re-sending where that is safe, else wait for a callback. */
static AlDecision
keep_asking(AlLookup lookup, bool resend_is_safe)
{
	if (lookup == AL_LOOKUP_OPEN)
		return say(AL_STATUS_SUBMITTED, AL_STEP_LOOKUP, AL_WHEN_BACKOFF, "outcome_unknown");
	if (resend_is_safe)
		return send_again_same_key();
	return say(AL_STATUS_SUBMITTED, AL_STEP_WAIT, AL_WHEN_WINDOW_END, "outcome_unknown");
}

static const char *
stop_code(AlStop stop)
{
	return stop == AL_STOP_CANCELLED ? "cancelled" : "expired";
}

/*
 * Proved absent: one send more if the tool allows it and nobody wants the action
 * to end, never an irreversible one; else it has failed.
 */
static AlDecision
expect_absent(const AlSituation *s)
{
	bool		once_more = s->resend && s->type != AL_TYPE_IRREVERSIBLE && s->stop == AL_STOP_NO && s->budget == AL_BUDGET_OPEN;

	return once_more ? say(AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_BACKOFF, NULL) : failed("absent");
}

/* Nothing is unknown: all kinds of action are alike. */
static AlDecision
expect_nothing_open(const AlSituation *s)
{
	if (s->known == AL_KNOWN_CONFIRMED)
		return say(AL_STATUS_CONFIRMED, AL_STEP_NONE, AL_WHEN_NEVER, NULL);
	if (s->known == AL_KNOWN_REJECTED)
		return failed("rejected");
	if (s->known == AL_KNOWN_ABSENT)
		return expect_absent(s);
	if (s->stop != AL_STOP_NO)
		return failed(stop_code(s->stop));
	if (s->known == AL_KNOWN_NOTHING)
		return say(AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_NOW, NULL);
	if (s->budget == AL_BUDGET_USED_UP)
		return failed("retries_exhausted");
	return say(AL_STATUS_PREPARED, AL_STEP_SEND, AL_WHEN_BACKOFF, NULL);
}

/* Column read_only: no effect is possible, so an end without an answer is a failure. */
static AlDecision
expect_read_only(const AlSituation *s)
{
	if (s->stop != AL_STOP_NO)
		return failed(stop_code(s->stop));
	if (s->budget == AL_BUDGET_USED_UP || s->known == AL_KNOWN_UNKNOWN_ENDED)
		return failed("no_answer");
	if (s->known == AL_KNOWN_IN_PROGRESS)
		return keep_asking(s->lookup, true);
	return send_again_same_key();
}

/* Columns idempotent, and non_idempotent with its key honoured and in its window. */
static AlDecision
expect_resendable(const AlSituation *s)
{
	if (s->stop != AL_STOP_NO || s->budget == AL_BUDGET_USED_UP || s->known == AL_KNOWN_UNKNOWN_ENDED)
		return lookup_else_review(s->lookup);
	if (s->known == AL_KNOWN_IN_PROGRESS)
		return keep_asking(s->lookup, true);
	return send_again_same_key();
}

/* Column non_idempotent otherwise. */
static AlDecision
expect_once_only(const AlSituation *s)
{
	if (s->known == AL_KNOWN_IN_PROGRESS && s->stop == AL_STOP_NO && s->budget == AL_BUDGET_OPEN)
		return keep_asking(s->lookup, false);
	return lookup_else_review(s->lookup);
}

/* Column irreversible: as once only, but a used-up budget goes straight to a person. */
static AlDecision
expect_irreversible(const AlSituation *s)
{
	if (s->stop == AL_STOP_NO && s->budget == AL_BUDGET_USED_UP)
		return person();
	return expect_once_only(s);
}

static AlDecision
expect(const AlSituation *s)
{
	if (s->known == AL_KNOWN_SEVERAL)	/* "More than one: review" */
		return person();
	if (s->known != AL_KNOWN_UNKNOWN && s->known != AL_KNOWN_IN_PROGRESS && s->known != AL_KNOWN_UNKNOWN_ENDED)
		return expect_nothing_open(s);
	if (s->type == AL_TYPE_READ_ONLY)
		return expect_read_only(s);
	if (s->type == AL_TYPE_IRREVERSIBLE)
		return expect_irreversible(s);
	if (s->type == AL_TYPE_IDEMPOTENT || s->key == AL_KEY_OPEN)
		return expect_resendable(s);
	return expect_once_only(s);
}

/* ---- The full product ---- */

/* A situation in words; one static buffer. */
static const char *
describe(const AlSituation *s)
{
	static const char *const KEY[] = {"no key", "key open", "key passed"};
	static const char *const LOOKUP[] = {"no lookup", "lookup open", "lookup used up"};
	static const char *const STOP[] = {"no stop", "cancelled", "expired"};
	static char text[192];

	snprintf(text, sizeof(text), "%s, %s, %s, budget %s, %s, %s%s", al_type_name(s->type), al_known_name(s->known),
			 KEY[s->key], s->budget == AL_BUDGET_OPEN ? "open" : "used up", LOOKUP[s->lookup], STOP[s->stop], s->resend ? ", one send more allowed" : "");
	return text;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Every cell of the table is what the prose says. */
static void
check_decisions(void)
{
	int			per_status[AL_N_STATUSES] = {0};

	tap_group("type x known x key x budget x lookup x stop decide as the design's prose says");
	for (int n = 0; n < N_SITUATIONS; n++)
	{
		AlSituation s = situation(n, AL_APPROVAL_GIVEN);
		AlDecision	want = expect(&s);
		AlDecision	got = al_policy_decide(&s);

		if (got.status < AL_N_STATUSES)
			per_status[got.status]++;
		tap_cell(got.status == want.status && got.step == want.step && got.when == want.when
				 && same_text(got.error_code, want.error_code),
				 "%s: got %s/%s/%d/%s, expected %s/%s/%d/%s", describe(&s),
				 al_status_name(got.status), al_step_name(got.step), got.when, got.error_code ? got.error_code : "-",
				 al_status_name(want.status), al_step_name(want.step), want.when, want.error_code ? want.error_code : "-");
	}
	tap_group_end();
	for (int i = 0; i < AL_N_STATUSES; i++)
		ok(per_status[i] > 0, "%s is reached (%d cells)", al_status_name((AlStatus) i), per_status[i]);
}

/* ---- Claims that hold over the product, whatever the table ---- */

static bool
is_open(AlKnown known)
{
	return known == AL_KNOWN_IN_PROGRESS || known == AL_KNOWN_UNKNOWN || known == AL_KNOWN_UNKNOWN_ENDED || known == AL_KNOWN_SEVERAL;
}

/* The pairs of status and step that the vocabulary allows the table to give. */
static bool
is_designed_pair(AlStatus status, AlStep step)
{
	switch (status)
	{
		case AL_STATUS_PREPARED:
			return step == AL_STEP_SEND;
		case AL_STATUS_SUBMITTED:
			return step == AL_STEP_WAIT || step == AL_STEP_RESEND || step == AL_STEP_LOOKUP;
		case AL_STATUS_CONFIRMED:
		case AL_STATUS_FAILED:
			return step == AL_STEP_NONE;
		case AL_STATUS_NEEDS_RECONCILIATION:
			return step == AL_STEP_LOOKUP || step == AL_STEP_REVIEW;
	}
	return false;
}

/* One situation's claims. */
static void
claim(const AlSituation *s, AlDecision d)
{
	bool		open = is_open(s->known);
	bool		sends = d.step == AL_STEP_SEND || d.step == AL_STEP_RESEND;
	bool		once_only = s->type == AL_TYPE_IRREVERSIBLE || (s->type == AL_TYPE_NON_IDEMPOTENT && s->key != AL_KEY_OPEN);
	bool		unsettled = d.status == AL_STATUS_SUBMITTED || d.status == AL_STATUS_NEEDS_RECONCILIATION;
	AlSituation other = *s;
	AlDecision	with_other_key;

	tap_cell(!(open && once_only && sends), "sent again though it may have happened: %s", describe(s));
	tap_cell(!(open && d.status == AL_STATUS_PREPARED), "back to prepared though it may have happened: %s", describe(s));
	tap_cell(!(open && d.status == AL_STATUS_FAILED && s->type != AL_TYPE_READ_ONLY), "failed without evidence: %s", describe(s));
	tap_cell((d.status == AL_STATUS_CONFIRMED) == (s->known == AL_KNOWN_CONFIRMED), "confirmed against the evidence: %s", describe(s));
	tap_cell(!unsettled || open, "%s though nothing is unknown: %s", al_status_name(d.status), describe(s));
	tap_cell(!(s->stop != AL_STOP_NO && sends), "sent after a stop: %s", describe(s));
	tap_cell(!(s->stop != AL_STOP_NO && d.status == AL_STATUS_SUBMITTED), "submitted after a stop: %s", describe(s));
	tap_cell(!(sends && s->budget == AL_BUDGET_USED_UP && s->known != AL_KNOWN_NOTHING), "sent without budget: %s", describe(s));
	tap_cell(!(sends && s->known == AL_KNOWN_UNKNOWN_ENDED), "sent after re-sending ended: %s", describe(s));
	tap_cell(!(sends && s->known == AL_KNOWN_SEVERAL), "sent after it was found several times: %s", describe(s));
	tap_cell(!(sends && s->known == AL_KNOWN_ABSENT && (!s->resend || s->type == AL_TYPE_IRREVERSIBLE)), "sent after an absence though that is not allowed: %s", describe(s));
	tap_cell(!(d.step == AL_STEP_LOOKUP && s->lookup != AL_LOOKUP_OPEN), "lookup without a lookup budget: %s", describe(s));
	tap_cell(is_designed_pair(d.status, d.step), "%s/%s is no pair of the vocabulary: %s", al_status_name(d.status), al_step_name(d.step), describe(s));

	/* needs_reconciliation exactly when the outcome is unknown and no automatic send may follow. */
	if (open && s->type != AL_TYPE_READ_ONLY)
	{
		bool		waiting = s->known == AL_KNOWN_IN_PROGRESS && (d.step == AL_STEP_LOOKUP || d.step == AL_STEP_WAIT);

		tap_cell((d.status == AL_STATUS_NEEDS_RECONCILIATION) == !(d.status == AL_STATUS_SUBMITTED && (sends || waiting)),
				 "needs_reconciliation and the next send disagree: %s", describe(s));
	}

	/* Never a silent stop: what does not end by itself has a time, what ends has none. */
	tap_cell((d.when == AL_WHEN_NEVER) == (d.step == AL_STEP_NONE || d.step == AL_STEP_REVIEW), "step %s has time %d: %s", al_step_name(d.step), d.when, describe(s));
	tap_cell(!(d.status == AL_STATUS_NEEDS_RECONCILIATION && d.step == AL_STEP_LOOKUP && d.when != AL_WHEN_PROCESSED), "lookup before the max processing time: %s", describe(s));
	tap_cell((d.error_code != NULL) == (unsettled || d.status == AL_STATUS_FAILED), "error code %s with %s: %s", d.error_code ? d.error_code : "-", al_status_name(d.status), describe(s));
	tap_cell(unsettled == same_text(d.error_code, "outcome_unknown"), "outcome_unknown misplaced: %s", describe(s));

	/* The key means something for non_idempotent only. */
	other.key = (AlKeyState) ((s->key + 1) % AL_N_KEY_STATES);
	with_other_key = al_policy_decide(&other);
	if (s->type != AL_TYPE_NON_IDEMPOTENT)
		tap_cell(with_other_key.status == d.status && with_other_key.step == d.step && with_other_key.when == d.when, "the key changes the decision: %s", describe(s));
}

/* The promises hold in every cell, and the decision is the same when asked twice. */
static void
check_claims(void)
{
	tap_group("promises hold in every situation");
	for (int n = 0; n < N_SITUATIONS; n++)
	{
		AlSituation s = situation(n, AL_APPROVAL_GIVEN);
		AlDecision	d = al_policy_decide(&s);
		AlDecision	again = al_policy_decide(&s);

		claim(&s, d);
		tap_cell(d.status == again.status && d.step == again.step && d.when == again.when && same_text(d.error_code, again.error_code), "not a function: %s", describe(&s));
	}
	tap_group_end();
}

/* Any move out of a status that can still change, none out of a terminal one. */
static void
check_moves(void)
{
	tap_group("legal transitions, from x to");
	for (int from = 0; from < AL_N_STATUSES; from++)
	{
		for (int to = 0; to < AL_N_STATUSES; to++)
		{
			bool		want = true;

			if (from == AL_STATUS_CONFIRMED || from == AL_STATUS_FAILED)
				want = false;
			tap_cell(al_policy_may_move((AlStatus) from, (AlStatus) to) == want, "%s -> %s should be %s", al_status_name((AlStatus) from), al_status_name((AlStatus) to), want ? "legal" : "illegal");
		}
	}
	tap_group_end();

	tap_group("every decision is a legal move from every status that can change");
	for (int n = 0; n < N_SITUATIONS; n++)
	{
		AlSituation s = situation(n, AL_APPROVAL_GIVEN);
		AlStatus	to = al_policy_decide(&s).status;

		tap_cell(al_policy_may_move(AL_STATUS_PREPARED, to), "prepared -> %s: %s", al_status_name(to), describe(&s));
		tap_cell(al_policy_may_move(AL_STATUS_SUBMITTED, to), "submitted -> %s: %s", al_status_name(to), describe(&s));
		tap_cell(al_policy_may_move(AL_STATUS_NEEDS_RECONCILIATION, to), "needs_reconciliation -> %s: %s", al_status_name(to), describe(&s));
	}
	tap_group_end();
}

/* Open is what may have happened and nobody confirmed. */
static void
check_open(void)
{
	tap_group("open knowledge");
	for (int known = 0; known < AL_N_KNOWN; known++)
		tap_cell(al_policy_is_open((AlKnown) known) == is_open((AlKnown) known), "%s", al_known_name((AlKnown) known));
	tap_group_end();
}

/* What says the contrary of a status: that it happens where it did not, that it was refused where it happened. */
static void
check_contradictions(void)
{
	tap_group("contradictions");
	for (int n = 0; n < AL_N_STATUSES * AL_N_VERDICTS * 8; n++)
	{
		AlStatus	status = (AlStatus) (n / 8 % AL_N_STATUSES);
		AlOutcome	o = {
			.verdict = (AlVerdict) (n / 8 / AL_N_STATUSES),
			.transient = (n & 1) != 0,
			.conclusive = (n & 2) != 0
		};
		bool		sole = (n & 4) != 0;
		bool		happens = o.verdict == AL_VERDICT_CONFIRMED || o.verdict == AL_VERDICT_IN_PROGRESS;
		bool		want = false;

		if (status == AL_STATUS_PREPARED || status == AL_STATUS_FAILED)
			want = happens;
		/* A later attempt that is refused says nothing of the one that was confirmed. */
		if (status == AL_STATUS_CONFIRMED && o.verdict == AL_VERDICT_REJECTED && !o.transient)
			want = sole || o.conclusive;
		tap_cell(al_policy_contradicts(status, sole, &o) == want, "%s after %s (sole %d, transient %d, conclusive %d) should be %s",
				 al_verdict_name(o.verdict), al_status_name(status), sole, o.transient, o.conclusive, want ? "a contradiction" : "none");
	}
	tap_group_end();
}

/* ---- The fold ---- */

/*
 * The knowledge that the prose allows after one more attempt, as a set.  A
 * flag outside its verdict (transient without a rejection, ends_resending or
 * conclusive without meaning) leaves room; what the prose decides leaves one.
 */
static unsigned
expect_fold(AlActionType type, AlKnown before, const AlOutcome *o)
{
	bool		reads = type == AL_TYPE_READ_ONLY;

	if (before == AL_KNOWN_CONFIRMED || o->verdict == AL_VERDICT_CONFIRMED)
		return BIT(AL_KNOWN_CONFIRMED);
	if (before == AL_KNOWN_REJECTED || before == AL_KNOWN_SEVERAL)
		return BIT(before);

	if (o->verdict == AL_VERDICT_UNKNOWN)
	{
		if (o->ends_resending)
			return BIT(AL_KNOWN_UNKNOWN_ENDED);
		return before == AL_KNOWN_UNKNOWN_ENDED ? BIT(AL_KNOWN_UNKNOWN_ENDED) : BIT(AL_KNOWN_UNKNOWN);
	}
	if (o->verdict == AL_VERDICT_IN_PROGRESS)
	{
		/* Nothing says whether "at it" re-opens what had ended; it stays open either way. */
		if (before == AL_KNOWN_UNKNOWN_ENDED || o->ends_resending)
			return BIT(AL_KNOWN_UNKNOWN_ENDED) | BIT(AL_KNOWN_IN_PROGRESS);
		return BIT(AL_KNOWN_IN_PROGRESS);
	}
	if (o->verdict == AL_VERDICT_REJECTED && !o->transient)
	{
		if (!is_open(before) || o->conclusive || reads)
			return BIT(AL_KNOWN_REJECTED);
		return BIT(AL_KNOWN_UNKNOWN_ENDED);
	}

	/* not_sent, or a transient rejection */
	if (is_open(before) && !o->conclusive)
		return BIT(before) | (o->ends_resending ? BIT(AL_KNOWN_UNKNOWN_ENDED) : 0);
	if (o->verdict == AL_VERDICT_REJECTED)
		return BIT(AL_KNOWN_REJECTED_TRANSIENT);
	if (before == AL_KNOWN_ABSENT)	/* earlier sends were delivered, and had no effect */
		return BIT(AL_KNOWN_ABSENT) | (o->conclusive ? BIT(AL_KNOWN_NOT_SENT) : 0);
	if (before == AL_KNOWN_REJECTED_TRANSIENT)	/* not every send was proven undelivered */
		return BIT(AL_KNOWN_REJECTED_TRANSIENT) | (o->conclusive ? BIT(AL_KNOWN_NOT_SENT) : 0);
	return BIT(AL_KNOWN_NOT_SENT);
}

/* An outcome from a verdict and three flag bits. */
static AlOutcome
outcome(AlVerdict verdict, int flags)
{
	AlOutcome	o = {0};

	o.verdict = verdict;
	o.transient = (flags & 1) != 0;
	o.conclusive = (flags & 2) != 0;
	o.ends_resending = (flags & 4) != 0;
	o.category = "test";
	return o;
}

/* Every cell of the fold; flags that it must not look at change nothing. */
static void
check_fold(void)
{
	tap_group("type x known x verdict x transient x conclusive x ends_resending fold as the prose says");
	for (int cell = 0; cell < AL_N_ACTION_TYPES * AL_N_KNOWN * AL_N_VERDICTS * 8; cell++)
	{
		AlActionType type = (AlActionType) (cell % AL_N_ACTION_TYPES);
		AlKnown		before = (AlKnown) (cell / AL_N_ACTION_TYPES % AL_N_KNOWN);
		AlVerdict	verdict = (AlVerdict) (cell / AL_N_ACTION_TYPES / AL_N_KNOWN % AL_N_VERDICTS);
		AlOutcome	o = outcome(verdict, cell / AL_N_ACTION_TYPES / AL_N_KNOWN / AL_N_VERDICTS);
		AlKnown		got = al_policy_fold(type, before, &o);
		unsigned	want = expect_fold(type, before, &o);

		tap_cell((want & BIT(got)) != 0, "%s: %s + %s%s%s%s gives %s, expected set %#x", al_type_name(type),
				 al_known_name(before), al_verdict_name(verdict), o.transient ? " transient" : "", o.conclusive ? " conclusive" : "",
				 o.ends_resending ? " ends_resending" : "", al_known_name(got), want);
		o.configuration = true;
		o.event = true;
		o.category = "another";
		tap_cell(al_policy_fold(type, before, &o) == got, "%s + %s: configuration, event or category changes the fold", al_known_name(before), al_verdict_name(verdict));
	}
	tap_group_end();
}

/* ---- Lookups ---- */

/* What the prose says is known after a lookup, finding by finding. */
static AlKnown
expect_lookup(AlActionType type, AlKnown before, const AlSighting *s)
{
	bool		proof = s->authoritative && s->processed;

	(void) type;
	if (!is_open(before))		/* nothing was looked for */
		return before;
	if (s->finding == AL_FOUND_CONFIRMED)
		return AL_KNOWN_CONFIRMED;
	if (before == AL_KNOWN_SEVERAL)	/* a person decides, whatever else is found */
		return AL_KNOWN_SEVERAL;
	if (s->finding == AL_FOUND_SEVERAL)
		return AL_KNOWN_SEVERAL;
	if (s->finding == AL_FOUND_REJECTED)
		return AL_KNOWN_REJECTED;
	if (s->finding == AL_FOUND_REJECTED_TRANSIENT)
		return AL_KNOWN_REJECTED_TRANSIENT;
	if (s->finding == AL_FOUND_IN_PROGRESS)	/* what has ended stays ended */
		return before == AL_KNOWN_UNKNOWN_ENDED ? AL_KNOWN_UNKNOWN_ENDED : AL_KNOWN_IN_PROGRESS;
	if (s->finding == AL_FOUND_NONE && proof)
		return s->never_sent ? AL_KNOWN_NOTHING : AL_KNOWN_ABSENT;
	return before;
}

/* Every cell of a lookup's fold, and what never follows from one. */
static void
check_lookups(void)
{
	tap_group("type x known x finding x authoritative x processed x never sent fold as the prose says");
	for (int cell = 0; cell < AL_N_ACTION_TYPES * AL_N_KNOWN * AL_N_SIGHTS * 8; cell++)
	{
		AlActionType type = (AlActionType) (cell % AL_N_ACTION_TYPES);
		AlKnown		before = (AlKnown) (cell / AL_N_ACTION_TYPES % AL_N_KNOWN);
		int			flags = cell / AL_N_ACTION_TYPES / AL_N_KNOWN / AL_N_SIGHTS;
		AlSighting	s = {
			(AlSightKind) (cell / AL_N_ACTION_TYPES / AL_N_KNOWN % AL_N_SIGHTS),
			(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0
		};
		AlKnown		got = al_policy_fold_lookup(type, before, &s);
		AlKnown		want = expect_lookup(type, before, &s);

		tap_cell(got == want, "%s: %s + %s%s%s%s gives %s, expected %s", al_type_name(type), al_known_name(before),
				 al_sight_name(s.finding), s.authoritative ? " authoritative" : "", s.processed ? " processed" : "",
				 s.never_sent ? " never sent" : "", al_known_name(got), al_known_name(want));
		tap_cell(!(got == AL_KNOWN_ABSENT && before != AL_KNOWN_ABSENT && !(s.authoritative && s.processed)),
				 "absent without proof: %s + %s", al_known_name(before), al_sight_name(s.finding));
		tap_cell(!(got == AL_KNOWN_CONFIRMED && before != AL_KNOWN_CONFIRMED && s.finding != AL_FOUND_CONFIRMED),
				 "confirmed by what was not found: %s + %s", al_known_name(before), al_sight_name(s.finding));
		tap_cell(!(is_open(before) && !is_open(got) && (s.finding == AL_FOUND_NOTHING_SURE || s.finding == AL_FOUND_IN_PROGRESS)),
				 "settled by a lookup that proves nothing: %s + %s", al_known_name(before), al_sight_name(s.finding));
	}
	tap_group_end();

	tap_group("spelling of a finding is read back");
	for (int sight = 0; sight < AL_N_SIGHTS; sight++)
	{
		AlSightKind back = (AlSightKind) ((sight + 1) % AL_N_SIGHTS);

		tap_cell(al_sight_parse(al_sight_name((AlSightKind) sight), &back) && back == (AlSightKind) sight, "%s", al_sight_name((AlSightKind) sight));
	}
	tap_group_end();
	ok(!al_sight_parse("maybe", &(AlSightKind) {0}) && !al_sight_parse(NULL, &(AlSightKind) {0}), "no other word is a finding");
}

/* ---- Random histories ---- */

#define HISTORY_MAX 10
#define N_HISTORIES 200000

/* SplitMix64: the same histories on every machine. */
static unsigned
draw(unsigned below)
{
	uint64_t	z = (seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (unsigned) ((z ^ (z >> 31)) % below);
}

/* An outcome as an attempt or a lookup really gives it: no flag without its verdict. */
static AlOutcome
draw_outcome(void)
{
	unsigned	kind = draw(100);

	if (kind < 4)
		return outcome(AL_VERDICT_CONFIRMED, (int) draw(2) * 2);
	if (kind < 30)
		return outcome(AL_VERDICT_NOT_SENT, 0);
	if (kind < 55)
		return outcome(AL_VERDICT_UNKNOWN, 0);
	if (kind < 60)
		return outcome(AL_VERDICT_UNKNOWN, 4);
	if (kind < 70)
		return outcome(AL_VERDICT_IN_PROGRESS, 0);
	if (kind < 85)
		return outcome(AL_VERDICT_REJECTED, 1);
	if (kind < 93)
		return outcome(AL_VERDICT_REJECTED, 0);
	return outcome(AL_VERDICT_REJECTED, kind < 97 ? 2 : 3);
}

static bool
leaves_open(const AlOutcome *o)
{
	return o->verdict == AL_VERDICT_UNKNOWN || o->verdict == AL_VERDICT_IN_PROGRESS;
}

/* Whether outcome i of the list refuses for good, seen with all before it. */
static bool
refuses_for_good(AlActionType type, const AlOutcome *list, int i)
{
	bool		in_doubt = false;

	if (list[i].verdict != AL_VERDICT_REJECTED || list[i].transient)
		return false;
	for (int k = 0; k < i; k++)
		in_doubt = list[k].conclusive ? false : in_doubt || leaves_open(&list[k]);
	return list[i].conclusive || type == AL_TYPE_READ_ONLY || !in_doubt;
}

/* What the whole list proves, told without folding. */
static unsigned
expect_history(AlActionType type, const AlOutcome *list, int n)
{
	int			from = 0;
	int			last_open = -1;
	bool		ended = false;
	bool		at_it_again = false;
	bool		refused = false;

	for (int i = 0; i < n; i++)
	{
		if (list[i].verdict == AL_VERDICT_CONFIRMED)
			return BIT(AL_KNOWN_CONFIRMED);
	}
	for (int i = 0; i < n; i++)
	{
		if (refuses_for_good(type, list, i))
			return BIT(AL_KNOWN_REJECTED);
		if (list[i].conclusive)
			from = i;
	}
	for (int i = from; i < n; i++)
	{
		refused |= list[i].verdict == AL_VERDICT_REJECTED;
		at_it_again |= ended && list[i].verdict == AL_VERDICT_IN_PROGRESS;
		ended |= list[i].ends_resending || (last_open >= 0 && list[i].verdict == AL_VERDICT_REJECTED && !list[i].transient);
		if (leaves_open(&list[i]))
			last_open = i;
	}
	if (at_it_again)
		return BIT(AL_KNOWN_UNKNOWN_ENDED) | BIT(AL_KNOWN_IN_PROGRESS) | BIT(AL_KNOWN_UNKNOWN);
	if (ended)
		return BIT(AL_KNOWN_UNKNOWN_ENDED);
	if (last_open >= 0)
		return BIT(list[last_open].verdict == AL_VERDICT_UNKNOWN ? AL_KNOWN_UNKNOWN : AL_KNOWN_IN_PROGRESS);
	if (refused)
		return BIT(AL_KNOWN_REJECTED_TRANSIENT);
	return BIT(n > 0 ? AL_KNOWN_NOT_SENT : AL_KNOWN_NOTHING);
}

/* The list in words; one static buffer. */
static const char *
describe_history(AlActionType type, const AlOutcome *list, int n)
{
	static char text[1024];
	int			len = snprintf(text, sizeof(text), "%s:", al_type_name(type));

	for (int i = 0; i < n; i++)
		len += snprintf(text + len, sizeof(text) - (size_t) len, " %s%s%s%s", al_verdict_name(list[i].verdict),
						list[i].transient ? "/transient" : "", list[i].conclusive ? "/conclusive" : "", list[i].ends_resending ? "/ends" : "");
	return text;
}

/* Whether a failure would be honest: nothing in doubt, or decided after all, or nothing to doubt. */
static bool
may_fail(AlActionType type, const AlOutcome *list, int n)
{
	bool		in_doubt = false;

	for (int i = 0; i < n; i++)
		in_doubt = list[i].conclusive ? false : in_doubt || leaves_open(&list[i]);
	return type == AL_TYPE_READ_ONLY || !in_doubt;
}

/* Play one history, and judge the knowledge and a random decision after every outcome. */
static void
play(AlActionType type)
{
	AlOutcome	list[HISTORY_MAX];
	AlKnown		known = AL_KNOWN_NOTHING;
	bool		confirmed_seen = false;
	bool		refused_before = false;
	int			n = 1 + (int) draw(HISTORY_MAX);

	for (int i = 0; i < n; i++)
	{
		AlSituation s;
		AlDecision	d;

		list[i] = draw_outcome();
		known = al_policy_fold(type, known, &list[i]);
		tap_cell((expect_history(type, list, i + 1) & BIT(known)) != 0, "%s proves %s, expected set %#x",
				 describe_history(type, list, i + 1), al_known_name(known), expect_history(type, list, i + 1));

		confirmed_seen |= list[i].verdict == AL_VERDICT_CONFIRMED;
		tap_cell(confirmed_seen == (known == AL_KNOWN_CONFIRMED), "confirmed does not stay: %s", describe_history(type, list, i + 1));

		s = situation((int) draw(N_SITUATIONS), AL_APPROVAL_GIVEN);
		s.type = type;
		s.known = known;
		d = al_policy_decide(&s);
		tap_cell(d.status != AL_STATUS_FAILED || refused_before || may_fail(type, list, i + 1),
				 "failed in doubt: %s", describe_history(type, list, i + 1));
		refused_before |= known == AL_KNOWN_REJECTED;
	}
}

/* The fold of a random history is what the whole list proves. */
static void
check_histories(void)
{
	tap_group("random histories: the fold is what the whole list proves, confirmed stays, failed is honest");
	for (int i = 0; i < N_HISTORIES; i++)
		play((AlActionType) (i % AL_N_ACTION_TYPES));
	tap_group_end();

	tap_group("spelling of the fold is read back");
	for (int known = 0; known < AL_N_KNOWN; known++)
	{
		AlKnown		back = (AlKnown) ((known + 1) % AL_N_KNOWN);

		tap_cell(al_known_parse(al_known_name((AlKnown) known), &back) && back == (AlKnown) known, "%s", al_known_name((AlKnown) known));
	}
	tap_group_end();
}
