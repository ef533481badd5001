/*
 * readiness.c
 *		The checklist of a tool: identity, declared idempotency, timeouts, lookup,
 *		bounded retries, owner.
 *
 * Timeouts and retries always have bounds, by default or by definition; they
 * are on the list to be seen.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "authority.h"
#include "readiness.h"
#include "session.h"

PG_FUNCTION_INFO_V1(al_sql_readiness);

/* What can be missing, and what to write into the options then. */
typedef enum Piece
{
	PIECE_IDENTITY,
	PIECE_IDEMPOTENCY,
	PIECE_LOOKUP,
	PIECE_OWNER
} Piece;

static const struct
{
	const char *missing;
	const char *option;			/* NULL: it is no option */
}			items[] = {
	[PIECE_IDENTITY] = {"no identity", NULL},
	[PIECE_IDEMPOTENCY] = {"no idempotency declared", "\"idempotency\": {\"header\": \"...\", \"window\": \"...\"}"},
	[PIECE_LOOKUP] = {"no lookup", "\"lookup\": {\"request\": \"GET /...\", \"match\": \"...\"}"},
	[PIECE_OWNER] = {"no owner", "\"owner\": \"...\""}
};

static bool has(const AlTool *tool, Piece item);
static bool is_consequential(const AlTool *tool);
static char *idempotency_words(const AlTool *tool);
static char *policy_words(const AlTool *tool);
static char *remedy(const AlTool *tool);
static char *duration(int64 ms);

/* Says what a consequential tool lacks. */
char *
al_readiness_missing(const AlTool *tool)
{
	StringInfoData words;

	if (!is_consequential(tool))
		return NULL;
	initStringInfo(&words);
	for (int i = 0; i < lengthof(items); i++)
	{
		if (!has(tool, (Piece) i))
			appendStringInfo(&words, "%s%s", words.len > 0 ? ", " : "", items[i].missing);
	}
	return words.len > 0 ? words.data : NULL;
}

/* Says for what its actions wait, when nobody has said which do. */
char *
al_readiness_gate(const AlTool *tool)
{
	return tool->def->approval == AL_APPROVAL_BY_READINESS ? al_readiness_missing(tool) : NULL;
}

/* _readiness(tool_id): a row for who may perform the tool or looks after it, else nulls */
Datum
al_sql_readiness(PG_FUNCTION_ARGS)
{
	Oid			caller = GetUserId();
	MemoryContext context = CurrentMemoryContext;
	TupleDesc	descriptor;
	Datum		values[9] = {0};
	bool		nulls[9];
	char	   *texts[9] = {NULL};
	AlSession	session;
	AlTool	   *tool;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	al_session_begin(&session, false);
	al_registry_refresh();
	tool = al_registry_tool_guarded(PG_GETARG_INT32(0));
	MemoryContextSwitchTo(context);
	if (tool != NULL && (al_registry_may_perform(tool, caller) || al_is_operator(caller) || al_is_administrator(caller)))
	{
		texts[1] = has(tool, PIECE_IDENTITY) ? (tool->def->identity ? tool->def->identity : "arguments and run") : NULL;
		texts[2] = idempotency_words(tool);
		texts[3] = psprintf("%s, processing %s", duration(tool->def->timeout_ms), duration(tool->def->max_processing_ms));
		texts[4] = tool->def->lookup == NULL ? NULL : tool->def->lookup->path ? psprintf("GET %s", tool->def->lookup->path) : "where the answer says";
		texts[5] = psprintf("%d in %s", tool->def->attempts, duration(tool->def->window_ms));
		texts[6] = has(tool, PIECE_OWNER) ? tool->def->owner : NULL;
		texts[7] = policy_words(tool);
		texts[8] = remedy(tool);
		values[0] = BoolGetDatum(al_readiness_missing(tool) == NULL);
	}
	for (int i = 0; i < lengthof(values); i++)
	{
		nulls[i] = i == 0 ? texts[7] == NULL : texts[i] == NULL;
		if (texts[i] != NULL)
			values[i] = CStringGetTextDatum(texts[i]);
	}
	al_session_end(&session);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* Tells whether a tool has an item of the checklist. */
static bool
has(const AlTool *tool, Piece item)
{
	const AlToolDef *def = tool->def;

	switch (item)
	{
		case PIECE_IDENTITY:
			/* A hash of the arguments takes two that are meant for one. */
			return def->per_run || (def->identity != NULL && strchr(def->identity, '{') != NULL);
		case PIECE_IDEMPOTENCY:
			return tool->idempotency->declared;
		case PIECE_LOOKUP:
			return def->lookup != NULL;
		case PIECE_OWNER:
			return def->owner != NULL && OidIsValid(get_role_oid(def->owner, true));
	}
	return false;
}

/* Tells whether doing it twice, or not knowing, does harm. */
static bool
is_consequential(const AlTool *tool)
{
	return tool->def->type == AL_TYPE_NON_IDEMPOTENT || tool->def->type == AL_TYPE_IRREVERSIBLE;
}

/* Says what is declared of keys, NULL when nothing is. */
static char *
idempotency_words(const AlTool *tool)
{
	char	   *place = al_registry_key_place(tool);

	if (!tool->idempotency->declared)
		return NULL;
	return place ? psprintf("%s, %s", place, duration(tool->idempotency->window_ms)) : pstrdup("none");
}

/* Says which actions wait for approval. */
static char *
policy_words(const AlTool *tool)
{
	char	   *missing = al_readiness_missing(tool);

	switch (tool->def->approval)
	{
		case AL_APPROVAL_NEVER:
			return pstrdup("never");
		case AL_APPROVAL_ALWAYS:
			return pstrdup("always");
		case AL_APPROVAL_IF:
			return psprintf("if %s", tool->def->approval_if);
		case AL_APPROVAL_BY_READINESS:
			break;
	}
	return missing ? psprintf("always: %s", missing) : pstrdup("not needed");
}

/* Gives the statement that makes a tool ready, with gaps to fill; NULL when it is. */
static char *
remedy(const AlTool *tool)
{
	StringInfoData options;

	if (al_readiness_missing(tool) == NULL)
		return NULL;
	initStringInfo(&options);
	for (int i = 0; i < lengthof(items); i++)
	{
		if (items[i].option != NULL && !has(tool, (Piece) i))
			appendStringInfo(&options, "%s%s", options.len > 0 ? ", " : "", items[i].option);
	}
	return psprintf("%s%s", options.len > 0 ? psprintf("SELECT actionledger.alter_tool(%s, '{%s}');", quote_literal_cstr(tool->name), options.data) : "",
					has(tool, PIECE_IDENTITY) ? "" : options.len > 0 ? " -- and define it anew with an identity" : "-- define it anew with an identity");
}

/* Prints a duration in the largest unit that divides it, a day in hours. */
static char *
duration(int64 ms)
{
	static const struct
	{
		int64		ms;
		int64		least;
		const char *unit;
	}			units[] = {
		{INT64CONST(86400000), INT64CONST(172800000), "d"}, {INT64CONST(3600000), INT64CONST(3600000), "h"},
		{INT64CONST(60000), INT64CONST(60000), "m"}, {INT64CONST(1000), INT64CONST(1000), "s"}
	};

	for (int i = 0; i < lengthof(units); i++)
	{
		if (ms >= units[i].least && ms % units[i].ms == 0)
			return psprintf(INT64_FORMAT "%s", ms / units[i].ms, units[i].unit);
	}
	return psprintf(INT64_FORMAT "ms", ms);
}
