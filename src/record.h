/*
 * record.h
 *		Recording how attempts ended.
 */
#ifndef AL_RECORD_H
#define AL_RECORD_H

#include "postgres.h"
#include "nodes/pg_list.h"

#include "turn.h"

/*
 * Record what has ended, inside the turn's transaction: one alone while a batch
 * is isolated.  Returns the items that are done with when it commits, and in
 * *busy those whose actions somebody has locked.
 */
extern List *al_record_run(AlDispatcher *dispatcher, List **busy);

#endif							/* AL_RECORD_H */
