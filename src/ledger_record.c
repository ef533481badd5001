/*
 * ledger_record.c
 *		How attempts ended: the attempt closed, the action and its due row moved, events.
 *
 * An outcome is a heap-only update of the action row; the due row goes when the
 * action is at rest.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "batch.h"
#include "labels.h"
#include "ledger.h"

/* How long an outcome waits for a row that somebody else has locked. */
#define BUSY_ROW_MS 50

static AlStatement close_attempts = {
	"UPDATE actionledger.attempt t SET finished_at = u.finished_at, verdict = u.verdict, category = u.category, "
	"sent = u.sent, truncated = u.truncated, http_status = u.http_status, curl_code = u.curl_code, retry_after_s = u.retry_after_s, "
	"detail = u.detail, external_ref = u.external_ref, response_headers = u.headers, body = u.body, resolved_us = u.resolved_us, "
	"connected_us = u.connected_us, tls_us = u.tls_us, first_byte_us = u.first_byte_us, total_us = u.total_us FROM unnest($1) u "
	"WHERE t.action_id = u.action_id AND t.attempt = u.attempt AND t.finished_at IS NULL",
	1, {InvalidOid}
};
#define MOVE_SET \
	"UPDATE actionledger.action a SET status = u.status, next_step = u.step, " \
	"known = u.known, claimed_by = NULL, sends = a.sends - u.forgiven, lookups = a.lookups - u.unlooked, " \
	"absences = a.absences + u.absent::int, lookups_before = CASE WHEN u.absent THEN a.lookups ELSE a.lookups_before END, " \
	"lookup_ends_at = CASE WHEN u.absent THEN NULL ELSE a.lookup_ends_at END, doubted_at = coalesce(u.doubted_at, a.doubted_at), " \
	"key_ends_at = CASE WHEN u.clear_key THEN NULL ELSE a.key_ends_at END, " \
	"finished_at = CASE WHEN u.status IN ('confirmed', 'failed') THEN $2::timestamptz END, " \
	"external_ref = coalesce(u.external_ref, a.external_ref), result = coalesce(u.result, a.result), " \
	"confirmed_by = coalesce(u.confirmed_by, a.confirmed_by), error_code = u.error_code, error_message = u.error_message " \
	"FROM unnest($1) u WHERE a.action_id = u.action_id AND a.status NOT IN ('confirmed', 'failed')"
static AlStatement move_actions = {MOVE_SET, 2, {InvalidOid, TIMESTAMPTZOID}};
static AlStatement move_claimed = {
	MOVE_SET " AND a.claimed_by = $3 AND a.cancelled_at IS NULL AND a.known = u.known_before RETURNING u.n", 3, {InvalidOid, TIMESTAMPTZOID, INT8OID}
};
static AlStatement delete_due = {
	"DELETE FROM actionledger.due d USING unnest($1::bigint[]) AS u(action_id) WHERE d.action_id = u.action_id", 1, {INT8ARRAYOID}
};
static AlStatement update_due = {
	"UPDATE actionledger.due d SET next_at = u.next_at, held_at = NULL, external = a.method = 'EXTERNAL' AND a.next_step <> 'lookup' "
	"FROM unnest($1::bigint[], $2::timestamptz[]) AS u(action_id, next_at), actionledger.action a "
	"WHERE d.action_id = u.action_id AND a.action_id = u.action_id",
	2, {INT8ARRAYOID, TIMESTAMPTZARRAYOID}
};
static AlStatement insert_events = {
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note, verdict, source, evidence) "
	"SELECT u.action_id, u.what, u.status::actionledger.status, $8, u.note, u.verdict::actionledger.verdict, u.source, u.evidence "
	"FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[]) "
	"AS u(action_id, what, status, note, verdict, source, evidence)",
	8, {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, JSONBARRAYOID, TEXTOID}
};

static int	outcomes = 0;

static Datum move_rows(const AlMove *moves, int n, AlStatement *statement);
static void	move_due(const AlMove *moves, int n, const bool *done);

