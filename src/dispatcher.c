/*
 * dispatcher.c
 *		The dispatcher: life, settings and the one loop over latch, sockets and
 *		deadlines.
 *
 * The loop never waits for a single request.  It records what has ended and
 * claims what is due in short transactions (turn.c), and in between only
 * listens.  Settings that a database or role may have changed globally are
 * overridden for this process.
 */
#include "postgres.h"

#include <sys/resource.h>
#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "databases.h"
#include "dispatcher.h"
#include "ended.h"
#include "fence.h"
#include "gate.h"
#include "incarnation.h"
#include "notice.h"
#include "rebase.h"
#include "roster.h"
#include "rules/fault.h"
#include "session.h"
#include "settings.h"
#include "sweep.h"
#include "turn.h"
#include "visible.h"

#define RECORD_AT 50			/* ended attempts that make a turn worth while */
#define RECORD_AFTER_US 2000	/* or so long after the first of them ended */
#define SPARE_DESCRIPTORS 200	/* for PostgreSQL's own files */
#define MOST_REQUESTS 10000
#define RECORD_PAUSE_MS 20
#define RECORD_LIMIT_MS 15000	/* at the end, when somebody holds a lock on the ledger */

static AlDispatcher dispatcher;

static void connect_database(AlWorkerSlot *slot);
static void override_settings(void);
static bool begin_life(AlWorkerSlot *slot);
static const char *nothing_to_do(void);
static void loop(AlWorkerSlot *slot);
static WaitEventSet *create_events(void);
static void set_state(AlWorkerSlot *slot, AlWorkerState state, const char *detail);
static void look_around(AlWorkerSlot *slot);
static void look(AlWorkerSlot *slot);
static void refuse_or_not(AlWorkerSlot *slot);
static bool take_announcements(AlWorkerSlot *slot);
static bool turn_is_due(TimestampTz now);
static long sleep_ms(TimestampTz now, TimestampTz next_scan);
static void drain(void);
static void end_life(void);
static int	most_requests(void);
static void on_sigterm(SIGNAL_ARGS);
static void on_sigint(SIGNAL_ARGS);
static void on_dispatcher_exit(int code, Datum arg);

/* Runs until told to stop. */
void
al_dispatcher_main(Datum arg)
{
	AlWorkerSlot *slot = &al_roster->workers[DatumGetInt32(arg)];
	char		err[256];

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, on_sigterm);
	pqsignal(SIGINT, on_sigint);
	BackgroundWorkerUnblockSignals();

	memset(&dispatcher, 0, sizeof(dispatcher));
	dispatcher.slot = DatumGetInt32(arg);
	dispatcher.index = slot->index;
	dispatcher.count = al_dispatchers;
	dlist_init(&dispatcher.ended);
	dlist_init(&dispatcher.busy);
	dlist_init(&dispatcher.stuck);
	before_shmem_exit(on_dispatcher_exit, arg);
#ifdef AL_FAULT_BUILD
	al_fault_plan(GetConfigOption("actionledger.fault", true, false));	/* the journal tells that this process has it */
#endif
	connect_database(slot);
	override_settings();

	dispatcher.turn_context = AllocSetContextCreate(TopMemoryContext, "actionledger turn", ALLOCSET_DEFAULT_SIZES);
	dispatcher.wire = al_wire_create(err, sizeof(err));
	if (dispatcher.wire == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("actionledger cannot set up its network side: %s", err)));
	dispatcher.room = most_requests();

	if (begin_life(slot))
	{
		loop(slot);
		drain();
		end_life();
	}
	proc_exit(0);
}

/* Connects to the slot's database and enters the roster. */
static void
connect_database(AlWorkerSlot *slot)
{
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	slot->pid = MyProcPid;
	slot->since = GetCurrentTimestamp();
	slot->began = al_clock_elapsed();
	LWLockRelease(al_roster->lock);
	BackgroundWorkerInitializeConnectionByOid(slot->database, InvalidOid, 0);
}

