/*
 * pause.c
 *		SQL functions that stop and resume sending.
 *
 * They write a row and announce it like a changed tool; what is held is moved
 * out of the way, and back, by the dispatchers.  Each takes the lock of its
 * scope first, so that no turn is under way: the number of requests on their
 * way is exact, and nothing is claimed once the pause has been committed.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "pause.h"
#include "registry.h"
#include "session.h"
#include "visible.h"
#include "wakeup.h"
#include "words.h"

PG_FUNCTION_INFO_V1(al_pause_service);
PG_FUNCTION_INFO_V1(al_pause_tool);
PG_FUNCTION_INFO_V1(al_pause_all);
PG_FUNCTION_INFO_V1(al_resume_service);
PG_FUNCTION_INFO_V1(al_resume_tool);
PG_FUNCTION_INFO_V1(al_resume_all);

/* Beside 1 and 2 of SQL functions, 3 of incarnations, 4 of the clock. */
#define PAUSE_LOCK_CLASS 5

static AlStatement find_service = {
	"SELECT service_id, service_id FROM actionledger.service WHERE name = $1", 1, {TEXTOID}
};
static AlStatement find_tool = {
	"SELECT tool_id, service_id FROM actionledger.tool WHERE name = $1 AND dropped_at IS NULL", 1, {TEXTOID}
};
/* By name, so that the pause of what has been dropped can be lifted too. */
static AlStatement find_open = {
	"SELECT p.scope_id, coalesce((SELECT t.service_id FROM actionledger.tool t WHERE p.scope = 'tool' AND t.tool_id = p.scope_id), p.scope_id) "
	"FROM actionledger.pause p WHERE p.resumed_at IS NULL AND p.scope = $1 AND p.name IS NOT DISTINCT FROM $2",
	2, {TEXTOID, TEXTOID}
};
static AlStatement end_open = {
	"UPDATE actionledger.pause SET resumed_by = $3, resumed_at = greatest($4, paused_at), resume_reason = $5 "
	"WHERE resumed_at IS NULL AND scope = $1 AND scope_id = $2 RETURNING what",
	5, {TEXTOID, INT4OID, TEXTOID, TIMESTAMPTZOID, TEXTOID}
};
static AlStatement insert_pause = {
	"INSERT INTO actionledger.pause (scope, scope_id, name, what, reason, paused_by, paused_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
	7, {TEXTOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID}
};
static AlStatement count_scope = {
	"SELECT count(*) FILTER (WHERE x.waits), count(*) FILTER (WHERE a.claimed_by IS NOT NULL), "
	"min(a.key_ends_at) FILTER (WHERE x.waits AND a.known IN ('in_progress', 'unknown', 'unknown_ended')) "
	"FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id) "
	"LEFT JOIN actionledger._paused p ON p.tool_id = a.tool_id, "
	"LATERAL (SELECT a.claimed_by IS NULL AND CASE WHEN $3 THEN a.next_step IN ('send', 'resend', 'lookup') "
	"         ELSE a.next_step IN ('send', 'resend') AND t.action_type <> 'read_only' END "
	"         AND $4 = coalesce(CASE a.next_step WHEN 'lookup' THEN p.lookups ELSE p.sends END, false) AS waits) x "
	"WHERE CASE $1 WHEN 'all' THEN true WHEN 'service' THEN t.service_id = $2 ELSE t.tool_id = $2 END",
	4, {TEXTOID, INT4OID, BOOLOID, BOOLOID}
};
static AlStatement other_pauses = {
	"SELECT string_agg(concat_ws(' ', p.scope, p.name), ', ' ORDER BY p.pause_id) FILTER (WHERE x.wider), "
	"string_agg(concat_ws(' ', p.scope, p.name), ', ' ORDER BY p.pause_id) FILTER (WHERE NOT x.wider) "
	"FROM actionledger.pause p LEFT JOIN actionledger.tool t ON p.scope = 'tool' AND t.tool_id = p.scope_id, "
	"LATERAL (SELECT p.scope = 'all' OR (p.scope = 'service' AND p.scope_id = $3 AND $1 = 'tool') AS wider, "
	"                $1 = 'all' OR ($1 = 'service' AND t.service_id = $2) AS narrower) x "
	"WHERE p.resumed_at IS NULL AND NOT (p.scope = $1 AND p.scope_id = $2) AND (x.wider OR x.narrower)",
	3, {TEXTOID, INT4OID, INT4OID}
};

/* What a call is about. */
typedef struct Scope
{
	const char *kind;			/* all, service, tool */
	char	   *name;			/* NULL for all */
	int32		id;
	int32		service_id;		/* whose lock is taken */
} Scope;

