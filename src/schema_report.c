/*
 * schema_report.c
 *		Findings of a validation, and the value or name to send instead.
 *
 * A suggestion is made only when it would be accepted: a candidate is applied
 * to the same schema first.  A suggested value is JSON, so a string comes in
 * quotes; a suggested name comes bare.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/numeric.h"

#include "definition.h"
#include "schema_internal.h"

#define MAX_NAMES 12			/* names listed for an unknown one */
#define MAX_SUGGEST 200			/* characters of a suggested value */
#define MAX_NUMBER_TEXT 40		/* bytes of a string that may be meant as a number */
#define MAX_NAME 100			/* bytes of a name that is compared with others */

static AlFound *make_found(AlFindingKind kind, const AlPath *path, const JsonbValue *got,
						   const char *want, char *suggest);
static bool add_found(AlSchemaRun *run, AlFound *found);
static bool is_of_other_type(const JsonbValue *schema, const JsonbValue *value);
static char *suggest_retyped(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
							 const AlPath *path);
static bool would_fit(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
					  const AlPath *path);
static char *suggest_listed(const JsonbValue *schema, const JsonbValue *value);
static char *suggest_name(const AlPath *step, List *known, const JsonbValue *object);
static bool is_number_text(const char *s, int len);

/* Tell that a further finding would be of no use. */
bool
al_schema_is_full(const AlSchemaRun *run)
{
	return list_length(run->found[AL_FINDING_INVALID]) >= AL_SCHEMA_MAX_FINDINGS;
}

/* Report a finding, unless the walk is quiet; got is NULL for what is missing. */
AlFound *
al_schema_report(AlSchemaRun *run, AlFindingKind kind, const AlPath *path, const JsonbValue *got,
				 const char *want, char *suggest)
{
	AlFound    *found;

	if (run->quiet > 0 || run->over != NULL ||
		list_length(run->found[kind]) >= AL_SCHEMA_MAX_FINDINGS)
		return NULL;
	found = make_found(kind, path, got, want, suggest);
	return add_found(run, found) ? found : NULL;
}

/* Report that a value is not what the keywords of a schema itself want. */
void
al_schema_report_own(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
					 const AlPath *path, bool fixed)
{
	AlFound    *found;

	if (run->quiet > 0 || al_schema_is_full(run))
		return;
	found = al_schema_report(run, AL_FINDING_INVALID, path, value,
							 al_schema_want_own(&run->root, schema, value),
							 al_schema_suggest(run, schema, value, path));
	if (found != NULL)
		found->fixed = fixed;
}

/* Report a property that is required and absent. */
void
al_schema_report_missing(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *name,
						 const AlPath *path)
{
	AlPath		step = {.up = path, .name = name->val.string.val, .len = name->val.string.len};
	const char *want = "a value";
	char	   *suggest = NULL;
	JsonbValue	properties;
	JsonbValue	property;
	JsonbValue	value;

	if (run->quiet > 0)
		return;
	if ((al_schema_get(schema, "properties", &properties) &&
		 al_schema_get_len(&properties, step.name, step.len, &property)) ||
		(path == NULL && al_schema_get(&run->root, "properties", &properties) &&
		 al_schema_get_len(&properties, step.name, step.len, &property)))
	{
		want = al_schema_want(&run->root, &property);
		if (al_schema_get(&property, "const", &value) ||
			al_schema_get(&property, "default", &value))
			suggest = al_schema_whole(&value);
	}
	al_schema_report(run,
					 run->tool_root && path == NULL ? AL_FINDING_MISSING : AL_FINDING_INVALID,
					 &step, NULL, want, suggest);
}

/* Report a property that the schema does not know; step is its path. */
void
al_schema_report_unknown(AlSchemaRun *run, List *known, const JsonbValue *object,
						 const JsonbValue *value, const AlPath *step)
{
	bool		top = run->tool_root && step->up == NULL;
	AlFindingKind kind = top ? AL_FINDING_UNKNOWN : AL_FINDING_INVALID;
	const char *noun = top ? "argument" : "property";
	char	   *want;

	if (run->quiet > 0 || list_length(run->found[kind]) >= AL_SCHEMA_MAX_FINDINGS)
		return;
	if (known == NIL)
		want = psprintf("no %s of this name", noun);
	else
		want = psprintf("%s named %s", noun, al_schema_quote_names(known, MAX_NAMES, "or"));
	al_schema_report(run, kind, step, value, want, suggest_name(step, known, object));
}

