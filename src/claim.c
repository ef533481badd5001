/*
 * claim.c
 *		due → checked → marked → handed to the wire.
 */
#include "postgres.h"

#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "authority.h"
#include "claim.h"
#include "clock.h"
#include "ended.h"
#include "flight.h"
#include "lookup.h"
#include "pause.h"
#include "rebase.h"
#include "secrets.h"
#include "settings.h"
#include "words.h"

/* What has been put together for one claim. */
typedef struct Draft
{
	AlDispatcher *dispatcher;
	AlClaim    *claim;
	AlMove	   *moves;
	int			n_moves;
	AlEvent    *events;
	int			n_events;
	int64	   *held;			/* actions that a pause holds */
	int			n_held;
	TimestampTz now;
	char	   *ledger;			/* the ledger's namespace as text */
} Draft;

static void consider_priority(Draft *draft, AlDueAction *actions, int n, int priority);
static int	share_lots(AlDispatcher *dispatcher, AlLot *lots, int n, TimestampTz now);
static void give_back_held_time(Draft *draft, AlDueAction *action, AlLane *lane);
static bool is_held(Draft *draft, const AlDueAction *action);
static bool consider(Draft *draft, AlDueAction *action, AlLane *lane);
static bool look(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, char **why);
static void move_on(Draft *draft, const AlDueAction *action, AlTool *tool, const AlDecision *decision, const char *unseen);
static void block(Draft *draft, const AlDueAction *action, const char *code, char *message);
static void add_claimed(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, const AlHeaderLines *headers);
static void add_lookup(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, const AlRendered *rendered, const AlHeaderLines *headers);
static AlClaimed *add_attempt(Draft *draft, AlDueAction *action, AlLane *lane, const AlTool *tool, const AlHeaderLines *headers, bool lookup);
static void read_particulars(AlDueAction *actions, int n);
static bool is_too_late(const AlClaimed *claimed, TimestampTz now);
static const char **texts_of(const List *list, int *n);
static void advance_lanes(AlDispatcher *dispatcher, const AlLot *lots, int n_lots,
						  const AlDueAction *actions, int n, TimestampTz now);

/* Claims what is due. */
void
al_claim_take(AlDispatcher *dispatcher, AlClaim *claim)
{
	Draft		draft = {.dispatcher = dispatcher, .claim = claim, .now = al_clock_now()};
	AlLot	   *lots = palloc(Max(dispatcher->lanes.n, 1) * AL_N_LEVELS * sizeof(AlLot));
	int			room = dispatcher->room - al_wire_in_flight(dispatcher->wire);
	int			n_lots = al_lanes_lots(&dispatcher->lanes, draft.now, room, lots);
	AlDueAction *actions;
	AlMark	   *marks;
	int			n;

	if (al_suspect_put_away(&dispatcher->suspect, dispatcher->incarnation))
		return;
	n_lots = share_lots(dispatcher, lots, n_lots, draft.now);
	if (n_lots > 0 && dispatcher->suspect.singly > 0)
		n_lots = al_suspect_choose(&dispatcher->suspect, lots, n_lots, draft.now) ? 1 : 0;
	if (n_lots == 0)
		return;
	n = al_ledger_pick(lots, n_lots, draft.now, &actions);
	if (al_rebase_owes() && al_rebase_pay() > 0)
	{
		/* Some of these may have been read with times of the old clock. */
		al_lanes_rescan(&dispatcher->lanes);
		return;
	}
	advance_lanes(dispatcher, lots, n_lots, actions, n, draft.now);
	if (n == 0)
		return;
	draft.ledger = DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&dispatcher->namespace_id)));
	claim->claimed = palloc0(n * sizeof(AlClaimed));
	draft.moves = palloc0(n * sizeof(AlMove));
	draft.events = palloc0(n * sizeof(AlEvent));
	draft.held = palloc(n * sizeof(int64));
	read_particulars(actions, n);
	for (int priority = 1; priority >= -1; priority--)
		consider_priority(&draft, actions, n, priority);
	marks = palloc(n * sizeof(AlMark));
	for (int i = 0; i < claim->n; i++)
		marks[i] = claim->claimed[i].mark;
	AL_FAULT_ERROR("claim");
	al_ledger_mark(marks, claim->n, dispatcher->incarnation, draft.now);
	al_ledger_move(draft.moves, draft.n_moves, draft.now);
	al_ledger_park(draft.held, draft.n_held);
	al_ledger_event(draft.events, draft.n_events, dispatcher->incarnation);
	AL_FAULT_ERROR("mark_written");
}