/* Makes this process independent of what is set for the database, its owner or the cluster. */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"statement_timeout", "0"},
		{"lock_timeout", "5s"},
		{"idle_in_transaction_session_timeout", "0"},
#if PG_VERSION_NUM >= 170000
		{"transaction_timeout", "0"},
#endif
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"search_path", "pg_catalog, pg_temp"},
		{"row_security", "on"},
		{"client_min_messages", "warning"},
		{"application_name", "actionledger"},
		/* A fresh ledger has no statistics: the plans must not depend on them. */
		{"plan_cache_mode", "force_generic_plan"},
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"enable_material", "off"},
		{"enable_memoize", "off"},
		{"jit", "off"},
		{"max_parallel_workers_per_gather", "0"}
	};

	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
		SetConfigOption("synchronous_commit", "on", PGC_SUSET, PGC_S_OVERRIDE);
}

/* Takes an incarnation.  False when there is nothing to do in this database. */
static bool
begin_life(AlWorkerSlot *slot)
{
	AlSession	session;
	const char *nothing;
	char	   *fenced;
	char		name[64];

	StartTransactionCommand();
	dispatcher.ledger = al_ledger_relation();
	nothing = nothing_to_do();
	if (nothing != NULL)
	{
		CommitTransactionCommand();
		LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
		slot->nothing_here = true;
		strlcpy(slot->detail, nothing, AL_ROSTER_DETAIL);
		LWLockRelease(al_roster->lock);
		return false;
	}
	al_session_begin(&session, false);
	al_database_enable();
	do
		dispatcher.incarnation = al_ledger_next_incarnation();
	while (!al_incarnation_hold(dispatcher.incarnation));
	snprintf(name, sizeof(name), "dispatcher %d", dispatcher.index);
	al_ledger_record_incarnation(dispatcher.incarnation, name);
	fenced = al_fence_check(&dispatcher.namespace_id);
	al_session_end(&session);
	set_state(slot, fenced ? AL_WORKER_FENCED : AL_WORKER_RUNNING, fenced);
	al_turn_commit(&dispatcher);
	return true;
}

/*
 * Says why no dispatcher is needed in this database; NULL when one is.  Without
 * a service there is nothing to send; and a dump that is being restored is left
 * alone until its own services are there.
 */
static const char *
nothing_to_do(void)
{
	AlSession	session;
	int32	   *services;
	int			n;

	if (!al_ledger_hold(dispatcher.ledger))
		return "the database has no extension actionledger";
	switch (al_database_wish(MyDatabaseId))
	{
		case AL_DATABASE_OFF:
			return "actionledger.enabled is off for this database";
		case AL_DATABASE_UNREADABLE:
			if (!al_enabled)
				return "actionledger.enabled is off for this database";
			break;
		case AL_DATABASE_ON:
		case AL_DATABASE_UNSET:
			break;
	}
	al_session_begin(&session, false);
	n = al_ledger_services(0, 1, &services);
	al_session_end(&session);
	return n == 0 ? "no service has been created here" : NULL;
}