/* Report findings that were collected aside. */
void
al_schema_report_again(AlSchemaRun *run, List *const *found)
{
	ListCell   *cell;

	for (int kind = 0; kind < (int) lengthof(run->found); kind++)
	{
		foreach(cell, found[kind])
		{
			add_found(run, lfirst(cell));
		}
	}
}

/* Note that a bound was passed: the value is invalid, whatever else is found. */
void
al_schema_give_up(AlSchemaRun *run, const AlPath *path, const JsonbValue *value,
				  const char *want)
{
	run->over = make_found(AL_FINDING_INVALID, path, value, want, NULL);
}

/* Suggest a value that the schema would accept instead, or NULL. */
char *
al_schema_suggest(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
				  const AlPath *path)
{
	char	   *suggest = NULL;

	if (run->quiet > 0)
		return NULL;
	if (is_of_other_type(schema, value))
		suggest = suggest_retyped(run, schema, value, path);
	return suggest != NULL ? suggest : suggest_listed(schema, value);
}

/* Make a finding. */
static AlFound *
make_found(AlFindingKind kind, const AlPath *path, const JsonbValue *got, const char *want,
		   char *suggest)
{
	AlFound    *found = palloc0(sizeof(AlFound));

	found->finding.kind = kind;
	found->finding.at = al_schema_path_text(path, "");
	found->finding.got = got == NULL ? NULL : al_schema_got(got);
	found->finding.want = pstrdup(want);
	found->finding.suggest = suggest;
	found->steps = al_schema_steps(path);
	return found;
}

/*
 * Add a finding; false when there are enough, or it says again what another
 * says: the same place and want, or the same name missing or unknown.
 */
static bool
add_found(AlSchemaRun *run, AlFound *found)
{
	AlFindingKind kind = found->finding.kind;
	ListCell   *cell;

	if (list_length(run->found[kind]) >= AL_SCHEMA_MAX_FINDINGS)
		return false;
	foreach(cell, run->found[kind])
	{
		AlFinding  *other = lfirst(cell);

		if (strcmp(other->at, found->finding.at) == 0 &&
			(kind != AL_FINDING_INVALID || strcmp(other->want, found->finding.want) == 0))
			return false;
	}
	run->found[kind] = lappend(run->found[kind], found);
	return true;
}

/* Tell whether it is the type, or the list of values, that refuses a value. */
static bool
is_of_other_type(const JsonbValue *schema, const JsonbValue *value)
{
	AlFit		fit = al_schema_fit(schema, value);
	JsonbValue	branches;
	ListCell   *cell;

	if (fit != AL_FIT_OK ||
		(!al_schema_get(schema, "anyOf", &branches) && !al_schema_get(schema, "oneOf", &branches)))
		return fit == AL_FIT_OTHER_TYPE || fit == AL_FIT_NOT_LISTED;
	foreach(cell, al_schema_elements(&branches))
	{
		JsonbValue *branch = lfirst(cell);

		if (!al_schema_is_object(branch))
			return false;
		fit = al_schema_fit(branch, value);
		if (fit != AL_FIT_OTHER_TYPE && fit != AL_FIT_NOT_LISTED)
			return false;
	}
	return true;
}

/* Suggest the same value as another type: 5 for "5", true for "true", "5" for 5. */
static char *
suggest_retyped(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
				const AlPath *path)
{
	JsonbValue	other;
	char	   *text;

	if (value->type == jbvString)
	{
		text = pnstrdup(value->val.string.val, Min(value->val.string.len, MAX_NUMBER_TEXT + 1));
		if (is_number_text(text, value->val.string.len))
		{
			other.type = jbvNumeric;
			other.val.numeric =
				DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(text),
													ObjectIdGetDatum(InvalidOid),
													Int32GetDatum(-1)));
		}
		else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		{
			other.type = jbvBool;
			other.val.boolean = text[0] == 't';
		}
		else
			return NULL;
		return would_fit(run, schema, &other, path) ? text : NULL;
	}
	if (value->type != jbvNumeric && value->type != jbvBool)
		return NULL;
	text = al_schema_whole(value);
	if (text == NULL)
		return NULL;
	other.type = jbvString;
	other.val.string.val = text;
	other.val.string.len = (int) strlen(text);
	return would_fit(run, schema, &other, path) ? al_schema_whole(&other) : NULL;
}