static Datum pause_scope(FunctionCallInfo fcinfo, const char *kind);
static Datum resume_scope(FunctionCallInfo fcinfo, const char *kind);
static char *needed_text(FunctionCallInfo fcinfo, int argument, const char *verb, const char *what);
static bool reads_too(FunctionCallInfo fcinfo, int argument);
static bool find_scope(Scope *scope, AlStatement *by_name);
static bool find_open_scope(Scope *scope);
static AL_NORETURN void no_such_scope(const Scope *scope);
static void lock_scope(const Scope *scope);
static LOCKTAG pause_tag(int32 service_id);
static bool end_pause(const Scope *scope, const char *who, TimestampTz now, const char *reason, bool *everything);
static char *state_after(const Scope *scope);
static Datum scope_row(FunctionCallInfo fcinfo, const Scope *scope, const char *state, bool everything, bool paused);

/* pause_service(name, reason, what) */
Datum
al_pause_service(PG_FUNCTION_ARGS)
{
	return pause_scope(fcinfo, "service");
}

/* pause_tool(name, reason, what) */
Datum
al_pause_tool(PG_FUNCTION_ARGS)
{
	return pause_scope(fcinfo, "tool");
}

/* pause_all(reason, what) */
Datum
al_pause_all(PG_FUNCTION_ARGS)
{
	return pause_scope(fcinfo, "all");
}

/* resume_service(name, reason) */
Datum
al_resume_service(PG_FUNCTION_ARGS)
{
	return resume_scope(fcinfo, "service");
}

/* resume_tool(name, reason) */
Datum
al_resume_tool(PG_FUNCTION_ARGS)
{
	return resume_scope(fcinfo, "tool");
}

/* resume_all(reason) */
Datum
al_resume_all(PG_FUNCTION_ARGS)
{
	return resume_scope(fcinfo, "all");
}

/* Shares the lock of a service without waiting. */
bool
al_pause_share(int32 service_id)
{
	LOCKTAG		tag = pause_tag(service_id);

	return LockAcquire(&tag, ShareLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* Names what a pause is about. */
char *
al_pause_subject(const char *scope, const char *name)
{
	return strcmp(scope, "all") == 0 ? pstrdup("sending") : psprintf("%s %s", scope, name);
}

/* Pauses a service, a tool or everything, or changes the pause that there is. */
static Datum
pause_scope(FunctionCallInfo fcinfo, const char *kind)
{
	bool		all = strcmp(kind, "all") == 0;
	Scope		scope = {.kind = kind, .name = all ? NULL : needed_text(fcinfo, 0, "pause", kind)};
	char	   *reason = needed_text(fcinfo, all ? 0 : 1, "pause", "reason");
	bool		everything = reads_too(fcinfo, all ? 1 : 2);
	char	   *who = al_role_name(GetUserId());
	TimestampTz now;
	AlSession	session;
	bool		had;
	Datum		values[7];
	char		nulls[8] = "       ";
	Datum		row;

	al_session_begin(&session, true);
	if (!all && !find_scope(&scope, strcmp(kind, "tool") == 0 ? &find_tool : &find_service))
		no_such_scope(&scope);
	lock_scope(&scope);
	now = al_clock_now();
	(void) end_pause(&scope, who, now, "replaced", &had);
	values[0] = CStringGetTextDatum(kind);
	values[1] = Int32GetDatum(scope.id);
	values[2] = scope.name ? CStringGetTextDatum(scope.name) : (Datum) 0;
	nulls[2] = scope.name ? ' ' : 'n';
	values[3] = CStringGetTextDatum(everything ? "everything" : "writes");
	values[4] = CStringGetTextDatum(reason);
	values[5] = CStringGetTextDatum(who);
	values[6] = TimestampTzGetDatum(now);
	(void) al_statement_run(&insert_pause, values, nulls);
	row = scope_row(fcinfo, &scope, "paused", everything, true);
	al_registry_changed();
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return row;
}

/* Lifts the pause of a service, a tool or everything. */
static Datum
resume_scope(FunctionCallInfo fcinfo, const char *kind)
{
	bool		all = strcmp(kind, "all") == 0;
	Scope		scope = {.kind = kind, .name = all ? NULL : needed_text(fcinfo, 0, "resume", kind)};
	char	   *reason = needed_text(fcinfo, all ? 0 : 1, "resume", "reason");
	char	   *who = al_role_name(GetUserId());
	bool		everything = false;
	AlSession	session;
	char	   *state;
	Datum		row;

	al_session_begin(&session, true);
	if (find_open_scope(&scope))
		lock_scope(&scope);
	if (!end_pause(&scope, who, al_clock_now(), reason, &everything))
	{
		if (!all && !find_scope(&scope, strcmp(kind, "tool") == 0 ? &find_tool : &find_service))
			no_such_scope(&scope);
		state = state_after(&scope);
		ereport(ERROR,
				(errcode(AL_ERR_STATE_CHANGED),
				 errmsg("there is no pause of %s", all ? "everything" : al_pause_subject(kind, scope.name)),
				 errdetail("Its state is: %s.", state),
				 errhint("See the view actionledger.pauses for what is, and lift that.")));
	}
	state = state_after(&scope);
	row = scope_row(fcinfo, &scope, state, everything, false);
	al_registry_changed();
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return row;
}

/* Reads a text argument that must say something. */
static char *
needed_text(FunctionCallInfo fcinfo, int argument, const char *verb, const char *what)
{
	if (PG_ARGISNULL(argument) || VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(argument)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s needs a %s", verb, what),
				 errdetail("The %s is empty. Nothing was changed.", what),
				 errhint("Say %s.", strcmp(what, "reason") == 0 ? "why: it is what others will read" : "which one")));
	return text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

/* Reads what a pause is to hold: true for everything. */
static bool
reads_too(FunctionCallInfo fcinfo, int argument)
{
	char	   *what = PG_ARGISNULL(argument) ? pstrdup("writes") : text_to_cstring(PG_GETARG_TEXT_PP(argument));

	if (strcmp(what, "everything") == 0)
		return true;
	if (strcmp(what, "writes") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot pause \"%s\"", al_visible(what)),
				 errdetail("It is 'writes' (sends of all tools but the read_only ones) or 'everything' (lookups and reads too)."),
				 errhint("While only writes are paused, lookups go on to settle what was sent.")));
	return false;
}