/* Reads what the lookups among the due actions need, when there are any. */
static void
read_particulars(AlDueAction *actions, int n)
{
	int64	   *ids = palloc(n * sizeof(int64));
	AlParticulars *particulars;
	int			n_lookups = 0;
	int			found;
	int			next = 0;

	for (int i = 0; i < n; i++)
	{
		if (actions[i].looks)
			ids[n_lookups++] = actions[i].standing.action_id;
	}
	if (n_lookups == 0)
		return;
	found = al_ledger_particulars(ids, n_lookups, &particulars);
	for (int i = 0; i < n && next < found; i++)
	{
		if (actions[i].looks && actions[i].standing.action_id == particulars[next].action_id)
			actions[i].particulars = &particulars[next++];
	}
}

/* Decides about the due actions of one priority; what finds no room is left where it is. */
static void
consider_priority(Draft *draft, AlDueAction *actions, int n, int priority)
{
	for (int i = 0; i < n; i++)
	{
		AlDueAction *action = &actions[i];
		AlLane	   *lane;

		if (action->priority != priority)
			continue;
		lane = al_lanes_find(&draft->dispatcher->lanes, action->standing.service_id);
		give_back_held_time(draft, action, lane);
		if (is_held(draft, action))
			draft->held[draft->n_held++] = action->standing.action_id;
		else if (al_lane_room(lane) <= 0 || !consider(draft, action, lane))
			al_lane_return_to(lane, priority, action->next_at, action->standing.action_id);
	}
}

/*
 * Keeps the lots whose pause nobody is deciding.  Whoever pauses waits for this
 * transaction, and this one knows of every pause that was committed before.
 */
static int
share_lots(AlDispatcher *dispatcher, AlLot *lots, int n, TimestampTz now)
{
	bool		all = n > 0 && al_pause_share(AL_PAUSE_ALL);
	bool		shared = false;
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		if (all && (i == 0 || lots[i].service_id != lots[i - 1].service_id))
			shared = al_pause_share(lots[i].service_id);
		if (all && shared)
			lots[kept++] = lots[i];
		else
			al_lane_stand_aside(al_lanes_find(&dispatcher->lanes, lots[i].service_id), now);
	}
	al_registry_refresh();
	return kept;
}

/* Moves on the clocks that stand still while a pause or the breaker holds an action. */
static void
give_back_held_time(Draft *draft, AlDueAction *action, AlLane *lane)
{
	AlTool	   *tool = al_registry_tool_guarded(action->standing.tool_id);
	bool		read_only = action->looks || (tool != NULL && tool->def->type == AL_TYPE_READ_ONLY);
	int64		held_us = al_lane_held_us(&draft->dispatcher->lanes, lane, action->standing.tool_id, read_only,
										  action->next_at, draft->now);

	if (action->standing.window_ends_at != 0)
		action->standing.window_ends_at += held_us;
	if (action->standing.expires_at != 0)
		action->standing.expires_at += held_us;
	if (action->standing.lookup_ends_at != 0)
		action->standing.lookup_ends_at += held_us;
}

/* Tells whether a pause keeps a due action from what would happen to it next. */
static bool
is_held(Draft *draft, const AlDueAction *action)
{
	AlTool	   *tool = al_registry_tool_guarded(action->standing.tool_id);
	AlDecision	decision;

	if (tool == NULL || tool->pause == NULL)
		return false;
	decision = al_judge_due(&action->standing, tool, draft->now);
	if (decision.step == AL_STEP_LOOKUP)
		return tool->pause->lookups;
	return tool->pause->sends && (decision.step == AL_STEP_SEND || decision.step == AL_STEP_RESEND);
}

/* Hands the requests to the wire. */
void
al_claim_send(AlDispatcher *dispatcher, AlClaim *claim, bool gate_open)
{
	TimestampTz now = al_clock_now();

	for (int i = 0; i < claim->n; i++)
	{
		AlClaimed  *claimed = &claim->claimed[i];

		if (gate_open && !is_too_late(claimed, now))
		{
			claimed->flight->probe = al_lane_begin(claimed->lane);
			al_wire_send(dispatcher->wire, &claimed->request);
			if (claimed->mark.lookup)
				(void) AL_FAULT_POINT("lookup_sent");
		}
		else
		{
			al_ended_queue(dispatcher, &claimed->action->standing, claimed->mark.attempt, claimed->mark.lookup,
						  gate_open ? AL_END_ABORTED : AL_END_GATE_CLOSED);
			pfree(claimed->flight);
		}
		al_flight_forget_headers(&claimed->headers);
	}
	if (claim->n > 0)
		(void) AL_FAULT_POINT("gate_passed");
}

