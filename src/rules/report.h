/*
 * report.h
 *		What a report from outside counts for: a provider's callback, a person's
 *		finding, an outside executor's result.
 *
 * Pure C, libc only.  The weighing is done here, the deciding by the state
 * machine (policy.h) as for every other outcome.
 */
#ifndef AL_REPORT_H
#define AL_REPORT_H

#include "classify.h"

/* Who reports. */
typedef enum AlReporter
{
	AL_REPORTER_OUTSIDE,		/* speaks of the operation as a whole */
	AL_REPORTER_HOLDER,			/* the executor that has the action now: ends its own attempt */
	AL_REPORTER_LATE			/* an executor that had it once */
} AlReporter;
#define AL_N_REPORTERS 3

/* What the ledger does with the report, besides keeping it. */
typedef enum AlReportUse
{
	AL_REPORT_NOTED,			/* nothing */
	AL_REPORT_COUNTS,			/* it is known now; the send under way decides together with it */
	AL_REPORT_DECIDES,			/* it is folded, and the state machine decides */
	AL_REPORT_ENDS_ATTEMPT		/* the same, as the end of the open attempt */
} AlReportUse;

typedef struct AlReport
{
	AlReporter	reporter;
	AlVerdict	verdict;
	bool		transient;		/* rejected: may be accepted later, they say */
	bool		conclusive;		/* rejected: decides for all earlier attempts, the holder says */
	bool		claimed;		/* an attempt is open */
	bool		one_operation;	/* all sends are one operation there (an honoured key), or there was but one */
} AlReport;

/*
 * Weigh a report.
 *
 * The holder's ends its attempt, as an answer does.  Anybody's confirmed
 * decides.  From outside, a refusal for good is conclusive: it did not happen
 * and will not; with a send open it counts towards that send's end.  Where the
 * sends may be operations of their own it speaks of one of them, and is noted.
 * in_progress decides when no send is open.
 * The rest is noted: unknown says nothing, a transient refusal is for who can
 * try again, and what an executor says after it has lost the action is evidence
 * for a person.
 */
extern AlReportUse al_report_weigh(const AlReport *report, AlOutcome *outcome);

#endif							/* AL_REPORT_H */
