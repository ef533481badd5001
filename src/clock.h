/*
 * clock.h
 *		Time for the ledger: goes on evenly, whatever is done to the time of day.
 *
 * Times are stored as times of day.  Inside a dispatcher they are elapsed time
 * (which nobody can set, and which runs while the machine sleeps) plus an
 * offset.  When the time of day no longer fits, the offset is changed together
 * with the times that are stored (rebase.c); until then the old one holds.
 */
#ifndef AL_CLOCK_H
#define AL_CLOCK_H

#include "postgres.h"
#include "datatype/timestamp.h"

/* A difference that is no drift: the clock has been set. */
#define AL_CLOCK_JUMP_US INT64CONST(1000000)

/* Microseconds since the machine was booted. */
extern int64 al_clock_elapsed(void);

/*
 * The time by which the ledger decides.  In a dispatcher that has settled its
 * clock: elapsed time plus its offset.  In a session: the same with the offset
 * of a dispatcher of this database, where one runs; else the time of day.
 */
extern TimestampTz al_clock_now(void);

/*
 * Compare with the time of day, and follow its drift.  True when it has been
 * set, or when this process has not settled its clock yet.
 */
extern bool al_clock_has_jumped(void);

/* The offset that fits the time of day now; false when it could not be read in one go. */
extern bool al_clock_sample(int64 *offset);

/* Take on an offset.  al_clock_shifted() grows by the difference to the one before. */
extern void al_clock_settle(int64 offset);

/* The offset at hand; 0 before one was settled. */
extern int64 al_clock_offset(void);

/* By how much the clock of this process has been changed since it was first settled. */
extern int64 al_clock_shifted(void);

/* Names this boot of the machine, NULL where that cannot be told. */
extern const char *al_clock_boot(void);

#endif							/* AL_CLOCK_H */
