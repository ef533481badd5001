/*
 * check.h
 *		Business checks: functions of the application that look at a proposal.
 */
#ifndef AL_CHECK_H
#define AL_CHECK_H

#include "postgres.h"

#include "option.h"
#include "prepare.h"
#include "refusal.h"
#include "session.h"

/* What a check said. */
typedef struct AlCheckAnswer
{
	char	   *code;			/* NULL: it has no objection */
	char	   *message;
} AlCheckAnswer;

/* Raise LG015 unless a tool's check is "schema.function" and takes and returns what it should; for who creates the tool. */
extern void al_check_definition(const AlToolDef *def);

/*
 * Run a tool's check on a proposal with the rights of who proposes, outside of
 * the session.  Returns NULL, or LG015 when it is not there or what it returns
 * means nothing.  What it raises passes through.
 */
extern AlRefusal *al_check_run(const AlProposal *proposal, const char *identity,
							   AlSession *session, AlCheckAnswer *answer);

/* LG006 with what a check said. */
extern AlRefusal *al_check_refusal(const AlTool *tool, const AlCheckAnswer *answer);

#endif							/* AL_CHECK_H */
