/*
 * notice.c
 *		Telling who listens that outcomes are there.
 *
 * Notices are sent by workers only, at most one in 100 ms for each, with a
 * number and nothing of anybody's data.  A NOTIFY holds a lock of the whole
 * cluster until its commit is over: so the commit waits neither for the disk nor
 * for a standby, and where somebody else holds that lock, the notice is put off.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "clock.h"
#include "notice.h"
#include "settings.h"
#include "visible.h"

#define CHANNEL "actionledger"
#define APART_US INT64CONST(100000)
#define BUSY_US INT64CONST(500000)
#define ERROR_US INT64CONST(30000000)

static int	pending = 0;
static int64 not_before = 0;	/* in elapsed time */

static bool take_notify_lock(void);

/* Counts outcomes that have been committed. */
void
al_notice_add(int outcomes)
{
	if (al_notify)
		pending += outcomes;
}

/* Tells when a notice is due. */
long
al_notice_wait_ms(void)
{
	if (pending == 0)
		return -1;
	return (long) ((Max(0, not_before - al_clock_elapsed()) + 999) / 1000);
}

/* Sends a notice, or puts it off. */
void
al_notice_send(void)
{
	MemoryContext context = CurrentMemoryContext;
	char		payload[64];

	snprintf(payload, sizeof(payload), "{\"outcomes\": %d}", pending);
	PG_TRY();
	{
		StartTransactionCommand();
		if (take_notify_lock())
		{
			Async_Notify(CHANNEL, payload);
			(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
			CommitTransactionCommand();
			pending = 0;
			not_before = al_clock_elapsed() + APART_US;
		}
		else
		{
			CommitTransactionCommand();
			not_before = al_clock_elapsed() + BUSY_US;
		}
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		(void) al_visible_report();
		AbortCurrentTransaction();
		not_before = al_clock_elapsed() + ERROR_US;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/* Takes the lock that a notifying commit takes, if nobody has it. */
static bool
take_notify_lock(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	return LockAcquire(&tag, AccessExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}
