/*
 * launcher.c
 *		The launcher: finds databases that want dispatchers and keeps those
 *		running, with a growing pause after each failure.
 *
 * It is connected to no database.  A database is found through its setting
 * actionledger.enabled, or because a session there has announced work, found
 * nobody to do it, and nothing is set.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "databases.h"
#include "launcher.h"
#include "roster.h"
#include "settings.h"

#define LAUNCHER_POLL_MS 5000
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_LAST_MS 60000
#define STABLE_MS 60000			/* a worker that ran so long starts with a clean slate */
#define STARTING_LIMIT_MS 60000
#define NO_ROOM_LOG_MS 600000

/* What became of the workers that this process has started, by slot; NULL for none. */
static BackgroundWorkerHandle **handles;

static List *list_wanted(void);
static List *take_pokes(List *on, List *off);
static void staff_database(Oid database);
static AlWorkerSlot *find_slot(Oid database, int index);
static void start_worker(AlWorkerSlot *slot);
static void dismiss_unwanted(List *wanted);
static void settle_ended(void);
static bool never_began(int slot, int64 now);
static void complain_of_room(void);
static long next_wait_ms(void);
static void on_launcher_exit(int code, Datum arg);

/* Registers the launcher with the postmaster. */
void
al_launcher_register(void)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 5
	};

	if (IsBinaryUpgrade)
		return;
	strlcpy(worker.bgw_name, "actionledger launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "actionledger launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "actionledger", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "al_launcher_main", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/* Runs until the server stops. */
void
al_launcher_main(Datum arg)
{
	MemoryContext turn_context;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_appname("actionledger launcher");

	before_shmem_exit(on_launcher_exit, 0);
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	al_roster->launcher_pid = MyProcPid;
	al_roster->launcher_latch = MyLatch;
	al_roster->launcher_since = GetCurrentTimestamp();
	LWLockRelease(al_roster->lock);

	handles = MemoryContextAllocZero(TopMemoryContext, al_roster->n_workers * sizeof(BackgroundWorkerHandle *));
	turn_context = AllocSetContextCreate(TopMemoryContext, "actionledger launcher turn", ALLOCSET_DEFAULT_SIZES);
	while (!ShutdownRequestPending)
	{
		List	   *wanted;
		ListCell   *cell;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextSwitchTo(turn_context);
		settle_ended();
		wanted = list_wanted();
		foreach(cell, wanted)
			staff_database(lfirst_oid(cell));
		dismiss_unwanted(wanted);
		MemoryContextReset(turn_context);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 next_wait_ms(), PG_WAIT_EXTENSION);
	}
	/* A background worker that ends with 0 is never started again. */
	proc_exit(1);
}

/* Lists the databases that want dispatchers; lives in the caller's context. */
static List *
list_wanted(void)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *on;
	List	   *off;
	List	   *wanted;
	ListCell   *cell;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	MemoryContextSwitchTo(caller);
	al_databases_read(&on, &off);
	wanted = take_pokes(on, off);
	LWLockAcquire(al_roster->lock, LW_SHARED);
	foreach(cell, wanted)
	{
		if (al_roster_is_held(lfirst_oid(cell)))
			wanted = foreach_delete_current(wanted, cell);
	}
	LWLockRelease(al_roster->lock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return wanted;
}

/*
 * Adds databases in which work was announced and nobody is there to do it.
 * Where something is set, that alone decides.  An announcement that changes
 * nothing is kept for the length of a poll, so that the next one is no news.
 */
