/*
 * roster.c
 *		The roster in shared memory.
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"

#include "clock.h"
#include "roster.h"
#include "settings.h"

AlRoster   *al_roster = NULL;

static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

static void roster_request(void);
static void roster_startup(void);
static Size roster_size(void);

/* Hooks into shared memory set-up. */
void
al_roster_request(void)
{
	previous_request = shmem_request_hook;
	shmem_request_hook = roster_request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = roster_startup;
}

/* Wakes the dispatchers of a database, or has the launcher start one. */
bool
al_roster_wake(Oid database, TimestampTz due_at)
{
	bool		running = false;
	bool		news = false;

	if (al_roster == NULL)
		return false;
	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *worker = &al_roster->workers[i];
		uint64		seen;

		if (worker->database != database || worker->latch == NULL)
			continue;
		running = true;
		seen = pg_atomic_read_u64(&worker->wake_at);
		while ((int64) seen > due_at &&
			   !pg_atomic_compare_exchange_u64(&worker->wake_at, &seen, (uint64) due_at))
			;
		SetLatch(worker->latch);
	}
	LWLockRelease(al_roster->lock);
	if (running)
		return true;

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *worker = &al_roster->workers[i];

		/* The extension may be here now. */
		if (worker->database == database && worker->nothing_here && worker->state == AL_WORKER_BACKOFF)
		{
			worker->nothing_here = false;
			worker->start_at = 0;
			news = true;
		}
	}
	/* An entry that is there has been told: a pool of sessions must not keep the launcher busy. */
	for (int i = 0; i < AL_ROSTER_POKES; i++)
	{
		AlPoke	   *poke = &al_roster->pokes[i];

		if (poke->database == database)
			break;
		if (!OidIsValid(poke->database))
		{
			poke->database = database;
			poke->at = al_clock_elapsed();
			news = true;
			break;
		}
	}
	LWLockRelease(al_roster->lock);
	if (news)
		al_roster_poke_launcher();
	return false;
}

/* Shows a breaker. */
void
al_roster_show_breaker(const AlRosterBreaker *shown)
{
	AlRosterBreaker *place = NULL;

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < AL_ROSTER_BREAKERS; i++)
	{
		AlRosterBreaker *breaker = &al_roster->breakers[i];

		if (breaker->database == shown->database && breaker->service_id == shown->service_id)
		{
			place = breaker;
			break;
		}
		if (!OidIsValid(breaker->database) && place == NULL)
			place = breaker;
	}
	if (place != NULL)
	{
		*place = *shown;
		if (!shown->open && shown->since == 0)
			place->database = InvalidOid;
	}
	LWLockRelease(al_roster->lock);
}

/* Reads the breaker of a service. */
bool
al_roster_breaker(Oid database, int32 service_id, AlRosterBreaker *out)
{
	bool		found = false;

	if (al_roster == NULL)
		return false;
	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < AL_ROSTER_BREAKERS && !found; i++)
	{
		*out = al_roster->breakers[i];
		found = out->database == database && out->service_id == service_id;
	}
	LWLockRelease(al_roster->lock);
	return found;
}

/* Finds the clock offset of a dispatcher. */
int64
al_roster_clock(Oid database)
{
	int64		offset = 0;

	if (al_roster == NULL || !OidIsValid(database))
		return 0;
	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers && offset == 0; i++)
	{
		AlWorkerSlot *worker = &al_roster->workers[i];

		if (worker->database == database && worker->pid != 0)
			offset = (int64) pg_atomic_read_u64(&worker->clock_offset);
	}
	LWLockRelease(al_roster->lock);
	return offset;
}

/* Keeps workers away from a database. */
bool
al_roster_hold(Oid database)
{
	bool		held = false;

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < AL_ROSTER_HOLDS && !held; i++)
	{
		AlHold	   *hold = &al_roster->holds[i];

		if (hold->holder != 0 && BackendPidGetProc(hold->holder) != NULL)
			continue;
		hold->database = database;
		hold->holder = MyProcPid;
		held = true;
	}
	LWLockRelease(al_roster->lock);
	return held;
}

/* Lets workers come back. */
void
al_roster_unhold(Oid database)
{
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < AL_ROSTER_HOLDS; i++)
	{
		AlHold	   *hold = &al_roster->holds[i];

		if (hold->holder == MyProcPid && hold->database == database)
			hold->holder = 0;
	}
	LWLockRelease(al_roster->lock);
	al_roster_poke_launcher();
}

/* Tells whether workers are kept away from a database. */
bool
al_roster_is_held(Oid database)
{
	for (int i = 0; i < AL_ROSTER_HOLDS; i++)
	{
		AlHold	   *hold = &al_roster->holds[i];

		if (hold->holder != 0 && hold->database == database && BackendPidGetProc(hold->holder) != NULL)
			return true;
	}
	return false;
}

/* Ends the dispatchers of a database. */
int
al_roster_dismiss(Oid database)
{
	int			n = 0;

	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *worker = &al_roster->workers[i];

		if (worker->state == AL_WORKER_FREE || worker->database != database)
			continue;
		if (worker->pid != 0)
			kill(worker->pid, SIGTERM);
		if (worker->pid != 0 || worker->state == AL_WORKER_STARTING)
			n++;
	}
	LWLockRelease(al_roster->lock);
	return n;
}

/* Sets the launcher's latch. */
void
al_roster_poke_launcher(void)
{
	if (al_roster == NULL)
		return;
	LWLockAcquire(al_roster->lock, LW_SHARED);
	if (al_roster->launcher_latch != NULL)
		SetLatch(al_roster->launcher_latch);
	LWLockRelease(al_roster->lock);
}

/* Computes how much shared memory the roster takes. */
static Size
roster_size(void)
{
	return add_size(offsetof(AlRoster, workers),
					mul_size(al_max_workers, sizeof(AlWorkerSlot)));
}

/* Reserves the memory and the lock. */
static void
roster_request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(roster_size());
	RequestNamedLWLockTranche("actionledger", 1);
}

/* Creates the roster, or finds the one that is there. */
static void
roster_startup(void)
{
	bool		found;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	al_roster = ShmemInitStruct("actionledger roster", roster_size(), &found);
	if (!found)
	{
		memset(al_roster, 0, roster_size());
		al_roster->lock = &GetNamedLWLockTranche("actionledger")->lock;
		al_roster->n_workers = al_max_workers;
		ConditionVariableInit(&al_roster->outcome);
		for (int i = 0; i < al_max_workers; i++)
		{
			pg_atomic_init_u64(&al_roster->workers[i].wake_at, AL_WAKE_NEVER);
			pg_atomic_init_u64(&al_roster->workers[i].clock_offset, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}
