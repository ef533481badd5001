/*
 * define.c
 *		SQL functions that define services and tools.
 *
 * Each reads the definition with the same code that later uses it, so what is
 * accepted here is understood there, and then writes its row.  Who may call
 * them is decided by EXECUTE privileges.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "check.h"
#include "databases.h"
#include "define.h"
#include "definition.h"
#include "errors.h"
#include "fence.h"
#include "lookup.h"
#include "readiness.h"
#include "registry.h"
#include "render.h"
#include "roster.h"
#include "schema.h"
#include "session.h"
#include "settings.h"
#include "tool_lock.h"
#include "visible.h"
#include "wakeup.h"

PG_FUNCTION_INFO_V1(al_create_service);
PG_FUNCTION_INFO_V1(al_alter_service);
PG_FUNCTION_INFO_V1(al_drop_service);
PG_FUNCTION_INFO_V1(al_create_tool);
PG_FUNCTION_INFO_V1(al_alter_tool);
PG_FUNCTION_INFO_V1(al_drop_tool);

static AlStatement insert_service = {
	"INSERT INTO actionledger.service (name, base_url, options, created_by) VALUES ($1, $2, $3, $4) "
	"ON CONFLICT (name) DO NOTHING RETURNING service_id",
	4, {TEXTOID, TEXTOID, JSONBOID, TEXTOID}
};
static AlStatement update_service = {
	"UPDATE actionledger.service SET base_url = $2, options = $3, altered_at = clock_timestamp() "
	"WHERE name = $1 RETURNING service_id",
	3, {TEXTOID, TEXTOID, JSONBOID}
};
static AlStatement select_service = {
	"SELECT service_id, base_url, options FROM actionledger.service WHERE name = $1 FOR UPDATE", 1, {TEXTOID}
};
static AlStatement count_by_place = {
	"SELECT split_part(a.url, '/', 1) || '//' || split_part(a.url, '/', 3) AS place, count(*) "
	"FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.service s ON s.service_id = d.service_id "
	"WHERE s.name = $1 AND NOT d.external AND a.next_step <> 'review' GROUP BY 1 ORDER BY 1",
	1, {TEXTOID}
};
static AlStatement select_tools_of_service = {
	"SELECT t.tool_id FROM actionledger.tool t JOIN actionledger.service s USING (service_id) "
	"WHERE s.name = $1 AND t.dropped_at IS NULL",
	1, {TEXTOID}
};
static AlStatement delete_unused_tools = {
	"DELETE FROM actionledger.tool t USING actionledger.service s WHERE t.service_id = s.service_id AND s.name = $1 "
	"AND t.dropped_at IS NOT NULL AND NOT EXISTS (SELECT FROM actionledger.action a WHERE a.tool_id = t.tool_id)",
	1, {TEXTOID}
};
static AlStatement find_history = {
	"SELECT 1 FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = $1 LIMIT 1", 1, {TEXTOID}
};
static AlStatement delete_service = {
	"DELETE FROM actionledger.service s WHERE s.name = $1 "
	"AND NOT EXISTS (SELECT FROM actionledger.tool t WHERE t.service_id = s.service_id)",
	1, {TEXTOID}
};
static AlStatement insert_tool = {
	"INSERT INTO actionledger.tool (name, service_id, request, action_type, identity, input, options, created_by) "
	"SELECT $1, s.service_id, $3, $4::actionledger.action_type, $5, $6, $7, $8 FROM actionledger.service s WHERE s.name = $2 "
	"ON CONFLICT (name) WHERE dropped_at IS NULL DO NOTHING RETURNING tool_id",
	8, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID, TEXTOID}
};
static AlStatement update_tool = {
	"WITH old AS (SELECT o.tool_id, o.service_id, o.action_type, o.options FROM actionledger.tool o WHERE o.name = $1 AND o.dropped_at IS NULL FOR UPDATE) "
	"UPDATE actionledger.tool t SET service_id = s.service_id, request = $3, action_type = $4::actionledger.action_type, "
	"identity = $5, input = $6, options = $7, altered_at = clock_timestamp() "
	"FROM old, actionledger.service s WHERE t.tool_id = old.tool_id AND s.name = $2 "
	"RETURNING t.tool_id, old.service_id <> t.service_id, (old.options ->> 'transport') IS DISTINCT FROM (t.options ->> 'transport'), old.action_type > t.action_type",
	7, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID}
};
static AlStatement select_tool = {
	"SELECT t.tool_id, s.name, t.request, t.action_type::text, t.identity, t.input, t.options "
	"FROM actionledger.tool t JOIN actionledger.service s USING (service_id) "
	"WHERE t.name = $1 AND t.dropped_at IS NULL FOR UPDATE OF t",
	1, {TEXTOID}
};
static AlStatement count_live = {
	"SELECT count(*) FROM actionledger.due d JOIN actionledger.action a USING (action_id) WHERE a.tool_id = $1",
	1, {INT4OID}
};
static AlStatement find_action = {
	"SELECT 1 FROM actionledger.action WHERE tool_id = $1 LIMIT 1", 1, {INT4OID}
};
static AlStatement count_other_transport = {
	"SELECT count(*) FROM actionledger.due d JOIN actionledger.action a USING (action_id) WHERE a.tool_id = $1 AND (a.method = '" AL_EXTERNAL "') <> $2",
	2, {INT4OID, BOOLOID}
};
static AlStatement drop_tool_row = {
	"UPDATE actionledger.tool SET dropped_at = clock_timestamp() WHERE tool_id = $1", 1, {INT4OID}
};
static AlStatement block_live = {
	"WITH live AS ("
	"  SELECT a.action_id FROM actionledger.due d JOIN actionledger.action a USING (action_id) "
	"  WHERE a.tool_id = $1 AND a.next_step IN ('send', 'resend', 'approve') FOR UPDATE OF a), "
	"blocked AS ("
	"  UPDATE actionledger.action a SET next_step = 'blocked', error_code = 'tool_dropped', "
	"    error_message = 'the tool was dropped' FROM live WHERE a.action_id = live.action_id RETURNING a.action_id, a.status), "
	"parked AS (UPDATE actionledger.due d SET next_at = 'infinity', held_at = NULL FROM blocked b WHERE d.action_id = b.action_id) "
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note) "
	"SELECT action_id, 'blocked', status, $2, 'the tool was dropped' FROM blocked",
	2, {INT4OID, TEXTOID}
};

static void check_name(const char *name, const char *what);
static void write_service(const char *name, const char *base_url, Jsonb *options, bool replace);
static char *write_tool(const char *name, const char *service, const char *request, const char *type,
						const char *identity, Jsonb *input, Jsonb *options, bool replace);
static void check_tool(AlTool *tool);
static void check_changed(int32 tool_id, const char *name, bool service, bool transport, bool bolder);
static void check_transport(const AlTool *tool);
static char *check_tools_of_service(const char *service);
static void warn_of_stranded(const char *service, const char *origin);
static char *readiness(const char *name);
static AL_NORETURN void no_such_tool(const char *name);
static AL_NORETURN void no_such_service(const char *name);

/* create_service(name, base_url, options, replace) */
Datum
al_create_service(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	char	   *base_url = TextDatumGetCString(al_define_argument(fcinfo, 1, "base_url"));
	Jsonb	   *options = DatumGetJsonbP(al_define_argument(fcinfo, 2, "options"));
	bool		replace = DatumGetBool(al_define_argument(fcinfo, 3, "replace"));
	char	   *creator = al_role_name(GetUserId());
	AlSession	session;
	Datum		values[4];
	char	   *told;
	AlServiceDef *def;

	check_name(name, "service");
	def = al_service_parse(name, base_url, options);

	al_session_begin(&session, true);
	values[0] = CStringGetTextDatum(name);
	values[1] = CStringGetTextDatum(base_url);
	values[2] = JsonbPGetDatum(options);
	values[3] = CStringGetTextDatum(creator);
	if (al_statement_run(&insert_service, values, NULL) == 0)
	{
		write_service(name, base_url, options, replace);
		warn_of_stranded(name, def->origin);
	}
	al_registry_changed();
	CommandCounterIncrement();
	al_registry_refresh();
	told = check_tools_of_service(name);
	al_fence_settle();
	al_database_enable();
	al_session_end(&session);
	al_wakeup_at_commit(GetCurrentTimestamp());
	PG_RETURN_TEXT_P(cstring_to_text(told));
}

