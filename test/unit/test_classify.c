/*
 * test_classify.c
 *		The verdict of an attempt, over the full product of its evidence.
 *
 * The expectation is the prose of "transport to verdict" and "status to
 * verdict", said as a sequence of questions.  Four counts matter more than the
 * rest and are reported by themselves: not_sent, rejected or confirmed without
 * proof, and unknown where there was proof.
 */
#include <limits.h>
#include <stdlib.h>

#include "rules/classify.h"

#include "tap.h"

#define N_PREREQS 4				/* 0, 1, 2, 3 */
#define N_STATUSES 1000
#define N_BODY_RULES 3

/* What the prose says of an attempt; a flag that it leaves open is ANY. */
typedef enum Flag
{
	NO,
	YES,
	ANY
} Flag;

typedef struct Expected
{
	AlVerdict	verdict;
	Flag		transient;
	Flag		configuration;
	Flag		conclusive;
	Flag		ends_resending;
	Flag		event;
	const char *category;		/* NULL where the prose names none */
} Expected;

static unsigned long wrong_not_sent = 0;
static unsigned long wrong_rejected = 0;
static unsigned long wrong_confirmed = 0;
static unsigned long wrong_in_progress = 0;
static unsigned long needless_unknown = 0;
static unsigned long per_verdict[AL_N_VERDICTS];

static void check_product(void);
static void check_odd_statuses(void);
static void check_observed(void);
static void check_cell(const AlEvidence *e, const AlContext *c);

int
main(void)
{
	check_product();
	check_odd_statuses();
	check_observed();
	return done_testing();
}

/* ---- What the prose says ---- */

static Expected
verdict(AlVerdict v, const char *category)
{
	Expected	x = {v, NO, NO, NO, NO, NO, category};

	return x;
}

static Expected
unknown(const char *category)
{
	return verdict(AL_VERDICT_UNKNOWN, category);
}

static Expected
rejected(const char *category)
{
	return verdict(AL_VERDICT_REJECTED, category);
}

static Expected
try_again(const char *category)
{
	Expected	x = rejected(category);

	x.transient = YES;
	return x;
}

static bool
is_one_of(int status, const int *list)
{
	for (; *list != 0; list++)
	{
		if (*list == status)
			return true;
	}
	return false;
}

/* No request byte left: whatever went wrong is a matter of trying again, unless a person has to mend it. */
static Expected
nothing_left(AlEnding ending)
{
	Expected	x = verdict(AL_VERDICT_NOT_SENT, NULL);

	if (ending == AL_END_BAD_REQUEST || ending == AL_END_BAD_TRUST || ending == AL_END_ADDRESS_REFUSED)
		x.configuration = YES;
	if (ending == AL_END_RESEND_BLOCKED)
		x.event = ANY;
	switch ((int) ending)
	{
		case AL_END_RESOLVE:
			x.category = "resolve";
			break;
		case AL_END_CONNECT:
			x.category = "connect";
			break;
		case AL_END_TLS:
			x.category = "tls";
			break;
		case AL_END_PROXY:
			x.category = "proxy";
			break;
		case AL_END_TIMEOUT:
			x.category = "timeout_before_send";
			break;
		case AL_END_ABORTED:
			x.category = "aborted_before_send";
			break;
		case AL_END_LOCAL:
			x.category = "local_resources";
			break;
		case AL_END_BAD_REQUEST:
			x.category = "bad_request";
			break;
		case AL_END_BAD_TRUST:
			x.category = "bad_trust";
			break;
		case AL_END_ADDRESS_REFUSED:
			x.category = "address_refused";
			break;
	}
	return x;
}

/* The request may have left and no complete head came back. */
static Expected
no_head(AlEnding ending)
{
	switch ((int) ending)
	{
		case AL_END_TIMEOUT:
			return unknown("timeout_after_send");
		case AL_END_ABORTED:
			return unknown("aborted_after_send");
		case AL_END_GARBLED:
			return unknown("response_garbled");
		case AL_END_SEND:
		case AL_END_RECEIVE:
			return unknown("connection_lost");
		case AL_END_OK:
		case AL_END_PARTIAL:
			return unknown("response_cut");
	}
	return unknown(NULL);
}

/* 200 to 299 */
static Expected
success(int status, const AlEvidence *e, const AlContext *c)
{
	Expected	x;

	if (status == 202)
	{
		x = verdict(AL_VERDICT_IN_PROGRESS, "accepted");
		x.conclusive = e->replayed ? ANY : NO;
		return x;
	}
	if (status > 205)
		return unknown("status_ambiguous");
	if (status <= 203 && c->body_rule == AL_BODY_RULE_FAILS)
		return unknown("body_rule_not_met");
	x = verdict(AL_VERDICT_CONFIRMED, e->replayed ? "replayed" : "confirmed");
	x.conclusive = e->replayed ? YES : NO;
	return x;
}