/* Closes attempts that are open. */
void
al_ledger_close(const AlClosing *closings, int n)
{
	AlRows		rows;
	Datum		value;

	if (n == 0)
		return;
	rows = al_rows_create("_closing", n);
	for (int i = 0; i < n; i++)
	{
		const AlClosing *closing = &closings[i];

		al_row_set(&rows, 0, Int64GetDatum(closing->action_id));
		al_row_set(&rows, 1, Int32GetDatum(closing->attempt));
		al_row_set_time(&rows, 2, closing->finished_at);
		al_row_set(&rows, 3, al_label_verdict(closing->verdict));
		al_row_set_text(&rows, 4, closing->category);
		al_row_set(&rows, 5, BoolGetDatum(closing->sent));
		al_row_set(&rows, 6, BoolGetDatum(closing->truncated));
		if (closing->http_status > 0)
			al_row_set(&rows, 7, Int32GetDatum(closing->http_status));
		al_row_set(&rows, 8, Int32GetDatum(closing->curl_code));
		if (closing->retry_after_s >= 0)
			al_row_set(&rows, 9, Int32GetDatum((int32) Min(closing->retry_after_s, PG_INT32_MAX)));
		al_row_set_text(&rows, 10, closing->detail);
		al_row_set_text(&rows, 11, closing->external_ref);
		al_row_set_text(&rows, 12, closing->headers);
		if (closing->body != NULL)
			al_row_set(&rows, 13, PointerGetDatum(closing->body));
		for (int t = 0; t < lengthof(closing->timing_us); t++)
		{
			if (closing->timing_us[t] > 0)
				al_row_set(&rows, 14 + t, Int32GetDatum(closing->timing_us[t]));
		}
		al_rows_add(&rows);
	}
	value = al_rows_array(&rows, &close_attempts);
	(void) al_statement_run(&close_attempts, &value, NULL);
}

/* Moves actions on, and their due rows with them. */
void
al_ledger_move(const AlMove *moves, int n, TimestampTz now)
{
	Datum		values[2];

	if (n == 0)
		return;
	values[0] = move_rows(moves, n, &move_actions);
	values[1] = TimestampTzGetDatum(now);
	(void) al_statement_run(&move_actions, values, NULL);
	move_due(moves, n, NULL);
}

/* Moves claimed actions on that nobody has touched since. */
void
al_ledger_move_claimed(const AlMove *moves, int n, TimestampTz now, int64 incarnation, bool *done)
{
	int			saved = LockTimeout;
	Datum		values[3];
	volatile uint64 moved = 0;

	memset(done, false, n * sizeof(bool));
	if (n == 0)
		return;
	values[0] = move_rows(moves, n, &move_claimed);
	values[1] = TimestampTzGetDatum(now);
	values[2] = Int64GetDatum(incarnation);
	LockTimeout = BUSY_ROW_MS;
	PG_TRY();
	{
		moved = al_statement_run(&move_claimed, values, NULL);
	}
	PG_FINALLY();
	{
		LockTimeout = saved;
	}
	PG_END_TRY();
	for (uint64 row = 0; row < moved; row++)
		done[al_column_int4(row, 1)] = true;
	move_due(moves, n, done);
}

/* Makes the rows of a move's statement, numbered from 0. */
static Datum
move_rows(const AlMove *moves, int n, AlStatement *statement)
{
	AlRows		rows = al_rows_create("_move", n);

	for (int i = 0; i < n; i++)
	{
		const AlMove *move = &moves[i];

		al_row_set(&rows, 0, Int32GetDatum(i));
		al_row_set(&rows, 1, Int64GetDatum(move->action_id));
		al_row_set(&rows, 2, al_label_status(move->status));
		al_row_set(&rows, 3, al_label_step(move->step));
		al_row_set(&rows, 4, al_label_known(move->known));
		al_row_set(&rows, 5, BoolGetDatum(move->clear_key_window));
		al_row_set_text(&rows, 6, move->external_ref);
		if (move->result != (Datum) 0)
			al_row_set(&rows, 7, move->result);
		al_row_set_text(&rows, 8, move->confirmed_by);
		al_row_set_text(&rows, 9, move->error_code);
		al_row_set_text(&rows, 10, move->error_message);
		al_row_set(&rows, 11, Int32GetDatum(move->forgive ? 1 : 0));
		al_row_set(&rows, 12, al_label_known(move->known_before));
		al_row_set(&rows, 13, Int32GetDatum(move->forgive_lookup ? 1 : 0));
		al_row_set(&rows, 14, BoolGetDatum(move->absent));
		al_row_set_time(&rows, 15, move->doubted_at);
		al_rows_add(&rows);
	}
	return al_rows_array(&rows, statement);
}