/* alter_service(name, options): a merge patch; base_url is taken out of it */
Datum
al_alter_service(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	Jsonb	   *patch = DatumGetJsonbP(al_define_argument(fcinfo, 1, "options"));
	Datum		value = PG_GETARG_DATUM(0);
	AlSession	session;
	char	   *base_url;
	Jsonb	   *options;
	JsonbValue	found;
	bool		isnull;
	bool		moves = false;
	char	   *told;
	AlServiceDef *def;

	al_session_begin(&session, true);
	if (al_statement_run(&select_service, &value, NULL) == 0)
		no_such_service(name);
	base_url = al_column_text(0, 2);
	options = DatumGetJsonbP(al_column(0, 3, &isnull));
	if (JB_ROOT_IS_OBJECT(patch) &&
		getKeyJsonValueFromContainer(&patch->root, "base_url", 8, &found) != NULL)
	{
		if (found.type != jbvString)
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_DEFINITION),
					 errmsg("base_url of service \"%s\" must be a string", name),
					 errdetail("At \"/base_url\": not a string."),
					 errhint("Give the absolute URL that the paths of its tools follow.")));
		base_url = pnstrdup(found.val.string.val, found.val.string.len);
		moves = true;
		patch = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(patch),
												   CStringGetTextDatum("base_url")));
	}
	options = al_merge_patch(options, patch);
	def = al_service_parse(name, base_url, options);
	write_service(name, base_url, options, true);
	if (moves)
		warn_of_stranded(name, def->origin);
	al_registry_changed();
	CommandCounterIncrement();
	al_registry_refresh();
	told = check_tools_of_service(name);
	al_session_end(&session);
	al_wakeup_at_commit(GetCurrentTimestamp());
	PG_RETURN_TEXT_P(cstring_to_text(told));
}