/* Tell whether a schema would accept a value, without a trace in the run. */
static bool
would_fit(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value, const AlPath *path)
{
	AlFound    *over = run->over;
	bool		fits = al_schema_apply_quietly(run, schema, value, path);

	run->over = over;
	return fits;
}

/* Suggest the const, or of an enum the string that is meant. */
static char *
suggest_listed(const JsonbValue *schema, const JsonbValue *value)
{
	JsonbValue	keyword;
	JsonbValue	nearest;
	List	   *values;
	const char **names;
	const char *name;
	char	   *text;
	int			used = 0;
	ListCell   *cell;

	if (al_schema_get(schema, "const", &keyword))
		return al_schema_whole(&keyword);
	if (value->type != jbvString || value->val.string.len > MAX_NAME ||
		!al_schema_get(schema, "enum", &keyword))
		return NULL;
	text = pnstrdup(value->val.string.val, value->val.string.len);
	values = al_schema_elements(&keyword);
	names = palloc((list_length(values) + 1) * sizeof(char *));
	foreach(cell, values)
	{
		JsonbValue *item = lfirst(cell);

		if (item->type != jbvString || item->val.string.len > MAX_NAME)
			continue;
		names[used++] = pnstrdup(item->val.string.val, item->val.string.len);
		if (pg_strcasecmp(names[used - 1], text) == 0)
			return al_schema_whole(item);
	}
	names[used] = NULL;
	name = al_nearest_name(text, names);
	if (name == NULL)
		return NULL;
	nearest.type = jbvString;
	nearest.val.string.val = pstrdup(name);
	nearest.val.string.len = (int) strlen(name);
	return al_schema_whole(&nearest);
}

/* Suggest the nearest name that the schema knows and the object does not have. */
static char *
suggest_name(const AlPath *step, List *known, const JsonbValue *object)
{
	const char **names = palloc((list_length(known) + 1) * sizeof(char *));
	const char *nearest;
	int			used = 0;
	JsonbValue	member;
	ListCell   *cell;

	if (step->len > MAX_NAME)
		return NULL;
	foreach(cell, known)
	{
		if (strlen(lfirst(cell)) <= MAX_NAME && !al_schema_get(object, lfirst(cell), &member))
			names[used++] = lfirst(cell);
	}
	names[used] = NULL;
	nearest = al_nearest_name(pnstrdup(step->name, step->len), names);
	return nearest == NULL ? NULL : pstrdup(nearest);
}

/* Tell whether a string is exactly a number of JSON, of ordinary size. */
static bool
is_number_text(const char *s, int len)
{
	const char *digits = "0123456789";
	int			at = s[0] == '-' ? 1 : 0;
	int			count;

	if (len > MAX_NUMBER_TEXT)
		return false;
	count = (int) strspn(s + at, digits);
	if (count == 0 || (s[at] == '0' && count > 1))
		return false;
	at += count;
	if (s[at] == '.')
	{
		count = (int) strspn(s + at + 1, digits);
		if (count == 0)
			return false;
		at += count + 1;
	}
	if (s[at] == 'e' || s[at] == 'E')
	{
		at += s[at + 1] == '+' || s[at + 1] == '-' ? 2 : 1;
		count = (int) strspn(s + at, digits);
		if (count == 0 || count > 3)
			return false;
		at += count;
	}
	return at == len;
}

/* Write a value as JSON when it is short enough to be shown whole, else NULL. */
char *
al_schema_whole(const JsonbValue *value)
{
	bool		cut;
	char	   *text = al_schema_short(value, MAX_SUGGEST, &cut);

	return cut ? NULL : text;
}
