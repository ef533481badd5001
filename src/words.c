/*
 * words.c
 *		The texts, in one place, so that they can be read as a set.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "roster.h"
#include "visible.h"
#include "words.h"

static const char *category_words(const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool);
static const char *lookup_words(const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool);
static char *observe(const AlStory *story, bool created, bool asked_again);
static const char *how_confirmed(const char *confirmed_by);
static char *how_failed(const AlStory *story);
static char *subject_of(const AlStory *story);
static char *next_look(const AlStory *story);
static char *held_words(const AlStory *story, bool paused);
static bool held_by_breaker(const AlStory *story);

/* Says what kind of answer an action's state is. */
AlAdvice
al_words_advice(const AlStory *story)
{
	switch (story->status)
	{
		case AL_STATUS_CONFIRMED:
			return (AlAdvice) {NULL, "done", NULL};
		case AL_STATUS_SUBMITTED:
			if (story->step == AL_STEP_BLOCKED)
				return (AlAdvice) {"blocked", "escalate", "outcome unknown, and a person has to mend something"};
			if (story->sends == 1 && story->error_code == NULL)
				return (AlAdvice) {"pending", "wait", "sent, no answer yet"};
			return (AlAdvice) {"outcome_unknown", "wait", "outcome unknown"};
		case AL_STATUS_NEEDS_RECONCILIATION:
			if (story->step == AL_STEP_REVIEW)
				return (AlAdvice) {"needs_review", "escalate", "outcome unknown; a person decides"};
			return (AlAdvice) {"outcome_unknown", "wait", "outcome unknown"};
		case AL_STATUS_PREPARED:
			if (story->step == AL_STEP_BLOCKED)
				return (AlAdvice) {"blocked", "escalate", "not sent; a person has to mend something"};
			if (story->step == AL_STEP_APPROVE)
				return (AlAdvice) {"awaiting_approval", "approve", "waits for approval"};
			if (story->pause != NULL)
				return (AlAdvice) {"paused", "wait", "not sent yet; paused"};
			if (held_by_breaker(story))
				return (AlAdvice) {"service_unavailable", "wait", "not sent yet; the service is unavailable"};
			return (AlAdvice) {"pending", "wait", "not sent yet"};
		case AL_STATUS_FAILED:
			if (story->error_code != NULL && strcmp(story->error_code, "cancelled") == 0)
				return (AlAdvice) {"cancelled", "stop", "cancelled"};
			if (story->error_code != NULL && strcmp(story->error_code, "expired") == 0)
				return (AlAdvice) {"expired", "escalate", "expired before it was sent"};
			if (story->error_code != NULL && strcmp(story->error_code, "approval_expired") == 0)
				return (AlAdvice) {"approval_expired", "escalate", "nobody approved it in time"};
			if (story->error_code != NULL && strcmp(story->error_code, "approval_rejected") == 0)
				return (AlAdvice) {"approval_rejected", "stop", "a person said no"};
			if (story->error_code != NULL && strcmp(story->error_code, "no_answer") == 0)
				return (AlAdvice) {"no_answer", "escalate", "no answer obtained; it only reads"};
			if (story->error_code != NULL && strcmp(story->error_code, "rejected") == 0)
				return (AlAdvice) {"rejected", "correct", "refused"};
			return (AlAdvice) {story->error_code ? story->error_code : "failed", "escalate", "did not happen"};
	}
	return (AlAdvice) {"unknown_state", "escalate", "unknown state"};
}

/* Fills in what a story has to say of its service's breaker. */
void
al_words_breaker(AlStory *story, int32 service_id)
{
	AlRosterBreaker breaker;

	if (!al_roster_breaker(MyDatabaseId, service_id, &breaker) || !breaker.open)
		return;
	story->breaker_failures = breaker.failures;
	story->breaker_until = breaker.probe_at;
}

/* Tells when it moves by itself. */
TimestampTz
al_words_moves_at(const AlStory *story)
{
	return held_by_breaker(story) ? Max(story->next_at, story->breaker_until) : story->next_at;
}

