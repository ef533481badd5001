/*
 * workers.c
 *		Who works for this database, for the view actionledger.workers.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "databases.h"
#include "ledger.h"
#include "roster.h"
#include "session.h"
#include "settings.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(al_sql_workers);
PG_FUNCTION_INFO_V1(al_sql_breaker);
PG_FUNCTION_INFO_V1(al_sql_trouble);

#define N_COLUMNS 10

static AlStatement select_names = {
	"SELECT name FROM actionledger.service WHERE service_id % $2 = $1 ORDER BY name", 2, {INT4OID, INT4OID}
};

static void put_row(ReturnSetInfo *result, const char *worker, const char *state, pid_t pid, TimestampTz since,
					Datum services, const AlWorkerSlot *slot, const char *detail, const char *what_to_do);
static void put_launcher(ReturnSetInfo *result);
static void put_missing(ReturnSetInfo *result);
static bool switched_on(void);
static bool has_room(void);
static void put_dispatcher(ReturnSetInfo *result, const AlWorkerSlot *slot);
static const char *remedy(const AlWorkerSlot *slot);
static Datum service_names(int index);

/* _workers() */
Datum
al_sql_workers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	AlWorkerSlot *slots;
	int			n = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (al_roster == NULL)
	{
		put_row(result, "launcher", "missing", 0, 0, (Datum) 0, NULL, "actionledger is not in shared_preload_libraries",
				"ALTER SYSTEM SET shared_preload_libraries = 'actionledger'; -- beside what is there, then restart the server");
		return (Datum) 0;
	}
	put_launcher(result);
	slots = palloc(al_roster->n_workers * sizeof(AlWorkerSlot));
	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		if (al_roster->workers[i].state != AL_WORKER_FREE && al_roster->workers[i].database == MyDatabaseId)
			slots[n++] = al_roster->workers[i];
	}
	LWLockRelease(al_roster->lock);
	for (int i = 0; i < n; i++)
		put_dispatcher(result, &slots[i]);
	if (n == 0)
		put_missing(result);
	return (Datum) 0;
}

/* _breaker(service_id): state, failures, since, next_probe_at of a service's breaker */
Datum
al_sql_breaker(PG_FUNCTION_ARGS)
{
	AlRosterBreaker breaker = {0};
	TupleDesc	descriptor;
	Datum		values[4];
	bool		nulls[4] = {0};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!al_roster_breaker(MyDatabaseId, PG_GETARG_INT32(0), &breaker))
		memset(&breaker, 0, sizeof(breaker));
	values[0] = CStringGetTextDatum(!breaker.open ? "closed" : breaker.probe_at > GetCurrentTimestamp() ? "open" : "half_open");
	values[1] = Int32GetDatum(breaker.failures);
	values[2] = TimestampTzGetDatum(breaker.since);
	nulls[2] = breaker.since == 0;
	values[3] = TimestampTzGetDatum(breaker.probe_at);
	nulls[3] = !breaker.open;
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* _trouble(service_id): why nobody sends to a service, null when somebody does */
Datum
al_sql_trouble(PG_FUNCTION_ARGS)
{
	char	   *trouble = al_workers_trouble(PG_GETARG_INT32(0));

	if (trouble == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(trouble));
}

/* Says why nobody sends to a service. */
char *
al_workers_trouble(int32 service_id)
{
	AlWorkerSlot worker = {.state = AL_WORKER_FREE};
	bool		room = false;
	bool		launcher;

	if (al_roster == NULL)
		return pstrdup("the library actionledger is not in shared_preload_libraries");
	LWLockAcquire(al_roster->lock, LW_SHARED);
	launcher = al_roster->launcher_pid != 0;
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		const AlWorkerSlot *slot = &al_roster->workers[i];

		room = room || slot->state == AL_WORKER_FREE;
		if (slot->state != AL_WORKER_FREE && slot->database == MyDatabaseId && slot->index == service_id % al_dispatchers)
			worker = *slot;
	}
	LWLockRelease(al_roster->lock);
	if (worker.state == AL_WORKER_FENCED)
		return pstrdup("the database looks like a copy, from which nothing is sent until an operator decides");
	if (worker.state == AL_WORKER_REFUSING)
		return psprintf("nothing is sent for the time being: %s", worker.detail);
	if (!launcher || worker.state == AL_WORKER_MISSING)
		return pstrdup("no launcher or dispatcher of actionledger is running");
	if (worker.state != AL_WORKER_FREE)
		return NULL;
	if (!room)
		return pstrdup("actionledger.max_workers dispatchers are running, in other databases");
	if (!switched_on())
		return pstrdup("actionledger.enabled is off for this database");
	return NULL;
}

/* Puts the launcher's row. */
static void
put_launcher(ReturnSetInfo *result)
{
	pid_t		pid;
	TimestampTz since;

	LWLockAcquire(al_roster->lock, LW_SHARED);
	pid = al_roster->launcher_pid;
	since = al_roster->launcher_since;
	LWLockRelease(al_roster->lock);
	if (pid != 0)
		put_row(result, "launcher", "running", pid, since, (Datum) 0, NULL, NULL, NULL);
	else if (RecoveryInProgress())
		put_row(result, "launcher", "missing", 0, 0, (Datum) 0, NULL,
				"this server is a standby, from which nothing is sent", NULL);
	else
		put_row(result, "launcher", "missing", 0, 0, (Datum) 0, NULL,
				"it is not running; is there a free background worker slot?",
				"SHOW max_worker_processes; -- raise it, and restart the server");
}