/* Finds a service or tool by its name. */
static bool
find_scope(Scope *scope, AlStatement *by_name)
{
	Datum		value = CStringGetTextDatum(scope->name);

	if (al_statement_run(by_name, &value, NULL) == 0)
		return false;
	scope->id = al_column_int4(0, 1);
	scope->service_id = al_column_int4(0, 2);
	return true;
}

/* Finds what an open pause is about. */
static bool
find_open_scope(Scope *scope)
{
	Datum		values[2] = {CStringGetTextDatum(scope->kind), scope->name ? CStringGetTextDatum(scope->name) : (Datum) 0};

	if (al_statement_run(&find_open, values, scope->name ? NULL : " n") == 0)
		return false;
	scope->id = al_column_int4(0, 1);
	scope->service_id = al_column_int4(0, 2);
	return true;
}

/* Raises for what is not there. */
static void
no_such_scope(const Scope *scope)
{
	bool		tool = strcmp(scope->kind, "tool") == 0;

	ereport(ERROR,
			(errcode(tool ? AL_ERR_UNKNOWN_TOOL : AL_ERR_INVALID_DEFINITION),
			 errmsg("there is no %s \"%s\"", scope->kind, al_visible(scope->name)),
			 errdetail("No %s of that name is defined, or it was dropped.", scope->kind),
			 errhint("See actionledger.%ss.", scope->kind)));
}

/* Waits until no turn claims from the scope, and keeps it so until the end of the transaction. */
static void
lock_scope(const Scope *scope)
{
	LOCKTAG		tag = pause_tag(scope->service_id);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* Makes the tag of a service's lock. */
static LOCKTAG
pause_tag(int32 service_id)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, (uint32) service_id, PAUSE_LOCK_CLASS);
	return tag;
}

/* Ends the open pause of a scope; false when there is none. */
static bool
end_pause(const Scope *scope, const char *who, TimestampTz now, const char *reason, bool *everything)
{
	Datum		values[5] = {
		CStringGetTextDatum(scope->kind), Int32GetDatum(scope->id), CStringGetTextDatum(who), TimestampTzGetDatum(now),
		CStringGetTextDatum(reason)
	};

	if (al_statement_run(&end_open, values, NULL) == 0)
		return false;
	*everything = strcmp(al_column_text(0, 1), "everything") == 0;
	return true;
}

/* Says what is left of other pauses. */
static char *
state_after(const Scope *scope)
{
	Datum		values[3] = {CStringGetTextDatum(scope->kind), Int32GetDatum(scope->id), Int32GetDatum(scope->service_id)};
	char	   *wider;
	char	   *narrower;

	(void) al_statement_run(&other_pauses, values, NULL);
	wider = al_column_text(0, 1);
	narrower = al_column_text(0, 2);
	if (wider != NULL)
		return psprintf("paused still, with %s", wider);
	return narrower ? psprintf("running, except %s", narrower) : pstrdup("running");
}

/* Makes the row that is returned: what waits is what is held now, or goes out now. */
static Datum
scope_row(FunctionCallInfo fcinfo, const Scope *scope, const char *state, bool everything, bool paused)
{
	Datum		values[6] = {CStringGetTextDatum(scope->kind), Int32GetDatum(scope->id), BoolGetDatum(everything), BoolGetDatum(paused)};
	bool		nulls[6] = {0};
	TupleDesc	descriptor;
	int64		waiting;
	int64		in_flight;
	TimestampTz expires;

	(void) al_statement_run(&count_scope, values, NULL);
	waiting = al_column_int8(0, 1);
	in_flight = al_column_int8(0, 2);
	expires = al_column_int8(0, 3);
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (scope->name != NULL)
		values[1] = CStringGetTextDatum(scope->name);
	nulls[1] = scope->name == NULL;
	values[2] = CStringGetTextDatum(state);
	values[3] = Int64GetDatum(waiting);
	values[4] = Int64GetDatum(in_flight);
	values[5] = TimestampTzGetDatum(expires);
	nulls[5] = expires == 0;
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}
