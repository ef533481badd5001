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
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "clock.h"
#include "gate.h"
#include "notice.h"
#include "rebase.h"
#include "roster.h"
#include "secrets.h"
#include "session.h"
#include "turn.h"
#include "visible.h"

#define RECORD_BATCH 500
#define ERROR_PAUSE_MS 1000
#define BUSY_PAUSE_MS 100
#define RELEASE_PAGE 1000
#define RECORD_TRIES 3
#define STUCK_PAUSE_MS 10000

/* A batch of ended attempts on its way into the ledger. */
typedef struct Record
{
	AlDispatcher *dispatcher;
	TimestampTz now;
	AlEndedItem **quick;
	int			n_quick;
	AlEndedItem **careful;
	int			n_careful;
	AlClosing  *closings;
	int			n_closings;
	AlEvent    *events;
	int			n_events;
	List	   *recorded;
	List	   *busy;			/* somebody has locked their actions */
} Record;

static pg_noinline void work(AlDispatcher *dispatcher, AlClaim *claim, List **recorded, List **busy);
static void leave(AlDispatcher *dispatcher);
static void release(AlDispatcher *dispatcher);
static List *record(AlDispatcher *dispatcher, List **busy);
static void record_init(Record *record, AlDispatcher *dispatcher, int most);
static void read_particulars(Record *record);
static void record_quick(Record *record);
static void record_careful(Record *record);
static void bring_up_to_date(AlEndedItem *item);
static void judge_item(AlEndedItem *item, const AlStanding *standing, TimestampTz now, AlJudgement *judgement);
static void add_recorded(Record *record, AlEndedItem *item, const AlJudgement *judgement);
static void forget(AlDispatcher *dispatcher, List *recorded);
static void set_aside(AlDispatcher *dispatcher, List *busy);
static void take_back(AlDispatcher *dispatcher);
static void take_back_stuck(AlDispatcher *dispatcher);
static void drop_gone(Record *record, AlEndedItem **missing, int n);
static void count_isolated(AlDispatcher *dispatcher);
static void recover(AlDispatcher *dispatcher);
static int	compare_standings(const void *a, const void *b);

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
	forget(dispatcher, recorded);
	set_aside(dispatcher, busy);
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
	*recorded = record(dispatcher, busy);
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
	else if (dispatcher->isolate > 0 && !dlist_is_empty(&dispatcher->ended))
	{
		AlEndedItem *item = dlist_head_element(AlEndedItem, node, &dispatcher->ended);

		/* The next try keeps nothing of the answer but its status. */
		item->tries++;
		if (item->tries > RECORD_TRIES)
		{
			/* The others go on; attention shows this one. */
			dlist_delete(&item->node);
			dispatcher->n_ended--;
			dlist_push_tail(&dispatcher->stuck, &item->node);
			dispatcher->n_stuck++;
			dispatcher->stuck_until = TimestampTzPlusMilliseconds(al_clock_now(), STUCK_PAUSE_MS);
			count_isolated(dispatcher);
		}
		else if (item->tries > 1)
		{
			dlist_delete(&item->node);
			dlist_push_tail(&dispatcher->ended, &item->node);
			dispatcher->retry_at = TimestampTzPlusMilliseconds(al_clock_now(), ERROR_PAUSE_MS);
		}
	}
	else if (dispatcher->n_ended > 0)
		dispatcher->isolate = dispatcher->n_ended;
	else
		dispatcher->retry_at = TimestampTzPlusMilliseconds(al_clock_now(), ERROR_PAUSE_MS);
}

/* Records what has ended; returns the items that are done with, and in *busy those of locked actions. */
static List *
record(AlDispatcher *dispatcher, List **busy)
{
	int			most = dispatcher->isolate > 0 ? 1 : Min(dispatcher->n_ended, RECORD_BATCH);
	Record		record;
	dlist_iter	iter;
	int			n = 0;

