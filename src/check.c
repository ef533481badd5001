/*
 * check.c
 *		Running the application's own checks.
 *
 * A check is user code: it runs with the rights of who proposes, never with
 * those of the extension's owner.  A superuser who proposes does not lend his
 * to a function that anybody else could have written: that one runs as its
 * owner, restricted as PostgreSQL restricts what maintenance runs.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_proc_d.h"
#endif

#include "authority.h"
#include "check.h"
#include "json_write.h"

#define CODE_MAX 63
#define MESSAGE_MAX 500

static Oid	find_function(const char *name, bool *qualified);
static Oid	owner_of(Oid function);
static Jsonb *call_as_caller(Oid function, const char *name, const AlProposal *proposal, const char *identity);
static Jsonb *call(Oid function, const AlProposal *proposal, const char *identity);
static void check_may_execute(Oid function, const char *name);
static void name_check(void *arg);
static Jsonb *context_of(const AlProposal *proposal, const char *identity);
static bool read_answer(Jsonb *said, AlCheckAnswer *answer);

/* Checks the definition of a check. */
void
al_check_definition(const AlToolDef *def)
{
	AlPlace		place = {"tool", def->name, "/check_function"};
	const char *hint = "Name a function check(args jsonb, context jsonb) returns jsonb as schema.function; its schema is not searched for.";
	bool		qualified;
	Oid			function;

	if (def->check_function == NULL)
		return;
	function = find_function(def->check_function, &qualified);
	if (!qualified)
		al_definition_error(place, hint, "\"%s\" is not the name of a function with its schema", def->check_function);
	if (!OidIsValid(function))
		al_definition_error(place, hint, "there is no function %s(jsonb, jsonb)", def->check_function);
	if (get_func_rettype(function) != JSONBOID || get_func_retset(function) || get_func_prokind(function) != PROKIND_FUNCTION)
		al_definition_error(place, hint, "%s(jsonb, jsonb) is not a function that returns jsonb", def->check_function);
}

/* Runs a tool's check. */
AlRefusal *
al_check_run(const AlProposal *proposal, const char *identity, AlSession *session, AlCheckAnswer *answer)
{
	const AlTool *tool = proposal->tool;
	const char *name = tool->def->check_function;
	bool		qualified;
	bool		understood = false;
	Oid			function;

	memset(answer, 0, sizeof(*answer));
	al_session_suspend(session);
	function = find_function(name, &qualified);
	if (OidIsValid(function) && get_func_rettype(function) == JSONBOID && !get_func_retset(function))
		understood = read_answer(call_as_caller(function, name, proposal, identity), answer);
	else
		function = InvalidOid;
	al_session_resume(session);

	if (!OidIsValid(function))
		return al_refusal_make(AL_ERR_INVALID_DEFINITION, psprintf("\"%s\" cannot be checked", tool->name),
							   psprintf("Its check, %s(jsonb, jsonb) returning jsonb, is not there. Nothing was recorded.", name),
							   pstrdup("Tell who looks after the tool: the function has to be made again, or another one named with actionledger.alter_tool()."), NIL);
	if (!understood)
		return al_refusal_make(AL_ERR_INVALID_DEFINITION, psprintf("the check of \"%s\" gave an answer that means nothing", tool->name),
							   psprintf("%s returned neither null nor {\"code\": ..., \"message\": ...}. Nothing was recorded.", name),
							   pstrdup("Tell who looks after the tool; the function has to be mended."), NIL);
	return NULL;
}

/* Makes a refusal of what a check said. */
AlRefusal *
al_check_refusal(const AlTool *tool, const AlCheckAnswer *answer)
{
	return al_refusal_make(AL_ERR_CHECK_REFUSED, psprintf("\"%s\" was refused: %s", tool->name, answer->message),
						   psprintf("%s, says its check. Nothing was recorded.", answer->code),
						   psprintf("Do not propose it again unchanged. Where a person may allow it, ask with actionledger.request_approval('%s', ..., 'why').",
									tool->name), NIL);
}

