/*
 * refusal.c
 *		Why a proposal was not recorded, in words.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "refusal.h"
#include "visible.h"

/* How a DETAIL names a place. */
#define AT "At \""
#define AT_END "\": "

/* How a HINT begins that says what to put there. */
#define SEND "Send "

static const struct
{
	int			sqlstate;
	const char *code;
	const char *advice;
}			kinds[] =
{
	{AL_ERR_UNKNOWN_TOOL, "unknown_tool", "correct"},
	{AL_ERR_MISSING_ARGUMENTS, "missing_arguments", "correct"},
	{AL_ERR_UNKNOWN_ARGUMENTS, "unknown_arguments", "correct"},
	{AL_ERR_INVALID_ARGUMENTS, "invalid_arguments", "correct"},
	{AL_ERR_FORBIDDEN, "forbidden", "escalate"},
	{AL_ERR_CHECK_REFUSED, "check_refused", "approve"},
	{AL_ERR_IDENTITY_CONFLICT, "identity_conflict", "verify"},
	{AL_ERR_INVALID_IDENTITY, "invalid_identity", "correct"},
	{AL_ERR_REQUEST_TOO_LARGE, "request_too_large", "correct"},
	{AL_ERR_WAIT_IN_OWN_TRANSACTION, "wait_in_own_transaction", "correct"},
	{AL_ERR_STATE_CHANGED, "state_changed", "verify"},
	{AL_ERR_NOT_ALLOWED, "not_allowed", "escalate"},
	{AL_ERR_APPROVAL_INVALID, "approval_invalid", "approve"},
	{AL_ERR_UNKNOWN_ACTION, "unknown_action", "correct"},
	{AL_ERR_INVALID_DEFINITION, "invalid_definition", "escalate"},
	{AL_ERR_IN_USE, "in_use", "escalate"},
	{AL_ERR_STALE_TOKEN, "stale_token", "stop"},
	{AL_ERR_QUOTA_EXCEEDED, "quota_exceeded", "wait"},
	{AL_ERR_UNAVAILABLE, "unavailable", "wait"}
};

static int	find_kind(int sqlstate);
static int	kind_of(int sqlstate);
static void say_finding(StringInfo out, const AlFinding *finding);

/* Makes a refusal. */
AlRefusal *
al_refusal_make(int sqlstate, char *message, char *detail, char *hint, List *findings)
{
	AlRefusal  *refusal = palloc0(sizeof(AlRefusal));

	refusal->sqlstate = sqlstate;
	refusal->message = unconstify(char *, al_visible(message));
	refusal->detail = unconstify(char *, al_visible(detail));
	refusal->hint = unconstify(char *, al_visible(hint));
	refusal->findings = findings;
	return refusal;
}

/* Raises it as an error. */
void
al_refuse(const AlRefusal *refusal)
{
	char	   *detail = al_refusal_detail(refusal);
	char	   *hint = al_refusal_hint(refusal);

	ereport(ERROR,
			(errcode(refusal->sqlstate),
			 errmsg("%s", refusal->message),
			 detail ? errdetail("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0));
}

/* Tells whether an error is a refusal. */
bool
al_is_refusal(int sqlstate)
{
	return find_kind(sqlstate) >= 0;
}

/* Makes a refusal of an error; what is said of one place becomes a finding. */
AlRefusal *
al_refusal_of(const ErrorData *error)
{
	AlRefusal  *refusal = al_refusal_make(error->sqlerrcode, error->message, error->detail, error->hint, NIL);
	const char *detail = error->detail ? error->detail : "";
	const char *end = strncmp(detail, AT, strlen(AT)) == 0 ? strstr(detail, AT_END) : NULL;

	if (end != NULL && detail[strlen(AT)] == '/')
	{
		AlFinding  *finding = palloc0(sizeof(AlFinding));

		finding->kind = AL_FINDING_INVALID;
		finding->at = pnstrdup(detail + strlen(AT), end - detail - strlen(AT));
		if (error->hint != NULL && strncmp(error->hint, SEND, strlen(SEND)) == 0)
			finding->want = pnstrdup(error->hint + strlen(SEND), strcspn(error->hint + strlen(SEND), "."));
		else
			finding->want = pstrdup(end + strlen(AT_END));
		refusal->findings = list_make1(finding);
	}
	return refusal;
}

/* Gives the name of a refusal's SQLSTATE. */
const char *
al_refusal_code(int sqlstate)
{
	return kinds[kind_of(sqlstate)].code;
}

/* Gives what the caller does about it. */
const char *
al_refusal_advice(int sqlstate)
{
	return kinds[kind_of(sqlstate)].advice;
}

/* Says what is wrong. */
char *
al_refusal_detail(const AlRefusal *refusal)
{
	StringInfoData out;
	ListCell   *cell;

	if (refusal->detail != NULL || refusal->findings == NIL)
		return refusal->detail;
	initStringInfo(&out);
	foreach(cell, refusal->findings)
	{
		if (out.len > 0)
			appendStringInfoChar(&out, ' ');
		say_finding(&out, lfirst(cell));
	}
	return unconstify(char *, al_visible(out.data));
}

/* Says what to do next. */
char *
al_refusal_hint(const AlRefusal *refusal)
{
	StringInfoData out;
	ListCell   *cell;

	initStringInfo(&out);
	foreach(cell, refusal->findings)
	{
		AlFinding  *finding = lfirst(cell);

		if (finding->suggest != NULL && refusal->sqlstate == AL_ERR_UNKNOWN_TOOL)
			appendStringInfo(&out, "Perhaps you meant \"%s\". ", finding->suggest);
		else if (finding->suggest != NULL)
			appendStringInfo(&out, AT "%s\" send %s. ", finding->at, finding->suggest);
	}
	if (refusal->hint != NULL)
		appendStringInfoString(&out, refusal->hint);
	return out.len > 0 ? unconstify(char *, al_visible(out.data)) : NULL;
}

/* Says all of it. */
char *
al_refusal_observation(const AlRefusal *refusal)
{
	char	   *detail = al_refusal_detail(refusal);
	char	   *hint = al_refusal_hint(refusal);
	bool		told = (detail && strstr(detail, "Nothing was recorded") != NULL) || (hint && strstr(hint, "Nothing was recorded") != NULL);

	return psprintf("Refused: %s.%s%s%s%s%s", refusal->message, told ? "" : " Nothing was recorded.", detail ? " " : "",
					detail ? detail : "", hint ? " " : "", hint ? hint : "");
}

/* Finds a kind, -1 for what is none of ours. */
static int
find_kind(int sqlstate)
{
	for (int i = 0; i < lengthof(kinds); i++)
	{
		if (kinds[i].sqlstate == sqlstate)
			return i;
	}
	return -1;
}

/* Finds the kind of a refusal. */
static int
kind_of(int sqlstate)
{
	int			kind = find_kind(sqlstate);

	if (kind < 0)
		elog(ERROR, "SQLSTATE %s is no refusal", unpack_sql_state(sqlstate));
	return kind;
}

/* Says one finding. */
static void
say_finding(StringInfo out, const AlFinding *finding)
{
	const char *want = finding->want;

	appendStringInfo(out, AT "%s" AT_END, finding->at);
	if (finding->got != NULL)
		appendStringInfo(out, "got %s, want %s.", finding->got, want ? want : "something else");
	else
		appendStringInfo(out, "want %s.", want ? want : "a value");
}
