/*
 * envelope.c
 *		Reading an action and wording it as the envelope.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "approval.h"
#include "authority.h"
#include "envelope.h"
#include "json_write.h"
#include "session.h"
#include "words.h"

/* What an envelope says besides data and error. */
typedef struct Meta
{
	const char *advice;
	char	   *observation;
	const char *confirmed_by;	/* NULL: none */
	TimestampTz retry_at;		/* 0: no time is known */
	List	   *findings;		/* of AlFinding * */
	List	   *left_out;		/* of char * */
} Meta;

static AlStatement select_action = {
	"SELECT a.action_id, t.name, a.identity, a.idempotency_key, a.status::text, a.next_step::text, a.summary, a.external_ref, "
	"a.confirmed_by, a.error_code, a.error_message, a.owner, a.sends::int, a.attempts::int, a.created_at, d.next_at, "
	"a.cancelled_at IS NOT NULL, a.result, a.requested_by, a.xmin::text::bigint, a.claimed_by IS NOT NULL, a.service_id, "
	"EXISTS (SELECT FROM actionledger.attempt x WHERE x.action_id = a.action_id AND x.truncated), "
	"p.scope, p.name, p.reason, p.paused_by, p.paused_at, "
	"a.approve_by, a.approver, a.approval_reason, "
	"(SELECT s.name FROM actionledger.service s WHERE s.service_id = a.service_id), a.target, "
	"CASE WHEN a.status = 'failed' THEN (SELECT (e.evidence ->> 'superseded_by')::int8 FROM actionledger.event e "
	"WHERE e.action_id = a.action_id AND e.what = 'superseded' LIMIT 1) END, "
	"a.method = '" AL_EXTERNAL "', a.key_place IS NOT NULL, p.lookups "
	"FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) LEFT JOIN actionledger.due d USING (action_id) "
	"LEFT JOIN actionledger._paused p ON p.tool_id = a.tool_id AND p.sends AND a.claimed_by IS NULL "
	"WHERE a.action_id = $1",
	1, {INT8OID}
};

static void read_story(AlStory *story);
static bool nothing_moves(const AlStory *story, bool claimed);
static List *left_out(bool truncated);
static void put_data(JsonbParseState **state, const AlStory *story, AlAsked asked);
static void put_error(JsonbParseState **state, const char *code, const char *message);
static void put_meta(JsonbParseState **state, const Meta *meta);
static char *with_left_out(const Meta *meta);
static JsonbValue *put_findings(JsonbParseState **state, List *findings);
static void put_strings(JsonbParseState **state, List *strings);

/* Makes the envelope of an action for who looks at it. */
Jsonb *
al_envelope(int64 action_id, Oid role, AlSeen *seen)
{
	return al_envelope_asked(action_id, role, AL_ASKED_LOOK, seen);
}

/* Makes the envelope of an action. */
Jsonb *
al_envelope_asked(int64 action_id, Oid role, AlAsked asked, AlSeen *seen)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum		value = Int64GetDatum(action_id);
	JsonbParseState *state = NULL;
	AlSession	session;
	AlStory		story = {0};
	AlAdvice	advice;
	Meta		meta = {0};
	Jsonb	   *envelope = NULL;

	al_session_begin(&session, true);
	if (al_statement_run(&select_action, &value, NULL) > 0 &&
		al_may_see(role, al_column_text(0, 19), al_column_text(0, 12)))
	{
		read_story(&story);
		seen->at_rest = nothing_moves(&story, al_column_bool(0, 21));
		seen->own_transaction = TransactionIdIsCurrentTransactionId((TransactionId) al_column_int8(0, 20));
		advice = al_words_advice(&story);
		meta.advice = advice.advice;
		meta.observation = al_words_observation(&story, asked == AL_ASKED_CREATED, asked == AL_ASKED_AGAIN);
		meta.confirmed_by = story.confirmed_by;
		meta.retry_at = strcmp(advice.advice, "wait") == 0 ? al_words_moves_at(&story) : 0;
		meta.left_out = left_out(al_column_bool(0, 23));
		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		al_json_bool(&state, "ok", advice.code == NULL);
		put_data(&state, &story, asked);
		put_error(&state, advice.code, advice.message);
		put_meta(&state, &meta);
		envelope = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
		envelope = (Jsonb *) memcpy(MemoryContextAlloc(caller, VARSIZE(envelope)), envelope, VARSIZE(envelope));
	}
	al_session_end(&session);
	MemoryContextSwitchTo(caller);
	return envelope;
}

