/*
 * explain.c
 *		The whole story of an action as text, and what may be done about it.
 *
 * What is allowed is asked of the state machine by the same functions that the
 * verbs use, so that a statement that is shown here can be pasted.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "approval.h"
#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "fence.h"
#include "reconcile.h"
#include "retry.h"
#include "session.h"
#include "visible.h"
#include "words.h"

#define OVERDUE_MS 60000		/* after the deadline of an attempt; as the view attention has it */

PG_FUNCTION_INFO_V1(al_explain);
PG_FUNCTION_INFO_V1(al_sql_known);
PG_FUNCTION_INFO_V1(al_sql_allowed);

static AlStatement select_action = {
	"SELECT a.requested_by, a.owner, t.name, s.name, a.identity, a.idempotency_key, a.summary, a.actor, "
	"a.error_message, a.external_ref, a.confirmed_by, a.created_at, "
	"(SELECT count(*) FROM actionledger.event e WHERE e.action_id = a.action_id AND e.what = 'conflict'), "
	"CASE WHEN a.next_step = 'approve' THEN actionledger._request_hash(a.method, a.url, a.headers, a.body) END, "
	"(SELECT count(*) FROM actionledger.event e WHERE e.action_id = a.action_id AND e.what IN ('conflict', 'duplicates_found') AND NOT EXISTS ("
	"SELECT FROM actionledger.event k WHERE k.action_id = e.action_id AND k.what = 'acknowledged' AND k.event_id > e.event_id)), "
	"(SELECT (e.evidence ->> 'superseded_by')::int8 FROM actionledger.event e WHERE e.action_id = a.action_id AND e.what = 'superseded' LIMIT 1), "
	"a.method = '" AL_EXTERNAL "', a.approver, a.error_code, d.next_at, x.executor, x.deadline, "
	"a.instance <> $2 OR (a.lookups = 0 AND EXISTS (SELECT FROM actionledger.event e WHERE e.action_id = a.action_id AND e.what = 'successor')) "
	"FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) JOIN actionledger.service s ON s.service_id = a.service_id "
	"LEFT JOIN actionledger.due d ON d.action_id = a.action_id "
	"LEFT JOIN actionledger.attempt x ON x.action_id = a.action_id AND x.attempt = a.attempts AND x.finished_at IS NULL "
	"WHERE a.action_id = $1",
	2, {INT8OID, INT8OID}
};
static AlStatement find_key = {
	"SELECT strpos(concat_ws(' ', url, headers), idempotency_key) > 0 OR position(convert_to(idempotency_key, 'UTF8') IN coalesce(body, '')) > 0 "
	"FROM actionledger.action WHERE action_id = $1",
	1, {INT8OID}
};
static AlStatement select_waiting = {
	"SELECT waiting_for FROM actionledger.pending WHERE action_id = $1", 1, {INT8OID}
};
static AlStatement select_attempts = {
	"SELECT attempt::int, kind, verdict::text, category, http_status::int, external_ref, started_at, finished_at, "
	"coalesce(executor, 'dispatcher ' || incarnation), nullif(detail, '') "
	"FROM actionledger.attempt WHERE action_id = $1 ORDER BY attempt",
	1, {INT8OID}
};
static AlStatement select_events = {
	"SELECT at, what, by_whom, note, evidence::text, verdict::text, source FROM actionledger.event WHERE action_id = $1 ORDER BY at, event_id",
	1, {INT8OID}
};

/* A line of the story. */
typedef struct Line
{
	TimestampTz at;
	int			n;				/* order among those of one moment */
	char	   *text;
} Line;

/* A verb that is allowed now. */
typedef struct Allowed
{
	const char *verb;
	char	   *statement;
} Allowed;

