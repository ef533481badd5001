/*
 * operate.c
 *		SQL functions with which people decide.
 *
 * Each locks the action first, asks the state machine, and records who, when
 * and why.  Nothing is changed silently, nothing at rest is changed at all.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "judge.h"
#include "ledger.h"
#include "report.h"
#include "session.h"
#include "verb.h"
#include "visible.h"
#include "wakeup.h"
#include "words.h"

PG_FUNCTION_INFO_V1(al_resolve);
PG_FUNCTION_INFO_V1(al_cancel);

static AlStatement lock_action = {
	"SELECT requested_by, owner FROM actionledger.action WHERE action_id = $1 FOR NO KEY UPDATE", 1, {INT8OID}
};
static AlStatement insert_event = {
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note, evidence) "
	"VALUES ($1, $2, $3::actionledger.status, $4, $5, $6)",
	6, {INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID}
};
static AlStatement note_cancel = {
	"UPDATE actionledger.action SET cancelled_at = coalesce(cancelled_at, clock_timestamp()) WHERE action_id = $1", 1, {INT8OID}
};

static void check_filled(const char *note, const char *external_ref);
static void check_not_early(const AlStanding *standing, bool force);

/* resolve(action_id, outcome, evidence, note, expected_status, force) */
Datum
al_resolve(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "resolve");
	char	   *outcome = PG_ARGISNULL(1) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *expected = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));
	bool		force = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	bool		confirmed = strcmp(outcome, "confirmed") == 0;
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	AlSession	session;
	AlStanding *standing;
	AlMove		move = {0};

	if (!confirmed && strcmp(outcome, "failed") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown outcome \"%s\"", al_visible(outcome)),
				 errdetail("It is 'confirmed' (evidence that it happened) or 'failed' (evidence that it did not and will not)."),
				 errhint("Without evidence leave it open.")));
	al_verb_note(fcinfo, 3, "resolve", "Say how you know, such as 'seen in the provider''s dashboard'.");
	move.external_ref = PG_ARGISNULL(2) ? NULL : al_report_reference(PG_GETARG_JSONB_P(2));
	check_filled(text_to_cstring(PG_GETARG_TEXT_PP(3)), move.external_ref);

	al_session_begin(&session, true);
	standing = al_verb_lock(action_id, caller, true);
	al_verb_check_expected(standing, expected);
	if (!confirmed)
		check_not_early(standing, force);
	move.action_id = action_id;
	move.status = confirmed ? AL_STATUS_CONFIRMED : AL_STATUS_FAILED;
	move.step = AL_STEP_NONE;
	move.known = confirmed ? AL_KNOWN_CONFIRMED : AL_KNOWN_REJECTED;
	move.confirmed_by = confirmed ? "person" : NULL;
	move.error_code = confirmed ? NULL : "resolved_failed";
	move.error_message = confirmed ? NULL : psprintf("decided by %s: %s", who, text_to_cstring(PG_GETARG_TEXT_PP(3)));
	al_ledger_move(&move, 1, al_clock_now());
	al_verb_event(action_id, "resolved", move.status, who, fcinfo, 3, 2);
	if (standing->claimed_by != 0)
		al_verb_event_note(action_id, "left_open", move.status, who,
						   psprintf("attempt %d is under way; how it ends is kept as late evidence", standing->attempts));
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return al_verb_row(fcinfo, action_id, move.status, AL_STEP_NONE,
					   psprintf("decided: %s, by %s", outcome, who));
}