/* drop_service(name, force) */
Datum
al_drop_service(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	Datum		value = PG_GETARG_DATUM(0);
	AlSession	session;
	bool		used;

	al_session_begin(&session, true);
	if (al_statement_run(&select_service, &value, NULL) == 0)
		no_such_service(name);
	used = al_statement_read_latest(&find_history, &value) > 0;
	if (!used)
	{
		(void) al_statement_run(&delete_unused_tools, &value, NULL);
		used = al_statement_run(&delete_service, &value, NULL) == 0;
	}
	if (used)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg("service \"%s\" is in use", name),
				 errdetail("Tools refer to it, or actions, finished ones included."),
				 errhint("Drop its tools with actionledger.drop_tool(); a service with history is kept, "
						 "since a forgotten identity could be performed again.")));
	al_registry_changed();
	al_session_end(&session);
	PG_RETURN_TEXT_P(cstring_to_text("dropped"));
}

/* create_tool(name, service, request, action_type, identity, input, options, replace) */
Datum
al_create_tool(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	char	   *service = TextDatumGetCString(al_define_argument(fcinfo, 1, "service"));
	char	   *request = TextDatumGetCString(al_define_argument(fcinfo, 2, "request"));
	char	   *type = TextDatumGetCString(al_define_argument(fcinfo, 3, "action_type"));
	char	   *identity = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));
	Jsonb	   *input = DatumGetJsonbP(al_define_argument(fcinfo, 5, "input"));
	Jsonb	   *options = DatumGetJsonbP(al_define_argument(fcinfo, 6, "options"));
	bool		replace = DatumGetBool(al_define_argument(fcinfo, 7, "replace"));

	PG_RETURN_TEXT_P(cstring_to_text(write_tool(name, service, request, type, identity, input, options, replace)));
}

