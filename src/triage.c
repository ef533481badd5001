/*
 * triage.c
 *		Verbs that sort what needs a person: assign, acknowledge, redrive.
 *
 * They move nothing that the state machine would not move: redrive does for
 * many what retry and reconcile_now do for one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "reconcile.h"
#include "retry.h"
#include "session.h"
#include "verb.h"
#include "visible.h"
#include "wakeup.h"
#include "words.h"

PG_FUNCTION_INFO_V1(al_assign);
PG_FUNCTION_INFO_V1(al_acknowledge);
PG_FUNCTION_INFO_V1(al_redrive);

static AlStatement assign_action = {
	"UPDATE actionledger.action SET assigned_to = $2 WHERE action_id = $1 RETURNING requested_by, owner", 2, {INT8OID, TEXTOID}
};
static AlStatement find_noteworthy = {
	"SELECT count(*) FROM actionledger.event e WHERE e.action_id = $1 AND e.what IN ('conflict', 'duplicates_found') "
	"AND NOT EXISTS (SELECT FROM actionledger.event k WHERE k.action_id = e.action_id AND k.what = 'acknowledged' AND k.event_id > e.event_id)",
	1, {INT8OID}
};
static AlStatement list_stuck = {
	"SELECT a.action_id FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id) "
	"WHERE ($1 IS NULL OR t.name = $1) AND a.next_step IN ('blocked', 'review', 'lookup') AND a.claimed_by IS NULL "
	"AND ($2 IS NULL OR a.created_at >= $2) AND ($3 IS NULL OR a.created_at < $3) ORDER BY a.action_id",
	3, {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID}
};
static AlStatement count_tools = {
	"SELECT count(*) FROM actionledger.tool WHERE name = $1", 1, {TEXTOID}
};

static void check_tool(FunctionCallInfo fcinfo);
static void redrive_one(FunctionCallInfo fcinfo, int64 action_id, const char *who, Oid caller, bool dry_run, TimestampTz now);
static void put_row(FunctionCallInfo fcinfo, int64 action_id, const char *verb, const char *will);

/* assign(action_id, owner) */
Datum
al_assign(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "assign");
	char	   *to = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));
	Oid			role = to ? get_role_oid(to, true) : InvalidOid;
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	Datum		values[2] = {Int64GetDatum(action_id), to ? CStringGetTextDatum(to) : (Datum) 0};
	AlSession	session;
	AlStanding *standing;
	char	   *message;

	if (to != NULL && !OidIsValid(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist", al_visible(to)),
				 errdetail("An action is assigned to a role, which sees it as assigned_to in actionledger.review_queue."),
				 errhint("See pg_roles; NULL takes the assignment back.")));
	al_session_begin(&session, true);
	standing = al_verb_lock(action_id, caller, true);
	al_verb_check_expected(standing, NULL);
	(void) al_statement_run(&assign_action, values, to ? NULL : " n");
	message = to == NULL ? pstrdup("assigned to nobody")
		: al_may_see(role, al_column_text(0, 1), al_column_text(0, 2)) ? psprintf("assigned to %s", to)
		: psprintf("assigned to %s, which cannot see it: it is neither an operator, nor the tool's owner, nor who asked for it", to);
	al_verb_event_note(action_id, "assigned", standing->status, who, to ? psprintf("to %s", to) : "to nobody");
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOEND);
	return al_verb_row(fcinfo, action_id, standing->status, standing->step, message);
}

/* acknowledge(action_id, note) */
Datum
al_acknowledge(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "acknowledge");
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	Datum		value = Int64GetDatum(action_id);
	AlSession	session;
	AlStanding *standing;
	AlStep		step;
	bool		noteworthy;

	al_verb_note(fcinfo, 1, "acknowledge", "Say what was found, and what is done about it.");
	al_session_begin(&session, true);
	standing = al_verb_lock(action_id, caller, true);
	step = standing->step;
	(void) al_statement_run(&find_noteworthy, &value, NULL);
	noteworthy = al_column_int8(0, 1) > 0;
	if (!noteworthy && standing->status != AL_STATUS_FAILED)
		ereport(ERROR,
				(errcode(AL_ERR_STATE_CHANGED),
				 errmsg("there is nothing to acknowledge of action " INT64_FORMAT, action_id),
				 errdetail("It is %s, without a conflict or a duplicate that nobody has acknowledged.", al_status_name(standing->status)),
				 errhint("What is live leaves actionledger.attention when it is settled.")));
	al_verb_event(action_id, "acknowledged", standing->status, who, fcinfo, 1, -1);
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOEND);
	return al_verb_row(fcinfo, action_id, standing->status, step,
					   psprintf("acknowledged by %s; it stays as it is%s", who, noteworthy ? ", and leaves actionledger.attention" : ""));
}

