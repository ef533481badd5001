/*
 * validate.c
 *		A model's output is untrusted input: what is wrong with it, in words.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "authority.h"
#include "errors.h"
#include "schema.h"
#include "validate.h"

static AL_NORETURN void raise_findings(const AlTool *tool, List *findings, AlFindingKind kind);

/* Validates arguments and permission. */
void
al_validate(const AlTool *tool, Jsonb *args, Oid requester)
{
	List	   *findings = al_schema_validate(tool->def->input, args, true);
	ListCell   *cell;
	AlFindingKind first = AL_FINDING_INVALID;

	foreach(cell, findings)
		first = Min(first, ((AlFinding *) lfirst(cell))->kind);
	if (findings != NIL)
		raise_findings(tool, findings, first);

	if (!al_registry_may_perform(tool, requester))
		ereport(ERROR,
				(errcode(AL_ERR_FORBIDDEN),
				 errmsg("role \"%s\" may not perform \"%s\"", al_role_name(requester), tool->name),
				 errdetail("The grant of tool \"%s\" to this role, or to one that it is a member of, is missing.", tool->name),
				 errhint("Do not retry; ask an administrator for actionledger.grant_tool().")));
}

/* Raises for a tool that is not there. */
void
al_validate_no_tool(const char *name)
{
	ereport(ERROR,
			(errcode(AL_ERR_UNKNOWN_TOOL),
			 errmsg("there is no tool \"%s\"", name),
			 errdetail("No tool of that name is defined, or it was dropped. Nothing was recorded."),
			 errhint("Check the name; administrators see all tools in the view actionledger.tools.")));
}

/* Raises with every finding of a kind. */
static void
raise_findings(const AlTool *tool, List *findings, AlFindingKind kind)
{
	static const int codes[] = {
		[AL_FINDING_MISSING] = AL_ERR_MISSING_ARGUMENTS,
		[AL_FINDING_UNKNOWN] = AL_ERR_UNKNOWN_ARGUMENTS,
		[AL_FINDING_INVALID] = AL_ERR_INVALID_ARGUMENTS
	};
	static const char *const words[] = {
		[AL_FINDING_MISSING] = "arguments are missing",
		[AL_FINDING_UNKNOWN] = "arguments are unknown",
		[AL_FINDING_INVALID] = "arguments are invalid"
	};
	StringInfoData detail;
	StringInfoData hint;
	ListCell   *cell;

	initStringInfo(&detail);
	initStringInfo(&hint);
	foreach(cell, findings)
	{
		AlFinding  *finding = lfirst(cell);

		if (finding->kind != kind)
			continue;
		appendStringInfo(&detail, "%sAt \"%s\": ", detail.len > 0 ? " " : "", finding->at);
		if (finding->got != NULL)
			appendStringInfo(&detail, "got %s, want %s.", finding->got, finding->want ? finding->want : "something else");
		else
			appendStringInfo(&detail, "want %s.", finding->want ? finding->want : "a value");
		if (finding->suggest != NULL)
			appendStringInfo(&hint, "At \"%s\" send %s. ", finding->at, finding->suggest);
	}
	appendStringInfoString(&hint, "Nothing was recorded; correct the arguments and propose again.");
	ereport(ERROR,
			(errcode(codes[kind]),
			 errmsg("%s for \"%s\"", words[kind], tool->name),
			 errdetail("%s", detail.data),
			 errhint("%s", hint.data)));
}