/* alter_tool(name, options): a merge patch */
Datum
al_alter_tool(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	Jsonb	   *patch = DatumGetJsonbP(al_define_argument(fcinfo, 1, "options"));
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext old;
	AlSession	session;
	char	   *service;
	char	   *request;
	char	   *type;
	char	   *identity;
	Jsonb	   *input;
	Jsonb	   *options;
	bool		isnull;

	al_session_begin(&session, true);
	(void) al_define_find_tool(name);
	old = MemoryContextSwitchTo(caller);
	service = al_column_text(0, 2);
	request = al_column_text(0, 3);
	type = al_column_text(0, 4);
	identity = al_column_text(0, 5);
	input = DatumGetJsonbPCopy(al_column(0, 6, &isnull));
	options = al_merge_patch(DatumGetJsonbPCopy(al_column(0, 7, &isnull)), patch);
	MemoryContextSwitchTo(old);
	al_session_end(&session);
	PG_RETURN_TEXT_P(cstring_to_text(write_tool(name, service, request, type, identity, input, options, true)));
}

/* drop_tool(name, force) */
Datum
al_drop_tool(PG_FUNCTION_ARGS)
{
	char	   *name = TextDatumGetCString(al_define_argument(fcinfo, 0, "name"));
	bool		force = DatumGetBool(al_define_argument(fcinfo, 1, "force"));
	char	   *who = al_role_name(GetUserId());
	AlSession	session;
	int32		tool_id;
	int64		live;
	Datum		values[2];

	al_session_begin(&session, true);
	tool_id = al_define_find_tool(name);
	al_tool_lock_exclusive(tool_id, name);
	values[0] = Int32GetDatum(tool_id);
	values[1] = CStringGetTextDatum(who);
	(void) al_statement_read_latest(&count_live, values);
	live = al_column_int8(0, 1);
	if (live > 0 && !force)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg_plural("tool \"%s\" has %d live action", "tool \"%s\" has %d live actions", (unsigned long) live, name, (int) live),
				 errdetail("Live actions are prepared, submitted or need reconciliation."),
				 errhint("Wait for them or decide them; or pass force => true: what is not sent yet is then blocked, never sent.")));
	(void) al_statement_run(&drop_tool_row, values, NULL);
	(void) al_statement_run(&block_live, values, NULL);
	al_registry_changed();
	al_session_end(&session);
	al_wakeup_at_commit(GetCurrentTimestamp());
	PG_RETURN_TEXT_P(cstring_to_text("dropped"));
}

/* Gives an argument of a function, unless it is null. */
Datum
al_define_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("%s must not be null", name),
				 errdetail("At \"/%s\": null. Nothing was changed.", name),
				 errhint("Give it, or leave the argument out where it has a default.")));
	return PG_GETARG_DATUM(number);
}

/* Refuses a name that could not be used everywhere. */
static void
check_name(const char *name, const char *what)
{
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("name of a %s must have 1 to %d bytes", what, NAMEDATALEN - 1),
				 errdetail("At \"/name\": %d bytes.", (int) strlen(name)),
				 errhint("Choose a short name; it is shown in every view.")));
}

/* Changes the row of a service that exists. */
static void
write_service(const char *name, const char *base_url, Jsonb *options, bool replace)
{
	Datum		values[3] = {CStringGetTextDatum(name), CStringGetTextDatum(base_url), JsonbPGetDatum(options)};

	if (!replace)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("service \"%s\" already exists", name),
				 errdetail("A service of that name is defined."),
				 errhint("Use actionledger.alter_service(), or pass replace => true.")));
	(void) al_statement_run(&update_service, values, NULL);
}

/* Makes a tool for another function. */
char *
al_define_tool(const char *name, const char *service, const char *request, const char *type,
			   const char *identity, Jsonb *input, Jsonb *options, bool replace)
{
	return write_tool(name, service, request, type, identity, input, options, replace);
}

