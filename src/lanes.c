/*
 * lanes.c
 *		Limits and watermarks per service.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "lanes.h"

#define LANE_BATCH 200			/* most claimed from one service in a turn */
#define TURN_BATCH 1000			/* and from all of them */

static AlLane *add_lane(AlLanes *lanes, int32 service_id);
static void read_lane(AlLane *lane);

/* Reads which services belong to this dispatcher. */
void
al_lanes_refresh(AlLanes *lanes, int index, int count)
{
	int32	   *numbers;
	int			n;

	if (lanes->generation == al_registry_generation())
		return;
	lanes->generation = al_registry_generation();
	for (int i = 0; i < lanes->n; i++)
		lanes->lanes[i]->gone = true;
	n = al_ledger_services(index, count, &numbers);
	for (int i = 0; i < n; i++)
	{
		AlLane	   *lane = al_lanes_find(lanes, numbers[i]);

		if (lane == NULL)
			lane = add_lane(lanes, numbers[i]);
		read_lane(lane);
	}
}

/* Finds the lane of a service. */
AlLane *
al_lanes_find(AlLanes *lanes, int32 service_id)
{
	for (int i = 0; i < lanes->n; i++)
	{
		if (lanes->lanes[i]->service_id == service_id)
			return lanes->lanes[i];
	}
	return NULL;
}

/* Moves watermarks back to what has been announced. */
void
al_lanes_announce(AlLanes *lanes, TimestampTz due_at)
{
	for (int i = 0; i < lanes->n; i++)
	{
		AlLane	   *lane = lanes->lanes[i];

		lane->look = true;
		if (due_at <= lane->mark_at)
		{
			lane->mark_at = due_at;
			lane->mark_id = 0;
		}
	}
}

/* Moves watermarks back to the beginning. */
void
al_lanes_rescan(AlLanes *lanes)
{
	al_lanes_announce(lanes, DT_NOBEGIN);
}

/* Tells whether something may be claimed now. */
bool
al_lanes_ready(AlLanes *lanes, TimestampTz now)
{
	for (int i = 0; i < lanes->n; i++)
	{
		AlLane	   *lane = lanes->lanes[i];

		if (!lane->gone && lane->in_flight < lane->limit && (lane->look || lane->next_due <= now))
			return true;
	}
	return false;
}

/* Finds the earliest due time of lanes with room. */
TimestampTz
al_lanes_next_due(const AlLanes *lanes)
{
	TimestampTz next = DT_NOEND;

	for (int i = 0; i < lanes->n; i++)
	{
		const AlLane *lane = lanes->lanes[i];

		if (!lane->gone && lane->in_flight < lane->limit)
			next = Min(next, lane->next_due);
	}
	return next;
}

/* Lists what may be claimed now. */
int
al_lanes_lots(AlLanes *lanes, TimestampTz now, int room, AlLot *lots)
{
	int			n = 0;

	room = Min(room, TURN_BATCH);
	lanes->first = (lanes->first + 1) % Max(lanes->n, 1);
	for (int i = 0; i < lanes->n && room > 0; i++)
	{
		AlLane	   *lane = lanes->lanes[(lanes->first + i) % lanes->n];
		int			free = Min(Min(lane->limit - lane->in_flight, LANE_BATCH), room);

		if (lane->gone || free <= 0 || !(lane->look || lane->next_due <= now))
			continue;
		lots[n].service_id = lane->service_id;
		lots[n].free = free;
		lots[n].mark_at = lane->mark_at;
		lots[n].mark_id = lane->mark_id;
		room -= free;
		n++;
	}
	return n;
}

/* Moves the watermark after a claim. */
void
al_lane_advance(AlLane *lane, const AlLot *lot, int picked, TimestampTz last_at, int64 last_id, TimestampTz now)
{
	if (picked >= lot->free)
	{
		lane->look = true;
		lane->mark_at = last_at;
		lane->mark_id = last_id;
	}
	else
	{
		lane->look = false;
		lane->next_due = DT_NOEND;
		lane->mark_at = now;
		lane->mark_id = PG_INT64_MAX;
	}
}

/* Moves the watermark back to just before an action. */
void
al_lane_return_to(AlLane *lane, TimestampTz next_at, int64 action_id)
{
	lane->look = true;
	if (next_at < lane->mark_at || (next_at == lane->mark_at && action_id <= lane->mark_id))
	{
		lane->mark_at = next_at;
		lane->mark_id = action_id - 1;
	}
}

/* Adds a lane that has seen nothing yet. */
static AlLane *
add_lane(AlLanes *lanes, int32 service_id)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	AlLane	   *lane = palloc0(sizeof(AlLane));

	lane->service_id = service_id;
	lane->look = true;
	lane->next_due = DT_NOEND;
	lane->mark_at = DT_NOBEGIN;
	if (lanes->lanes == NULL)
		lanes->lanes = palloc(sizeof(AlLane *));
	else
		lanes->lanes = repalloc(lanes->lanes, (lanes->n + 1) * sizeof(AlLane *));
	lanes->lanes[lanes->n++] = lane;
	MemoryContextSwitchTo(old);
	return lane;
}

/* Reads what a service's definition says about its lane. */
static void
read_lane(AlLane *lane)
{
	AlService  *service = al_registry_service_guarded(lane->service_id);

	if (service == NULL)
		return;
	lane->gone = false;
	lane->limit = service->def->in_flight;
}
