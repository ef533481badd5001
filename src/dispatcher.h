/*
 * dispatcher.h
 *		The background worker that makes the calls.
 */
#ifndef AL_DISPATCHER_H
#define AL_DISPATCHER_H

#include "postgres.h"

/* Entry point; the argument is the worker's slot in the roster. */
extern PGDLLEXPORT void al_dispatcher_main(Datum arg) pg_attribute_noreturn();

#endif							/* AL_DISPATCHER_H */