/* Tells whether the breaker holds it: a dispatcher asks the breaker before all that it does, an executor does not. */
static bool
held_by_breaker(const AlStory *story)
{
	switch (story->step)
	{
		case AL_STEP_SEND:
		case AL_STEP_RESEND:
			return story->breaker_failures > 0 && !story->external;
		case AL_STEP_LOOKUP:
			return story->breaker_failures > 0;
		case AL_STEP_APPROVE:
		case AL_STEP_WAIT:
		case AL_STEP_APPLY:
		case AL_STEP_REVIEW:
		case AL_STEP_BLOCKED:
		case AL_STEP_NONE:
			break;
	}
	return false;
}

/* Tells what happened and what to do next, in one line whatever others have written into it. */
char *
al_words_observation(const AlStory *story, bool created, bool asked_again)
{
	return unconstify(char *, al_visible(observe(story, created, asked_again)));
}

/* Tells what happened and what to do next. */
static char *
observe(const AlStory *story, bool created, bool asked_again)
{
	char	   *subject = subject_of(story);
	char	   *again = asked_again
		? psprintf("This was asked for before, at %s, and is the same action: nothing new was sent. ", al_words_time(story->created_at))
		: "";

	switch (story->status)
	{
		case AL_STATUS_CONFIRMED:
			return psprintf("%s%s succeeded%s%s.%s Do not repeat it.%s", again, subject,
							strcmp(story->confirmed_by ? story->confirmed_by : "", "replay") == 0 ? " once" : "",
							story->external_ref ? psprintf(", reference %s", story->external_ref) : "",
							how_confirmed(story->confirmed_by),
							asked_again ? psprintf(" For a deliberate second one, call actionledger.supersede(" INT64_FORMAT ", ..., 'why').", story->action_id) : "");
		case AL_STATUS_PREPARED:
			if (story->step == AL_STEP_BLOCKED)
				return psprintf("%s%s has not been sent: %s. It did not happen. Do not propose it again; a person has to mend this first.",
								again, subject, story->error_message ? story->error_message : "it is blocked");
			if (story->step == AL_STEP_APPROVE)
				return psprintf("%s%s waits for approval by %s until %s (%s). Nothing was sent. Do not propose it again; "
								"tell whoever asked for it that it is pending.", again, subject, story->approver,
								al_words_time(story->approve_by), story->approval_reason);
			if (story->pause != NULL)
				return psprintf("%s%s is queued and not sent: %s. It goes out when the pause is lifted. "
								"Do not propose it again; do something else first, or cancel it with actionledger.cancel(" INT64_FORMAT ").",
								again, subject, al_words_pause(story->pause), story->action_id);
			if (held_by_breaker(story))
				return psprintf("%s%s is queued and not sent: its service failed %d times in a row; the next probe goes at %s. "
								"Do not propose it again; do something else first, or cancel it with actionledger.cancel(" INT64_FORMAT ").",
								again, subject, story->breaker_failures, al_words_time(story->breaker_until), story->action_id);
			if (created)
				return psprintf("%s is recorded; %s after your commit%s. Do not propose it again; call actionledger.wait(" INT64_FORMAT
								") in a later transaction for the outcome.", subject, story->external ? "an executor may claim it" : "it is sent",
								story->next_at > story->created_at ? psprintf(", not before %s", al_words_time(story->next_at)) : "",
								story->action_id);
			return psprintf("%s%s is recorded and not %s yet%s%s. Do not propose it again; call actionledger.wait(" INT64_FORMAT ").",
							again, subject, story->external ? "claimed" : "sent", story->error_message ? ": " : "",
							story->error_message ? story->error_message : "", story->action_id);
		case AL_STATUS_SUBMITTED:
			if (story->error_code == NULL)
				return psprintf("%s%s has been %s yet. Do not repeat it; call actionledger.wait(" INT64_FORMAT ").", again, subject,
								story->external ? "claimed by an executor, which has not reported" : "sent and has not been answered", story->action_id);
			return psprintf("%s%s was %s and may have happened: %s. Do not repeat it, and report neither success nor failure. %s",
							again, subject, story->external ? "claimed by an executor" : "sent",
							story->error_message ? story->error_message : "no answer", next_look(story));
		case AL_STATUS_NEEDS_RECONCILIATION:
			return psprintf("%s%s may have happened: %s. It is not sent again. Do not repeat it, and report neither success nor failure: say that it is being checked%s.%s",
							again, subject, story->error_message ? story->error_message : "no answer",
							story->owner ? psprintf(" by %s", story->owner) : "",
							story->step == AL_STEP_LOOKUP ? psprintf(" %s", next_look(story)) : "");
		case AL_STATUS_FAILED:
			return psprintf("%s%s%s%s", again, subject, how_failed(story),
							story->superseded_by != 0
							? psprintf(" Action " INT64_FORMAT " has taken its place: call actionledger.result(" INT64_FORMAT ").",
									   story->superseded_by, story->superseded_by)
							: asked_again ? psprintf(" For a new one, call actionledger.supersede(" INT64_FORMAT ", ..., 'why').", story->action_id) : "");
	}
	return subject;
}