/* 400 to 499, as if it were no replay */
static Expected
client_error(int status, const AlEvidence *e, const AlContext *c)
{
	static const int REFUSED[] = {400, 401, 402, 403, 404, 405, 407, 410, 411, 413, 414, 415, 422, 426, 428, 431, 451, 0};

	if (is_one_of(status, REFUSED))
		return rejected("rejected");
	if (status == 421 || status == 423 || status == 425)
		return try_again("try_later");
	if (status == 429)
		return try_again("throttled");
	if (status == 408 && !e->upload_complete)
		return try_again("request_timeout");
	if (status == 409 && c->key_honoured)
		return verdict(AL_VERDICT_IN_PROGRESS, "key_in_use");
	if ((status == 409 || status == 412) && !c->earlier_open)
		return rejected("rejected");
	return unknown("status_ambiguous");
}

/* 500 to 599, as if it were no replay */
static Expected
server_error(int status)
{
	if (status == 501 || status == 505)
		return rejected("rejected");
	if (status == 511)
		return try_again("try_later");
	return unknown("status_ambiguous");
}

/* The status table. */
static Expected
by_status(const AlEvidence *e, const AlContext *c)
{
	int			status = e->status;
	Expected	x;

	if (status >= 200 && status <= 299)
		return success(status, e, c);
	if (status == 307 || status == 308)
	{
		x = rejected("redirected");
		x.conclusive = e->replayed ? ANY : NO;
		return x;
	}
	if (status >= 400 && status <= 499)
	{
		x = client_error(status, e, c);
		if (e->replayed)
			x.conclusive = x.verdict == AL_VERDICT_REJECTED ? YES : ANY;
		return x;
	}
	if (status >= 500 && status <= 599)
	{
		if (!e->replayed)
			return server_error(status);
		x = unknown("replayed_error");
		x.ends_resending = YES;
		return x;
	}
	return unknown("status_ambiguous");
}

/* Transport first, then the status. */
static Expected
expect(const AlEvidence *e, const AlContext *c)
{
	bool		whole = e->ending == AL_END_OK && e->framing_complete;
	Expected	x;

	if (e->ending == AL_END_GATE_CLOSED || e->ending == AL_END_WORKER_LOST)
	{
		x = e->ending == AL_END_GATE_CLOSED ? verdict(AL_VERDICT_NOT_SENT, "gate_closed") : unknown("worker_lost");
		x.event = e->prereqs >= 2 ? ANY : NO;
		return x;
	}
	if (e->prereqs == 0)
		return nothing_left(e->ending);
	if (e->prereqs >= 2 || e->ending == AL_END_RESEND_BLOCKED)
	{
		x = unknown("resend_blocked");
		x.event = YES;
		return x;
	}
	if (!e->head_complete)
		return no_head(e->ending);
	if (!whole && (c->body_rule != AL_BODY_RULE_NONE || e->status == 400 || e->status == 409 || e->status == 422))
	{
		x = unknown("body_truncated");
		if (e->replayed)
			x.ends_resending = x.conclusive = ANY;
		return x;
	}
	x = by_status(e, c);
	if (!whole && x.verdict == AL_VERDICT_UNKNOWN)
		x.category = NULL;		/* the status or the missing body, both are true */
	if (e->replayed && x.verdict == AL_VERDICT_UNKNOWN && x.ends_resending == NO)
		x.conclusive = ANY;
	return x;
}

/* ---- Judging a cell ---- */

static bool
is_flag(bool got, Flag want)
{
	return want == ANY || got == (want == YES);
}

/* Whether the category is one that classify.h lists for this verdict. */
static bool
is_listed(AlVerdict v, const char *category)
{
	static const char *const LISTED[AL_N_VERDICTS] = {
		[AL_VERDICT_NOT_SENT] = " resolve connect tls proxy timeout_before_send aborted_before_send local_resources gate_closed bad_request bad_trust address_refused ",
		[AL_VERDICT_REJECTED] = " rejected redirected throttled try_later request_timeout ",
		[AL_VERDICT_CONFIRMED] = " confirmed replayed ",
		[AL_VERDICT_IN_PROGRESS] = " accepted key_in_use ",
		[AL_VERDICT_UNKNOWN] = " timeout_after_send connection_lost response_cut response_garbled resend_blocked aborted_after_send worker_lost body_truncated status_ambiguous body_rule_not_met replayed_error key_conflict ",
	};
	char		word[64];

	if (category == NULL || category[0] == '\0')
		return false;
	snprintf(word, sizeof(word), " %s ", category);
	return strstr(LISTED[v], word) != NULL;
}