/* cancel(action_id, note) */
Datum
al_cancel(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "cancel");
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	Datum		value = Int64GetDatum(action_id);
	AlStatus	status;
	AlStep		step;
	char	   *message;
	AlSession	session;
	AlStanding *standing;

	al_session_begin(&session, true);
	al_registry_refresh();
	standing = al_verb_lock(action_id, caller, false);
	status = standing->status;
	step = AL_STEP_NONE;
	if (status == AL_STATUS_CONFIRMED || status == AL_STATUS_FAILED)
		message = psprintf("nothing to cancel: it is %s already", al_status_name(status));
	else
	{
		AlTool	   *tool = al_registry_tool_guarded(standing->tool_id);

		if (tool == NULL)
			tool = al_registry_cautious_tool();
		(void) al_statement_run(&note_cancel, &value, NULL);
		standing->cancelled_at = al_clock_now();
		step = AL_STEP_WAIT;
		message = tool->def->external ? "already claimed; request noted: it is not claimed again, and the outcome is open until its executor has reported"
			: "already sent; request noted: it is not sent again, and the outcome is open until the answer decides";
		if (standing->claimed_by == 0)
		{
			AlDecision	decision = al_judge_due(standing, tool, standing->cancelled_at);
			AlMove		move = {0};

			al_judge_move(standing, tool, &decision, standing->cancelled_at, &move);
			move.error_message = decision.status == AL_STATUS_NEEDS_RECONCILIATION
				? psprintf("%s, outcome unknown; a cancel was asked for", al_words_sends(tool->def->external, standing->sends))
				: al_words_decision(&decision, tool, standing->sends);
			al_ledger_move(&move, 1, standing->cancelled_at);
			status = move.status;
			step = move.step;
			if (status == AL_STATUS_FAILED)
				message = "cancelled; nothing was done and nothing will be";
			else
				message = psprintf("already %s; request noted: it is not %s again, and the outcome is open until evidence decides",
								   tool->def->external ? "claimed" : "sent", tool->def->external ? "claimed" : "sent");
		}
		al_verb_event(action_id, status == AL_STATUS_FAILED ? "cancelled" : "cancel_requested", status, who, fcinfo, 1, -1);
	}
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return al_verb_row(fcinfo, action_id, status, step, message);
}

/* Reads the first argument, which must be there. */
int64
al_verb_action(FunctionCallInfo fcinfo, const char *verb)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("%s needs an action", verb),
				 errdetail("The action_id is null."),
				 errhint("Take it from one of the views, such as actionledger.review_queue.")));
	return PG_GETARG_INT64(0);
}

/* Refuses a decision without a note. */
void
al_verb_note(FunctionCallInfo fcinfo, int note, const char *verb, const char *hint)
{
	if (PG_ARGISNULL(note) || VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(note)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s needs a note", verb),
				 errdetail("The note is what others will read about why this was decided."),
				 errhint("%s", hint)));
}

/* Locks an action that the caller may decide about. */
AlStanding *
al_verb_lock(int64 action_id, Oid caller, bool operator_only)
{
	Datum		value = Int64GetDatum(action_id);
	AlStanding *standing;
	char	   *requested_by;
	char	   *owner;

	if (al_statement_run(&lock_action, &value, NULL) == 0 ||
		!al_may_see(caller, (requested_by = al_column_text(0, 1)), (owner = al_column_text(0, 2))))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
				 errhint("See the view actionledger.actions for those that you may see.")));
	if (operator_only && !al_is_operator(caller))
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("only an operator may decide about action " INT64_FORMAT, action_id),
				 errdetail("Operators are the roles that may execute actionledger.resolve."),
				 errhint("Ask one of them.")));
	if (al_ledger_lock(&action_id, 1, &standing) != 1)
		elog(ERROR, "action " INT64_FORMAT " could not be locked", action_id);
	return standing;
}

/* Refuses a decision about a state that is no longer there. */
void
al_verb_check_expected(const AlStanding *standing, const char *expected)
{
	const char *status = al_status_name(standing->status);

	if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED)
		ereport(ERROR,
				(errcode(AL_ERR_STATE_CHANGED),
				 errmsg("action " INT64_FORMAT " is %s already", standing->action_id, status),
				 errdetail("What is decided does not change."),
				 errhint("See actionledger.timeline for who or what decided it.")));
	if (expected != NULL && strcmp(expected, status) != 0)
		ereport(ERROR,
				(errcode(AL_ERR_STATE_CHANGED),
				 errmsg("action " INT64_FORMAT " is %s, not %s", standing->action_id, status, al_visible(expected)),
				 errdetail("Its state is not the one that this decision was meant for."),
				 standing->status == AL_STATUS_PREPARED
				 ? errhint("It has not been sent, or every send is proven undelivered: to keep it from being sent, use actionledger.cancel(" INT64_FORMAT ").",
						   standing->action_id)
				 : errhint("Look at it again; to decide all the same, pass expected_status => '%s'.", status)));
}