/* Says what showed that it happened, where that is not the answer to the first send. */
static const char *
how_confirmed(const char *confirmed_by)
{
	static const char *const words[][2] = {
		{"replay", " The first answer was lost; the provider returned the original."},
		{"lookup", " No answer told so; a lookup found it at the provider."},
		{"callback", " No answer told so; it was reported afterwards."},
		{"person", " A person has decided so, by evidence."}
	};

	for (int i = 0; i < lengthof(words); i++)
	{
		if (confirmed_by != NULL && strcmp(confirmed_by, words[i][0]) == 0)
			return words[i][1];
	}
	return "";
}

/* Says why it did not happen, and what follows. */
static char *
how_failed(const AlStory *story)
{
	const char *code = story->error_code ? story->error_code : "";
	const char *why = story->error_message ? story->error_message : "it failed";

	if (strcmp(code, "cancelled") == 0)
		return pstrdup(" was cancelled before anything was done. It did not happen.");
	if (strcmp(code, "expired") == 0)
		return pstrdup(" expired before anything was done. It did not happen. Ask whether it is still wanted before it is proposed anew.");
	if (strcmp(code, "approval_expired") == 0)
		return pstrdup(" was not approved in time. Nothing was sent and it did not happen. Ask whether it is still wanted before it is proposed anew.");
	if (strcmp(code, "no_answer") == 0)
		return psprintf(" has no result: %s. It only reads, so nothing can have changed.", why);
	if (strcmp(code, "rejected") == 0 && story->service != NULL && strncmp(why, "refused", strlen("refused")) == 0)
		return psprintf(" did not happen: %s by %s. Do not repeat it unchanged.", why, story->service);
	return psprintf(" did not happen: %s. Do not repeat it unchanged.", why);
}

/* Says how often it was sent or claimed. */
char *
al_words_sends(bool external, int sends)
{
	return psprintf("%d %s%s", sends, external ? "claim" : "send", sends == 1 ? "" : "s");
}

/* Says when it goes out. */
char *
al_words_goes_out(bool external, TimestampTz at)
{
	const char *what = external ? "an executor may claim it" : "goes out";

	return at != 0 ? psprintf("%s %s %s", what, external ? "from" : "at", al_words_time(at)) : psprintf("%s after your commit", what);
}

/* Puts an attempt's end into words. */
char *
al_words_outcome(const AlDecision *decision, const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool, int sends)
{
	const char *words = category_words(outcome, evidence, tool);

	if (decision->status == AL_STATUS_CONFIRMED)
		return NULL;
	if (decision->error_code != NULL && strcmp(decision->error_code, "rejected") == 0 && outcome->verdict != AL_VERDICT_REJECTED)
		return pstrdup("reported as refused while it was being sent");
	if (decision->error_code != NULL && strcmp(decision->error_code, "retries_exhausted") == 0)
		return psprintf("after %d %s, none of them delivered and accepted; the last: %s", sends, sends == 1 ? "try" : "tries", words);
	if (decision->error_code != NULL && strcmp(decision->error_code, "no_answer") == 0)
		return psprintf("no answer obtained after %s; the last: %s", al_words_sends(tool->def->external, sends), words);
	if (decision->status == AL_STATUS_NEEDS_RECONCILIATION)
		return psprintf("%s, outcome unknown; the last: %s", al_words_sends(tool->def->external, sends), words);
	if (decision->error_code != NULL && strcmp(decision->error_code, "cancelled") == 0)
		return pstrdup("cancelled; nothing was done");
	if (decision->error_code != NULL && strcmp(decision->error_code, "expired") == 0)
		return pstrdup("expired; nothing was done");
	return pstrdup(words);
}

