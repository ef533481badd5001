/*
 * schema_check.c
 *		Checking a JSON Schema when a tool is created: every keyword is known and
 *		well formed, every $ref leads to a schema, no schema asks for itself
 *		without end.  What is refused here is never misread later.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "definition.h"
#include "errors.h"
#include "schema.h"
#include "schema_internal.h"
#include "visible.h"

/* What the value of a keyword has to be. */
typedef enum Takes
{
	TAKES_ANYTHING,
	TAKES_ARRAY,
	TAKES_BOOLEAN,
	TAKES_COUNT,				/* a whole number from 0 */
	TAKES_FORMAT,
	TAKES_ID,					/* a string, at the root only: it moves what "#" means */
	TAKES_NAMES,				/* an array of unique strings */
	TAKES_NUMBER,
	TAKES_PATTERN,
	TAKES_POSITIVE,
	TAKES_REF,
	TAKES_SCHEMA,
	TAKES_SCHEMAS,				/* an array of schemas, at least one */
	TAKES_SCHEMA_MAP,			/* an object of schemas */
	TAKES_STRING,
	TAKES_TYPE
} Takes;

typedef struct Keyword
{
	const char *name;
	Takes		takes;
	bool		in_place;		/* its schemas are about the same value */
} Keyword;

static const Keyword keywords[] = {
	{"$comment", TAKES_STRING, false},
	{"$defs", TAKES_SCHEMA_MAP, false},
	{"$id", TAKES_ID, false},
	{"$ref", TAKES_REF, true},
	{"$schema", TAKES_STRING, false},
	{"additionalProperties", TAKES_SCHEMA, false},
	{"allOf", TAKES_SCHEMAS, true},
	{"anyOf", TAKES_SCHEMAS, true},
	{"const", TAKES_ANYTHING, false},
	{"default", TAKES_ANYTHING, false},
	{"description", TAKES_STRING, false},
	{"else", TAKES_SCHEMA, true},
	{"enum", TAKES_ARRAY, false},
	{"examples", TAKES_ARRAY, false},
	{"exclusiveMaximum", TAKES_NUMBER, false},
	{"exclusiveMinimum", TAKES_NUMBER, false},
	{"format", TAKES_FORMAT, false},
	{"if", TAKES_SCHEMA, true},
	{"items", TAKES_SCHEMA, false},
	{"maxItems", TAKES_COUNT, false},
	{"maxLength", TAKES_COUNT, false},
	{"maxProperties", TAKES_COUNT, false},
	{"maximum", TAKES_NUMBER, false},
	{"minItems", TAKES_COUNT, false},
	{"minLength", TAKES_COUNT, false},
	{"minProperties", TAKES_COUNT, false},
	{"minimum", TAKES_NUMBER, false},
	{"multipleOf", TAKES_POSITIVE, false},
	{"not", TAKES_SCHEMA, true},
	{"oneOf", TAKES_SCHEMAS, true},
	{"pattern", TAKES_PATTERN, false},
	{"prefixItems", TAKES_SCHEMAS, false},
	{"properties", TAKES_SCHEMA_MAP, false},
	{"required", TAKES_NAMES, false},
	{"then", TAKES_SCHEMA, true},
	{"title", TAKES_STRING, false},
	{"type", TAKES_TYPE, false},
	{"uniqueItems", TAKES_BOOLEAN, false}
};

/* What to write instead of keywords of other drafts and dialects. */
static const struct
{
	const char *name;
	const char *hint;
}			other_keywords[] =
{
	{"definitions", "Write \"$defs\", and \"$ref\": \"#/$defs/...\"."},
	{"nullable", "Write \"type\": [..., \"null\"]."},
	{"patternProperties", "Name the properties, or use \"additionalProperties\" with a schema."},
	{"propertyNames", "Name the properties, or use \"additionalProperties\" with a schema."},
	{"dependentRequired", "Write \"if\", \"then\" and \"required\"."},
	{"dependentSchemas", "Write \"if\" and \"then\"."},
	{"dependencies", "Write \"if\" and \"then\"."},
	{"additionalItems", "Write \"prefixItems\" and \"items\"."},
	{"unevaluatedProperties", "Write \"additionalProperties\" beside all \"properties\"."},
	{"unevaluatedItems", "Write \"items\" beside \"prefixItems\"."},
	{"$anchor", "Write \"$ref\" with a JSON Pointer, such as \"#/$defs/name\"."},
	{"$dynamicRef", "Write \"$ref\" with a JSON Pointer, such as \"#/$defs/name\"."},
	{"contains", "Describe every item with \"items\"."}
};

typedef struct Check
{
	JsonbValue	root;
	bool		tool_root;
} Check;

static void check_schema(const Check *check, const JsonbValue *schema, const AlPath *path,
						 bool top);