static List *
take_pokes(List *on, List *off)
{
	List	   *wanted = list_copy(on);
	AlPoke		pokes[AL_ROSTER_POKES];
	int64		now = al_clock_elapsed();

	LWLockAcquire(al_roster->lock, LW_SHARED);
	memcpy(pokes, al_roster->pokes, sizeof(pokes));
	LWLockRelease(al_roster->lock);
	for (int i = 0; i < AL_ROSTER_POKES; i++)
	{
		Oid			database = pokes[i].database;

		if (!OidIsValid(database))
			continue;
		if (!list_member_oid(on, database) && !list_member_oid(off, database) && al_database_connectable(database))
			wanted = lappend_oid(wanted, database);
		else if (now - pokes[i].at >= LAUNCHER_POLL_MS * 1000)
		{
			LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
			if (al_roster->pokes[i].database == database)
				al_roster->pokes[i].database = InvalidOid;
			LWLockRelease(al_roster->lock);
		}
	}
	return wanted;
}

/* Starts those dispatchers of a database that are due to be started. */
static void
staff_database(Oid database)
{
	for (int index = 0; index < al_dispatchers; index++)
	{
		AlWorkerSlot *slot = find_slot(database, index);

		if (slot == NULL)
		{
			complain_of_room();
			return;
		}
		if ((slot->state == AL_WORKER_BACKOFF || slot->state == AL_WORKER_MISSING) &&
			slot->start_at <= al_clock_elapsed())
			start_worker(slot);
	}
}

/* Says, now and then, that a database goes without dispatchers. */
static void
complain_of_room(void)
{
	static int64 said_at = 0;
	int64		now = al_clock_elapsed();

	if (said_at != 0 && now - said_at < INT64CONST(1000) * NO_ROOM_LOG_MS)
		return;
	said_at = now;
	ereport(LOG,
			(errmsg("actionledger has no room for another dispatcher"),
			 errhint("Raise actionledger.max_workers and restart the server.")));
}

/* Finds the slot of a dispatcher, or takes a free one for it. */
static AlWorkerSlot *
find_slot(Oid database, int index)
{
	AlWorkerSlot *spare = NULL;

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *slot = &al_roster->workers[i];

		if (slot->state != AL_WORKER_FREE && slot->database == database && slot->index == index)
		{
			LWLockRelease(al_roster->lock);
			return slot;
		}
		if (slot->state == AL_WORKER_FREE && spare == NULL)
			spare = slot;
	}
	if (spare != NULL)
	{
		spare->state = AL_WORKER_BACKOFF;
		spare->database = database;
		spare->index = index;
		spare->pid = 0;
		spare->latch = NULL;
		spare->since = GetCurrentTimestamp();
		spare->began = al_clock_elapsed();
		spare->start_at = 0;
		spare->last_turn = 0;
		spare->failures = 0;
		spare->restarts = -1;
		spare->in_flight = 0;
		spare->renew = false;
		spare->nothing_here = false;
		spare->detail[0] = '\0';
		pg_atomic_write_u64(&spare->wake_at, AL_WAKE_NEVER);
		pg_atomic_write_u64(&spare->clock_offset, 0);
	}
	LWLockRelease(al_roster->lock);
	return spare;
}

/* Asks the postmaster to start a dispatcher. */
static void
start_worker(AlWorkerSlot *slot)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_notify_pid = MyProcPid
	};
	int			number = (int) (slot - al_roster->workers);
	bool		again = slot->state == AL_WORKER_MISSING;
	MemoryContext old;
	bool		registered;

	snprintf(worker.bgw_name, BGW_MAXLEN, "actionledger dispatcher %d of database %u", slot->index, slot->database);
	strlcpy(worker.bgw_type, "actionledger dispatcher", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "actionledger", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "al_dispatcher_main", BGW_MAXLEN);
	worker.bgw_main_arg = Int32GetDatum(number);

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	if (al_roster_is_held(slot->database))
	{
		LWLockRelease(al_roster->lock);
		return;
	}
	slot->state = AL_WORKER_STARTING;
	slot->since = GetCurrentTimestamp();
	slot->began = al_clock_elapsed();
	slot->restarts++;
	LWLockRelease(al_roster->lock);

	if (handles[number] != NULL)
		pfree(handles[number]);
	handles[number] = NULL;
	old = MemoryContextSwitchTo(TopMemoryContext);
	registered = RegisterDynamicBackgroundWorker(&worker, &handles[number]);
	MemoryContextSwitchTo(old);
	if (registered)
		return;
	if (!again)
		ereport(LOG,
				(errmsg("actionledger could not start a dispatcher: no background worker slot is free"),
				 errhint("Raise max_worker_processes and restart the server.")));
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	slot->state = AL_WORKER_MISSING;
	slot->restarts--;
	slot->start_at = al_clock_elapsed() + INT64CONST(5000) * BACKOFF_FIRST_MS;
	strlcpy(slot->detail, "no background worker slot is free; raise max_worker_processes", AL_ROSTER_DETAIL);
	LWLockRelease(al_roster->lock);
}

