/*
 * ledger.c
 *		The statements of dispatch.
 *
 * A mark and an outcome are heap-only updates of the action row; the due row
 * is left alone while an attempt is open and goes when the action is at rest.
 * The worker runs with search_path pinned and generic plans.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "batch.h"
#include "fence.h"
#include "ledger.h"
#include "rebase.h"
#include "session.h"

/* How long an outcome waits for a row that somebody else has locked. */
#define BUSY_ROW_MS 50

#define STANDING_COLUMNS \
	"a.action_id, a.tool_id, a.service_id, a.status::text, a.known::text, a.attempts::int, a.sends::int, a.claimed_by, " \
	"a.last_sent_at, a.window_ends_at, a.key_ends_at, a.expires_at, a.cancelled_at, a.key_place, a.expiry_moves, " \
	"a.lookups::int, a.lookups_before::int, a.absences::int, a.lookup_ends_at, a.doubted_at, a.approve_by, a.next_step::text, a.overridden"
#define N_STANDING_COLUMNS 23

static AlStatement pick_due = {
	"SELECT " STANDING_COLUMNS ", p.next_at, p.priority, a.requested_by, a.method, a.url, a.headers, a.body, a.next_step = 'lookup' "
	"FROM (SELECT s.priority, d.action_id, d.next_at "
	"      FROM unnest($1::int[], $2::int[], $3::timestamptz[], $4::bigint[], $6::int[]) AS s(service_id, free, mark_at, mark_id, priority), "
	"      LATERAL (SELECT x.action_id, x.next_at FROM actionledger.due x JOIN actionledger.action y USING (action_id) "
	"               WHERE NOT x.external AND x.service_id = s.service_id AND x.priority = s.priority AND (x.next_at, x.action_id) > (s.mark_at, s.mark_id) "
	"                 AND x.next_at <= $5 AND y.claimed_by IS NULL AND y.instance = $7 AND y.next_step IN ('send', 'resend', 'wait', 'lookup', 'approve') "
	"               ORDER BY x.next_at, x.action_id LIMIT s.free FOR NO KEY UPDATE OF y SKIP LOCKED) d) p "
	"JOIN actionledger.action a ON a.action_id = p.action_id",
	7, {INT4ARRAYOID, INT4ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID, INT4ARRAYOID, INT8OID}
};
static AlStatement next_due = {
	"SELECT s.n::int, d.next_at "
	"FROM unnest($1::int[], $2::timestamptz[], $3::bigint[], $4::int[]) WITH ORDINALITY AS s(service_id, mark_at, mark_id, priority, n), "
	"LATERAL (SELECT x.next_at FROM actionledger.due x WHERE NOT x.external AND x.service_id = s.service_id AND x.priority = s.priority "
	"           AND (x.next_at, x.action_id) > (s.mark_at, s.mark_id) "
	"         ORDER BY x.next_at, x.action_id LIMIT 1) d",
	4, {INT4ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT4ARRAYOID}
};
static AlStatement mark_actions = {
	"UPDATE actionledger.action a SET status = CASE WHEN u.lookup THEN a.status ELSE 'submitted' END, "
	"next_step = CASE WHEN u.lookup THEN 'lookup' ELSE 'wait' END::actionledger.next_step, claimed_by = $2, "
	"attempts = a.attempts + 1, sends = a.sends + 1 - u.lookup::int, lookups = a.lookups + u.lookup::int, "
	"last_sent_at = CASE WHEN u.lookup THEN a.last_sent_at ELSE $3 END, lookup_ends_at = u.lookup_ends_at, "
	"window_ends_at = u.window_ends_at, key_ends_at = u.key_ends_at, expires_at = u.expires_at, "
	"overridden = a.overridden AND u.lookup FROM unnest($1) u "
	"WHERE a.action_id = u.action_id AND a.claimed_by IS NULL AND (u.lookup OR a.approve_by IS NULL) AND a.attempts = u.attempt - 1",
	3, {InvalidOid, INT8OID, TIMESTAMPTZOID}
};
static AlStatement open_attempts = {
	"INSERT INTO actionledger.attempt (action_id, attempt, kind, incarnation, started_at, deadline) "
	"SELECT u.action_id, u.attempt, CASE WHEN u.lookup THEN 'lookup' ELSE 'send' END, $2, $3, u.deadline FROM unnest($1) u",
	3, {InvalidOid, INT8OID, TIMESTAMPTZOID}
};
static AlStatement lock_actions = {
	"SELECT " STANDING_COLUMNS " FROM unnest($1::bigint[]) AS u(action_id) "
	"JOIN actionledger.action a ON a.action_id = u.action_id FOR NO KEY UPDATE OF a SKIP LOCKED",
	1, {INT8ARRAYOID}
};
static AlStatement read_actions = {
	"SELECT " STANDING_COLUMNS " FROM actionledger.action a WHERE a.action_id = $1", 1, {INT8OID}
};
static AlStatement close_attempts = {
	"UPDATE actionledger.attempt t SET finished_at = u.finished_at, verdict = u.verdict::actionledger.verdict, category = u.category, "
	"sent = u.sent, truncated = u.truncated, http_status = u.http_status, curl_code = u.curl_code, retry_after_s = u.retry_after_s, "
	"detail = u.detail, external_ref = u.external_ref, response_headers = u.headers, body = u.body, resolved_us = u.resolved_us, "
	"connected_us = u.connected_us, tls_us = u.tls_us, first_byte_us = u.first_byte_us, total_us = u.total_us FROM unnest($1) u "
	"WHERE t.action_id = u.action_id AND t.attempt = u.attempt AND t.finished_at IS NULL",
	1, {InvalidOid}
};
#define MOVE_SET \
	"UPDATE actionledger.action a SET status = u.status::actionledger.status, next_step = u.step::actionledger.next_step, " \
	"known = u.known::actionledger.known, claimed_by = NULL, sends = a.sends - u.forgiven, lookups = a.lookups - u.unlooked, " \
	"absences = a.absences + u.absent::int, lookups_before = CASE WHEN u.absent THEN a.lookups ELSE a.lookups_before END, " \
	"lookup_ends_at = CASE WHEN u.absent THEN NULL ELSE a.lookup_ends_at END, doubted_at = coalesce(u.doubted_at, a.doubted_at), " \
	"key_ends_at = CASE WHEN u.clear_key THEN NULL ELSE a.key_ends_at END, " \
	"finished_at = CASE WHEN u.status IN ('confirmed', 'failed') THEN $2::timestamptz END, " \
	"external_ref = coalesce(u.external_ref, a.external_ref), result = coalesce(u.result, a.result), " \
	"confirmed_by = coalesce(u.confirmed_by, a.confirmed_by), error_code = u.error_code, error_message = u.error_message " \
	"FROM unnest($1) u WHERE a.action_id = u.action_id AND a.status NOT IN ('confirmed', 'failed')"
