/*
 * schema_json.c
 *		Access to jsonb for the schema validator: members, equality, JSON
 *		Pointers and local references.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "schema_internal.h"

/* Longest step of a JSON Pointer that is shown whole, in characters. */
#define MAX_STEP 200

/* What a JSON Pointer into a schema stands on. */
typedef enum Position
{
	ON_SCHEMA,
	ON_MAP,						/* an object of schemas: properties, $defs */
	ON_LIST,					/* an array of schemas: allOf, prefixItems */
	ON_OTHER					/* not a place for a schema */
} Position;

static void append_step(StringInfo out, const AlPath *step);
static char *decode_fragment(const char *ref, int len);
static char *unescape_step(char *step);
static Position position_after(const char *keyword);
static bool step_into(Position *position, const char *step, JsonbValue *target);

/* Give the document as a JsonbValue. */
void
al_schema_root(Jsonb *jsonb, JsonbValue *out)
{
	if (JB_ROOT_IS_SCALAR(jsonb))
	{
		JsonbExtractScalar(&jsonb->root, out);
		return;
	}
	out->type = jbvBinary;
	out->val.binary.data = &jsonb->root;
	out->val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
}

/* Tell whether a value is an object. */
bool
al_schema_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

/* Tell whether a value is an array. */
bool
al_schema_is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

/* Count the members of an object or the items of an array. */
int
al_schema_size(const JsonbValue *value)
{
	return (int) JsonContainerSize(value->val.binary.data);
}

/* Look up a member of an object; false when it is no object or has none. */
bool
al_schema_get(const JsonbValue *object, const char *key, JsonbValue *out)
{
	return al_schema_get_len(object, key, (int) strlen(key), out);
}

/* Look up a member of an object by a name that is not NUL-terminated. */
bool
al_schema_get_len(const JsonbValue *object, const char *key, int len, JsonbValue *out)
{
	if (!al_schema_is_object(object))
		return false;
	return getKeyJsonValueFromContainer(object->val.binary.data, key, len, out) != NULL;
}

/* List the items of an array as JsonbValue *; NIL when it is no array. */
List *
al_schema_elements(const JsonbValue *array)
{
	List	   *items = NIL;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	item;

	if (!al_schema_is_array(array))
		return NIL;
	it = JsonbIteratorInit(array->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		if (token == WJB_ELEM)
		{
			JsonbValue *copy = palloc(sizeof(JsonbValue));

			*copy = item;
			items = lappend(items, copy);
		}
	}
	return items;
}

/* Tell whether a value is this string. */
bool
al_schema_is_text(const JsonbValue *value, const char *text)
{
	return value->type == jbvString && value->val.string.len == (int) strlen(text) &&
		memcmp(value->val.string.val, text, value->val.string.len) == 0;
}

/* Tell whether a value is a number without a fractional part. */
bool
al_schema_is_integer(const JsonbValue *value)
{
	Datum		number;
	Datum		whole;

	if (value->type != jbvNumeric)
		return false;
	number = NumericGetDatum(value->val.numeric);
	whole = DirectFunctionCall2(numeric_trunc, number, Int32GetDatum(0));
	return DatumGetBool(DirectFunctionCall2(numeric_eq, number, whole));
}

/*
 * Order two values totally: equal exactly when they are the same JSON value
 * (numbers by value, strings by bytes).
 */
int
al_schema_compare(const JsonbValue *a, const JsonbValue *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	switch (a->type)
	{
		case jbvString:
			if (a->val.string.len != b->val.string.len)
				return a->val.string.len < b->val.string.len ? -1 : 1;
			return memcmp(a->val.string.val, b->val.string.val, a->val.string.len);
		case jbvNumeric:
			return DatumGetInt32(DirectFunctionCall2(numeric_cmp,
													 NumericGetDatum(a->val.numeric),
													 NumericGetDatum(b->val.numeric)));
		case jbvBool:
			return (int) a->val.boolean - (int) b->val.boolean;
		case jbvBinary:
			return compareJsonbContainers(a->val.binary.data, b->val.binary.data);
		default:
			return 0;			/* null */
	}
}