/* Refuses the statement of review_queue and explain() as it is shown there: nobody has decided anything by pasting it. */
static void
check_filled(const char *note, const char *external_ref)
{
	if (strcmp(note, "how you know") != 0 && (external_ref == NULL || strcmp(external_ref, "...") != 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the decision is not filled in"),
			 errdetail("The statement is the one that was shown, with its gaps. Nothing was decided."),
			 errhint("Put the provider's reference, or '{}', in the place of \"...\", and say in the note how you know. Without evidence leave it open.")));
}

/* Refuses "failed" while a request may still be executed. */
static void
check_not_early(const AlStanding *standing, bool force)
{
	AlTool	   *tool;
	TimestampTz over;

	if (force || (standing->last_sent_at == 0 && standing->doubted_at == 0))
		return;
	al_registry_refresh();
	tool = al_registry_tool_by_id(standing->tool_id);
	over = al_judge_processed_at(standing, tool);
	if (standing->claimed_by != 0 && standing->step == AL_STEP_WAIT)
		over = Max(over, TimestampTzPlusMilliseconds(al_clock_now(), tool->def->max_processing_ms + 1));
	if (al_clock_now() < over)
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("action " INT64_FORMAT " may still be executed by the provider", standing->action_id),
				 errdetail("The max processing time since the last send is over at %s.", al_words_time(over)),
				 errhint("Wait until then and look again; with evidence that it cannot happen any more, pass force => true.")));
}

/* Appends the event of a decision; note and evidence are argument numbers, -1 for none. */
void
al_verb_event(int64 action_id, const char *what, AlStatus status, const char *by_whom,
			 FunctionCallInfo fcinfo, int note, int evidence)
{
	Datum		values[6] = {
		Int64GetDatum(action_id), CStringGetTextDatum(what), CStringGetTextDatum(al_status_name(status)),
		CStringGetTextDatum(by_whom)
	};
	char		nulls[7] = "    nn";

	if (note >= 0 && !PG_ARGISNULL(note))
	{
		values[4] = PG_GETARG_DATUM(note);
		nulls[4] = ' ';
	}
	if (evidence >= 0 && !PG_ARGISNULL(evidence))
	{
		values[5] = PG_GETARG_DATUM(evidence);
		nulls[5] = ' ';
	}
	(void) al_statement_run(&insert_event, values, nulls);
}

/* Appends the event of a decision with a note. */
void
al_verb_event_note(int64 action_id, const char *what, AlStatus status, const char *by_whom, const char *note)
{
	Datum		values[6] = {
		Int64GetDatum(action_id), CStringGetTextDatum(what), CStringGetTextDatum(al_status_name(status)),
		CStringGetTextDatum(by_whom), CStringGetTextDatum(note)
	};

	(void) al_statement_run(&insert_event, values, "     n");
}

/* Makes the row that a verb returns. */
Datum
al_verb_row(FunctionCallInfo fcinfo, int64 action_id, AlStatus status, AlStep step, const char *message)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return al_verb_tuple(descriptor, action_id, status, step, message);
}

/* Makes such a row of a given type. */
Datum
al_verb_tuple(TupleDesc descriptor, int64 action_id, AlStatus status, AlStep step, const char *message)
{
	Datum		values[4];
	bool		nulls[4] = {0};

	values[0] = Int64GetDatum(action_id);
	values[1] = CStringGetTextDatum(al_status_name(status));
	values[2] = CStringGetTextDatum(al_step_name(step));
	values[3] = CStringGetTextDatum(message);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}
