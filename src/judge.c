/*
 * judge.c
 *		The way from evidence to the ledger's words.
 */
#include "postgres.h"

#include <time.h>

#include "common/pg_prng.h"
#include "utils/timestamp.h"

#include "answer.h"
#include "judge_internal.h"
#include "rules/backoff.h"
#include "words.h"

#define LOOKUP_CAP_MS INT64CONST(600000)	/* lookups are at most this far apart, or "every" where that is longer */

static AlSituation situation_of(const AlStanding *standing, const AlTool *tool, const AlLookupDef *lookup, AlKnown known,
								TimestampTz last_lookup_at, TimestampTz now);
static TimestampTz lookup_time(const AlStanding *standing, const AlTool *tool, int64 retry_after_s, TimestampTz now);
static AlOutcome rule_outcome(const AlRule *rule);
static void keep_answer(const AlWireResult *result, AlClosing *closing);
static bool answer_is_replay(const AlEnded *ended, const AlTool *tool);
static AlStop stop_of(const AlStanding *standing, TimestampTz now);
static TimestampTz key_end(const AlStanding *standing, const AlTool *tool);
static void keep_late(const AlStanding *standing, const AlOutcome *outcome, const char *what, AlJudgement *out);

/* Judges an attempt that has ended. */
void
al_judge(const AlEnded *ended, const AlStanding *standing, const AlTool *tool,
		 TimestampTz now, bool bare, AlJudgement *out)
{
	AlEvidence	evidence = ended->evidence;
	AlContext	context = {
		.key_honoured = al_registry_key_counts(tool, standing->key_place),
		.earlier_open = al_policy_is_open(standing->known),
		.body_rule = AL_BODY_RULE_NONE
	};
	AlAnswer	answer = {0};
	AlOutcome	rule;
	AlOutcome	outcome;
	AlStanding	waited = *standing;
	AlDecision	decision;
	int64		retry_after_s = al_judge_retry_after(ended);

	memset(out, 0, sizeof(*out));
	evidence.replayed = answer_is_replay(ended, tool);
	if (ended->result != NULL)
		al_answer_read(tool, ended->result, &answer);
	context.unreadable = answer.unreadable;
	context.body_rule = answer.body_rule;
	if (answer.rule != NULL)
	{
		rule = rule_outcome(answer.rule);
		context.rule = &rule;
	}
	outcome = al_classify(&evidence, &context);
	al_judge_closing(ended, &outcome, retry_after_s, bare, &out->closing);
	if (!bare && outcome.verdict != AL_VERDICT_NOT_SENT)
	{
		out->closing.external_ref = answer.external_ref;
		if (outcome.verdict == AL_VERDICT_CONFIRMED)
			out->move.result = answer.result;
	}

	if (outcome.verdict != AL_VERDICT_NOT_SENT)
		waited.doubted_at = now;
	decision = al_judge_outcome(&waited, tool, &outcome, al_judge_is_no_try(&evidence, &outcome), retry_after_s, now, out);
	if (!out->moves)
		return;
	if (outcome.verdict != AL_VERDICT_NOT_SENT && al_policy_is_open(out->move.known))
		out->move.doubted_at = now;
	out->move.error_message = al_words_outcome(&decision, &outcome, &ended->evidence, tool, standing->sends);
	/* Somebody has reported a refusal while this was under way. */
	if (standing->known == AL_KNOWN_REJECTED && outcome.verdict == AL_VERDICT_CONFIRMED)
		keep_late(standing, &outcome, "conflict", out);
	if (outcome.verdict == AL_VERDICT_CONFIRMED)
	{
		out->move.external_ref = out->closing.external_ref;
		out->move.confirmed_by = evidence.replayed ? "replay" : "response";
	}
	/* What a definition has stopped waits for its owner, and is no try. */
	if (outcome.configuration && stop_of(standing, now) == AL_STOP_NO &&
		(out->move.known == AL_KNOWN_NOT_SENT || out->move.known == AL_KNOWN_REJECTED_TRANSIENT))
	{
		out->move.status = AL_STATUS_PREPARED;
		out->move.step = AL_STEP_BLOCKED;
		out->move.next_at = DT_NOEND;
		out->move.error_code = outcome.category;
		out->move.error_message = al_words_blocked(outcome.category, ended->result ? ended->result->detail : "");
	}
	if (outcome.event)
	{
		out->has_event = true;
		out->event.what = outcome.category;
		out->event.status = decision.status;
		out->event.note = al_words_event(&outcome);
	}
	out->event.action_id = standing->action_id;
}

