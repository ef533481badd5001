/*
 * rules_sql.c
 *		The deciding code, reachable from SQL.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "canonical.h"
#include "definition.h"
#include "visible.h"
#include "rules/backoff.h"
#include "rules/classify.h"
#include "rules/policy.h"

PG_FUNCTION_INFO_V1(al_sql_classify);
PG_FUNCTION_INFO_V1(al_sql_decide);
PG_FUNCTION_INFO_V1(al_sql_fold);
PG_FUNCTION_INFO_V1(al_sql_fold_lookup);
PG_FUNCTION_INFO_V1(al_sql_backoff);
PG_FUNCTION_INFO_V1(al_sql_retry_after);
PG_FUNCTION_INFO_V1(al_sql_canonical);
PG_FUNCTION_INFO_V1(al_sql_duration);

static const char *const endings[] = {
	[AL_END_OK] = "ok", [AL_END_RESOLVE] = "resolve", [AL_END_CONNECT] = "connect", [AL_END_TLS] = "tls",
	[AL_END_PROXY] = "proxy", [AL_END_TIMEOUT] = "timeout", [AL_END_SEND] = "send", [AL_END_RECEIVE] = "receive",
	[AL_END_PARTIAL] = "partial", [AL_END_GARBLED] = "garbled", [AL_END_RESEND_BLOCKED] = "resend_blocked",
	[AL_END_CAPPED] = "capped", [AL_END_ABORTED] = "aborted", [AL_END_BAD_REQUEST] = "bad_request",
	[AL_END_BAD_TRUST] = "bad_trust", [AL_END_ADDRESS_REFUSED] = "address_refused", [AL_END_LOCAL] = "local",
	[AL_END_GATE_CLOSED] = "gate_closed", [AL_END_WORKER_LOST] = "worker_lost"
};
static const char *const key_states[] = {
	[AL_KEY_NOT_HONOURED] = "not_honoured", [AL_KEY_OPEN] = "open", [AL_KEY_PASSED] = "passed"
};
static const char *const budgets[] = {[AL_BUDGET_OPEN] = "open", [AL_BUDGET_USED_UP] = "used_up"};
static const char *const lookups[] = {
	[AL_LOOKUP_NONE] = "none", [AL_LOOKUP_OPEN] = "open", [AL_LOOKUP_USED_UP] = "used_up"
};
static const char *const stops[] = {
	[AL_STOP_NO] = "no", [AL_STOP_CANCELLED] = "cancelled", [AL_STOP_EXPIRED] = "expired"
};
static const char *const whens[] = {
	[AL_WHEN_NEVER] = "never", [AL_WHEN_NOW] = "now", [AL_WHEN_BACKOFF] = "backoff",
	[AL_WHEN_PROCESSED] = "processed", [AL_WHEN_WINDOW_END] = "window_end",
	[AL_WHEN_APPROVAL_END] = "approval_end"
};

/* Finds a word in a table, raising for any other. */
static int
find_word(const char *word, const char *const *words, int n, const char *what)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; i < n; i++)
	{
		if (strcmp(words[i], word) == 0)
			return i;
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", words[i]);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown %s \"%s\"", what, al_visible(word)),
			 errdetail("There is no %s of that name.", what),
			 errhint("It is one of %s.", known.data)));
}

/* Makes a row of texts and flags for the calling function. */
static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* _classify(ending, prereqs, head_complete, http_status, …) */
Datum
al_sql_classify(PG_FUNCTION_ARGS)
{
	AlEvidence	evidence = {
		.ending = find_word(text_to_cstring(PG_GETARG_TEXT_PP(0)), endings, lengthof(endings), "ending"),
		.prereqs = PG_GETARG_INT32(1),
		.head_complete = PG_GETARG_BOOL(2),
		.status = PG_GETARG_INT32(3),
		.framing_complete = PG_GETARG_BOOL(4),
		.upload_complete = PG_GETARG_BOOL(5),
		.replayed = PG_GETARG_BOOL(6)
	};
	AlContext	context = {
		.key_honoured = PG_GETARG_BOOL(7),
		.earlier_open = PG_GETARG_BOOL(8),
		.body_rule = AL_BODY_RULE_NONE
	};
	AlOutcome	outcome = al_classify(&evidence, &context);
	Datum		values[6];
	bool		nulls[6] = {0};

	values[0] = CStringGetTextDatum(al_verdict_name(outcome.verdict));
	values[1] = CStringGetTextDatum(outcome.category);
	values[2] = BoolGetDatum(outcome.transient);
	values[3] = BoolGetDatum(outcome.configuration);
	values[4] = BoolGetDatum(outcome.conclusive);
	values[5] = BoolGetDatum(outcome.ends_resending);
	return make_row(fcinfo, values, nulls);
}

