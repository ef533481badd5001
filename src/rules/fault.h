/*
 * fault.h
 *		Named moments at which a fault build can be made to die.
 *
 * In a release build AL_FAULT_POINT() is nothing at all; a test checks that
 * the release library contains none of it.  In a fault build (-DAL_FAULT_BUILD) the plan,
 * "point:mode[:nth[:label]]", says what happens the nth time (default 1) a point
 * is reached: kill (SIGKILL to ourselves), kill_postmaster (SIGKILL to the
 * parent, then go on), abort (SIGABRT), hang (stop until killed), error (the
 * point returns true, the caller raises).  The label only tells entries apart.
 *
 * A process that dies is followed by one with the same plan.  So there is a
 * journal: an entry that has fired in any process is written there and never
 * fires again.  A test reads in it who is armed and what fired.
 */
#ifndef AL_FAULT_H
#define AL_FAULT_H

#include <stdbool.h>

#ifdef AL_FAULT_BUILD
extern void al_fault_journal(const char *path); /* not copied; before al_fault_plan() */
extern void al_fault_plan(const char *plan);	/* NULL or "" disarms */
extern bool al_fault_reached(const char *point);
#define AL_FAULT_POINT(point) al_fault_reached(point)
#else
#define AL_FAULT_POINT(point) false
#endif

#endif							/* AL_FAULT_H */