/* Puts the row of a dispatcher that nobody has started. */
static void
put_missing(ReturnSetInfo *result)
{
	Datum		services = service_names(0);
	const char *detail = "the launcher has not started it yet";
	const char *what_to_do = NULL;

	if (!has_room())
	{
		detail = "actionledger.max_workers dispatchers are running, in other databases";
		what_to_do = "ALTER SYSTEM SET actionledger.max_workers = 32; -- or more, then restart the server";
	}
	else if (!switched_on() && ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(services)), ARR_DIMS(DatumGetArrayTypeP(services))) == 0)
	{
		detail = "no service has been created here";
		what_to_do = "SELECT actionledger.create_service('name', 'https://api.example.com');";
	}
	else if (!switched_on())
	{
		detail = "actionledger.enabled is off for this database";
		what_to_do = psprintf("ALTER DATABASE %s SET actionledger.enabled = on;",
							  quote_identifier(get_database_name(MyDatabaseId)));
	}
	put_row(result, "dispatcher 0", "missing", 0, 0, services, NULL, detail, what_to_do);
}

/* Tells whether dispatchers are to run here: as it is set now, which may be newer than what this session has. */
static bool
switched_on(void)
{
	AlDatabaseWish wish = al_database_wish(MyDatabaseId);

	return wish == AL_DATABASE_ON || (wish != AL_DATABASE_OFF && al_enabled);
}

/* Tells whether one more dispatcher could be started. */
static bool
has_room(void)
{
	bool		room = false;

	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
		room = room || al_roster->workers[i].state == AL_WORKER_FREE;
	LWLockRelease(al_roster->lock);
	return room;
}

/* Puts a dispatcher's row. */
static void
put_dispatcher(ReturnSetInfo *result, const AlWorkerSlot *slot)
{
	static const char *const states[] = {
		[AL_WORKER_FREE] = "missing",
		[AL_WORKER_STARTING] = "starting",
		[AL_WORKER_RUNNING] = "running",
		[AL_WORKER_BACKOFF] = "backoff",
		[AL_WORKER_MISSING] = "missing",
		[AL_WORKER_FENCED] = "fenced",
		[AL_WORKER_REFUSING] = "paused"
	};
	char		name[32];

	snprintf(name, sizeof(name), "dispatcher %d", slot->index);
	put_row(result, name, states[slot->state], slot->pid, slot->since, service_names(slot->index), slot,
			slot->detail[0] ? slot->detail : NULL, remedy(slot));
}

/* Says what to do about a state, NULL for nothing. */
static const char *
remedy(const AlWorkerSlot *slot)
{
	switch (slot->state)
	{
		case AL_WORKER_MISSING:
			return "ALTER SYSTEM SET max_worker_processes = 16; -- or more, then restart the server";
		case AL_WORKER_FENCED:
			return "SELECT actionledger.resume_dispatch('copy or successor', 'why'); -- copy: the other one goes on; successor: it never sends again";
		case AL_WORKER_REFUSING:
			if (strncmp(slot->detail, "table ", 6) == 0)
				return psprintf("ALTER TABLE %.*s SET LOGGED;", (int) strcspn(slot->detail + 6, " "), slot->detail + 6);
			if (strstr(slot->detail, "standbys") != NULL)
				return "SELECT application_name, state FROM pg_stat_replication; -- bring standbys back";
			return "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();";
		case AL_WORKER_FREE:
		case AL_WORKER_STARTING:
		case AL_WORKER_RUNNING:
		case AL_WORKER_BACKOFF:
			return NULL;
	}
	return NULL;
}

/* Lists the names of a dispatcher's services as a text array. */
static Datum
service_names(int index)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum		values[2] = {Int32GetDatum(index), Int32GetDatum(al_dispatchers)};
	AlSession	session;
	ArrayType  *array;
	Datum	   *names;
	uint64		n;

	al_session_begin(&session, true);
	n = al_statement_run(&select_names, values, NULL);
	MemoryContextSwitchTo(caller);
	names = palloc(Max(n, 1) * sizeof(Datum));
	for (uint64 i = 0; i < n; i++)
		names[i] = CStringGetTextDatum(al_column_text(i, 1));
	array = construct_array(names, (int) n, TEXTOID, -1, false, TYPALIGN_INT);
	al_session_end(&session);
	MemoryContextSwitchTo(caller);
	return PointerGetDatum(array);
}

/* Puts a row. */
static void
put_row(ReturnSetInfo *result, const char *worker, const char *state, pid_t pid, TimestampTz since,
		Datum services, const AlWorkerSlot *slot, const char *detail, const char *what_to_do)
{
	Datum		values[N_COLUMNS] = {0};
	bool		nulls[N_COLUMNS] = {0};

	values[0] = CStringGetTextDatum(worker);
	values[1] = CStringGetTextDatum(state);
	values[2] = Int32GetDatum((int32) pid);
	nulls[2] = pid == 0;
	values[3] = TimestampTzGetDatum(since);
	nulls[3] = since == 0;
	values[4] = services;
	nulls[4] = services == (Datum) 0;
	values[5] = Int32GetDatum(slot ? slot->in_flight : 0);
	values[6] = TimestampTzGetDatum(slot ? slot->last_turn : 0);
	nulls[6] = slot == NULL || slot->last_turn == 0;
	values[7] = Int32GetDatum(slot ? Max(0, slot->restarts) : 0);
	if (detail != NULL)
		values[8] = CStringGetTextDatum(detail);
	nulls[8] = detail == NULL;
	if (what_to_do != NULL)
		values[9] = CStringGetTextDatum(what_to_do);
	nulls[9] = what_to_do == NULL;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
