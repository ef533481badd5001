/*
 * lanes.c
 *		Limits, breakers and watermarks per service.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "lanes.h"
#include "roster.h"
#include "settings.h"

#define LANE_BATCH 200			/* most claimed from one service in a turn */
#define TURN_BATCH 1000			/* and from all of them */
#define ASIDE_MS 50				/* how long a lane is left alone whose pause is being decided */

static AlLane *add_lane(AlLanes *lanes, int32 service_id);
static void read_lane(AlLane *lane);
static void read_spans(AlLanes *lanes);
static bool any_pause(const AlLanes *lanes, int32 service_id);
static bool lane_ready(AlLane *lane, TimestampTz now);
static bool level_ready(const AlLevel *level, TimestampTz now);
static AlLevel *level_of(AlLane *lane, int priority);
static void publish(AlLane *lane);
static int64 monotonic_ms(void);

/* Reads which services belong to this dispatcher. */
void
al_lanes_refresh(AlLanes *lanes, int index, int count)
{
	uint64		generation = al_registry_generation();
	int32	   *numbers;
	int			n;

	if (lanes->spans_generation != generation)
		read_spans(lanes);
	if (lanes->generation == generation)
		return;
	for (int i = 0; i < lanes->n; i++)
		lanes->lanes[i]->gone = true;
	n = al_ledger_services(index, count, &numbers);
	for (int i = 0; i < n; i++)
	{
		AlLane	   *lane = al_lanes_find(lanes, numbers[i]);

		if (lane == NULL)
			lane = add_lane(lanes, numbers[i]);
		read_lane(lane);
		lane->paused = any_pause(lanes, lane->service_id);
	}
	lanes->generation = generation;
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
		for (int l = 0; l < AL_N_LEVELS; l++)
		{
			AlLevel    *level = &lanes->lanes[i]->levels[l];

			level->look = true;
			if (due_at <= level->mark_at)
			{
				level->mark_at = due_at;
				level->mark_id = 0;
			}
		}
	}
}

/* Notes when something of a lane will be due. */
void
al_lane_expect(AlLane *lane, TimestampTz due_at)
{
	for (int l = 0; l < AL_N_LEVELS; l++)
		lane->levels[l].next_due = Min(lane->levels[l].next_due, due_at);
}

/* Moves watermarks back to the beginning. */
void
al_lanes_rescan(AlLanes *lanes)
{
	al_lanes_announce(lanes, DT_NOBEGIN);
}

/* Has the times of lanes follow the clock. */
void
al_lanes_shift(AlLanes *lanes, int64 shift)
{
	for (int i = 0; i < lanes->n; i++)
	{
		AlLane	   *lane = lanes->lanes[i];

		if (lane->held_from != 0)
			lane->held_from += shift;
		if (lane->held_until != 0 && lane->held_until != DT_NOEND)
			lane->held_until += shift;
		if (lane->held_from != 0)
			publish(lane);
	}
	al_lanes_rescan(lanes);
}

/* Begins to put back what no pause holds any more. */
void
al_lanes_release(AlLanes *lanes)
{
	lanes->release = true;
	lanes->release_again = false;
	lanes->release_after = 0;
	al_lanes_rescan(lanes);
}

/* Tells whether something may be claimed now. */
bool
al_lanes_ready(AlLanes *lanes, TimestampTz now)
{
	for (int i = 0; i < lanes->n; i++)
	{
		if (lane_ready(lanes->lanes[i], now))
			return true;
	}
	return false;
}

/* Tells whether a lane has begun all that it could take, and may take more. */
bool
al_lanes_begun(AlLanes *lanes, TimestampTz now)
{
	for (int i = 0; i < lanes->n; i++)
	{
		AlLane	   *lane = lanes->lanes[i];

		if (lane->unproven_bound && lane->unsent == 0 && lane_ready(lane, now))
			return true;
	}
	return false;
}

/* Tells whether something of a lane may be claimed now. */
static bool
lane_ready(AlLane *lane, TimestampTz now)
{
	for (int l = 0; l < AL_N_LEVELS; l++)
	{
		if (level_ready(&lane->levels[l], now))
			return al_lane_room(lane) > 0;
	}
	return false;
}