/* Folds an outcome into what is known, and decides. */
AlDecision
al_judge_outcome(const AlStanding *standing, const AlTool *tool, const AlOutcome *outcome, bool not_a_try,
				 int64 retry_after_s, TimestampTz now, AlJudgement *out)
{
	AlKnown		known = al_policy_fold(tool->def->type, standing->known, outcome);
	AlStanding	counted = *standing;
	AlSituation situation;
	AlDecision	decision = {standing->status, AL_STEP_NONE, AL_WHEN_NEVER, NULL};

	if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED)
	{
		keep_late(standing, outcome,
				  al_policy_contradicts(standing->status, standing->sends <= 1, outcome) ? "conflict" : "late_evidence", out);
		return decision;
	}
	if (!al_policy_is_open(known) && not_a_try)
	{
		out->move.forgive = true;
		counted.sends--;
	}
	situation = al_judge_situation(&counted, tool, known, 0, now);
	decision = al_policy_decide(&situation);
	out->moves = true;
	al_judge_move(&counted, tool, &decision, now, &out->move);
	out->move.known = known;
	out->move.next_at = al_judge_due_time(&counted, tool, &decision, retry_after_s, now);
	out->move.clear_key_window = (known == AL_KNOWN_NOT_SENT);
	return decision;
}

/* Decides about an action that is due. */
AlDecision
al_judge_due(const AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	AlSituation situation = al_judge_situation(standing, tool, standing->known, 0, now);

	return al_policy_decide(&situation);
}

/* Decides about an action that is due and cannot be looked up. */
AlDecision
al_judge_due_unseen(const AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	AlSituation situation = situation_of(standing, tool, NULL, standing->known, 0, now);

	return al_policy_decide(&situation);
}

/*
 * Says when nothing can be in progress any more: the max processing time after
 * nobody waits for an answer.  That is as stored, not by the timeout alone: the
 * request may have left long after its mark, and its tool may have had another
 * timeout then than it has today.
 */
TimestampTz
al_judge_processed_at(const AlStanding *standing, const AlTool *tool)
{
	TimestampTz waited_until = standing->doubted_at;

	if (standing->last_sent_at != 0)
		waited_until = Max(waited_until, TimestampTzPlusMilliseconds(standing->last_sent_at, tool->def->timeout_ms));
	return TimestampTzPlusMilliseconds(waited_until, tool->def->max_processing_ms);
}

/* Fills the move that a decision makes. */
void
al_judge_move(const AlStanding *standing, const AlTool *tool, const AlDecision *decision,
			  TimestampTz now, AlMove *move)
{
	move->action_id = standing->action_id;
	move->status = decision->status;
	move->step = decision->step;
	move->known = move->known_before = standing->known;
	move->next_at = al_judge_due_time(standing, tool, decision, -1, now);
	move->error_code = decision->error_code;
}

/* Puts together what a decision depends on. */
AlSituation
al_judge_situation(const AlStanding *standing, const AlTool *tool, AlKnown known, TimestampTz last_lookup_at, TimestampTz now)
{
	return situation_of(standing, tool, tool->def->lookup, known, last_lookup_at, now);
}

/* The same with a given lookup, or none. */
static AlSituation
situation_of(const AlStanding *standing, const AlTool *tool, const AlLookupDef *lookup, AlKnown known,
			 TimestampTz last_lookup_at, TimestampTz now)
{
	AlSituation situation = {
		.type = tool->def->type,
		.known = known,
		.key = AL_KEY_NOT_HONOURED,
		.budget = AL_BUDGET_OPEN,
		.lookup = lookup ? AL_LOOKUP_OPEN : AL_LOOKUP_NONE,
		.stop = stop_of(standing, now),
		.resend = lookup != NULL && lookup->resend && standing->absences <= 1,
		.overridden = standing->overridden
	};
	bool		counts = !al_policy_is_open(known) || al_registry_resendable(tool, standing->key_place);

	/* The last lookup begins when the window ends, not before. */
	if (lookup != NULL &&
		(standing->lookups - standing->lookups_before >= lookup->attempts ||
		 (standing->lookup_ends_at != 0 && last_lookup_at >= standing->lookup_ends_at)))
		situation.lookup = AL_LOOKUP_USED_UP;
	if (standing->key_ends_at != 0 && al_registry_key_counts(tool, standing->key_place))
		situation.key = now < key_end(standing, tool) ? AL_KEY_OPEN : AL_KEY_PASSED;
	if (lookup != NULL && !counts)
	{
		if (situation.lookup == AL_LOOKUP_USED_UP)
			situation.budget = AL_BUDGET_USED_UP;
	}
	else if ((standing->window_ends_at != 0 && now >= standing->window_ends_at) ||
			 (counts && standing->sends >= tool->def->attempts))
		situation.budget = AL_BUDGET_USED_UP;
	if (standing->approve_by != 0)
		situation.approval = now < standing->approve_by ? AL_APPROVAL_WAITED : AL_APPROVAL_LAPSED;
	return situation;
}

