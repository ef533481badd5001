/*
 * schema_internal.h
 *		What the files of the JSON Schema validator share.
 *
 * A schema and a value are both passed as JsonbValue: a scalar, or jbvBinary
 * for an object or an array.  Nothing is copied out of the jsonb.
 *
 *		schema.c			validation
 *		schema_assert.c		what a schema by itself asks of a value
 *		schema_report.c		findings and suggestions
 *		schema_check.c		a schema when a tool is created
 *		schema_words.c		"got", "want" and "suggest" of a finding
 *		schema_json.c		access to jsonb, JSON Pointers, equality
 *		schema_pattern.c	ECMA-262 patterns for PostgreSQL's engine
 *		schema_format.c		the five formats
 */
#ifndef AL_SCHEMA_INTERNAL_H
#define AL_SCHEMA_INTERNAL_H

#include "postgres.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

#include "schema.h"

#define AL_SCHEMA_MAX_FINDINGS 20

/* Deepest nesting of subschemas in a schema, and of $ref without data. */
#define AL_SCHEMA_MAX_DEPTH 100

/* One step of a JSON Pointer, chained on the stack; NULL is the whole document. */
typedef struct AlPath
{
	const struct AlPath *up;
	const char *name;			/* not NUL-terminated; NULL: an array index */
	int			len;
	int			index;
} AlPath;

/* A finding and what choosing the nearest branch of anyOf needs to know of it. */
typedef struct AlFound
{
	AlFinding	finding;		/* first: the lists hold it as AlFinding * */
	int			steps;			/* length of the path */
	bool		fixed;			/* a const or enum did not match */
} AlFound;

/* One validation. */
typedef struct AlSchemaRun
{
	JsonbValue	root;			/* the schema */
	bool		tool_root;
	int			quiet;			/* above zero: the answer only */
	int			depth;
	int64		work;			/* schemas that may still be applied */
	int			explaining;
	AlFound    *over;			/* a bound was passed: invalid, whatever else */
	List	   *found[AL_FINDING_INVALID + 1];
	MemoryContext leaf;			/* reset after each application */
} AlSchemaRun;

/* How a value fits what a schema by itself asks. */
typedef enum AlFit
{
	AL_FIT_OK,
	AL_FIT_OTHER_TYPE,
	AL_FIT_NOT_LISTED,			/* const or enum */
	AL_FIT_OUT_OF_BOUNDS		/* range, length, pattern, format, size */
} AlFit;

/* schema.c */
extern bool al_schema_apply_quietly(AlSchemaRun *run, const JsonbValue *schema,
									const JsonbValue *value, const AlPath *path);

/* schema_assert.c */
extern AlFit al_schema_fit(const JsonbValue *schema, const JsonbValue *value);

/* schema_report.c */
extern bool al_schema_is_full(const AlSchemaRun *run);
extern AlFound *al_schema_report(AlSchemaRun *run, AlFindingKind kind, const AlPath *path,
								 const JsonbValue *got, const char *want, char *suggest);
extern void al_schema_report_own(AlSchemaRun *run, const JsonbValue *schema,
								 const JsonbValue *value, const AlPath *path, bool fixed);
extern void al_schema_report_missing(AlSchemaRun *run, const JsonbValue *schema,
									 const JsonbValue *name, const AlPath *path);
extern void al_schema_report_unknown(AlSchemaRun *run, List *known, const JsonbValue *object,
									 const JsonbValue *value, const AlPath *path);
extern void al_schema_report_again(AlSchemaRun *run, List *const *found);
extern void al_schema_give_up(AlSchemaRun *run, const AlPath *path, const JsonbValue *value,
							  const char *want);
extern char *al_schema_suggest(AlSchemaRun *run, const JsonbValue *schema,
							   const JsonbValue *value, const AlPath *path);

/* schema_json.c */
extern void al_schema_root(Jsonb *jsonb, JsonbValue *out);
extern bool al_schema_is_object(const JsonbValue *value);
extern bool al_schema_is_array(const JsonbValue *value);
extern int	al_schema_size(const JsonbValue *value);
extern bool al_schema_get(const JsonbValue *object, const char *key, JsonbValue *out);
extern bool al_schema_get_len(const JsonbValue *object, const char *key, int len, JsonbValue *out);
extern List *al_schema_elements(const JsonbValue *array);
extern bool al_schema_is_text(const JsonbValue *value, const char *text);
extern bool al_schema_is_integer(const JsonbValue *value);
extern int	al_schema_compare(const JsonbValue *a, const JsonbValue *b);
extern bool al_schema_equal(const JsonbValue *a, const JsonbValue *b);
extern int	al_schema_steps(const AlPath *path);
extern char *al_schema_path_text(const AlPath *path, const char *prefix);
extern bool al_schema_resolve(const JsonbValue *root, const JsonbValue *ref, JsonbValue *target);
extern List *al_schema_in_place(const JsonbValue *root, const JsonbValue *schema, bool with_not);

extern List *al_schema_names(const JsonbValue *object);
extern bool al_schema_is_listed(List *names, const char *name);

/* What al_schema_declared finds at the top level of a tool's input. */
typedef struct AlDeclared
{
	List	   *names;			/* of char * */
	bool		open;			/* additionalProperties is there and not false */
	List	   *seen;			/* containers of the schemas that were read */
} AlDeclared;

extern void al_schema_declared(const JsonbValue *root, const JsonbValue *schema,
							   AlDeclared *declared);

/* schema_words.c */
extern const char *al_schema_type_name(const JsonbValue *value);
extern char *al_schema_short(const JsonbValue *value, int limit, bool *cut);
extern char *al_schema_want(const JsonbValue *root, const JsonbValue *schema);
extern char *al_schema_want_own(const JsonbValue *root, const JsonbValue *schema,
								const JsonbValue *value);
extern char *al_schema_want_branch(const JsonbValue *root, const JsonbValue *branches, bool one);
extern char *al_schema_want_not(const JsonbValue *root, const JsonbValue *schema);
extern char *al_schema_quote_names(List *names, int limit, const char *last);

/* schema_pattern.c */
extern text *al_schema_pattern_translate(const char *pattern, int len, char **error);
extern char *al_schema_pattern_check(const char *pattern, int len);
extern bool al_schema_pattern_match(const JsonbValue *pattern, const JsonbValue *value);

/* schema_format.c */
extern const char *const al_schema_format_names[];
extern const char *al_schema_format_example(const JsonbValue *format);
extern bool al_schema_format_match(const JsonbValue *format, const JsonbValue *value);

#endif							/* AL_SCHEMA_INTERNAL_H */
