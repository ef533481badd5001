/*
 * sweep.c
 *		What is settled by looking at the clock and at who is alive.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "batch.h"
#include "clock.h"
#include "fence.h"
#include "incarnation.h"
#include "ledger.h"
#include "notice.h"
#include "rebase.h"
#include "roster.h"
#include "session.h"
#include "sweep.h"
#include "wakeup.h"
#include "words.h"

#define PAGE 1000
#define HANDOVER_MS 10000		/* for others to notice that what they claim is ours by now */

PG_FUNCTION_INFO_V1(al_reconcile);

/* A page in the order of numbers, and which of it may have to be settled. */
#define DUE_PAGE(which) \
	"SELECT p.action_id, p.service_id % $5 = $4 AND p.next_at <= $2 AND a.instance = $3 AND (a.claimed_by < 0 OR " \
	"  (a.claimed_by IS NULL AND (a.next_step IN ('wait', 'approve') OR (a.next_step IN ('send', 'resend') AND " \
	"   (a.expires_at <= $2 OR a.window_ends_at <= $2 OR (a.next_step = 'resend' AND a.key_ends_at <= $2)))))) " \
	"FROM (SELECT d.action_id, d.service_id, d.next_at FROM actionledger.due d WHERE " which "d.action_id > $1 ORDER BY d.action_id LIMIT " CppAsString2(PAGE) ") p " \
	"JOIN actionledger.action a USING (action_id) ORDER BY p.action_id"