/*
 * Tells whether what allowed a send has ended since it was marked: its commit may
 * have waited long for a standby, and so may the gate.
 */
static bool
is_too_late(const AlClaimed *claimed, TimestampTz now)
{
	const AlMark *mark = &claimed->mark;
	bool		resend = !mark->lookup && al_policy_is_open(claimed->action->standing.known);

	return (!mark->lookup && mark->expires_at != 0 && now >= mark->expires_at) ||
		(resend && mark->key_ends_at > claimed->flight->started_at && now >= mark->key_ends_at);
}

/* Forgets a claim whose transaction failed. */
void
al_claim_undo(AlDispatcher *dispatcher, AlClaim *claim)
{
	for (int i = 0; i < claim->n; i++)
	{
		/* The last one's may be what there was no memory for. */
		if (claim->claimed[i].flight != NULL)
			pfree(claim->claimed[i].flight);
	}
	al_lanes_release(&dispatcher->lanes);
}

/*
 * Decides what becomes of one due action; false leaves it where it is for a
 * later turn.
 */
static bool
consider(Draft *draft, AlDueAction *action, AlLane *lane)
{
	AlTool	   *tool = al_registry_tool_guarded(action->standing.tool_id);
	char	   *missing = NULL;
	char	   *unseen = NULL;
	AlDecision	decision;
	AlHeaderLines headers;

	if (tool == NULL)
	{
		block(draft, action, "tool_unusable", pstrdup("the tool's definition cannot be read; see the server log"));
		return true;
	}
	decision = al_judge_due(&action->standing, tool, draft->now);
	if (decision.step == AL_STEP_LOOKUP && action->looks)
	{
		if (look(draft, action, lane, tool, &unseen))
			return true;
		decision = al_judge_due_unseen(&action->standing, tool, draft->now);
		if (decision.step == AL_STEP_RESEND && tool->pause != NULL && tool->pause->sends)
		{
			draft->held[draft->n_held++] = action->standing.action_id;
			return true;
		}
	}
	if ((decision.step != AL_STEP_SEND && decision.step != AL_STEP_RESEND) || strcmp(action->method, AL_EXTERNAL) == 0)
	{
		move_on(draft, action, tool, &decision, unseen);
		return true;
	}
	if (tool->dropped)
		block(draft, action, "tool_dropped", pstrdup("the tool was dropped"));
	else if (!al_lookup_same_origin(action->url, tool->service->def->origin))
		block(draft, action, "foreign_origin",
			  psprintf("the request was prepared for another origin than %s, where the service is now", tool->service->def->origin));
	else if (!al_registry_may_perform(tool, get_role_oid(action->requested_by, true)))
		block(draft, action, "permission_revoked",
			  psprintf("role %s may no longer perform %s", action->requested_by, tool->name));
	else if (!al_registry_resendable(tool, action->standing.key_place) && lane->unsent + lane->taken_unproven >= al_max_unproven)
	{
		lane->unproven_wait = lane->unproven_bound = true;
		return false;
	}
	else if (!al_flight_headers(&draft->dispatcher->namespace_id, draft->ledger, &action->standing, action->headers, &headers, &missing))
		block(draft, action, "secret_missing", psprintf("secret \"%s\" is missing or unusable: set it with set_secret or as a file, then retry", missing));
	else
		add_claimed(draft, action, lane, tool, &headers);
	return true;
}

/* Claims an action for a lookup; false, with the reason, when it cannot be looked up. */
static bool
look(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, char **why)
{
	AlRendered *rendered;
	char	   *missing = NULL;
	AlHeaderLines headers;

	*why = pstrdup("its row cannot be read");
	if (action->particulars == NULL)
		return false;
	rendered = al_lookup_render(tool, action->particulars, action->url, action->headers, why);
	if (rendered == NULL)
		return false;
	if (!al_flight_headers(&draft->dispatcher->namespace_id, draft->ledger, &action->standing, rendered->headers, &headers, &missing))
	{
		*why = psprintf("secret \"%s\" is missing or unusable", missing);
		return false;
	}
	add_lookup(draft, action, lane, tool, rendered, &headers);
	return true;
}

