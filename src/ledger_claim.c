/*
 * ledger_claim.c
 *		What is due: picked, marked, or put away.
 *
 * The mark is a heap-only update of the action row; the due row is left alone
 * while an attempt is open.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "batch.h"
#include "fence.h"
#include "ledger.h"
#include "ledger_internal.h"

static AlStatement pick_due = {
	"SELECT " STANDING_COLUMNS ", a.due_at, a.priority, a.requested_by, a.method, a.url, a.headers, a.body "
	"FROM (SELECT d.*, s.priority "
	"      FROM unnest($1::int[], $2::int[], $3::timestamptz[], $4::bigint[], $6::int[]) AS s(service_id, free, mark_at, mark_id, priority), "
	"      LATERAL (SELECT y.*, x.next_at AS due_at FROM actionledger.due x JOIN actionledger.action y USING (action_id) "
	"               WHERE NOT x.external AND x.service_id = s.service_id AND x.priority = s.priority AND (x.next_at, x.action_id) > (s.mark_at, s.mark_id) "
	"                 AND x.next_at <= $5 AND y.claimed_by IS NULL AND y.instance = $7 AND y.next_step IN ('send', 'resend', 'wait', 'lookup', 'approve') "
	"               ORDER BY x.next_at, x.action_id LIMIT s.free FOR NO KEY UPDATE OF y SKIP LOCKED) d) a",
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
static AlStatement peek_due = {
	"SELECT s.n::int, d.next_at, d.action_id "
	"FROM unnest($1::int[], $2::timestamptz[], $3::bigint[], $4::int[]) WITH ORDINALITY AS s(service_id, mark_at, mark_id, priority, n), "
	"LATERAL (SELECT x.next_at, x.action_id FROM actionledger.due x JOIN actionledger.action y USING (action_id) "
	"         WHERE NOT x.external AND x.service_id = s.service_id AND x.priority = s.priority AND (x.next_at, x.action_id) > (s.mark_at, s.mark_id) "
	"           AND x.next_at <= $5 AND y.claimed_by IS NULL AND y.instance = $6 AND y.next_step IN ('send', 'resend', 'wait', 'lookup', 'approve') "
	"         ORDER BY x.next_at, x.action_id LIMIT 1 FOR NO KEY UPDATE OF y SKIP LOCKED) d ORDER BY s.priority DESC, d.next_at, d.action_id LIMIT 1",
	6, {INT4ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TIMESTAMPTZOID, INT8OID}
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

static void	lot_places(const AlLot *lots, int n_lots, Datum *places);

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

		al_ledger_read_standing(i, &action->standing);
		action->next_at = al_column_int8(i, N_STANDING_COLUMNS + 1);
		action->priority = al_column_int4(i, N_STANDING_COLUMNS + 2);
		action->requested_by = al_column_text(i, N_STANDING_COLUMNS + 3);
		action->method = al_column_text(i, N_STANDING_COLUMNS + 4);
		action->url = al_column_text(i, N_STANDING_COLUMNS + 5);
		action->headers = al_column_text(i, N_STANDING_COLUMNS + 6);
		body = al_column(i, N_STANDING_COLUMNS + 7, &isnull);
		action->body = isnull ? NULL : DatumGetByteaPCopy(body);
		action->looks = action->standing.step == AL_STEP_LOOKUP;
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
	al_statement_take(&open_attempts, mark_actions.types[0]);
	(void) al_statement_run(&open_attempts, values, NULL);
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
