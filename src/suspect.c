/*
 * suspect.c
 *		Which action it is that cannot be claimed, and how it is put away.
 *
 * What is wrong with the server (no space, no memory, somebody's lock, a
 * cancellation) is nobody's fault among the actions: it is waited for.
 */
#include "postgres.h"

#include "utils/elog.h"
#include "utils/errcodes.h"

#include "suspect.h"

#define SINGLY 1000				/* claims one by one, when none of them turns out to be it */
#define TRIES 2
#define SCARCE_TRIES 30			/* when it may be the server's memory or space, or this action's need of it */
#define PARK_TRIES 2

static bool is_passing(int sqlstate);
static bool is_scarce(int sqlstate);

/* Chooses what is claimed singly. */
bool
al_suspect_choose(AlSuspect *suspect, AlLot *lots, int n, TimestampTz now)
{
	suspect->action_id = al_ledger_peek(lots, n, now, &lots[0]);
	if (suspect->action_id == 0)
		suspect->singly = 0;
	return suspect->action_id != 0;
}

/* Puts away what has failed often enough. */
bool
al_suspect_put_away(AlSuspect *suspect, int64 incarnation)
{
	if (suspect->failed_id == 0 || suspect->tries < TRIES)
		return false;
	suspect->parked = true;
	if (suspect->park_tries < PARK_TRIES)
		al_ledger_block(suspect->failed_id, "claim_failed",
						psprintf("it could not be claimed: %s; see the server log, mend the cause, then retry", suspect->error), incarnation);
	else
		al_ledger_park_for_good(suspect->failed_id);
	ereport(LOG,
			(errmsg("actionledger: action " INT64_FORMAT " is put away, because it cannot be claimed: %s", suspect->failed_id, suspect->error)));
	return true;
}

/* Takes note of a turn that was committed. */
void
al_suspect_cleared(AlSuspect *suspect, bool claimed)
{
	if (suspect->parked)
		memset(suspect, 0, sizeof(*suspect));
	else if (suspect->singly > 0 && claimed)
	{
		suspect->singly--;
		if (suspect->action_id == suspect->failed_id)
			suspect->failed_id = suspect->tries = 0;
	}
}

/* Takes note of a turn that has failed. */
bool
al_suspect_failed(AlSuspect *suspect, const ErrorData *error)
{
	if (suspect->parked)
	{
		suspect->parked = false;
		suspect->park_tries++;
		return true;
	}
	if (suspect->singly == 0)
	{
		suspect->singly = SINGLY;
		suspect->action_id = 0;
		return false;
	}
	if (suspect->action_id == 0 || is_passing(error->sqlerrcode))
		return true;
	if (suspect->action_id != suspect->failed_id)
		suspect->tries = 0;
	suspect->failed_id = suspect->action_id;
	strlcpy(suspect->error, error->message ? error->message : "", sizeof(suspect->error));
	if (is_scarce(error->sqlerrcode) && ++suspect->park_tries < SCARCE_TRIES)
		return true;
	suspect->park_tries = 0;
	suspect->tries++;
	return suspect->tries < TRIES;
}

/* Tells whether an error passes by itself, or when somebody else lets go. */
static bool
is_passing(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_TRANSACTION_ROLLBACK):
		case ERRCODE_TO_CATEGORY(ERRCODE_INVALID_TRANSACTION_STATE):
		case ERRCODE_TO_CATEGORY(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE):
			return true;
	}
	return false;
}

/* Tells whether an error speaks of memory or space. */
static bool
is_scarce(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR);
}
