/*
 * inquire.c
 *		SQL functions with which applications ask what has become of an action.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "envelope.h"
#include "errors.h"
#include "roster.h"
#include "session.h"
#include "visible.h"

PG_FUNCTION_INFO_V1(al_result);
PG_FUNCTION_INFO_V1(al_result_by_identity);
PG_FUNCTION_INFO_V1(al_wait);
PG_FUNCTION_INFO_V1(al_wait_many);

#define WAIT_MAX_S 60
#define WAIT_MOST 1000			/* actions at once */
#define WAIT_SLICE_MS 1000		/* a missed broadcast costs no more than this */

static AlStatement select_by_identity = {
	"SELECT a.action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) "
	"WHERE s.name = $1 AND a.identity = $2",
	2, {TEXTOID, TEXTOID}
};

static void wait_for(const int64 *ids, int n, int64 end, Jsonb **envelopes);
static Jsonb *look(int64 action_id, AlSeen *seen);
static AL_NORETURN void raise_unknown(int64 action_id);
static void check_may_wait(const AlSeen *seen, int64 action_id);
static int64 wait_end(Interval *timeout);
static int64 *read_ids(ArrayType *array, int *n);

/* result(action_id) */
Datum
al_result(PG_FUNCTION_ARGS)
{
	AlSeen		seen;

	PG_RETURN_JSONB_P(look(PG_GETARG_INT64(0), &seen));
}

/* result_by_identity(service, identity) */
Datum
al_result_by_identity(PG_FUNCTION_ARGS)
{
	Datum		values[2] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
	int64		action_id = 0;
	Jsonb	   *envelope;
	AlSession	session;
	AlSeen		seen;

	al_session_begin(&session, true);
	if (al_statement_run(&select_by_identity, values, NULL) > 0)
		action_id = al_column_int8(0, 1);
	al_session_end(&session);
	envelope = action_id != 0 ? al_envelope(action_id, GetUserId(), &seen) : NULL;
	if (envelope == NULL)
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("No action at service \"%s\" has the identity \"%s\", or it belongs to others.",
						   al_visible(text_to_cstring(PG_GETARG_TEXT_PP(0))), al_visible(text_to_cstring(PG_GETARG_TEXT_PP(1)))),
				 errhint("See the view actionledger.actions for those that you may see.")));
	PG_RETURN_JSONB_P(envelope);
}

/* wait(action_id, timeout) */
Datum
al_wait(PG_FUNCTION_ARGS)
{
	int64		action_id = PG_GETARG_INT64(0);
	Jsonb	   *envelope;

	wait_for(&action_id, 1, wait_end(PG_GETARG_INTERVAL_P(1)), &envelope);
	PG_RETURN_JSONB_P(envelope);
}

/* wait_many(action_ids, timeout) */
Datum
al_wait_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			n;
	int64	   *ids = read_ids(PG_GETARG_ARRAYTYPE_P(0), &n);
	Jsonb	  **envelopes = palloc0(Max(n, 1) * sizeof(Jsonb *));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	wait_for(ids, n, wait_end(PG_GETARG_INTERVAL_P(1)), envelopes);
	for (int i = 0; i < n; i++)
	{
		Datum		value = JsonbPGetDatum(envelopes[i]);
		bool		null = false;

		tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
	}
	return (Datum) 0;
}

/* Waits until none of some actions changes by itself, or the time is over, and gives their envelopes. */
static void
wait_for(const int64 *ids, int n, int64 end, Jsonb **envelopes)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext turn = AllocSetContextCreate(caller, "actionledger wait", ALLOCSET_DEFAULT_SIZES);
	bool	   *at_rest = palloc0(Max(n, 1) * sizeof(bool));
	int			moving = n;

	for (int i = 0; i < n; i++)
	{
		AlSeen		seen;

		envelopes[i] = look(ids[i], &seen);
		check_may_wait(&seen, ids[i]);
	}
	if (al_roster == NULL)
		return;
	ConditionVariablePrepareToSleep(&al_roster->outcome);
	for (;;)
	{
		long		left;

		for (int i = 0; i < n; i++)
		{
			AlSeen		seen;
			Jsonb	   *now;

			if (at_rest[i])
				continue;
			MemoryContextSwitchTo(turn);
			now = look(ids[i], &seen);
			MemoryContextSwitchTo(caller);
			pfree(envelopes[i]);
			envelopes[i] = (Jsonb *) memcpy(palloc(VARSIZE(now)), now, VARSIZE(now));
			MemoryContextReset(turn);
			at_rest[i] = seen.at_rest;
			moving -= seen.at_rest ? 1 : 0;
		}
		left = (long) ((end - al_clock_elapsed() + 999) / 1000);
		if (moving == 0 || left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&al_roster->outcome, Min(left, WAIT_SLICE_MS), PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* Tells when a wait ends, on a clock that nobody sets. */
static int64
wait_end(Interval *timeout)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now),
																IntervalPGetDatum(timeout)));

	return al_clock_elapsed() + Min(Max(until, now) - now, INT64CONST(1000000) * WAIT_MAX_S);
}

/* Reads the numbers of actions. */
static int64 *
read_ids(ArrayType *array, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	int64	   *ids;

	deconstruct_array(array, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, &nulls, n);
	if (*n > WAIT_MOST)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("cannot wait for %d actions at once", *n),
				 errdetail("The most is %d.", WAIT_MOST),
				 errhint("Wait for some of them, then for the others.")));
	ids = palloc(Max(*n, 1) * sizeof(int64));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(AL_ERR_UNKNOWN_ACTION),
					 errmsg("there is no such action that you may see"),
					 errdetail("Element %d of action_ids is null.", i + 1),
					 errhint("See the view actionledger.actions for those that you may see.")));
		ids[i] = DatumGetInt64(values[i]);
	}
	return ids;
}

/* Reads an action as the caller may see it; raises LG014 when there is none. */
static Jsonb *
look(int64 action_id, AlSeen *seen)
{
	Jsonb	   *envelope = al_envelope(action_id, GetUserId(), seen);

	if (envelope == NULL)
		raise_unknown(action_id);
	return envelope;
}

/* Refuses a wait that could never end. */
static void
check_may_wait(const AlSeen *seen, int64 action_id)
{
	if (seen->at_rest)
		return;
	if (seen->own_transaction)
		ereport(ERROR,
				(errcode(AL_ERR_WAIT_IN_OWN_TRANSACTION),
				 errmsg("cannot wait for action " INT64_FORMAT " in the transaction that performed it", action_id),
				 errdetail("It is sent only after this transaction has committed."),
				 errhint("Commit first, then call actionledger.wait(" INT64_FORMAT ").", action_id)));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(AL_ERR_WAIT_IN_OWN_TRANSACTION),
				 errmsg("cannot wait for action " INT64_FORMAT " in a REPEATABLE READ or SERIALIZABLE transaction", action_id),
				 errdetail("Its snapshot would never show the outcome."),
				 errhint("Wait in a new transaction, or in READ COMMITTED.")));
}

/* Raises for an action that is not there, or not to be seen. */
static void
raise_unknown(int64 action_id)
{
	ereport(ERROR,
			(errcode(AL_ERR_UNKNOWN_ACTION),
			 errmsg("there is no such action that you may see"),
			 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
			 errhint("See the view actionledger.actions for those that you may see.")));
}
