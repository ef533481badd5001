/*
 * report.c
 *		SQL functions that take evidence from outside: report_outcome.
 *
 * A report locks the action, is weighed (rules/report.c), folded and decided by
 * the state machine, and kept as an event with its evidence.  Nothing at rest
 * changes: what says the contrary is kept as a conflict.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "answer.h"
#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "judge.h"
#include "ledger.h"
#include "report.h"
#include "rules/report.h"
#include "session.h"
#include "settings.h"
#include "verb.h"
#include "visible.h"
#include "wakeup.h"
#include "words.h"

#define DETAIL_MAX 500
#define RETRY_AFTER_MAX_S 3600

PG_FUNCTION_INFO_V1(al_report_outcome);
PG_FUNCTION_INFO_V1(al_report_outcome_by_identity);

static AlStatement find_action = {
	"SELECT a.action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = $1 AND a.identity = $2",
	2, {TEXTOID, TEXTOID}
};
static AlStatement lock_action = {
	"SELECT a.requested_by, a.owner, (SELECT t.executor FROM actionledger.attempt t WHERE t.action_id = $1 AND t.executor IS NOT NULL ORDER BY t.attempt DESC LIMIT 1) "
	"FROM actionledger.action a WHERE a.action_id = $1 FOR NO KEY UPDATE OF a", 1, {INT8OID}
};
static AlStatement find_reported = {
	"SELECT 1 FROM actionledger.event WHERE action_id = $1 AND verdict = $2::actionledger.verdict AND evidence = $3",
	3, {INT8OID, TEXTOID, JSONBOID}
};
static AlStatement find_claim = {
	"SELECT executor, attempt::int FROM actionledger.attempt WHERE action_id = $1 AND incarnation = $2 AND kind = 'external'", 2, {INT8OID, INT8OID}
};
static AlStatement count_in = {
	"UPDATE actionledger.action SET known = $2::actionledger.known WHERE action_id = $1", 2, {INT8OID, TEXTOID}
};
static AlStatement void_override = {
	"UPDATE actionledger.action SET overridden = false WHERE action_id = $1", 1, {INT8OID}
};
static AlStatement open_window = {
	"UPDATE actionledger.action SET window_ends_at = $2, last_sent_at = $3 WHERE action_id = $1",
	3, {INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID}
};

/* A report on its way. */
typedef struct Call
{
	int64		action_id;
	AlVerdict	verdict;
	Jsonb	   *evidence;
	int64		token;			/* 0: none */
	int			attempt;		/* that was claimed with it */
	Oid			caller;
	TimestampTz now;
	AlStanding *standing;
	AlTool	   *tool;
	AlReport	report;
	AlOutcome	outcome;
	AlReportUse use;
	AlJudgement judgement;
	char	   *message;
} Call;

static Datum report(FunctionCallInfo fcinfo, int64 action_id, int verdict, int evidence);
static void read_call(FunctionCallInfo fcinfo, Call *call, int verdict, int evidence);
static int64 read_token(Jsonb *evidence);
static void lock(Call *call);
static bool is_known_already(Call *call);
static void weigh(Call *call);
static void tell_reporter(Call *call);
static void apply(Call *call);
static void decide(Call *call);
static void open_unsent(Call *call);
static void end_attempt(Call *call);
static void note(Call *call);
static void keep(Call *call);
static Datum reported_row(FunctionCallInfo fcinfo, const Call *call);
static JsonbValue *member(Jsonb *evidence, const char *name, JsonbValue *value);
static bool member_bool(Jsonb *evidence, const char *name);
static Datum member_jsonb(Jsonb *evidence, const char *name);
static AL_NORETURN void raise_unknown(const char *detail);

/* report_outcome(action_id, verdict, evidence) */
Datum
al_report_outcome(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		raise_unknown("The action_id is null.");
	return report(fcinfo, PG_GETARG_INT64(0), 1, 2);
}

