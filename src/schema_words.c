/*
 * schema_words.c
 *		What a finding says: the value that came, cut short, and what a schema
 *		wants, in words that a person or a model can act on.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/numeric.h"

#include "schema_internal.h"

#define MAX_GOT 60				/* characters of the value in "got" */
#define MAX_WANT 300			/* characters of "want" */
#define MAX_VALUE 60			/* characters of one value in "want" */
#define MAX_VALUES 12			/* values and names listed in "want" */
#define MAX_NESTING 3			/* subschemas described within subschemas */

typedef struct Words
{
	const JsonbValue *root;
	StringInfoData out;
} Words;

/* Which type a keyword speaks about when the schema names none. */
static const struct
{
	const char *keyword;
	const char *type;
}			implied[] =
{
	{"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"},
	{"exclusiveMaximum", "number"}, {"multipleOf", "number"},
	{"minLength", "string"}, {"maxLength", "string"}, {"pattern", "string"}, {"format", "string"},
	{"items", "array"}, {"prefixItems", "array"}, {"minItems", "array"}, {"maxItems", "array"},
	{"uniqueItems", "array"},
	{"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"},
	{"minProperties", "object"}, {"maxProperties", "object"}
};

static void append_json(StringInfo out, const JsonbValue *value, int limit);
static void append_scalar(StringInfo out, const JsonbValue *value, int limit);
static char *clip(char *text, int limit, bool *cut);
static void say_schema(Words *words, const JsonbValue *schema, int nesting);
static bool say_own(Words *words, const JsonbValue *schema, const JsonbValue *value, int nesting);
static bool say_values(Words *words, const JsonbValue *schema);
static List *types_of(const JsonbValue *schema, const JsonbValue *value);
static void say_type(Words *words, const JsonbValue *schema, const char *type, int nesting);
static void say_number(Words *words, const JsonbValue *schema);
static void say_string(Words *words, const JsonbValue *schema);
static void say_array(Words *words, const JsonbValue *schema, int nesting);
static void say_object(Words *words, const JsonbValue *schema);
static void say_counts(Words *words, const JsonbValue *schema, const char *min_key,
					   const char *max_key, const char *unit, const char *before);
static void say_list(Words *words, const JsonbValue *branches, const char *between, int nesting);
static char *number_text(const JsonbValue *number);

/* Name the JSON type of a value; a whole number is an "integer". */
const char *
al_schema_type_name(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "string";
		case jbvNumeric:
			return al_schema_is_integer(value) ? "integer" : "number";
		case jbvBool:
			return "boolean";
		default:
			return al_schema_is_array(value) ? "array" : "object";
	}
}

/* Write a value as JSON, cut to so many characters; *cut (or NULL) tells. */
char *
al_schema_short(const JsonbValue *value, int limit, bool *cut)
{
	StringInfoData out;

	initStringInfo(&out);
	append_json(&out, value, limit);
	return clip(out.data, limit, cut);
}

/* Write a value as a finding shows it: "425000" (string). */
char *
al_schema_got(const JsonbValue *value)
{
	return psprintf("%s (%s)", al_schema_short(value, MAX_GOT, NULL), al_schema_type_name(value));
}

/* Say what a schema wants, its subschemas in place included. */
char *
al_schema_want(const JsonbValue *root, const JsonbValue *schema)
{
	Words		words = {.root = root};

	initStringInfo(&words.out);
	say_schema(&words, schema, 0);
	return clip(words.out.data, MAX_WANT, NULL);
}

/* Say what a schema itself wants of a value like this one. */
char *
al_schema_want_own(const JsonbValue *root, const JsonbValue *schema, const JsonbValue *value)
{
	Words		words = {.root = root};

	initStringInfo(&words.out);
	if (!say_own(&words, schema, value, 0))
		appendStringInfoString(&words.out, "a value that fits the schema");
	return clip(words.out.data, MAX_WANT, NULL);
}

/* Say what the branches of anyOf want, or of oneOf when several match. */
char *
al_schema_want_branch(const JsonbValue *root, const JsonbValue *branches, bool one)
{
	Words		words = {.root = root};

	initStringInfo(&words.out);
	if (one)
		appendStringInfoString(&words.out, "a value that fits only one of: ");
	say_list(&words, branches, one ? "; " : " or ", 0);
	return clip(words.out.data, MAX_WANT, NULL);
}