/* Tells the dispatchers of databases that no longer want them to leave, and frees their slots. */
static void
dismiss_unwanted(List *wanted)
{
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *slot = &al_roster->workers[i];

		if (slot->state == AL_WORKER_FREE ||
			(list_member_oid(wanted, slot->database) && slot->index < al_dispatchers))
			continue;
		if (slot->pid != 0)
			kill(slot->pid, SIGTERM);
		else if (slot->state != AL_WORKER_STARTING)
			slot->state = AL_WORKER_FREE;
	}
	LWLockRelease(al_roster->lock);
}

/* Gives workers that have ended, or have never begun, their pause. */
static void
settle_ended(void)
{
	int64		now = al_clock_elapsed();

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *slot = &al_roster->workers[i];
		bool		lost = slot->state == AL_WORKER_STARTING && slot->pid == 0 && never_began(i, now);
		bool		ended = slot->state == AL_WORKER_BACKOFF && slot->start_at == PG_INT64_MAX;
		int			exponent;

		if (!lost && !ended)
			continue;
		if (slot->nothing_here)
		{
			for (int p = 0; p < AL_ROSTER_POKES; p++)
				if (al_roster->pokes[p].database == slot->database)
					al_roster->pokes[p].database = InvalidOid;
		}
		slot->state = AL_WORKER_BACKOFF;
		if (slot->renew)
		{
			slot->renew = false;
			slot->start_at = now;
			continue;
		}
		if (now - slot->began >= INT64CONST(1000) * STABLE_MS)
			slot->failures = 0;
		exponent = Min(slot->failures, 6);
		slot->failures++;
		slot->start_at = now + INT64CONST(1000) * Min(BACKOFF_FIRST_MS << exponent, BACKOFF_LAST_MS);
	}
	LWLockRelease(al_roster->lock);
}

/* Tells whether a worker that is starting up has died before it could enter the roster. */
static bool
never_began(int slot, int64 now)
{
	pid_t		pid;

	if (handles[slot] == NULL)	/* started by an earlier launcher */
		return now - al_roster->workers[slot].began >= INT64CONST(1000) * STARTING_LIMIT_MS;
	return GetBackgroundWorkerPid(handles[slot], &pid) == BGWH_STOPPED;
}

/* Computes how long to sleep: until the next start that is due, or the poll. */
static long
next_wait_ms(void)
{
	int64		now = al_clock_elapsed();
	long		wait = LAUNCHER_POLL_MS;

	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		AlWorkerSlot *slot = &al_roster->workers[i];

		if (slot->state == AL_WORKER_BACKOFF || slot->state == AL_WORKER_MISSING)
		{
			int64		left = slot->start_at > now ? (slot->start_at - now) / 1000 : 0;

			wait = (long) Min(wait, Max(10, left));
		}
	}
	LWLockRelease(al_roster->lock);
	return wait;
}

/* Leaves the roster. */
static void
on_launcher_exit(int code, Datum arg)
{
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	al_roster->launcher_pid = 0;
	al_roster->launcher_latch = NULL;
	LWLockRelease(al_roster->lock);
}