/* An action as it is told. */
typedef struct Tale
{
	int64		action_id;
	AlStanding	standing;
	AlTool	   *tool;
	char	   *tool_name;
	char	   *service;
	char	   *identity;
	char	   *key;
	char	   *summary;
	char	   *requested_by;
	char	   *actor;
	char	   *error_message;
	char	   *external_ref;
	char	   *confirmed_by;
	TimestampTz created_at;
	int64		conflicts;
	int64		noteworthy;		/* conflicts and duplicates that nobody has acknowledged */
	int64		successor;		/* the action that has superseded it; 0: none */
	bool		inherited;		/* another place may have sent it, and no lookup has told so far */
	bool		external;		/* an outside executor carries it out */
	char	   *hash;			/* of the request that waits for approval; NULL: it does not */
	char	   *approvers;		/* who approves, in words */
	const char *error_code;		/* "" for none */
	TimestampTz next_at;		/* 0: it is at rest */
	char	   *executor;		/* that has it; NULL: none */
	TimestampTz deadline;		/* of the attempt that is open, or its lease; 0: none is */
	List	   *lines;
	List	   *refs;			/* of char *: references that attempts have found */
	StringInfoData attempts;	/* how they ended, in words, equal ones together */
} Tale;

static bool read_tale(Tale *tale, int64 action_id, Oid caller);
static void read_attempts(Tale *tale);
static void read_events(Tale *tale);
static void add_line(Tale *tale, TimestampTz at, char *text);
static int	compare_lines(const ListCell *a, const ListCell *b);
static void group_attempts(Tale *tale, int first, int last, const char *kind, const char *words);
static char *key_words(const Tale *tale);
static char *known(const Tale *tale, TimestampTz now);
static void say_next(StringInfo words, const Tale *tale, TimestampTz now);
static char *not_known(const Tale *tale, TimestampTz now);
static List *allowed(Tale *tale, TimestampTz now);
static List *allow(List *list, const char *verb, char *statement);
static void put(ReturnSetInfo *result, const char *text);

/* explain(action_id) */
Datum
al_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		action_id = PG_GETARG_INT64(0);
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	AlSession	session;
	Tale		tale = {0};
	List	   *verbs;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	al_session_begin(&session, true);
	if (!read_tale(&tale, action_id, caller))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
				 errhint("Look for it by another name with actionledger.find().")));
	read_events(&tale);
	list_sort(tale.lines, compare_lines);
	put(result, psprintf("Action " INT64_FORMAT "%s%s: tool %s at service %s, identity %s, %s", action_id,
						 tale.summary ? ", " : "", tale.summary ? tale.summary : "", tale.tool_name, tale.service,
						 tale.identity, key_words(&tale)));
	foreach(cell, tale.lines)
	{
		Line	   *line = lfirst(cell);

		put(result, psprintf("%s  %s", al_words_time(line->at), line->text));
	}
	put(result, psprintf("Known: it is %s/%s. %s", al_status_name(tale.standing.status), al_step_name(tale.standing.step), known(&tale, now)));
	put(result, psprintf("Not known: %s", not_known(&tale, now)));
	verbs = allowed(&tale, now);
	put(result, verbs == NIL ? "Allowed now: nothing; it is settled." : "Allowed now:");
	foreach(cell, verbs)
		put(result, psprintf("  %s", ((Allowed *) lfirst(cell))->statement));
	al_session_end(&session);
	return (Datum) 0;
}

