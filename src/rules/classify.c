/*
 * classify.c
 *		What one attempt proves, read from its evidence.
 *
 * Three questions in this order: did anything leave, did an answer arrive, and
 * what does the answer say.  The last is a table of the 1,000 statuses.  Only
 * not_sent and rejected need proof to be given; all that falls through is
 * unknown.
 */
#include <stddef.h>

#include "classify.h"

/* What a status needs besides its number to be read. */
typedef enum Reading
{
	PLAIN,						/* nothing: the row is the answer */
	BODY_RULE,					/* the tool's body rule */
	BODY_SENT,					/* whether our request body was complete (408) */
	KEY_IN_USE,					/* whether our key is honoured (409) */
	FIRST_ONLY					/* whether an earlier attempt is open (412) */
} Reading;

typedef struct StatusRow
{
	int			first;
	int			last;
	Reading		reading;
	AlVerdict	verdict;
	bool		transient;
	const char *category;
} StatusRow;

/*
 * From status to verdict, every status from 0 to 999 once and in order.  The
 * defaults of RFC 9110 section 15 and RFC 6585 for a caller that must not
 * guess: a status that does not say whether the request took effect is
 * unknown.  A tool's outcome rules come before this table.
 */
static const StatusRow status_table[] = {
	{0, 199, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{200, 201, BODY_RULE, AL_VERDICT_CONFIRMED, false, "confirmed"},
	{202, 202, PLAIN, AL_VERDICT_IN_PROGRESS, false, "accepted"},
	{203, 203, BODY_RULE, AL_VERDICT_CONFIRMED, false, "confirmed"},
	{204, 205, PLAIN, AL_VERDICT_CONFIRMED, false, "confirmed"},
	{206, 306, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{307, 308, PLAIN, AL_VERDICT_REJECTED, false, "redirected"},
	{309, 399, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{400, 405, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{406, 406, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{407, 407, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{408, 408, BODY_SENT, AL_VERDICT_REJECTED, true, "request_timeout"},
	{409, 409, KEY_IN_USE, AL_VERDICT_REJECTED, false, "rejected"},
	{410, 411, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{412, 412, FIRST_ONLY, AL_VERDICT_REJECTED, false, "rejected"},
	{413, 415, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{416, 420, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{421, 421, PLAIN, AL_VERDICT_REJECTED, true, "try_later"},
	{422, 422, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{423, 423, PLAIN, AL_VERDICT_REJECTED, true, "try_later"},
	{424, 424, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{425, 425, PLAIN, AL_VERDICT_REJECTED, true, "try_later"},
	{426, 426, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{427, 427, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{428, 428, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{429, 429, PLAIN, AL_VERDICT_REJECTED, true, "throttled"},
	{430, 430, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{431, 431, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{432, 450, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{451, 451, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{452, 500, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{501, 501, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{502, 504, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{505, 505, PLAIN, AL_VERDICT_REJECTED, false, "rejected"},
	{506, 510, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
	{511, 511, PLAIN, AL_VERDICT_REJECTED, true, "try_later"},
	{512, 999, PLAIN, AL_VERDICT_UNKNOWN, false, "status_ambiguous"},
};

static AlOutcome not_sent(AlEnding ending);
static AlOutcome no_answer(AlEnding ending);
static AlOutcome ruled(const AlEvidence *evidence, const AlOutcome *rule);
static AlOutcome answered(const AlEvidence *evidence, const AlContext *context);
static AlOutcome read_status(const AlEvidence *evidence, const AlContext *context);
static AlOutcome read_replay(AlOutcome outcome, int status);
static const StatusRow *find_row(int status);
static AlOutcome from_row(const StatusRow *row);
static AlOutcome unknown(const char *category);

/* Gives the verdict of an attempt. */
AlOutcome
al_classify(const AlEvidence *evidence, const AlContext *context)
{
	AlOutcome	outcome;

	if (evidence->ending == AL_END_WORKER_LOST)
		return unknown("worker_lost");
	if (evidence->ending == AL_END_GATE_CLOSED || evidence->prereqs <= 0)
		return not_sent(evidence->ending);

	/* The second transmission was stopped, yet nobody knows what the first did. */
	if (evidence->prereqs >= 2 || evidence->ending == AL_END_RESEND_BLOCKED)
	{
		outcome = unknown("resend_blocked");
		outcome.event = true;
		return outcome;
	}
	if (!evidence->head_complete)
		return no_answer(evidence->ending);
	if (context->rule != NULL)
		return ruled(evidence, context->rule);
	if (context->unreadable)
		return unknown(evidence->framing_complete ? "body_rule_not_met" : "body_truncated");
	return answered(evidence, context);
}

/* Gives what the tool's rule says; a replay says it for the operation, not for the attempt. */
static AlOutcome
ruled(const AlEvidence *evidence, const AlOutcome *rule)
{
	AlOutcome	outcome = *rule;

	outcome.ruled = true;
	if (!evidence->replayed)
		return outcome;
	switch (rule->verdict)
	{
		case AL_VERDICT_CONFIRMED:
		case AL_VERDICT_REJECTED:
			outcome.conclusive = true;
			break;
		case AL_VERDICT_UNKNOWN:
			outcome.ends_resending = true;
			break;
		case AL_VERDICT_IN_PROGRESS:
		case AL_VERDICT_NOT_SENT:
			break;
	}
	return outcome;
}

/* Gives the outcome of an attempt of which nothing left. */
static AlOutcome
not_sent(AlEnding ending)
{
	AlOutcome	outcome = {.verdict = AL_VERDICT_NOT_SENT, .category = "connect"};

	switch (ending)
	{
		case AL_END_RESOLVE:
			outcome.category = "resolve";
			break;
		case AL_END_TLS:
			outcome.category = "tls";
			break;
		case AL_END_PROXY:
			outcome.category = "proxy";
			break;
		case AL_END_TIMEOUT:
			outcome.category = "timeout_before_send";
			break;
		case AL_END_ABORTED:
		case AL_END_RESEND_BLOCKED:
			outcome.category = "aborted_before_send";
			break;
		case AL_END_LOCAL:
			outcome.category = "local_resources";
			break;
		case AL_END_GATE_CLOSED:
			outcome.category = "gate_closed";
			break;
		case AL_END_BAD_REQUEST:
			outcome.category = "bad_request";
			outcome.configuration = true;
			break;
		case AL_END_BAD_TRUST:
			outcome.category = "bad_trust";
			outcome.configuration = true;
			break;
		case AL_END_ADDRESS_REFUSED:
			outcome.category = "address_refused";
			outcome.configuration = true;
			break;
		case AL_END_OK:
		case AL_END_CONNECT:
		case AL_END_SEND:
		case AL_END_RECEIVE:
		case AL_END_PARTIAL:
		case AL_END_GARBLED:
		case AL_END_CAPPED:
		case AL_END_WORKER_LOST:
			break;
	}
	return outcome;
}

/* Gives the outcome of an attempt that left and has no complete response head. */
static AlOutcome
no_answer(AlEnding ending)
{
	switch (ending)
	{
		case AL_END_TIMEOUT:
			return unknown("timeout_after_send");
		case AL_END_ABORTED:
			return unknown("aborted_after_send");
		case AL_END_GARBLED:
			return unknown("response_garbled");
		case AL_END_OK:			/* a head cut off by FIN ends like this */
		case AL_END_PARTIAL:
		case AL_END_CAPPED:
			return unknown("response_cut");
		case AL_END_RESEND_BLOCKED:
			return unknown("resend_blocked");
		case AL_END_WORKER_LOST:
			return unknown("worker_lost");
		case AL_END_RESOLVE:
		case AL_END_CONNECT:
		case AL_END_TLS:
		case AL_END_PROXY:
		case AL_END_SEND:
		case AL_END_RECEIVE:
		case AL_END_BAD_REQUEST:
		case AL_END_BAD_TRUST:
		case AL_END_ADDRESS_REFUSED:
		case AL_END_LOCAL:
		case AL_END_GATE_CLOSED:
			break;
	}
	return unknown("connection_lost");
}

/* Reads an answer whose head is complete, if its body is complete where that matters. */
static AlOutcome
answered(const AlEvidence *evidence, const AlContext *context)
{
	bool		complete = evidence->ending == AL_END_OK && evidence->framing_complete;
	bool		needs_body = context->body_rule != AL_BODY_RULE_NONE ||
		evidence->status == 400 || evidence->status == 409 || evidence->status == 422;
	AlOutcome	outcome;

	if (!complete && needs_body)
		return unknown("body_truncated");

	outcome = read_status(evidence, context);
	if (evidence->replayed)
		outcome = read_replay(outcome, evidence->status);
	return outcome;
}

/* Reads a status in its context. */
static AlOutcome
read_status(const AlEvidence *evidence, const AlContext *context)
{
	const StatusRow *row = find_row(evidence->status);

	if (row == NULL)
		return unknown("status_ambiguous");

	switch (row->reading)
	{
		case PLAIN:
			break;
		case BODY_RULE:
			if (context->body_rule == AL_BODY_RULE_FAILS)
				return unknown("body_rule_not_met");
			break;
		case BODY_SENT:
			if (evidence->upload_complete)
				return unknown("status_ambiguous");
			break;
		case KEY_IN_USE:
			if (context->key_honoured)
				return (AlOutcome) {.verdict = AL_VERDICT_IN_PROGRESS, .category = "key_in_use"};
			if (context->earlier_open)
				return unknown("status_ambiguous");
			break;
		case FIRST_ONLY:
			if (context->earlier_open)
				return unknown("status_ambiguous");
			break;
	}
	return from_row(row);
}

/*
 * Reads the service's replay marker: the answer is the one that an earlier
 * attempt with this key got, so it speaks for that attempt too.  A stored 5xx
 * says what it said then, and will for ever.
 */
static AlOutcome
read_replay(AlOutcome outcome, int status)
{
	if (status >= 500 && status <= 599)
	{
		outcome = unknown("replayed_error");
		outcome.ends_resending = true;
	}
	else if (outcome.verdict != AL_VERDICT_UNKNOWN &&
			 ((status >= 200 && status <= 299) || (status >= 400 && status <= 499)))
	{
		outcome.conclusive = true;
		if (outcome.verdict == AL_VERDICT_CONFIRMED)
			outcome.category = "replayed";
	}
	return outcome;
}

/* Finds the row of a status, or NULL for a number that is none. */
static const StatusRow *
find_row(int status)
{
	for (size_t i = 0; i < sizeof(status_table) / sizeof(status_table[0]); i++)
	{
		if (status >= status_table[i].first && status <= status_table[i].last)
			return &status_table[i];
	}
	return NULL;
}

/* Makes an outcome of a row. */
static AlOutcome
from_row(const StatusRow *row)
{
	return (AlOutcome) {
		.verdict = row->verdict,
		.transient = row->transient,
		.category = row->category
	};
}

/* Makes an unknown outcome. */
static AlOutcome
unknown(const char *category)
{
	return (AlOutcome) {.verdict = AL_VERDICT_UNKNOWN, .category = category};
}
