/*
 * test_report.c
 *		What a report from outside counts for, over the full product of its inputs.
 *
 * The expectation is written from the prose of doc/reconciliation.md: one
 * question after the other, sharing nothing with the code but the words.
 */
#include <string.h>

#include "rules/policy.h"
#include "rules/report.h"

#include "tap.h"

#define N_REPORTS (AL_N_REPORTERS * AL_N_VERDICTS * 16)

/* The n-th report of all there are. */
static AlReport
report(int n)
{
	return (AlReport)
	{
		.reporter = (AlReporter) (n / 16 % AL_N_REPORTERS),
		.verdict = (AlVerdict) (n / 16 / AL_N_REPORTERS),
		.transient = (n & 1) != 0,
		.conclusive = (n & 2) != 0,
		.claimed = (n & 4) != 0,
		.one_operation = (n & 8) != 0
	};
}

/* What the prose says that is done with it. */
static AlReportUse
expected(const AlReport *r)
{
	if (r->reporter == AL_REPORTER_HOLDER)
		return AL_REPORT_ENDS_ATTEMPT;
	if (r->verdict == AL_VERDICT_CONFIRMED)
		return AL_REPORT_DECIDES;
	if (r->reporter == AL_REPORTER_LATE)
		return AL_REPORT_NOTED;
	if (r->verdict == AL_VERDICT_IN_PROGRESS)
		return r->claimed ? AL_REPORT_NOTED : AL_REPORT_DECIDES;
	if (r->verdict != AL_VERDICT_REJECTED || r->transient)
		return AL_REPORT_NOTED;
	if (!r->one_operation)
		return AL_REPORT_NOTED;
	return r->claimed ? AL_REPORT_COUNTS : AL_REPORT_DECIDES;
}

/* Every report is used as the prose says, and keeps its verdict. */
static void
check_uses(void)
{
	tap_group("what each report is used for");
	for (int n = 0; n < N_REPORTS; n++)
	{
		AlReport	r = report(n);
		AlOutcome	o;
		AlReportUse use = al_report_weigh(&r, &o);

		tap_cell(use == expected(&r), "report %d (reporter %d, %s): use %d, not %d", n, r.reporter, al_verdict_name(r.verdict), use, expected(&r));
		tap_cell(o.verdict == r.verdict && strcmp(o.category, "reported") == 0 && !o.configuration && !o.event, "report %d keeps its verdict", n);
		tap_cell(o.transient == (r.verdict == AL_VERDICT_REJECTED && r.transient), "report %d: transient %d", n, o.transient);
	}
	tap_group_end();
}

/* Nothing fails an action that may have happened but a refusal for good, told as conclusive. */
static void
check_failures(void)
{
	tap_group("no report makes a failure of what may have happened, but a conclusive refusal");
	for (int n = 0; n < N_REPORTS; n++)
	{
		AlReport	r = report(n);
		AlOutcome	o;
		AlReportUse use = al_report_weigh(&r, &o);

		if (use == AL_REPORT_NOTED)
			continue;
		for (int type = AL_TYPE_IDEMPOTENT; type < AL_N_ACTION_TYPES; type++)
		{
			AlKnown		after = al_policy_fold((AlActionType) type, AL_KNOWN_UNKNOWN, &o);
			bool		settled = !al_policy_is_open(after) && after != AL_KNOWN_CONFIRMED;

			tap_cell(!settled || (r.verdict == AL_VERDICT_REJECTED && o.conclusive), "report %d leaves %s of an unknown outcome", n, al_known_name(after));
		}
	}
	tap_group_end();
}

int
main(void)
{
	check_uses();
	check_failures();
	return done_testing();
}