/*
 * Says when the destination may forget the key.  It had it at the last send at
 * the latest: a window that was declared too long and has been corrected counts
 * from then.
 */
static TimestampTz
key_end(const AlStanding *standing, const AlTool *tool)
{
	const AlIdempotency *key = tool->idempotency;

	if (standing->last_sent_at == 0)
		return standing->key_ends_at;
	return Min(standing->key_ends_at, TimestampTzPlusMilliseconds(standing->last_sent_at, key->window_ms - key->margin_ms));
}

/* Tells whether somebody or something wants an action to end. */
static AlStop
stop_of(const AlStanding *standing, TimestampTz now)
{
	if (standing->cancelled_at != 0)
		return AL_STOP_CANCELLED;
	return standing->expires_at != 0 && now >= standing->expires_at ? AL_STOP_EXPIRED : AL_STOP_NO;
}

/* Computes when a step is due. */
TimestampTz
al_judge_due_time(const AlStanding *standing, const AlTool *tool, const AlDecision *decision,
		 int64 retry_after_s, TimestampTz now)
{
	int64		delay_ms;

	switch (decision->when)
	{
		case AL_WHEN_NEVER:
			return DT_NOEND;
		case AL_WHEN_NOW:
			return now;
		case AL_WHEN_BACKOFF:
			if (decision->step == AL_STEP_LOOKUP)
				return lookup_time(standing, tool, retry_after_s, now);
			delay_ms = al_backoff_delay_ms(standing->sends, tool->def->base_ms, tool->def->cap_ms,
										   pg_prng_double(&pg_global_prng_state));
			if (retry_after_s >= 0)
				delay_ms = Max(delay_ms, al_retry_after_delay_ms(retry_after_s, pg_prng_double(&pg_global_prng_state)));
			return TimestampTzPlusMilliseconds(now, delay_ms);
		case AL_WHEN_PROCESSED:
			return Max(al_judge_processed_at(standing, tool),
					   standing->lookups == standing->lookups_before ? now : lookup_time(standing, tool, retry_after_s, now));
		case AL_WHEN_WINDOW_END:
			return standing->window_ends_at;
		case AL_WHEN_APPROVAL_END:
			return standing->approve_by;
	}
	return DT_NOEND;
}

/* Computes when the next lookup is made: after a growing delay, and for the last time when its window ends. */
static TimestampTz
lookup_time(const AlStanding *standing, const AlTool *tool, int64 retry_after_s, TimestampTz now)
{
	const AlLookupDef *lookup = tool->def->lookup;
	int64		delay_ms = al_backoff_delay_ms(standing->lookups - standing->lookups_before, lookup->every_ms,
											   Max(lookup->every_ms, LOOKUP_CAP_MS), pg_prng_double(&pg_global_prng_state));
	TimestampTz at;

	if (retry_after_s >= 0)
		delay_ms = Max(delay_ms, al_retry_after_delay_ms(retry_after_s, pg_prng_double(&pg_global_prng_state)));
	at = TimestampTzPlusMilliseconds(now, delay_ms);
	if (standing->lookup_ends_at != 0 && at > standing->lookup_ends_at)
		at = Max(standing->lookup_ends_at, TimestampTzPlusMilliseconds(now, retry_after_s >= 0 ? delay_ms : 0));
	return at;
}