static AlStatement external_page = {
	DUE_PAGE("d.external AND "), 5, {INT8OID, TIMESTAMPTZOID, INT8OID, INT4OID, INT4OID}
};
static AlStatement whole_page = {
	DUE_PAGE(""), 5, {INT8OID, TIMESTAMPTZOID, INT8OID, INT4OID, INT4OID}
};
static AlStatement still_due = {
	"SELECT d.action_id, d.next_at FROM unnest($1::bigint[]) AS u(action_id) JOIN actionledger.due d ON d.action_id = u.action_id "
	"WHERE d.next_at <= $2 ORDER BY 1",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

/* When an action is due. */
typedef struct Due
{
	int64		action_id;
	TimestampTz next_at;
} Due;

/* What is written at the end of a sweep. */
typedef struct Settled
{
	AlMove	   *moves;
	int			n_moves;
	AlClosing  *closings;
	int			n_closings;
	AlEvent    *events;
	int			n_events;
} Settled;

static int64 *list_page(AlSweep *sweep, TimestampTz now, int *n);
static Due *list_still_due(const int64 *ids, int n, TimestampTz now, int *n_due);
static void settle_due(AlSweep *sweep, const AlStanding *standing, const AlTool *tool, TimestampTz now, Settled *settled);
static void end_lease(const AlStanding *standing, const AlTool *tool, TimestampTz now, AlJudgement *out);
static void end_left_lease(const AlStanding *standing, TimestampTz now, Settled *settled);
static void end_orphan(const AlStanding *standing, bool lookup, TimestampTz now, Settled *settled);
static Settled settled_create(int most);
static void settled_add(Settled *settled, const AlJudgement *judgement);
static void settled_write(const Settled *settled, const AlSweep *sweep, TimestampTz now);
static bool dispatcher_sends(void);
static int	compare_due(const void *a, const void *b);
static int	compare_standings(const void *a, const void *b);

/* Settles what others have left. */
void
al_sweep_look(AlDispatcher *dispatcher)
{
	AlSweep		sweep = {
		.incarnation = dispatcher->incarnation, .index = dispatcher->index, .count = dispatcher->count, .after = dispatcher->swept
	};
	bool		orphans = al_clock_now() >= dispatcher->orphans_at;
	bool		left = false;
	AlSession	session;

	StartTransactionCommand();
	if (!al_ledger_hold(dispatcher->ledger) || !al_rebase_keep_off())
	{
		CommitTransactionCommand();
		return;
	}
	(void) al_ledger_take_outcomes();
	al_session_begin(&session, false);
	al_registry_refresh();
	if (orphans)
		left = al_sweep_orphans(&sweep);
	al_sweep_due(&sweep);
	al_session_end(&session);
	al_turn_commit(dispatcher);

	al_notice_add(al_ledger_take_outcomes());
	dispatcher->swept = sweep.after;
	if (orphans)
		dispatcher->orphans_at = left ? al_clock_now()
			: dispatcher->orphans_at == 0 ? TimestampTzPlusMilliseconds(al_clock_now(), HANDOVER_MS) : DT_NOEND;
	if (sweep.n[AL_SWEPT_ORPHANED] > 0)
		ereport(LOG,
				(errmsg("actionledger: %d attempts of an earlier dispatcher have no recorded outcome", sweep.n[AL_SWEPT_ORPHANED])));
	ConditionVariableBroadcast(&al_roster->outcome);
}

/* Judges the attempts of dead incarnations. */
bool
al_sweep_orphans(AlSweep *sweep)
{
	TimestampTz now = al_clock_now();
	AlStanding *seen;
	bool	   *lookups;
	AlStanding *standings;
	int			n_seen = al_ledger_claimed(sweep->incarnation, sweep->index, sweep->count, &seen, &lookups);
	int64	   *ids = palloc(Max(n_seen, 1) * sizeof(int64));
	AlStanding *left;
	bool	   *left_lookups;
	int			n_left = al_ledger_left_open(sweep->incarnation, sweep->index, sweep->count, &left, &left_lookups);
	Settled		settled = settled_create(n_seen + n_left);
	bool		others = false;
	bool		alive = false;
	int64		asked = 0;
	int			n_dead = 0;
	int			n;

	for (int i = 0; i < n_seen; i++)
	{
		if (seen[i].claimed_by != asked)
			alive = al_incarnation_is_alive(seen[i].claimed_by);
		asked = seen[i].claimed_by;
		if (alive)
			others = true;
		else
			ids[n_dead++] = seen[i].action_id;
	}
	n = n_dead > 0 ? al_ledger_lock(ids, n_dead, &standings) : 0;
	for (int i = 0; i < n; i++)
	{
		const AlStanding *was = bsearch(&standings[i], seen, n_seen, sizeof(AlStanding), compare_standings);

		/* Somebody else may have settled it, and a dispatcher have it by now. */
		if (standings[i].claimed_by != was->claimed_by || standings[i].attempts != was->attempts)
			continue;
		end_orphan(&standings[i], lookups[was - seen], now, &settled);
		sweep->n[AL_SWEPT_ORPHANED]++;
	}
	/* What people have decided while it was under way stays as it is; its attempts are closed. */
	for (int i = 0; i < n_left; i++)
	{
		if (left[i].claimed_by < 0)
			end_left_lease(&left[i], now, &settled);
		else if (al_incarnation_is_alive(left[i].claimed_by))
			others = true;
		else
			end_orphan(&left[i], left_lookups[i], now, &settled);
	}
	settled_write(&settled, sweep, now);
	return others || n < n_dead;
}

/* Settles a page of due actions. */
void
al_sweep_due(AlSweep *sweep)
{
	TimestampTz now = al_clock_now();
	AlStanding *standings;
	AlSpan	   *spans;
	Settled		settled;
	Due		   *due;
	int64	   *ids;
	int			n_ids;
	int			n_due;
	int			n_spans;
	int			n;

	ids = list_page(sweep, now, &n_ids);
	if (n_ids == 0)
		return;
	n = al_ledger_lock(ids, n_ids, &standings);
	due = list_still_due(ids, n_ids, now, &n_due);
	n_spans = al_ledger_spans(&spans);
	settled = settled_create(n);
	for (int i = 0; i < n; i++)
	{
		Due			wanted = {.action_id = standings[i].action_id};
		Due		   *found = bsearch(&wanted, due, n_due, sizeof(Due), compare_due);
		AlTool	   *tool = al_registry_tool_guarded(standings[i].tool_id);

		if (found == NULL)
			continue;
		if (tool != NULL && standings[i].claimed_by == 0)
			al_sweep_give_back(&standings[i], tool, spans, n_spans, found->next_at, now);
		settle_due(sweep, &standings[i], tool, now, &settled);
	}
	settled_write(&settled, sweep, now);
}

/* Lists what may have to be settled in the next page, and moves on behind it. */
static int64 *
list_page(AlSweep *sweep, TimestampTz now, int *n)
{
	Datum		values[5] = {
		Int64GetDatum(sweep->after), TimestampTzGetDatum(now), Int64GetDatum(al_fence_instance()),
		Int32GetDatum(sweep->index), Int32GetDatum(sweep->count)
	};
	uint64		rows = al_statement_run(sweep->everything ? &whole_page : &external_page, values, NULL);
	int64	   *ids = palloc(Max(rows, 1) * sizeof(int64));

	*n = 0;
	for (uint64 row = 0; row < rows; row++)
	{
		if (al_column_bool(row, 2))
			ids[(*n)++] = al_column_int8(row, 1);
	}
	sweep->after = rows < PAGE ? 0 : al_column_int8(rows - 1, 1);
	return ids;
}

/* Lists which actions, locked by now, are still due: a heartbeat may have come in between. */
static Due *
list_still_due(const int64 *ids, int n, TimestampTz now, int *n_due)
{
	Datum		values[2] = {al_array_of_numbers(ids, n), TimestampTzGetDatum(now)};
	Due		   *due;

	*n_due = (int) al_statement_run(&still_due, values, NULL);
	due = palloc(Max(*n_due, 1) * sizeof(Due));
	for (int i = 0; i < *n_due; i++)
	{
		due[i].action_id = al_column_int8(i, 1);
		due[i].next_at = al_column_int8(i, 2);
	}
	return due;
}

/* Settles one due action, which is locked. */
static void
settle_due(AlSweep *sweep, const AlStanding *standing, const AlTool *tool, TimestampTz now, Settled *settled)
{
	AlJudgement judgement;
	const char *code;

	memset(&judgement, 0, sizeof(judgement));
	if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED || standing->claimed_by > 0)
		return;
	if (standing->claimed_by < 0)
	{
		end_lease(standing, tool ? tool : al_registry_cautious_tool(), now, &judgement);
		sweep->n[AL_SWEPT_LEASES]++;
	}
	else if (tool == NULL || !al_sweep_move_on(standing, tool, now, &judgement))
		return;
	else
	{
		code = judgement.move.error_code ? judgement.move.error_code : "";
		sweep->n[strcmp(code, "expired") == 0 ? AL_SWEPT_EXPIRED : strcmp(code, "approval_expired") == 0 ? AL_SWEPT_UNAPPROVED
				 : AL_SWEPT_ENDED]++;
	}
	settled_add(settled, &judgement);
}

