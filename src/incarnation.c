/*
 * incarnation.c
 *		Locks that show an incarnation alive.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

#include "incarnation.h"

/* Above 1 and 2, which the SQL functions use. */
#define INCARNATION_LOCK_CLASS 3

/* Makes the lock tag of an incarnation. */
static LOCKTAG
incarnation_tag(int64 incarnation)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (incarnation >> 32), (uint32) incarnation,
						 INCARNATION_LOCK_CLASS);
	return tag;
}

/* Takes the lock for the rest of the process. */
bool
al_incarnation_hold(int64 incarnation)
{
	LOCKTAG		tag = incarnation_tag(incarnation);

	return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* Tries the lock of another process. */
bool
al_incarnation_is_alive(int64 incarnation)
{
	LOCKTAG		tag = incarnation_tag(incarnation);

	if (LockAcquire(&tag, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, ExclusiveLock, true);
	return false;
}