/* report_outcome_by_identity(service, identity, verdict, evidence) */
Datum
al_report_outcome_by_identity(PG_FUNCTION_ARGS)
{
	AlSession	session;
	Datum		values[2];
	int64		action_id = 0;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		raise_unknown("The service or the identity is null.");
	values[0] = PG_GETARG_DATUM(0);
	values[1] = PG_GETARG_DATUM(1);
	al_session_begin(&session, true);
	if (al_statement_run(&find_action, values, NULL) > 0)
		action_id = al_column_int8(0, 1);
	al_session_end(&session);
	if (action_id == 0)
		raise_unknown(psprintf("No action at service \"%s\" has the identity \"%s\", or it belongs to others.",
							   TextDatumGetCString(values[0]), TextDatumGetCString(values[1])));
	return report(fcinfo, action_id, 2, 3);
}

/* Takes a report; verdict and evidence are argument numbers. */
static Datum
report(FunctionCallInfo fcinfo, int64 action_id, int verdict, int evidence)
{
	Call		call = {.action_id = action_id, .caller = GetUserId(), .now = al_clock_now()};
	AlSession	session;

	PreventCommandIfReadOnly("report_outcome()");
	read_call(fcinfo, &call, verdict, evidence);
	al_session_begin(&session, true);
	al_registry_refresh();
	lock(&call);
	if (is_known_already(&call))
		call.message = "this evidence is recorded already; nothing has changed";
	else
	{
		weigh(&call);
		apply(&call);
		keep(&call);
	}
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return reported_row(fcinfo, &call);
}

/* Reads the arguments. */
static void
read_call(FunctionCallInfo fcinfo, Call *call, int verdict, int evidence)
{
	char	   *name = PG_ARGISNULL(verdict) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(verdict));

	if (!al_verdict_parse(name, &call->verdict))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("unknown verdict \"%s\"", al_visible(name)),
				 errdetail("It is confirmed (it happened), rejected (it did not and will not), in_progress, unknown, or not_sent "
						   "(only from the executor that has the action)."),
				 errhint("Say what the evidence proves, and unknown when it proves nothing.")));
	if (PG_ARGISNULL(evidence) || !JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(evidence)) ||
		JB_ROOT_COUNT(PG_GETARG_JSONB_P(evidence)) == 0)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("a report needs evidence"),
				 errdetail("The evidence is null, empty, or no object."),
				 errhint("Give what the provider said, such as '{\"external_ref\": \"re_1\", \"event\": \"evt_9\"}'.")));
	call->evidence = PG_GETARG_JSONB_P(evidence);
	if (VARSIZE_ANY(call->evidence) > (Size) al_max_request_size * 1024)
		ereport(ERROR,
				(errcode(AL_ERR_REQUEST_TOO_LARGE),
				 errmsg("the evidence is too large"),
				 errdetail("It takes %zu bytes; the most is %zu.", (size_t) VARSIZE_ANY(call->evidence), (size_t) al_max_request_size * 1024),
				 errhint("Give a reference to the data instead of the data.")));
	call->token = read_token(call->evidence);
}

/* Reads the token of a claim out of the evidence, 0 for none. */
static int64
read_token(Jsonb *evidence)
{
	JsonbValue	value;
	int64		token = 0;

	if (member(evidence, "token", &value) == NULL || value.type == jbvNull)
		return 0;
	if (value.type == jbvNumeric)
	{
		char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
		char	   *end;

		errno = 0;
		token = strtoll(text, &end, 10);
		if (errno != 0 || *end != '\0')
			token = 0;
	}
	if (token <= 0)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("the token is no token"),
				 errdetail("The member \"token\" of the evidence is not a positive whole number."),
				 errhint("Give back the number that actionledger.claim() gave; a report that is no executor's has no token.")));
	return token;
}

/* Locks the action, which the caller must be allowed to see, or have claimed. */
static void
lock(Call *call)
{
	Datum		value = Int64GetDatum(call->action_id);
	char	   *executor;

	if (al_statement_run(&lock_action, &value, NULL) == 0 ||
		(!al_may_see(call->caller, al_column_text(0, 1), al_column_text(0, 2)) &&
		 ((executor = al_column_text(0, 3)) == NULL || !al_role_is(call->caller, executor))))
		raise_unknown(psprintf("Action " INT64_FORMAT " does not exist, or belongs to others.", call->action_id));
	if (al_ledger_lock(&call->action_id, 1, &call->standing) != 1)
		elog(ERROR, "action " INT64_FORMAT " could not be locked", call->action_id);
	call->tool = al_registry_tool_guarded(call->standing->tool_id);
	if (call->tool == NULL)
		call->tool = al_registry_cautious_tool();
}

