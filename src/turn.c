/*
 * turn.c
 *		record | claim → mark → commit → gate → send.
 *
 * The mark and the attempt rows are committed before the first byte leaves; no
 * transaction, snapshot or row lock is held after that.  A failed turn loses
 * nothing: what had ended is recorded again, what was claimed was never sent.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "clock.h"
#include "ended.h"
#include "gate.h"
#include "notice.h"
#include "rebase.h"
#include "record.h"
#include "roster.h"
#include "secrets.h"
#include "session.h"
#include "turn.h"
#include "visible.h"

#define ERROR_PAUSE_MS 1000
#define RELEASE_PAGE 1000

static pg_noinline void work(AlDispatcher *dispatcher, AlClaim *claim, List **recorded, List **busy);
static void leave(AlDispatcher *dispatcher);
static void release(AlDispatcher *dispatcher);
static void recover(AlDispatcher *dispatcher);

/* Runs a turn. */
void
al_turn_run(AlDispatcher *dispatcher)
{
	AlClaim		claim = {0};
	List	   *recorded = NIL;
	List	   *busy = NIL;

	MemoryContextReset(dispatcher->turn_context);
	if (al_clock_has_jumped() && !al_turn_set_clock(dispatcher))
		return;
	dispatcher->in_turn = true;
	PG_TRY();
	{
		work(dispatcher, &claim, &recorded, &busy);
	}
	PG_CATCH();
	{
		recover(dispatcher);
		al_claim_undo(dispatcher, &claim);
		leave(dispatcher);
		return;
	}
	PG_END_TRY();
	leave(dispatcher);

	if (dispatcher->claiming)
		al_suspect_cleared(&dispatcher->suspect, claim.n > 0);
	al_ended_forget(dispatcher, recorded);
	al_ended_set_aside(dispatcher, busy);
	if (claim.n > 0)
		(void) AL_FAULT_POINT("mark_committed");
	if (IsTransactionState() || TransactionIdIsValid(MyProc->xmin))
		elog(FATAL, "a transaction or snapshot would be held while waiting on the network");
	MemoryContextSwitchTo(dispatcher->turn_context);
	al_claim_send(dispatcher, &claim, claim.n > 0 && !ShutdownRequestPending && al_gate_is_open(XactLastCommitEnd));
	MemoryContextSwitchTo(TopMemoryContext);
	al_roster->workers[dispatcher->slot].last_turn = GetCurrentTimestamp();
	pgstat_report_stat(false);
}

/* Has stored times, and those kept here, follow the clock. */
bool
al_turn_set_clock(AlDispatcher *dispatcher)
{
	int64		before = al_clock_shifted();
	int64		shift;
	bool		done;

	if (al_clock_elapsed() < dispatcher->clock_retry_at)
		return false;
	dispatcher->in_turn = true;
	done = al_rebase_run(dispatcher->ledger);
	leave(dispatcher);
	if (!done)
	{
		dispatcher->clock_retry_at = al_clock_elapsed() + INT64CONST(1000) * ERROR_PAUSE_MS;
		return false;
	}
	shift = al_clock_shifted() - before;
	dispatcher->retry_at += shift;
	dispatcher->busy_until += shift;
	dispatcher->ended_since += shift;
	if (dispatcher->orphans_at != 0 && !TIMESTAMP_NOT_FINITE(dispatcher->orphans_at))
		dispatcher->orphans_at += shift;
	al_lanes_shift(&dispatcher->lanes, shift);
	pg_atomic_write_u64(&al_roster->workers[dispatcher->slot].clock_offset, (uint64) al_clock_offset());
	return true;
}

/* Does the transaction of a turn. */
static void
work(AlDispatcher *dispatcher, AlClaim *claim, List **recorded, List **busy)
{
	AlSession	session;

	dispatcher->claiming = false;
	StartTransactionCommand();
	if (!al_ledger_hold(dispatcher->ledger))
	{
		dispatcher->gone = true;
		CommitTransactionCommand();
		MemoryContextSwitchTo(TopMemoryContext);
		return;
	}
	if (!al_rebase_keep_off())
	{
		CommitTransactionCommand();
		MemoryContextSwitchTo(TopMemoryContext);
		return;
	}
	(void) al_ledger_take_outcomes();
	al_session_begin(&session, false);
	MemoryContextSwitchTo(dispatcher->turn_context);
	al_registry_refresh();
	al_secrets_begin_turn();
	al_lanes_refresh(&dispatcher->lanes, dispatcher->index, dispatcher->count);
	*recorded = al_record_run(dispatcher, busy);
	if (dispatcher->lanes.release)
		release(dispatcher);
	/* What is tried one by one is tried alone, so that it keeps nothing from being recorded. */
	if (dispatcher->may_send && dispatcher->isolate == 0 && !ShutdownRequestPending &&
		(dispatcher->suspect.singly == 0 || *recorded == NIL))
	{
		dispatcher->claiming = true;
		al_claim_take(dispatcher, claim);
	}
	al_session_end(&session);
	if (*recorded != NIL)
		AL_FAULT_ERROR("outcome_before_commit");
	al_turn_commit(dispatcher);
	al_notice_add(al_ledger_take_outcomes());
}

/* Puts back what lifted pauses have held, a page in each turn. */
static void
release(AlDispatcher *dispatcher)
{
	AlLanes    *lanes = &dispatcher->lanes;
	AlReleased	released = al_ledger_release(dispatcher->index, dispatcher->count, RELEASE_PAGE, &lanes->release_after);

	lanes->release_again = lanes->release_again || released.locked > 0;
	lanes->release = released.looked_at == RELEASE_PAGE;
	if (released.released > 0 || lanes->release)
		al_lanes_rescan(lanes);
}

/* Commits. */
void
al_turn_commit(AlDispatcher *dispatcher)
{
	dispatcher->in_commit = true;
	if (ShutdownRequestPending && synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	CommitTransactionCommand();
	dispatcher->in_commit = false;
	if (ShutdownRequestPending)
		ProcDiePending = false; /* it was meant for the wait */
	MemoryContextSwitchTo(TopMemoryContext);
}

/* Ends a turn; a cancellation that came too late for its transaction is void. */
static void
leave(AlDispatcher *dispatcher)
{
	dispatcher->in_turn = false;
	dispatcher->in_commit = false;
	if (ShutdownRequestPending)
		ProcDiePending = false;
	QueryCancelPending = false;
}

/* Cleans up after a failed turn, and isolates what may have caused it. */
static void
recover(AlDispatcher *dispatcher)
{
	ErrorData  *error;

	MemoryContextSwitchTo(dispatcher->turn_context);
	error = al_visible_report();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(TopMemoryContext);
	if (dispatcher->claiming)
	{
		if (al_suspect_failed(&dispatcher->suspect, error))
			dispatcher->retry_at = TimestampTzPlusMilliseconds(al_clock_now(), ERROR_PAUSE_MS);
	}
	else if (al_ended_isolate(dispatcher))
		dispatcher->retry_at = TimestampTzPlusMilliseconds(al_clock_now(), ERROR_PAUSE_MS);
}