/* The counts of false certainty and of needless doubt. */
static void
count_error(AlVerdict got, AlVerdict want)
{
	per_verdict[got]++;
	if (got == want)
		return;
	switch (got)
	{
		case AL_VERDICT_NOT_SENT:
			wrong_not_sent++;
			break;
		case AL_VERDICT_REJECTED:
			wrong_rejected++;
			break;
		case AL_VERDICT_CONFIRMED:
			wrong_confirmed++;
			break;
		case AL_VERDICT_IN_PROGRESS:
			wrong_in_progress++;
			break;
		case AL_VERDICT_UNKNOWN:
			needless_unknown++;
			break;
	}
}

/* The evidence in words; one static buffer. */
static const char *
describe(const AlEvidence *e, const AlContext *c)
{
	static char text[256];

	snprintf(text, sizeof(text), "ending %d P %d H %d status %d F %d upload %d replayed %d key %d earlier_open %d body_rule %d",
			 e->ending, e->prereqs, e->head_complete, e->status, e->framing_complete, e->upload_complete, e->replayed,
			 c->key_honoured, c->earlier_open, c->body_rule);
	return text;
}

/* One cell: verdict, flags and category. */
static void
check_cell(const AlEvidence *e, const AlContext *c)
{
	Expected	want = expect(e, c);
	AlOutcome	got = al_classify(e, c);
	bool		same_flags;
	bool		same_category;

	if ((unsigned) got.verdict >= AL_N_VERDICTS)
	{
		tap_cell(false, "%s: verdict %d is none", describe(e, c), got.verdict);
		return;
	}
	count_error(got.verdict, want.verdict);
	same_flags = is_flag(got.transient, want.transient) && is_flag(got.configuration, want.configuration)
		&& is_flag(got.conclusive, want.conclusive) && is_flag(got.ends_resending, want.ends_resending)
		&& is_flag(got.event, want.event);
	same_category = is_listed(got.verdict, got.category) && (want.category == NULL || strcmp(got.category, want.category) == 0);
	tap_cell(got.verdict == want.verdict && same_flags && same_category,
			 "%s: got %s/%s t%d c%d d%d r%d e%d, expected %s/%s t%d c%d d%d r%d e%d", describe(e, c),
			 al_verdict_name(got.verdict), got.category ? got.category : "(null)",
			 got.transient, got.configuration, got.conclusive, got.ends_resending, got.event,
			 al_verdict_name(want.verdict), want.category ? want.category : "*",
			 want.transient, want.configuration, want.conclusive, want.ends_resending, want.event);
}

/* ---- The enumerations ---- */

/* Every status and every combination of the two-valued evidence, for one ending and one P. */
static void
check_ending(AlEnding ending, int prereqs)
{
	for (int status = 0; status < N_STATUSES; status++)
	{
		for (int bits = 0; bits < 64; bits++)
		{
			AlEvidence	e = {0};
			AlContext	c = {0};

			e.ending = ending;
			e.prereqs = prereqs;
			e.status = status;
			e.head_complete = (bits & 1) != 0;
			e.framing_complete = (bits & 2) != 0;
			e.upload_complete = (bits & 4) != 0;
			e.replayed = (bits & 8) != 0;
			c.key_honoured = (bits & 16) != 0;
			c.earlier_open = (bits & 32) != 0;
			for (int rule = 0; rule < N_BODY_RULES; rule++)
			{
				c.body_rule = (AlBodyRule) rule;
				check_cell(&e, &c);
			}
		}
	}
}

/* The full product, and the counts over it. */
static void
check_product(void)
{
	tap_group("ending x P x H x status x F x upload x replayed x key x earlier_open x body rule");
	for (int ending = 0; ending < AL_N_ENDINGS; ending++)
	{
		for (int prereqs = 0; prereqs < N_PREREQS; prereqs++)
			check_ending((AlEnding) ending, prereqs);
	}
	tap_group_end();
	is_int((long long) wrong_not_sent, 0, "wrong not_sent");
	is_int((long long) wrong_rejected, 0, "wrong rejected");
	is_int((long long) wrong_confirmed, 0, "wrong confirmed");
	is_int((long long) wrong_in_progress, 0, "wrong in_progress");
	is_int((long long) needless_unknown, 0, "needless unknown");
	for (int v = 0; v < AL_N_VERDICTS; v++)
		ok(per_verdict[v] > 0, "%s is reached (%lu cells)", al_verdict_name((AlVerdict) v), per_verdict[v]);
}

