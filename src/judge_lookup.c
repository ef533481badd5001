/*
 * judge_lookup.c
 *		From a lookup that has ended to what the ledger will say.
 *
 * A lookup that gets lost, fails or proves nothing leaves what was known as it
 * was: it is no send, and is simply made again.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "judge_internal.h"
#include "lookup.h"
#include "words.h"

static bool is_processed(const AlEnded *ended, const AlStanding *standing, const AlTool *tool);
static AlOutcome outcome_of(const AlFound *found, const AlEvidence *evidence, bool proves_absence);
static void note_several(const AlFound *found, AlJudgement *out);
static void note_contradiction(const AlStanding *standing, const AlFound *found, bool proves_absence, AlJudgement *out);

/* Judges a lookup that has ended. */
void
al_judge_lookup(const AlEnded *ended, const AlStanding *standing, const AlTool *tool,
				TimestampTz now, bool bare, AlJudgement *out)
{
	AlFound		found;
	AlSighting	sighting;
	AlOutcome	outcome;
	AlStanding	counted = *standing;
	AlSituation situation;
	AlDecision	decision;
	AlKnown		known;
	int64		retry_after_s = al_judge_retry_after(ended);
	bool		proves_absence;

	memset(out, 0, sizeof(*out));
	al_lookup_read(tool, bare ? NULL : ended->particulars, &ended->evidence, ended->result, &found);
	if (found.finding != AL_FOUND_NOTHING_SURE && ended->digest != tool->digest)
		found = (AlFound) {.finding = AL_FOUND_NOTHING_SURE, .category = "definition_changed"};
	/* Another account, or another version, need not know of it. */
	if (found.finding == AL_FOUND_NONE && ended->elsewhere)
		found = (AlFound) {.finding = AL_FOUND_NOTHING_SURE, .category = "asked_elsewhere"};
	sighting = (AlSighting) {
		.finding = found.finding,
		.authoritative = found.authoritative,
		.processed = is_processed(ended, standing, tool),
		.never_sent = standing->sends == 0
	};
	/* Of several sends that may be operations of their own, the one that is not to be seen yet may still be done. */
	if ((found.finding == AL_FOUND_REJECTED || found.finding == AL_FOUND_REJECTED_TRANSIENT) && !sighting.processed &&
		standing->sends > 1 && !al_registry_key_counts(tool, standing->key_place))
	{
		sighting.finding = found.finding = AL_FOUND_NOTHING_SURE;
		found.category = "others_open";
	}
	proves_absence = found.finding == AL_FOUND_NONE && sighting.authoritative && sighting.processed;
	outcome = outcome_of(&found, &ended->evidence, proves_absence);
	al_judge_closing(ended, &outcome, retry_after_s, bare, &out->closing);
	out->closing.external_ref = found.external_ref;
	out->event.action_id = standing->action_id;
	if (standing->status == AL_STATUS_CONFIRMED || standing->status == AL_STATUS_FAILED)
	{
		note_contradiction(standing, &found, proves_absence, out);
		return;
	}

	known = al_policy_fold_lookup(tool->def->type, standing->known, &sighting);
	if (known == AL_KNOWN_ABSENT)
	{
		out->move.absent = true;
		counted.absences++;
		counted.lookups_before = counted.lookups;
		counted.lookup_ends_at = 0;
	}
	else if (al_judge_is_no_try(&ended->evidence, &outcome) && !outcome.configuration)
	{
		out->move.forgive_lookup = true;
		counted.lookups--;
	}
	situation = al_judge_situation(&counted, tool, known, ended->started_at, now);
	decision = al_policy_decide(&situation);

	out->moves = true;
	al_judge_move(&counted, tool, &decision, now, &out->move);
	out->move.known = known;
	out->move.next_at = al_judge_due_time(&counted, tool, &decision, retry_after_s, now);
	/* One that was stopped on our side does not count, and is not made again at once. */
	if (out->move.forgive_lookup && decision.step == AL_STEP_LOOKUP)
		out->move.next_at = Max(out->move.next_at, TimestampTzPlusMilliseconds(now, tool->def->lookup->every_ms));
	out->move.error_message = al_words_lookup(&decision, &outcome, &ended->evidence, tool, &counted);
	if (known == AL_KNOWN_CONFIRMED)
	{
		out->move.external_ref = found.external_ref;
		out->move.result = found.result;
		out->move.confirmed_by = "lookup";
	}
	if (known == AL_KNOWN_SEVERAL && standing->known != AL_KNOWN_SEVERAL)
	{
		out->event.status = decision.status;
		note_several(&found, out);
	}
}

