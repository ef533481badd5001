/*
 * executor.c
 *		SQL functions of outside executors: claim and heartbeat.
 *
 * A claim is the mark of an attempt that somebody else makes: durable when its
 * transaction commits, and only then may the executor act.  Its token is a number
 * from the sequence of incarnations, so that it never comes again and grows; the
 * action carries it negated, which keeps it apart from dispatchers.  A claim ends
 * with a report, or when its lease and the max processing time are over (sweep.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "batch.h"
#include "clock.h"
#include "errors.h"
#include "fence.h"
#include "gate.h"
#include "ledger.h"
#include "pause.h"
#include "session.h"
#include "sweep.h"
#include "validate.h"
#include "wakeup.h"
#include "words.h"

#define MAX_CLAIM 1000
#define MAX_ROUNDS 10

PG_FUNCTION_INFO_V1(al_claim);
PG_FUNCTION_INFO_V1(al_heartbeat);

static AlStatement pick = {
	"SELECT y.action_id, y.requested_by, x.next_at FROM actionledger.due x JOIN actionledger.action y USING (action_id) "
	"WHERE x.external AND x.service_id = $1 AND x.priority = $2 AND x.next_at <= $3 AND y.tool_id = $4 AND y.claimed_by IS NULL "
	"AND y.instance = $5 AND y.next_step IN ('send', 'resend', 'wait', 'approve') "
	"ORDER BY x.next_at, x.action_id LIMIT $6 FOR NO KEY UPDATE OF y SKIP LOCKED",
	6, {INT4OID, INT4OID, TIMESTAMPTZOID, INT4OID, INT8OID, INT4OID}
};
static AlStatement take_token = {
	"SELECT nextval('actionledger.incarnation_seq')", 0, {0}
};
static AlStatement name_executor = {
	"UPDATE actionledger.attempt t SET kind = 'external', executor = $3, incarnation = $4 "
	"FROM unnest($1::bigint[], $2::int[]) AS u(action_id, attempt) WHERE t.action_id = u.action_id AND t.attempt = u.attempt",
	4, {INT8ARRAYOID, INT4ARRAYOID, TEXTOID, INT8OID}
};
static AlStatement schedule_sweep = {
	"UPDATE actionledger.due d SET next_at = $2 FROM unnest($1::bigint[]) AS u(action_id) WHERE d.action_id = u.action_id",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};
static AlStatement read_claimed = {
	"SELECT a.action_id, a.attempts::int, a.identity, a.idempotency_key, a.args, a.known NOT IN ('nothing', 'not_sent', 'rejected_transient') "
	"FROM unnest($1::bigint[]) WITH ORDINALITY AS u(action_id, n) JOIN actionledger.action a ON a.action_id = u.action_id ORDER BY u.n",
	1, {INT8ARRAYOID}
};
static AlStatement lock_claim = {
	"SELECT a.requested_by, a.owner, a.claimed_by, a.tool_id, a.cancelled_at IS NOT NULL, "
	"(SELECT t.executor FROM actionledger.attempt t WHERE t.action_id = a.action_id AND t.incarnation = $2 AND t.kind = 'external') "
	"FROM actionledger.action a WHERE a.action_id = $1 FOR NO KEY UPDATE",
	2, {INT8OID, INT8OID}
};
static AlStatement extend_attempt = {
	"UPDATE actionledger.attempt SET deadline = $3 WHERE action_id = $1 AND incarnation = $2 AND finished_at IS NULL",
	3, {INT8OID, INT8OID, TIMESTAMPTZOID}
};
static AlStatement extend_action = {
	"UPDATE actionledger.action SET last_sent_at = $2 WHERE action_id = $1", 2, {INT8OID, TIMESTAMPTZOID}
};

/* A claim on its way. */
typedef struct Claim
{
	AlTool	   *tool;
	char	   *executor;		/* the caller's role */
	int			most;
	int64		token;			/* 0: not taken yet */
	TimestampTz now;
	TimestampTz lease_ends_at;
	AlSpan	   *spans;			/* pauses */
	int			n_spans;
	AlMark	   *marks;
	int			n;
	AlMove	   *moves;			/* of what is due and may not be claimed */
	AlEvent    *events;
	int			n_moves;
	int			n_events;
} Claim;