/* Tells whether the same has been reported before. */
static bool
is_known_already(Call *call)
{
	Datum		values[3] = {
		Int64GetDatum(call->action_id), CStringGetTextDatum(al_verdict_name(call->verdict)), JsonbPGetDatum(call->evidence)
	};

	return al_statement_run(&find_reported, values, NULL) > 0;
}

/* Finds out who reports, and what that counts for. */
static void
weigh(Call *call)
{
	AlReport   *report = &call->report;
	const AlStanding *standing = call->standing;

	tell_reporter(call);
	report->verdict = call->verdict;
	report->transient = member_bool(call->evidence, "transient");
	report->conclusive = member_bool(call->evidence, "conclusive");
	/* A lookup under way does nothing that a refusal would have to wait for. */
	report->claimed = standing->claimed_by != 0 && !(call->verdict == AL_VERDICT_REJECTED && standing->step == AL_STEP_LOOKUP);
	report->one_operation = standing->sends <= 1 || al_registry_key_counts(call->tool, standing->key_place);
	call->use = al_report_weigh(report, &call->outcome);
}

/* Tells who reports by the token; raises for one that this action never had. */
static void
tell_reporter(Call *call)
{
	Datum		values[2] = {Int64GetDatum(call->action_id), Int64GetDatum(call->token)};

	if (call->token == 0)
	{
		if (call->verdict == AL_VERDICT_NOT_SENT)
			ereport(ERROR,
					(errcode(AL_ERR_NOT_ALLOWED),
					 errmsg("only the executor that has action " INT64_FORMAT " can say that it was not sent", call->action_id),
					 errdetail("The evidence has no token of a claim."),
					 errhint("What a provider does not know of may still be under way: report unknown, or rejected when it "
							 "says that it did not happen and will not.")));
		call->report.reporter = AL_REPORTER_OUTSIDE;
		return;
	}
	if (al_statement_run(&find_claim, values, NULL) == 0)
		ereport(ERROR,
				(errcode(AL_ERR_STALE_TOKEN),
				 errmsg("token " INT64_FORMAT " is no claim of action " INT64_FORMAT, call->token, call->action_id),
				 errdetail("Nobody has claimed this action with it."),
				 errhint("Give back the token that came with this action from actionledger.claim(); without one, leave it out.")));
	if (!al_role_is(call->caller, al_column_text(0, 1)) && !al_is_operator(call->caller))
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("token " INT64_FORMAT " is another executor's", call->token),
				 errdetail("Role %s has claimed action " INT64_FORMAT " with it.", al_column_text(0, 1), call->action_id),
				 errhint("Report without the token what you know from elsewhere.")));
	call->attempt = al_column_int4(0, 2);
	call->report.reporter = call->standing->claimed_by == -call->token ? AL_REPORTER_HOLDER : AL_REPORTER_LATE;
}

/* Does what the report counts for, and says so. */
static void
apply(Call *call)
{
	AlStatus	status = call->standing->status;

	call->judgement.event.status = status;
	if (call->token != 0)
		end_attempt(call);
	if (status == AL_STATUS_CONFIRMED || status == AL_STATUS_FAILED)
	{
		note(call);
		return;
	}
	switch (call->use)
	{
		case AL_REPORT_NOTED:
			note(call);
			break;
		case AL_REPORT_COUNTS:
			{
				AlKnown		known = al_policy_fold(call->tool->def->type, call->standing->known, &call->outcome);
				Datum		values[2] = {Int64GetDatum(call->action_id), CStringGetTextDatum(al_known_name(known))};

				(void) al_statement_run(&count_in, values, NULL);
				call->message = "recorded; a request is under way, and its end decides together with this";
				break;
			}
		case AL_REPORT_ENDS_ATTEMPT:
		case AL_REPORT_DECIDES:
			decide(call);
			break;
	}
}