/*
 * Tells whether a lookup began when nothing could be in progress any more.  Of what
 * was not sent from here, and is said to be under way all the same, nobody knows
 * since when.
 */
static bool
is_processed(const AlEnded *ended, const AlStanding *standing, const AlTool *tool)
{
	if (ended->started_at == 0 || (standing->last_sent_at == 0 && standing->doubted_at == 0))
		return false;
	return ended->started_at >= al_judge_processed_at(standing, tool);
}

/* Says what a lookup proves as an outcome, for the record. */
static AlOutcome
outcome_of(const AlFound *found, const AlEvidence *evidence, bool proves_absence)
{
	AlContext	context = {.earlier_open = true};
	AlOutcome	outcome = {.verdict = AL_VERDICT_UNKNOWN, .category = found->category};
	AlOutcome	transport = al_classify(evidence, &context);

	switch (found->finding)
	{
		case AL_FOUND_CONFIRMED:
			outcome.verdict = AL_VERDICT_CONFIRMED;
			break;
		case AL_FOUND_REJECTED_TRANSIENT:
			outcome.transient = true;
			outcome.verdict = AL_VERDICT_REJECTED;
			break;
		case AL_FOUND_REJECTED:
			outcome.verdict = AL_VERDICT_REJECTED;
			break;
		case AL_FOUND_IN_PROGRESS:
			outcome.verdict = AL_VERDICT_IN_PROGRESS;
			break;
		case AL_FOUND_NONE:
			if (proves_absence)
			{
				outcome.verdict = AL_VERDICT_REJECTED;
				outcome.category = "absent";
			}
			break;
		case AL_FOUND_SEVERAL:
		case AL_FOUND_NOTHING_SURE:
			break;
	}
	if (transport.verdict == AL_VERDICT_NOT_SENT)
	{
		outcome.verdict = AL_VERDICT_NOT_SENT;
		outcome.configuration = transport.configuration;
	}
	return outcome;
}

/* Notes that it was done more than once, with all references. */
static void
note_several(const AlFound *found, AlJudgement *out)
{
	out->has_event = true;
	out->event.what = "duplicates_found";
	out->event.note = psprintf("a lookup found %d objects of this action", found->n);
	if (found->refs != (Datum) 0)
		out->event.evidence = DirectFunctionCall1(jsonb_in, CStringGetDatum(
			psprintf("{\"found\": %d, \"refs\": %s}", found->n,
					 JsonbToCString(NULL, &DatumGetJsonbP(found->refs)->root, 0))));
}

/* Notes what contradicts an action that has come to rest while it was being looked up. */
static void
note_contradiction(const AlStanding *standing, const AlFound *found, bool proves_absence, AlJudgement *out)
{
	bool		was_done = standing->status == AL_STATUS_CONFIRMED;

	out->event.status = standing->status;
	if (found->finding == AL_FOUND_SEVERAL)
		note_several(found, out);
	else if (was_done ? (proves_absence || found->finding == AL_FOUND_REJECTED) : found->finding == AL_FOUND_CONFIRMED)
	{
		out->has_event = true;
		out->event.what = "conflict";
		out->event.verdict = al_verdict_name(out->closing.verdict);
		out->event.source = "lookup";
		out->event.note = psprintf("lookup %d %s after the action had been decided", out->closing.attempt,
								   proves_absence ? "did not find it"
								   : found->finding == AL_FOUND_CONFIRMED ? "found it" : "found that it has failed");
	}
}
