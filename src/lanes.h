/*
 * lanes.h
 *		What a dispatcher keeps per service: its limits, and how far it has looked.
 *
 * A lane holds a watermark per priority in the order of due times, so that a
 * claim never walks over what it has seen.  Announcements of earlier work move
 * it back; a regular full look finds what nobody announced.
 */
#ifndef AL_LANES_H
#define AL_LANES_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "ledger.h"
#include "registry.h"
#include "rules/breaker.h"

/* Priorities 1, 0 and -1, in this order. */
#define AL_N_LEVELS 3

typedef struct AlLevel
{
	bool		look;			/* there may be something due */
	TimestampTz next_due;		/* when there will be, as far as known */
	TimestampTz mark_at;		/* everything up to (mark_at, mark_id) has been seen */
	int64		mark_id;
} AlLevel;

typedef struct AlLane
{
	int32		service_id;
	int			limit;			/* most requests at once */
	double		rate;			/* most requests begun a second; 0: no limit */
	int			threshold;		/* failures that open the breaker */
	int64		cooldown_ms;
	int			in_flight;
	int			unsent;			/* of those, unproven ones whose transmission has not begun */
	int			taken;			/* claimed in this turn */
	int			taken_unproven;
	bool		unproven_wait;	/* something was left because too many unproven ones are unsent */
	bool		unproven_bound; /* that was so in the last turn that took anything, and it took nothing else */
	bool		gone;			/* no longer ours, or its definition cannot be read */
	bool		paused;			/* some of it: look at more than there is room for */
	AlBreaker	breaker;
	AlBucket	bucket;
	TimestampTz held_from;		/* the last time that the breaker kept it from sending; 0: never */
	TimestampTz held_until;		/* DT_NOEND while it does */
	AlLevel		levels[AL_N_LEVELS];
} AlLane;

typedef struct AlLanes
{
	int			n;
	AlLane	  **lanes;			/* each allocated for good: flights point at them */
	int			first;			/* whose turn it is to be served first */
	uint64		generation;		/* of the registry when last read */
	AlSpan	   *spans;			/* pauses that there were and are; allocated for good */
	int			n_spans;
	uint64		spans_generation;
	bool		release;		/* a pause may have been lifted: put back what it held */
	int64		release_after;	/* and from which action on */
	bool		release_again;	/* somebody had locked some of it */
} AlLanes;

/* Read which services belong to dispatcher index of count, when that may have changed. */
extern void al_lanes_refresh(AlLanes *lanes, int index, int count);

extern AlLane *al_lanes_find(AlLanes *lanes, int32 service_id);

/* Something is due at a time, at any service. */
extern void al_lanes_announce(AlLanes *lanes, TimestampTz due_at);

/* Something of one lane is due at a time, above its watermark. */
extern void al_lane_expect(AlLane *lane, TimestampTz due_at);

/* Look at everything again. */
extern void al_lanes_rescan(AlLanes *lanes);

/* The clock has been set by so much: what is kept of times follows it, and everything is looked at again. */
extern void al_lanes_shift(AlLanes *lanes, int64 shift);

/* Put back from the beginning what no pause holds any more. */
extern void al_lanes_release(AlLanes *lanes);

/* Whether something may be claimed now. */
extern bool al_lanes_ready(AlLanes *lanes, TimestampTz now);

/*
 * Whether a lane that had to leave something, because too many were unsent, has
 * begun them all: it need not wait for their answers.
 */
extern bool al_lanes_begun(AlLanes *lanes, TimestampTz now);

/* The earliest time at which something may be claimed; DT_NOEND for none. */
extern TimestampTz al_lanes_next_due(AlLanes *lanes, TimestampTz now);

/*
 * Begin a turn: what may be claimed now, at most room in all; lots has
 * AL_N_LEVELS entries per lane.  Each level of a lane may use all of its room:
 * the caller serves the higher ones first and returns the rest.
 */
extern int	al_lanes_lots(AlLanes *lanes, TimestampTz now, int room, AlLot *lots);

/* How many requests of a lane may begin now, less those taken in this turn. */
extern int	al_lane_room(AlLane *lane);

/* Move the watermark after a claim that returned picked of lot->free, the last one as given. */
extern void al_lane_advance(AlLane *lane, const AlLot *lot, int picked,
							TimestampTz last_at, int64 last_id, TimestampTz now);

/* Come back to an action that was left where it is. */
extern void al_lane_return_to(AlLane *lane, int priority, TimestampTz next_at, int64 action_id);

/* A request of the lane begins, perhaps as the breaker's probe of that number; one has ended. */
extern int64 al_lane_begin(AlLane *lane);
extern void al_lane_end(AlLane *lane, const AlEvidence *evidence, int64 probe);

/* Microseconds for which pauses and the breaker have held an action that was due at a time. */
extern int64 al_lane_held_us(const AlLanes *lanes, const AlLane *lane, int32 tool_id, bool read_only, TimestampTz due_at, TimestampTz now);

/* Somebody is about to pause or resume a lane: leave it alone for a moment. */
extern void al_lane_stand_aside(AlLane *lane, TimestampTz now);

#endif							/* AL_LANES_H */