static AlStatement move_actions = {MOVE_SET, 2, {InvalidOid, TIMESTAMPTZOID}};
static AlStatement move_claimed = {
	MOVE_SET " AND a.claimed_by = $3 AND a.cancelled_at IS NULL AND a.known = u.known_before::actionledger.known RETURNING u.n", 3, {InvalidOid, TIMESTAMPTZOID, INT8OID}
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
static AlStatement park_due = {
	"UPDATE actionledger.due d SET held_at = d.next_at, next_at = 'infinity' FROM unnest($1::bigint[]) AS u(action_id) "
	"WHERE d.action_id = u.action_id AND d.held_at IS NULL",
	1, {INT8ARRAYOID}
};
static AlStatement release_due = {
	"WITH page AS (SELECT d.action_id, d.service_id FROM actionledger.due d WHERE d.held_at IS NOT NULL AND d.action_id > $3 ORDER BY d.action_id LIMIT $4), "
	"free AS (SELECT a.action_id FROM page p JOIN actionledger.action a USING (action_id) WHERE p.service_id % $2 = $1 AND NOT EXISTS "
	"  (SELECT FROM actionledger._paused x WHERE x.tool_id = a.tool_id AND CASE a.next_step WHEN 'lookup' THEN x.lookups ELSE x.sends END)), "
	"locked AS (SELECT a.action_id FROM free f JOIN actionledger.action a USING (action_id) FOR NO KEY UPDATE OF a SKIP LOCKED), "
	"released AS (UPDATE actionledger.due d SET next_at = d.held_at, held_at = NULL FROM locked l "
	"  WHERE d.action_id = l.action_id AND d.held_at IS NOT NULL RETURNING d.action_id) "
	"SELECT (SELECT count(*) FROM page)::int, (SELECT max(action_id) FROM page), (SELECT count(*) FROM free)::int, "
	"(SELECT count(*) FROM locked)::int, (SELECT count(*) FROM released)::int",
	4, {INT4OID, INT4OID, INT8OID, INT4OID}
};
static AlStatement list_spans = {
	"SELECT CASE WHEN p.scope = 'service' THEN p.scope_id ELSE 0 END, CASE WHEN p.scope = 'tool' THEN p.scope_id ELSE 0 END, "
	"p.what = 'everything', p.paused_at, coalesce(p.resumed_at, 'infinity') FROM actionledger.pause p ORDER BY p.paused_at",
	0, {0}
};
static AlStatement insert_events = {
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note, verdict, source, evidence) "
	"SELECT u.action_id, u.what, u.status::actionledger.status, $8, u.note, u.verdict::actionledger.verdict, u.source, u.evidence "
	"FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[]) "
	"AS u(action_id, what, status, note, verdict, source, evidence)",
	8, {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, JSONBARRAYOID, TEXTOID}
};
static AlStatement take_incarnation = {
	"SELECT nextval('actionledger.incarnation_seq')", 0, {0}
};
static AlStatement insert_incarnation = {
	"INSERT INTO actionledger.incarnation (incarnation, worker, pid) VALUES ($1, $2, $3)", 3, {INT8OID, TEXTOID, INT4OID}
};
static AlStatement end_incarnation = {
	"UPDATE actionledger.incarnation SET ended_at = clock_timestamp() WHERE incarnation = $1", 1, {INT8OID}
};
static AlStatement claimed_by_others = {
	"SELECT " STANDING_COLUMNS ", EXISTS (SELECT FROM actionledger.attempt t WHERE t.action_id = a.action_id "
	"  AND t.attempt = a.attempts AND t.kind = 'lookup') "
	"FROM actionledger.due d JOIN actionledger.action a USING (action_id) "
	"WHERE a.claimed_by > 0 AND a.claimed_by <> $1 AND a.instance = $4 AND d.service_id % $3 = $2 ORDER BY a.action_id",
	4, {INT8OID, INT4OID, INT4OID, INT8OID}
};
static AlStatement peek_due = {
	"SELECT s.n::int, d.next_at, d.action_id "
	"FROM unnest($1::int[], $2::timestamptz[], $3::bigint[], $4::int[]) WITH ORDINALITY AS s(service_id, mark_at, mark_id, priority, n), "
	"LATERAL (SELECT x.next_at, x.action_id FROM actionledger.due x JOIN actionledger.action y USING (action_id) "
	"         WHERE NOT x.external AND x.service_id = s.service_id AND x.priority = s.priority AND (x.next_at, x.action_id) > (s.mark_at, s.mark_id) "
	"           AND x.next_at <= $5 AND y.claimed_by IS NULL AND y.instance = $6 AND y.next_step IN ('send', 'resend', 'wait', 'lookup', 'approve') "
	"         ORDER BY x.next_at, x.action_id LIMIT 1 FOR NO KEY UPDATE OF y SKIP LOCKED) d ORDER BY s.priority DESC, d.next_at, d.action_id LIMIT 1",
	6, {INT4ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TIMESTAMPTZOID, INT8OID}
};
static AlStatement block_action = {
	"WITH blocked AS (UPDATE actionledger.action SET next_step = 'blocked', error_code = $2, error_message = $3 "
	"  WHERE action_id = $1 AND claimed_by IS NULL AND status NOT IN ('confirmed', 'failed') RETURNING action_id, status), "
	"parked AS (UPDATE actionledger.due d SET next_at = 'infinity', held_at = NULL FROM blocked b WHERE d.action_id = b.action_id) "
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note) SELECT action_id, 'blocked', status, 'dispatcher ' || $4, $3 FROM blocked",
	4, {INT8OID, TEXTOID, TEXTOID, INT8OID}
};
static AlStatement park_for_good = {
	"UPDATE actionledger.due SET next_at = 'infinity', held_at = NULL WHERE action_id = $1", 1, {INT8OID}
};
static AlStatement find_missing = {
	"SELECT u.n::int FROM unnest($1::bigint[]) WITH ORDINALITY AS u(action_id, n) "
	"WHERE NOT EXISTS (SELECT FROM actionledger.action a WHERE a.action_id = u.action_id)",
	1, {INT8ARRAYOID}
};
static AlStatement left_open = {
	"SELECT DISTINCT " STANDING_COLUMNS ", t.kind = 'lookup', t.attempt::int, CASE WHEN t.kind = 'external' THEN -t.incarnation ELSE t.incarnation END "
	"FROM actionledger.event e JOIN actionledger.action a ON a.action_id = e.action_id "
	"JOIN actionledger.attempt t ON t.action_id = e.action_id AND t.finished_at IS NULL "
	"WHERE e.what = 'left_open' AND t.incarnation <> $1 AND (t.kind <> 'external' OR t.deadline < pg_catalog.now()) AND a.status IN ('confirmed', 'failed') AND a.service_id % $3 = $2",
	3, {INT8OID, INT4OID, INT4OID}
};
/* Only an answer that speaks of the action tells its number and its place: those of an error are the error's. */
static AlStatement read_particulars = {
	"SELECT a.action_id, a.identity, a.idempotency_key, a.run_id, a.args, coalesce(a.external_ref, r.external_ref), l.headers "
	"FROM unnest($1::bigint[]) WITH ORDINALITY AS u(action_id, n) JOIN actionledger.action a ON a.action_id = u.action_id "
	"LEFT JOIN LATERAL (SELECT t.external_ref FROM actionledger.attempt t WHERE t.action_id = a.action_id AND t.external_ref IS NOT NULL "
	"                     AND (t.http_status IS NULL OR t.http_status BETWEEN 200 AND 299) ORDER BY t.attempt DESC LIMIT 1) r ON true "
	"LEFT JOIN LATERAL (SELECT t.response_headers AS headers FROM actionledger.attempt t WHERE t.action_id = a.action_id "
	"                   AND t.kind = 'send' AND (t.http_status BETWEEN 200 AND 299 OR t.http_status = 303) AND E'\\n' || t.response_headers ILIKE E'%\\nlocation: %' ORDER BY t.attempt DESC LIMIT 1) l ON true "
	"ORDER BY u.n",
	1, {INT8ARRAYOID}
};
static AlStatement list_services = {
	"SELECT service_id FROM actionledger.service WHERE service_id % $2 = $1 ORDER BY 1", 2, {INT4OID, INT4OID}
};