/* Say what "not" refuses. */
char *
al_schema_want_not(const JsonbValue *root, const JsonbValue *schema)
{
	Words		words = {.root = root};

	initStringInfo(&words.out);
	appendStringInfoString(&words.out, "anything but ");
	say_schema(&words, schema, 0);
	return clip(words.out.data, MAX_WANT, NULL);
}

/* List names in quotes: "a", "b" <last> "c"; at most limit of them. */
char *
al_schema_quote_names(List *names, int limit, const char *last)
{
	StringInfoData out;
	int			total = list_length(names);
	int			shown = Min(total, limit);

	initStringInfo(&out);
	for (int i = 0; i < shown; i++)
	{
		if (i > 0)
			appendStringInfo(&out, i == total - 1 ? " %s " : ", ", last);
		escape_json(&out, clip(pstrdup(list_nth(names, i)), MAX_VALUE, NULL));
	}
	if (shown < total)
		appendStringInfo(&out, " %s %d more", last, total - shown);
	return out.data;
}

/* Append JSON, stopping soon after so many characters are there. */
static void
append_json(StringInfo out, const JsonbValue *value, int limit)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	part;
	bool		comma = false;

	if (value->type != jbvBinary)
	{
		append_scalar(out, value, limit);
		return;
	}
	it = JsonbIteratorInit(value->val.binary.data);
	while (out->len <= limit * MAX_MULTIBYTE_CHAR_LEN &&
		   (token = JsonbIteratorNext(&it, &part, false)) != WJB_DONE)
	{
		if (comma && token != WJB_END_ARRAY && token != WJB_END_OBJECT)
			appendStringInfoString(out, ", ");
		comma = token != WJB_BEGIN_ARRAY && token != WJB_BEGIN_OBJECT && token != WJB_KEY;
		if (token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT)
			appendStringInfoChar(out, token == WJB_BEGIN_ARRAY ? '[' : '{');
		else if (token == WJB_END_ARRAY || token == WJB_END_OBJECT)
			appendStringInfoChar(out, token == WJB_END_ARRAY ? ']' : '}');
		else
			append_scalar(out, &part, limit);
		if (token == WJB_KEY)
			appendStringInfoString(out, ": ");
	}
}

/* Append a scalar as JSON; of a long string only its beginning. */
static void
append_scalar(StringInfo out, const JsonbValue *value, int limit)
{
	int			len;

	switch (value->type)
	{
		case jbvNull:
			appendStringInfoString(out, "null");
			return;
		case jbvBool:
			appendStringInfoString(out, value->val.boolean ? "true" : "false");
			return;
		case jbvNumeric:
			appendStringInfoString(out, DatumGetCString(DirectFunctionCall1(numeric_out,
																			NumericGetDatum(value->val.numeric))));
			return;
		default:
			len = pg_mbcharcliplen(value->val.string.val, value->val.string.len, limit + 1);
			escape_json(out, pnstrdup(value->val.string.val, len));
			return;
	}
}

/* Cut a text to so many characters, the last three being dots. */
static char *
clip(char *text, int limit, bool *cut)
{
	int			len = (int) strlen(text);
	bool		too_long = pg_mbcharcliplen(text, len, limit) < len;

	if (cut != NULL)
		*cut = too_long;
	if (!too_long)
		return text;
	len = pg_mbcharcliplen(text, len, limit - 3);
	return psprintf("%.*s...", len, text);
}

/* Say what a schema wants, subschemas in place included. */
static void
say_schema(Words *words, const JsonbValue *schema, int nesting)
{
	static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
	static const char *const between[] = {" and ", " or ", " or "};
	JsonbValue	keyword;
	JsonbValue	target;
	int			start = words->out.len;
	bool		said;

	if (nesting > MAX_NESTING || words->out.len > MAX_WANT * MAX_MULTIBYTE_CHAR_LEN)
	{
		appendStringInfoString(&words->out, "a value that fits the schema");
		return;
	}
	if (schema->type == jbvBool)
	{
		appendStringInfoString(&words->out, schema->val.boolean ? "any value" : "no value");
		return;
	}
	said = say_own(words, schema, NULL, nesting);
	if (al_schema_get(schema, "$ref", &keyword) &&
		al_schema_resolve(words->root, &keyword, &target))
	{
		appendStringInfoString(&words->out, said ? " and " : "");
		say_schema(words, &target, nesting + 1);
	}
	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		if (!al_schema_get(schema, lists[i], &keyword))
			continue;
		appendStringInfoString(&words->out, words->out.len > start ? " and " : "");
		say_list(words, &keyword, between[i], nesting + 1);
	}
	if (al_schema_get(schema, "not", &keyword))
	{
		appendStringInfoString(&words->out, words->out.len > start ? " and not " : "not ");
		say_schema(words, &keyword, nesting + 1);
	}
	if (words->out.len == start)
		appendStringInfoString(&words->out, "any value");
}

