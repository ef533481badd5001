/*
 * answer.h
 *		Reading an answer as the tool's definition tells: outcome rules,
 *		reference, result; whatever the answer's bytes are.
 */
#ifndef AL_ANSWER_H
#define AL_ANSWER_H

#include "postgres.h"

#include "registry.h"
#include "wire/wire.h"

#define AL_EXTERNAL_REF_MAX 255 /* bytes kept of a reference */

/* What an answer says. */
typedef struct AlAnswer
{
	const AlRule *rule;			/* the first outcome rule that holds, or NULL */
	AlBodyRule	body_rule;		/* fails when a rule that would have confirmed it does not hold */
	bool		unreadable;		/* a rule has to see the body, and there is none that it can read */
	char	   *external_ref;	/* NULL: none */
	Datum		result;			/* jsonb; 0: none */
} AlAnswer;

/*
 * Read an answer whose head is complete.  The rules are tried in order; one
 * with a condition on a body that is incomplete, or no JSON that this database
 * can hold, makes the answer unreadable instead of being passed over.  Never
 * raises: the body is read in a subtransaction of its own.
 */
extern void al_answer_read(const AlTool *tool, const AlWireResult *result, AlAnswer *answer);

/*
 * The pieces of that, for a reader who guards them: they raise for what cannot
 * be read.  A document is NULL where there is none to be judged; vars are the
 * variables of a path, or NULL.
 */
/* false, leaving *document as it is: the body is none */
extern bool al_answer_document(const AlWireResult *result, Datum *document);
extern void al_answer_choose(List *rules, const AlWireResult *result, const Datum *document, AlAnswer *answer);
extern void al_answer_extract(const AlTool *tool, Datum document, AlAnswer *answer);
extern bool al_answer_fits(const AlRule *rule, const AlWireResult *result, const Datum *document);
extern Jsonb *al_answer_first(Datum document, const char *path, Jsonb *vars);

#endif							/* AL_ANSWER_H */
