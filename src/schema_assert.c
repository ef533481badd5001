/*
 * schema_assert.c
 *		What a schema by itself asks of a value: type, const, enum, bounds,
 *		lengths, pattern, format and sizes.  Numbers are compared as numeric.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "schema_internal.h"

static bool is_listed(const JsonbValue *schema, const JsonbValue *value);
static bool has_type(const JsonbValue *schema, const JsonbValue *value);
static bool is_type(const JsonbValue *type, const JsonbValue *value);
static bool in_range(const JsonbValue *schema, const JsonbValue *value);
static bool in_shape(const JsonbValue *schema, const JsonbValue *value);
static bool in_count(const JsonbValue *schema, const char *min_key, const char *max_key,
					 int64 count);
static int	compare(const JsonbValue *bound, Numeric number);

/* Tell how a value fits what a schema asks, subschemas aside. */
AlFit
al_schema_fit(const JsonbValue *schema, const JsonbValue *value)
{
	bool		ok = true;

	if (!has_type(schema, value))
		return AL_FIT_OTHER_TYPE;
	if (!is_listed(schema, value))
		return AL_FIT_NOT_LISTED;
	if (value->type == jbvNumeric)
		ok = in_range(schema, value);
	else if (value->type == jbvString)
		ok = in_shape(schema, value);
	else if (al_schema_is_array(value))
		ok = in_count(schema, "minItems", "maxItems", al_schema_size(value));
	else if (al_schema_is_object(value))
		ok = in_count(schema, "minProperties", "maxProperties", al_schema_size(value));
	return ok ? AL_FIT_OK : AL_FIT_OUT_OF_BOUNDS;
}

/* Check type. */
static bool
has_type(const JsonbValue *schema, const JsonbValue *value)
{
	JsonbValue	type;
	ListCell   *cell;

	if (!al_schema_get(schema, "type", &type))
		return true;
	if (type.type == jbvString)
		return is_type(&type, value);
	foreach(cell, al_schema_elements(&type))
	{
		if (is_type(lfirst(cell), value))
			return true;
	}
	return false;
}

/* Check one name of a type; 1.0 is an integer. */
static bool
is_type(const JsonbValue *type, const JsonbValue *value)
{
	if (al_schema_is_text(type, "number"))
		return value->type == jbvNumeric;
	if (al_schema_is_text(type, "integer"))
		return al_schema_is_integer(value);
	return value->type == jbvNumeric ? false :
		al_schema_is_text(type, al_schema_type_name(value));
}

/* Check const and enum. */
static bool
is_listed(const JsonbValue *schema, const JsonbValue *value)
{
	JsonbValue	keyword;
	ListCell   *cell;

	if (al_schema_get(schema, "const", &keyword) && !al_schema_equal(&keyword, value))
		return false;
	if (!al_schema_get(schema, "enum", &keyword))
		return true;
	foreach(cell, al_schema_elements(&keyword))
	{
		if (al_schema_equal(lfirst(cell), value))
			return true;
	}
	return false;
}

/* Check the bounds of a number and multipleOf. */
static bool
in_range(const JsonbValue *schema, const JsonbValue *value)
{
	Numeric		number = value->val.numeric;
	JsonbValue	keyword;
	Datum		rest;

	if (al_schema_get(schema, "minimum", &keyword) && compare(&keyword, number) > 0)
		return false;
	if (al_schema_get(schema, "exclusiveMinimum", &keyword) && compare(&keyword, number) >= 0)
		return false;
	if (al_schema_get(schema, "maximum", &keyword) && compare(&keyword, number) < 0)
		return false;
	if (al_schema_get(schema, "exclusiveMaximum", &keyword) && compare(&keyword, number) <= 0)
		return false;
	if (!al_schema_get(schema, "multipleOf", &keyword))
		return true;
	rest = DirectFunctionCall2(numeric_mod, NumericGetDatum(number),
							   NumericGetDatum(keyword.val.numeric));
	return DatumGetBool(DirectFunctionCall2(numeric_eq, rest,
											NumericGetDatum(int64_to_numeric(0))));
}

/* Check the length of a string in characters, its pattern and its format. */
static bool
in_shape(const JsonbValue *schema, const JsonbValue *value)
{
	JsonbValue	keyword;

	if ((al_schema_get(schema, "minLength", &keyword) ||
		 al_schema_get(schema, "maxLength", &keyword)) &&
		!in_count(schema, "minLength", "maxLength",
				  pg_mbstrlen_with_len(value->val.string.val, value->val.string.len)))
		return false;
	if (al_schema_get(schema, "format", &keyword) && !al_schema_format_match(&keyword, value))
		return false;
	return !al_schema_get(schema, "pattern", &keyword) ||
		al_schema_pattern_match(&keyword, value);
}

/* Check a count against its bounds. */
static bool
in_count(const JsonbValue *schema, const char *min_key, const char *max_key, int64 count)
{
	JsonbValue	keyword;

	if (al_schema_get(schema, min_key, &keyword) &&
		compare(&keyword, int64_to_numeric(count)) > 0)
		return false;
	return !al_schema_get(schema, max_key, &keyword) ||
		compare(&keyword, int64_to_numeric(count)) >= 0;
}

/* Compare a bound of the schema with a number, exactly. */
static int
compare(const JsonbValue *bound, Numeric number)
{
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(bound->val.numeric),
											 NumericGetDatum(number)));
}
