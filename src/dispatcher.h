/*
 * dispatcher.h
 *		The background worker that makes the calls.
 */
#ifndef AL_DISPATCHER_H
#define AL_DISPATCHER_H

#include "postgres.h"

#include "errors.h"

/* Entry point; the argument is the worker's slot in the roster. */
extern AL_NORETURN PGDLLEXPORT void al_dispatcher_main(Datum arg);

#endif							/* AL_DISPATCHER_H */
