/*
 * gate.c
 *		The gate between the commit of a mark and the first byte.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/lsyscache.h"
#include "utils/wait_event.h"

#include "gate.h"
#include "settings.h"

static bool wait_for_standbys(XLogRecPtr position);
static int	standbys_past(XLogRecPtr position);
static const char *unlogged_table(void);

/* Tells whether a committed mark is known to be replicated as promised. */
bool
al_gate_is_open(XLogRecPtr commit_end)
{
	bool		released = true;

	if (max_wal_senders > 0 && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0')
	{
		LWLockAcquire(SyncRepLock, LW_SHARED);
		released = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] >= commit_end;
		LWLockRelease(SyncRepLock);
	}
	return released && (al_min_sync_standbys == 0 || wait_for_standbys(commit_end));
}

/*
 * Waits until enough standbys have flushed a position, as a commit waits that
 * is synchronous; false when that is not going to happen soon.
 */
static bool
wait_for_standbys(XLogRecPtr position)
{
	while (standbys_past(position) < al_min_sync_standbys)
	{
		if (ShutdownRequestPending || ConfigReloadPending || standbys_past(1) < al_min_sync_standbys)
			return false;
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, WAIT_EVENT_SYNC_REP);
	}
	return true;
}

/* Says why this server's settings forbid any sending. */
const char *
al_gate_refusal(void)
{
	if (!enableFsync)
		return "fsync is off: a mark would not survive a crash";
	if (al_min_sync_standbys > 0 && standbys_past(1) < al_min_sync_standbys)
		return "fewer standbys are streaming than actionledger.min_sync_standbys asks for";
	return NULL;
}

/* Says which of the ledger's tables forbids any sending. */
char *
al_gate_table_refusal(void)
{
	const char *table = unlogged_table();

	return table ? psprintf("table actionledger.%s is unlogged: it would be empty after a crash", table) : NULL;
}

/* Finds a table that a mark or an outcome is written to, and that is not logged. */
static const char *
unlogged_table(void)
{
	static const char *const tables[] = {"action", "due", "attempt", "event", "incarnation", "ledger", "pause"};
	Oid			namespace_id = get_namespace_oid("actionledger", true);

	for (int i = 0; i < lengthof(tables); i++)
	{
		Oid			table = OidIsValid(namespace_id) ? get_relname_relid(tables[i], namespace_id) : InvalidOid;

		if (OidIsValid(table) && get_rel_persistence(table) != RELPERSISTENCE_PERMANENT)
			return tables[i];
	}
	return NULL;
}

/* Counts streaming standbys that have flushed a position. */
static int
standbys_past(XLogRecPtr position)
{
	int			n = 0;

	for (int i = 0; i < max_wal_senders; i++)
	{
		WalSnd	   *sender = &WalSndCtl->walsnds[i];

		SpinLockAcquire(&sender->mutex);
		if (sender->pid != 0 && sender->state == WALSNDSTATE_STREAMING &&
			!XLogRecPtrIsInvalid(sender->flush) && sender->flush >= position)
			n++;
		SpinLockRelease(&sender->mutex);
	}
	return n;
}