/* Finds the function of a name that has its schema; the current user must have USAGE on that. */
static Oid
find_function(const char *name, bool *qualified)
{
	static const Oid types[2] = {JSONBOID, JSONBOID};
	List	   *names;
	List	   *values = NIL;
	ListCell   *cell;

	*qualified = SplitIdentifierString(pstrdup(name), '.', &names) && list_length(names) == 2 &&
		strncmp(linitial(names), "pg_temp", 7) != 0;
	if (!*qualified)
		return InvalidOid;
	foreach(cell, names)
		values = lappend(values, makeString(lfirst(cell)));
	return LookupFuncName(values, 2, types, true);
}

/* Finds the owner of a function. */
static Oid
owner_of(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Calls a check as the current user, or as the function's owner where that lends less. */
static Jsonb *
call_as_caller(Oid function, const char *name, const AlProposal *proposal, const char *identity)
{
	ErrorContextCallback callback = {.previous = error_context_stack, .callback = name_check, .arg = unconstify(char *, name)};
	Oid			owner = owner_of(function);
	Oid			user;
	int			sec_context;
	int			guc_nest_level;
	Jsonb	   *said;

	check_may_execute(function, name);
	error_context_stack = &callback;
	GetUserIdAndSecContext(&user, &sec_context);
	if (superuser_arg(user) && !superuser_arg(owner))
	{
		guc_nest_level = NewGUCNestLevel();
		SetUserIdAndSecContext(owner, sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
		said = call(function, proposal, identity);
		AtEOXact_GUC(false, guc_nest_level);
		SetUserIdAndSecContext(user, sec_context);
	}
	else
		said = call(function, proposal, identity);
	error_context_stack = callback.previous;
	return said;
}

/* Calls a check; NULL for null. */
static Jsonb *
call(Oid function, const AlProposal *proposal, const char *identity)
{
	LOCAL_FCINFO(fcinfo, 2);
	FmgrInfo	flinfo;
	Datum		said;

	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = JsonbPGetDatum(proposal->args);
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = JsonbPGetDatum(context_of(proposal, identity));
	fcinfo->args[1].isnull = false;
	said = FunctionCallInvoke(fcinfo);
	return fcinfo->isnull ? NULL : DatumGetJsonbPCopy(said);
}

/* Refuses a function that the current user may not execute. */
static void
check_may_execute(Oid function, const char *name)
{
	AclResult	result;

#if PG_VERSION_NUM >= 160000
	result = object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE);
#else
	result = pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE);
#endif
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, name);
}

/* Tells where an error comes from. */
static void
name_check(void *arg)
{
	errcontext("business check %s", (const char *) arg);
}

/* Puts together what a check may want to know besides the arguments. */
static Jsonb *
context_of(const AlProposal *proposal, const char *identity)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	al_json_text(&state, "requester", al_role_name(proposal->requester));
	al_json_text(&state, "session_user", al_role_name(proposal->session_user));
	al_json_text(&state, "actor", proposal->actor);
	al_json_text(&state, "run_id", proposal->run_id);
	al_json_text(&state, "identity", identity);
	al_json_text(&state, "tool", proposal->tool->name);
	al_json_text(&state, "service", proposal->tool->service->name);
	if (proposal->has_step)
		al_json_int(&state, "step", proposal->step);
	else
		al_json_text(&state, "step", NULL);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* Reads what a check returned: null, or an object with a code and a message and no more; false for anything else. */
static bool
read_answer(Jsonb *said, AlCheckAnswer *answer)
{
	JsonbValue	root;
	JsonbValue	code;
	JsonbValue	message;

	if (said == NULL)
		return true;
	root = al_option_root(said);
	if (root.type == jbvNull)
		return true;
	if (!al_option_is_object(&root) || JsonContainerSize(&said->root) != 2 ||
		getKeyJsonValueFromContainer(&said->root, "code", 4, &code) == NULL ||
		getKeyJsonValueFromContainer(&said->root, "message", 7, &message) == NULL ||
		code.type != jbvString || message.type != jbvString ||
		code.val.string.len == 0 || code.val.string.len > CODE_MAX || message.val.string.len == 0)
		return false;
	answer->code = pnstrdup(code.val.string.val, code.val.string.len);
	answer->message = pnstrdup(message.val.string.val,
							   pg_mbcliplen(message.val.string.val, message.val.string.len, MESSAGE_MAX));
	return strspn(answer->code, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(answer->code);
}
