/*
 * answer.c
 *		Outcome rules and jsonpath over an untrusted answer.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/resowner.h"

#include "answer.h"

static bool needs_body(const AlTool *tool, const AlWireResult *result);
static void read_guarded(const AlTool *tool, const AlWireResult *result, AlAnswer *answer);
static void read_body(const AlTool *tool, const AlWireResult *result, AlAnswer *answer);
static void choose_rule(const AlTool *tool, const AlWireResult *result, const Datum *document, AlAnswer *answer);
static bool rule_fits(const AlRule *rule, const AlWireResult *result);
static bool condition_holds(const char *path, Datum document);
static Jsonb *first_match(Datum document, const char *path);
static char *scalar_text(Jsonb *value);

/* Reads an answer. */
void
al_answer_read(const AlTool *tool, const AlWireResult *result, AlAnswer *answer)
{
	memset(answer, 0, sizeof(*answer));
	if (!result->head.complete)
		return;
	if (needs_body(tool, result) && result->body_len > 0 && memchr(result->body, '\0', result->body_len) == NULL)
		read_guarded(tool, result, answer);
	else
		choose_rule(tool, result, NULL, answer);
}

/* Tells whether anything is to be read out of the body. */
static bool
needs_body(const AlTool *tool, const AlWireResult *result)
{
	ListCell   *cell;

	if (tool->def->external_ref != NULL || tool->def->result != NULL)
		return true;
	foreach(cell, tool->def->outcome)
	{
		AlRule	   *rule = lfirst(cell);

		if (rule->condition != NULL && rule_fits(rule, result))
			return true;
	}
	return false;
}

/* Reads the body in a subtransaction; a body that cannot be read is like none. */
static void
read_guarded(const AlTool *tool, const AlWireResult *result, AlAnswer *answer)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(context);
		read_body(tool, result, answer);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		memset(answer, 0, sizeof(*answer));
		choose_rule(tool, result, NULL, answer);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* Does the same, raising for what cannot be read. */
static void
read_body(const AlTool *tool, const AlWireResult *result, AlAnswer *answer)
{
	char	   *text = pnstrdup((const char *) result->body, result->body_len);
	Datum		document;
	Jsonb	   *match;

	if (!pg_verify_mbstr(PG_UTF8, text, (int) result->body_len, true))
	{
		choose_rule(tool, result, NULL, answer);
		return;
	}
	text = pg_any_to_server(text, (int) result->body_len, PG_UTF8);
	document = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	choose_rule(tool, result, result->evidence.framing_complete ? &document : NULL, answer);
	if (tool->def->external_ref != NULL &&
		(match = first_match(document, tool->def->external_ref)) != NULL)
	{
		answer->external_ref = scalar_text(match);
		if (answer->external_ref != NULL && answer->external_ref[0] == '\0')
			answer->external_ref = NULL;
	}
	if (tool->def->result != NULL &&
		(match = first_match(document, tool->def->result)) != NULL)
		answer->result = JsonbPGetDatum(match);
}

/* Finds the first rule that holds; document is NULL when the body cannot be judged. */
static void
choose_rule(const AlTool *tool, const AlWireResult *result, const Datum *document, AlAnswer *answer)
{
	ListCell   *cell;

	foreach(cell, tool->def->outcome)
	{
		AlRule	   *rule = lfirst(cell);

		if (!rule_fits(rule, result))
			continue;
		if (rule->condition != NULL && document == NULL)
		{
			answer->unreadable = true;
			return;
		}
		if (rule->condition == NULL || condition_holds(rule->condition, *document))
		{
			answer->rule = rule;
			return;
		}
		if (rule->verdict == AL_VERDICT_CONFIRMED)
			answer->body_rule = AL_BODY_RULE_FAILS;
	}
}

/* Tells whether status and header are those of a rule. */
static bool
rule_fits(const AlRule *rule, const AlWireResult *result)
{
	const char *value;

	if (result->head.status < rule->status_from || result->head.status > rule->status_to)
		return false;
	if (rule->header == NULL)
		return true;
	value = al_head_find(&result->head, rule->header);
	return value != NULL && (rule->header_value == NULL || pg_strcasecmp(value, rule->header_value) == 0);
}

/* Tells whether a condition yields true, or something that is no boolean and not null. */
static bool
condition_holds(const char *path, Datum document)
{
	Jsonb	   *match = first_match(document, path);
	JsonbValue	scalar;

	if (match == NULL)
		return false;
	if (!JB_ROOT_IS_SCALAR(match) || !JsonbExtractScalar(&match->root, &scalar))
		return true;
	if (scalar.type == jbvBool)
		return scalar.val.boolean;
	return scalar.type != jbvNull;
}

/* Finds the first item that a path selects, NULL for none. */
static Jsonb *
first_match(Datum document, const char *path)
{
	LOCAL_FCINFO(call, 4);
	Datum		match;

	InitFunctionCallInfoData(*call, NULL, 4, InvalidOid, NULL, NULL);
	call->args[0].value = document;
	call->args[1].value = DirectFunctionCall1(jsonpath_in, CStringGetDatum(path));
	call->args[2].value = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
	call->args[3].value = BoolGetDatum(true);
	for (int i = 0; i < 4; i++)
		call->args[i].isnull = false;
	match = jsonb_path_query_first(call);
	return call->isnull ? NULL : DatumGetJsonbP(match);
}

/* Gives a string or a number as text of bounded length, NULL for anything else. */
static char *
scalar_text(Jsonb *value)
{
	JsonbValue	scalar;
	char	   *text;

	if (!JB_ROOT_IS_SCALAR(value) || !JsonbExtractScalar(&value->root, &scalar))
		return NULL;
	if (scalar.type == jbvString)
		text = pnstrdup(scalar.val.string.val, scalar.val.string.len);
	else if (scalar.type == jbvNumeric)
		text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(scalar.val.numeric)));
	else
		return NULL;
	text[pg_mbcliplen(text, (int) strlen(text), AL_EXTERNAL_REF_MAX)] = '\0';
	return text;
}