/* The loop over latch, sockets and deadlines. */
static void
loop(AlWorkerSlot *slot)
{
	WaitEventSet *events = create_events();
	TimestampTz next_scan = 0;

	while (!ShutdownRequestPending && !dispatcher.gone)
	{
		TimestampTz now;
		WaitEvent	event;
		bool		announced;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			override_settings();
			if (al_dispatchers != dispatcher.count)
			{
				slot->renew = true;
				break;
			}
			next_scan = 0;		/* the interval may be another one */
		}
		if (al_clock_has_jumped() && al_turn_set_clock(&dispatcher))
			next_scan = 0;
		now = al_clock_now();
		announced = take_announcements(slot);
		if (now >= next_scan || (announced && slot->state == AL_WORKER_FENCED))
		{
			al_lanes_rescan(&dispatcher.lanes);
			dispatcher.lanes.generation = 0;
			if (dispatcher.lanes.release_again)
				al_lanes_release(&dispatcher.lanes);
			next_scan = TimestampTzPlusMilliseconds(now, al_poll_interval);
			look_around(slot);
			if (dispatcher.gone)
				break;
		}
		refuse_or_not(slot);
		if (turn_is_due(now))
			al_turn_run(&dispatcher);
		al_wire_run(dispatcher.wire);
		al_ended_collect(&dispatcher);
		slot->in_flight = al_wire_in_flight(dispatcher.wire);
		if (al_notice_wait_ms() == 0)
			al_notice_send();
		(void) WaitEventSetWait(events, sleep_ms(al_clock_now(), next_scan), &event, 1, PG_WAIT_EXTENSION);
		if (!PostmasterIsAlive())
			proc_exit(1);
	}
	FreeWaitEventSet(events);
}

