/*
 * turn.h
 *		One turn of a dispatcher: a transaction that records what has ended and
 *		claims what is due, then the gate, then the wire.
 */
#ifndef AL_TURN_H
#define AL_TURN_H

#include "postgres.h"
#include "lib/ilist.h"
#include "utils/uuid.h"

#include "judge.h"
#include "lanes.h"
#include "rules/fault.h"
#include "suspect.h"
#include "wire/wire.h"

/* Makes the transaction of a turn fail at a named moment, in fault builds. */
#ifdef AL_FAULT_BUILD
#define AL_FAULT_ERROR(point) \
	do { \
		if (AL_FAULT_POINT(point)) \
			elog(ERROR, "fault at %s", point); \
	} while (0)
#else
#define AL_FAULT_ERROR(point) ((void) 0)
#endif

/* A request under way; its address is the wire's tag. */
typedef struct AlFlight
{
	AlStanding	standing;		/* after the mark */
	int64		clock;			/* al_clock_shifted() of its times */
	AlLane	   *lane;
	bool		lookup;
	bool		elsewhere;		/* it does not ask where the action was sent */
	TimestampTz started_at;
	uint64		digest;			/* of the definition that it was made by */
	int64		probe;			/* of the lane's breaker; 0: none */
	const char *keep[16];		/* names of the answer's headers that are kept */
	char		key_place[80];	/* of the standing */
	char		names[(AL_RULE_HEADERS + 2) * (AL_ANSWER_HEADER_MAX + 1)];	/* of those that the definition names */
} AlFlight;

/* An ended attempt in the queue to be recorded. */
typedef struct AlEndedItem
{
	dlist_node	node;
	AlEnded		ended;
	int64		clock;			/* al_clock_shifted() of the times in its standing */
	int64		started_clock;	/* and of when it began */
	char		key_place[80];	/* of its standing */
	int			tries;
	bool		careful;		/* somebody else has touched the action: lock and read it first */
} AlEndedItem;

typedef struct AlDispatcher
{
	int			slot;			/* in the roster */
	int			index;			/* this dispatcher of count in the database */
	int			count;
	int64		incarnation;
	pg_uuid_t	namespace_id;
	AlWire	   *wire;
	AlLanes		lanes;
	int			room;			/* most requests under way at all services together */
	dlist_head	ended;			/* AlEndedItem, oldest first */
	int			n_ended;
	TimestampTz ended_since;	/* when the queue became non-empty */
	dlist_head	busy;			/* ended too, but somebody has locked their actions */
	int			n_busy;
	TimestampTz busy_until;		/* when to try those again */
	dlist_head	stuck;			/* ended, and could not be recorded: tried again now and then */
	int			n_stuck;
	TimestampTz stuck_until;
	bool		claiming;		/* the turn has come to its claims */
	AlSuspect	suspect;		/* whose claim raises */
	bool		may_send;		/* not fenced, not refusing, not stopping */
	int			isolate;		/* record so many singly: a batch has failed */
	TimestampTz retry_at;		/* after an error: no turn before */
	int64		clock_retry_at; /* after an error in following the clock: not again before, in elapsed time */
	TimestampTz orphans_at;		/* when to look for orphans again; 0: at the first look */
	int64		swept;			/* how far the sweep of outside executors' actions has come */
	Oid			ledger;			/* relation of the ledger that this life belongs to */
	char		table_refusal[160]; /* why its tables forbid any sending; empty: they do not */
	bool		gone;			/* it has been dropped: there is nothing to record in */
	volatile bool in_turn;		/* a transaction is open; read by signal handlers */
	volatile bool in_commit;	/* which is being committed */
	MemoryContext turn_context;
} AlDispatcher;

/* Run a turn; an error in it is reported, and what had ended stays in the queue. */
extern void al_turn_run(AlDispatcher *dispatcher);

/*
 * Commit the transaction.  A wait for a synchronous standby ends when the
 * process is told to stop; from then on it is not waited for, since nothing is
 * sent any more.
 */
extern void al_turn_commit(AlDispatcher *dispatcher);

/*
 * The clock has been set: have the ledger's times and all that is kept here
 * follow it.  False when that has to be tried again; the old clock goes on.
 */
extern bool al_turn_set_clock(AlDispatcher *dispatcher);

#endif							/* AL_TURN_H */
