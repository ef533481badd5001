/*
 * verdict.c
 *		Any evidence of any number of attempts: verdicts, their fold, the decision.
 *
 * Input: the action's type, key, lookup and service, then nine bytes for each
 * attempt.  Next to the code stands a simpler reading of the same attempts:
 * whether one was confirmed, and whether one may have had an effect.
 */
#include "fuzz.h"
#include "rules/policy.h"

#define PER_ATTEMPT 9
#define MAX_ATTEMPTS 64

/* An action, and what is certain of it. */
typedef struct Story
{
	AlActionType type;
	bool		key_honoured;
	AlKnown		known;
	AlStatus	status;
	bool		confirmed;		/* an attempt was */
	bool		open;			/* one may have had an effect, and nothing has told since */
} Story;

static void read_attempt(FuzzInput *in, const Story *story, AlEvidence *evidence, AlContext *context, AlOutcome *rule);
static void check_outcome(const AlEvidence *evidence, const AlContext *context, const AlOutcome *outcome);
static void fold(Story *story, const AlOutcome *outcome);
static AlSituation read_situation(FuzzInput *in, const Story *story);
static void check_decision(const AlSituation *situation, const AlDecision *decision);
static void check_sending(const AlSituation *situation, const AlDecision *decision);
static void check_all_situations(AlSituation situation);
static bool is_one_of(const char *word, const char *const *words);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	in = {data, size};
	Story		story = {
		.type = (AlActionType) (fuzz_byte(&in) % AL_N_ACTION_TYPES),
		.known = AL_KNOWN_NOTHING,
		.status = AL_STATUS_PREPARED
	};

	story.key_honoured = fuzz_byte(&in) & 1;
	for (int i = 0; i < MAX_ATTEMPTS && in.left >= PER_ATTEMPT; i++)
	{
		AlEvidence	evidence;
		AlContext	context;
		AlOutcome	rule;
		AlOutcome	outcome;
		AlSituation situation;
		AlDecision	decision;

		read_attempt(&in, &story, &evidence, &context, &rule);
		outcome = al_classify(&evidence, &context);
		check_outcome(&evidence, &context, &outcome);
		fold(&story, &outcome);

		situation = read_situation(&in, &story);
		decision = al_policy_decide(&situation);
		check_decision(&situation, &decision);
		check_all_situations(situation);
		claim(decision.status != AL_STATUS_FAILED || !story.open || story.type == AL_TYPE_READ_ONLY);
		claim((decision.status == AL_STATUS_CONFIRMED) == story.confirmed);

		/* What comes after the end is kept as evidence and moves nothing. */
		if (story.status == AL_STATUS_CONFIRMED || story.status == AL_STATUS_FAILED)
			break;
		claim(al_policy_may_move(story.status, decision.status));
		story.status = decision.status;
	}
	return 0;
}

/* Read an attempt; a rule only says what a definition lets it say. */
static void
read_attempt(FuzzInput *in, const Story *story, AlEvidence *evidence, AlContext *context, AlOutcome *rule)
{
	static const AlVerdict verdicts[] = {AL_VERDICT_REJECTED, AL_VERDICT_CONFIRMED, AL_VERDICT_IN_PROGRESS, AL_VERDICT_UNKNOWN};
	uint8_t		flags;

	memset(evidence, 0, sizeof(*evidence));
	memset(context, 0, sizeof(*context));
	memset(rule, 0, sizeof(*rule));
	evidence->ending = (AlEnding) (fuzz_byte(in) % AL_N_ENDINGS);
	evidence->prereqs = (int8_t) fuzz_byte(in);
	evidence->status = (int16_t) (fuzz_byte(in) | (fuzz_byte(in) << 8));
	flags = fuzz_byte(in);
	evidence->head_complete = flags & 1;
	evidence->framing_complete = flags & 2;
	evidence->upload_complete = flags & 4;
	evidence->replayed = flags & 8;
	context->unreadable = flags & 16;
	context->body_rule = (AlBodyRule) ((flags >> 5) % 3);
	context->key_honoured = story->key_honoured;
	context->earlier_open = al_policy_is_open(story->known);

	flags = fuzz_byte(in);
	rule->verdict = verdicts[flags & 3];
	rule->transient = (flags & 4) && rule->verdict == AL_VERDICT_REJECTED;
	rule->conclusive = (flags & 8) && (rule->verdict == AL_VERDICT_REJECTED || rule->verdict == AL_VERDICT_CONFIRMED);
	rule->category = "of_a_rule";
	if (flags & 16)
		context->rule = rule;
}

