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
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "gate.h"
#include "roster.h"
#include "session.h"
#include "turn.h"

#define RECORD_BATCH 500
#define ERROR_PAUSE_MS 1000

static void work(AlDispatcher *dispatcher, AlClaim *claim, List **recorded);
static void leave(AlDispatcher *dispatcher);
static List *record(AlDispatcher *dispatcher);
static void judge_one(AlDispatcher *dispatcher, AlEndedItem *item, const AlStanding *standing, TimestampTz now,
					  AlClosing *closings, int *n_closings, AlMove *moves, int *n_moves, AlEvent *events, int *n_events);
static void forget(AlDispatcher *dispatcher, List *recorded);
static void recover(AlDispatcher *dispatcher);
static int	compare_standings(const void *a, const void *b);

/* Runs a turn. */
void
al_turn_run(AlDispatcher *dispatcher)
{
	AlClaim		claim = {0};
	List	   *recorded = NIL;

	MemoryContextReset(dispatcher->turn_context);
	dispatcher->in_turn = true;
	PG_TRY();
	{
		work(dispatcher, &claim, &recorded);
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

	forget(dispatcher, recorded);
	if (claim.n > 0)
		(void) AL_FAULT_POINT("mark_committed");
	Assert(!IsTransactionState());
	Assert(MyProc->xmin == InvalidTransactionId);
	MemoryContextSwitchTo(dispatcher->turn_context);
	al_claim_send(dispatcher, &claim, claim.n > 0 && al_gate_is_open(XactLastCommitEnd));
	MemoryContextSwitchTo(TopMemoryContext);
	al_roster->workers[dispatcher->slot].last_turn = GetCurrentTimestamp();
}

/* Does the transaction of a turn. */
static void
work(AlDispatcher *dispatcher, AlClaim *claim, List **recorded)
{
	AlSession	session;

	StartTransactionCommand();
	al_session_begin(&session, false);
	MemoryContextSwitchTo(dispatcher->turn_context);
	al_registry_refresh();
	al_lanes_refresh(&dispatcher->lanes, dispatcher->index, dispatcher->count);
	*recorded = record(dispatcher);
	if (dispatcher->may_send && dispatcher->isolate == 0)
		al_claim_take(dispatcher, claim);
	al_session_end(&session);
	if (*recorded != NIL)
		AL_FAULT_ERROR("outcome_before_commit");
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	pgstat_report_stat(false);
}

/* Ends a turn; a cancellation that came too late for its transaction is void. */
static void
leave(AlDispatcher *dispatcher)
{
	dispatcher->in_turn = false;
	QueryCancelPending = false;
}

/* Cleans up after a failed turn, and isolates what may have caused it. */
static void
recover(AlDispatcher *dispatcher)
{
	MemoryContextSwitchTo(dispatcher->turn_context);
	EmitErrorReport();
	FlushErrorState();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(TopMemoryContext);
	if (dispatcher->isolate > 0 && !dlist_is_empty(&dispatcher->ended))
	{
		AlEndedItem *item = dlist_head_element(AlEndedItem, node, &dispatcher->ended);

		/* The next try keeps nothing of the answer but its status. */
		item->tries++;
		if (item->tries > 1)
		{
			dlist_delete(&item->node);
			dlist_push_tail(&dispatcher->ended, &item->node);
			dispatcher->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ERROR_PAUSE_MS);
		}
	}
	else if (dispatcher->n_ended > 0)
		dispatcher->isolate = dispatcher->n_ended;
	else
		dispatcher->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ERROR_PAUSE_MS);
}

/* Records what has ended; returns the items that are done with. */
static List *
record(AlDispatcher *dispatcher)
{
	int			most = dispatcher->isolate > 0 ? 1 : Min(dispatcher->n_ended, RECORD_BATCH);
	TimestampTz now = GetCurrentTimestamp();
	int64	   *ids = palloc(Max(most, 1) * sizeof(int64));
	AlEndedItem **items = palloc(Max(most, 1) * sizeof(AlEndedItem *));
	AlClosing  *closings = palloc(Max(most, 1) * sizeof(AlClosing));
	AlMove	   *moves = palloc(Max(most, 1) * sizeof(AlMove));
	AlEvent    *events = palloc(Max(most, 1) * sizeof(AlEvent));
	AlStanding *standings;
	int			n = 0;
	int			n_standings;
	int			n_closings = 0;
	int			n_moves = 0;
	int			n_events = 0;
	List	   *recorded = NIL;
	dlist_iter	iter;