/* Closes an executor's attempt of which nobody knows how it ended. */
static void
end_lease(const AlStanding *standing, const AlTool *tool, TimestampTz now, AlJudgement *out)
{
	AlOutcome	outcome = {.verdict = AL_VERDICT_UNKNOWN, .category = "lease_expired"};
	AlEvidence	evidence = {.ending = AL_END_WORKER_LOST};
	AlDecision	decision;

	out->closing = (AlClosing)
	{
		.action_id = standing->action_id,
		.attempt = standing->attempts,
		.finished_at = now,
		.verdict = outcome.verdict,
		.category = outcome.category,
		.sent = true,
		.retry_after_s = -1
	};
	decision = al_judge_outcome(standing, tool, &outcome, false, -1, now, out);
	if (out->moves)
		out->move.error_message = al_words_outcome(&decision, &outcome, &evidence, tool, standing->sends);
}

/* Closes the attempt of an executor that was not heard of after others had decided. */
static void
end_left_lease(const AlStanding *standing, TimestampTz now, Settled *settled)
{
	AlTool	   *tool = al_registry_tool_guarded(standing->tool_id);
	AlJudgement judgement;

	memset(&judgement, 0, sizeof(judgement));
	end_lease(standing, tool ? tool : al_registry_cautious_tool(), now, &judgement);
	settled_add(settled, &judgement);
}

/* Closes the attempt of a dispatcher that has died. */
static void
end_orphan(const AlStanding *standing, bool lookup, TimestampTz now, Settled *settled)
{
	AlTool	   *tool = al_registry_tool_guarded(standing->tool_id);
	AlEnded		ended = {
		.action_id = standing->action_id,
		.attempt = standing->attempts,
		.lookup = lookup,
		.tool_id = standing->tool_id,
		.service_id = standing->service_id,
		.finished_at = now,
		.evidence = {.ending = AL_END_WORKER_LOST}
	};
	AlJudgement judgement;

	(lookup ? al_judge_lookup : al_judge) (&ended, standing, tool ? tool : al_registry_cautious_tool(), now, false, &judgement);
	settled_add(settled, &judgement);
}

/* Moves a due action to where the state machine says. */
bool
al_sweep_move_on(const AlStanding *standing, const AlTool *tool, TimestampTz now, AlJudgement *out)
{
	AlDecision	decision = al_judge_due(standing, tool, now);

	if (decision.step == AL_STEP_SEND || decision.step == AL_STEP_RESEND)
		return false;
	out->moves = true;
	al_judge_move(standing, tool, &decision, now, &out->move);
	out->move.error_message = al_words_decision(&decision, tool, standing->sends);
	if (decision.status != standing->status)
	{
		out->has_event = true;
		out->event.action_id = standing->action_id;
		out->event.what = decision.error_code ? decision.error_code : al_step_name(decision.step);
		out->event.status = decision.status;
		out->event.note = out->move.error_message;
	}
	return true;
}