/* Tell whether two values are the same JSON value. */
bool
al_schema_equal(const JsonbValue *a, const JsonbValue *b)
{
	return al_schema_compare(a, b) == 0;
}

/* Count the steps of a path. */
int
al_schema_steps(const AlPath *path)
{
	int			steps = 0;

	for (; path != NULL; path = path->up)
		steps++;
	return steps;
}

/* Write a path as a JSON Pointer behind a prefix; very long names are cut. */
char *
al_schema_path_text(const AlPath *path, const char *prefix)
{
	StringInfoData out;
	List	   *steps = NIL;
	ListCell   *cell;

	for (; path != NULL; path = path->up)
		steps = lcons((void *) path, steps);
	initStringInfo(&out);
	appendStringInfoString(&out, prefix);
	foreach(cell, steps)
	{
		append_step(&out, lfirst(cell));
	}
	list_free(steps);
	return out.data;
}

/*
 * Resolve a local $ref ("#", "#/$defs/x"); false when it is not local, or
 * points at nothing, or at a place that holds no schema.
 */
bool
al_schema_resolve(const JsonbValue *root, const JsonbValue *ref, JsonbValue *target)
{
	Position	position = ON_SCHEMA;
	char	   *pointer;
	char	   *step;

	if (ref->type != jbvString || ref->val.string.len == 0 || ref->val.string.val[0] != '#')
		return false;
	pointer = decode_fragment(ref->val.string.val + 1, ref->val.string.len - 1);
	if (pointer == NULL || (pointer[0] != '\0' && pointer[0] != '/'))
		return false;
	*target = *root;
	for (step = pointer[0] == '\0' ? NULL : pointer + 1; step != NULL;)
	{
		char	   *slash = strchr(step, '/');

		if (slash != NULL)
			*slash = '\0';
		if (unescape_step(step) == NULL || !step_into(&position, step, target))
			return false;
		step = slash == NULL ? NULL : slash + 1;
	}
	pfree(pointer);
	return position == ON_SCHEMA;
}

/*
 * List the subschemas that apply to the same value as the schema itself: the
 * target of $ref, the branches of allOf, anyOf and oneOf, if, then and else.
 */
List *
al_schema_in_place(const JsonbValue *root, const JsonbValue *schema, bool with_not)
{
	static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
	static const char *const singles[] = {"if", "then", "else", "not"};
	List	   *found = NIL;
	JsonbValue	keyword;
	JsonbValue *copy = palloc(sizeof(JsonbValue));

	if (al_schema_get(schema, "$ref", &keyword) && al_schema_resolve(root, &keyword, copy))
		found = lappend(found, copy);
	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		if (al_schema_get(schema, lists[i], &keyword))
			found = list_concat(found, al_schema_elements(&keyword));
	}
	for (int i = 0; i < (int) lengthof(singles) - (with_not ? 0 : 1); i++)
	{
		copy = palloc(sizeof(JsonbValue));
		if (al_schema_get(schema, singles[i], copy))
			found = lappend(found, copy);
	}
	return found;
}

/* List the names of an object's members as char *; NIL when it is no object. */
List *
al_schema_names(const JsonbValue *object)
{
	List	   *names = NIL;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	name;

	if (!al_schema_is_object(object))
		return NIL;
	it = JsonbIteratorInit(object->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			names = lappend(names, pnstrdup(name.val.string.val, name.val.string.len));
	}
	return names;
}

/*
 * Collect the argument names that a tool's input declares, in its own
 * properties and in those of every subschema in place ("not" aside).
 */
void
al_schema_declared(const JsonbValue *root, const JsonbValue *schema, AlDeclared *declared)
{
	JsonbValue	properties;
	JsonbValue	additional;
	ListCell   *cell;

	check_stack_depth();
	if (!al_schema_is_object(schema) ||
		list_member_ptr(declared->seen, schema->val.binary.data))
		return;
	declared->seen = lappend(declared->seen, schema->val.binary.data);
	if (al_schema_get(schema, "additionalProperties", &additional) &&
		!(additional.type == jbvBool && !additional.val.boolean))
		declared->open = true;
	if (al_schema_get(schema, "properties", &properties))
	{
		foreach(cell, al_schema_names(&properties))
		{
			if (!al_schema_is_listed(declared->names, lfirst(cell)))
				declared->names = lappend(declared->names, lfirst(cell));
		}
	}
	foreach(cell, al_schema_in_place(root, schema, false))
	{
		al_schema_declared(root, lfirst(cell), declared);
	}
}