/* Makes the envelope of a refusal. */
Jsonb *
al_envelope_refused(const AlRefusal *refusal)
{
	JsonbParseState *state = NULL;
	Meta		meta = {
		.advice = al_refusal_advice(refusal->sqlstate),
		.observation = al_refusal_observation(refusal),
		.findings = refusal->findings,
		.left_out = refusal->left_out
	};

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	al_json_bool(&state, "ok", false);
	al_json_text(&state, "data", NULL);
	put_error(&state, al_refusal_code(refusal->sqlstate), refusal->message);
	put_meta(&state, &meta);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* Makes a JSON array of findings. */
Jsonb *
al_envelope_findings(List *findings)
{
	JsonbParseState *state = NULL;

	return JsonbValueToJsonb(put_findings(&state, findings));
}

/* Lists what an answer leaves out. */
static List *
left_out(bool truncated)
{
	List	   *out = NIL;

	if (truncated)
		out = lappend(out, pstrdup("a response body: only its beginning was kept (actionledger.max_response_size)"));
	if (IsolationUsesXactSnapshot())
		out = lappend(out, pstrdup("what has happened since this transaction took its snapshot"));
	return out;
}

/* Reads the action of the current result row. */
static void
read_story(AlStory *story)
{
	story->action_id = al_column_int8(0, 1);
	story->tool = al_column_text(0, 2);
	story->identity = al_column_text(0, 3);
	(void) al_status_parse(al_column_text(0, 5), &story->status);
	(void) al_step_parse(al_column_text(0, 6), &story->step);
	story->summary = al_column_text(0, 7);
	story->external_ref = al_column_text(0, 8);
	story->confirmed_by = al_column_text(0, 9);
	story->error_code = al_column_text(0, 10);
	story->error_message = al_column_text(0, 11);
	story->owner = al_column_text(0, 12);
	story->sends = al_column_int4(0, 13);
	story->created_at = al_column_int8(0, 15);
	story->next_at = al_column_int8(0, 16);
	story->cancelled = al_column_bool(0, 17);
	al_words_breaker(story, al_column_int4(0, 22));
	story->approve_by = al_column_int8(0, 29);
	story->approver = al_approval_by_whom(al_column_text(0, 30), story->owner);
	story->approval_reason = al_column_text(0, 31);
	story->service = al_column_text(0, 32);
	story->target = al_column_text(0, 33);
	story->superseded_by = al_column_int8(0, 34);
	story->external = al_column_bool(0, 35);
	story->keyed = al_column_bool(0, 36);
	if (al_column_text(0, 24) != NULL)
	{
		AlPause    *pause = palloc0(sizeof(AlPause));

		pause->sends = true;
		pause->lookups = al_column_bool(0, 37);
		pause->subject = al_pause_subject(al_column_text(0, 24), al_column_text(0, 25));
		pause->reason = al_column_text(0, 26);
		pause->by = al_column_text(0, 27);
		pause->at = al_column_int8(0, 28);
		story->pause = pause;
	}
}

/* Tells whether an action will not change by itself. */
static bool
nothing_moves(const AlStory *story, bool claimed)
{
	switch (story->step)
	{
		case AL_STEP_NONE:
			return true;
		case AL_STEP_REVIEW:
		case AL_STEP_BLOCKED:
		case AL_STEP_APPROVE:
			return !claimed;
		case AL_STEP_SEND:
		case AL_STEP_WAIT:
		case AL_STEP_RESEND:
		case AL_STEP_LOOKUP:
		case AL_STEP_APPLY:
			return false;
	}
	return false;
}

/* Puts what is known of the action. */
static void
put_data(JsonbParseState **state, const AlStory *story, AlAsked asked)
{
	bool		isnull;
	Datum		result = al_column(0, 18, &isnull);

	al_json_key(state, "data");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	al_json_int(state, "action_id", story->action_id);
	al_json_text(state, "tool", story->tool);
	al_json_text(state, "identity", story->identity);
	al_json_text(state, "idempotency_key", al_column_text(0, 4));
	al_json_text(state, "status", al_status_name(story->status));
	al_json_text(state, "next_step", al_step_name(story->step));
	al_json_text(state, "external_ref", story->external_ref);
	al_json_int(state, "attempts", al_column_int4(0, 14));
	al_json_bool(state, "created", asked == AL_ASKED_CREATED);
	al_json_key(state, "result");
	if (isnull)
	{
		JsonbValue	null = {.type = jbvNull};

		pushJsonbValue(state, WJB_VALUE, &null);
	}
	else
	{
		Jsonb	   *json = DatumGetJsonbP(result);
		JsonbValue	value;

		if (JB_ROOT_IS_SCALAR(json))
			(void) JsonbExtractScalar(&json->root, &value);
		else
		{
			value.type = jbvBinary;
			value.val.binary.data = &json->root;
			value.val.binary.len = VARSIZE(json) - VARHDRSZ;
		}
		pushJsonbValue(state, WJB_VALUE, &value);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Puts the error, null for none. */
static void
put_error(JsonbParseState **state, const char *code, const char *message)
{
	if (code == NULL)
	{
		al_json_text(state, "error", NULL);
		return;
	}
	al_json_key(state, "error");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	al_json_text(state, "code", code);
	al_json_text(state, "message", message);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Puts what to make of it. */
static void
put_meta(JsonbParseState **state, const Meta *meta)
{
	TimestampTz now = GetCurrentTimestamp();

	al_json_key(state, "meta");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	al_json_text(state, "advice", meta->advice);
	al_json_text(state, "observation", with_left_out(meta));
	al_json_text(state, "confirmed_by", meta->confirmed_by);
	al_json_text(state, "as_of", al_words_time(now));
	al_json_key(state, "findings");
	put_findings(state, meta->findings);
	al_json_key(state, "left_out");
	put_strings(state, meta->left_out);
	if (meta->retry_at != 0 && meta->retry_at != DT_NOEND)
		al_json_int(state, "retry_after_s", Max(1, (TimestampDifferenceMilliseconds(now, meta->retry_at) + 999) / 1000));
	else
		al_json_text(state, "retry_after_s", NULL);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Ends the observation with what is left out. */
static char *
with_left_out(const Meta *meta)
{
	StringInfoData out;
	ListCell   *cell;

	if (meta->left_out == NIL)
		return meta->observation;
	initStringInfo(&out);
	appendStringInfo(&out, "%s Left out: ", meta->observation);
	foreach(cell, meta->left_out)
		appendStringInfo(&out, "%s%s", foreach_current_index(cell) > 0 ? "; " : "", (char *) lfirst(cell));
	appendStringInfoChar(&out, '.');
	return out.data;
}

/* Puts an array of findings. */
static JsonbValue *
put_findings(JsonbParseState **state, List *findings)
{
	ListCell   *cell;

	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, findings)
	{
		const AlFinding *finding = lfirst(cell);

		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
		al_json_text(state, "at", finding->at);
		al_json_text(state, "got", finding->got);
		al_json_text(state, "want", finding->want);
		al_json_text(state, "suggest", finding->suggest);
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	return pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

/* Puts an array of strings. */
static void
put_strings(JsonbParseState **state, List *strings)
{
	ListCell   *cell;

	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, strings)
	{
		JsonbValue	value = {.type = jbvString};

		value.val.string.val = lfirst(cell);
		value.val.string.len = (int) strlen(lfirst(cell));
		pushJsonbValue(state, WJB_ELEM, &value);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}
