/*
 * gate.c
 *		The gate between the commit of a mark and the first byte.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "gate.h"
#include "settings.h"

static int	standbys_past(XLogRecPtr position);

/* Tells whether a committed mark is known to be replicated as promised. */
bool
al_gate_is_open(XLogRecPtr commit_end)
{
	bool		released = true;

	if (SyncRepRequested() && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0')
	{
		LWLockAcquire(SyncRepLock, LW_SHARED);
		released = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] >= commit_end;
		LWLockRelease(SyncRepLock);
	}
	return released &&
		(al_min_sync_standbys == 0 || standbys_past(commit_end) >= al_min_sync_standbys);
}

/* Says why this server's settings forbid any sending. */
const char *
al_gate_refusal(void)
{
	if (!enableFsync)
		return "fsync is off: a mark would not survive a crash";
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
