/*
 * lanes.h
 *		What a dispatcher keeps per service: its limit, and how far it has looked.
 *
 * A lane holds a watermark in the order of due times, so that a claim never
 * walks over what it has seen.  Announcements of earlier work move it back; a
 * regular full look finds what nobody announced.
 */
#ifndef AL_LANES_H
#define AL_LANES_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "ledger.h"
#include "registry.h"

typedef struct AlLane
{
	int32		service_id;
	int			limit;			/* most requests at once */
	int			in_flight;
	int			unsent;			/* of those, unproven ones whose transmission has not begun */
	int			drafted;		/* unproven ones claimed in this turn */
	bool		gone;			/* no longer ours, or its definition cannot be read */
	bool		look;			/* there may be something due */
	TimestampTz next_due;		/* when there will be, as far as known */
	TimestampTz mark_at;		/* everything up to (mark_at, mark_id) has been seen */
	int64		mark_id;
} AlLane;

typedef struct AlLanes
{
	int			n;
	AlLane	  **lanes;			/* each allocated for good: flights point at them */
	int			first;			/* whose turn it is to be served first */
	uint64		generation;		/* of the registry when last read */
} AlLanes;

/* Read which services belong to dispatcher index of count, when that may have changed. */
extern void al_lanes_refresh(AlLanes *lanes, int index, int count);

extern AlLane *al_lanes_find(AlLanes *lanes, int32 service_id);

/* Something is due at a time, at any service. */
extern void al_lanes_announce(AlLanes *lanes, TimestampTz due_at);

/* Look at everything again. */
extern void al_lanes_rescan(AlLanes *lanes);

/* Whether something may be claimed now. */
extern bool al_lanes_ready(AlLanes *lanes, TimestampTz now);

/* The earliest time at which a lane with room has something due; DT_NOEND for none. */
extern TimestampTz al_lanes_next_due(const AlLanes *lanes);

/* What may be claimed now, at most room in all; lots has lanes->n entries. */
extern int	al_lanes_lots(AlLanes *lanes, TimestampTz now, int room, AlLot *lots);

/* Move the watermark after a claim that returned picked of lot->free, the last one as given. */
extern void al_lane_advance(AlLane *lane, const AlLot *lot, int picked,
							TimestampTz last_at, int64 last_id, TimestampTz now);

/* Come back to an action that was left where it is. */
extern void al_lane_return_to(AlLane *lane, TimestampTz next_at, int64 action_id);

#endif							/* AL_LANES_H */