/* What the contract of al_classify() promises of every outcome. */
static void
check_outcome(const AlEvidence *evidence, const AlContext *context, const AlOutcome *outcome)
{
	static const char *const categories[] = {
		"resolve", "connect", "tls", "proxy", "timeout_before_send", "aborted_before_send", "local_resources",
		"gate_closed", "bad_request", "bad_trust", "address_refused", "timeout_after_send", "connection_lost",
		"response_cut", "response_garbled", "resend_blocked", "aborted_after_send", "worker_lost", "body_truncated",
		"status_ambiguous", "body_rule_not_met", "replayed_error", "key_conflict", "confirmed", "replayed", "accepted",
		"key_in_use", "rejected", "redirected", "throttled", "try_later", "request_timeout", "of_a_rule", NULL
	};
	bool		left = evidence->ending == AL_END_WORKER_LOST ||
		(evidence->ending != AL_END_GATE_CLOSED && evidence->prereqs >= 1);
	bool		answered = left && evidence->prereqs == 1 && evidence->head_complete &&
		evidence->ending != AL_END_WORKER_LOST && evidence->ending != AL_END_RESEND_BLOCKED;
	bool		complete = evidence->ending == AL_END_OK && evidence->framing_complete;

	claim(outcome->verdict >= 0 && outcome->verdict < AL_N_VERDICTS);
	claim(strcmp(al_verdict_name(outcome->verdict), "invalid") != 0);
	claim(outcome->category != NULL && is_one_of(outcome->category, categories));
	claim((outcome->verdict == AL_VERDICT_NOT_SENT) == !left);
	claim(answered || outcome->verdict == AL_VERDICT_NOT_SENT || outcome->verdict == AL_VERDICT_UNKNOWN);
	claim(!outcome->transient || outcome->verdict == AL_VERDICT_REJECTED);
	claim(!outcome->configuration || outcome->verdict == AL_VERDICT_NOT_SENT);
	claim(!outcome->ends_resending || outcome->verdict == AL_VERDICT_UNKNOWN);
	claim(!outcome->conclusive || (outcome->verdict != AL_VERDICT_UNKNOWN && answered));
	if (!answered)
		return;
	if (context->rule != NULL)
		claim(outcome->verdict == context->rule->verdict);
	else if (context->unreadable || (!complete && context->body_rule != AL_BODY_RULE_NONE))
		claim(outcome->verdict == AL_VERDICT_UNKNOWN);
	else if (outcome->verdict == AL_VERDICT_CONFIRMED)
		claim(evidence->status >= 200 && evidence->status <= 299);
	else if (outcome->verdict == AL_VERDICT_REJECTED)
		claim(evidence->status >= 300 && evidence->status <= 599);
}

/* Fold an attempt in, and hold the result against the simpler reading. */
static void
fold(Story *story, const AlOutcome *outcome)
{
	AlKnown		before = story->known;

	story->known = al_policy_fold(story->type, before, outcome);
	claim(story->known > AL_KNOWN_NOTHING && story->known < AL_N_KNOWN);
	claim(strcmp(al_known_name(story->known), "invalid") != 0);

	if (outcome->verdict == AL_VERDICT_CONFIRMED)
		story->confirmed = true;
	else if (before != AL_KNOWN_REJECTED && before != AL_KNOWN_CONFIRMED)
	{
		if (outcome->conclusive)
			story->open = false;
		if (outcome->verdict == AL_VERDICT_UNKNOWN || outcome->verdict == AL_VERDICT_IN_PROGRESS)
			story->open = true;
	}
	claim((story->known == AL_KNOWN_CONFIRMED) == story->confirmed);
	if (story->confirmed)
		story->open = false;
	if (story->type != AL_TYPE_READ_ONLY)
		claim(al_policy_is_open(story->known) == story->open);
	else
		claim(story->open || !al_policy_is_open(story->known));
}