	if (most == 0)
		return NIL;
	record_init(&record, dispatcher, most);
	dlist_foreach(iter, &dispatcher->ended)
	{
		AlEndedItem *item = dlist_container(AlEndedItem, node, iter.cur);

		if (n++ >= most)
			break;
		if (dispatcher->isolate > 0 || item->careful || item->ended.standing.action_id == 0)
			record.careful[record.n_careful++] = item;
		else
			record.quick[record.n_quick++] = item;
	}
	read_particulars(&record);
	record_quick(&record);
	record_careful(&record);
	al_ledger_close(record.closings, record.n_closings);
	AL_FAULT_ERROR("attempt_written");
	al_ledger_event(record.events, record.n_events, dispatcher->incarnation);
	*busy = record.busy;
	return record.recorded;
}

/* Makes room for a batch. */
static void
record_init(Record *record, AlDispatcher *dispatcher, int most)
{
	memset(record, 0, sizeof(*record));
	record->dispatcher = dispatcher;
	record->now = al_clock_now();
	record->quick = palloc(most * sizeof(AlEndedItem *));
	record->careful = palloc(most * sizeof(AlEndedItem *));
	record->closings = palloc(most * sizeof(AlClosing));
	record->events = palloc(most * sizeof(AlEvent));
}

/* Reads what the answers to lookups are compared with, when there are any. */
static void
read_particulars(Record *record)
{
	int			n = record->n_quick + record->n_careful;
	AlEndedItem **lookups = palloc(n * sizeof(AlEndedItem *));
	int64	   *ids = palloc(n * sizeof(int64));
	AlParticulars *particulars;
	int			n_lookups = 0;
	int			found;
	int			next = 0;

	for (int i = 0; i < n; i++)
	{
		AlEndedItem *item = i < record->n_quick ? record->quick[i] : record->careful[i - record->n_quick];

		item->ended.particulars = NULL;
		item->ended.started_at += al_clock_shifted() - item->started_clock;
		item->started_clock = al_clock_shifted();
		if (!item->ended.lookup || item->ended.result == NULL)
			continue;
		lookups[n_lookups] = item;
		ids[n_lookups++] = item->ended.action_id;
	}
	if (n_lookups == 0)
		return;
	found = al_ledger_particulars(ids, n_lookups, &particulars);
	for (int i = 0; i < n_lookups && next < found; i++)
	{
		if (particulars[next].action_id == ids[i])
			lookups[i]->ended.particulars = &particulars[next++];
	}
}

/*
 * Records attempts of actions that are as this dispatcher left them: judged
 * from memory, moved by a statement that finds out if that is not so.
 */
static void
record_quick(Record *record)
{
	int			n = record->n_quick;
	AlJudgement *judgements = palloc(Max(n, 1) * sizeof(AlJudgement));
	AlMove	   *moves = palloc(Max(n, 1) * sizeof(AlMove));
	bool	   *done = palloc(Max(n, 1) * sizeof(bool));

	for (int i = 0; i < n; i++)
	{
		bring_up_to_date(record->quick[i]);
		judge_item(record->quick[i], &record->quick[i]->ended.standing, record->now, &judgements[i]);
		moves[i] = judgements[i].move;
	}
	al_ledger_move_claimed(moves, n, record->now, record->dispatcher->incarnation, done);
	for (int i = 0; i < n; i++)
	{
		if (done[i])
			add_recorded(record, record->quick[i], &judgements[i]);
		else
			record->careful[record->n_careful++] = record->quick[i];
	}
}