/* Numbers that no status line can hold are no proof of anything. */
static void
check_odd_statuses(void)
{
	static const int ODD[] = {INT_MIN, -200, -1, 1000, 2000, 20000, INT_MAX};

	tap_group("a status that cannot be is unknown");
	for (size_t i = 0; i < sizeof(ODD) / sizeof(ODD[0]); i++)
	{
		AlEvidence	e = {.ending = AL_END_OK, .prereqs = 1, .head_complete = true, .status = ODD[i],
		.framing_complete = true, .upload_complete = true};
		AlContext	c = {0};

		check_cell(&e, &c);
	}
	tap_group_end();
}

/* One row of evidence as it was really seen, with the verdict that the server's own truth allows. */
typedef struct Observed
{
	const char *story;
	AlEnding	ending;
	int			prereqs;
	bool		head_complete;
	int			status;
	bool		framing_complete;
	AlVerdict	verdict;
} Observed;

/* The endings that the measurements name, spelled out one by one rather than by rule. */
static void
check_observed(void)
{
	static const Observed SEEN[] = {
		{"head cut off by FIN: code OK, status 200", AL_END_OK, 1, false, 200, false, AL_VERDICT_UNKNOWN},
		{"dead reused connection, re-send blocked", AL_END_RESEND_BLOCKED, 2, false, 0, false, AL_VERDICT_UNKNOWN},
		{"couldn't connect on the hidden re-send, executed once", AL_END_CONNECT, 1, false, 0, false, AL_VERDICT_UNKNOWN},
		{"re-send blocked, the second answer is 200", AL_END_OK, 2, true, 200, true, AL_VERDICT_UNKNOWN},
		{"timeout in connect", AL_END_TIMEOUT, 0, false, 0, false, AL_VERDICT_NOT_SENT},
		{"timeout after the full request", AL_END_TIMEOUT, 1, false, 0, false, AL_VERDICT_UNKNOWN},
		{"timeout after 100 Continue", AL_END_TIMEOUT, 1, false, 100, false, AL_VERDICT_UNKNOWN},
		{"reset while connecting", AL_END_RECEIVE, 0, false, 0, false, AL_VERDICT_NOT_SENT},
		{"TLS 1.3 without the client certificate fails after the request", AL_END_TLS, 1, false, 0, false, AL_VERDICT_UNKNOWN},
		{"certificate refused in the handshake", AL_END_TLS, 0, false, 0, false, AL_VERDICT_NOT_SENT},
		{"body broke off after 200", AL_END_PARTIAL, 1, true, 200, false, AL_VERDICT_CONFIRMED},
		{"body broke off after 500", AL_END_PARTIAL, 1, true, 500, false, AL_VERDICT_UNKNOWN},
		{"body broke off after 409", AL_END_PARTIAL, 1, true, 409, false, AL_VERDICT_UNKNOWN},
		{"body ends with the connection, 404", AL_END_OK, 1, true, 404, false, AL_VERDICT_REJECTED},
		{"cap reached after 200", AL_END_CAPPED, 1, true, 200, false, AL_VERDICT_CONFIRMED},
		{"shutdown before the first byte", AL_END_ABORTED, 0, false, 0, false, AL_VERDICT_NOT_SENT},
		{"shutdown in flight", AL_END_ABORTED, 1, false, 0, false, AL_VERDICT_UNKNOWN},
		{"gateway timeout", AL_END_OK, 1, true, 504, true, AL_VERDICT_UNKNOWN},
		{"service unavailable", AL_END_OK, 1, true, 503, true, AL_VERDICT_UNKNOWN},
		{"too many requests", AL_END_OK, 1, true, 429, true, AL_VERDICT_REJECTED},
		{"created", AL_END_OK, 1, true, 201, true, AL_VERDICT_CONFIRMED},
		{"accepted", AL_END_OK, 1, true, 202, true, AL_VERDICT_IN_PROGRESS},
		{"a redirect that was not followed", AL_END_OK, 1, true, 302, true, AL_VERDICT_UNKNOWN},
		{"worker lost before it knew of any byte", AL_END_WORKER_LOST, 0, false, 0, false, AL_VERDICT_UNKNOWN},
		{"mark not replicated", AL_END_GATE_CLOSED, 0, false, 0, false, AL_VERDICT_NOT_SENT},
	};

	for (size_t i = 0; i < sizeof(SEEN) / sizeof(SEEN[0]); i++)
	{
		AlEvidence	e = {.ending = SEEN[i].ending, .prereqs = SEEN[i].prereqs, .head_complete = SEEN[i].head_complete,
			.status = SEEN[i].status, .framing_complete = SEEN[i].framing_complete, .upload_complete = true};
		AlContext	c = {0};

		is_str(al_verdict_name(al_classify(&e, &c).verdict), al_verdict_name(SEEN[i].verdict), SEEN[i].story);
	}
}