/* Puts what somebody reported into words. */
char *
al_words_reported(const AlDecision *decision, const AlOutcome *outcome, const AlTool *tool, const char *who, int sends)
{
	static const char *const words[] = {
		[AL_VERDICT_NOT_SENT] = "it was not sent",
		[AL_VERDICT_REJECTED] = "it was refused",
		[AL_VERDICT_CONFIRMED] = "it happened",
		[AL_VERDICT_IN_PROGRESS] = "it is in progress",
		[AL_VERDICT_UNKNOWN] = "nobody knows whether it happened"
	};
	char	   *reported = psprintf("%s reports that %s", who, words[outcome->verdict]);

	if (decision->status == AL_STATUS_CONFIRMED)
		return NULL;
	if (decision->error_code != NULL && strcmp(decision->error_code, "retries_exhausted") == 0)
		return psprintf("after %d %s, none of them delivered and accepted; the last: %s", sends, sends == 1 ? "try" : "tries", reported);
	if (decision->step == AL_STEP_REVIEW)
		return psprintf("%s, outcome unknown; the last: %s", al_words_sends(tool->def->external, sends), reported);
	return reported;
}

/* Puts a lookup's end into words. */
char *
al_words_lookup(const AlDecision *decision, const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool,
				const AlStanding *standing)
{
	const char *words = lookup_words(outcome, evidence, tool);
	char	   *counts = psprintf("%s, %d %s", al_words_sends(tool->def->external, standing->sends),
								  standing->lookups, standing->lookups == 1 ? "lookup" : "lookups");

	switch (decision->status)
	{
		case AL_STATUS_CONFIRMED:
			return NULL;
		case AL_STATUS_PREPARED:
			return psprintf("%s; it is sent %s", words, standing->sends == 0 ? "now" : "once more");
		case AL_STATUS_FAILED:
			if (decision->error_code != NULL && strcmp(decision->error_code, "absent") == 0)
				return psprintf("%s: a lookup did not find it, and nothing can be in progress any more", counts);
			return psprintf("%s; the last: %s", counts, words);
		case AL_STATUS_SUBMITTED:
			return psprintf("%s; the last: %s", counts, words);
		case AL_STATUS_NEEDS_RECONCILIATION:
			break;
	}
	return psprintf("%s, outcome unknown; the last: %s", counts, words);
}

/* Says why an action is not looked up. */
char *
al_words_unseen(const AlDecision *decision, const AlTool *tool, int sends, const char *why)
{
	if (decision->status == AL_STATUS_SUBMITTED)
		return psprintf("in progress; it cannot be looked up: %s", why);
	if (decision->status != AL_STATUS_NEEDS_RECONCILIATION)
		return al_words_decision(decision, tool, sends);
	return psprintf("%s, outcome unknown; it cannot be looked up: %s", al_words_sends(tool->def->external, sends), why);
}

/* Says what a definition keeps from being sent, and what mends it. */
char *
al_words_blocked(const char *category, const char *detail)
{
	if (strcmp(category, "address_refused") == 0)
		return psprintf("nothing was sent: %s; if the service may go there, set its allow_private, then retry",
						detail[0] ? detail : "the address is not allowed");
	if (strcmp(category, "bad_trust") == 0)
		return psprintf("nothing was sent: %s; mend the service's tls files, then retry",
						detail[0] ? detail : "CA file or client certificate is unusable");
	return psprintf("nothing was sent: %s; mend the definition, then retry", detail[0] ? detail : "the request cannot be sent as it is");
}

/* Puts a move without an attempt into words. */
char *
al_words_decision(const AlDecision *decision, const AlTool *tool, int sends)
{
	const char *code = decision->error_code ? decision->error_code : "";

	if (strcmp(code, "cancelled") == 0)
		return pstrdup("cancelled before anything was done");
	if (strcmp(code, "expired") == 0)
		return pstrdup("expired before anything was done");
	if (strcmp(code, "approval_expired") == 0)
		return pstrdup("nobody approved it in time; nothing was done");
	if (strcmp(code, "retries_exhausted") == 0)
		return psprintf("the retry window ended after %s, every one undelivered or refused", al_words_sends(tool->def->external, sends));
	if (strcmp(code, "no_answer") == 0)
		return psprintf("no answer obtained after %s", al_words_sends(tool->def->external, sends));
	if (strcmp(code, "absent") == 0)
		return psprintf("after %s a lookup did not find it, and it is not sent again", al_words_sends(tool->def->external, sends));
	if (decision->status == AL_STATUS_NEEDS_RECONCILIATION)
		return psprintf("%s, outcome unknown; sending again is no longer safe", al_words_sends(tool->def->external, sends));
	return NULL;
}