/* Moves on the clocks that stood still while a pause held an action. */
void
al_sweep_give_back(AlStanding *standing, const AlTool *tool, const AlSpan *spans, int n_spans, TimestampTz next_at, TimestampTz now)
{
	int64		held_us = al_standstill_us(spans, n_spans, standing->service_id, standing->tool_id,
										   tool->def->type == AL_TYPE_READ_ONLY, 0, 0, next_at, now);

	if (standing->window_ends_at != 0)
		standing->window_ends_at += held_us;
	if (standing->expires_at != 0)
		standing->expires_at += held_us;
	if (standing->lookup_ends_at != 0)
		standing->lookup_ends_at += held_us;
}

/* Makes room. */
static Settled
settled_create(int most)
{
	return (Settled)
	{
		.moves = palloc(Max(most, 1) * sizeof(AlMove)),
		.closings = palloc(Max(most, 1) * sizeof(AlClosing)),
		.events = palloc(Max(most, 1) * sizeof(AlEvent))
	};
}

/* Adds a judgement to what is to be written. */
static void
settled_add(Settled *settled, const AlJudgement *judgement)
{
	if (judgement->moves)
		settled->moves[settled->n_moves++] = judgement->move;
	if (judgement->closing.attempt > 0)
		settled->closings[settled->n_closings++] = judgement->closing;
	if (judgement->has_event)
		settled->events[settled->n_events++] = judgement->event;
}

/* Writes it. */
static void
settled_write(const Settled *settled, const AlSweep *sweep, TimestampTz now)
{
	al_ledger_move(settled->moves, settled->n_moves, now);
	al_ledger_close(settled->closings, settled->n_closings);
	if (sweep->incarnation != 0)
		al_ledger_event(settled->events, settled->n_events, sweep->incarnation);
	else
		al_ledger_event_by(settled->events, settled->n_events, sweep->by_whom);
}

/* reconcile(): the same for a scheduler, as far as no dispatcher does it */
Datum
al_reconcile(PG_FUNCTION_ARGS)
{
	static const char *const names[AL_N_SWEPT] = {
		[AL_SWEPT_ORPHANED] = "orphaned attempts",
		[AL_SWEPT_LEASES] = "expired leases",
		[AL_SWEPT_EXPIRED] = "expired actions",
		[AL_SWEPT_UNAPPROVED] = "expired approvals",
		[AL_SWEPT_ENDED] = "ended tries"
	};
	AlSweep		sweep = {.by_whom = al_role_name(GetUserId()), .count = 1, .everything = !dispatcher_sends()};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	AlSession	session;

	PreventCommandIfReadOnly("reconcile()");
	InitMaterializedSRF(fcinfo, 0);
	al_session_begin(&session, true);
	al_registry_refresh();
	(void) al_sweep_orphans(&sweep);
	do
		al_sweep_due(&sweep);
	while (sweep.after != 0);
	al_session_end(&session);
	for (int i = 0; i < AL_N_SWEPT; i++)
	{
		Datum		values[2] = {CStringGetTextDatum(names[i]), Int64GetDatum(sweep.n[i])};
		bool		nulls[2] = {false, false};

		if (sweep.n[i] > 0)
			al_wakeup_at_commit(DT_NOBEGIN);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Tells whether a dispatcher of this database sends, and so looks at what is due itself. */
static bool
dispatcher_sends(void)
{
	bool		sends = false;

	if (al_roster == NULL)
		return false;
	LWLockAcquire(al_roster->lock, LW_SHARED);
	for (int i = 0; i < al_roster->n_workers; i++)
	{
		if (al_roster->workers[i].database == MyDatabaseId && al_roster->workers[i].state == AL_WORKER_RUNNING)
			sends = true;
	}
	LWLockRelease(al_roster->lock);
	return sends;
}

/* Orders by action. */
static int
compare_due(const void *a, const void *b)
{
	int64		x = ((const Due *) a)->action_id;
	int64		y = ((const Due *) b)->action_id;

	return (x > y) - (x < y);
}

/* Orders by action. */
static int
compare_standings(const void *a, const void *b)
{
	int64		x = ((const AlStanding *) a)->action_id;
	int64		y = ((const AlStanding *) b)->action_id;

	return (x > y) - (x < y);
}