static AlTool *find_tool(FunctionCallInfo fcinfo, Oid caller);
static void check_home(void);
static bool is_paused(Claim *claim);
static TimestampTz lease_end(const AlTool *tool, Interval *lease, TimestampTz now);
static void warn_of_company(void);
static bool pick_priority(Claim *claim, int priority);
static void consider(Claim *claim, const AlStanding *standing, const char *requested_by);
static void add_mark(Claim *claim, const AlStanding *standing);
static void block(Claim *claim, const AlStanding *standing, const char *code, char *message);
static void write_marks(Claim *claim, int first);
static void put_rows(ReturnSetInfo *result, const Claim *claim);
static AlTool *lock_held(int64 action_id, int64 token, Oid caller, bool *cancelled);

/* claim(tool, max, lease) */
Datum
al_claim(PG_FUNCTION_ARGS)
{
	Oid			caller = GetUserId();
	Claim		claim = {.executor = al_role_name(caller), .now = al_clock_now()};
	AlSession	session;

	PreventCommandIfReadOnly("claim()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	warn_of_company();
	al_session_begin(&session, true);
	claim.tool = find_tool(fcinfo, caller);
	claim.most = PG_ARGISNULL(1) ? 1 : PG_GETARG_INT32(1);
	if (claim.most < 1 || claim.most > MAX_CLAIM)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("cannot claim %d actions", claim.most),
				 errdetail("It is 1 to %d.", MAX_CLAIM),
				 errhint("Claim no more than can be carried out before the lease ends.")));
	claim.lease_ends_at = lease_end(claim.tool, PG_ARGISNULL(2) ? NULL : PG_GETARG_INTERVAL_P(2), claim.now);
	check_home();
	if (is_paused(&claim))
		claim.most = 0;
	claim.n_spans = al_ledger_spans(&claim.spans);
	claim.marks = palloc(MAX_CLAIM * sizeof(AlMark));
	for (int priority = 1; priority >= -1; priority--)
	{
		/* What could not be claimed makes room for others. */
		for (int round = 0; round < MAX_ROUNDS && claim.n < claim.most && pick_priority(&claim, priority); round++)
			;
	}
	put_rows((ReturnSetInfo *) fcinfo->resultinfo, &claim);
	al_session_end(&session);
	al_wakeup_at_commit(claim.lease_ends_at);
	return (Datum) 0;
}

/* heartbeat(action_id, token, lease) */
Datum
al_heartbeat(PG_FUNCTION_ARGS)
{
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	int64		action_id = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0);
	int64		token = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	TimestampTz ends_at;
	bool		cancelled;
	TupleDesc	descriptor;
	Datum		values[3];
	bool		nulls[2] = {0};
	Datum		ids[1];
	AlTool	   *tool;
	AlSession	session;

	PreventCommandIfReadOnly("heartbeat()");
	al_session_begin(&session, true);
	al_registry_refresh();
	tool = lock_held(action_id, token, caller, &cancelled);
	ends_at = lease_end(tool, PG_ARGISNULL(2) ? NULL : PG_GETARG_INTERVAL_P(2), now);
	values[0] = Int64GetDatum(action_id);
	values[1] = Int64GetDatum(token);
	values[2] = TimestampTzGetDatum(ends_at);
	(void) al_statement_run(&extend_attempt, values, NULL);
	values[1] = TimestampTzGetDatum(now);
	(void) al_statement_run(&extend_action, values, NULL);
	ids[0] = Int64GetDatum(action_id);
	values[0] = PointerGetDatum(construct_array(ids, 1, INT8OID, 8, true, TYPALIGN_DOUBLE));
	values[1] = TimestampTzGetDatum(TimestampTzPlusMilliseconds(ends_at, tool->def->max_processing_ms));
	(void) al_statement_run(&schedule_sweep, values, NULL);
	al_session_end(&session);
	al_wakeup_at_commit(ends_at);

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = TimestampTzGetDatum(ends_at);
	values[1] = BoolGetDatum(cancelled);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* Finds the tool to claim from, which must be an external one that the caller looks after. */