/* Creates the set of what the loop waits for. */
static WaitEventSet *
create_events(void)
{
#if PG_VERSION_NUM >= 170000
	WaitEventSet *events = CreateWaitEventSet(NULL, 3);
#else
	WaitEventSet *events = CreateWaitEventSet(TopMemoryContext, 3);
#endif

	AddWaitEventToSet(events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(events, WL_SOCKET_READABLE, al_wire_fd(dispatcher.wire), NULL, NULL);
	return events;
}

/* Says in the roster how this worker is. */
static void
set_state(AlWorkerSlot *slot, AlWorkerState state, const char *detail)
{
	if (state == AL_WORKER_REFUSING && slot->state != AL_WORKER_REFUSING)
		ereport(LOG,
				(errmsg("actionledger sends nothing for the time being: %s", detail)));
	if (state == AL_WORKER_FENCED && slot->state != AL_WORKER_FENCED)
		ereport(WARNING,
				(errmsg("actionledger sends nothing from this database: it looks like a copy"),
				 errdetail("%s.", detail),
				 errhint("An operator decides with actionledger.resume_dispatch().")));
	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	slot->state = state;
	slot->latch = MyLatch;
	strlcpy(slot->detail, detail ? detail : "", AL_ROSTER_DETAIL);
	LWLockRelease(al_roster->lock);
	dispatcher.may_send = (state == AL_WORKER_RUNNING);
}

/*
 * Looks at what no wake-up tells of; what fails, as when somebody has locked a
 * table, is looked at again the next time.
 */
static void
look_around(AlWorkerSlot *slot)
{
	dispatcher.in_turn = true;
	PG_TRY();
	{
		look(slot);
		if (!dispatcher.gone)
			al_sweep_look(&dispatcher);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(dispatcher.turn_context);
		(void) al_visible_report();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(TopMemoryContext);
	}
	PG_END_TRY();
	dispatcher.in_turn = false;
	QueryCancelPending = false;
}

/*
 * Looks whether the ledger is still there, whether this is its home, whether
 * its tables are durable, and what others have left.
 */
static void
look(AlWorkerSlot *slot)
{
	AlSession	session;
	char	   *fenced;
	char	   *refusal;
	bool		resumed;

	StartTransactionCommand();
	if (!al_ledger_hold(dispatcher.ledger))
	{
		dispatcher.gone = true;
		CommitTransactionCommand();
		return;
	}
	al_session_begin(&session, false);
	fenced = al_fence_check(&dispatcher.namespace_id);
	resumed = fenced == NULL && slot->state == AL_WORKER_FENCED;
	if (fenced != NULL && slot->state != AL_WORKER_FENCED)
		set_state(slot, AL_WORKER_FENCED, fenced);
	if (resumed)
		set_state(slot, AL_WORKER_RUNNING, NULL);
	al_rebase_look();
	refusal = al_gate_table_refusal();
	strlcpy(dispatcher.table_refusal, refusal ? refusal : "", sizeof(dispatcher.table_refusal));
	if (resumed)
		dispatcher.orphans_at = 0;
	al_session_end(&session);
	al_turn_commit(&dispatcher);
}

/* Stops and resumes sending as the settings of the server and the ledger's tables allow it. */
static void
refuse_or_not(AlWorkerSlot *slot)
{
	const char *refusal = al_gate_refusal();

	if (refusal == NULL && dispatcher.table_refusal[0] != '\0')
		refusal = dispatcher.table_refusal;
	if (slot->state == AL_WORKER_RUNNING && refusal != NULL)
		set_state(slot, AL_WORKER_REFUSING, refusal);
	else if (slot->state == AL_WORKER_REFUSING && refusal == NULL)
		set_state(slot, AL_WORKER_RUNNING, NULL);
}

/* Moves the watermarks back to what backends have announced since the last look; whether anything was. */
static bool
take_announcements(AlWorkerSlot *slot)
{
	int64		due_at = (int64) pg_atomic_exchange_u64(&slot->wake_at, (uint64) AL_WAKE_NEVER);

	if (due_at == AL_WAKE_NEVER)
		return false;
	al_lanes_announce(&dispatcher.lanes, due_at);
	/* People have decided something; one dispatcher tells of it. */
	if (due_at == DT_NOBEGIN && dispatcher.index == 0)
		al_notice_add(1);
	/* A new service may be what was announced: its lane comes with the turn. */
	dispatcher.lanes.generation = 0;
	return true;
}

/* Tells whether a turn is worth its transaction now. */
static bool
turn_is_due(TimestampTz now)
{
	bool		record;
	bool		claim;

	if (now < dispatcher.retry_at)
		return false;
	record = dispatcher.n_ended >= RECORD_AT ||
		(dispatcher.n_ended > 0 &&
		 (al_wire_in_flight(dispatcher.wire) == 0 || now - dispatcher.ended_since >= RECORD_AFTER_US));
	claim = dispatcher.may_send && al_wire_in_flight(dispatcher.wire) < dispatcher.room &&
		(dispatcher.n_ended == 0 ? dispatcher.lanes.generation == 0 || al_lanes_ready(&dispatcher.lanes, now)
		 : dispatcher.isolate == 0 && al_lanes_begun(&dispatcher.lanes, now));
	return record || claim;
}

/* Computes how long to sleep at most. */
static long
sleep_ms(TimestampTz now, TimestampTz next_scan)
{
	long		wait = Max(0, TimestampDifferenceMilliseconds(now, next_scan));
	long		wire = al_wire_timeout_ms(dispatcher.wire);
	TimestampTz next_due = dispatcher.may_send && al_wire_in_flight(dispatcher.wire) < dispatcher.room
		? al_lanes_next_due(&dispatcher.lanes, now) : DT_NOEND;

	if (turn_is_due(now))
		return 0;
	if (dispatcher.n_ended > 0)
		wait = Min(wait, 1 + RECORD_AFTER_US / 1000);
	if (dispatcher.n_busy > 0)
		wait = Min(wait, Max(0, TimestampDifferenceMilliseconds(now, dispatcher.busy_until)) + 1);
	if (dispatcher.retry_at > now)
		wait = Min(wait, TimestampDifferenceMilliseconds(now, dispatcher.retry_at) + 1);
	if (wire >= 0)
		wait = Min(wait, wire);
	if (al_notice_wait_ms() >= 0)
		wait = Min(wait, al_notice_wait_ms());
	if (next_due != DT_NOEND && next_due > now)
		wait = Min(wait, TimestampDifferenceMilliseconds(now, next_due) + 1);
	return wait;
}

/* Lets answers come in for a while, then ends what is under way, and records it all. */
static void
drain(void)
{
	int64		end = al_clock_elapsed() + INT64CONST(1000) * al_drain_timeout;
	int			tries = 0;

	dispatcher.may_send = false;
	while (al_wire_in_flight(dispatcher.wire) > 0 && !dispatcher.gone && al_clock_elapsed() < end)
	{
		long		wire = al_wire_timeout_ms(dispatcher.wire);
		long		left = (long) (Max(0, end - al_clock_elapsed()) / 1000 + 1);

		(void) WaitLatchOrSocket(NULL, WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								 al_wire_fd(dispatcher.wire), wire >= 0 ? Min(wire, left) : left, PG_WAIT_EXTENSION);
		al_wire_run(dispatcher.wire);
		al_ended_collect(&dispatcher);
	}
	al_wire_abort_all(dispatcher.wire);
	dispatcher.stuck_until = 0;
	al_ended_collect(&dispatcher);
	/* What cannot be recorded now is found by the next incarnation. */
	end = al_clock_elapsed() + INT64CONST(1000) * RECORD_LIMIT_MS;
	while (dispatcher.n_ended + dispatcher.n_busy > 0 && !dispatcher.gone && tries++ < 100 && al_clock_elapsed() < end)
	{
		if (dispatcher.n_ended > 0)
			al_turn_run(&dispatcher);
		else
			(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, RECORD_PAUSE_MS, PG_WAIT_EXTENSION);
		al_ended_collect(&dispatcher);
	}
}

/* Records the orderly end. */
static void
end_life(void)
{
	AlSession	session;

	StartTransactionCommand();
	if (!dispatcher.gone && al_ledger_hold(dispatcher.ledger))
	{
		al_session_begin(&session, false);
		al_ledger_end_incarnation(dispatcher.incarnation);
		al_session_end(&session);
	}
	al_turn_commit(&dispatcher);
	if (al_notice_wait_ms() >= 0)
		al_notice_send();
}

/* Raises the limit of descriptors, and says how many requests that allows. */
static int
most_requests(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 500;
	if (limit.rlim_cur < limit.rlim_max)
	{
		rlim_t		soft = limit.rlim_cur;

		limit.rlim_cur = Min(limit.rlim_max, MOST_REQUESTS + max_files_per_process + SPARE_DESCRIPTORS);
		if (limit.rlim_cur < soft || setrlimit(RLIMIT_NOFILE, &limit) != 0)
			limit.rlim_cur = soft;
	}
	return (int) Max(10, Min(MOST_REQUESTS, (int64) limit.rlim_cur - max_files_per_process - SPARE_DESCRIPTORS));
}

/*
 * Asks for an orderly end.  A commit that waits for a synchronous standby would
 * not notice; the wait is cut short as in any backend, and the gate then keeps
 * everything unsent.
 */
static void
on_sigterm(SIGNAL_ARGS)
{
	int			save_errno = errno;

	ShutdownRequestPending = true;
	if (dispatcher.in_commit)
	{
		InterruptPending = true;
		ProcDiePending = true;
	}
	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * Cancels the transaction of a turn; the loop tries it again.  Between turns
 * there is nothing to cancel, and what is under way is not given up.
 */
static void
on_sigint(SIGNAL_ARGS)
{
	if (dispatcher.in_turn)
		StatementCancelHandler(postgres_signal_arg);
}

/* Leaves the roster; the launcher sees to a successor. */
static void
on_dispatcher_exit(int code, Datum arg)
{
	AlWorkerSlot *slot = &al_roster->workers[DatumGetInt32(arg)];

	LWLockAcquire(al_roster->lock, LW_EXCLUSIVE);
	slot->state = AL_WORKER_BACKOFF;
	slot->start_at = PG_INT64_MAX;
	slot->pid = 0;
	pg_atomic_write_u64(&slot->clock_offset, 0);
	slot->latch = NULL;
	slot->in_flight = 0;
	LWLockRelease(al_roster->lock);
	al_roster_poke_launcher();
}
