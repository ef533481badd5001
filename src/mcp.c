/*
 * mcp.c
 *		Tools of a Model Context Protocol server as tools of the ledger.
 *
 * What the server says of its tools is a stranger's word: whatever the hints
 * are, an imported tool is non_idempotent and every action of it waits for a
 * person, until an administrator says otherwise.  The call is the protocol's
 * tools/call in one JSON-RPC request, for servers that keep no session.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "define.h"
#include "definition.h"
#include "errors.h"
#include "option.h"
#include "refusal.h"
#include "schema_internal.h"
#include "visible.h"

PG_FUNCTION_INFO_V1(al_import_mcp_tools);

#define MAX_TOOLS 1000
#define DEFAULT_REQUEST "POST /mcp"

/* How the tools are made. */
typedef struct Import
{
	char	   *service;
	char	   *request;
	bool		replace;
	bool		all_or_nothing;
	Jsonb	   *options;		/* of every tool; NULL: none */
} Import;

/* What JSON-RPC and the protocol say of an answer: only a result without isError is a success, and only what is wrong with the call itself is a refusal. */
static const char *const answers =
"[{\"status\": 200, \"if\": \"$.error.code == -32600 || $.error.code == -32601 || $.error.code == -32602\", \"verdict\": \"rejected\", \"category\": \"mcp_refused\"}, "
"{\"status\": 200, \"if\": \"exists($.result.content) && !($.result.isError == true)\", \"verdict\": \"confirmed\"}, "
"{\"status\": 200, \"verdict\": \"unknown\", \"category\": \"mcp_error\"}]";

static void read_tool_options(AlPlace place, const JsonbValue *value, void *target);

static const AlOption IMPORT_OPTIONS[] = {
	AL_OPTION_TEXT_AT("request", Import, request),
	AL_OPTION_BOOL_AT("replace", Import, replace),
	AL_OPTION_BOOL_AT("all_or_nothing", Import, all_or_nothing),
	AL_OPTION_READ_BY("options", read_tool_options),
	AL_OPTION_END
};

static JsonbValue find_list(Jsonb *document);
static void put_row(ReturnSetInfo *result, const char *name, bool imported, const char *message);
static char *import_guarded(const Import *import, const JsonbValue *entry, ErrorData **error);
static char *import_tool(const Import *import, const JsonbValue *entry);
static char *tool_name(const JsonbValue *entry);
static void check_argument_name(AlPlace place, const char *name);
static Jsonb *make_input(const JsonbValue *entry, const JsonbValue *schema);
static Jsonb *make_options(const Import *import, const char *name, Jsonb *input);
static Jsonb *parse(const char *text);

/* import_mcp_tools(tools, service, options) */
Datum
al_import_mcp_tools(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	JsonbValue	list = find_list(DatumGetJsonbP(al_define_argument(fcinfo, 0, "tools")));
	Import		import = {.service = TextDatumGetCString(al_define_argument(fcinfo, 1, "service")), .request = DEFAULT_REQUEST};
	JsonbValue	options = al_option_root(DatumGetJsonbP(al_define_argument(fcinfo, 2, "options")));
	int			n = JsonContainerSize(list.val.binary.data);

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	al_option_read((AlPlace) {"import into", import.service, "/options"}, &options, IMPORT_OPTIONS, &import);
	if (n > MAX_TOOLS)
		al_definition_error((AlPlace) {"import into", import.service, "/tools"}, "Import some of them.", "there are %d tools, and %d are the most", n, MAX_TOOLS);
	for (int i = 0; i < n; i++)
	{
		JsonbValue *entry = getIthJsonbValueFromContainer(list.val.binary.data, i);
		ErrorData  *error = NULL;
		char	   *told = import_guarded(&import, entry, &error);

		if (error == NULL)
			put_row(result, tool_name(entry), true, told);
		else if (import.all_or_nothing)
			ReThrowError(error);
		else
			put_row(result, tool_name(entry), false, psprintf("%s: %s", error->message, error->detail ? error->detail : ""));
	}
	return (Datum) 0;
}

/* Keeps the options that every tool gets. */
static void
read_tool_options(AlPlace place, const JsonbValue *value, void *target)
{
	JsonbValue	copy = *value;

	if (!al_option_is_object(value))
		al_definition_error(place, "Give options of create_tool, such as {\"owner\": \"payments\"}.", "an object belongs here");
	((Import *) target)->options = JsonbValueToJsonb(&copy);
}

/* Finds the list in a result of tools/list, or in the whole response. */
static JsonbValue
find_list(Jsonb *document)
{
	JsonbValue	root = al_option_root(document);
	JsonbValue	result;
	JsonbValue	list;
	JsonbValue	cursor;

	if (al_option_is_object(&root) && al_schema_get(&root, "result", &result) && al_option_is_object(&result))
		root = result;
	if (!al_option_is_object(&root) || !al_schema_get(&root, "tools", &list) || !al_option_is_array(&list))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_DEFINITION),
				 errmsg("there is no list of tools"),
				 errdetail("At \"/tools\": an array belongs here."),
				 errhint("Pass what the server answers to tools/list: {\"tools\": [{\"name\": ..., \"inputSchema\": ...}]}.")));
	if (al_schema_get(&root, "nextCursor", &cursor) && cursor.type == jbvString)
		ereport(NOTICE,
				(errmsg("the server has more tools than these"),
				 errhint("Ask it for the next page with its cursor, and import that too.")));
	return list;
}