/* Moves an action to where the state machine says, without a send; unseen: why it cannot be looked up. */
static void
move_on(Draft *draft, const AlDueAction *action, AlTool *tool, const AlDecision *decision, const char *unseen)
{
	AlMove	   *move = &draft->moves[draft->n_moves++];

	al_judge_move(&action->standing, tool, decision, draft->now, move);
	move->error_message = unseen ? al_words_unseen(decision, tool, action->standing.sends, unseen)
		: al_words_decision(decision, tool, action->standing.sends);
	if (decision->status != action->standing.status || unseen)
	{
		AlEvent    *event = &draft->events[draft->n_events++];

		event->action_id = action->standing.action_id;
		event->what = decision->error_code ? decision->error_code : al_step_name(decision->step);
		event->status = decision->status;
		event->note = move->error_message;
	}
}

/* Parks an action for a person to mend what keeps it from being sent. */
static void
block(Draft *draft, const AlDueAction *action, const char *code, char *message)
{
	AlMove	   *move = &draft->moves[draft->n_moves++];
	AlEvent    *event = &draft->events[draft->n_events++];

	move->action_id = event->action_id = action->standing.action_id;
	move->status = event->status = action->standing.status;
	move->step = AL_STEP_BLOCKED;
	move->known = action->standing.known;
	move->next_at = DT_NOEND;
	move->error_code = code;
	move->error_message = message;
	event->what = "blocked";
	event->note = message;
}

/* Adds an action that will be sent. */
static void
add_claimed(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, const AlHeaderLines *headers)
{
	const AlStanding *standing = &action->standing;
	const AlIdempotency *key = tool->idempotency;
	bool		unproven = !al_registry_resendable(tool, standing->key_place);
	AlClaimed  *claimed = add_attempt(draft, action, lane, tool, headers, false);
	AlWireRequest *request = &claimed->request;
	AlMark	   *mark = &claimed->mark;
	AlStanding *after = &claimed->flight->standing;

	mark->window_ends_at = standing->window_ends_at ? standing->window_ends_at
		: TimestampTzPlusMilliseconds(draft->now, tool->def->window_ms);
	mark->key_ends_at = (standing->key_ends_at || !al_registry_key_counts(tool, standing->key_place)) ? standing->key_ends_at
		: TimestampTzPlusMilliseconds(draft->now, key->window_ms - key->margin_ms);
	after->status = AL_STATUS_SUBMITTED;
	after->sends++;
	after->overridden = false;
	after->last_sent_at = draft->now;
	after->window_ends_at = mark->window_ends_at;
	after->key_ends_at = mark->key_ends_at;

	request->method = action->method;
	request->url = action->url;
	request->body = action->body ? VARDATA_ANY(action->body) : NULL;
	request->body_len = action->body ? VARSIZE_ANY_EXHDR(action->body) : 0;
	/* What a kept connection has swallowed is not tried on the next one of them. */
	request->fresh = unproven || standing->known == AL_KNOWN_UNKNOWN;
	if (unproven)
	{
		request->unsent = &lane->unsent;
		lane->taken_unproven++;
	}
}

/* Adds an action that will be looked up. */
static void
add_lookup(Draft *draft, AlDueAction *action, AlLane *lane, AlTool *tool, const AlRendered *rendered, const AlHeaderLines *headers)
{
	const AlStanding *standing = &action->standing;
	AlClaimed  *claimed = add_attempt(draft, action, lane, tool, headers, true);

	claimed->mark.lookup = true;
	claimed->flight->elsewhere = rendered->elsewhere;
	claimed->mark.window_ends_at = standing->window_ends_at;
	claimed->mark.key_ends_at = standing->key_ends_at;
	claimed->mark.lookup_ends_at = standing->lookup_ends_at ? standing->lookup_ends_at
		: TimestampTzPlusMilliseconds(draft->now, tool->def->lookup->window_ms);
	claimed->flight->standing.lookups++;
	claimed->flight->standing.lookup_ends_at = claimed->mark.lookup_ends_at;

	claimed->request.method = tool->def->lookup->request->method;
	claimed->request.url = rendered->url;
	claimed->request.fresh = standing->lookups > standing->lookups_before;
}

