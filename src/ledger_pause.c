/*
 * ledger_pause.c
 *		What pauses hold: due rows put aside and put back, and the times of the pauses.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "batch.h"
#include "ledger.h"

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

/* Puts due rows aside. */
void
al_ledger_park(const int64 *action_ids, int n)
{
	Datum		value = al_array_of_numbers(action_ids, n);

	if (n > 0)
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