	dlist_foreach(iter, &dispatcher->ended)
	{
		if (n >= most)
			break;
		items[n] = dlist_container(AlEndedItem, node, iter.cur);
		ids[n] = items[n]->ended.action_id;
		n++;
	}
	if (n == 0)
		return NIL;
	n_standings = al_ledger_lock(ids, n, &standings);
	qsort(standings, n_standings, sizeof(AlStanding), compare_standings);
	for (int i = 0; i < n; i++)
	{
		AlStanding	wanted = {.action_id = ids[i]};
		AlStanding *standing = bsearch(&wanted, standings, n_standings, sizeof(AlStanding), compare_standings);

		if (standing == NULL)	/* locked by somebody: the next turn tries again */
			continue;
		judge_one(dispatcher, items[i], standing, now, closings, &n_closings, moves, &n_moves, events, &n_events);
		recorded = lappend(recorded, items[i]);
	}
	al_ledger_close(closings, n_closings);
	AL_FAULT_ERROR("attempt_written");
	al_ledger_move(moves, n_moves, now);
	al_ledger_event(events, n_events, dispatcher->incarnation);
	return recorded;
}

/* Judges one ended attempt and adds it to what is to be written. */
static void
judge_one(AlDispatcher *dispatcher, AlEndedItem *item, const AlStanding *standing, TimestampTz now,
		  AlClosing *closings, int *n_closings, AlMove *moves, int *n_moves, AlEvent *events, int *n_events)
{
	AlTool	   *tool = al_registry_tool_guarded(item->ended.tool_id);
	AlJudgement judgement;

	if (tool == NULL)
		elog(ERROR, "action " INT64_FORMAT " belongs to a tool whose definition cannot be read", item->ended.action_id);
	al_judge(&item->ended, standing, tool, now, item->tries > 0, &judgement);
	closings[(*n_closings)++] = judgement.closing;
	if (judgement.moves)
		moves[(*n_moves)++] = judgement.move;
	if (judgement.has_event)
		events[(*n_events)++] = judgement.event;
	if (judgement.moves && judgement.move.next_at != DT_NOEND)
	{
		AlLane	   *lane = al_lanes_find(&dispatcher->lanes, standing->service_id);

		if (lane != NULL)
			lane->next_due = Min(lane->next_due, judgement.move.next_at);
	}
}

/* Drops what has been recorded from the queue, and tells who waits. */
static void
forget(AlDispatcher *dispatcher, List *recorded)
{
	ListCell   *cell;

	if (recorded == NIL)
		return;
	foreach(cell, recorded)
	{
		AlEndedItem *item = lfirst(cell);

		dlist_delete(&item->node);
		dispatcher->n_ended--;
		if (item->ended.result != NULL)
			al_wire_result_free(item->ended.result);
		pfree(item);
	}
	if (dispatcher->isolate > 0)
		dispatcher->isolate--;
	if (dispatcher->n_ended == 0)
		dispatcher->isolate = 0;
	dispatcher->ended_since = GetCurrentTimestamp();
	ConditionVariableBroadcast(&al_roster->outcome);
}

/* Takes what the wire has finished into the queue. */
void
al_turn_collect(AlDispatcher *dispatcher)
{
	AlWireResult *result;

	while ((result = al_wire_next(dispatcher->wire)) != NULL)
	{
		AlFlight   *flight = (AlFlight *) (uintptr_t) result->tag;
		AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

		item->ended.action_id = flight->action_id;
		item->ended.attempt = flight->attempt;
		item->ended.tool_id = flight->tool_id;
		item->ended.service_id = flight->lane->service_id;
		item->ended.finished_at = GetCurrentTimestamp();
		item->ended.evidence = result->evidence;
		item->ended.result = result;
		flight->lane->in_flight--;
		pfree(flight);
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = item->ended.finished_at;
		dlist_push_tail(&dispatcher->ended, &item->node);
	}
}

/* Queues an attempt that ended without the wire. */
void
al_turn_queue(AlDispatcher *dispatcher, const AlStanding *standing, int attempt, AlEnding ending)
{
	AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

	item->ended.action_id = standing->action_id;
	item->ended.attempt = attempt;
	item->ended.tool_id = standing->tool_id;
	item->ended.service_id = standing->service_id;
	item->ended.finished_at = GetCurrentTimestamp();
	item->ended.evidence.ending = ending;
	if (dispatcher->n_ended++ == 0)
		dispatcher->ended_since = item->ended.finished_at;
	dlist_push_tail(&dispatcher->ended, &item->node);
}

/* Orders standings by action. */
static int
compare_standings(const void *a, const void *b)
{
	int64		x = ((const AlStanding *) a)->action_id;
	int64		y = ((const AlStanding *) b)->action_id;

	return (x > y) - (x < y);
}