static int	outcomes = 0;

static Datum move_rows(const AlMove *moves, int n, AlStatement *statement);
static void move_due(const AlMove *moves, int n, const bool *done);
static void lot_places(const AlLot *lots, int n_lots, Datum *places);
static void read_open(int n, AlStanding **standings, bool **lookups);
static void read_standing(uint64 row, AlStanding *standing);
static char *header_value(const char *lines, const char *name);

/* Locks and reads what is due. */
int
al_ledger_pick(const AlLot *lots, int n_lots, TimestampTz now, AlDueAction **actions)
{
	AlArray		free = al_array_create(INT4OID, n_lots);
	Datum		places[4];
	Datum		values[7];
	int			n;

	lot_places(lots, n_lots, places);
	for (int i = 0; i < n_lots; i++)
		al_array_set(&free, i, Int32GetDatum(lots[i].free));
	values[0] = places[0];
	values[1] = al_array_datum(&free);
	values[2] = places[1];
	values[3] = places[2];
	values[4] = TimestampTzGetDatum(now);
	values[5] = places[3];
	values[6] = Int64GetDatum(al_fence_instance());
	n = (int) al_statement_run(&pick_due, values, NULL);

	*actions = palloc0(Max(n, 1) * sizeof(AlDueAction));
	for (int i = 0; i < n; i++)
	{
		AlDueAction *action = &(*actions)[i];
		bool		isnull;
		Datum		body;

		read_standing(i, &action->standing);
		action->next_at = al_column_int8(i, N_STANDING_COLUMNS + 1);
		action->priority = al_column_int4(i, N_STANDING_COLUMNS + 2);
		action->requested_by = al_column_text(i, N_STANDING_COLUMNS + 3);
		action->method = al_column_text(i, N_STANDING_COLUMNS + 4);
		action->url = al_column_text(i, N_STANDING_COLUMNS + 5);
		action->headers = al_column_text(i, N_STANDING_COLUMNS + 6);
		body = al_column(i, N_STANDING_COLUMNS + 7, &isnull);
		action->body = isnull ? NULL : DatumGetByteaPCopy(body);
		action->looks = al_column_bool(i, N_STANDING_COLUMNS + 8);
	}
	return n;
}

