/*
 * approve.c
 *		SQL functions with which people allow an action, or do not.
 *
 * An approval is for the frozen request as its hash names it, is used once, and
 * has to come in time from somebody else than who asked.  Until then the row
 * says approve_by, and the state machine sends nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "approval.h"
#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "judge.h"
#include "ledger.h"
#include "session.h"
#include "wakeup.h"
#include "verb.h"
#include "words.h"

PG_FUNCTION_INFO_V1(al_approve);
PG_FUNCTION_INFO_V1(al_approve_many);
PG_FUNCTION_INFO_V1(al_reject);
PG_FUNCTION_INFO_V1(al_sql_may_approve);

static AlStatement lock_action = {
	"SELECT requested_by, session_by, actor, owner, approver, not_before, "
	"actionledger._request_hash(method, url, headers, body) "
	"FROM actionledger.action WHERE action_id = $1 FOR NO KEY UPDATE",
	1, {INT8OID}
};
static AlStatement give_approval = {
	"UPDATE actionledger.action SET approve_by = NULL, approved_by = $2 WHERE action_id = $1", 2, {INT8OID, TEXTOID}
};
static AlStatement insert_event = {
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note, evidence) "
	"VALUES ($1, $2, $3::actionledger.status, $4, $5, jsonb_strip_nulls(jsonb_build_object('hash', $6::text, 'session_user', $7::text)))",
	7, {INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}
};

/* An action that waits for approval, locked. */
typedef struct Waiting
{
	AlStanding *standing;
	char	   *requested_by;
	char	   *session_by;		/* NULL: the same */
	char	   *actor;			/* NULL: none */
	char	   *owner;			/* NULL: none */
	char	   *approver;		/* NULL: the owner, or an operator */
	TimestampTz not_before;		/* 0: at once */
	char	   *hash;
} Waiting;

/* What a verb answers. */
typedef struct Decided
{
	int64		action_id;
	AlStatus	status;
	AlStep		step;
	char	   *message;
} Decided;

static Waiting lock_waiting(int64 action_id, Oid caller, const char *verb);
static bool may_approve(Oid role, const char *approver, const char *owner);
static void check_other(const Waiting *waiting, Oid caller);
static bool is_same(const char *name, Oid role);
static void check_in_time(const Waiting *waiting);
static void check_hash(const Waiting *waiting, const char *seen);
static Decided approve(int64 action_id, Oid caller, const char *note, const char *seen_hash);
static void record_event(const Waiting *waiting, const char *what, AlStatus status, Oid caller, const char *note);
static char *text_argument(FunctionCallInfo fcinfo, int i);
static int64 action_argument(FunctionCallInfo fcinfo, const char *verb);
static Datum decided_row(TupleDesc descriptor, const Decided *decided);
static AL_NORETURN void invalid(int64 action_id, const char *message, char *detail, const char *hint);

/* approve(action_id, note, seen_hash) */
Datum
al_approve(PG_FUNCTION_ARGS)
{
	int64		action_id = action_argument(fcinfo, "approve");
	Oid			caller = GetUserId();
	TupleDesc	descriptor;
	AlSession	session;
	Decided		decided;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	al_session_begin(&session, true);
	al_registry_refresh();
	decided = approve(action_id, caller, text_argument(fcinfo, 1), text_argument(fcinfo, 2));
	al_session_end(&session);
	return decided_row(descriptor, &decided);
}

/* approve_many(action_ids, note): all of them, or none */
Datum
al_approve_many(PG_FUNCTION_ARGS)
{
	Oid			caller = GetUserId();
	char	   *note = text_argument(fcinfo, 1);
	ReturnSetInfo *result;
	AlSession	session;
	Decided    *decided;
	Datum	   *ids;
	bool	   *nulls;
	int		   *order;
	int			n;

	if (PG_ARGISNULL(0))
		action_argument(fcinfo, "approve_many");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	result = (ReturnSetInfo *) fcinfo->resultinfo;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &ids, &nulls, &n);
	decided = palloc0(Max(n, 1) * sizeof(Decided));
	order = palloc(Max(n, 1) * sizeof(int));
	/* Locks are taken in the order of the numbers, so that two callers cannot deadlock. */
	for (int i = 0; i < n; i++)
	{
		int			at = i;

		if (nulls[i])
			action_argument(NULL, "approve_many");
		for (; at > 0 && DatumGetInt64(ids[order[at - 1]]) > DatumGetInt64(ids[i]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	al_session_begin(&session, true);
	al_registry_refresh();
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && ids[order[i]] == ids[order[i - 1]])
			decided[order[i]] = decided[order[i - 1]];
		else
			decided[order[i]] = approve(DatumGetInt64(ids[order[i]]), caller, note, NULL);
	}
	al_session_end(&session);
	for (int i = 0; i < n; i++)
	{
		HeapTupleHeader row = DatumGetHeapTupleHeader(decided_row(result->setDesc, &decided[i]));
		HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row), .t_data = row};

		tuplestore_puttuple(result->setResult, &tuple);
	}
	return (Datum) 0;
}