/* Records attempts of actions that somebody else may have touched: lock and read first. */
static void
record_careful(Record *record)
{
	int			n = record->n_careful;
	int64	   *ids = palloc(Max(n, 1) * sizeof(int64));
	AlMove	   *moves = palloc(Max(n, 1) * sizeof(AlMove));
	AlEndedItem **missing = palloc(Max(n, 1) * sizeof(AlEndedItem *));
	AlStanding *standings;
	int			n_standings;
	int			n_moves = 0;
	int			n_missing = 0;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
		ids[i] = record->careful[i]->ended.action_id;
	n_standings = al_ledger_lock(ids, n, &standings);
	qsort(standings, n_standings, sizeof(AlStanding), compare_standings);
	for (int i = 0; i < n; i++)
	{
		AlEndedItem *item = record->careful[i];
		AlStanding	wanted = {.action_id = ids[i]};
		AlStanding *standing = bsearch(&wanted, standings, n_standings, sizeof(AlStanding), compare_standings);
		AlJudgement judgement;

		item->careful = true;
		if (standing == NULL)
		{
			missing[n_missing++] = item;
			continue;
		}
		judge_item(item, standing, record->now, &judgement);
		if (judgement.moves)
			moves[n_moves++] = judgement.move;
		add_recorded(record, item, &judgement);
	}
	al_ledger_move(moves, n_moves, record->now);
	if (n_missing > 0)
		drop_gone(record, missing, n_missing);
}

/* Sets aside what somebody has locked, and gives up what somebody has deleted. */
static void
drop_gone(Record *record, AlEndedItem **missing, int n)
{
	int64	   *ids = palloc(n * sizeof(int64));
	bool	   *gone = palloc(n * sizeof(bool));

	for (int i = 0; i < n; i++)
		ids[i] = missing[i]->ended.action_id;
	al_ledger_missing(ids, n, gone);
	for (int i = 0; i < n; i++)
	{
		if (!gone[i])
		{
			record->busy = lappend(record->busy, missing[i]);
			continue;
		}
		record->recorded = lappend(record->recorded, missing[i]);
		ereport(LOG,
				(errmsg("actionledger: action " INT64_FORMAT " is gone; how its attempt %d ended is recorded nowhere",
						missing[i]->ended.action_id, missing[i]->ended.attempt)));
	}
}

/* Has the times that are kept of an action follow the clock. */
static void
bring_up_to_date(AlEndedItem *item)
{
	AlStanding *standing = &item->ended.standing;
	int64		shift = al_clock_shifted() - item->clock;

	if (standing->last_sent_at != 0)
		standing->last_sent_at += shift;
	if (standing->lookup_ends_at != 0)
		standing->lookup_ends_at += shift;
	if (standing->doubted_at != 0)
		standing->doubted_at += shift;
	if (standing->window_ends_at != 0)
		standing->window_ends_at += shift;
	if (standing->key_ends_at != 0)
		standing->key_ends_at += shift;
	if (standing->expires_at != 0 && standing->expiry_moves)
		standing->expires_at += shift;
	item->clock += shift;
}

/* Judges one ended attempt. */
static void
judge_item(AlEndedItem *item, const AlStanding *standing, TimestampTz now, AlJudgement *judgement)
{
	AlTool	   *tool = al_registry_tool_guarded(item->ended.tool_id);

	if (tool == NULL)
		tool = al_registry_cautious_tool();
	if (item->ended.lookup)
		al_judge_lookup(&item->ended, standing, tool, now, item->tries > 0, judgement);
	else
		al_judge(&item->ended, standing, tool, now, item->tries > 0, judgement);
}