/* Adds what sends and lookups have in common. */
static AlClaimed *
add_attempt(Draft *draft, AlDueAction *action, AlLane *lane, const AlTool *tool, const AlHeaderLines *headers, bool lookup)
{
	AlClaimed  *claimed = &draft->claim->claimed[draft->claim->n++];
	const AlStanding *standing = &action->standing;
	const AlServiceDef *service = tool->service->def;
	AlWireRequest *request = &claimed->request;
	AlFlight   *flight;

	claimed->action = action;
	claimed->lane = lane;
	lane->taken++;
	claimed->flight = flight = al_flight_create(lane, tool, lookup);
	claimed->mark.action_id = standing->action_id;
	claimed->mark.attempt = standing->attempts + 1;
	claimed->mark.deadline = TimestampTzPlusMilliseconds(draft->now, tool->def->timeout_ms);
	claimed->mark.expires_at = standing->expires_at;
	claimed->mark.lookup_ends_at = standing->lookup_ends_at;

	flight->lookup = lookup;
	flight->started_at = draft->now;
	flight->digest = tool->digest;
	flight->clock = al_clock_shifted();
	flight->standing = *standing;
	if (standing->key_place != NULL)
		flight->standing.key_place =
			strlcpy(flight->key_place, standing->key_place, sizeof(flight->key_place)) < sizeof(flight->key_place)
			? flight->key_place : NULL;
	flight->standing.attempts++;
	flight->standing.claimed_by = draft->dispatcher->incarnation;

	request->tag = (uint64) (uintptr_t) flight;
	claimed->headers = *headers;
	request->headers = texts_of(headers->lines, &request->n_headers);
	request->secrets = texts_of(headers->held, &request->n_secrets);
	request->timeout_ms = tool->def->timeout_ms;
	request->connect_timeout_ms = tool->def->connect_timeout_ms;
	request->allow_http = service->plain_http;
	request->allow_private = service->allow_private;
	request->ca_file = service->ca_file;
	request->client_cert = service->client_cert;
	request->client_key = service->client_key;
	request->max_body = (size_t) al_max_response_size * 1024;
	request->keep_headers = flight->keep;
	return claimed;
}

/* Makes an array of a list of texts. */
static const char **
texts_of(const List *list, int *n)
{
	const char **texts = palloc(Max(list_length(list), 1) * sizeof(char *));

	*n = list_length(list);
	for (int i = 0; i < *n; i++)
		texts[i] = list_nth(list, i);
	return texts;
}

/* Moves the watermarks of the lanes that were looked at. */
static void
advance_lanes(AlDispatcher *dispatcher, const AlLot *lots, int n_lots,
			  const AlDueAction *actions, int n, TimestampTz now)
{
	TimestampTz *next = palloc(n_lots * sizeof(TimestampTz));
	AlLot	   *quiet = palloc(n_lots * sizeof(AlLot));
	int			n_quiet = 0;

	for (int l = 0; l < n_lots; l++)
	{
		AlLane	   *lane = al_lanes_find(&dispatcher->lanes, lots[l].service_id);
		AlLevel    *level;
		const AlDueAction *last = NULL;
		int			picked = 0;

		for (int i = 0; i < n; i++)
		{
			if (actions[i].standing.service_id != lots[l].service_id || actions[i].priority != lots[l].priority)
				continue;
			picked++;
			if (last == NULL || actions[i].next_at > last->next_at ||
				(actions[i].next_at == last->next_at && actions[i].standing.action_id > last->standing.action_id))
				last = &actions[i];
		}
		al_lane_advance(lane, &lots[l], picked, last ? last->next_at : 0, last ? last->standing.action_id : 0, now);
		level = &lane->levels[1 - lots[l].priority];
		if (!level->look)
		{
			quiet[n_quiet] = lots[l];
			quiet[n_quiet].mark_at = level->mark_at;
			quiet[n_quiet].mark_id = level->mark_id;
			n_quiet++;
		}
	}
	if (n_quiet == 0)
		return;
	al_ledger_next_due(quiet, n_quiet, next);
	for (int q = 0; q < n_quiet; q++)
		al_lanes_find(&dispatcher->lanes, quiet[q].service_id)->levels[1 - quiet[q].priority].next_due = next[q];
}
