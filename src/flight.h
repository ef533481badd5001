/*
 * flight.h
 *		A request under way.
 */
#ifndef AL_FLIGHT_H
#define AL_FLIGHT_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "utils/uuid.h"

#include "turn.h"

/* Make the memory of a request, which outlives the turn: it keeps what the tool's definition reads. */
extern AlFlight *al_flight_create(AlLane *lane, const AlTool *tool, bool lookup);

/* What a request's head says, and what of it no answer may bring back (secrets.h). */
typedef struct AlHeaderLines
{
	List	   *lines;			/* of char * */
	List	   *held;			/* likewise */
} AlHeaderLines;

/*
 * List the header lines of a request: the frozen ones with their secrets, and
 * ours, with the ledger's namespace as number and as text.  False, with the name
 * in *missing, when a secret cannot be had.
 */
extern bool al_flight_headers(const pg_uuid_t *namespace_id, const char *ledger, const AlStanding *standing,
							  const char *frozen, AlHeaderLines *headers, char **missing);

/* Overwrite and free the lines and what they hold. */
extern void al_flight_forget_headers(AlHeaderLines *headers);

#endif							/* AL_FLIGHT_H */
