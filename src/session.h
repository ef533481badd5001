/*
 * session.h
 *		Statements of the ledger's own, run by functions that others call.
 *
 * A function takes the caller's identity first, decides what the caller may
 * do, and only then switches to the extension's owner for the statements here.
 */
#ifndef AL_SESSION_H
#define AL_SESSION_H

#include "postgres.h"
#include "executor/spi.h"

#define AL_MAX_PARAMS 40

/* A statement whose plan is prepared on first use and kept for the process. */
typedef struct AlStatement
{
	const char *text;
	int			nargs;
	Oid			types[AL_MAX_PARAMS];
	SPIPlanPtr	plan;
} AlStatement;

/* What al_session_begin() changed. */
typedef struct AlSession
{
	Oid			user;
	int			sec_context;
	int			guc_nest_level;	/* 0: search_path was left alone */
	bool		pushed_snapshot;	/* a worker's transaction begins without one */
} AlSession;

/*
 * Connect to SPI and become the extension's owner.  With pin_path the
 * search_path is pg_catalog, pg_temp until al_session_end(); without it every
 * name and operator in the statements must be qualified.  On error the
 * transaction's own clean-up undoes all of it.
 */
extern void al_session_begin(AlSession *session, bool pin_path);
extern void al_session_end(AlSession *session);

/* Be the caller for a while, for code that is not the ledger's own; only without pin_path. */
extern void al_session_suspend(const AlSession *session);
extern void al_session_resume(const AlSession *session);

/*
 * Do work in a subtransaction of its own; false when it raised an error, which
 * is forgotten.  For what strangers have a hand in.
 */
extern bool al_session_try(void (*work) (void *arg), void *arg);

/*
 * Say of which type a statement's first parameter is, where that is one of our
 * own: the extension may have been created anew.
 */
extern void al_statement_take(AlStatement *statement, Oid type);

/*
 * Run a statement; returns the number of rows, in SPI_tuptable.  The current
 * memory context stays the caller's.
 */
extern uint64 al_statement_run(AlStatement *statement, Datum *values, const char *nulls);

/*
 * The same for a statement without nulls that only reads, with a snapshot of its
 * own: for what is kept longer than the transaction, whose snapshot may be old.
 */
extern uint64 al_statement_read_latest(AlStatement *statement, Datum *values);

/* Read a column of a result row; the by-reference ones live in SPI's memory. */
extern Datum al_column(uint64 row, int column, bool *isnull);
extern char *al_column_text(uint64 row, int column);	/* NULL for null */
extern int64 al_column_int8(uint64 row, int column);	/* 0 for null */
extern int32 al_column_int4(uint64 row, int column);	/* 0 for null */
extern bool al_column_bool(uint64 row, int column); /* false for null */

#endif							/* AL_SESSION_H */