/*
 * Say what the keywords of a schema itself want, of a value like this one if
 * there is one; false when they say nothing.
 */
static bool
say_own(Words *words, const JsonbValue *schema, const JsonbValue *value, int nesting)
{
	ListCell   *cell;
	bool		first = true;

	if (say_values(words, schema))
		return true;
	foreach(cell, types_of(schema, value))
	{
		appendStringInfoString(&words->out, first ? "" : " or ");
		say_type(words, schema, lfirst(cell), nesting);
		first = false;
	}
	return !first;
}

/* Say the values of const or enum; false when there is neither. */
static bool
say_values(Words *words, const JsonbValue *schema)
{
	JsonbValue	keyword;
	List	   *values;
	int			shown;

	if (al_schema_get(schema, "const", &keyword))
	{
		appendStringInfo(&words->out, "exactly %s", al_schema_short(&keyword, MAX_VALUE, NULL));
		return true;
	}
	if (!al_schema_get(schema, "enum", &keyword))
		return false;
	values = al_schema_elements(&keyword);
	shown = Min(list_length(values), MAX_VALUES);
	if (values == NIL)
		appendStringInfoString(&words->out, "no value");
	else
		appendStringInfoString(&words->out, list_length(values) == 1 ? "exactly " : "one of ");
	for (int i = 0; i < shown; i++)
		appendStringInfo(&words->out, "%s%s", i == 0 ? "" : ", ",
						 al_schema_short(list_nth(values, i), MAX_VALUE, NULL));
	if (shown < list_length(values))
		appendStringInfo(&words->out, " or %d more", list_length(values) - shown);
	return true;
}

/* List the types that a schema names, or that its keywords speak about. */
static List *
types_of(const JsonbValue *schema, const JsonbValue *value)
{
	List	   *types = NIL;
	JsonbValue	keyword;
	const char *last = "";
	const char *name = value == NULL ? NULL : al_schema_type_name(value);

	if (name != NULL && strcmp(name, "integer") == 0)
		name = "number";
	if (al_schema_get(schema, "type", &keyword))
	{
		ListCell   *cell;

		if (keyword.type == jbvString)
			return list_make1(pnstrdup(keyword.val.string.val, keyword.val.string.len));
		foreach(cell, al_schema_elements(&keyword))
		{
			JsonbValue *item = lfirst(cell);

			types = lappend(types, pnstrdup(item->val.string.val, item->val.string.len));
		}
		return types;
	}
	for (int i = 0; i < (int) lengthof(implied); i++)
	{
		if (strcmp(implied[i].type, last) == 0 ||
			(name != NULL && strcmp(implied[i].type, name) != 0) ||
			!al_schema_get(schema, implied[i].keyword, &keyword))
			continue;
		last = implied[i].type;
		types = lappend(types, (void *) last);
	}
	return types;
}

/* Say one type with what the schema asks of it. */
static void
say_type(Words *words, const JsonbValue *schema, const char *type, int nesting)
{
	appendStringInfoString(&words->out, type);
	if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)
		say_number(words, schema);
	else if (strcmp(type, "string") == 0)
		say_string(words, schema);
	else if (strcmp(type, "array") == 0)
		say_array(words, schema, nesting);
	else if (strcmp(type, "object") == 0)
		say_object(words, schema);
}

/* Say the bounds of a number. */
static void
say_number(Words *words, const JsonbValue *schema)
{
	static const char *const keys[] = {
		"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"
	};
	static const char *const signs[] = {">=", ">", "<=", "<"};
	const char *before = " ";
	JsonbValue	keyword;

	for (int i = 0; i < (int) lengthof(keys); i++)
	{
		if (!al_schema_get(schema, keys[i], &keyword))
			continue;
		appendStringInfo(&words->out, "%s%s %s", before, signs[i], number_text(&keyword));
		before = " and ";
	}
	if (al_schema_get(schema, "multipleOf", &keyword))
		appendStringInfo(&words->out, ", a multiple of %s", number_text(&keyword));
}

