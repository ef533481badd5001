/*
 * ledger.c
 *		The ledger as dispatch finds it: its relation, incarnations, and actions read by number.
 *
 * The worker runs with search_path pinned and generic plans.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "batch.h"
#include "fence.h"
#include "labels.h"
#include "ledger.h"
#include "ledger_internal.h"
#include "rebase.h"

static AlStatement lock_actions = {
	"SELECT " STANDING_COLUMNS " FROM unnest($1::bigint[]) AS u(action_id) "
	"JOIN actionledger.action a ON a.action_id = u.action_id FOR NO KEY UPDATE OF a SKIP LOCKED",
	1, {INT8ARRAYOID}
};
static AlStatement read_actions = {
	"SELECT " STANDING_COLUMNS " FROM actionledger.action a WHERE a.action_id = $1", 1, {INT8OID}
};
static AlStatement claimed_by_others = {
	"SELECT " STANDING_COLUMNS ", EXISTS (SELECT FROM actionledger.attempt t WHERE t.action_id = a.action_id "
	"  AND t.attempt = a.attempts AND t.kind = 'lookup') "
	"FROM actionledger.due d JOIN actionledger.action a USING (action_id) "
	"WHERE a.claimed_by > 0 AND a.claimed_by <> $1 AND a.instance = $4 AND d.service_id % $3 = $2 ORDER BY a.action_id",
	4, {INT8OID, INT4OID, INT4OID, INT8OID}
};
static AlStatement left_open = {
	"SELECT DISTINCT " STANDING_COLUMNS ", t.kind = 'lookup', t.attempt::int, CASE WHEN t.kind = 'external' THEN -t.incarnation ELSE t.incarnation END "
	"FROM actionledger.event e JOIN actionledger.action a ON a.action_id = e.action_id "
	"JOIN actionledger.attempt t ON t.action_id = e.action_id AND t.finished_at IS NULL "
	"WHERE e.what = 'left_open' AND t.incarnation <> $1 AND (t.kind <> 'external' OR t.deadline < pg_catalog.now()) AND a.status IN ('confirmed', 'failed') AND a.service_id % $3 = $2",
	3, {INT8OID, INT4OID, INT4OID}
};
static AlStatement find_missing = {
	"SELECT u.n::int FROM unnest($1::bigint[]) WITH ORDINALITY AS u(action_id, n) "
	"WHERE NOT EXISTS (SELECT FROM actionledger.action a WHERE a.action_id = u.action_id)",
	1, {INT8ARRAYOID}
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
static AlStatement list_services = {
	"SELECT service_id FROM actionledger.service WHERE service_id % $2 = $1 ORDER BY 1", 2, {INT4OID, INT4OID}
};

static void	read_open(int n, AlStanding **standings, bool **lookups);

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

/* Locks and reads actions by number. */
int
al_ledger_lock(const int64 *action_ids, int n, AlStanding **standings)
{
	Datum		value = al_array_of_numbers(action_ids, n);
	int			found;

	do
	{
		found = (int) al_statement_run(&lock_actions, &value, NULL);
		*standings = palloc(Max(found, 1) * sizeof(AlStanding));
		for (int i = 0; i < found; i++)
			al_ledger_read_standing(i, &(*standings)[i]);
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
	al_ledger_read_standing(0, standing);
	return true;
}

/* Finds actions that are not there. */
void
al_ledger_missing(const int64 *action_ids, int n, bool *gone)
{
	Datum		value = al_array_of_numbers(action_ids, n);
	uint64		missing;

	memset(gone, false, n * sizeof(bool));
	missing = al_statement_run(&find_missing, &value, NULL);
	for (uint64 row = 0; row < missing; row++)
		gone[al_column_int4(row, 1) - 1] = true;
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

/* Reads actions with an open attempt: their standings, and which attempts are lookups. */
static void
read_open(int n, AlStanding **standings, bool **lookups)
{
	*standings = palloc(Max(n, 1) * sizeof(AlStanding));
	*lookups = palloc(Max(n, 1) * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		al_ledger_read_standing(i, &(*standings)[i]);
		(*lookups)[i] = al_column_bool(i, N_STANDING_COLUMNS + 1);
	}
}

/* Reads the STANDING_COLUMNS of a result row. */
void
al_ledger_read_standing(uint64 row, AlStanding *standing)
{
	bool		isnull;

	standing->action_id = al_column_int8(row, 1);
	standing->tool_id = al_column_int4(row, 2);
	standing->service_id = al_column_int4(row, 3);
	if (!al_label_read_status(al_column(row, 4, &isnull), &standing->status) ||
		!al_label_read_known(al_column(row, 5, &isnull), &standing->known) ||
		!al_label_read_step(al_column(row, 22, &isnull), &standing->step))
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
