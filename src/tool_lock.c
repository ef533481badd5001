/*
 * tool_lock.c
 *		Keeping a tool what it is while actions of it are recorded.
 *
 * Who drops a tool counts its actions first, and does not see those of open
 * transactions.  These would come later, of a tool that is gone.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"

#include "errors.h"
#include "settings.h"
#include "tool_lock.h"
#include "visible.h"

/* Beside 1 and 2 of SQL functions, 3 of incarnations, 4 of the clock, 5 of pauses. */
#define TOOL_LOCK_CLASS 6

static bool take(int32 tool_id, LOCKMODE mode);

/* Keeps a tool until the transaction ends. */
void
al_tool_lock_share(int32 tool_id, const char *name)
{
	if (take(tool_id, ShareLock))
		return;
	ereport(ERROR,
			(errcode(AL_ERR_UNAVAILABLE),
			 errmsg("tool \"%s\" is being changed by another transaction", al_visible(name)),
			 errdetail("That transaction has not ended within actionledger.identity_wait (or lock_timeout, where that is shorter). Nothing was recorded."),
			 errhint("Try again when it has.")));
}

/* Has a tool for oneself until the transaction ends. */
void
al_tool_lock_exclusive(int32 tool_id, const char *name)
{
	if (take(tool_id, ExclusiveLock))
		return;
	ereport(ERROR,
			(errcode(AL_ERR_IN_USE),
			 errmsg("actions of tool \"%s\" are being recorded by open transactions", al_visible(name)),
			 errdetail("They have not ended within actionledger.identity_wait (or lock_timeout, where that is shorter)."),
			 errhint("Try again when they have; a prepared transaction shows in pg_prepared_xacts.")));
}

/* Takes the lock of a tool; false when it was waited for too long. */
static bool
take(int32 tool_id, LOCKMODE mode)
{
	int			saved = LockTimeout;
	volatile bool taken = false;
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, (uint32) tool_id, TOOL_LOCK_CLASS);
	if (LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	if (LockTimeout == 0 || LockTimeout > al_identity_wait)
		LockTimeout = al_identity_wait;
	PG_TRY();
	{
		(void) LockAcquire(&tag, mode, false, false);
		LockTimeout = saved;
		taken = true;
	}
	PG_CATCH();
	{
		LockTimeout = saved;
		if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return taken;
}
