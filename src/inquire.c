/*
 * inquire.c
 *		SQL functions with which applications ask what has become of an action.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
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

PG_FUNCTION_INFO_V1(al_result);
PG_FUNCTION_INFO_V1(al_result_by_identity);
PG_FUNCTION_INFO_V1(al_wait);

#define WAIT_MAX_S 60
#define WAIT_SLICE_MS 1000		/* a missed broadcast costs no more than this */

static AlStatement select_by_identity = {
	"SELECT a.action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) "
	"WHERE s.name = $1 AND a.identity = $2",
	2, {TEXTOID, TEXTOID}
};

static Jsonb *look(int64 action_id, AlSeen *seen);
static AL_NORETURN void raise_unknown(int64 action_id);
static void check_may_wait(const AlSeen *seen, int64 action_id);

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
						   text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1))),
				 errhint("See the view actionledger.actions for those that you may see.")));
	PG_RETURN_JSONB_P(envelope);
}

/* wait(action_id, timeout) */
Datum
al_wait(PG_FUNCTION_ARGS)
{
	int64		action_id = PG_GETARG_INT64(0);
	Interval   *timeout = PG_GETARG_INTERVAL_P(1);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now),
																IntervalPGetDatum(timeout)));
	int64		end = al_clock_elapsed() + Min(Max(until, now) - now, INT64CONST(1000000) * WAIT_MAX_S);
	AlSeen		seen;
	Jsonb	   *envelope = look(action_id, &seen);

	check_may_wait(&seen, action_id);
	if (al_roster == NULL)
		PG_RETURN_JSONB_P(envelope);
	ConditionVariablePrepareToSleep(&al_roster->outcome);
	for (;;)
	{
		long		left;

		envelope = look(action_id, &seen);
		left = (long) ((end - al_clock_elapsed() + 999) / 1000);
		if (seen.at_rest || left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&al_roster->outcome, Min(left, WAIT_SLICE_MS), PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	PG_RETURN_JSONB_P(envelope);
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