/* _known(action_id): what is known of an action, in words; null when the caller may not see it */
Datum
al_sql_known(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			role = GetUserId();
	AlSession	session;
	Tale		tale = {0};
	text	   *answer = NULL;

	al_session_begin(&session, true);
	if (read_tale(&tale, PG_GETARG_INT64(0), role))
	{
		char	   *words = known(&tale, al_clock_now());

		MemoryContextSwitchTo(caller);
		answer = cstring_to_text(words);
	}
	al_session_end(&session);
	MemoryContextSwitchTo(caller);
	if (answer == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(answer);
}

/* _allowed(action_id): the verbs that the state machine allows now; null when the caller may not see it */
Datum
al_sql_allowed(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			role = GetUserId();
	AlSession	session;
	Tale		tale = {0};
	ArrayType  *answer = NULL;

	al_session_begin(&session, true);
	if (read_tale(&tale, PG_GETARG_INT64(0), role))
	{
		List	   *verbs = allowed(&tale, al_clock_now());
		Datum	   *names = palloc(Max(list_length(verbs), 1) * sizeof(Datum));
		ListCell   *cell;

		foreach(cell, verbs)
			names[foreach_current_index(cell)] = CStringGetTextDatum(((Allowed *) lfirst(cell))->verb);
		MemoryContextSwitchTo(caller);
		answer = construct_array(names, list_length(verbs), TEXTOID, -1, false, TYPALIGN_INT);
	}
	al_session_end(&session);
	MemoryContextSwitchTo(caller);
	if (answer == NULL)
		PG_RETURN_NULL();
	PG_RETURN_ARRAYTYPE_P(answer);
}

/* Reads an action with its attempts; false when there is none that the caller may see. */
static bool
read_tale(Tale *tale, int64 action_id, Oid caller)
{
	Datum		values[2] = {Int64GetDatum(action_id), Int64GetDatum(al_fence_instance())};

	al_registry_refresh();
	if (!al_ledger_read(action_id, &tale->standing) || al_statement_run(&select_action, values, NULL) == 0)
		return false;
	tale->action_id = action_id;
	tale->requested_by = al_column_text(0, 1);
	if (!al_may_see(caller, tale->requested_by, al_column_text(0, 2)))
		return false;
	tale->tool_name = al_column_text(0, 3);
	tale->service = al_column_text(0, 4);
	tale->identity = al_column_text(0, 5);
	tale->key = al_column_text(0, 6);
	tale->summary = al_column_text(0, 7);
	tale->actor = al_column_text(0, 8);
	tale->error_message = al_column_text(0, 9);
	tale->external_ref = al_column_text(0, 10);
	tale->confirmed_by = al_column_text(0, 11);
	tale->created_at = al_column_int8(0, 12);
	tale->conflicts = al_column_int8(0, 13);
	tale->hash = al_column_text(0, 14);
	tale->noteworthy = al_column_int8(0, 15);
	tale->successor = al_column_int8(0, 16);
	tale->external = al_column_bool(0, 17);
	tale->approvers = al_approval_by_whom(al_column_text(0, 18), al_column_text(0, 2));
	tale->error_code = al_column_text(0, 19) ? al_column_text(0, 19) : "";
	tale->next_at = al_column_int8(0, 20);
	tale->executor = al_column_text(0, 21);
	tale->deadline = al_column_int8(0, 22);
	tale->inherited = al_column_bool(0, 23);
	tale->tool = al_registry_tool_guarded(tale->standing.tool_id);
	if (tale->tool == NULL)
		tale->tool = al_registry_cautious_tool();
	add_line(tale, tale->created_at, psprintf("asked for by %s%s%s", tale->requested_by, tale->actor ? ", for " : "",
											  tale->actor ? tale->actor : ""));
	read_attempts(tale);
	return true;
}

/* Reads the attempts: lines of the story, and their ends in words. */
static void
read_attempts(Tale *tale)
{
	Datum		value = Int64GetDatum(tale->action_id);
	int			n = (int) al_statement_run(&select_attempts, &value, NULL);
	char	   *last_words = NULL;
	char	   *last_kind = NULL;
	int			first = 0;
	int			last = 0;

	initStringInfo(&tale->attempts);
	for (int i = 0; i < n; i++)
	{
		int			attempt = al_column_int4(i, 1);
		char	   *kind = al_column_text(i, 2);
		char	   *category = al_column_text(i, 4);
		char	   *ref = al_column_text(i, 6);
		char	   *detail = al_column_text(i, 10);
		char	   *words = pstrdup("it has not ended yet");
		AlVerdict	verdict;

		add_line(tale, al_column_int8(i, 7), psprintf("attempt %d (%s) begun by %s", attempt, kind, al_column_text(i, 9)));
		if (al_verdict_parse(al_column_text(i, 3), &verdict))
		{
			words = al_words_attempt(verdict, category ? category : "", al_column_int4(i, 5), strcmp(kind, "lookup") == 0, tale->tool);
			add_line(tale, al_column_int8(i, 8), psprintf("attempt %d ended: %s, %s%s%s%s%s", attempt, al_verdict_name(verdict), words,
														  ref ? "; reference " : "", ref ? ref : "",
														  detail ? "; " : "", detail ? detail : ""));
		}
		if (ref != NULL && !list_member(tale->refs, makeString(ref)))
			tale->refs = lappend(tale->refs, makeString(ref));
		if (last_words != NULL && (strcmp(words, last_words) != 0 || strcmp(kind, last_kind) != 0))
		{
			group_attempts(tale, first, last, last_kind, last_words);
			last_words = NULL;
		}
		if (last_words == NULL)
			first = attempt;
		last = attempt;
		last_words = words;
		last_kind = kind;
	}
	if (last_words != NULL)
		group_attempts(tale, first, last, last_kind, last_words);
}

/* Adds attempts of a kind that ended alike. */
static void
group_attempts(Tale *tale, int first, int last, const char *kind, const char *words)
{
	if (tale->attempts.len > 0)
		appendStringInfoString(&tale->attempts, "; ");
	if (first == last)
		appendStringInfo(&tale->attempts, "attempt %d (%s): %s", first, kind, words);
	else
		appendStringInfo(&tale->attempts, "attempts %d to %d (%s): %s", first, last, kind, words);
}

/* Reads the events as lines of the story. */
static void
read_events(Tale *tale)
{
	Datum		value = Int64GetDatum(tale->action_id);
	int			n = (int) al_statement_run(&select_events, &value, NULL);

	for (int i = 0; i < n; i++)
	{
		char	   *note = al_column_text(i, 4);
		char	   *evidence = al_column_text(i, 5);
		char	   *verdict = al_column_text(i, 6);
		char	   *source = al_column_text(i, 7);

		add_line(tale, al_column_int8(i, 1),
				 psprintf("%s%s%s%s%s by %s%s%s%s%s", al_column_text(i, 2), verdict ? " " : "", verdict ? verdict : "",
						  source ? " from " : "", source ? source : "", al_column_text(i, 3), note ? ": " : "", note ? note : "",
						  evidence ? " " : "", evidence ? evidence : ""));
	}
}

/* Adds a line to the story. */
static void
add_line(Tale *tale, TimestampTz at, char *text)
{
	Line	   *line = palloc(sizeof(Line));

	line->at = at;
	line->n = list_length(tale->lines);
	line->text = text;
	tale->lines = lappend(tale->lines, line);
}

/* Orders lines by time. */
static int
compare_lines(const ListCell *a, const ListCell *b)
{
	const Line *x = lfirst(a);
	const Line *y = lfirst(b);

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : x->n - y->n;
}

/* Says which key the destination sees, and what it is worth. */
static char *
key_words(const Tale *tale)
{
	Datum		value = Int64GetDatum(tale->action_id);
	const char *place = tale->standing.key_place;

	if (tale->external)
		return psprintf("key %s for its executor", tale->key);
	if (place != NULL)
		return psprintf("key %s in %s%s", tale->key, place,
						al_registry_key_counts(tale->tool, place) ? "" : ", where the service is no longer declared to honour it");
	(void) al_statement_run(&find_key, &value, NULL);
	return al_column_bool(0, 1) ? psprintf("with %s in its request, which the service is not declared to honour as a key", tale->key)
		: pstrdup("without a key in its request");
}

/* Says what is known. */
static char *
known(const Tale *tale, TimestampTz now)
{
	const AlStanding *standing = &tale->standing;
	StringInfoData words;
	ListCell   *cell;

	initStringInfo(&words);
	appendStringInfoString(&words, al_words_sends(tale->external, standing->sends));
	if (standing->lookups > 0)
		appendStringInfo(&words, ", %d %s", standing->lookups, standing->lookups == 1 ? "lookup" : "lookups");
	if (standing->last_sent_at != 0)
		appendStringInfo(&words, tale->external ? ", the last at %s" : ", last sent at %s", al_words_time(standing->last_sent_at));
	if (tale->attempts.len > 0)
		appendStringInfo(&words, "; %s", tale->attempts.data);
	foreach(cell, tale->refs)
		appendStringInfo(&words, "%s%s", foreach_current_index(cell) == 0 ? "; references found: " : ", ", strVal(lfirst(cell)));
	if (standing->cancelled_at != 0)
		appendStringInfo(&words, "; a cancel was asked for at %s", al_words_time(standing->cancelled_at));
	if (standing->status == AL_STATUS_CONFIRMED)
		appendStringInfo(&words, "; it happened, by evidence of: %s%s%s", tale->confirmed_by ? tale->confirmed_by : "response",
						 tale->external_ref ? ", reference " : "", tale->external_ref ? tale->external_ref : "");
	else if (tale->error_message != NULL && strstr(tale->attempts.data, tale->error_message) == NULL &&
			 (!al_policy_is_open(standing->known) || standing->step == AL_STEP_BLOCKED || standing->status == AL_STATUS_FAILED))
		appendStringInfo(&words, "; %s", tale->error_message);
	if (tale->successor != 0)
		appendStringInfo(&words, "; action " INT64_FORMAT " has taken its place", tale->successor);
	say_next(&words, tale, now);
	return words.data;
}

/* Says what it waits for, or when something happens by itself. */
static void
say_next(StringInfo words, const Tale *tale, TimestampTz now)
{
	const AlStanding *standing = &tale->standing;
	const char *what = standing->step == AL_STEP_RESEND ? (tale->external ? "it is handed out again" : "it is sent again")
		: standing->step == AL_STEP_LOOKUP ? "it is looked up"
		: standing->step == AL_STEP_WAIT ? "without a report, it is decided" : NULL;
	Datum		value = Int64GetDatum(tale->action_id);

	if (standing->claimed_by != 0)
		return;
	if (standing->step == AL_STEP_SEND || standing->step == AL_STEP_APPROVE)
	{
		if (al_statement_run(&select_waiting, &value, NULL) > 0)
			appendStringInfo(words, "; it waits (%s)", al_column_text(0, 1));
	}
	else if (what != NULL && tale->next_at > now && tale->next_at != DT_NOEND)
		appendStringInfo(words, "; %s at %s", what, al_words_time(tale->next_at));
	else if (what != NULL && tale->next_at != 0 && tale->next_at <= now)
		appendStringInfo(words, "; %s as soon as it is its turn", what);
}

/* Says what is not known. */
static char *
not_known(const Tale *tale, TimestampTz now)
{
	const AlStanding *standing = &tale->standing;
	TimestampTz over;

	if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED)
		return pstrdup(tale->conflicts > 0
					   ? tale->noteworthy > 0 ? "who is right: evidence has come that says the contrary (see conflicts)."
					   : "nothing new: the evidence that says the contrary was acknowledged."
					   : strcmp(tale->error_code, "no_answer") == 0 ? "what the answer would have been; it only reads, so that nothing can have changed."
					   : strcmp(tale->error_code, "inherited") == 0 ? "what the database that it was copied from has done with it."
					   : "nothing.");
	if (standing->claimed_by == 0 && !al_policy_is_open(standing->known))
		return pstrdup(tale->inherited
					   ? "whether it was sent from where it was recorded, since this copy was made; from here it was not."
					   : "nothing: it has not happened so far.");
	if (standing->sends == 0)
		return pstrdup("whether it happened: another place may have sent it.");
	if (tale->executor != NULL)
		return psprintf("whether it happened: executor %s has it, and reports by %s.", tale->executor, al_words_time(tale->deadline));
	if (standing->claimed_by > 0 && tale->deadline != 0 && TimestampTzPlusMilliseconds(tale->deadline, OVERDUE_MS) < now)
		return psprintf("whether it happened: attempt %d had to be over at %s, and how it ended is not recorded (see the server log).",
						standing->attempts, al_words_time(tale->deadline));
	over = al_judge_processed_at(standing, tale->tool);
	if (standing->claimed_by != 0 && !al_policy_is_open(standing->known))
		return pstrdup("whether it happened: its request is under way.");
	return psprintf("%s%s.", standing->known == AL_KNOWN_SEVERAL
					? "which of those that were found are this action, and how often it happened" : "whether it happened", now < over
					? psprintf(", and what was %s may still be executed until %s", tale->external ? "handed out" : "sent", al_words_time(over)) : "");
}