static AlTool *
find_tool(FunctionCallInfo fcinfo, Oid caller)
{
	char	   *name = PG_ARGISNULL(0) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(0));
	AlTool	   *tool;

	al_registry_refresh();
	tool = al_registry_tool(name);
	if (tool == NULL)
		al_refuse(al_validate_no_tool(name, caller));
	if (!al_role_is(caller, tool->def->owner) && !al_is_operator(caller))
		ereport(ERROR,
				(errcode(AL_ERR_FORBIDDEN),
				 errmsg("role \"%s\" may not claim actions of \"%s\"", al_role_name(caller), tool->name),
				 errdetail("Members of the tool's owner%s%s, and operators, may.", tool->def->owner ? ", role " : "",
						   tool->def->owner ? tool->def->owner : ", which has none"),
				 errhint("Ask an administrator to make the executor's role the owner of the tool, or a member of it.")));
	if (!tool->def->external)
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("actions of \"%s\" are sent by the ledger itself", tool->name),
				 errdetail("The tool's transport is not external."),
				 errhint("For outside executors, define a tool with the option \"transport\": \"external\".")));
	return tool;
}

/* Refuses where nothing may be sent from, for the same reasons as a dispatcher does. */
static void
check_home(void)
{
	pg_uuid_t	namespace_id;
	char	   *fenced = al_fence_check(&namespace_id);
	const char *refusal = al_gate_refusal();

	if (refusal == NULL)
		refusal = al_gate_table_refusal();
	if (fenced != NULL)
		ereport(ERROR,
				(errcode(AL_ERR_UNAVAILABLE),
				 errmsg("nothing may be carried out from this database: it looks like a copy"),
				 errdetail("%s.", fenced),
				 errhint("An operator decides with actionledger.resume_dispatch().")));
	if (refusal != NULL)
		ereport(ERROR,
				(errcode(AL_ERR_UNAVAILABLE),
				 errmsg("nothing may be carried out from this server now"),
				 errdetail("%s.", refusal),
				 errhint("Mend that first; see the view actionledger.workers.")));
}

/* Tells whether somebody has paused the tool, or is about to. */
static bool
is_paused(Claim *claim)
{
	if (!al_pause_share(AL_PAUSE_ALL) || !al_pause_share(claim->tool->service->service_id))
		return true;
	al_registry_refresh();
	claim->tool = al_registry_tool_by_id(claim->tool->tool_id);
	return claim->tool->dropped || (claim->tool->pause != NULL && claim->tool->pause->sends);
}

/* Computes the end of a lease, which is the tool's timeout unless a shorter one is asked for. */
static TimestampTz
lease_end(const AlTool *tool, Interval *lease, TimestampTz now)
{
	TimestampTz latest = TimestampTzPlusMilliseconds(now, tool->def->timeout_ms);
	TimestampTz ends_at = lease == NULL ? latest
		: DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now), IntervalPGetDatum(lease)));

	if (ends_at <= now || ends_at > latest)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("the lease is too %s", ends_at <= now ? "short" : "long"),
				 errdetail("It is more than nothing, and at most the timeout of tool \"%s\", %g s.", tool->name,
						   (double) tool->def->timeout_ms / 1000),
				 errhint("Extend it with actionledger.heartbeat() while the work goes on, or alter the tool's timeout.")));
	return ends_at;
}

/* Warns of a claim that a failure of something else would take back. */
static void
warn_of_company(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	ereport(WARNING,
			(errmsg("claim() in a transaction that has written something else"),
			 errdetail("When it rolls back, the claim never was, and the actions are claimed again."),
			 errhint("Claim in a transaction of its own, and act only after its commit.")));
}

