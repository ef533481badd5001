/*
 * ended.c
 *		The queue of ended attempts, from the wire to the ledger.
 *
 * What has ended stays in the queue until it is recorded.  Three things may keep
 * it there: somebody has locked the action (busy), a batch has failed and is tried
 * one by one (isolated), or one cannot be recorded at all for the time being (stuck).
 */
#include "postgres.h"

#include "storage/condition_variable.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "ended.h"
#include "roster.h"

#define BUSY_PAUSE_MS 100
#define RECORD_TRIES 3
#define STUCK_PAUSE_MS 10000

static void take_back(AlDispatcher *dispatcher);
static void take_back_stuck(AlDispatcher *dispatcher);
static void count_isolated(AlDispatcher *dispatcher);

/* Takes what the wire has finished into the queue, and back what was busy long enough. */
void
al_ended_collect(AlDispatcher *dispatcher)
{
	AlWireResult *result;

	if (dispatcher->n_busy > 0 && al_clock_now() >= dispatcher->busy_until)
		take_back(dispatcher);
	if (dispatcher->n_stuck > 0 && al_clock_now() >= dispatcher->stuck_until)
		take_back_stuck(dispatcher);
	while ((result = al_wire_next(dispatcher->wire)) != NULL)
	{
		AlFlight   *flight = (AlFlight *) (uintptr_t) result->tag;
		AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

		item->ended.standing = flight->standing;
		item->clock = item->started_clock = flight->clock;
		if (flight->standing.key_place != NULL)
		{
			memcpy(item->key_place, flight->key_place, sizeof(item->key_place));
			item->ended.standing.key_place = item->key_place;
		}
		item->ended.action_id = flight->standing.action_id;
		item->ended.attempt = flight->standing.attempts;
		item->ended.lookup = flight->lookup;
		item->ended.started_at = flight->started_at;
		item->ended.elsewhere = flight->elsewhere;
		item->ended.digest = flight->digest;
		if (flight->lookup)
			(void) AL_FAULT_POINT("lookup_answered");
		item->ended.tool_id = flight->standing.tool_id;
		item->ended.service_id = flight->lane->service_id;
		item->ended.finished_at = al_clock_now();
		item->ended.evidence = result->evidence;
		item->ended.result = result;
		al_lane_end(flight->lane, &result->evidence, flight->probe);
		pfree(flight);
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = item->ended.finished_at;
		dlist_push_tail(&dispatcher->ended, &item->node);
	}
}

/* Queues an attempt that ended without the wire. */
void
al_ended_queue(AlDispatcher *dispatcher, const AlStanding *standing, int attempt, bool lookup, AlEnding ending)
{
	AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

	item->ended.action_id = standing->action_id;
	item->ended.attempt = attempt;
	item->ended.lookup = lookup;
	item->ended.tool_id = standing->tool_id;
	item->ended.service_id = standing->service_id;
	item->ended.finished_at = al_clock_now();
	item->ended.evidence.ending = ending;
	if (dispatcher->n_ended++ == 0)
		dispatcher->ended_since = item->ended.finished_at;
	dlist_push_tail(&dispatcher->ended, &item->node);
}

/* Drops what has been recorded from the queue, and tells who waits. */
void
al_ended_forget(AlDispatcher *dispatcher, List *recorded)
{
	ListCell   *cell;

	if (recorded == NIL)
		return;
	foreach(cell, recorded)
	{
		AlEndedItem *item = lfirst(cell);

		dlist_delete(&item->node);
		dispatcher->n_ended--;
		if (item->ended.result != NULL)
			al_wire_result_free(item->ended.result);
		pfree(item);
	}
	count_isolated(dispatcher);
	ConditionVariableBroadcast(&al_roster->outcome);
}

/* Puts aside for a while what cannot be recorded now, so that it holds up nothing else. */
void
al_ended_set_aside(AlDispatcher *dispatcher, List *busy)
{
	ListCell   *cell;

	if (busy == NIL)
		return;
	foreach(cell, busy)
	{
		AlEndedItem *item = lfirst(cell);

		dlist_delete(&item->node);
		dispatcher->n_ended--;
		dlist_push_tail(&dispatcher->busy, &item->node);
		dispatcher->n_busy++;
	}
	count_isolated(dispatcher);
	dispatcher->busy_until = TimestampTzPlusMilliseconds(al_clock_now(), BUSY_PAUSE_MS);
}

/* Isolates what may have made a batch fail. */
bool
al_ended_isolate(AlDispatcher *dispatcher)
{
	AlEndedItem *item;

	if (dispatcher->n_ended == 0)
		return true;
	if (dispatcher->isolate == 0)
	{
		dispatcher->isolate = dispatcher->n_ended;
		return false;
	}
	item = dlist_head_element(AlEndedItem, node, &dispatcher->ended);

	/* The next try keeps nothing of the answer but its status. */
	item->tries++;
	if (item->tries > RECORD_TRIES)
	{
		/* The others go on; attention shows this one. */
		dlist_delete(&item->node);
		dispatcher->n_ended--;
		dlist_push_tail(&dispatcher->stuck, &item->node);
		dispatcher->n_stuck++;
		dispatcher->stuck_until = TimestampTzPlusMilliseconds(al_clock_now(), STUCK_PAUSE_MS);
		count_isolated(dispatcher);
		return false;
	}
	if (item->tries == 1)
		return false;
	dlist_delete(&item->node);
	dlist_push_tail(&dispatcher->ended, &item->node);
	return true;
}

/* Puts what was set aside into the queue again. */
static void
take_back(AlDispatcher *dispatcher)
{
	while (!dlist_is_empty(&dispatcher->busy))
	{
		dlist_push_tail(&dispatcher->ended, dlist_pop_head_node(&dispatcher->busy));
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = al_clock_now();
	}
	dispatcher->n_busy = 0;
}

/* Puts what could not be recorded into the queue again, to be tried one by one. */
static void
take_back_stuck(AlDispatcher *dispatcher)
{
	while (!dlist_is_empty(&dispatcher->stuck))
	{
		dlist_push_tail(&dispatcher->ended, dlist_pop_head_node(&dispatcher->stuck));
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = al_clock_now();
	}
	dispatcher->n_stuck = 0;
	dispatcher->isolate = dispatcher->n_ended;
}

/* Counts a turn that has taken something off the queue. */
static void
count_isolated(AlDispatcher *dispatcher)
{
	if (dispatcher->isolate > 0)
		dispatcher->isolate--;
	if (dispatcher->n_ended == 0)
		dispatcher->isolate = 0;
	dispatcher->ended_since = al_clock_now();
}
