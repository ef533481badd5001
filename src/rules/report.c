/*
 * report.c
 *		Weighing a report from outside.
 */
#include "report.h"

static AlReportUse weigh_outside(const AlReport *report, AlOutcome *outcome);

/* Says what a report counts for, and as which outcome. */
AlReportUse
al_report_weigh(const AlReport *report, AlOutcome *outcome)
{
	*outcome = (AlOutcome)
	{
		.verdict = report->verdict,
		.transient = report->verdict == AL_VERDICT_REJECTED && report->transient,
		.category = "reported"
	};
	switch (report->reporter)
	{
		case AL_REPORTER_HOLDER:
			outcome->conclusive = report->verdict == AL_VERDICT_REJECTED && report->conclusive;
			return AL_REPORT_ENDS_ATTEMPT;
		case AL_REPORTER_LATE:
			return report->verdict == AL_VERDICT_CONFIRMED ? AL_REPORT_DECIDES : AL_REPORT_NOTED;
		case AL_REPORTER_OUTSIDE:
			break;
	}
	return weigh_outside(report, outcome);
}

/* Weighs what speaks of the operation as a whole. */
static AlReportUse
weigh_outside(const AlReport *report, AlOutcome *outcome)
{
	switch (report->verdict)
	{
		case AL_VERDICT_CONFIRMED:
			return AL_REPORT_DECIDES;
		case AL_VERDICT_REJECTED:
			if (report->transient || !report->one_operation)
				return AL_REPORT_NOTED;
			outcome->conclusive = true;
			return report->claimed ? AL_REPORT_COUNTS : AL_REPORT_DECIDES;
		case AL_VERDICT_IN_PROGRESS:
			return report->claimed ? AL_REPORT_NOTED : AL_REPORT_DECIDES;
		case AL_VERDICT_NOT_SENT:
		case AL_VERDICT_UNKNOWN:
			break;
	}
	return AL_REPORT_NOTED;
}