/* Finds the earliest time at which something may be claimed. */
TimestampTz
al_lanes_next_due(AlLanes *lanes, TimestampTz now)
{
	int64		now_ms = monotonic_ms();
	TimestampTz next = DT_NOEND;

	for (int i = 0; i < lanes->n; i++)
	{
		AlLane	   *lane = lanes->lanes[i];
		TimestampTz due = DT_NOEND;
		int64		wait_ms = 0;

		if (lane->gone || lane->in_flight >= lane->limit || lane->breaker.probing ||
			(lane->unproven_wait && lane->unsent >= al_max_unproven))
			continue;
		for (int l = 0; l < AL_N_LEVELS; l++)
			due = lane->levels[l].look ? now : Min(due, lane->levels[l].next_due);
		if (due == DT_NOEND)
			continue;
		if (lane->breaker.open)
			wait_ms = Max(0, lane->breaker.probe_at_ms - now_ms);
		wait_ms = Max(wait_ms, al_bucket_wait_ms(&lane->bucket, lane->rate));
		next = Min(next, Max(due, TimestampTzPlusMilliseconds(now, wait_ms)));
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
		int			free;

		if (lane->taken > lane->taken_unproven)
			lane->unproven_bound = false;
		lane->taken = lane->taken_unproven = 0;
		free = Min(al_lane_room(lane), room);
		if (free <= 0)
			continue;
		/* More would be read, and left. */
		if (lane->unproven_bound)
			free = Min(free, Max(1, al_max_unproven - lane->unsent));
		/* What a pause holds takes no room, and is to get out of the way of the rest. */
		if (lane->paused)
			free = LANE_BATCH;
		for (int l = 0; l < AL_N_LEVELS; l++)
		{
			AlLevel    *level = &lane->levels[l];

			if (!level_ready(level, now))
				continue;
			lots[n].service_id = lane->service_id;
			lots[n].priority = 1 - l;
			lots[n].free = free;
			lots[n].mark_at = level->mark_at;
			lots[n].mark_id = level->mark_id;
			n++;
		}
		room -= free;
	}
	return n;
}

/* Moves the watermark after a claim. */
void
al_lane_advance(AlLane *lane, const AlLot *lot, int picked, TimestampTz last_at, int64 last_id, TimestampTz now)
{
	AlLevel    *level = level_of(lane, lot->priority);

	if (picked >= lot->free)
	{
		level->look = true;
		level->mark_at = last_at;
		level->mark_id = last_id;
	}
	else
	{
		level->look = false;
		level->next_due = DT_NOEND;
		level->mark_at = now;
		level->mark_id = PG_INT64_MAX;
	}
}

/* Moves the watermark back to just before an action. */
void
al_lane_return_to(AlLane *lane, int priority, TimestampTz next_at, int64 action_id)
{
	AlLevel    *level = level_of(lane, priority);

	level->look = true;
	if (next_at < level->mark_at || (next_at == level->mark_at && action_id <= level->mark_id))
	{
		level->mark_at = next_at;
		level->mark_id = action_id - 1;
	}
}

/* Says how many requests of a lane may begin now. */
int
al_lane_room(AlLane *lane)
{
	int64		now_ms = monotonic_ms();
	int			free = Min(lane->limit - lane->in_flight, LANE_BATCH) - lane->taken;

	/* Looking again is pointless before one of them has begun. */
	if (lane->unproven_wait && lane->unsent >= al_max_unproven)
		return 0;
	lane->unproven_wait = false;
	if (lane->gone || free <= 0 || (lane->breaker.open && lane->taken > 0))
		return 0;
	free = al_breaker_room(&lane->breaker, now_ms, free);
	return al_bucket_room(&lane->bucket, lane->rate, now_ms, free + lane->taken) - lane->taken;
}

/* Notes that a request begins. */
int64
al_lane_begin(AlLane *lane)
{
	lane->in_flight++;
	al_bucket_take(&lane->bucket, lane->rate, 1);
	return al_breaker_begin(&lane->breaker);
}

/* Notes how a request has ended. */
void
al_lane_end(AlLane *lane, const AlEvidence *evidence, int64 probe)
{
	AlBreakerSign sign = al_breaker_read(evidence);
	bool		was_open = lane->breaker.open;

	lane->in_flight--;
	(void) al_breaker_end(&lane->breaker, lane->threshold, lane->cooldown_ms, sign, probe, monotonic_ms());
	if (lane->breaker.open && !was_open)
	{
		lane->held_from = al_clock_now();
		lane->held_until = DT_NOEND;
	}
	else if (!lane->breaker.open && was_open)
		lane->held_until = al_clock_now();
	if (sign != AL_SIGN_NONE && (lane->breaker.open || was_open))
		publish(lane);
}

