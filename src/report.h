/*
 * report.h
 *		What somebody reports of an action, as JSON.
 */
#ifndef AL_REPORT_SQL_H
#define AL_REPORT_SQL_H

#include "postgres.h"
#include "utils/jsonb.h"

/* The external_ref of evidence: a string, cut where an answer's is, or a number of that length; NULL when it has none. */
extern char *al_report_reference(Jsonb *evidence);

#endif							/* AL_REPORT_SQL_H */