/* Claims what is due of one priority; false when there is no more. */
static bool
pick_priority(Claim *claim, int priority)
{
	Datum		values[6] = {
		Int32GetDatum(claim->tool->service->service_id), Int32GetDatum(priority), TimestampTzGetDatum(claim->now),
		Int32GetDatum(claim->tool->tool_id), Int64GetDatum(al_fence_instance()), Int32GetDatum(claim->most - claim->n)
	};
	int			n = (int) al_statement_run(&pick, values, NULL);
	int64	   *ids = palloc(Max(n, 1) * sizeof(int64));
	char	  **requested_by = palloc(Max(n, 1) * sizeof(char *));
	TimestampTz *next_at = palloc(Max(n, 1) * sizeof(TimestampTz));
	int			before = claim->n;
	AlStanding *standing;

	for (int i = 0; i < n; i++)
	{
		ids[i] = al_column_int8(i, 1);
		requested_by[i] = al_column_text(i, 2);
		next_at[i] = al_column_int8(i, 3);
	}
	claim->moves = palloc0(Max(n, 1) * sizeof(AlMove));
	claim->events = palloc0(Max(n, 1) * sizeof(AlEvent));
	claim->n_moves = claim->n_events = 0;
	for (int i = 0; i < n; i++)
	{
		if (al_ledger_lock(&ids[i], 1, &standing) != 1)
			continue;
		al_sweep_give_back(standing, claim->tool, claim->spans, claim->n_spans, next_at[i], claim->now);
		consider(claim, standing, requested_by[i]);
	}
	if (claim->n > before)
		write_marks(claim, before);
	al_ledger_move(claim->moves, claim->n_moves, claim->now);
	al_ledger_event_by(claim->events, claim->n_events, claim->executor);
	return claim->n_moves > 0;
}

/* Decides about one due action: claimed, moved on, or blocked. */
static void
consider(Claim *claim, const AlStanding *standing, const char *requested_by)
{
	AlJudgement judgement = {0};

	if (al_sweep_move_on(standing, claim->tool, claim->now, &judgement))
	{
		claim->moves[claim->n_moves++] = judgement.move;
		if (judgement.has_event)
			claim->events[claim->n_events++] = judgement.event;
	}
	else if (!al_registry_may_perform(claim->tool, get_role_oid(requested_by, true)))
		block(claim, standing, "permission_revoked", psprintf("role %s may no longer perform %s", requested_by, claim->tool->name));
	else
		add_mark(claim, standing);
}

/* Adds the mark of an action that is claimed. */
static void
add_mark(Claim *claim, const AlStanding *standing)
{
	const AlIdempotency *key = claim->tool->idempotency;
	AlMark	   *mark = &claim->marks[claim->n++];

	memset(mark, 0, sizeof(*mark));
	mark->action_id = standing->action_id;
	mark->attempt = standing->attempts + 1;
	mark->deadline = claim->lease_ends_at;
	mark->expires_at = standing->expires_at;
	mark->lookup_ends_at = standing->lookup_ends_at;
	mark->window_ends_at = standing->window_ends_at ? standing->window_ends_at
		: TimestampTzPlusMilliseconds(claim->now, claim->tool->def->window_ms);
	mark->key_ends_at = (standing->key_ends_at || !al_registry_key_counts(claim->tool, standing->key_place)) ? standing->key_ends_at
		: TimestampTzPlusMilliseconds(claim->now, key->window_ms - key->margin_ms);
}

/* Parks an action for a person to mend what keeps it from being carried out. */
static void
block(Claim *claim, const AlStanding *standing, const char *code, char *message)
{
	AlMove	   *move = &claim->moves[claim->n_moves++];
	AlEvent    *event = &claim->events[claim->n_events++];

	move->action_id = event->action_id = standing->action_id;
	move->status = event->status = standing->status;
	move->step = AL_STEP_BLOCKED;
	move->known = standing->known;
	move->next_at = DT_NOEND;
	move->error_code = code;
	move->error_message = event->note = message;
	event->what = "blocked";
}

