/*
 * databases.h
 *		Which databases want dispatchers, without connecting to any.
 */
#ifndef AL_DATABASES_H
#define AL_DATABASES_H

#include "postgres.h"
#include "nodes/pg_list.h"

/* What ALTER DATABASE … SET actionledger.enabled says. */
typedef enum AlDatabaseWish
{
	AL_DATABASE_UNSET,
	AL_DATABASE_ON,
	AL_DATABASE_OFF,
	AL_DATABASE_UNREADABLE		/* too many settings: only a process connected there knows */
} AlDatabaseWish;

/*
 * Read the settings of all databases: those that say on (or cannot be read
 * here) and accept connections, and those that say off.  Needs a transaction;
 * works in a worker that is connected to no database.
 */
extern void al_databases_read(List **on, List **off);

/* What is set for one database. */
extern AlDatabaseWish al_database_wish(Oid database);

/* Set actionledger.enabled = on for this database, unless something is set. */
extern void al_database_enable(void);

/* Whether a database exists and accepts connections. */
extern bool al_database_connectable(Oid database);

#endif							/* AL_DATABASES_H */
