/*
 * roster.h
 *		Shared memory: who works for which database, and how to wake them.
 */
#ifndef AL_ROSTER_H
#define AL_ROSTER_H

#include "postgres.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#define AL_ROSTER_DETAIL 160
#define AL_ROSTER_POKES 32
#define AL_ROSTER_HOLDS 8
#define AL_WAKE_NEVER PG_INT64_MAX

typedef enum AlWorkerState
{
	AL_WORKER_FREE,				/* the slot is nobody's */
	AL_WORKER_STARTING,			/* registered with the postmaster */
	AL_WORKER_RUNNING,
	AL_WORKER_BACKOFF,			/* ended; to be started again at start_at */
	AL_WORKER_MISSING,			/* no background worker slot could be had */
	AL_WORKER_FENCED,			/* runs, and sends nothing: this is a copy */
	AL_WORKER_REFUSING			/* runs, and sends nothing: unsafe settings */
} AlWorkerState;

typedef struct AlWorkerSlot
{
	AlWorkerState state;
	Oid			database;
	int			index;			/* which of the database's dispatchers */
	pid_t		pid;
	Latch	   *latch;			/* of the running worker */
	TimestampTz since;
	int64		began;			/* since then it is in this state, and when it is to be started again */
	int64		start_at;		/* (BACKOFF, MISSING), both as elapsed time: clock.h */
	TimestampTz last_turn;
	int			failures;		/* in a row, for the backoff */
	int			restarts;
	int			in_flight;
	bool		renew;			/* it ended to begin anew with other settings, which is no failure */
	bool		nothing_here;	/* it found no extension, or no service, in its database */
	char		detail[AL_ROSTER_DETAIL];
	pg_atomic_uint64 wake_at;	/* earliest due time announced since the worker last looked */
	pg_atomic_uint64 clock_offset;	/* of its clock (clock.h); 0: it has none */
} AlWorkerSlot;

/* A breaker as its dispatcher last showed it. */
typedef struct AlRosterBreaker
{
	Oid			database;		/* InvalidOid: the place is free */
	int32		service_id;
	bool		open;
	int			failures;		/* in a row */
	TimestampTz since;			/* when it last opened; 0: never */
	TimestampTz probe_at;		/* open: when the next probe may go */
} AlRosterBreaker;

#define AL_ROSTER_BREAKERS 256

/* A database that has work and nobody to do it. */
typedef struct AlPoke
{
	Oid			database;		/* invalid: a free entry */
	int64		at;				/* elapsed time */
} AlPoke;

/* A database that a process wants to have for itself for a while. */
typedef struct AlHold
{
	Oid			database;
	pid_t		holder;			/* 0: a free entry */
} AlHold;

typedef struct AlRoster
{
	LWLock	   *lock;			/* over everything but the atomics */
	pid_t		launcher_pid;
	Latch	   *launcher_latch;
	TimestampTz launcher_since;
	AlRosterBreaker breakers[AL_ROSTER_BREAKERS];
	AlPoke		pokes[AL_ROSTER_POKES];
	AlHold		holds[AL_ROSTER_HOLDS];
	ConditionVariable outcome;	/* broadcast when actions have come to rest */
	int			n_workers;
	AlWorkerSlot workers[FLEXIBLE_ARRAY_MEMBER];
} AlRoster;

/* NULL where the library is not in shared_preload_libraries. */
extern AlRoster *al_roster;

/* Ask for shared memory; only while shared_preload_libraries is processed. */
extern void al_roster_request(void);

/*
 * Tell the dispatchers of a database that something is due at a time (or wake
 * them to look at everything).  False when none is running there; the
 * launcher has then been told to start one.
 */
extern bool al_roster_wake(Oid database, TimestampTz due_at);

/* Show a breaker; a closed one that has never opened gives its place up. */
extern void al_roster_show_breaker(const AlRosterBreaker *shown);

/* Read the breaker of a service; false when none is shown. */
extern bool al_roster_breaker(Oid database, int32 service_id, AlRosterBreaker *out);

/* The clock offset of a dispatcher of a database, 0 where none shows one. */
extern int64 al_roster_clock(Oid database);

/* Tell the launcher to look at the list of databases again. */
extern void al_roster_poke_launcher(void);

/*
 * Keep the launcher from starting workers for a database, as long as this
 * process lives and has not taken it back.  False when there is no room.
 */
extern bool al_roster_hold(Oid database);
extern void al_roster_unhold(Oid database);

/* Whether a live process holds a database; the caller has the lock. */
extern bool al_roster_is_held(Oid database);

/*
 * Ask the running dispatchers of a database to end; how many there still are,
 * those included that are about to start.
 */
extern int	al_roster_dismiss(Oid database);

#endif							/* AL_ROSTER_H */
