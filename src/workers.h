/*
 * workers.h
 *		Who works for this database.
 */
#ifndef AL_WORKERS_H
#define AL_WORKERS_H

#include "postgres.h"

/*
 * Why nobody sends to a service of this database: a clause without a capital or
 * a period, palloc'ed; NULL when somebody does, or is about to.
 */
extern char *al_workers_trouble(int32 service_id);

#endif							/* AL_WORKERS_H */