/* reject(action_id, note) */
Datum
al_reject(PG_FUNCTION_ARGS)
{
	int64		action_id = action_argument(fcinfo, "reject");
	char	   *note = text_argument(fcinfo, 1);
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	Decided		decided = {.action_id = action_id, .status = AL_STATUS_FAILED, .step = AL_STEP_NONE};
	TupleDesc	descriptor;
	AlSession	session;
	Waiting		waiting;
	AlMove		move = {0};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (note == NULL || note[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("reject needs a note"),
				 errdetail("The note is what who asked for the action will read."),
				 errhint("Say why not, and what to do instead.")));
	al_session_begin(&session, true);
	al_registry_refresh();
	waiting = lock_waiting(action_id, caller, "reject");
	move.action_id = action_id;
	move.status = AL_STATUS_FAILED;
	move.step = AL_STEP_NONE;
	move.known = waiting.standing->known;
	move.error_code = "approval_rejected";
	move.error_message = psprintf("not approved by %s: %s", al_role_name(caller), note);
	al_ledger_move(&move, 1, now);
	record_event(&waiting, "rejected", AL_STATUS_FAILED, caller, note);
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	decided.message = psprintf("not approved, by %s; nothing was sent and nothing will be", al_role_name(caller));
	return decided_row(descriptor, &decided);
}

/* _may_approve(approver, owner): for the current role, used by the view approvals */
Datum
al_sql_may_approve(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(may_approve(GetUserId(), text_argument(fcinfo, 0), text_argument(fcinfo, 1)));
}

/* Approves one action. */
static Decided
approve(int64 action_id, Oid caller, const char *note, const char *seen_hash)
{
	Waiting		waiting = lock_waiting(action_id, caller, "approve");
	AlStanding *standing = waiting.standing;
	AlTool	   *tool = al_registry_tool_by_id(standing->tool_id);
	TimestampTz now = al_clock_now();
	Datum		values[2] = {Int64GetDatum(action_id), CStringGetTextDatum(al_role_name(caller))};
	AlDecision	decision;
	AlMove		move = {0};
	Decided		decided = {.action_id = action_id};

	check_other(&waiting, caller);
	check_in_time(&waiting);
	check_hash(&waiting, seen_hash);
	(void) al_statement_run(&give_approval, values, NULL);
	standing->approve_by = 0;
	decision = al_judge_due(standing, tool, now);
	if (decision.step != AL_STEP_SEND)
		ereport(ERROR,
				(errcode(AL_ERR_APPROVAL_INVALID),
				 errmsg("action " INT64_FORMAT " is not to be sent any more", action_id),
				 errdetail("Approved, it would be %s (%s). Nothing was approved or sent.", al_status_name(decision.status),
						   decision.error_code ? decision.error_code : al_step_name(decision.step)),
				 errhint("Propose it anew if it is still wanted; actionledger.reconcile() records what has become of this one.")));
	al_judge_move(standing, tool, &decision, now, &move);
	move.next_at = Max(now, waiting.not_before);
	al_ledger_move(&move, 1, now);
	record_event(&waiting, "approved", move.status, caller, note);
	al_wakeup_at_commit(move.next_at);
	decided.status = move.status;
	decided.step = move.step;
	decided.message = psprintf("approved; %s", al_words_goes_out(tool->def->external, move.next_at > now ? move.next_at : 0));
	return decided;
}

/* Locks an action that waits for approval, and that the caller may approve. */
static Waiting
lock_waiting(int64 action_id, Oid caller, const char *verb)
{
	Datum		value = Int64GetDatum(action_id);
	Waiting		waiting;

	if (al_statement_run(&lock_action, &value, NULL) > 0)
	{
		waiting.requested_by = al_column_text(0, 1);
		waiting.session_by = al_column_text(0, 2);
		waiting.actor = al_column_text(0, 3);
		waiting.owner = al_column_text(0, 4);
		waiting.approver = al_column_text(0, 5);
		waiting.not_before = al_column_int8(0, 6);
		waiting.hash = al_column_text(0, 7);
	}
	if (SPI_processed == 0 ||
		!(may_approve(caller, waiting.approver, waiting.owner) || al_may_see(caller, waiting.requested_by, waiting.owner)))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
				 errhint("See the view actionledger.approvals for those that you may approve.")));
	if (al_ledger_lock(&action_id, 1, &waiting.standing) != 1)
		elog(ERROR, "action " INT64_FORMAT " could not be locked", action_id);
	if (waiting.standing->step != AL_STEP_APPROVE)
		invalid(action_id, "does not wait for approval",
				psprintf("It is %s, and its next step is %s.", al_status_name(waiting.standing->status),
						 al_step_name(waiting.standing->step)),
				"An approval is used once. See actionledger.timeline for what was decided, by whom.");
	if (!may_approve(caller, waiting.approver, waiting.owner))
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("you may not %s action " INT64_FORMAT, verb, action_id),
				 errdetail("It waits for approval by %s.", al_approval_by_whom(waiting.approver, waiting.owner)),
				 errhint("Ask them; who asked for the action can take it back with actionledger.cancel(" INT64_FORMAT ").", action_id)));
	return waiting;
}

