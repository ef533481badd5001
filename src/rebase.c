/*
 * rebase.c
 *		The clock has been set: stored times follow it.
 *
 * The ledger's row says by which offset the times are stored.  Whoever finds
 * another one owes every live action the difference, and pays at once where it
 * can lock the action; the rest is paid later, before anybody decides by it.
 * An offset counts only within one boot of the machine: what happened to the
 * clock between two boots cannot be known.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "ledger.h"
#include "rebase.h"
#include "registry.h"
#include "session.h"
#include "visible.h"

/* Beside the locks of incarnations. */
#define CLOCK_LOCK_CLASS 4
#define DRIFT_TO_RECORD_US INT64CONST(300000)

static AlStatement select_clock = {
	"SELECT clock_offset, clock_boot, clock_ahead_until FROM actionledger.ledger FOR UPDATE", 0, {0}
};
static AlStatement update_clock = {
	"UPDATE actionledger.ledger SET clock_offset = $1, clock_boot = $2, clock_ahead_until = $3", 3, {INT8OID, TEXTOID, TIMESTAMPTZOID}
};
/* Never over what another dispatcher has recorded after the clock was set. */
static AlStatement update_drift = {
	"UPDATE actionledger.ledger SET clock_offset = $1 WHERE clock_boot = $2 AND abs(clock_offset - $1) BETWEEN $3 AND $4",
	4, {INT8OID, TEXTOID, INT8OID, INT8OID}
};
static AlStatement owe_all = {
	"INSERT INTO actionledger.clock_debt (action_id, shift) SELECT d.action_id, $1 * interval '1 microsecond' FROM actionledger.due d "
	"ON CONFLICT (action_id) DO UPDATE SET shift = clock_debt.shift + excluded.shift",
	1, {INT8OID}
};

/*
 * What is due again after a send moves.  What was never sent is due at a time
 * of day; when that had come, it is still due.
 */
static AlStatement pay_debts = {
	"WITH mine AS MATERIALIZED ("
	"  SELECT c.action_id, c.shift, a.attempts, a.not_before, a.next_step = 'approve' AS waits FROM actionledger.clock_debt c JOIN actionledger.action a USING (action_id) "
	"  FOR NO KEY UPDATE OF a SKIP LOCKED), "
	"moved AS ("
	"  UPDATE actionledger.action a SET last_sent_at = a.last_sent_at + m.shift, window_ends_at = a.window_ends_at + m.shift, "
	"    key_ends_at = a.key_ends_at + m.shift, lookup_ends_at = a.lookup_ends_at + m.shift, doubted_at = a.doubted_at + m.shift, approve_by = a.approve_by + m.shift, "
	"    expires_at = CASE WHEN a.expiry_moves THEN a.expires_at + m.shift ELSE a.expires_at END "
	"  FROM mine m WHERE a.action_id = m.action_id), "
	"due AS ("
	"  UPDATE actionledger.due d SET next_at = CASE WHEN d.held_at IS NULL THEN n.next_at ELSE d.next_at END, "
	"      held_at = CASE WHEN d.held_at IS NULL THEN NULL ELSE n.next_at END "
	"  FROM mine m JOIN actionledger.due o USING (action_id), "
	"    LATERAL (SELECT coalesce(o.held_at, o.next_at) AS was) w, "
	"    LATERAL (SELECT CASE WHEN m.attempts > 0 OR m.waits THEN w.was + m.shift ELSE greatest(w.was + m.shift, m.not_before) END AS next_at) n "
	"  WHERE d.action_id = m.action_id AND w.was < 'infinity' AND "
	"    (m.attempts > 0 OR m.waits OR (m.shift < '0' AND w.was > clock_timestamp() AND w.was <= clock_timestamp() - m.shift))) "
	"DELETE FROM actionledger.clock_debt c USING mine m WHERE c.action_id = m.action_id",
	0, {0}
};
/* Those that clocks of live actions may still be reckoned by; before the actions move. */
static AlStatement shift_pauses = {
	"UPDATE actionledger.pause SET paused_at = paused_at + $1 * interval '1 microsecond', resumed_at = resumed_at + $1 * interval '1 microsecond' "
	"WHERE resumed_at IS NULL OR resumed_at >= (SELECT min(coalesce(held_at, next_at)) FROM actionledger.due)",
	1, {INT8OID}
};
static AlStatement count_debts = {
	"SELECT count(*) FROM actionledger.clock_debt", 0, {0}
};

/* Rows of transactions that were open when the clock was set back: recorded in what is the future now. */
static AlStatement fetch_back = {
	"WITH mine AS MATERIALIZED ("
	"  SELECT d.action_id, a.not_before FROM actionledger.due d JOIN actionledger.action a USING (action_id) "
	"  WHERE d.next_at > clock_timestamp() AND d.next_at <= $1 AND a.attempts = 0 AND a.created_at > clock_timestamp() "
	"    AND (a.not_before IS NULL OR a.not_before < d.next_at) FOR NO KEY UPDATE OF a SKIP LOCKED) "
	"UPDATE actionledger.due d SET next_at = greatest(clock_timestamp(), m.not_before) FROM mine m WHERE d.action_id = m.action_id",
	1, {TIMESTAMPTZOID}
};