static void check_keyword(const Check *check, const JsonbValue *schema, const Keyword *keyword,
						  const JsonbValue *value, const AlPath *path, bool top);
static void refuse_keyword(const JsonbValue *name, const AlPath *path);
static void check_scalar(Takes takes, const JsonbValue *value, const AlPath *path);
static void check_schemas(const Check *check, const JsonbValue *value, const AlPath *path,
						  bool top);
static void check_schema_map(const Check *check, const JsonbValue *value, const AlPath *path,
							 bool arguments);
static void check_names(const JsonbValue *value, const AlPath *path, bool arguments);
static void check_type(const JsonbValue *value, const AlPath *path);
static void check_ref(const Check *check, const JsonbValue *schema, const JsonbValue *ref,
					  const AlPath *path, bool top);
static void check_loop(const Check *check, const JsonbValue *schema, const JsonbValue *start,
					   const AlPath *path, List **seen, int depth);
static void check_argument(const char *name, const AlPath *path);
static void check_tool_root(const Check *check);
static void refuse(const AlPath *path, const char *why, const char *hint);

/* Check a schema (contract in schema.h). */
void
al_schema_check(Jsonb *schema, bool tool_root)
{
	Check		check = {.tool_root = tool_root};

	al_schema_root(schema, &check.root);
	check_schema(&check, &check.root, NULL, tool_root);
	if (tool_root)
		check_tool_root(&check);
}

/* Check a schema; top: it is about the arguments as a whole. */
static void
check_schema(const Check *check, const JsonbValue *schema, const AlPath *path, bool top)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	name;
	JsonbValue	value;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (al_schema_steps(path) > AL_SCHEMA_MAX_DEPTH)
		refuse(path, "the schema is nested too deeply",
			   "Move inner schemas to \"$defs\" and refer to them with \"$ref\".");
	if (schema->type == jbvBool)
		return;
	if (!al_schema_is_object(schema))
	{
		refuse(path, "a schema is an object, true or false",
			   al_schema_is_array(schema) ? "Schemas by position belong in \"prefixItems\"." : NULL);
		return;
	}
	it = JsonbIteratorInit(schema->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		AlPath		step = {.up = path};
		int			i = 0;

		if (token != WJB_KEY)
			continue;
		JsonbIteratorNext(&it, &value, true);
		step.name = name.val.string.val;
		step.len = name.val.string.len;
		while (i < (int) lengthof(keywords) && !al_schema_is_text(&name, keywords[i].name))
			i++;
		if (i == (int) lengthof(keywords))
			refuse_keyword(&name, &step);
		else
			check_keyword(check, schema, &keywords[i], &value, &step, top);
	}
}

/* Check the value of one keyword. */
static void
check_keyword(const Check *check, const JsonbValue *schema, const Keyword *keyword,
			  const JsonbValue *value, const AlPath *path, bool top)
{
	switch (keyword->takes)
	{
		case TAKES_ANYTHING:
			return;
		case TAKES_ARRAY:
			if (!al_schema_is_array(value))
				refuse(path, "an array is wanted", NULL);
			return;
		case TAKES_NAMES:
			check_names(value, path, top);
			return;
		case TAKES_REF:
			check_ref(check, schema, value, path, top);
			return;
		case TAKES_SCHEMA:
			check_schema(check, value, path, top && keyword->in_place);
			return;
		case TAKES_SCHEMAS:
			check_schemas(check, value, path, top && keyword->in_place);
			return;
		case TAKES_SCHEMA_MAP:
			check_schema_map(check, value, path, top && strcmp(keyword->name, "properties") == 0);
			return;
		case TAKES_TYPE:
			check_type(value, path);
			return;
		case TAKES_BOOLEAN:
		case TAKES_COUNT:
		case TAKES_FORMAT:
		case TAKES_ID:
		case TAKES_NUMBER:
		case TAKES_PATTERN:
		case TAKES_POSITIVE:
		case TAKES_STRING:
			check_scalar(keyword->takes, value, path);
			return;
	}
}

