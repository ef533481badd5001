/*
 * schema.h
 *		JSON Schema (2020-12) for the arguments of a tool.
 *
 * Keywords: type (unions too), properties, required, additionalProperties,
 * enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
 * multipleOf, minLength, maxLength, pattern, items, prefixItems, minItems,
 * maxItems, uniqueItems, minProperties, maxProperties, allOf, anyOf, oneOf,
 * not, if, then, else, $defs with local $ref, format (date, date-time, email,
 * uri, uuid); title, description, default, examples, $schema, $id, $comment are
 * annotations.  Any other keyword is refused when the tool is created, never
 * ignored.  Numbers are compared exactly, as numeric.
 */
#ifndef AL_SCHEMA_H
#define AL_SCHEMA_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* In the order in which findings are reported: the cheapest stage first. */
typedef enum AlFindingKind
{
	AL_FINDING_MISSING,			/* a required top-level argument */
	AL_FINDING_UNKNOWN,			/* a top-level argument that the schema does not know */
	AL_FINDING_INVALID			/* everything else */
} AlFindingKind;

typedef struct AlFinding
{
	AlFindingKind kind;
	char	   *at;				/* JSON Pointer into the arguments */
	char	   *got;			/* what came, shortened: "\"425000\" (string)"; NULL for missing */
	char	   *want;			/* "integer >= 1" */
	char	   *suggest;		/* the value or the name to send instead, or NULL */
} AlFinding;

/*
 * Check a schema when a tool is created.  Raises LG015 with the JSON Pointer of
 * the first unsupported or malformed keyword in DETAIL ("/input/properties/x/…").
 * tool_root: the schema is a tool's input, an object schema: "type" may be
 * absent or "object", and argument names beginning with "_" are refused.
 */
extern void al_schema_check(Jsonb *schema, bool tool_root);

/*
 * Validate a value.  tool_root: additionalProperties is false at the top level
 * unless the schema says otherwise, and missing and unknown top-level arguments
 * are findings of their own kind.  Returns a list of AlFinding *, NIL when
 * valid, at most 20; never raises for any value.
 */
extern List *al_schema_validate(Jsonb *schema, Jsonb *value, bool tool_root);

/* A value as a finding shows it, cut short: "425000" (string). */
extern char *al_schema_got(const JsonbValue *value);

/* A value as JSON when it is short enough to be shown whole, else NULL. */
extern char *al_schema_whole(const JsonbValue *value);

#endif							/* AL_SCHEMA_H */