/* Folds, decides and moves. */
static void
decide(Call *call)
{
	AlStanding *standing = call->standing;
	AlJudgement *judgement = &call->judgement;
	AlMove	   *move = &judgement->move;
	JsonbValue	wait;
	int64		retry_after_s = -1;
	AlDecision	decision;

	if (member(call->evidence, "retry_after_s", &wait) != NULL && wait.type == jbvNumeric)
	{
		double		seconds = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(wait.val.numeric)));

		if (seconds >= 0)
			retry_after_s = (int64) Min(seconds, RETRY_AFTER_MAX_S);
	}
	open_unsent(call);
	if (standing->overridden)
	{
		/* What somebody has decided upon is no longer what is known. */
		Datum		value = Int64GetDatum(call->action_id);

		(void) al_statement_run(&void_override, &value, NULL);
		standing->overridden = false;
	}
	/* An executor's attempt is over when it says so, whatever its lease was. */
	if (call->use == AL_REPORT_ENDS_ATTEMPT && call->verdict != AL_VERDICT_NOT_SENT)
		standing->doubted_at = move->doubted_at = call->now;
	decision = al_judge_outcome(standing, call->tool, &call->outcome, false, retry_after_s, call->now, judgement);
	move->error_message = al_words_reported(&decision, &call->outcome, call->tool, call->report.reporter == AL_REPORTER_OUTSIDE
											? al_role_name(call->caller) : "its executor", standing->sends);
	if (call->verdict == AL_VERDICT_CONFIRMED)
	{
		move->external_ref = al_report_reference(call->evidence);
		move->result = member_jsonb(call->evidence, "result");
		move->confirmed_by = call->report.reporter == AL_REPORTER_OUTSIDE ? "callback" : "executor";
	}
	al_ledger_move(move, 1, call->now);
	if (standing->claimed_by != 0 && call->use != AL_REPORT_ENDS_ATTEMPT && (move->status == AL_STATUS_CONFIRMED || move->status == AL_STATUS_FAILED))
		al_verb_event_note(standing->action_id, "left_open", move->status, al_role_name(call->caller),
						   psprintf("attempt %d is under way; how it ends is kept as late evidence", standing->attempts));
	judgement->event.status = move->status;
	call->message = move->status == AL_STATUS_CONFIRMED ? "recorded: it happened"
		: move->status == AL_STATUS_FAILED ? psprintf("recorded: it did not happen and will not (%s)", move->error_code)
		: move->step == AL_STEP_REVIEW ? "recorded; the outcome is unknown, and a person decides"
		: move->status == AL_STATUS_PREPARED ? psprintf("recorded; it is due again at %s", al_words_time(move->next_at))
		: "recorded; the outcome is open";
}

/* Gives an action that nobody has sent the clocks of one that is under way, because somebody says that it is. */
static void
open_unsent(Call *call)
{
	AlStanding *standing = call->standing;
	Datum		values[3];

	if (call->verdict != AL_VERDICT_IN_PROGRESS || standing->window_ends_at != 0)
		return;
	standing->window_ends_at = TimestampTzPlusMilliseconds(call->now, call->tool->def->window_ms);
	standing->last_sent_at = call->now;
	values[0] = Int64GetDatum(call->action_id);
	values[1] = TimestampTzGetDatum(standing->window_ends_at);
	values[2] = TimestampTzGetDatum(standing->last_sent_at);
	(void) al_statement_run(&open_window, values, NULL);
}

/* Closes the executor's attempt, unless it is closed. */
static void
end_attempt(Call *call)
{
	AlClosing	closing = {
		.action_id = call->action_id,
		.attempt = call->attempt,
		.finished_at = call->now,
		.verdict = call->verdict,
		.category = call->outcome.category,
		.sent = call->verdict != AL_VERDICT_NOT_SENT,
		.retry_after_s = -1,
		.external_ref = al_report_reference(call->evidence)
	};
	JsonbValue	detail;

	if (member(call->evidence, "detail", &detail) != NULL && detail.type == jbvString)
		closing.detail = pnstrdup(detail.val.string.val, pg_mbcliplen(detail.val.string.val, detail.val.string.len, DETAIL_MAX));
	al_ledger_close(&closing, 1);
}