/* Reads when the next action of each lot is due. */
void
al_ledger_next_due(const AlLot *lots, int n_lots, TimestampTz *out)
{
	Datum		values[4];
	uint64		n;

	for (int i = 0; i < n_lots; i++)
		out[i] = DT_NOEND;
	lot_places(lots, n_lots, values);
	n = al_statement_run(&next_due, values, NULL);
	for (uint64 row = 0; row < n; row++)
		out[al_column_int4(row, 1) - 1] = al_column_int8(row, 2);
}

/* Writes the mark and opens the attempts. */
void
al_ledger_mark(const AlMark *marks, int n, int64 incarnation, TimestampTz now)
{
	AlRows		rows;
	Datum		values[3];

	if (n == 0)
		return;
	rows = al_rows_create("_mark", n);
	for (int i = 0; i < n; i++)
	{
		al_row_set(&rows, 0, Int64GetDatum(marks[i].action_id));
		al_row_set(&rows, 1, Int32GetDatum(marks[i].attempt));
		al_row_set_time(&rows, 2, marks[i].deadline);
		al_row_set_time(&rows, 3, marks[i].window_ends_at);
		al_row_set_time(&rows, 4, marks[i].key_ends_at);
		al_row_set_time(&rows, 5, marks[i].expires_at);
		al_row_set(&rows, 6, BoolGetDatum(marks[i].lookup));
		al_row_set_time(&rows, 7, marks[i].lookup_ends_at);
		al_rows_add(&rows);
	}
	values[0] = al_rows_array(&rows, &mark_actions);
	values[1] = Int64GetDatum(incarnation);
	values[2] = TimestampTzGetDatum(now);
	if (al_statement_run(&mark_actions, values, NULL) != (uint64) n)
		elog(ERROR, "marked " UINT64_FORMAT " of %d actions", SPI_processed, n);
	open_attempts.types[0] = mark_actions.types[0];
	(void) al_statement_run(&open_attempts, values, NULL);
}

