/*
 * incarnation.h
 *		Who is alive: a session lock per start of a dispatcher.
 *
 * The lock is an advisory one of a class that SQL cannot reach, so nobody else
 * can hold it; it goes with the process, however that ends.
 */
#ifndef AL_INCARNATION_H
#define AL_INCARNATION_H

#include "postgres.h"

/* Hold the lock of an incarnation until this process ends.  False when somebody has it. */
extern bool al_incarnation_hold(int64 incarnation);

/* Whether the process of an incarnation still lives. */
extern bool al_incarnation_is_alive(int64 incarnation);

#endif							/* AL_INCARNATION_H */
