/*
 * reconcile.c
 *		reconcile_now: find out at once, instead of when it is due.
 *
 * It changes nothing that is known.  A lookup is a read and may be made at any
 * time; that it finds nothing counts only after the max processing time.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "clock.h"
#include "errors.h"
#include "reconcile.h"
#include "session.h"
#include "verb.h"
#include "wakeup.h"
#include "words.h"

PG_FUNCTION_INFO_V1(al_reconcile_now);

static AlStatement renew_budget = {
	"UPDATE actionledger.action SET lookups_before = lookups, lookup_ends_at = NULL WHERE action_id = $1", 1, {INT8OID}
};

static AL_NORETURN void refuse(const AlStanding *standing, const AlTool *tool, const AlDecision *decision);

/* reconcile_now(action_id) */
Datum
al_reconcile_now(PG_FUNCTION_ARGS)
{
	int64		action_id = al_verb_action(fcinfo, "reconcile_now");
	char	   *who = al_role_name(GetUserId());
	Oid			caller = GetUserId();
	TimestampTz now = al_clock_now();
	AlSession	session;
	AlStanding *standing;
	AlTool	   *tool;
	AlReconcile reconcile;
	char	   *told;

	al_session_begin(&session, true);
	al_registry_refresh();
	standing = al_verb_lock(action_id, caller, true);
	al_verb_check_expected(standing, NULL);
	tool = al_registry_tool_by_id(standing->tool_id);
	reconcile = al_reconcile_consider(standing, tool, now);
	if (!reconcile.allowed)
		refuse(standing, tool, &reconcile.decision);
	told = al_reconcile_message(standing, tool, &reconcile, now);
	al_reconcile_apply(standing, tool, &reconcile, who, now);
	al_verb_event(action_id, "reconcile_now", reconcile.decision.status, who, fcinfo, -1, -1);
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOBEGIN);
	return al_verb_row(fcinfo, action_id, reconcile.decision.status, reconcile.decision.step, told);
}

/*
 * Asks the state machine; lookups that are used up begin anew, since a person
 * asks for them.
 */
AlReconcile
al_reconcile_consider(AlStanding *standing, const AlTool *tool, TimestampTz now)
{
	AlReconcile reconcile = {.decision = al_judge_due(standing, tool, now)};

	if (standing->claimed_by != 0 || !al_policy_is_open(standing->known))
		return reconcile;
	if (reconcile.decision.step == AL_STEP_REVIEW && tool->def->lookup != NULL && standing->lookups > standing->lookups_before)
	{
		standing->lookups_before = standing->lookups;
		standing->lookup_ends_at = 0;
		reconcile.renew = true;
		reconcile.decision = al_judge_due(standing, tool, now);
	}
	reconcile.allowed = reconcile.decision.step == AL_STEP_LOOKUP || reconcile.decision.step == AL_STEP_RESEND;
	return reconcile;
}

/* Makes an action due. */
void
al_reconcile_apply(const AlStanding *standing, const AlTool *tool, const AlReconcile *reconcile, const char *who, TimestampTz now)
{
	Datum		value = Int64GetDatum(standing->action_id);
	AlMove		move = {
		.action_id = standing->action_id,
		.status = reconcile->decision.status,
		.step = reconcile->decision.step,
		.known = standing->known,
		.next_at = now,
		.error_code = reconcile->decision.error_code
	};

	if (reconcile->renew)
		(void) al_statement_run(&renew_budget, &value, NULL);
	move.error_message = psprintf("%s, outcome unknown; %s asked to find out now", al_words_sends(tool->def->external, standing->sends), who);
	al_ledger_move(&move, 1, now);
}

/* Says what happens now, and what it can show. */
char *
al_reconcile_message(const AlStanding *standing, const AlTool *tool, const AlReconcile *reconcile, TimestampTz now)
{
	TimestampTz processed_at = al_judge_processed_at(standing, tool);

	if (reconcile->decision.step == AL_STEP_RESEND)
		return psprintf("%s%s", tool->def->external ? "an executor may claim it again at once" : "the same request is sent again at once",
						standing->key_place != NULL ? ", with the same key" : "");
	if (now < processed_at)
		return psprintf("it is looked up at once; that it is not there would prove nothing before %s, when nothing can be in progress any more",
						al_words_time(processed_at));
	return pstrdup("it is looked up at once");
}

/* Raises for an action about which there is nothing to find out by itself. */
static void
refuse(const AlStanding *standing, const AlTool *tool, const AlDecision *decision)
{
	const char *why = standing->claimed_by != 0 ? "A request for it is under way at this moment."
		: !al_policy_is_open(standing->known) ? "No outcome of it is unknown."
		: standing->known == AL_KNOWN_SEVERAL ? "A lookup found it more than once; another one would find the same."
		: decision->step == AL_STEP_WAIT ? "Its tool has no lookup; the ledger waits for the destination to report."
		: tool->def->lookup == NULL ? "Its tool has no lookup, and it may not be sent again."
		: "It may be neither looked up nor sent again.";
	const char *hint = standing->claimed_by != 0 ? "Wait for its answer."
		: !al_policy_is_open(standing->known) ? "To send what waits at once, use actionledger.retry()."
		: "Find out at the provider what happened, and decide with actionledger.resolve().";

	ereport(ERROR,
			(errcode(AL_ERR_NOT_ALLOWED),
			 errmsg("action " INT64_FORMAT " cannot be reconciled now", standing->action_id),
			 errdetail("%s", why),
			 errhint("%s", hint)));
}