static AlSituation
read_situation(FuzzInput *in, const Story *story)
{
	AlSituation situation = {.type = story->type, .known = story->known};

	situation.key = story->key_honoured ? (AlKeyState) (1 + fuzz_byte(in) % 2) : AL_KEY_NOT_HONOURED;
	situation.budget = (AlBudget) (fuzz_byte(in) % AL_N_BUDGETS);
	situation.lookup = (AlLookup) (fuzz_byte(in) % AL_N_LOOKUPS);
	situation.stop = (AlStop) ((situation.lookup + story->known) % AL_N_STOPS);
	return situation;
}

/* What holds of every decision. */
static void
check_decision(const AlSituation *situation, const AlDecision *decision)
{
	static const char *const of_failure[] = {"rejected", "retries_exhausted", "no_answer", "cancelled", "expired", NULL};
	bool		open = al_policy_is_open(situation->known);

	claim(decision->when >= AL_WHEN_NEVER && decision->when <= AL_WHEN_WINDOW_END);
	switch (decision->status)
	{
		case AL_STATUS_CONFIRMED:
			claim(situation->known == AL_KNOWN_CONFIRMED && decision->error_code == NULL);
			claim(decision->step == AL_STEP_NONE && decision->when == AL_WHEN_NEVER);
			break;
		case AL_STATUS_FAILED:
			claim(!open || situation->type == AL_TYPE_READ_ONLY);
			claim(situation->known != AL_KNOWN_CONFIRMED);
			claim(decision->error_code != NULL && is_one_of(decision->error_code, of_failure));
			claim(decision->step == AL_STEP_NONE && decision->when == AL_WHEN_NEVER);
			break;
		case AL_STATUS_PREPARED:
			claim(!open && situation->stop == AL_STOP_NO && decision->error_code == NULL);
			claim(decision->step == AL_STEP_SEND && decision->when != AL_WHEN_NEVER);
			break;
		case AL_STATUS_SUBMITTED:
		case AL_STATUS_NEEDS_RECONCILIATION:
			claim(open);
			claim(decision->error_code != NULL && strcmp(decision->error_code, "outcome_unknown") == 0);
			claim((decision->step == AL_STEP_REVIEW) == (decision->when == AL_WHEN_NEVER));
			break;
	}
	check_sending(situation, decision);
}

/* Nothing that may have happened is sent again, unless that is harmless. */
static void
check_sending(const AlSituation *situation, const AlDecision *decision)
{
	switch (decision->step)
	{
		case AL_STEP_SEND:
			claim(decision->status == AL_STATUS_PREPARED);
			break;
		case AL_STEP_RESEND:
			claim(decision->status == AL_STATUS_SUBMITTED);
			claim(situation->stop == AL_STOP_NO && situation->budget == AL_BUDGET_OPEN);
			claim(situation->known != AL_KNOWN_UNKNOWN_ENDED);
			claim(situation->type == AL_TYPE_READ_ONLY || situation->type == AL_TYPE_IDEMPOTENT ||
				  (situation->type == AL_TYPE_NON_IDEMPOTENT && situation->key == AL_KEY_OPEN));
			break;
		case AL_STEP_LOOKUP:
			claim(situation->lookup == AL_LOOKUP_OPEN);
			claim(decision->status == AL_STATUS_SUBMITTED || decision->when == AL_WHEN_PROCESSED);
			break;
		case AL_STEP_WAIT:
			claim(decision->status == AL_STATUS_SUBMITTED && situation->stop == AL_STOP_NO);
			break;
		case AL_STEP_REVIEW:
		case AL_STEP_NONE:
			break;
		case AL_STEP_APPROVE:
		case AL_STEP_APPLY:
		case AL_STEP_BLOCKED:
			claim(!"a step that attempts do not lead to");
	}
}

/* The same knowledge, whoever stops it and whatever is left. */
static void
check_all_situations(AlSituation situation)
{
	for (int i = 0; i < AL_N_BUDGETS * AL_N_LOOKUPS * AL_N_STOPS; i++)
	{
		AlDecision	decision;

		situation.budget = (AlBudget) (i % AL_N_BUDGETS);
		situation.lookup = (AlLookup) (i / AL_N_BUDGETS % AL_N_LOOKUPS);
		situation.stop = (AlStop) (i / AL_N_BUDGETS / AL_N_LOOKUPS);
		decision = al_policy_decide(&situation);
		check_decision(&situation, &decision);
	}
}

static bool
is_one_of(const char *word, const char *const *words)
{
	while (*words != NULL && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}