/* Moves the due rows of actions, or of those that are done. */
static void
move_due(const AlMove *moves, int n, const bool *done)
{
	AlArray		rest = al_array_create(INT8OID, n);
	AlArray		live = al_array_create(INT8OID, n);
	AlArray		live_at = al_array_create(TIMESTAMPTZOID, n);
	Datum		values[2];

	rest.n = live.n = live_at.n = 0;
	for (int i = 0; i < n; i++)
	{
		const AlMove *move = &moves[i];

		if (done != NULL && !done[i])
			continue;
		outcomes += move->status == AL_STATUS_CONFIRMED || move->status == AL_STATUS_FAILED ||
			move->step == AL_STEP_REVIEW || move->step == AL_STEP_BLOCKED;
		if (move->status == AL_STATUS_CONFIRMED || move->status == AL_STATUS_FAILED)
			al_array_set(&rest, rest.n++, Int64GetDatum(move->action_id));
		else
		{
			al_array_set(&live, live.n++, Int64GetDatum(move->action_id));
			al_array_set(&live_at, live_at.n++, TimestampTzGetDatum(move->next_at));
		}
	}
	if (rest.n > 0)
	{
		values[0] = al_array_datum(&rest);
		(void) al_statement_run(&delete_due, values, NULL);
	}
	if (live.n > 0)
	{
		values[0] = al_array_datum(&live);
		values[1] = al_array_datum(&live_at);
		(void) al_statement_run(&update_due, values, NULL);
	}
}

/* Tells how many moves have ended in something that waits for nothing but people, and begins to count anew. */
int
al_ledger_take_outcomes(void)
{
	int			n = outcomes;

	outcomes = 0;
	return n;
}

/* Appends events in the dispatcher's name. */
void
al_ledger_event(const AlEvent *events, int n, int64 incarnation)
{
	if (n > 0)
		al_ledger_event_by(events, n, psprintf("dispatcher " INT64_FORMAT, incarnation));
}

/* Appends events in somebody's name. */
void
al_ledger_event_by(const AlEvent *events, int n, const char *by_whom)
{
	AlArray		action = al_array_create(INT8OID, n);
	AlArray		evidence = al_array_create(JSONBOID, n);
	AlArray		text[5];
	Datum		values[8];

	if (n == 0)
		return;
	for (int t = 0; t < lengthof(text); t++)
		text[t] = al_array_create(TEXTOID, n);
	for (int i = 0; i < n; i++)
	{
		al_array_set(&action, i, Int64GetDatum(events[i].action_id));
		al_array_set_text(&text[0], i, events[i].what);
		al_array_set_text(&text[1], i, al_status_name(events[i].status));
		al_array_set_text(&text[2], i, events[i].note);
		al_array_set_text(&text[3], i, events[i].verdict);
		al_array_set_text(&text[4], i, events[i].source);
		if (events[i].evidence != (Datum) 0)
			al_array_set(&evidence, i, events[i].evidence);
	}
	values[0] = al_array_datum(&action);
	for (int t = 0; t < lengthof(text); t++)
		values[t + 1] = al_array_datum(&text[t]);
	values[6] = al_array_datum(&evidence);
	values[7] = CStringGetTextDatum(by_whom);
	(void) al_statement_run(&insert_events, values, NULL);
}