/* Puts the end of a recorded attempt into words. */
char *
al_words_attempt(AlVerdict verdict, const char *category, int http_status, bool lookup, const AlTool *tool)
{
	AlOutcome	outcome = {.verdict = verdict, .category = category};
	AlEvidence	evidence = {.head_complete = http_status > 0, .status = http_status};

	if (verdict == AL_VERDICT_CONFIRMED)
		return psprintf("%s%s", lookup ? "it is there" : strcmp(category, "replayed") == 0 ? "done, the first answer was returned again" : "done",
						http_status > 0 ? psprintf(" (HTTP %d)", http_status) : "");
	if (lookup)
		return pstrdup(lookup_words(&outcome, &evidence, tool));
	if (verdict == AL_VERDICT_REJECTED && http_status == 0)
		return psprintf("refused (%s)", category);
	return pstrdup(category_words(&outcome, &evidence, tool));
}

/* Says who has paused what, and why. */
char *
al_words_pause(const AlPause *pause)
{
	return psprintf("%s was paused by %s at %s (%s)", pause->subject, pause->by, al_words_time(pause->at), al_visible(pause->reason));
}

/* Formats a time. */
char *
al_words_time(TimestampTz at)
{
	pg_time_t	seconds = timestamptz_to_time_t(at);
	struct pg_tm *tm = pg_gmtime(&seconds);
	char		text[64];

	pg_strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", tm);
	return pstrdup(text);
}

/* Says what is remarkable about an outcome. */
char *
al_words_event(const AlOutcome *outcome)
{
	return pstrdup(outcome->ruled
				   ? "the destination says that the key stands for another request there; what became of this one is unknown, and sending it again would only be told the same"
				   : "libcurl was about to send the request a second time; it was stopped");
}

/* Puts a category into words. */
static const char *
category_words(const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool)
{
	static const char *const words[][2] = {
		{"resolve", "the name did not resolve; nothing was sent"},
		{"connect", "no connection; nothing was sent"},
		{"tls", "the TLS handshake failed; nothing was sent"},
		{"proxy", "the proxy refused; nothing was sent"},
		{"timeout_before_send", "timed out before anything was sent"},
		{"aborted_before_send", "stopped before anything was sent"},
		{"local_resources", "out of descriptors or memory here; nothing was sent"},
		{"gate_closed", "the mark was not replicated; nothing was sent"},
		{"bad_request", "the request cannot be sent as it is; mend the definition"},
		{"bad_trust", "CA file or client certificate is unusable; mend the service"},
		{"address_refused", "the address is not allowed for this service; nothing was sent"},
		{"connection_lost", "the connection was lost after the request was sent"},
		{"response_cut", "the answer was cut off"},
		{"response_garbled", "the answer was not HTTP"},
		{"resend_blocked", "the connection died and a hidden re-send was stopped"},
		{"aborted_after_send", "the server stopped while it waited for the answer"},
		{"lease_expired", "its executor has not reported before its lease was over"},
		{"worker_lost", "the server or its worker died while the request may have been under way"},
		{"accepted", "accepted (HTTP 202), not done yet"},
		{"key_in_use", "the first request is still being processed (HTTP 409)"},
		{"body_rule_not_met", "the answer does not say what it should"},
		{"replayed_error", "the destination replays a stored error"}
	};

	if (strcmp(outcome->category, "timeout_after_send") == 0)
		return psprintf("no answer in %g s", (double) tool->def->timeout_ms / 1000);
	if (outcome->ruled)
		return psprintf(outcome->verdict == AL_VERDICT_REJECTED ? "refused with HTTP %d (%s)"
						: outcome->verdict == AL_VERDICT_IN_PROGRESS ? "HTTP %d (%s), not done yet"
						: "HTTP %d (%s), which proves nothing", evidence->status, outcome->category);
	if (outcome->verdict == AL_VERDICT_REJECTED)
		return psprintf("refused with HTTP %d", evidence->status);
	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(outcome->category, words[i][0]) == 0)
			return words[i][1];
	}
	if (evidence->head_complete)
		return psprintf("HTTP %d, which proves nothing", evidence->status);
	return outcome->category;
}

