/*
 * retry.c
 *		retry: let an action go on at once.
 *
 * The state machine says whether it may be sent.  Where it says no only because
 * the outcome is unknown, a person may decide to send once more (force): with
 * the same key and the same bytes, on record, and not before everything sent so
 * far is over.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "retry.h"
#include "roster.h"
#include "session.h"
#include "verb.h"
#include "wakeup.h"
#include "words.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(al_retry);

static AlStatement restart_window = {
	"UPDATE actionledger.action SET window_ends_at = NULL WHERE action_id = $1", 1, {INT8OID}
};
static AlStatement move_clocks = {
	"UPDATE actionledger.action SET window_ends_at = window_ends_at + $2 * interval '1 microsecond', "
	"expires_at = expires_at + $2 * interval '1 microsecond' WHERE action_id = $1",
	2, {INT8OID, INT8OID}
};
static AlStatement override_once = {
	"UPDATE actionledger.action SET overridden = true WHERE action_id = $1", 1, {INT8OID}
};
static AlStatement select_due = {
	"SELECT coalesce(held_at, next_at) FROM actionledger.due WHERE action_id = $1 AND coalesce(held_at, next_at) < 'infinity'", 1, {INT8OID}
};

static int64 held_so_far(const AlStanding *standing, const AlTool *tool, TimestampTz now);
static void refuse(AlRetry *retry, const AlStanding *standing, const AlTool *tool, TimestampTz now);
static void consider_override(AlRetry *retry, AlStanding *standing, const AlTool *tool, TimestampTz now);

/* retry(action_id, note, force) */
Datum
al_retry(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "retry");
	bool		force = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	AlSession	session;
	AlStanding *standing;
	AlTool	   *tool;
	AlRetry		retry;
	char	   *message;

	al_verb_note(fcinfo, 1, "retry", "Say what has been mended, or why it is to be sent now.");
	al_session_begin(&session, true);
	al_registry_refresh();
	standing = al_verb_lock(action_id, caller, true);
	al_verb_check_expected(standing, NULL);
	tool = al_registry_tool_by_id(standing->tool_id);
	retry = al_retry_consider(standing, tool, force, now);
	if (!retry.allowed)
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("action " INT64_FORMAT " cannot be sent now", action_id),
				 errdetail("%s", retry.why),
				 errhint("%s", retry.hint)));
	al_retry_apply(standing, &retry, now);
	al_verb_event(action_id, retry.override ? "override" : "retry", retry.decision.status, who, fcinfo, 1, -1);
	message = al_retry_message(standing, tool, &retry);
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return al_verb_row(fcinfo, action_id, retry.decision.status, retry.decision.step, message);
}

/* Asks the state machine whether an action may be sent. */
AlRetry
al_retry_consider(AlStanding *standing, const AlTool *tool, bool force, TimestampTz now)
{
	AlRetry		retry = {0};

	if (standing->claimed_by == 0)
	{
		/* The clocks of what has not been sent stood still while it was blocked. */
		retry.restart = !al_policy_is_open(standing->known);
		retry.held_us = held_so_far(standing, tool, now);
		if (retry.restart)
			standing->window_ends_at = 0;
		if (standing->window_ends_at != 0)
			standing->window_ends_at += retry.held_us;
		if (standing->expires_at != 0)
			standing->expires_at += retry.held_us;
	}
	retry.decision = al_judge_due(standing, tool, now);
	retry.allowed = standing->claimed_by == 0 &&
		(retry.decision.step == AL_STEP_SEND || retry.decision.step == AL_STEP_RESEND);
	if (!retry.allowed)
		refuse(&retry, standing, tool, now);
	if (!retry.allowed && force)
		consider_override(&retry, standing, tool, now);
	return retry;
}

/* Makes an action due. */
void
al_retry_apply(const AlStanding *standing, const AlRetry *retry, TimestampTz now)
{
	Datum		values[2] = {Int64GetDatum(standing->action_id), Int64GetDatum(retry->held_us)};
	AlMove		move = {
		.action_id = standing->action_id,
		.status = retry->decision.status,
		.step = retry->decision.step,
		.known = standing->known,
		.next_at = now,
		.error_code = retry->decision.error_code
	};

	if (retry->restart)
		(void) al_statement_run(&restart_window, values, NULL);
	if (retry->held_us > 0)
		(void) al_statement_run(&move_clocks, values, NULL);
	if (retry->override)
		(void) al_statement_run(&override_once, values, NULL);
	al_ledger_move(&move, 1, now);
}