/* Tells whether a role is one of those who approve. */
static bool
may_approve(Oid role, const char *approver, const char *owner)
{
	if (approver != NULL)
		return al_role_is(role, approver) || superuser_arg(role);
	return al_role_is(role, owner) || al_is_operator(role);
}

/* Refuses an approval by who asked for the action. */
static void
check_other(const Waiting *waiting, Oid caller)
{
	Oid			login = GetSessionUserId();
	Oid			requester = get_role_oid(waiting->requested_by, true);
	Oid			requester_login = waiting->session_by ? get_role_oid(waiting->session_by, true) : InvalidOid;
	bool		pooled = al_speaks_for_others(login);
	bool		requester_pooled = OidIsValid(requester_login) && al_speaks_for_others(requester_login);
	const char *same = NULL;

	/* A login that speaks for others says nothing of who sits behind it. */
	if (is_same(waiting->requested_by, caller) || (!pooled && is_same(waiting->requested_by, login)))
		same = waiting->requested_by;
	else if (waiting->session_by != NULL && !requester_pooled &&
			 (is_same(waiting->session_by, caller) || (!pooled && is_same(waiting->session_by, login))))
		same = waiting->session_by;
	else if (waiting->actor != NULL &&
			 (requester_pooled || (OidIsValid(requester) && al_speaks_for_others(requester))) &&
			 (is_same(waiting->actor, caller) || (!pooled && is_same(waiting->actor, login))))
		same = waiting->actor;
	if (same != NULL)
		invalid(waiting->standing->action_id, "cannot be approved by who asked for it",
				psprintf("It was asked for by %s, which is you.", same),
				"Somebody else has to approve it; to take it back, call actionledger.cancel().");
}

/* Tells whether a name is that of a role. */
static bool
is_same(const char *name, Oid role)
{
	return strcmp(name, al_role_name(role)) == 0;
}

/* Refuses an approval that comes too late. */
static void
check_in_time(const Waiting *waiting)
{
	if (al_clock_now() >= waiting->standing->approve_by)
		invalid(waiting->standing->action_id, "can no longer be approved",
				psprintf("The time for it was over at %s; the action fails as approval_expired or expired.",
						 al_words_time(waiting->standing->approve_by)),
				"If it is still wanted, call actionledger.supersede() when it has failed.");
}

/* Refuses an approval of another request than this. */
static void
check_hash(const Waiting *waiting, const char *seen)
{
	if (seen != NULL && strcmp(seen, waiting->hash) != 0)
		invalid(waiting->standing->action_id, "is not the request that was seen",
				psprintf("Its hash is %s, not %s.", waiting->hash, seen),
				"Look at it again in actionledger.approvals, and approve what is there.");
}

/* Appends the event of a decision, with the hash of what was decided about. */
static void
record_event(const Waiting *waiting, const char *what, AlStatus status, Oid caller, const char *note)
{
	Oid			login = GetSessionUserId();
	Datum		values[7] = {
		Int64GetDatum(waiting->standing->action_id), CStringGetTextDatum(what), CStringGetTextDatum(al_status_name(status)),
		CStringGetTextDatum(al_role_name(caller)), note ? CStringGetTextDatum(note) : (Datum) 0,
		CStringGetTextDatum(waiting->hash), login != caller ? CStringGetTextDatum(al_role_name(login)) : (Datum) 0
	};
	char		nulls[8] = "       ";

	nulls[4] = note ? ' ' : 'n';
	nulls[6] = login != caller ? ' ' : 'n';
	(void) al_statement_run(&insert_event, values, nulls);
}

/* Reads a text argument, NULL for null. */
static char *
text_argument(FunctionCallInfo fcinfo, int i)
{
	return PG_ARGISNULL(i) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(i));
}

/* Reads the first argument, which must be there. */
static int64
action_argument(FunctionCallInfo fcinfo, const char *verb)
{
	if (fcinfo == NULL || PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("%s needs an action", verb),
				 errdetail("The action_id is null."),
				 errhint("Take it from the view actionledger.approvals.")));
	return PG_GETARG_INT64(0);
}

/* Makes the row that a verb returns. */
static Datum
decided_row(TupleDesc descriptor, const Decided *decided)
{
	return al_verb_tuple(descriptor, decided->action_id, decided->status, decided->step, decided->message);
}

/* Raises for an approval that does not count. */
static void
invalid(int64 action_id, const char *message, char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(AL_ERR_APPROVAL_INVALID),
			 errmsg("action " INT64_FORMAT " %s", action_id, message),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}