/* Adds a judged attempt to what is to be written. */
static void
add_recorded(Record *record, AlEndedItem *item, const AlJudgement *judgement)
{
	record->closings[record->n_closings++] = judgement->closing;
	if (judgement->has_event)
		record->events[record->n_events++] = judgement->event;
	record->recorded = lappend(record->recorded, item);
	if (judgement->moves && judgement->move.next_at != DT_NOEND)
	{
		AlLane	   *lane = al_lanes_find(&record->dispatcher->lanes, item->ended.service_id);

		if (lane != NULL)
			al_lane_expect(lane, judgement->move.next_at);
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
	count_isolated(dispatcher);
	ConditionVariableBroadcast(&al_roster->outcome);
}

/* Puts aside for a while what cannot be recorded now, so that it holds up nothing else. */
static void
set_aside(AlDispatcher *dispatcher, List *busy)
{
	ListCell   *cell;

	if (busy == NIL)
		return;
	foreach(cell, busy)
	{
		AlEndedItem *item = lfirst(cell);

		dlist_delete(&item->node);
		dispatcher->n_ended--;
		dlist_push_tail(&dispatcher->busy, &item->node);
		dispatcher->n_busy++;
	}
	count_isolated(dispatcher);
	dispatcher->busy_until = TimestampTzPlusMilliseconds(al_clock_now(), BUSY_PAUSE_MS);
}

/* Puts what was set aside into the queue again. */
static void
take_back(AlDispatcher *dispatcher)
{
	while (!dlist_is_empty(&dispatcher->busy))
	{
		dlist_push_tail(&dispatcher->ended, dlist_pop_head_node(&dispatcher->busy));
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = al_clock_now();
	}
	dispatcher->n_busy = 0;
}

/* Puts what could not be recorded into the queue again, to be tried one by one. */
static void
take_back_stuck(AlDispatcher *dispatcher)
{
	while (!dlist_is_empty(&dispatcher->stuck))
	{
		dlist_push_tail(&dispatcher->ended, dlist_pop_head_node(&dispatcher->stuck));
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = al_clock_now();
	}
	dispatcher->n_stuck = 0;
	dispatcher->isolate = dispatcher->n_ended;
}

/* Counts a turn that has taken something off the queue. */
static void
count_isolated(AlDispatcher *dispatcher)
{
	if (dispatcher->isolate > 0)
		dispatcher->isolate--;
	if (dispatcher->n_ended == 0)
		dispatcher->isolate = 0;
	dispatcher->ended_since = al_clock_now();
}

/* Takes what the wire has finished into the queue, and back what was busy long enough. */
void
al_turn_collect(AlDispatcher *dispatcher)
{
	AlWireResult *result;

	if (dispatcher->n_busy > 0 && al_clock_now() >= dispatcher->busy_until)
		take_back(dispatcher);
	if (dispatcher->n_stuck > 0 && al_clock_now() >= dispatcher->stuck_until)
		take_back_stuck(dispatcher);
	while ((result = al_wire_next(dispatcher->wire)) != NULL)
	{
		AlFlight   *flight = (AlFlight *) (uintptr_t) result->tag;
		AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

		item->ended.standing = flight->standing;
		item->clock = item->started_clock = flight->clock;
		if (flight->standing.key_place != NULL)
		{
			memcpy(item->key_place, flight->key_place, sizeof(item->key_place));
			item->ended.standing.key_place = item->key_place;
		}
		item->ended.action_id = flight->standing.action_id;
		item->ended.attempt = flight->standing.attempts;
		item->ended.lookup = flight->lookup;
		item->ended.started_at = flight->started_at;
		item->ended.elsewhere = flight->elsewhere;
		item->ended.digest = flight->digest;
		if (flight->lookup)
			(void) AL_FAULT_POINT("lookup_answered");
		item->ended.tool_id = flight->standing.tool_id;
		item->ended.service_id = flight->lane->service_id;
		item->ended.finished_at = al_clock_now();
		item->ended.evidence = result->evidence;
		item->ended.result = result;
		al_lane_end(flight->lane, &result->evidence, flight->probe);
		pfree(flight);
		if (dispatcher->n_ended++ == 0)
			dispatcher->ended_since = item->ended.finished_at;
		dlist_push_tail(&dispatcher->ended, &item->node);
	}
}

/* Queues an attempt that ended without the wire. */
void
al_turn_queue(AlDispatcher *dispatcher, const AlStanding *standing, int attempt, bool lookup, AlEnding ending)
{
	AlEndedItem *item = MemoryContextAllocZero(TopMemoryContext, sizeof(AlEndedItem));

	item->ended.action_id = standing->action_id;
	item->ended.attempt = attempt;
	item->ended.lookup = lookup;
	item->ended.tool_id = standing->tool_id;
	item->ended.service_id = standing->service_id;
	item->ended.finished_at = al_clock_now();
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