/* Tells whether an attempt says nothing of the destination: it was stopped on our side before anything left. */
bool
al_judge_is_no_try(const AlEvidence *evidence, const AlOutcome *outcome)
{
	return outcome->verdict == AL_VERDICT_NOT_SENT &&
		(outcome->configuration || evidence->ending == AL_END_GATE_CLOSED ||
		 evidence->ending == AL_END_ABORTED || evidence->ending == AL_END_LOCAL);
}

/* Says what a rule of the tool says, as an outcome. */
static AlOutcome
rule_outcome(const AlRule *rule)
{
	return (AlOutcome)
	{
		.verdict = rule->verdict,
		.transient = rule->transient,
		.conclusive = rule->conclusive,
		.ends_resending = rule->mismatch,
		.event = rule->mismatch,
		.category = rule->category
	};
}

/* Fills what closes the attempt. */
void
al_judge_closing(const AlEnded *ended, const AlOutcome *outcome, int64 retry_after_s, bool bare, AlClosing *closing)
{
	closing->action_id = ended->action_id;
	closing->attempt = ended->attempt;
	closing->finished_at = ended->finished_at;
	closing->verdict = outcome->verdict;
	closing->category = outcome->category;
	closing->sent = outcome->verdict != AL_VERDICT_NOT_SENT;
	closing->http_status = ended->evidence.head_complete ? ended->evidence.status : 0;
	closing->retry_after_s = retry_after_s;
	if (ended->result == NULL)
		return;
	closing->curl_code = ended->result->curl_code;
	closing->truncated = ended->result->body_capped ||
		(ended->evidence.head_complete && !ended->evidence.framing_complete);
	closing->detail = ended->result->detail[0] ? pstrdup(ended->result->detail) : NULL;
	if (!bare)
		keep_answer(ended->result, closing);
}

/* Keeps the allow-listed headers, the body and the timing of an answer. */
static void
keep_answer(const AlWireResult *result, AlClosing *closing)
{
	const AlWireTiming *timing = &result->timing;
	StringInfoData headers;

	closing->timing_us[0] = (int32) Min(timing->resolved, PG_INT32_MAX);
	closing->timing_us[1] = (int32) Min(timing->connected, PG_INT32_MAX);
	closing->timing_us[2] = (int32) Min(timing->tls, PG_INT32_MAX);
	closing->timing_us[3] = (int32) Min(timing->first_byte, PG_INT32_MAX);
	closing->timing_us[4] = (int32) Min(timing->total, PG_INT32_MAX);
	if (result->head.n_kept > 0)
	{
		initStringInfo(&headers);
		for (int i = 0; i < result->head.n_kept; i++)
			appendStringInfo(&headers, "%s: %s\n", result->head.kept[i].name, result->head.kept[i].value);
		closing->headers = headers.data;
	}
	if (result->body_len > 0)
	{
		closing->body = palloc(VARHDRSZ + result->body_len);
		SET_VARSIZE(closing->body, VARHDRSZ + result->body_len);
		memcpy(VARDATA(closing->body), result->body, result->body_len);
	}
}

/* Tells whether the answer carries the destination's replay marker. */
static bool
answer_is_replay(const AlEnded *ended, const AlTool *tool)
{
	const char *value;

	if (ended->result == NULL || tool->idempotency->replay_header == NULL)
		return false;
	value = al_head_find(&ended->result->head, tool->idempotency->replay_header);
	return value != NULL && pg_strcasecmp(value, "false") != 0;
}

/* Reads the answer's Retry-After in seconds, -1 for none. */
int64
al_judge_retry_after(const AlEnded *ended)
{
	const char *value = ended->result ? al_head_find(&ended->result->head, "retry-after") : NULL;
	int64		seconds;

	if (value == NULL ||
		!al_retry_after_parse(value, strlen(value), (int64) time(NULL), &seconds))
		return -1;
	return seconds;
}

/* Keeps evidence as an event of its own. */
static void
keep_late(const AlStanding *standing, const AlOutcome *outcome, const char *what, AlJudgement *out)
{
	out->has_event = true;
	out->event.action_id = standing->action_id;
	out->event.what = what;
	out->event.status = out->moves ? out->move.status : standing->status;
	out->event.verdict = al_verdict_name(outcome->verdict);
	out->event.source = "answer";
	out->event.note = psprintf("attempt %d ended with %s (%s) after %s", out->closing.attempt,
							   al_verdict_name(outcome->verdict), outcome->category,
							   out->moves ? "a refusal had been reported" : "the action had been decided");
}
