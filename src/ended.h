/*
 * ended.h
 *		The queue of ended attempts.
 */
#ifndef AL_ENDED_H
#define AL_ENDED_H

#include "postgres.h"
#include "nodes/pg_list.h"

#include "turn.h"

/* Take what the wire has finished into the queue, and back what was busy or stuck long enough. */
extern void al_ended_collect(AlDispatcher *dispatcher);

/* Queue an attempt that ended without the wire. */
extern void al_ended_queue(AlDispatcher *dispatcher, const AlStanding *standing, int attempt, bool lookup, AlEnding ending);

/* Drop what has been recorded from the queue, and tell who waits. */
extern void al_ended_forget(AlDispatcher *dispatcher, List *recorded);

/* Put aside for a while what somebody has locked, so that it holds up nothing else. */
extern void al_ended_set_aside(AlDispatcher *dispatcher, List *busy);

/*
 * A turn has failed while it recorded: go on one by one; what fails alone is tried
 * without its answer, and in the end put aside.  True when the next turn should
 * wait a moment.
 */
extern bool al_ended_isolate(AlDispatcher *dispatcher);

#endif							/* AL_ENDED_H */