/* Say the length, pattern and format of a string. */
static void
say_string(Words *words, const JsonbValue *schema)
{
	JsonbValue	keyword;

	say_counts(words, schema, "minLength", "maxLength", "character", " of");
	if (al_schema_get(schema, "pattern", &keyword))
		appendStringInfo(&words->out, " matching %.*s", keyword.val.string.len,
						 keyword.val.string.val);
	if (al_schema_get(schema, "format", &keyword))
		appendStringInfo(&words->out, " in format %.*s, such as %s", keyword.val.string.len,
						 keyword.val.string.val, al_schema_format_example(&keyword));
}

/* Say the size of an array and what its items are. */
static void
say_array(Words *words, const JsonbValue *schema, int nesting)
{
	JsonbValue	keyword;

	say_counts(words, schema, "minItems", "maxItems", "item", " of");
	if (al_schema_get(schema, "uniqueItems", &keyword) && keyword.val.boolean)
		appendStringInfoString(&words->out, " without repetition");
	if (al_schema_get(schema, "items", &keyword) && al_schema_is_object(&keyword) &&
		al_schema_size(&keyword) > 0)
	{
		appendStringInfoString(&words->out, ", each item: ");
		say_schema(words, &keyword, nesting + 1);
	}
}

/* Say the size of an object and what it must have. */
static void
say_object(Words *words, const JsonbValue *schema)
{
	JsonbValue	keyword;
	List	   *names = NIL;
	ListCell   *cell;

	if (al_schema_get(schema, "required", &keyword))
	{
		foreach(cell, al_schema_elements(&keyword))
		{
			JsonbValue *name = lfirst(cell);

			names = lappend(names, pnstrdup(name->val.string.val, name->val.string.len));
		}
	}
	if (names != NIL)
		appendStringInfo(&words->out, " with %s", al_schema_quote_names(names, MAX_VALUES, "and"));
	say_counts(words, schema, "minProperties", "maxProperties", "property",
			   names == NIL ? " with" : ", in all");
}

/* Say a count with its bounds: " of 1 to 5 characters"; nothing without any. */
static void
say_counts(Words *words, const JsonbValue *schema, const char *min_key, const char *max_key,
		   const char *unit, const char *before)
{
	JsonbValue	keyword;
	char	   *min = NULL;
	char	   *max = NULL;
	char	   *last;
	char	   *plural = strcmp(unit, "property") == 0 ? "properties" : psprintf("%ss", unit);

	if (al_schema_get(schema, min_key, &keyword))
		min = number_text(&keyword);
	if (al_schema_get(schema, max_key, &keyword))
		max = number_text(&keyword);
	if (min == NULL && max == NULL)
		return;
	last = max != NULL ? max : min;
	appendStringInfoString(&words->out, before);
	if (min == NULL)
		appendStringInfo(&words->out, " at most %s", max);
	else if (max == NULL)
		appendStringInfo(&words->out, " at least %s", min);
	else if (strcmp(min, max) == 0)
		appendStringInfo(&words->out, " exactly %s", min);
	else
		appendStringInfo(&words->out, " %s to %s", min, max);
	appendStringInfo(&words->out, " %s", strcmp(last, "1") == 0 ? unit : plural);
}

/* Say each of a list of subschemas. */
static void
say_list(Words *words, const JsonbValue *branches, const char *between, int nesting)
{
	ListCell   *cell;
	bool		first = true;

	if (nesting > MAX_NESTING)
	{
		appendStringInfoString(&words->out, "a value that fits the schema");
		return;
	}
	foreach(cell, al_schema_elements(branches))
	{
		if (words->out.len > MAX_WANT * MAX_MULTIBYTE_CHAR_LEN)
			break;
		appendStringInfoString(&words->out, first ? "" : between);
		say_schema(words, lfirst(cell), nesting);
		first = false;
	}
}

/* Write a number of a schema without trailing zeros. */
static char *
number_text(const JsonbValue *number)
{
	return clip(numeric_normalize(number->val.numeric), MAX_VALUE, NULL);
}
