/*
 * tally.c
 *		Counters of refused proposals.
 *
 * A hash table without deletion, found through a shared lock; only a new pair of
 * tool and code takes it exclusively.  It begins anew with the server.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "refusal.h"
#include "tally.h"

PG_FUNCTION_INFO_V1(al_sql_refused);

#define N_COUNTERS 2048			/* a power of two */
#define MOST_COUNTERS (N_COUNTERS - N_COUNTERS / 8)

typedef struct Counter
{
	Oid			database;		/* InvalidOid: free */
	int32		tool_id;
	int			sqlstate;
	pg_atomic_uint64 n;
} Counter;

typedef struct Tally
{
	LWLock	   *lock;			/* over which counters there are */
	TimestampTz since;
	int			used;
	pg_atomic_uint64 others;	/* what found no room, of all databases */
	Counter		counters[N_COUNTERS];
} Tally;

/* A counter as it is shown. */
typedef struct Counted
{
	int32		tool_id;		/* -1: others */
	const char *code;
	uint64		n;
} Counted;

static Tally *tally = NULL;
static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

static void tally_request(void);
static void tally_startup(void);
static Counter *find(int32 tool_id, int sqlstate);

/* Hooks into shared memory set-up. */
void
al_tally_request(void)
{
	previous_request = shmem_request_hook;
	shmem_request_hook = tally_request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = tally_startup;
}

/* Counts a refusal. */
void
al_tally_refusal(int32 tool_id, int sqlstate)
{
	Counter    *counter;

	if (tally == NULL)
		return;
	LWLockAcquire(tally->lock, LW_SHARED);
	counter = find(tool_id, sqlstate);
	if (!OidIsValid(counter->database))
	{
		LWLockRelease(tally->lock);
		LWLockAcquire(tally->lock, LW_EXCLUSIVE);
		counter = find(tool_id, sqlstate);
		if (!OidIsValid(counter->database) && tally->used < MOST_COUNTERS)
		{
			counter->tool_id = tool_id;
			counter->sqlstate = sqlstate;
			counter->database = MyDatabaseId;
			tally->used++;
		}
	}
	pg_atomic_fetch_add_u64(OidIsValid(counter->database) ? &counter->n : &tally->others, 1);
	LWLockRelease(tally->lock);
}

/* _refused(): the counters of this database. */
Datum
al_sql_refused(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			n = 0;
	Counted    *counted;

	InitMaterializedSRF(fcinfo, 0);
	if (tally == NULL)
		return (Datum) 0;
	counted = palloc((N_COUNTERS + 1) * sizeof(Counted));
	LWLockAcquire(tally->lock, LW_SHARED);
	for (int i = 0; i < N_COUNTERS; i++)
	{
		Counter    *counter = &tally->counters[i];

		if (counter->database == MyDatabaseId)
			counted[n++] = (Counted) {counter->tool_id, al_refusal_code(counter->sqlstate), pg_atomic_read_u64(&counter->n)};
	}
	counted[n++] = (Counted) {-1, "others", pg_atomic_read_u64(&tally->others)};
	LWLockRelease(tally->lock);
	for (int i = 0; i < n; i++)
	{
		Datum		values[4] = {
			Int32GetDatum(counted[i].tool_id), CStringGetTextDatum(counted[i].code),
			Int64GetDatum((int64) counted[i].n), TimestampTzGetDatum(tally->since)
		};
		bool		nulls[4] = {counted[i].tool_id < 0};

		if (counted[i].n > 0)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Finds the counter of a pair, or the place where it would go. */
static Counter *
find(int32 tool_id, int sqlstate)
{
	uint32		at = hash_combine(murmurhash32((uint32) MyDatabaseId),
								  hash_combine(murmurhash32((uint32) tool_id), murmurhash32((uint32) sqlstate)));

	for (;; at++)
	{
		Counter    *counter = &tally->counters[at & (N_COUNTERS - 1)];

		if (!OidIsValid(counter->database) ||
			(counter->database == MyDatabaseId && counter->tool_id == tool_id && counter->sqlstate == sqlstate))
			return counter;
	}
}

/* Reserves the memory and the lock. */
static void
tally_request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(sizeof(Tally));
	RequestNamedLWLockTranche("actionledger tally", 1);
}

/* Creates the table, or finds the one that is there. */
static void
tally_startup(void)
{
	bool		found;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	tally = ShmemInitStruct("actionledger tally", sizeof(Tally), &found);
	if (!found)
	{
		memset(tally, 0, sizeof(Tally));
		tally->lock = &GetNamedLWLockTranche("actionledger tally")->lock;
		tally->since = GetCurrentTimestamp();
		pg_atomic_init_u64(&tally->others, 0);
		for (int i = 0; i < N_COUNTERS; i++)
			pg_atomic_init_u64(&tally->counters[i].n, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}