/* Refuse a keyword that is not supported, with what comes nearest. */
static void
refuse_keyword(const JsonbValue *name, const AlPath *path)
{
	const char *names[lengthof(keywords) + 1];
	List	   *all = NIL;
	const char *nearest;

	for (int i = 0; i < (int) lengthof(other_keywords); i++)
	{
		if (al_schema_is_text(name, other_keywords[i].name))
			refuse(path, "this keyword is not supported", other_keywords[i].hint);
	}
	for (int i = 0; i < (int) lengthof(keywords); i++)
	{
		names[i] = keywords[i].name;
		all = lappend(all, (void *) keywords[i].name);
	}
	names[lengthof(keywords)] = NULL;
	nearest = name->val.string.len > NAMEDATALEN ? NULL :
		al_nearest_name(pnstrdup(name->val.string.val, name->val.string.len), names);
	/* At the top it may be an argument in the place of a keyword. */
	if (path->up == NULL)
		refuse(path, "this keyword is not supported",
			   psprintf("%s%s%sAn argument of that name belongs in \"properties\": {\"properties\": {\"%.*s\": {\"type\": \"string\"}}}.",
						nearest != NULL ? "The nearest supported keyword is \"" : "", nearest != NULL ? nearest : "",
						nearest != NULL ? "\". " : "", Min(name->val.string.len, NAMEDATALEN), name->val.string.val));
	refuse(path, "this keyword is not supported",
		   nearest != NULL ? psprintf("The nearest supported keyword is \"%s\".", nearest) :
		   psprintf("Supported keywords are %s.",
					al_schema_quote_names(all, list_length(all), "and")));
}

/* Check a keyword whose value is a scalar. */
static void
check_scalar(Takes takes, const JsonbValue *value, const AlPath *path)
{
	bool		number = takes == TAKES_COUNT || takes == TAKES_NUMBER || takes == TAKES_POSITIVE;
	char	   *error;
	int			sign = 0;

	if (takes == TAKES_BOOLEAN)
	{
		if (value->type != jbvBool)
			refuse(path, "true or false is wanted", NULL);
		return;
	}
	if (value->type != (number ? jbvNumeric : jbvString))
		refuse(path, number ? "a number is wanted" : "a string is wanted", NULL);
	if (number)
		sign = DatumGetInt32(DirectFunctionCall2(numeric_cmp,
												 NumericGetDatum(value->val.numeric),
												 NumericGetDatum(int64_to_numeric(0))));
	if (takes == TAKES_COUNT && (sign < 0 || !al_schema_is_integer(value)))
		refuse(path, "a whole number from 0 is wanted", NULL);
	if (takes == TAKES_POSITIVE && sign <= 0)
		refuse(path, "a number above 0 is wanted", NULL);
	if (takes == TAKES_ID && path->up != NULL)
		refuse(path, "\"$id\" is supported only at the root of the schema",
			   "Remove it; \"$ref\" with \"#/...\" starts at the root.");
	if (takes == TAKES_FORMAT && al_schema_format_example(value) == NULL)
		refuse(path, "this format is not supported",
			   "Supported formats are \"date\", \"date-time\", \"email\", \"uri\" and \"uuid\"; "
			   "for others use \"pattern\".");
	if (takes == TAKES_PATTERN)
	{
		error = al_schema_pattern_check(value->val.string.val, value->val.string.len);
		if (error != NULL)
			refuse(path, psprintf("the pattern cannot be used: %s", error),
				   "Patterns are ECMA-262 regular expressions as far as PostgreSQL's engine "
				   "can match them.");
	}
}

/* Check an array of schemas. */
static void
check_schemas(const Check *check, const JsonbValue *value, const AlPath *path, bool top)
{
	AlPath		step = {.up = path, .index = 0};
	ListCell   *cell;

	if (!al_schema_is_array(value) || al_schema_size(value) == 0)
		refuse(path, "an array of at least one schema is wanted", NULL);
	foreach(cell, al_schema_elements(value))
	{
		check_schema(check, lfirst(cell), &step, top);
		step.index++;
	}
}

/* Check an object of schemas; arguments: its names are those of arguments. */
static void
check_schema_map(const Check *check, const JsonbValue *value, const AlPath *path, bool arguments)
{
	JsonbValue	schema;
	ListCell   *cell;

	if (!al_schema_is_object(value))
		refuse(path, "an object of schemas is wanted", NULL);
	foreach(cell, al_schema_names(value))
	{
		char	   *name = lfirst(cell);
		AlPath		step = {.up = path, .name = name, .len = (int) strlen(name)};

		if (arguments)
			check_argument(name, &step);
		al_schema_get(value, name, &schema);
		check_schema(check, &schema, &step, false);
	}
}

/* Check an array of unique strings; arguments: they are names of arguments. */
static void
check_names(const JsonbValue *value, const AlPath *path, bool arguments)
{
	AlPath		step = {.up = path, .index = 0};
	List	   *names = NIL;
	ListCell   *cell;

	if (!al_schema_is_array(value))
		refuse(path, "an array of names is wanted", NULL);
	foreach(cell, al_schema_elements(value))
	{
		JsonbValue *item = lfirst(cell);
		char	   *name;

		if (item->type != jbvString)
			refuse(&step, "a name is wanted", NULL);
		name = pnstrdup(item->val.string.val, item->val.string.len);
		if (al_schema_is_listed(names, name))
			refuse(&step, "the name is there twice", "Remove one of them.");
		if (arguments)
			check_argument(name, &step);
		names = lappend(names, name);
		step.index++;
	}
}