/* Locks and reads actions by number. */
int
al_ledger_lock(const int64 *action_ids, int n, AlStanding **standings)
{
	AlArray		action = al_array_create(INT8OID, n);
	Datum		value;
	int			found;

	for (int i = 0; i < n; i++)
		al_array_set(&action, i, Int64GetDatum(action_ids[i]));
	value = al_array_datum(&action);
	do
	{
		found = (int) al_statement_run(&lock_actions, &value, NULL);
		*standings = palloc(Max(found, 1) * sizeof(AlStanding));
		for (int i = 0; i < found; i++)
			read_standing(i, &(*standings)[i]);
	} while (al_rebase_owes() && al_rebase_pay() > 0);	/* their times may have been behind the clock */
	return found;
}

/* Reads an action without locking it. */
bool
al_ledger_read(int64 action_id, AlStanding *standing)
{
	Datum		value = Int64GetDatum(action_id);

	if (al_statement_run(&read_actions, &value, NULL) == 0)
		return false;
	read_standing(0, standing);
	return true;
}

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
		al_row_set_text(&rows, 3, al_verdict_name(closing->verdict));
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
		al_row_set_text(&rows, 2, al_status_name(move->status));
		al_row_set_text(&rows, 3, al_step_name(move->step));
		al_row_set_text(&rows, 4, al_known_name(move->known));
		al_row_set(&rows, 5, BoolGetDatum(move->clear_key_window));
		al_row_set_text(&rows, 6, move->external_ref);
		if (move->result != (Datum) 0)
			al_row_set(&rows, 7, move->result);
		al_row_set_text(&rows, 8, move->confirmed_by);
		al_row_set_text(&rows, 9, move->error_code);
		al_row_set_text(&rows, 10, move->error_message);
		al_row_set(&rows, 11, Int32GetDatum(move->forgive ? 1 : 0));
		al_row_set_text(&rows, 12, al_known_name(move->known_before));
		al_row_set(&rows, 13, Int32GetDatum(move->forgive_lookup ? 1 : 0));
		al_row_set(&rows, 14, BoolGetDatum(move->absent));
		al_row_set_time(&rows, 15, move->doubted_at);
		al_rows_add(&rows);
	}
	return al_rows_array(&rows, statement);
}

