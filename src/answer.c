/*
 * answer.c
 *		Outcome rules and jsonpath over an untrusted answer.
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "answer.h"
#include "session.h"

#define KEPT_PATHS 16			/* compiled, of the definitions in use */
#define KEPT_PATH_MAX 1000

static bool needs_body(const AlTool *tool, const AlWireResult *result);
static void read_body(void *arg);
static void choose(void *arg);
static bool rule_fits(const AlRule *rule, const AlWireResult *result);
static bool condition_holds(const char *path, Datum document);
static Datum compiled(const char *path);
static Datum no_variables(void);
static char *scalar_text(Jsonb *value);

/* What a reading takes and fills. */
typedef struct Reading
{
	const AlTool *tool;
	const AlWireResult *result;
	AlAnswer   *answer;
	Datum		document;		/* 0: the body is none */
} Reading;

/* Reads an answer; a body that cannot be read is like none. */
void
al_answer_read(const AlTool *tool, const AlWireResult *result, AlAnswer *answer)
{
	Reading		reading = {tool, result, answer};

	memset(answer, 0, sizeof(*answer));
	if (!result->head.complete)
		return;
	if (needs_body(tool, result) && result->body_len > 0)
	{
		if (al_session_try(read_body, &reading))
			return;
		/* What raises where reference and result are looked for must not take the rules' answer away. */
		memset(answer, 0, sizeof(*answer));
		if (al_session_try(choose, &reading))
			return;
		memset(answer, 0, sizeof(*answer));
	}
	al_answer_choose(tool->def->outcome, result, NULL, answer);
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

/* Reads the body, raising for what cannot be read. */
static void
read_body(void *arg)
{
	Reading    *reading = arg;

	choose(reading);
	if (reading->document != 0)
		al_answer_extract(reading->tool, reading->document, reading->answer);
}

/* Finds the rule that holds, raising likewise. */
static void
choose(void *arg)
{
	Reading    *reading = arg;

	reading->document = 0;
	(void) al_answer_document(reading->result, &reading->document);
	al_answer_choose(reading->tool->def->outcome, reading->result,
					 reading->document != 0 && reading->result->evidence.framing_complete ? &reading->document : NULL,
					 reading->answer);
}

/* Makes a document of a body; false when it is no text of one. */
bool
al_answer_document(const AlWireResult *result, Datum *document)
{
	char	   *text;

	if (result->body_len == 0 || memchr(result->body, '\0', result->body_len) != NULL)
		return false;
	text = pnstrdup((const char *) result->body, result->body_len);
	if (!pg_verify_mbstr(PG_UTF8, text, (int) result->body_len, true))
		return false;
	text = pg_any_to_server(text, (int) result->body_len, PG_UTF8);
	*document = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	return true;
}

/* Takes reference and result out of a document. */
void
al_answer_extract(const AlTool *tool, Datum document, AlAnswer *answer)
{
	Jsonb	   *match;

	if (tool->def->external_ref != NULL &&
		(match = al_answer_first(document, tool->def->external_ref, NULL)) != NULL)
	{
		answer->external_ref = scalar_text(match);
		if (answer->external_ref != NULL && answer->external_ref[0] == '\0')
			answer->external_ref = NULL;
	}
	if (tool->def->result != NULL &&
		(match = al_answer_first(document, tool->def->result, NULL)) != NULL)
		answer->result = JsonbPGetDatum(match);
}

/* Finds the first rule that holds; document is NULL when the body cannot be judged. */
void
al_answer_choose(List *rules, const AlWireResult *result, const Datum *document, AlAnswer *answer)
{
	ListCell   *cell;

	foreach(cell, rules)
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

/* Tells whether all conditions of a rule hold; one on a body that cannot be judged does not. */
bool
al_answer_fits(const AlRule *rule, const AlWireResult *result, const Datum *document)
{
	return rule_fits(rule, result) &&
		(rule->condition == NULL || (document != NULL && condition_holds(rule->condition, *document)));
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
	Jsonb	   *match = al_answer_first(document, path, NULL);
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
Jsonb *
al_answer_first(Datum document, const char *path, Jsonb *vars)
{
	LOCAL_FCINFO(call, 4);
	Datum		match;

	InitFunctionCallInfoData(*call, NULL, 4, InvalidOid, NULL, NULL);
	call->args[0].value = document;
	call->args[1].value = compiled(path);
	call->args[2].value = vars ? JsonbPGetDatum(vars) : no_variables();
	call->args[3].value = BoolGetDatum(true);
	for (int i = 0; i < 4; i++)
		call->args[i].isnull = false;
	match = jsonb_path_query_first(call);
	return call->isnull ? NULL : DatumGetJsonbP(match);
}

/* Compiles a path, or remembers having done so. */
static Datum
compiled(const char *path)
{
	static struct
	{
		char	   *path;
		Datum		compiled;
	}			kept[KEPT_PATHS];
	static int	next = 0;
	Datum		fresh;
	MemoryContext caller;

	for (int i = 0; i < KEPT_PATHS; i++)
	{
		if (kept[i].path != NULL && strcmp(kept[i].path, path) == 0)
			return kept[i].compiled;
	}
	fresh = DirectFunctionCall1(jsonpath_in, CStringGetDatum(path));
	if (strlen(path) > KEPT_PATH_MAX)
		return fresh;
	if (kept[next].path != NULL)
	{
		pfree(kept[next].path);
		kept[next].path = NULL;
		pfree(DatumGetPointer(kept[next].compiled));
	}
	caller = MemoryContextSwitchTo(TopMemoryContext);
	kept[next].compiled = datumCopy(fresh, false, -1);
	kept[next].path = pstrdup(path);
	MemoryContextSwitchTo(caller);
	next = (next + 1) % KEPT_PATHS;
	return fresh;
}

/* Gives an empty object. */
static Datum
no_variables(void)
{
	static Datum none = 0;

	if (none == 0)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		none = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
		MemoryContextSwitchTo(caller);
	}
	return none;
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