/* Checks a tool and writes its row; returns what to tell. */
static char *
write_tool(const char *name, const char *service, const char *request, const char *type,
		   const char *identity, Jsonb *input, Jsonb *options, bool replace)
{
	char	   *creator = al_role_name(GetUserId());
	MemoryContext caller = CurrentMemoryContext;
	AlSession	session;
	AlToolDef  *def;
	char	   *told;
	char		nulls[9] = "        ";
	Datum		values[8];

	check_name(name, "tool");
	al_schema_check(input, true);
	def = al_tool_parse(name, request, type, identity, input, options);
	al_render_check(def);
	if (def->owner != NULL && !OidIsValid(get_role_oid(def->owner, true)))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("owner of tool \"%s\" is not a role", al_visible(name)),
				 errdetail("At \"/owner\": role \"%s\" does not exist.", al_visible(def->owner)),
				 errhint("Create the role, or name the one whose members look after this tool.")));

	al_check_definition(def);
	if (def->approval_by != NULL && !OidIsValid(get_role_oid(def->approval_by, true)))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("approver of tool \"%s\" is not a role", al_visible(name)),
				 errdetail("At \"/approval/by\": role \"%s\" does not exist.", al_visible(def->approval_by)),
				 errhint("Create the role, or name the one whose members approve.")));

	al_session_begin(&session, true);
	values[0] = CStringGetTextDatum(name);
	values[1] = CStringGetTextDatum(service);
	if (al_statement_run(&select_service, &values[1], NULL) == 0)
		no_such_service(service);
	values[2] = CStringGetTextDatum(request);
	values[3] = CStringGetTextDatum(type);
	values[4] = identity ? CStringGetTextDatum(identity) : (Datum) 0;
	nulls[4] = identity ? ' ' : 'n';
	values[5] = JsonbPGetDatum(input);
	values[6] = JsonbPGetDatum(options);
	values[7] = CStringGetTextDatum(creator);
	if (al_statement_run(&insert_tool, values, nulls) == 0)
	{
		if (!replace)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("tool \"%s\" already exists", name),
					 errdetail("A tool of that name is defined."),
					 errhint("Use actionledger.alter_tool(), or pass replace => true.")));
		/* Somebody may have dropped it in between. */
		if (al_statement_run(&update_tool, values, nulls) == 0)
			no_such_tool(name);
		check_changed(al_column_int4(0, 1), name, al_column_bool(0, 2), al_column_bool(0, 3), al_column_bool(0, 4));
	}
	al_registry_changed();
	CommandCounterIncrement();
	al_registry_refresh();
	check_tool(al_registry_tool(name));
	check_transport(al_registry_tool(name));
	told = MemoryContextStrdup(caller, readiness(name));
	al_session_end(&session);
	al_wakeup_at_commit(GetCurrentTimestamp());
	return told;
}

/* Checks what only a tool and its service together show. */
static void
check_tool(AlTool *tool)
{
	if (tool != NULL)
		al_render_check_key(tool->def, tool->idempotency);
}

/*
 * Refuses what would make of a tool's actions something else: another service,
 * or a bolder type, by which what was sent might be sent again.  The transport is
 * checked later, when those that are being recorded are there.
 */
static void
check_changed(int32 tool_id, const char *name, bool service, bool transport, bool bolder)
{
	Datum		value = Int32GetDatum(tool_id);

	if (service || transport || bolder)
		al_tool_lock_exclusive(tool_id, name);
	if (service && al_statement_read_latest(&find_action, &value) > 0)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg("tool \"%s\" cannot go to another service", al_visible(name)),
				 errdetail("It has actions, whose identities are names at the service where they were recorded: at another one the same could be performed again."),
				 errhint("Define a tool of another name there; or drop this one first, and mind that what it has done is not known to the new one.")));
	if (!bolder)
		return;
	(void) al_statement_read_latest(&count_live, &value);
	if (al_column_int8(0, 1) > 0)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg("the action_type of tool \"%s\" cannot become less cautious now", al_visible(name)),
				 errdetail(INT64_FORMAT " of its actions are live. Their requests were made under the other type, and could be sent twice under this one.", al_column_int8(0, 1)),
				 errhint("Wait until they have come to rest, or decide them; or define another tool.")));
}