/* Tell whether a name is in a list of char *. */
bool
al_schema_is_listed(List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

/* Append one step, escaped as RFC 6901 has it. */
static void
append_step(StringInfo out, const AlPath *step)
{
	int			len;

	if (step->name == NULL)
	{
		appendStringInfo(out, "/%d", step->index);
		return;
	}
	len = pg_mbcharcliplen(step->name, step->len, MAX_STEP);
	appendStringInfoChar(out, '/');
	for (int i = 0; i < len; i++)
	{
		if (step->name[i] == '~')
			appendStringInfoString(out, "~0");
		else if (step->name[i] == '/')
			appendStringInfoString(out, "~1");
		else
			appendStringInfoChar(out, step->name[i]);
	}
	if (len < step->len)
		appendStringInfoString(out, "...");
}

/* Percent-decode the fragment of a $ref; NULL when it is malformed. */
static char *
decode_fragment(const char *ref, int len)
{
	char	   *out = palloc(len + 1);
	int			used = 0;

	for (int i = 0; i < len; i++)
	{
		uint8		byte;

		if (ref[i] != '%')
		{
			out[used++] = ref[i];
			continue;
		}
		if (i + 2 >= len || !isxdigit((unsigned char) ref[i + 1]) ||
			!isxdigit((unsigned char) ref[i + 2]))
			return NULL;
		hex_decode(ref + i + 1, 2, (char *) &byte);
		if (byte == 0)
			return NULL;
		out[used++] = (char) byte;
		i += 2;
	}
	out[used] = '\0';
	return out;
}

/* Undo ~0 and ~1 in place; NULL when a tilde stands alone. */
static char *
unescape_step(char *step)
{
	char	   *to = step;

	for (char *from = step; *from != '\0'; from++)
	{
		if (*from != '~')
		{
			*to++ = *from;
			continue;
		}
		from++;
		if (*from != '0' && *from != '1')
			return NULL;
		*to++ = *from == '0' ? '~' : '/';
	}
	*to = '\0';
	return step;
}

/* Tell what the value of a keyword holds. */
static Position
position_after(const char *keyword)
{
	static const char *const maps[] = {"$defs", "properties", NULL};
	static const char *const lists[] = {"allOf", "anyOf", "oneOf", "prefixItems", NULL};
	static const char *const schemas[] = {
		"additionalProperties", "else", "if", "items", "not", "then", NULL
	};

	for (int i = 0; maps[i] != NULL; i++)
	{
		if (strcmp(keyword, maps[i]) == 0)
			return ON_MAP;
	}
	for (int i = 0; lists[i] != NULL; i++)
	{
		if (strcmp(keyword, lists[i]) == 0)
			return ON_LIST;
	}
	for (int i = 0; schemas[i] != NULL; i++)
	{
		if (strcmp(keyword, schemas[i]) == 0)
			return ON_SCHEMA;
	}
	return ON_OTHER;
}

/* Follow one step of a pointer into a schema; false when there is nothing. */
static bool
step_into(Position *position, const char *step, JsonbValue *target)
{
	JsonbValue	next;

	if (*position == ON_LIST)
	{
		JsonbValue *item;

		if (!al_schema_is_array(target) || strspn(step, "0123456789") != strlen(step) ||
			strlen(step) == 0 || strlen(step) > 9 || (step[0] == '0' && step[1] != '\0'))
			return false;
		item = getIthJsonbValueFromContainer(target->val.binary.data, (uint32) atoi(step));
		if (item == NULL)
			return false;
		*target = *item;
		*position = ON_SCHEMA;
		return true;
	}
	*position = *position == ON_MAP ? ON_SCHEMA : position_after(step);
	if (*position == ON_OTHER || !al_schema_get(target, step, &next))
		return false;
	*target = next;
	return true;
}
