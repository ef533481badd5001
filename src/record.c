/*
 * record.c
 *		How attempts ended, into the ledger: judged, moved, closed, a batch at a time.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "clock.h"
#include "record.h"

#define RECORD_BATCH 500

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

static void record_init(Record *record, AlDispatcher *dispatcher, int most);
static void read_particulars(Record *record);
static void record_quick(Record *record);
static void record_careful(Record *record);
static void drop_gone(Record *record, AlEndedItem **missing, int n);
static void bring_up_to_date(AlEndedItem *item);
static void judge_item(AlEndedItem *item, const AlStanding *standing, TimestampTz now, AlJudgement *judgement);
static void add_recorded(Record *record, AlEndedItem *item, const AlJudgement *judgement);
static int	compare_standings(const void *a, const void *b);

/* Records what has ended; returns the items that are done with, and in *busy those of locked actions. */
List *
al_record_run(AlDispatcher *dispatcher, List **busy)
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

/* Orders standings by action. */
static int
compare_standings(const void *a, const void *b)
{
	int64		x = ((const AlStanding *) a)->action_id;
	int64		y = ((const AlStanding *) b)->action_id;

	return (x > y) - (x < y);
}
