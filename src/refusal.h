/*
 * refusal.h
 *		Why a proposal was not recorded: one structure, rendered as an error
 *		(perform) or as the envelope (try_perform).
 */
#ifndef AL_REFUSAL_H
#define AL_REFUSAL_H

#include "postgres.h"
#include "nodes/pg_list.h"

#include "errors.h"
#include "schema.h"

typedef struct AlRefusal
{
	int			sqlstate;		/* of class LG */
	char	   *message;
	char	   *detail;			/* NULL: the findings say it */
	char	   *hint;			/* what to do next, besides what the findings suggest */
	List	   *findings;		/* of AlFinding *: all of the stage that refused */
	List	   *left_out;		/* of char *: what the findings do not show, and why */
} AlRefusal;

/* Make a refusal; the texts are not copied. */
extern AlRefusal *al_refusal_make(int sqlstate, char *message, char *detail, char *hint, List *findings);

/* Raise it as an error. */
extern AL_NORETURN void al_refuse(const AlRefusal *refusal);

/* Whether an error is a refusal: one of class LG. */
extern bool al_is_refusal(int sqlstate);

/* Make a refusal of such an error. */
extern AlRefusal *al_refusal_of(const ErrorData *error);

/* The name of a refusal's SQLSTATE: "unknown_tool". */
extern const char *al_refusal_code(int sqlstate);

/* What the caller does about it: correct, approve, verify, wait, escalate or stop. */
extern const char *al_refusal_advice(int sqlstate);

/* DETAIL and HINT as sentences; palloc'ed, NULL for none. */
extern char *al_refusal_detail(const AlRefusal *refusal);
extern char *al_refusal_hint(const AlRefusal *refusal);

/* The whole of it as an observation. */
extern char *al_refusal_observation(const AlRefusal *refusal);

#endif							/* AL_REFUSAL_H */
