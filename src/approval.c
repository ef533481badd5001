/*
 * approval.c
 *		From a tool's policy and an action's arguments to the need for a person.
 *
 * In doubt a person is asked: a condition that cannot be evaluated holds.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/timestamp.h"

#include "approval.h"
#include "readiness.h"

static char *policy_reason(const AlTool *tool, Jsonb *args);
static bool condition_holds(const char *path, Jsonb *args);

/* Finds out whether an action has to be approved. */
AlApprovalNeed
al_approval_need(const AlTool *tool, Jsonb *args, const char *asked_for, TimestampTz now)
{
	AlApprovalNeed need = {.reason = policy_reason(tool, args)};

	if (asked_for != NULL)
		need.reason = pstrdup(asked_for);
	if (need.reason == NULL)
		return need;
	need.by = tool->def->approval_by ? pstrdup(tool->def->approval_by) : NULL;
	need.until = TimestampTzPlusMilliseconds(now, tool->def->approval_expires_ms);
	return need;
}

/* Says who approves. */
char *
al_approval_by_whom(const char *approver, const char *owner)
{
	if (approver != NULL)
		return pstrdup(approver);
	return owner ? psprintf("%s or an operator", owner) : pstrdup("an operator");
}

/* Says why the tool's policy wants a person, NULL when it does not. */
static char *
policy_reason(const AlTool *tool, Jsonb *args)
{
	char	   *missing;

	switch (tool->def->approval)
	{
		case AL_APPROVAL_NEVER:
			return NULL;
		case AL_APPROVAL_BY_READINESS:
			missing = al_readiness_gate(tool);
			return missing ? psprintf("\"%s\" is not ready: %s", tool->name, missing) : NULL;
		case AL_APPROVAL_ALWAYS:
			return psprintf("every \"%s\" needs approval", tool->name);
		case AL_APPROVAL_IF:
			break;
	}
	return condition_holds(tool->def->approval_if, args) ? psprintf("approval is needed when %s", tool->def->approval_if) : NULL;
}

/*
 * Tells whether a condition holds for arguments: it yields true, anything that
 * is no boolean, or an error.  Only false and nothing at all do not hold.
 */
static bool
condition_holds(const char *path, Jsonb *args)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool holds = true;

	PG_TRY();
	{
		LOCAL_FCINFO(fcinfo, 4);
		Datum		found;
		JsonbValue	value;

		InitFunctionCallInfoData(*fcinfo, NULL, 4, InvalidOid, NULL, NULL);
		fcinfo->args[0].value = JsonbPGetDatum(args);
		fcinfo->args[1].value = DirectFunctionCall1(jsonpath_in, CStringGetDatum(path));
		fcinfo->args[2].value = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
		fcinfo->args[3].value = BoolGetDatum(false);
		for (int i = 0; i < 4; i++)
			fcinfo->args[i].isnull = false;
		found = jsonb_path_query_first(fcinfo);
		if (fcinfo->isnull)
			holds = false;
		else if (JB_ROOT_IS_SCALAR(DatumGetJsonbP(found)) &&
				 JsonbExtractScalar(&DatumGetJsonbP(found)->root, &value) && value.type == jbvBool)
			holds = value.val.boolean;
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
	}
	PG_END_TRY();
	return holds;
}
