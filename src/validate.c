/*
 * validate.c
 *		A model's output is untrusted input: what is wrong with it, and what to
 *		send instead.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "authority.h"
#include "schema.h"
#include "session.h"
#include "validate.h"

#define MAX_CANDIDATES 10000	/* tools whose names are compared with an unknown one */
#define MAX_SHOWN 100			/* bytes of an unknown name that are shown */
#define MAX_POINTER 300			/* bytes of a JSON Pointer that are shown */

static AlStatement select_names = {
	"SELECT t.tool_id, t.name FROM actionledger.tool t WHERE t.dropped_at IS NULL "
	"AND pg_catalog.abs(pg_catalog.length(t.name) OPERATOR(pg_catalog.-) $1) OPERATOR(pg_catalog.<) 4 "
	"ORDER BY t.name USING OPERATOR(pg_catalog.<) LIMIT $2",
	2, {INT4OID, INT8OID}
};

static AlRefusal *refuse_findings(const AlTool *tool, Jsonb *args, List *findings, List *options);
static List *of_kind(List *findings, AlFindingKind kind);
static void pair_misspelt(const AlTool *tool, Jsonb *args, List *missing, List *unknown);
static Jsonb *renamed(Jsonb *args, List *missing, List *names);
static char *find_unknown(List *unknown, const char *at);
static char *fitting(Jsonb *args, const char *name, const char *at, List *still);
static void redact(AlRefusal *refusal, const AlTool *tool);
static bool overlaps(const char *at, const char *pointer);
static char *shortened(const char *text, int most);
static char *nearest_tool(const char *name, Oid role);

/* Validates arguments, options and permission. */
AlRefusal *
al_validate(const AlTool *tool, Jsonb *args, List *options, Oid requester)
{
	List	   *findings;

	if (args == NULL)
		return al_refusal_make(AL_ERR_MISSING_ARGUMENTS,
							   psprintf("arguments for \"%s\" are missing", tool->name),
							   pstrdup("The value for args is null. Nothing was recorded."),
							   pstrdup("For a tool without arguments give '{}'."), NIL);
	findings = al_schema_validate(tool->def->input, args, true);
	if (findings != NIL || options != NIL)
		return refuse_findings(tool, args, findings, options);
	if (!al_registry_may_perform(tool, requester))
		return al_refusal_make(AL_ERR_FORBIDDEN,
							   psprintf("role \"%s\" may not perform \"%s\"", al_role_name(requester), tool->name),
							   psprintf("The grant of tool \"%s\" to this role, or to one that it is a member of, is missing.", tool->name),
							   pstrdup("Do not retry; ask an administrator for actionledger.grant_tool()."), NIL);
	return NULL;
}

/* Refuses a tool that is not there, with the nearest one that the role may perform. */
AlRefusal *
al_validate_no_tool(const char *name, Oid role)
{
	char	   *shown = shortened(name, MAX_SHOWN);
	AlFinding  *finding = palloc0(sizeof(AlFinding));
	StringInfoData got;

	initStringInfo(&got);
	escape_json(&got, shown);
	appendStringInfoString(&got, " (string)");
	finding->kind = AL_FINDING_INVALID;
	finding->at = pstrdup("/tool");
	finding->got = got.data;
	finding->want = pstrdup("the name of a tool that you may perform");
	finding->suggest = nearest_tool(name, role);
	return al_refusal_make(AL_ERR_UNKNOWN_TOOL, psprintf("there is no tool \"%s\"", shown),
						   pstrdup("No tool of that name is defined, or it was dropped. Nothing was recorded."),
						   pstrdup("The view actionledger.tools shows the tools that you may perform."), list_make1(finding));
}

/* Refuses options of a call that cannot be read. */
AlRefusal *
al_validate_options(List *findings)
{
	return al_refusal_make(AL_ERR_INVALID_ARGUMENTS, pstrdup("options of perform are invalid"), NULL,
						   pstrdup("Nothing was recorded; correct the options. The arguments of the tool belong into args."), findings);
}