/* Says of a report that changes nothing why it does not. */
static void
note(Call *call)
{
	const AlStanding *standing = call->standing;

	if (al_policy_contradicts(standing->status, standing->sends <= 1, &call->outcome))
		call->message = psprintf("the action is %s, and this says the contrary: it is kept and shown in actionledger.conflicts",
								 al_status_name(standing->status));
	else if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED)
		call->message = psprintf("the action is %s already; this is kept with it", al_status_name(standing->status));
	else if (call->report.reporter == AL_REPORTER_LATE)
		call->message = "kept as evidence: the claim with this token has ended, so it decides nothing";
	else if (call->verdict == AL_VERDICT_REJECTED && !call->report.transient && !call->report.one_operation)
		call->message = psprintf("kept as evidence: %d sends may be as many operations there, and this speaks of one", standing->sends);
	else if (call->report.claimed && call->verdict != AL_VERDICT_UNKNOWN)
		call->message = "kept as evidence; a request is under way, and its end decides";
	else
		call->message = "kept as evidence; it proves nothing, so nothing has changed";
}

/* Appends the event that keeps the evidence. */
static void
keep(Call *call)
{
	AlEvent    *event = &call->judgement.event;
	bool		contradicts = al_policy_contradicts(call->standing->status, call->standing->sends <= 1, &call->outcome);
	bool		rest = call->standing->status == AL_STATUS_CONFIRMED || call->standing->status == AL_STATUS_FAILED;

	event->action_id = call->action_id;
	event->what = contradicts ? "conflict" : rest ? "late_evidence" : "reported";
	event->verdict = al_verdict_name(call->verdict);
	event->source = call->report.reporter == AL_REPORTER_OUTSIDE ? "callback" : "executor";
	event->evidence = JsonbPGetDatum(call->evidence);
	event->note = psprintf("%s reports %s: %s", event->source, event->verdict, call->message);
	al_ledger_event_by(event, 1, al_role_name(call->caller));
}

/* Makes the row that a verb returns. */
static Datum
reported_row(FunctionCallInfo fcinfo, const Call *call)
{
	const AlMove *move = call->judgement.moves ? &call->judgement.move : NULL;

	return al_verb_row(fcinfo, call->action_id, move ? move->status : call->standing->status,
					   move ? move->step : call->standing->step, call->message);
}

/* Takes external_ref out of evidence. */
char *
al_report_reference(Jsonb *evidence)
{
	JsonbValue	found;

	if (member(evidence, "external_ref", &found) == NULL)
		return NULL;
	if (found.type == jbvNumeric)
	{
		char	   *number = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(found.val.numeric)));

		return strlen(number) <= AL_EXTERNAL_REF_MAX ? number : NULL;
	}
	if (found.type != jbvString || found.val.string.len == 0)
		return NULL;
	return pnstrdup(found.val.string.val, pg_mbcliplen(found.val.string.val, found.val.string.len, AL_EXTERNAL_REF_MAX));
}

/* Finds a member of an object; NULL when there is none. */
static JsonbValue *
member(Jsonb *evidence, const char *name, JsonbValue *value)
{
	return JB_ROOT_IS_OBJECT(evidence) ? getKeyJsonValueFromContainer(&evidence->root, name, strlen(name), value) : NULL;
}

/* Tells whether a member is there and true. */
static bool
member_bool(Jsonb *evidence, const char *name)
{
	JsonbValue	value;

	return member(evidence, name, &value) != NULL && value.type == jbvBool && value.val.boolean;
}

/* Copies a member, 0 when there is none. */
static Datum
member_jsonb(Jsonb *evidence, const char *name)
{
	JsonbValue	value;

	return member(evidence, name, &value) != NULL ? JsonbPGetDatum(JsonbValueToJsonb(&value)) : (Datum) 0;
}

/* Raises for an action that is not there, or not to be seen. */
static void
raise_unknown(const char *detail)
{
	ereport(ERROR,
			(errcode(AL_ERR_UNKNOWN_ACTION),
			 errmsg("there is no such action that you may see"),
			 errdetail("%s", detail),
			 errhint("See the view actionledger.actions for those that you may see.")));
}