/* Lists the verbs that the state machine allows now, with statements to paste. */
static List *
allowed(Tale *tale, TimestampTz now)
{
	AlStanding *standing = &tale->standing;
	AlStanding	copy = *standing;
	bool		live = standing->status != AL_STATUS_CONFIRMED && standing->status != AL_STATUS_FAILED;
	bool		open = al_policy_is_open(standing->known) || standing->claimed_by != 0;
	int64		id = tale->action_id;
	List	   *list = NIL;
	AlRetry		retry;

	if (!live)
	{
		if (tale->noteworthy > 0)
			return allow(NIL, "acknowledge", psprintf("SELECT * FROM actionledger.acknowledge(" INT64_FORMAT ", 'what was found');", id));
		if (standing->status == AL_STATUS_FAILED && tale->successor == 0 && tale->conflicts == 0 && strcmp(tale->error_code, "inherited") != 0)
			return allow(NIL, "supersede", psprintf("SELECT * FROM actionledger.supersede(" INT64_FORMAT ", '{...}', 'why it is wanted all the same');", id));
		return NIL;
	}
	if (standing->step == AL_STEP_APPROVE)
	{
		list = allow(list, "approve", psprintf("SELECT * FROM actionledger.approve(" INT64_FORMAT ", 'why', '%s'); -- by %s, not by who asked",
															id, tale->hash ? tale->hash : "", tale->approvers));
		list = allow(list, "reject", psprintf("SELECT * FROM actionledger.reject(" INT64_FORMAT ", 'why not');", id));
	}
	if (open)
		list = allow(list, "resolve",
					 psprintf("SELECT * FROM actionledger.resolve(" INT64_FORMAT ", 'confirmed', '{\"external_ref\": \"...\"}', 'how you know'%s); "
							  "-- or 'failed', when you have evidence that it did not and will not happen", id,
							  standing->status == AL_STATUS_NEEDS_RECONCILIATION ? ""
							  : psprintf(", expected_status => '%s'", al_status_name(standing->status))));
	if (al_reconcile_consider(&copy, tale->tool, now).allowed)
		list = allow(list, "reconcile_now", psprintf("SELECT * FROM actionledger.reconcile_now(" INT64_FORMAT ");", id));
	copy = *standing;
	retry = al_retry_consider(&copy, tale->tool, true, now);
	if (retry.allowed && (standing->step == AL_STEP_BLOCKED || standing->step == AL_STEP_REVIEW || tale->next_at > now))
		list = allow(list, retry.override ? "retry force" : "retry", retry.override
					 ? psprintf("SELECT * FROM actionledger.retry(" INT64_FORMAT ", 'why it is sent once more', force => true); "
								"-- it may happen a second time", id)
					 : psprintf("SELECT * FROM actionledger.retry(" INT64_FORMAT ", '%s');", id,
								standing->step == AL_STEP_BLOCKED || standing->step == AL_STEP_REVIEW ? "what was mended" : "why now"));
	if (standing->cancelled_at == 0 && standing->status != AL_STATUS_NEEDS_RECONCILIATION)
		list = allow(list, "cancel", psprintf("SELECT * FROM actionledger.cancel(" INT64_FORMAT ", 'why');", id));
	if (standing->step == AL_STEP_REVIEW || standing->step == AL_STEP_BLOCKED || standing->step == AL_STEP_LOOKUP)
		list = allow(list, "assign", psprintf("SELECT * FROM actionledger.assign(" INT64_FORMAT ", 'role');", id));
	return list;
}

/* Adds a verb. */
static List *
allow(List *list, const char *verb, char *statement)
{
	Allowed    *entry = palloc(sizeof(Allowed));

	entry->verb = verb;
	entry->statement = statement;
	return lappend(list, entry);
}

/* Puts a line into the result. */
static void
put(ReturnSetInfo *result, const char *text)
{
	Datum		value = CStringGetTextDatum(al_visible(text));
	bool		null = false;

	tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
}