static bool owes = false;
static TimestampTz ahead_until = 0; /* times up to then may come from a clock that was ahead */

static pg_noinline void adapt(Oid ledger, int64 *offset);
static void move_all(int64 jump, int64 offset, TimestampTz *ahead);
static LOCKTAG clock_tag(void);

/* Moves the stored times, and then this process's clock. */
bool
al_rebase_run(Oid ledger)
{
	MemoryContext context = CurrentMemoryContext;
	int64		offset = 0;
	volatile bool done = false;

	PG_TRY();
	{
		adapt(ledger, &offset);
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		(void) al_visible_report();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	if (done && offset != 0)
		al_clock_settle(offset);
	return done;
}

/* Compares the recorded offset with the clock, in a transaction. */
static void
adapt(Oid ledger, int64 *offset)
{
	const char *boot = al_clock_boot();
	AlSession	session;
	LOCKTAG		tag = clock_tag();
	int64		jump = 0;
	char	   *recorded_boot;

	StartTransactionCommand();
	if (!al_ledger_hold(ledger))
	{
		CommitTransactionCommand();
		return;
	}
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	if (!al_clock_sample(offset))
		elog(ERROR, "could not read the clocks at one moment");
	al_session_begin(&session, false);
	if (al_statement_run(&select_clock, NULL, NULL) > 0)
	{
		recorded_boot = al_column_text(0, 2);
		ahead_until = al_column_int8(0, 3);
		if (boot != NULL && recorded_boot != NULL && strcmp(boot, recorded_boot) == 0)
			jump = *offset - al_column_int8(0, 1);
		if (jump < -AL_CLOCK_JUMP_US || jump > AL_CLOCK_JUMP_US)
			move_all(jump, *offset, &ahead_until);
		if (jump != 0 || boot == NULL || recorded_boot == NULL || strcmp(boot, recorded_boot) != 0)
		{
			Datum		values[3] = {
				Int64GetDatum(*offset), boot ? CStringGetTextDatum(boot) : (Datum) 0, TimestampTzGetDatum(ahead_until)
			};
			char		nulls[4] = {' ', boot ? ' ' : 'n', ahead_until != 0 ? ' ' : 'n', '\0'};

			(void) al_statement_run(&update_clock, values, nulls);
		}
	}
	(void) al_statement_run(&count_debts, NULL, NULL);
	owes = al_column_int8(0, 1) > 0;
	al_session_end(&session);
	CommitTransactionCommand();
}

/* Owes all live actions the jump, and pays those that nobody has locked. */
static void
move_all(int64 jump, int64 offset, TimestampTz *ahead)
{
	Datum		value = Int64GetDatum(jump);
	uint64		n = al_statement_run(&owe_all, &value, NULL);
	uint64		paid;

	if (al_statement_run(&shift_pauses, &value, NULL) > 0)
		al_registry_changed();
	paid = al_statement_run(&pay_debts, NULL, NULL);

	if (jump < 0)
		*ahead = Max(*ahead, al_clock_elapsed() + offset - jump);
	ereport(LOG,
			(errmsg("actionledger: the clock was set %s by %.3f s", jump > 0 ? "forward" : "back", (jump > 0 ? jump : -jump) / 1e6),
			 errdetail("What was measured of " UINT64_FORMAT " live actions (last send, windows, waits) moves with it%s.", n,
					   paid < n ? "; some are locked and follow" : "")));
}

/* Takes the lock in share mode, and looks at the clock once more. */
bool
al_rebase_keep_off(void)
{
	LOCKTAG		tag = clock_tag();

	(void) LockAcquire(&tag, ShareLock, false, false);
	return !al_clock_has_jumped();
}

/* Records drift, and sees to debts and to what came late. */
void
al_rebase_look(void)
{
	const char *boot = al_clock_boot();

	if (!al_rebase_keep_off())
		return;
	if (boot != NULL)
	{
		Datum		values[4] = {
			Int64GetDatum(al_clock_offset()), CStringGetTextDatum(boot), Int64GetDatum(DRIFT_TO_RECORD_US), Int64GetDatum(AL_CLOCK_JUMP_US)
		};

		(void) al_statement_run(&update_drift, values, NULL);
	}
	if (al_rebase_owes())
		(void) al_rebase_pay();
	if (ahead_until != 0 && al_clock_now() < ahead_until)
	{
		Datum		value = TimestampTzGetDatum(ahead_until);

		(void) al_statement_run(&fetch_back, &value, NULL);
	}
}

/* Tells whether debts may be left; a session cannot know that there are none. */
bool
al_rebase_owes(void)
{
	return owes || al_clock_offset() == 0;
}

/* Pays what can be paid. */
int
al_rebase_pay(void)
{
	int			paid = (int) al_statement_run(&pay_debts, NULL, NULL);

	(void) al_statement_run(&count_debts, NULL, NULL);
	owes = al_column_int8(0, 1) > 0;
	return paid;
}

/* Makes the tag of the lock over the stored times of a database. */
static LOCKTAG
clock_tag(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, CLOCK_LOCK_CLASS);
	return tag;
}