/* Puts a row of the answer. */
static void
put_row(ReturnSetInfo *result, const char *name, bool imported, const char *message)
{
	Datum		values[3] = {
		CStringGetTextDatum(name ? al_visible(name) : ""), BoolGetDatum(imported), CStringGetTextDatum(message)
	};
	bool		nulls[3] = {name == NULL, false, false};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Imports a tool in a subtransaction; a definition that is refused comes back as an error. */
static char *
import_guarded(const Import *import, const JsonbValue *entry, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *volatile told = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		told = import_tool(import, entry);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *caught;

		MemoryContextSwitchTo(context);
		caught = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (!al_is_refusal(caught->sqlerrcode) && caught->sqlerrcode != ERRCODE_DUPLICATE_OBJECT)
			ReThrowError(caught);
		*error = caught;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return told;
}

/* Makes a tool of an entry of the list. */
static char *
import_tool(const Import *import, const JsonbValue *entry)
{
	char	   *name = tool_name(entry);
	AlPlace		place = {"tool", name ? name : "?", ""};
	JsonbValue	schema;
	Jsonb	   *input;

	if (name == NULL)
		al_definition_error(al_place_member(place, "name"), NULL, "a name belongs here");
	for (const char *c = name; *c != '\0'; c++)
	{
		if (!(((unsigned char) *c < 0x80 && isalnum((unsigned char) *c)) || strchr("_-./", *c) != NULL))
			al_definition_error(al_place_member(place, "name"), NULL, "a name there has letters, digits, and the characters _ - . /");
	}
	if (!al_schema_get(entry, "inputSchema", &schema) || !al_option_is_object(&schema))
		al_definition_error(al_place_member(place, "inputSchema"), NULL, "a JSON Schema object belongs here");
	input = make_input(entry, &schema);
	al_schema_check(input, true);
	return al_define_tool(name, import->service, import->request, "non_idempotent", NULL, input,
						  make_options(import, name, input), import->replace);
}

/* Reads the name of an entry, NULL when it has none. */
static char *
tool_name(const JsonbValue *entry)
{
	JsonbValue	name;

	if (!al_option_is_object(entry) || !al_schema_get(entry, "name", &name) || name.type != jbvString || name.val.string.len == 0)
		return NULL;
	return pnstrdup(name.val.string.val, name.val.string.len);
}

/* Makes the schema of the arguments: only what is named can be carried on. */
static Jsonb *
make_input(const JsonbValue *entry, const JsonbValue *schema)
{
	StringInfoData patch;
	JsonbValue	text;
	JsonbValue	copy = *schema;

	initStringInfo(&patch);
	appendStringInfoString(&patch, "{\"additionalProperties\": false");
	if (!al_schema_get(schema, "description", &text) && al_schema_get(entry, "description", &text) && text.type == jbvString)
	{
		appendStringInfoString(&patch, ", \"description\": ");
		escape_json(&patch, pnstrdup(text.val.string.val, text.val.string.len));
	}
	appendStringInfoChar(&patch, '}');
	return al_merge_patch(JsonbValueToJsonb(&copy), parse(patch.data));
}

/* Makes the options of a tool: the call, what its answers mean, and that a person approves. */
static Jsonb *
make_options(const Import *import, const char *name, Jsonb *input)
{
	AlDeclared	declared = {0};
	StringInfoData text;
	JsonbValue	root;
	ListCell   *cell;
	Jsonb	   *options;

	al_schema_root(input, &root);
	al_schema_declared(&root, &root, &declared);
	initStringInfo(&text);
	appendStringInfoString(&text, "{\"headers\": {\"Accept\": \"application/json, text/event-stream\"}, \"json\": {\"jsonrpc\": \"2.0\", \"id\": \"{_key}\", "
						   "\"method\": \"tools/call\", \"params\": {\"name\": ");
	escape_json(&text, name);
	appendStringInfoString(&text, ", \"arguments\": {");
	foreach(cell, declared.names)
	{
		const char *argument = lfirst(cell);

		check_argument_name((AlPlace) {"tool", name, "/input/properties"}, argument);
		appendStringInfo(&text, "%s\"%s\": \"{%s}\"", foreach_current_index(cell) > 0 ? ", " : "", argument, argument);
	}
	appendStringInfo(&text, "}}}, \"result\": \"$.result.content\", \"outcome\": %s}", answers);
	options = parse(text.data);
	if (import->options != NULL)
		options = al_merge_patch(options, import->options);
	return al_merge_patch(options, parse("{\"approval\": \"always\"}"));
}

/* Refuses an argument that no placeholder can name. */
static void
check_argument_name(AlPlace place, const char *name)
{
	bool		fits = isalpha((unsigned char) name[0]);

	for (const char *c = name; *c != '\0'; c++)
		fits = fits && (unsigned char) *c < 0x80 && (isalnum((unsigned char) *c) || *c == '_');
	if (!fits)
		al_definition_error(al_place_member(place, name), "Define the tool by hand with create_tool, under argument names of your own.",
							"an argument that is carried on has a name of letters, digits and _, and begins with a letter");
}

/* Parses JSON that was put together here. */
static Jsonb *
parse(const char *text)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
}
