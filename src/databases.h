/*
 * databases.h
 *		Which databases want dispatchers, without connecting to any.
 */
#ifndef AL_DATABASES_H
#define AL_DATABASES_H

#include "postgres.h"
#include "nodes/pg_list.h"

/*
 * The OIDs of the databases for which ALTER DATABASE … SET
 * actionledger.enabled = on is in force, and that accept connections.  Needs a
 * transaction; works in a worker that is connected to no database.
 */
extern List *al_databases_enabled(void);

/* Whether a database exists and accepts connections. */
extern bool al_database_connectable(Oid database);

#endif							/* AL_DATABASES_H */