/* Says when a retried action goes out. */
char *
al_retry_message(const AlStanding *standing, const AlTool *tool, const AlRetry *retry)
{
	bool		keyed = standing->key_place != NULL;
	const char *what = retry->decision.step == AL_STEP_SEND ? "goes out" : "is sent again";
	const char *same = retry->override || !keyed ? "" : ", with the same key";
	char	   *trouble = al_workers_trouble(standing->service_id);
	AlRosterBreaker breaker;

	if (retry->override)
		what = psprintf("is sent once more by your decision, with the same bytes%s, and may happen a second time: it goes out",
						keyed ? " and the same key" : ", without a key that the destination honours");
	if (tool->pause != NULL && tool->pause->sends)
		return psprintf("%s when the pause is lifted%s: %s", what, same, al_words_pause(tool->pause));
	if (tool->def->external)
		return psprintf("%s when an executor claims it%s", what, same);
	if (trouble != NULL)
		return psprintf("%s when somebody sends again%s: %s", what, same, trouble);
	if (al_roster_breaker(MyDatabaseId, standing->service_id, &breaker) && breaker.open)
		return psprintf("%s when its service has recovered%s: it failed %d times in a row, and the next probe goes at %s",
						what, same, breaker.failures, al_words_time(breaker.probe_at));
	return psprintf("%s at once%s", what, same);
}

/* Says for how long pauses have held an action that is due. */
static int64
held_so_far(const AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	Datum		value = Int64GetDatum(standing->action_id);
	TimestampTz due_at;
	AlSpan	   *spans;
	int			n;

	if (al_statement_run(&select_due, &value, NULL) == 0)
		return 0;
	due_at = al_column_int8(0, 1);
	n = al_ledger_spans(&spans);
	return al_standstill_us(spans, n, standing->service_id, standing->tool_id, tool->def->type == AL_TYPE_READ_ONLY,
							0, 0, due_at, now);
}

/* Fills in why an action may not be sent. */
static void
refuse(AlRetry *retry, const AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	bool		open = al_policy_is_open(standing->known);

	retry->hint = pstrdup("Find out at the provider what happened, and decide with actionledger.resolve().");
	if (standing->claimed_by != 0)
	{
		retry->why = pstrdup("A request for it is under way at this moment.");
		retry->hint = pstrdup("Wait for its answer.");
	}
	else if (retry->decision.step == AL_STEP_APPROVE)
	{
		retry->why = pstrdup("It waits for approval.");
		retry->hint = pstrdup("See actionledger.approvals for who approves it.");
	}
	else if (standing->cancelled_at != 0)
		retry->why = pstrdup("A cancel was asked for.");
	else if (standing->expires_at != 0 && now >= standing->expires_at)
		retry->why = psprintf("It has expired at %s.", al_words_time(standing->expires_at));
	else if (retry->decision.step == AL_STEP_LOOKUP)
	{
		retry->why = pstrdup("Its outcome is unknown, and is being looked up at the provider.");
		retry->hint = psprintf("To look it up at once, use actionledger.reconcile_now(" INT64_FORMAT ").", standing->action_id);
	}
	else if (!open)
	{
		retry->why = pstrdup("Its tries are used up.");
		retry->hint = pstrdup("Give its tool more with actionledger.alter_tool() (retry.attempts), and retry again.");
	}
	else if (standing->known == AL_KNOWN_SEVERAL)
		retry->why = pstrdup("A lookup found it more than once.");
	else if (al_registry_resendable(tool, standing->key_place))
		retry->why = pstrdup("Its outcome is unknown, and its tries, its retry window or the window of its key are over.");
	else
		retry->why = pstrdup("Its outcome is unknown, and neither its type nor an idempotency key makes a second send safe.");
}

/* Allows a send that only a person can decide, or says why not even that. */
static void
consider_override(AlRetry *retry, AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	TimestampTz over = al_judge_processed_at(standing, tool);
	AlDecision	decision;

	if (standing->claimed_by != 0 || retry->decision.step != AL_STEP_REVIEW)
		return;
	standing->overridden = true;
	decision = al_judge_due(standing, tool, now);
	if (decision.step != AL_STEP_RESEND)
		return;
	if (now < over)
	{
		retry->why = psprintf("What was sent may still be executed: the max processing time is over at %s.", al_words_time(over));
		retry->hint = pstrdup("Wait until then. With evidence that it cannot happen any more, decide with "
							  "actionledger.resolve(..., 'failed', ..., force => true), and perform it anew under another identity.");
		return;
	}
	retry->allowed = retry->override = true;
	retry->decision = decision;
}