/* Says for how long pauses and the breaker have held an action back. */
int64
al_lane_held_us(const AlLanes *lanes, const AlLane *lane, int32 tool_id, bool read_only, TimestampTz due_at, TimestampTz now)
{
	return al_standstill_us(lanes->spans, lanes->n_spans, lane->service_id, tool_id, read_only,
							lane->held_from, lane->held_until, due_at, now);
}

/* Leaves a lane alone for a moment. */
void
al_lane_stand_aside(AlLane *lane, TimestampTz now)
{
	for (int l = 0; l < AL_N_LEVELS; l++)
	{
		lane->levels[l].look = false;
		lane->levels[l].next_due = TimestampTzPlusMilliseconds(now, ASIDE_MS);
	}
}

/* Adds a lane that has seen nothing yet. */
static AlLane *
add_lane(AlLanes *lanes, int32 service_id)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	AlLane	   *lane = palloc0(sizeof(AlLane));

	lane->service_id = service_id;
	for (int l = 0; l < AL_N_LEVELS; l++)
	{
		lane->levels[l].look = true;
		lane->levels[l].next_due = DT_NOEND;
		lane->levels[l].mark_at = DT_NOBEGIN;
	}
	if (lanes->lanes == NULL)
		lanes->lanes = palloc(sizeof(AlLane *));
	else
		lanes->lanes = repalloc(lanes->lanes, (lanes->n + 1) * sizeof(AlLane *));
	lanes->lanes[lanes->n++] = lane;
	MemoryContextSwitchTo(old);
	publish(lane);
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
	lane->rate = service->def->rate_per_second;
	lane->threshold = service->def->breaker_failures;
	lane->cooldown_ms = service->def->breaker_cooldown_ms;
}

/* Reads the pauses; when they are others than before, what was held may be free. */
static void
read_spans(AlLanes *lanes)
{
	uint64		generation = al_registry_generation();
	AlSpan	   *spans;
	int			n = al_ledger_spans(&spans);
	bool		same = lanes->spans != NULL && n == lanes->n_spans;

	for (int i = 0; i < n && same; i++)
		same = memcmp(&spans[i], &lanes->spans[i], sizeof(AlSpan)) == 0;
	lanes->spans_generation = generation;
	if (same)
		return;
	lanes->spans = lanes->spans ? repalloc(lanes->spans, Max(n, 1) * sizeof(AlSpan))
		: MemoryContextAlloc(TopMemoryContext, Max(n, 1) * sizeof(AlSpan));
	memcpy(lanes->spans, spans, n * sizeof(AlSpan));
	lanes->n_spans = n;
	al_lanes_release(lanes);
	/* Which lanes are paused is to be read as well. */
	lanes->generation = 0;
}

/* Tells whether a pause is open that may concern a service's tools. */
static bool
any_pause(const AlLanes *lanes, int32 service_id)
{
	for (int i = 0; i < lanes->n_spans; i++)
	{
		const AlSpan *span = &lanes->spans[i];

		if (span->until == DT_NOEND && (span->service_id == 0 || span->service_id == service_id))
			return true;
	}
	return false;
}

/* Tells whether there may be something due at a level. */
static bool
level_ready(const AlLevel *level, TimestampTz now)
{
	return level->look || level->next_due <= now;
}

/* Finds the level of a priority. */
static AlLevel *
level_of(AlLane *lane, int priority)
{
	return &lane->levels[1 - Max(-1, Min(1, priority))];
}

/* Shows the state of a lane's breaker to every session. */
static void
publish(AlLane *lane)
{
	AlRosterBreaker shown = {
		.database = MyDatabaseId,
		.service_id = lane->service_id,
		.open = lane->breaker.open,
		.failures = lane->breaker.failures,
		.since = lane->held_from
	};

	if (lane->breaker.open)
		shown.probe_at = TimestampTzPlusMilliseconds(al_clock_now(),
													 lane->breaker.probe_at_ms - monotonic_ms());
	al_roster_show_breaker(&shown);
}

/* Reads a clock that nobody can set. */
static int64
monotonic_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MILLISEC(now);
}