/* _decide(action_type, known, key_state, budget, lookup, stop, resend) */
Datum
al_sql_decide(PG_FUNCTION_ARGS)
{
	char	   *type = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *known = text_to_cstring(PG_GETARG_TEXT_PP(1));
	AlSituation situation = {.approval = AL_APPROVAL_GIVEN};
	AlDecision	decision;
	Datum		values[4];
	bool		nulls[4] = {0};

	if (!al_type_parse(type, &situation.type) || !al_known_parse(known, &situation.known))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown action type or knowledge"),
				 errdetail("Got \"%s\" and \"%s\".", al_visible(type), al_visible(known)),
				 errhint("See the types actionledger.action_type and actionledger.known.")));
	situation.key = find_word(text_to_cstring(PG_GETARG_TEXT_PP(2)), key_states, lengthof(key_states), "key state");
	situation.budget = find_word(text_to_cstring(PG_GETARG_TEXT_PP(3)), budgets, lengthof(budgets), "budget");
	situation.lookup = find_word(text_to_cstring(PG_GETARG_TEXT_PP(4)), lookups, lengthof(lookups), "lookup");
	situation.stop = find_word(text_to_cstring(PG_GETARG_TEXT_PP(5)), stops, lengthof(stops), "stop");
	situation.resend = PG_GETARG_BOOL(6);
	decision = al_policy_decide(&situation);

	values[0] = CStringGetTextDatum(al_status_name(decision.status));
	values[1] = CStringGetTextDatum(al_step_name(decision.step));
	values[2] = CStringGetTextDatum(whens[decision.when]);
	nulls[3] = decision.error_code == NULL;
	values[3] = nulls[3] ? (Datum) 0 : CStringGetTextDatum(decision.error_code);
	return make_row(fcinfo, values, nulls);
}

/* _fold(action_type, known, verdict, transient, conclusive, ends_resending) */
Datum
al_sql_fold(PG_FUNCTION_ARGS)
{
	AlActionType type;
	AlKnown		known;
	AlOutcome	outcome = {
		.transient = PG_GETARG_BOOL(3),
		.conclusive = PG_GETARG_BOOL(4),
		.ends_resending = PG_GETARG_BOOL(5)
	};

	if (!al_type_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), &type) ||
		!al_known_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)), &known) ||
		!al_verdict_parse(text_to_cstring(PG_GETARG_TEXT_PP(2)), &outcome.verdict))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown action type, knowledge or verdict"),
				 errdetail("One of the three words is none of theirs."),
				 errhint("See the types actionledger.action_type, actionledger.known and actionledger.verdict.")));
	PG_RETURN_TEXT_P(cstring_to_text(al_known_name(al_policy_fold(type, known, &outcome))));
}

/* _fold_lookup(action_type, known, finding, authoritative, processed, never_sent) */
Datum
al_sql_fold_lookup(PG_FUNCTION_ARGS)
{
	AlActionType type;
	AlKnown		known;
	AlSighting	sighting = {
		.authoritative = PG_GETARG_BOOL(3),
		.processed = PG_GETARG_BOOL(4),
		.never_sent = PG_GETARG_BOOL(5)
	};

	if (!al_type_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), &type) ||
		!al_known_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)), &known) ||
		!al_sight_parse(text_to_cstring(PG_GETARG_TEXT_PP(2)), &sighting.finding))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown action type, knowledge or finding"),
				 errdetail("One of the three words is none of theirs."),
				 errhint("A finding is one of nothing_sure, confirmed, rejected, rejected_transient, in_progress, none and several.")));
	PG_RETURN_TEXT_P(cstring_to_text(al_known_name(al_policy_fold_lookup(type, known, &sighting))));
}

/* Gives the milliseconds of an interval. */
static int64
interval_ms(const Interval *interval)
{
	return interval->time / 1000 + (int64) (interval->day + interval->month * DAYS_PER_MONTH) * SECS_PER_DAY * 1000;
}

/* Makes an interval of milliseconds. */
static Interval *
interval_of_ms(int64 ms)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = ms * 1000;
	return interval;
}

/* _backoff(failures, base, cap, unit) */
Datum
al_sql_backoff(PG_FUNCTION_ARGS)
{
	int64		base = interval_ms(PG_GETARG_INTERVAL_P(1));
	int64		cap = interval_ms(PG_GETARG_INTERVAL_P(2));
	float8		unit = PG_GETARG_FLOAT8(3);

	if (base <= 0 || cap <= 0 || !(unit >= 0 && unit < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("base and cap must be positive, and unit in [0, 1)"),
				 errdetail("The delay is base * 2^(failures - 1), at most cap, times 0.5 + unit."),
				 errhint("For the middle of the jitter give 0.5.")));
	PG_RETURN_INTERVAL_P(interval_of_ms(al_backoff_delay_ms(PG_GETARG_INT32(0), base, cap, unit)));
}

/* _retry_after(value, at) */
Datum
al_sql_retry_after(PG_FUNCTION_ARGS)
{
	text	   *value = PG_GETARG_TEXT_PP(0);
	int64		seconds;

	if (!al_retry_after_parse(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value),
							  (int64) timestamptz_to_time_t(PG_GETARG_TIMESTAMPTZ(1)), &seconds))
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) Min(seconds, PG_INT32_MAX));
}

/* _canonical(value) */
Datum
al_sql_canonical(PG_FUNCTION_ARGS)
{
	StringInfoData out;

	initStringInfo(&out);
	al_canonical_append(&out, PG_GETARG_JSONB_P(0));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

/* _duration(value, fallback) */
Datum
al_sql_duration(PG_FUNCTION_ARGS)
{
	int64		ms;

	if (!PG_ARGISNULL(0) && al_duration_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), &ms))
		PG_RETURN_INTERVAL_P(interval_of_ms(ms));
	if (PG_ARGISNULL(1))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(PG_GETARG_DATUM(1));
}