/* redrive(tool, since, until, note, dry_run) */
Datum
al_redrive(PG_FUNCTION_ARGS)
{
	bool		dry_run = PG_ARGISNULL(4) || PG_GETARG_BOOL(4);
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	AlSession	session;
	Datum		values[3];
	char		nulls[4] = "   ";
	int64	   *ids;
	int			n;

	al_verb_note(fcinfo, 3, "redrive", "Say what has been mended.");
	InitMaterializedSRF(fcinfo, 0);
	al_session_begin(&session, true);
	if (!al_is_operator(caller))
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("only an operator may redrive actions"),
				 errdetail("Operators are the roles that may execute actionledger.resolve."),
				 errhint("Ask one of them.")));
	check_tool(fcinfo);
	al_registry_refresh();
	for (int i = 0; i < 3; i++)
	{
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
		values[i] = PG_ARGISNULL(i) ? (Datum) 0 : PG_GETARG_DATUM(i);
	}
	n = (int) al_statement_run(&list_stuck, values, nulls);
	ids = palloc(Max(n, 1) * sizeof(int64));
	for (int i = 0; i < n; i++)
		ids[i] = al_column_int8(i, 1);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		redrive_one(fcinfo, ids[i], who, caller, dry_run, now);
	}
	al_session_end(&session);
	if (!dry_run)
		al_wakeup_at_commit(DT_NOBEGIN);
	return (Datum) 0;
}

/* Refuses a tool that never was. */
static void
check_tool(FunctionCallInfo fcinfo)
{
	Datum		value;

	if (PG_ARGISNULL(0))
		return;
	value = PG_GETARG_DATUM(0);
	(void) al_statement_run(&count_tools, &value, NULL);
	if (al_column_int8(0, 1) == 0)
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_TOOL),
				 errmsg("there is no tool \"%s\"", al_visible(text_to_cstring(PG_GETARG_TEXT_PP(0)))),
				 errdetail("No tool of that name is or was defined."),
				 errhint("See actionledger.tools; NULL means all of them.")));
}

/* Retries or looks up one action, if the state machine allows it; a dry run only says so. */
static void
redrive_one(FunctionCallInfo fcinfo, int64 action_id, const char *who, Oid caller, bool dry_run, TimestampTz now)
{
	AlStanding	read;
	AlStanding	looked;
	AlStanding *standing = &read;
	AlStep		step;
	AlTool	   *tool;
	AlRetry		retry;
	AlReconcile reconcile;

	if (!dry_run)
		standing = al_verb_lock(action_id, caller, true);
	else if (!al_ledger_read(action_id, standing))
		return;
	/* Somebody else may have seen to it meanwhile. */
	step = standing->step;
	if (standing->claimed_by != 0 || (step != AL_STEP_BLOCKED && step != AL_STEP_REVIEW && step != AL_STEP_LOOKUP))
		return;
	tool = al_registry_tool_by_id(standing->tool_id);
	looked = *standing;
	reconcile = al_reconcile_consider(&looked, tool, now);
	if (reconcile.allowed && reconcile.decision.step == AL_STEP_LOOKUP)
	{
		char	   *will = al_reconcile_message(&looked, tool, &reconcile, now);

		if (!dry_run)
		{
			al_reconcile_apply(&looked, tool, &reconcile, who, now);
			al_verb_event(action_id, "reconcile_now", reconcile.decision.status, who, fcinfo, 3, -1);
		}
		put_row(fcinfo, action_id, "reconcile_now", will);
		return;
	}
	retry = al_retry_consider(standing, tool, false, now);
	if (!retry.allowed)
		return;
	if (!dry_run)
	{
		al_retry_apply(standing, &retry, now);
		al_verb_event(action_id, "retry", retry.decision.status, who, fcinfo, 3, -1);
	}
	put_row(fcinfo, action_id, "retry", al_retry_message(standing, tool, &retry));
}

/* Puts a row of redrive. */
static void
put_row(FunctionCallInfo fcinfo, int64 action_id, const char *verb, const char *will)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[3] = {Int64GetDatum(action_id), CStringGetTextDatum(verb), CStringGetTextDatum(will)};
	bool		nulls[3] = {0};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
