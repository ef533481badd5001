/*
 * grant.c
 *		SQL functions that say which roles may perform a tool.
 *
 * The privilege is looked at by perform() and again before every send.  Who may
 * call these functions is decided by EXECUTE privileges.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "define.h"
#include "registry.h"
#include "session.h"
#include "visible.h"
#include "wakeup.h"

PG_FUNCTION_INFO_V1(al_grant_tool);
PG_FUNCTION_INFO_V1(al_revoke_tool);

static AlStatement insert_grant = {
	"INSERT INTO actionledger.tool_grant (tool_id, role, granted_by) "
	"SELECT tool_id, $2, $3 FROM actionledger.tool WHERE name = $1 AND dropped_at IS NULL "
	"ON CONFLICT (tool_id, role) DO NOTHING",
	3, {TEXTOID, TEXTOID, TEXTOID}
};
static AlStatement delete_grant = {
	"DELETE FROM actionledger.tool_grant g USING actionledger.tool t "
	"WHERE t.tool_id = g.tool_id AND t.name = $1 AND t.dropped_at IS NULL AND g.role = $2",
	2, {TEXTOID, TEXTOID}
};

/* grant_tool(tool, role) */
Datum
al_grant_tool(PG_FUNCTION_ARGS)
{
	Datum		tool = al_define_argument(fcinfo, 0, "tool");
	char	   *role = TextDatumGetCString(al_define_argument(fcinfo, 1, "role"));
	char	   *who = al_role_name(GetUserId());
	AlSession	session;
	Datum		values[3] = {tool, PG_GETARG_DATUM(1), CStringGetTextDatum(who)};

	if (!OidIsValid(get_role_oid(role, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist", al_visible(role)),
				 errdetail("A tool is granted to a role, which with its members may perform it."),
				 errhint("Create it first, or see pg_roles for the name.")));
	al_session_begin(&session, true);
	(void) al_define_find_tool(TextDatumGetCString(values[0]));
	(void) al_statement_run(&insert_grant, values, NULL);
	al_registry_changed();
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOEND);
	PG_RETURN_TEXT_P(cstring_to_text("granted"));
}

/* revoke_tool(tool, role) */
Datum
al_revoke_tool(PG_FUNCTION_ARGS)
{
	AlSession	session;
	Datum		values[2] = {al_define_argument(fcinfo, 0, "tool"), al_define_argument(fcinfo, 1, "role")};
	uint64		n;

	al_session_begin(&session, true);
	(void) al_define_find_tool(TextDatumGetCString(values[0]));
	n = al_statement_run(&delete_grant, values, NULL);
	al_registry_changed();
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOEND);
	PG_RETURN_TEXT_P(cstring_to_text(n > 0 ? "revoked" : "there was no such grant"));
}