/* Writes the marks from the first one on, and when their leases are looked at. */
static void
write_marks(Claim *claim, int first)
{
	AlArray		action = al_array_create(INT8OID, claim->n - first);
	AlArray		attempt = al_array_create(INT4OID, claim->n - first);
	Datum		values[4];

	if (claim->token == 0)
	{
		(void) al_statement_run(&take_token, NULL, NULL);
		claim->token = al_column_int8(0, 1);
	}
	al_ledger_mark(claim->marks + first, claim->n - first, -claim->token, claim->now);
	for (int i = first; i < claim->n; i++)
	{
		al_array_set(&action, i - first, Int64GetDatum(claim->marks[i].action_id));
		al_array_set(&attempt, i - first, Int32GetDatum(claim->marks[i].attempt));
	}
	values[0] = al_array_datum(&action);
	values[1] = al_array_datum(&attempt);
	values[2] = CStringGetTextDatum(claim->executor);
	values[3] = Int64GetDatum(claim->token);
	(void) al_statement_run(&name_executor, values, NULL);
	values[1] = TimestampTzGetDatum(TimestampTzPlusMilliseconds(claim->lease_ends_at, claim->tool->def->max_processing_ms));
	(void) al_statement_run(&schedule_sweep, values, NULL);
}

/* Puts what has been claimed into the result. */
static void
put_rows(ReturnSetInfo *result, const Claim *claim)
{
	AlArray		action = al_array_create(INT8OID, claim->n);
	Datum		value;
	uint64		n;

	for (int i = 0; i < claim->n; i++)
		al_array_set(&action, i, Int64GetDatum(claim->marks[i].action_id));
	value = al_array_datum(&action);
	n = al_statement_run(&read_claimed, &value, NULL);
	for (uint64 row = 0; row < n; row++)
	{
		bool		isnull;
		Datum		values[8];
		bool		nulls[8] = {0};

		values[0] = al_column(row, 1, &isnull);
		values[1] = Int64GetDatum(claim->token);
		values[2] = al_column(row, 3, &isnull);
		values[3] = al_column(row, 4, &isnull);
		values[4] = al_column(row, 5, &isnull);
		values[5] = al_column(row, 2, &isnull);
		values[6] = TimestampTzGetDatum(claim->lease_ends_at);
		values[7] = al_column(row, 6, &isnull);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/* Locks an action that an executor has, and checks that it is this one. */
static AlTool *
lock_held(int64 action_id, int64 token, Oid caller, bool *cancelled)
{
	Datum		values[2] = {Int64GetDatum(action_id), Int64GetDatum(token)};
	char	   *executor;
	int64		claimed_by;
	int32		tool_id;

	/* Whoever has claimed it may be the owner of the tool of today, not of when it was recorded. */
	if (al_statement_run(&lock_claim, values, NULL) == 0 ||
		(!al_may_see(caller, al_column_text(0, 1), al_column_text(0, 2)) &&
		 ((executor = al_column_text(0, 6)) == NULL || !al_role_is(caller, executor))))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
				 errhint("See the view actionledger.actions for those that you may see.")));
	claimed_by = al_column_int8(0, 3);
	tool_id = al_column_int4(0, 4);
	*cancelled = al_column_bool(0, 5);
	executor = al_column_text(0, 6);
	if (token <= 0 || claimed_by != -token || executor == NULL)
		ereport(ERROR,
				(errcode(AL_ERR_STALE_TOKEN),
				 errmsg("the claim of action " INT64_FORMAT " with token " INT64_FORMAT " has ended", action_id, token),
				 errdetail("%s", executor == NULL ? "Nobody has claimed this action with it."
						   : claimed_by < 0 ? "Another executor has the action by now."
						   : "Its outcome was reported or decided, or its lease ended too long ago."),
				 errhint("Stop where you are, do not act on it any more, and report what has happened with actionledger.report_outcome().")));
	if (!al_role_is(caller, executor) && !al_is_operator(caller))
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("token " INT64_FORMAT " is another executor's", token),
				 errdetail("Role %s has claimed action " INT64_FORMAT " with it.", executor, action_id),
				 errhint("Claim actions of your own with actionledger.claim().")));
	return al_registry_tool_by_id(tool_id);
}
