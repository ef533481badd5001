/*
 * call_options.c
 *		The options of perform and its sisters.
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "definition.h"
#include "option.h"
#include "prepare.h"
#include "refusal.h"
#include "schema.h"

#define PRIORITIES "1 (before the others of the service), 0 or -1 (after them)"
#define A_TEXT "a string that is not empty"

static const char *const option_names[] = {
	"priority", "not_before", "expires_at", "if_unavailable", "actor", "meta", "on_error", NULL
};

static const char *read_option(AlProposal *proposal, const char *name, JsonbValue *value, bool *on_error_skip);
static bool has_zone(const char *text);
static const char *read_time(JsonbValue *value, TimestampTz *at);
static const char *read_priority(JsonbValue *value, int *priority);
static const char *read_text(JsonbValue *value, char **text);
static const char *read_choice(JsonbValue *value, const char *no, const char *yes, bool *chosen);
static AlFinding *finding_of(const char *name, const JsonbValue *value, const char *want);
static AlFinding *unknown_option(const char *name, const JsonbValue *value, bool many);

/* Reads the options of a call. */
List *
al_prepare_options(AlProposal *proposal, Jsonb *options, bool *on_error_skip)
{
	JsonbValue	root = al_option_root(options);
	List	   *findings = NIL;
	JsonbIterator *it;
	JsonbValue	key;
	JsonbValue	value;

	if (!al_option_is_object(&root))
		return list_make1(finding_of(NULL, &root, "an object"));
	it = al_option_open(&root);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		char	   *name = pnstrdup(key.val.string.val, key.val.string.len);
		const char *want;

		(void) JsonbIteratorNext(&it, &value, true);
		want = read_option(proposal, name, &value, on_error_skip);
		if (want != NULL)
			findings = lappend(findings, want[0] == '\0' ? unknown_option(name, &value, on_error_skip != NULL)
							   : finding_of(name, &value, want));
	}
	return findings;
}

/* Refuses an action that would fail as expired, without a send, as soon as it is recorded. */
AlRefusal *
al_prepare_expiry(const AlProposal *proposal)
{
	bool		over = proposal->expires_at <= GetCurrentTimestamp();
	AlFinding  *finding;

	if (proposal->expires_at == 0 || (!over && proposal->expires_at > proposal->not_before))
		return NULL;
	finding = palloc0(sizeof(AlFinding));
	finding->kind = AL_FINDING_INVALID;
	finding->at = pstrdup("/options/expires_at");
	finding->got = psprintf("\"%s\" (string)", al_words_time(proposal->expires_at));
	finding->want = pstrdup(over ? "a time that is not over" : "a time after not_before");
	return al_refusal_make(AL_ERR_INVALID_ARGUMENTS, psprintf("the action of \"%s\" would expire before it can be sent", proposal->tool->name), NULL,
						   pstrdup("Nothing was recorded. Ask whether it is still wanted; if it is, give a later expires_at, or none."), list_make1(finding));
}

/* Reads one option; returns what it wants instead, "" for one that is not there, NULL when it is fine. */
static const char *
read_option(AlProposal *proposal, const char *name, JsonbValue *value, bool *on_error_skip)
{
	if (strcmp(name, "not_before") == 0)
		return read_time(value, &proposal->not_before);
	if (strcmp(name, "expires_at") == 0)
		return read_time(value, &proposal->expires_at);
	if (strcmp(name, "priority") == 0)
		return read_priority(value, &proposal->priority);
	if (strcmp(name, "if_unavailable") == 0)
		return read_choice(value, "queue", "refuse", &proposal->refuse_unavailable);
	if (strcmp(name, "actor") == 0)
		return read_text(value, &proposal->actor);
	if (strcmp(name, "meta") == 0)
	{
		proposal->meta = JsonbValueToJsonb(value);
		return NULL;
	}
	if (strcmp(name, "on_error") == 0 && on_error_skip != NULL)
		return read_choice(value, "raise", "skip", on_error_skip);
	return "";
}

/*
 * Tells whether a text is written as a date, a time of day and a zone: PostgreSQL
 * would take "tomorrow" too, and the zone of the session where none is said.
 */
static bool
has_zone(const char *text)
{
	const char *time = strchr(text, ':');
	const char *zone;

	if (strspn(text, "0123456789") < 4 || time == NULL)
		return false;
	zone = time + strcspn(time, "Zz+-");
	if (*zone == 'Z' || *zone == 'z')
		return zone[1] == '\0';
	return *zone != '\0' && isdigit((unsigned char) zone[1]) && zone[1 + strspn(zone + 1, "0123456789:")] == '\0';
}

/* Reads a time. */
static const char *
read_time(JsonbValue *value, TimestampTz *at)
{
	static const char *const want = "a time with its zone, such as \"2030-01-31T12:00:00Z\"";
	MemoryContext caller = CurrentMemoryContext;
	volatile bool readable = true;
	char	   *text;

	if (read_text(value, &text) != NULL || !has_zone(text))
		return want;
	PG_TRY();
	{
		*at = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(text),
													  ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION &&
			geterrcode() != ERRCODE_INVALID_PARAMETER_VALUE)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		readable = false;
	}
	PG_END_TRY();
	return readable ? NULL : want;
}

/* Reads a priority. */
static const char *
read_priority(JsonbValue *value, int *priority)
{
	char	   *text;

	if (value->type != jbvNumeric)
		return PRIORITIES;
	text = numeric_normalize(value->val.numeric);
	if (strcmp(text, "1") != 0 && strcmp(text, "0") != 0 && strcmp(text, "-1") != 0)
		return PRIORITIES;
	*priority = atoi(text);
	return NULL;
}

/* Reads a text. */
static const char *
read_text(JsonbValue *value, char **text)
{
	if (value->type != jbvString || value->val.string.len == 0)
		return A_TEXT;
	*text = pnstrdup(value->val.string.val, value->val.string.len);
	return NULL;
}

/* Reads one of two words. */
static const char *
read_choice(JsonbValue *value, const char *no, const char *yes, bool *chosen)
{
	char	   *text = NULL;

	if (read_text(value, &text) != NULL || (strcmp(text, no) != 0 && strcmp(text, yes) != 0))
		return psprintf("\"%s\" or \"%s\"", no, yes);
	*chosen = strcmp(text, yes) == 0;
	return NULL;
}

/* Makes a finding about an option; NULL names them all. */
static AlFinding *
finding_of(const char *name, const JsonbValue *value, const char *want)
{
	AlFinding  *finding = palloc0(sizeof(AlFinding));
	AlPlace		place = {"", "", "/options"};

	finding->kind = AL_FINDING_INVALID;
	finding->at = pstrdup(name == NULL ? place.at : al_place_member(place, name).at);
	finding->got = al_schema_got(value);
	finding->want = pstrdup(want);
	return finding;
}

/* Makes a finding about an option that is not there. */
static AlFinding *
unknown_option(const char *name, const JsonbValue *value, bool many)
{
	AlFinding  *finding = finding_of(name, value, many
									 ? "one of the options priority, not_before, expires_at, if_unavailable, actor, meta and on_error"
									 : "one of the options priority, not_before, expires_at, if_unavailable, actor and meta");
	const char *nearest = al_nearest_name(name, option_names);

	finding->suggest = nearest != NULL && (many || strcmp(nearest, "on_error") != 0) ? pstrdup(nearest) : NULL;
	return finding;
}