/* Refuses with the findings of the first stage that has any. */
static AlRefusal *
refuse_findings(const AlTool *tool, Jsonb *args, List *findings, List *options)
{
	static const struct
	{
		int			sqlstate;
		const char *words;
	}			stages[] = {
		[AL_FINDING_MISSING] = {AL_ERR_MISSING_ARGUMENTS, "arguments are missing"},
		[AL_FINDING_UNKNOWN] = {AL_ERR_UNKNOWN_ARGUMENTS, "arguments are unknown"},
		[AL_FINDING_INVALID] = {AL_ERR_INVALID_ARGUMENTS, "arguments are invalid"}
	};
	AlFindingKind kind = AL_FINDING_MISSING;
	List	   *first;
	AlRefusal  *refusal;

	while (kind < AL_FINDING_INVALID && of_kind(findings, kind) == NIL)
		kind++;
	first = of_kind(findings, kind);
	if (first == NIL)
		return al_validate_options(options);
	if (kind == AL_FINDING_MISSING)
		pair_misspelt(tool, args, first, of_kind(findings, AL_FINDING_UNKNOWN));
	if (kind == AL_FINDING_INVALID)
		first = list_concat(first, options);
	refusal = al_refusal_make(stages[kind].sqlstate, psprintf("%s for \"%s\"", stages[kind].words, tool->name), NULL,
							  pstrdup("Nothing was recorded; correct the arguments and propose again."), first);
	redact(refusal, tool);
	return refusal;
}

/* Picks the findings of a kind. */
static List *
of_kind(List *findings, AlFindingKind kind)
{
	List	   *picked = NIL;
	ListCell   *cell;

	foreach(cell, findings)
	{
		if (((AlFinding *) lfirst(cell))->kind == kind)
			picked = lappend(picked, lfirst(cell));
	}
	return picked;
}

/*
 * Sees whether what is missing was sent under a name that is nearly the same;
 * its value is suggested where the schema would take it.
 */
static void
pair_misspelt(const AlTool *tool, Jsonb *args, List *missing, List *unknown)
{
	List	   *names = NIL;
	List	   *still;
	ListCell   *cell;
	ListCell   *name;
	bool		any = false;

	foreach(cell, missing)
	{
		char	   *sent = find_unknown(unknown, ((AlFinding *) lfirst(cell))->at);

		names = lappend(names, sent);
		any = any || sent != NULL;
	}
	if (!any)
		return;
	still = al_schema_validate(tool->def->input, renamed(args, missing, names), true);
	forboth(cell, missing, name, names)
	{
		AlFinding  *finding = lfirst(cell);
		StringInfoData got;

		if (lfirst(name) == NULL)
			continue;
		initStringInfo(&got);
		appendStringInfoString(&got, "it as ");
		escape_json(&got, lfirst(name));
		finding->got = got.data;
		if (finding->suggest == NULL)
			finding->suggest = fitting(args, lfirst(name), finding->at, still);
	}
}

/* Makes the arguments with members named as they should be; a NULL name: that one is not there. */
static Jsonb *
renamed(Jsonb *args, List *missing, List *names)
{
	JsonbParseState *state = NULL;
	JsonbIterator *it = JsonbIteratorInit(&args->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			depth = 0;
	JsonbValue *result = NULL;

	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_OBJECT || token == WJB_BEGIN_ARRAY)
			depth++;
		if (token == WJB_END_OBJECT || token == WJB_END_ARRAY)
			depth--;
		if (token == WJB_KEY && depth == 1)
		{
			ListCell   *cell;
			ListCell   *name;

			forboth(cell, missing, name, names)
			{
				const char *sent = lfirst(name);

				if (sent == NULL || strlen(sent) != value.val.string.len || memcmp(sent, value.val.string.val, value.val.string.len) != 0)
					continue;
				value.val.string.val = ((AlFinding *) lfirst(cell))->at + 1;
				value.val.string.len = (int) strlen(value.val.string.val);
				break;
			}
		}
		result = pushJsonbValue(&state, token, token < WJB_BEGIN_ARRAY ? &value : NULL);
	}
	return JsonbValueToJsonb(result);
}