/* Puts into words what a lookup saw. */
static const char *
lookup_words(const AlOutcome *outcome, const AlEvidence *evidence, const AlTool *tool)
{
	static const char *const words[][2] = {
		{"absent", "it is not there, and will not be"},
		{"not_found", "it is not there, which proves nothing yet"},
		{"several", "it is there more than once"},
		{"definition_changed", "the tool was altered while the answer was on its way"},
		{"asked_elsewhere", "it is not there, which proves nothing: the service has another base URL or other headers than when it was sent"},
		{"others_open", "it shows one send as refused, and another may still be executed"},
		{"no_reference", "the answer has no external_ref, so that it may be about something else"},
		{"more_pages", "the answer is one page of several"},
		{"unreadable", "the answer is no JSON of the expected form"},
		{"match_not_an_object", "what match selects is no object"},
		{"body_truncated", "the answer was cut off"},
		{"worker_lost", "the server or its worker died while it looked"},
		{"secret_missing", "a secret is missing"}
	};

	if (outcome->verdict == AL_VERDICT_REJECTED && strcmp(outcome->category, "absent") != 0)
		return psprintf("it is there, and says that it has failed (%s)", outcome->category);
	if (outcome->verdict == AL_VERDICT_IN_PROGRESS)
		return psprintf("it is there, and not done yet (%s)", outcome->category);
	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(outcome->category, words[i][0]) == 0)
			return words[i][1];
	}
	if (evidence->head_complete)
		return psprintf("HTTP %d, which proves nothing", evidence->status);
	return category_words(outcome, evidence, tool);
}

/* Names an action for a sentence. */
static char *
subject_of(const AlStory *story)
{
	const char *target = story->target ? story->target : "";
	const char *summary = story->summary ? story->summary : "";
	const char *about = target[0] != '\0' && strstr(summary, target) == NULL ? psprintf(", %s", target) : "";

	if (summary[0] != '\0')
		return psprintf("Action " INT64_FORMAT " (%s%s)", story->action_id, summary, about);
	return psprintf("Action " INT64_FORMAT " (%s, %s%s)", story->action_id, story->tool, story->identity, about);
}

/* Says what the ledger does about an unknown outcome. */
static char *
next_look(const AlStory *story)
{
	char	   *again;
	char	   *held;

	if (story->cancelled)
		return pstrdup("A cancel was asked for: nothing is sent again, and evidence will decide.");
	switch (story->step)
	{
		case AL_STEP_RESEND:
			again = psprintf("%s%s again", story->external ? "An executor may claim the same request" : "The ledger sends the same request",
							 story->keyed ? " with the same key" : "");
			held = held_words(story, story->pause != NULL);
			if (held != NULL)
				return psprintf("%s %s", again, held);
			return psprintf("%s%s; call actionledger.wait(" INT64_FORMAT ").", again,
							story->next_at > 0 && story->next_at != DT_NOEND ? psprintf(" %s %s", story->external ? "from" : "at", al_words_time(story->next_at)) : "",
							story->action_id);
		case AL_STEP_LOOKUP:
			held = held_words(story, story->pause != NULL && story->pause->lookups);
			if (held != NULL)
				return psprintf("The ledger looks it up at the provider %s", held);
			return psprintf("The ledger looks it up at the provider%s.",
							story->next_at > al_clock_now() && story->next_at != DT_NOEND
							? psprintf(" at %s", al_words_time(story->next_at)) : "");
		case AL_STEP_BLOCKED:
			return pstrdup("A person has to mend something first.");
		default:
			return psprintf("The ledger waits for evidence; call actionledger.wait(" INT64_FORMAT ").", story->action_id);
	}
}

/* Says what holds it and until when, NULL for nothing; paused tells whether a pause is about its next step. */
static char *
held_words(const AlStory *story, bool paused)
{
	if (paused)
		return psprintf("when the pause is lifted: %s.", al_words_pause(story->pause));
	if (held_by_breaker(story))
		return psprintf("when its service has recovered: it failed %d times in a row; the next probe goes at %s.",
						story->breaker_failures, al_words_time(story->breaker_until));
	return NULL;
}