/* Tells how many moves have ended in something that waits for nothing but people, and begins to count anew. */
int
al_ledger_take_outcomes(void)
{
	int			n = outcomes;

	outcomes = 0;
	return n;
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

/* Puts due rows aside. */
void
al_ledger_park(const int64 *action_ids, int n)
{
	AlArray		action = al_array_create(INT8OID, n);
	Datum		value;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
		al_array_set(&action, i, Int64GetDatum(action_ids[i]));
	value = al_array_datum(&action);
	(void) al_statement_run(&park_due, &value, NULL);
}

/* Puts a page of due rows back whose pause was lifted. */
AlReleased
al_ledger_release(int index, int count, int most, int64 *after)
{
	Datum		values[4] = {Int32GetDatum(index), Int32GetDatum(count), Int64GetDatum(*after), Int32GetDatum(most)};
	AlReleased	released;

	(void) al_statement_run(&release_due, values, NULL);
	released.looked_at = al_column_int4(0, 1);
	*after = Max(*after, al_column_int8(0, 2));
	released.locked = al_column_int4(0, 3) - al_column_int4(0, 4);
	released.released = al_column_int4(0, 5);
	return released;
}

/* Lists pauses as times in which sends stood still. */
int
al_ledger_spans(AlSpan **spans)
{
	int			n = (int) al_statement_run(&list_spans, NULL, NULL);

	*spans = palloc0(Max(n, 1) * sizeof(AlSpan));
	for (int i = 0; i < n; i++)
	{
		AlSpan	   *span = &(*spans)[i];

		span->service_id = al_column_int4(i, 1);
		span->tool_id = al_column_int4(i, 2);
		span->reads = al_column_bool(i, 3);
		span->from = al_column_int8(i, 4);
		span->until = al_column_int8(i, 5);
	}
	return n;
}

/* Finds the table that the ledger stands or falls with. */
Oid
al_ledger_relation(void)
{
	Oid			namespace_id = get_namespace_oid("actionledger", true);

	return OidIsValid(namespace_id) ? get_relname_relid("action", namespace_id) : InvalidOid;
}

/* Keeps the ledger from being dropped until the transaction ends. */
bool
al_ledger_hold(Oid relation)
{
	if (!OidIsValid(relation))
		return false;
	LockRelationOid(relation, RowExclusiveLock);
	return al_ledger_relation() == relation;
}

/* Takes a number for a dispatcher that starts. */
int64
al_ledger_next_incarnation(void)
{
	(void) al_statement_run(&take_incarnation, NULL, NULL);
	return al_column_int8(0, 1);
}

/* Records the start of a dispatcher. */
void
al_ledger_record_incarnation(int64 incarnation, const char *worker)
{
	Datum		values[3] = {Int64GetDatum(incarnation), CStringGetTextDatum(worker), Int32GetDatum(MyProcPid)};

	(void) al_statement_run(&insert_incarnation, values, NULL);
}

/* Records the orderly end of a dispatcher. */
void
al_ledger_end_incarnation(int64 incarnation)
{
	Datum		value = Int64GetDatum(incarnation);

	(void) al_statement_run(&end_incarnation, &value, NULL);
}

/* Lists live actions with an open attempt of another incarnation. */
int
al_ledger_claimed(int64 except, int index, int count, AlStanding **standings, bool **lookups)
{
	Datum		values[4] = {Int64GetDatum(except), Int32GetDatum(index), Int32GetDatum(count), Int64GetDatum(al_fence_instance())};
	int			n = (int) al_statement_run(&claimed_by_others, values, NULL);

	read_open(n, standings, lookups);
	return n;
}

/* Finds what would be claimed first. */
int64
al_ledger_peek(const AlLot *lots, int n_lots, TimestampTz now, AlLot *lot)
{
	Datum		values[6];

	lot_places(lots, n_lots, values);
	values[4] = TimestampTzGetDatum(now);
	values[5] = Int64GetDatum(al_fence_instance());
	if (al_statement_run(&peek_due, values, NULL) == 0)
		return 0;
	*lot = lots[al_column_int4(0, 1) - 1];
	lot->free = 1;
	lot->mark_at = al_column_int8(0, 2);
	lot->mark_id = al_column_int8(0, 3) - 1;
	return al_column_int8(0, 3);
}

/* Blocks an action without reading it. */
void
al_ledger_block(int64 action_id, const char *code, const char *message, int64 incarnation)
{
	Datum		values[4] = {
		Int64GetDatum(action_id), CStringGetTextDatum(code), CStringGetTextDatum(message), Int64GetDatum(incarnation)
	};

	(void) al_statement_run(&block_action, values, NULL);
}

/* Puts a due row away. */
void
al_ledger_park_for_good(int64 action_id)
{
	Datum		value = Int64GetDatum(action_id);

	(void) al_statement_run(&park_for_good, &value, NULL);
}

/* Finds actions that are not there. */
void
al_ledger_missing(const int64 *action_ids, int n, bool *gone)
{
	AlArray		action = al_array_create(INT8OID, n);
	Datum		value;
	uint64		missing;

	memset(gone, false, n * sizeof(bool));
	for (int i = 0; i < n; i++)
		al_array_set(&action, i, Int64GetDatum(action_ids[i]));
	value = al_array_datum(&action);
	missing = al_statement_run(&find_missing, &value, NULL);
	for (uint64 row = 0; row < missing; row++)
		gone[al_column_int4(row, 1) - 1] = true;
}

/* Lists open attempts of actions that have been decided. */
int
al_ledger_left_open(int64 except, int index, int count, AlStanding **standings, bool **lookups)
{
	Datum		values[3] = {Int64GetDatum(except), Int32GetDatum(index), Int32GetDatum(count)};
	int			n = (int) al_statement_run(&left_open, values, NULL);

	read_open(n, standings, lookups);
	for (int i = 0; i < n; i++)
	{
		/* The attempt that is open, and whose it is. */
		(*standings)[i].attempts = al_column_int4(i, N_STANDING_COLUMNS + 2);
		(*standings)[i].claimed_by = al_column_int8(i, N_STANDING_COLUMNS + 3);
	}
	return n;
}

/* Reads what lookups need. */
int
al_ledger_particulars(const int64 *action_ids, int n, AlParticulars **particulars)
{
	AlArray		action = al_array_create(INT8OID, n);
	Datum		value;
	int			found;

	for (int i = 0; i < n; i++)
		al_array_set(&action, i, Int64GetDatum(action_ids[i]));
	value = al_array_datum(&action);
	found = (int) al_statement_run(&read_particulars, &value, NULL);
	*particulars = palloc0(Max(found, 1) * sizeof(AlParticulars));
	for (int i = 0; i < found; i++)
	{
		AlParticulars *one = &(*particulars)[i];
		bool		isnull;

		one->action_id = al_column_int8(i, 1);
		one->identity = al_column_text(i, 2);
		one->key = al_column_text(i, 3);
		one->run_id = al_column_text(i, 4);
		one->args = DatumGetJsonbPCopy(al_column(i, 5, &isnull));
		one->external_ref = al_column_text(i, 6);
		one->location = header_value(al_column_text(i, 7), "location");
	}
	return found;
}

/* Gives the value of a header among the lines that are kept of an answer; NULL for none. */
static char *
header_value(const char *lines, const char *name)
{
	size_t		len = strlen(name);

	for (const char *line = lines; line != NULL && *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
	{
		if (pg_strncasecmp(line, name, len) == 0 && line[len] == ':')
			return pnstrdup(line + len + 2, strcspn(line, "\n") - len - 2);
	}
	return NULL;
}

/* Lists the services of one dispatcher. */
int
al_ledger_services(int index, int count, int32 **service_ids)
{
	Datum		values[2] = {Int32GetDatum(index), Int32GetDatum(count)};
	int			n = (int) al_statement_run(&list_services, values, NULL);

	*service_ids = palloc(Max(n, 1) * sizeof(int32));
	for (int i = 0; i < n; i++)
		(*service_ids)[i] = al_column_int4(i, 1);
	return n;
}

/* Makes the arrays of where lots are looked at: services, marks (time, action) and priorities. */
static void
lot_places(const AlLot *lots, int n_lots, Datum *places)
{
	AlArray		service = al_array_create(INT4OID, n_lots);
	AlArray		mark_at = al_array_create(TIMESTAMPTZOID, n_lots);
	AlArray		mark_id = al_array_create(INT8OID, n_lots);
	AlArray		priority = al_array_create(INT4OID, n_lots);

	for (int i = 0; i < n_lots; i++)
	{
		al_array_set(&service, i, Int32GetDatum(lots[i].service_id));
		al_array_set(&mark_at, i, TimestampTzGetDatum(lots[i].mark_at));
		al_array_set(&mark_id, i, Int64GetDatum(lots[i].mark_id));
		al_array_set(&priority, i, Int32GetDatum(lots[i].priority));
	}
	places[0] = al_array_datum(&service);
	places[1] = al_array_datum(&mark_at);
	places[2] = al_array_datum(&mark_id);
	places[3] = al_array_datum(&priority);
}

/* Reads actions with an open attempt: their standings, and which attempts are lookups. */
static void
read_open(int n, AlStanding **standings, bool **lookups)
{
	*standings = palloc(Max(n, 1) * sizeof(AlStanding));
	*lookups = palloc(Max(n, 1) * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		read_standing(i, &(*standings)[i]);
		(*lookups)[i] = al_column_bool(i, N_STANDING_COLUMNS + 1);
	}
}

/* Reads the STANDING_COLUMNS of a result row. */
static void
read_standing(uint64 row, AlStanding *standing)
{
	standing->action_id = al_column_int8(row, 1);
	standing->tool_id = al_column_int4(row, 2);
	standing->service_id = al_column_int4(row, 3);
	if (!al_status_parse(al_column_text(row, 4), &standing->status) ||
		!al_known_parse(al_column_text(row, 5), &standing->known) ||
		!al_step_parse(al_column_text(row, 22), &standing->step))
		elog(ERROR, "action " INT64_FORMAT " has a state that this version does not know", standing->action_id);
	standing->attempts = al_column_int4(row, 6);
	standing->sends = al_column_int4(row, 7);
	standing->claimed_by = al_column_int8(row, 8);
	standing->last_sent_at = al_column_int8(row, 9);
	standing->window_ends_at = al_column_int8(row, 10);
	standing->key_ends_at = al_column_int8(row, 11);
	standing->expires_at = al_column_int8(row, 12);
	standing->cancelled_at = al_column_int8(row, 13);
	standing->key_place = al_column_text(row, 14);
	standing->expiry_moves = al_column_bool(row, 15);
	standing->lookups = al_column_int4(row, 16);
	standing->lookups_before = al_column_int4(row, 17);
	standing->absences = al_column_int4(row, 18);
	standing->lookup_ends_at = al_column_int8(row, 19);
	standing->doubted_at = al_column_int8(row, 20);
	standing->approve_by = al_column_int8(row, 21);
	standing->overridden = al_column_bool(row, 23);
}