/* Finds the name under which something unknown was sent for which a missing argument is suggested. */
static char *
find_unknown(List *unknown, const char *at)
{
	ListCell   *cell;

	/* A name with an escape in its pointer is not worth the trouble. */
	if (at[0] != '/' || strpbrk(at + 1, "~/") != NULL)
		return NULL;
	foreach(cell, unknown)
	{
		AlFinding  *finding = lfirst(cell);

		if (finding->suggest != NULL && strcmp(finding->suggest, at + 1) == 0 && strpbrk(finding->at + 1, "~/") == NULL)
			return finding->at + 1;
	}
	return NULL;
}

/* Suggests the value of a member where it belongs, or what the schema would take instead. */
static char *
fitting(Jsonb *args, const char *name, const char *at, List *still)
{
	JsonbValue *value = getKeyJsonValueFromContainer(&args->root, name, (int) strlen(name), NULL);
	ListCell   *cell;

	foreach(cell, still)
	{
		AlFinding  *finding = lfirst(cell);

		if (overlaps(finding->at, at))
			return strcmp(finding->at, at) == 0 ? finding->suggest : NULL;
	}
	return value != NULL ? al_schema_whole(value) : NULL;
}

/*
 * Takes what is sensitive out of the findings: it would reach the server log, a
 * transcript or the table of refusals.  Where a tool has sensitive arguments,
 * an unknown one may be one of them under another name.
 */
static void
redact(AlRefusal *refusal, const AlTool *tool)
{
	bool		unknown = false;
	ListCell   *cell;

	foreach(cell, refusal->findings)
	{
		AlFinding  *finding = lfirst(cell);
		bool		hidden = tool->def->sensitive != NIL && finding->kind == AL_FINDING_UNKNOWN;
		bool		known = false;
		ListCell   *other;

		finding->at = shortened(finding->at, MAX_POINTER);
		foreach(other, tool->def->sensitive)
			known = known || overlaps(finding->at, lfirst(other));
		if (!hidden && !known)
			continue;
		if (finding->got != NULL && finding->kind != AL_FINDING_MISSING)
		{
			char	   *type = strrchr(finding->got, '(');

			finding->got = psprintf("a value that is not shown %s", type ? type : "");
			if (known)
				refusal->left_out = lappend(refusal->left_out, psprintf("what came at \"%s\", which is or may hold something sensitive", finding->at));
			unknown = unknown || !known;
		}
		/* The name to use instead is none of it. */
		if (finding->kind != AL_FINDING_UNKNOWN)
			finding->suggest = NULL;
	}
	if (unknown)
		refusal->left_out = lappend(refusal->left_out, pstrdup("values of unknown arguments, since the tool has sensitive ones"));
}

/* Tells whether one JSON Pointer is, or is within, the other. */
static bool
overlaps(const char *at, const char *pointer)
{
	size_t		len = Min(strlen(at), strlen(pointer));

	return strncmp(at, pointer, len) == 0 &&
		(at[len] == '\0' || at[len] == '/') && (pointer[len] == '\0' || pointer[len] == '/');
}

/* Cuts a text to so many bytes. */
static char *
shortened(const char *text, int most)
{
	int			len = (int) strlen(text);

	return len <= most ? pstrdup(text) : psprintf("%.*s...", pg_mbcliplen(text, len, most), text);
}

/* Finds the tool that a name comes nearest to, among those that a role may perform. */
static char *
nearest_tool(const char *name, Oid role)
{
	Datum		values[2] = {Int32GetDatum(pg_mbstrlen(name)), Int64GetDatum(MAX_CANDIDATES)};
	int			n = (int) al_statement_run(&select_names, values, NULL);
	const char **names = palloc0((n + 1) * sizeof(char *));
	int32	   *ids = palloc((n + 1) * sizeof(int32));
	const char *nearest;

	for (int i = 0; i < n; i++)
	{
		ids[i] = al_column_int4(i, 1);
		names[i] = al_column_text(i, 2);
	}
	while ((nearest = al_nearest_name(name, names)) != NULL)
	{
		int			at = 0;
		AlTool	   *tool;

		while (names[at] != nearest)
			at++;
		tool = al_registry_tool_guarded(ids[at]);
		if (tool != NULL && al_registry_may_perform(tool, role))
			return pstrdup(nearest);
		names[at] = names[n - 1];
		ids[at] = ids[n - 1];
		names[--n] = NULL;
	}
	return NULL;
}
