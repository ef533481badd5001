/*
 * session.c
 *		Running the ledger's own statements as the extension's owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "authority.h"
#include "session.h"

#define MOST_COLUMNS 64			/* of a row that is taken apart at once */

/* The result row that was read last, taken apart. */
static struct
{
	SPITupleTable *table;		/* NULL: none */
	uint64		row;
	Datum		values[MOST_COLUMNS];
	bool		nulls[MOST_COLUMNS];
} last_read;

static void prepare(AlStatement *statement);

/* Connects to SPI and becomes the extension's owner. */
void
al_session_begin(AlSession *session, bool pin_path)
{
	MemoryContext caller = CurrentMemoryContext;

	GetUserIdAndSecContext(&session->user, &session->sec_context);
	session->guc_nest_level = 0;
	SetUserIdAndSecContext(al_owner_role(), session->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	if (pin_path)
	{
		session->guc_nest_level = NewGUCNestLevel();
		(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	}
	session->pushed_snapshot = !ActiveSnapshotSet();
	if (session->pushed_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	/* What is made in between lives on after al_session_end(). */
	MemoryContextSwitchTo(caller);
}

/* Becomes the caller again. */
void
al_session_end(AlSession *session)
{
	last_read.table = NULL;
	SPI_finish();
	if (session->pushed_snapshot)
		PopActiveSnapshot();
	if (session->guc_nest_level > 0)
		AtEOXact_GUC(false, session->guc_nest_level);
	SetUserIdAndSecContext(session->user, session->sec_context);
}

/* Does work in a subtransaction. */
bool
al_session_try(void (*work) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(context);
		work(arg);
		ReleaseCurrentSubTransaction();
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return done;
}

/* Becomes the caller for a while. */
void
al_session_suspend(const AlSession *session)
{
	Assert(session->guc_nest_level == 0);
	SetUserIdAndSecContext(session->user, session->sec_context);
}

/* Becomes the extension's owner again. */
void
al_session_resume(const AlSession *session)
{
	SetUserIdAndSecContext(al_owner_role(), session->sec_context | SECURITY_LOCAL_USERID_CHANGE);
}

/* Prepares a statement on first use. */
static void
prepare(AlStatement *statement)
{
	SPIPlanPtr	plan;

	if (statement->plan != NULL)
		return;
	plan = SPI_prepare(statement->text, statement->nargs, statement->types);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", statement->text, SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	statement->plan = plan;
}

/* Has a statement take another type first; a plan for the one before is void. */
void
al_statement_take(AlStatement *statement, Oid type)
{
	if (statement->types[0] == type)
		return;
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = NULL;
	statement->types[0] = type;
}

/* Runs a statement that reads what is committed now, or was done by this transaction. */
uint64
al_statement_read_latest(AlStatement *statement, Datum *values)
{
	MemoryContext caller = CurrentMemoryContext;
	int			rc;

	last_read.table = NULL;
	prepare(statement);
	CommandCounterIncrement();
	rc = SPI_execute_snapshot(statement->plan, values, NULL, GetLatestSnapshot(), InvalidSnapshot, true, false, 0);
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", statement->text, SPI_result_code_string(rc));
	MemoryContextSwitchTo(caller);
	return SPI_processed;
}

/* Runs a statement. */
uint64
al_statement_run(AlStatement *statement, Datum *values, const char *nulls)
{
	MemoryContext caller = CurrentMemoryContext;
	int			rc;

	last_read.table = NULL;
	prepare(statement);
	rc = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", statement->text, SPI_result_code_string(rc));
	MemoryContextSwitchTo(caller);
	return SPI_processed;
}

/* Reads a column of a result row; the row's other columns are then at hand. */
Datum
al_column(uint64 row, int column, bool *isnull)
{
	if (SPI_tuptable->tupdesc->natts > MOST_COLUMNS)
		return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
	if (last_read.table != SPI_tuptable || last_read.row != row)
	{
		heap_deform_tuple(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, last_read.values, last_read.nulls);
		last_read.table = SPI_tuptable;
		last_read.row = row;
	}
	*isnull = last_read.nulls[column - 1];
	return last_read.values[column - 1];
}

/* Reads a column as its text, NULL for null. */
char *
al_column_text(uint64 row, int column)
{
	bool		isnull;
	Datum		value;

	if (SPI_gettypeid(SPI_tuptable->tupdesc, column) != TEXTOID)
		return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
	value = al_column(row, column, &isnull);
	return isnull ? NULL : TextDatumGetCString(value);
}

/* Reads a bigint or timestamptz column, 0 for null. */
int64
al_column_int8(uint64 row, int column)
{
	bool		isnull;
	Datum		value = al_column(row, column, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

/* Reads an int column, 0 for null. */
int32
al_column_int4(uint64 row, int column)
{
	bool		isnull;
	Datum		value = al_column(row, column, &isnull);

	return isnull ? 0 : DatumGetInt32(value);
}

/* Reads a bool column, false for null. */
bool
al_column_bool(uint64 row, int column)
{
	bool		isnull;
	Datum		value = al_column(row, column, &isnull);

	return isnull ? false : DatumGetBool(value);
}
