/*
 * specs.c
 *		The tools of a role as function specifications for models, in the shapes
 *		that are in use.
 *
 * openai: OpenAI, Chat Completions, "tools"; anthropic: Anthropic, Messages,
 * "tools"; mcp: Model Context Protocol 2025-11-25, result of tools/list.
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "errors.h"
#include "json_write.h"
#include "registry.h"
#include "schema_internal.h"
#include "session.h"
#include "visible.h"

PG_FUNCTION_INFO_V1(al_tool_specs);

typedef enum Shape
{
	SHAPE_OPENAI,
	SHAPE_ANTHROPIC,
	SHAPE_MCP
} Shape;

static const struct
{
	const char *format;
	const char *schema_key;
	const char *alphabet;		/* of names */
	int			most;			/* characters of a name */
}			shapes[] = {
	[SHAPE_OPENAI] = {"openai", "parameters", "_-", 64},
	[SHAPE_ANTHROPIC] = {"anthropic", "input_schema", "_-", 64},
	[SHAPE_MCP] = {"mcp", "inputSchema", "_-.", 128}
};

static AlStatement select_tools = {
	"SELECT t.tool_id FROM actionledger.tool t WHERE t.dropped_at IS NULL ORDER BY t.name COLLATE \"C\"", 0, {0}
};

static Shape parse_shape(const char *format);
static void check_name(const AlTool *tool, Shape shape);
static void put_tool(JsonbParseState **state, const AlTool *tool, Shape shape);
static void put_schema(JsonbParseState **state, const AlTool *tool);
static void put_properties(JsonbParseState **state, const JsonbValue *root, List *names);
static void put_annotations(JsonbParseState **state, const AlTool *tool);
static char *description_of(const AlTool *tool);

/* tool_specs(format) */
Datum
al_tool_specs(PG_FUNCTION_ARGS)
{
	Shape		shape = parse_shape(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	Oid			caller = GetUserId();
	MemoryContext context = CurrentMemoryContext;
	JsonbParseState *state = NULL;
	JsonbValue *result;
	AlSession	session;
	int32	   *ids;
	int			n;

	al_session_begin(&session, true);
	al_registry_refresh();
	n = (int) al_statement_run(&select_tools, NULL, NULL);
	ids = palloc(Max(n, 1) * sizeof(int32));
	for (int i = 0; i < n; i++)
		ids[i] = al_column_int4(i, 1);
	if (shape == SHAPE_MCP)
	{
		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		al_json_key(&state, "tools");
	}
	result = pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < n; i++)
	{
		AlTool	   *tool = al_registry_tool_by_id(ids[i]);

		MemoryContextSwitchTo(context);
		if (tool == NULL || !al_registry_may_perform(tool, caller))
			continue;
		check_name(tool, shape);
		put_tool(&state, tool, shape);
	}
	result = pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	if (shape == SHAPE_MCP)
		result = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	al_session_end(&session);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(result));
}

/* Reads the name of a format. */
static Shape
parse_shape(const char *format)
{
	for (int i = 0; i < lengthof(shapes); i++)
	{
		if (strcmp(format, shapes[i].format) == 0)
			return (Shape) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown format \"%s\"", al_visible(format)),
			 errdetail("Formats are openai, anthropic and mcp."),
			 errhint("Take the one of the library that calls the model.")));
}

/*
 * Refuses a name that the format cannot have.  Another name in its place would
 * come back as a tool that is not there.
 */
static void
check_name(const AlTool *tool, Shape shape)
{
	bool		fits = strlen(tool->name) <= shapes[shape].most;

	for (const char *c = tool->name; *c != '\0'; c++)
		fits = fits && (((unsigned char) *c < 0x80 && isalnum((unsigned char) *c)) || strchr(shapes[shape].alphabet, *c) != NULL);
	if (!fits)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("name of tool \"%s\" cannot be a name in format %s", tool->name, shapes[shape].format),
				 errdetail("At \"/name\": a name there has up to %d letters, digits and characters of \"%s\".",
						   shapes[shape].most, shapes[shape].alphabet),
				 errhint("Create the tool under another name, or revoke this one from the role that the agent has.")));
}

/* Puts the specification of a tool. */
static void
put_tool(JsonbParseState **state, const AlTool *tool, Shape shape)
{
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	if (shape == SHAPE_OPENAI)
	{
		al_json_text(state, "type", "function");
		al_json_key(state, "function");
		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	}
	al_json_text(state, "name", tool->name);
	al_json_text(state, "description", description_of(tool));
	al_json_key(state, shapes[shape].schema_key);
	put_schema(state, tool);
	if (shape == SHAPE_MCP)
		put_annotations(state, tool);
	if (shape == SHAPE_OPENAI)
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/*
 * Puts the schema of the arguments, saying what the ledger takes for granted:
 * an object, and no arguments but those that are declared.
 */
static void
put_schema(JsonbParseState **state, const AlTool *tool)
{
	AlDeclared	declared = {0};
	JsonbValue	root;
	JsonbIterator *it;
	JsonbValue	key;
	JsonbValue	value;

	al_schema_root(tool->def->input, &root);
	al_schema_declared(&root, &root, &declared);
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	al_json_text(state, "type", "object");
	put_properties(state, &root, declared.names);
	if (!al_schema_get(&root, "additionalProperties", &value))
		al_json_bool(state, "additionalProperties", declared.open);
	it = JsonbIteratorInit(root.val.binary.data);
	(void) JsonbIteratorNext(&it, &key, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		if (al_schema_is_text(&key, "type") || al_schema_is_text(&key, "properties") || al_schema_is_text(&key, "description"))
			continue;
		pushJsonbValue(state, WJB_KEY, &key);
		pushJsonbValue(state, WJB_VALUE, &value);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Puts the properties, and those that only a subschema in place declares: additionalProperties does not see them there. */
static void
put_properties(JsonbParseState **state, const JsonbValue *root, List *names)
{
	JsonbValue	properties;
	JsonbValue	value;
	bool		has = al_schema_get(root, "properties", &properties);
	ListCell   *cell;

	al_json_key(state, "properties");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	foreach(cell, names)
	{
		al_json_key(state, lfirst(cell));
		if (has && al_schema_get(&properties, lfirst(cell), &value))
			pushJsonbValue(state, WJB_VALUE, &value);
		else
		{
			pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
			pushJsonbValue(state, WJB_END_OBJECT, NULL);
		}
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Puts what the type of a tool says of its effect. */
static void
put_annotations(JsonbParseState **state, const AlTool *tool)
{
	AlActionType type = tool->def->type;

	al_json_key(state, "annotations");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	al_json_bool(state, "readOnlyHint", type == AL_TYPE_READ_ONLY);
	al_json_bool(state, "destructiveHint", type != AL_TYPE_READ_ONLY);
	al_json_bool(state, "idempotentHint", type == AL_TYPE_READ_ONLY || type == AL_TYPE_IDEMPOTENT);
	al_json_bool(state, "openWorldHint", true);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Says what a tool is for: the description of its schema, else what it sends. */
static char *
description_of(const AlTool *tool)
{
	JsonbValue	root;
	JsonbValue	text;

	al_schema_root(tool->def->input, &root);
	if (al_schema_get(&root, "description", &text))
		return pnstrdup(text.val.string.val, text.val.string.len);
	if (tool->def->summary != NULL)
		return pstrdup(tool->def->summary);
	return psprintf("%s %s at %s", tool->def->method, tool->def->path, tool->service->name);
}