/* Refuses to leave live actions with nobody to carry them out. */
static void
check_transport(const AlTool *tool)
{
	Datum		values[2] = {Int32GetDatum(tool->tool_id), BoolGetDatum(tool->def->external)};

	(void) al_statement_read_latest(&count_other_transport, values);
	if (al_column_int8(0, 1) > 0)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg("the transport of tool \"%s\" cannot change now", tool->name),
				 errdetail(INT64_FORMAT " of its actions are live and were prepared for the other one.", al_column_int8(0, 1)),
				 errhint("Wait until they have come to rest, or cancel them; or define another tool.")));
}

/* Warns of live actions that were made for another place than the service is at now. */
static void
warn_of_stranded(const char *service, const char *origin)
{
	Datum		value = CStringGetTextDatum(service);
	int			n = (int) al_statement_run(&count_by_place, &value, NULL);

	for (int i = 0; i < n; i++)
	{
		char	   *place = al_column_text(i, 1);

		if (!al_lookup_same_origin(place, origin))
			ereport(WARNING,
					(errmsg("service \"%s\" has moved, and " INT64_FORMAT " of its live actions stay with %s", service, al_column_int8(i, 2), place),
					 errdetail("Their requests were made for it. They go nowhere else, and are blocked (foreign_origin) when they are due."),
					 errhint("To have them sent, alter base_url back; else cancel them, and call actionledger.supersede() for new ones.")));
	}
}

/* Checks the tools of a service that has changed; says which of them are not ready, in the caller's memory. */
static char *
check_tools_of_service(const char *service)
{
	Datum		value = CStringGetTextDatum(service);
	uint64		n = al_statement_run(&select_tools_of_service, &value, NULL);
	int32	   *numbers = palloc(Max(n, 1) * sizeof(int32));
	StringInfoData waiting;

	for (uint64 i = 0; i < n; i++)
		numbers[i] = al_column_int4(i, 1);
	initStringInfo(&waiting);
	for (uint64 i = 0; i < n; i++)
	{
		AlTool	   *tool = al_registry_tool_by_id(numbers[i]);

		check_tool(tool);
		if (tool != NULL && al_readiness_gate(tool) != NULL)
			appendStringInfo(&waiting, "%s%s", waiting.len > 0 ? ", " : "", tool->name);
	}
	if (waiting.len == 0)
		return "ready";
	return psprintf("ready; every action of these tools will wait for approval: %s (see actionledger.readiness)", waiting.data);
}

/* Says in a line what a new tool lacks. */
static char *
readiness(const char *name)
{
	AlTool	   *tool = al_registry_tool(name);
	char	   *missing = tool ? al_readiness_gate(tool) : NULL;

	if (missing != NULL)
		return psprintf("every action will wait for approval: %s", missing);
	if (tool == NULL || tool->def->lookup != NULL || al_registry_resendable(tool, al_registry_key_place(tool)))
		return "ready";
	if (tool->def->type == AL_TYPE_IRREVERSIBLE)
		return "ready; an unknown outcome is never sent again and waits for a person: irreversible";
	return "ready; an unknown outcome is never sent again and waits for a person: no idempotency declared";
}

/* Finds and locks a tool's row, leaving it as the result row. */
int32
al_define_find_tool(const char *name)
{
	Datum		value = CStringGetTextDatum(name);

	if (al_statement_run(&select_tool, &value, NULL) == 0)
		no_such_tool(name);
	return al_column_int4(0, 1);
}

/* Raises for a tool that is not there. */
static void
no_such_tool(const char *name)
{
	ereport(ERROR,
			(errcode(AL_ERR_UNKNOWN_TOOL),
			 errmsg("there is no tool \"%s\"", al_visible(name)),
			 errdetail("No tool of that name is defined, or it was dropped."),
			 errhint("See actionledger.tools.")));
}

/* Raises for a service that is not there. */
static void
no_such_service(const char *name)
{
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_DEFINITION),
			 errmsg("there is no service \"%s\"", al_visible(name)),
			 errdetail("At \"/service\": no service of that name is defined."),
			 errhint("Define it first with actionledger.create_service(); see actionledger.services.")));
}
