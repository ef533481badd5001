/*
 * launcher.h
 *		The static worker that keeps every database's dispatchers running.
 */
#ifndef AL_LAUNCHER_H
#define AL_LAUNCHER_H

#include "postgres.h"

#include "errors.h"

/* Register the launcher; only while shared_preload_libraries is processed. */
extern void al_launcher_register(void);

/* Entry point, called by the postmaster's child. */
extern AL_NORETURN PGDLLEXPORT void al_launcher_main(Datum arg);

#endif							/* AL_LAUNCHER_H */