/* Check the name of a type, or an array of unique ones. */
static void
check_type(const JsonbValue *value, const AlPath *path)
{
	static const char *const types[] = {
		"array", "boolean", "integer", "null", "number", "object", "string"
	};
	const char *hint = "Types are \"array\", \"boolean\", \"integer\", \"null\", \"number\", "
		"\"object\" and \"string\".";
	AlPath		step = {.up = path, .index = 0};
	ListCell   *cell;

	if (al_schema_is_array(value) && al_schema_size(value) > 0)
	{
		check_names(value, path, false);
		foreach(cell, al_schema_elements(value))
		{
			check_type(lfirst(cell), &step);
			step.index++;
		}
		return;
	}
	for (int i = 0; i < (int) lengthof(types); i++)
	{
		if (al_schema_is_text(value, types[i]))
			return;
	}
	refuse(path, "this is no type", hint);
}

/* Check that a reference leads to a schema, and not back to its own holder. */
static void
check_ref(const Check *check, const JsonbValue *schema, const JsonbValue *ref,
		  const AlPath *path, bool top)
{
	const char *hint = "Write \"#\" or a JSON Pointer to a schema in this document, such as "
		"\"#/$defs/name\".";
	JsonbValue	target;
	List	   *seen = NIL;

	if (ref->type != jbvString)
		refuse(path, "a string is wanted", hint);
	if (ref->val.string.len == 0 || ref->val.string.val[0] != '#')
		refuse(path, "only references within the schema are supported", hint);
	if (!al_schema_resolve(&check->root, ref, &target))
		refuse(path, "the reference leads to no schema", hint);
	check_loop(check, &target, schema, path, &seen, 0);
	if (top)
	{
		AlDeclared	declared = {NIL};
		ListCell   *cell;

		al_schema_declared(&check->root, &target, &declared);
		foreach(cell, declared.names)
		{
			check_argument(lfirst(cell), path);
		}
	}
}

/* Follow what is about the same value; refuse when it comes back to the start. */
static void
check_loop(const Check *check, const JsonbValue *schema, const JsonbValue *start,
		   const AlPath *path, List **seen, int depth)
{
	ListCell   *cell;

	if (!al_schema_is_object(schema))
		return;
	if (schema->val.binary.data == start->val.binary.data)
		refuse(path, "the reference leads back to itself without consuming any of the value",
			   "Put the reference under \"properties\" or \"items\".");
	if (depth > AL_SCHEMA_MAX_DEPTH)
		refuse(path, "the reference leads through too many others", NULL);
	if (list_member_ptr(*seen, schema->val.binary.data))
		return;
	*seen = lappend(*seen, schema->val.binary.data);
	foreach(cell, al_schema_in_place(&check->root, schema, true))
	{
		check_loop(check, lfirst(cell), start, path, seen, depth + 1);
	}
}

/* Check the name of an argument. */
static void
check_argument(const char *name, const AlPath *path)
{
	if (name[0] == '_')
		refuse(path, psprintf("an argument cannot be named \"%s\"", name),
			   "Names that begin with an underscore are the ledger's own.");
}

/* Check what only a tool's input has to be: an object that can be filled. */
static void
check_tool_root(const Check *check)
{
	AlPath		type_path = {.name = "type", .len = 4};
	AlPath		required_path = {.name = "required", .len = 8};
	AlPath		step = {.up = &required_path, .index = 0};
	AlDeclared	declared = {NIL};
	JsonbValue	keyword;
	ListCell   *cell;

	if (!al_schema_is_object(&check->root))
		refuse(NULL, "a tool's input is an object schema",
			   "Describe the arguments in \"properties\".");
	if (al_schema_get(&check->root, "type", &keyword) && !al_schema_is_text(&keyword, "object"))
		refuse(&type_path, "a tool's input is of type \"object\"",
			   "Describe the arguments in \"properties\".");
	al_schema_declared(&check->root, &check->root, &declared);
	if (declared.open || !al_schema_get(&check->root, "required", &keyword))
		return;
	foreach(cell, al_schema_elements(&keyword))
	{
		JsonbValue *name = lfirst(cell);

		if (!al_schema_is_listed(declared.names,
								 pnstrdup(name->val.string.val, name->val.string.len)))
			refuse(&step, "the argument is required but not declared",
				   "Describe it in \"properties\".");
		step.index++;
	}
}

/* Raise LG015 for a place in the schema; a NULL hint points to the standard. */
static void
refuse(const AlPath *path, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_DEFINITION),
			 errmsg("invalid JSON schema"),
			 errdetail("At \"%s\": %s.", al_visible(al_schema_path_text(path, "/input")), al_visible(why)),
			 errhint("%s", hint != NULL ? hint :
					 "Correct this keyword as JSON Schema (draft 2020-12) describes it.")));
}
