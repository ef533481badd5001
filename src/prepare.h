/*
 * prepare.h
 *		From a valid proposal to a prepared action.
 */
#ifndef AL_PREPARE_H
#define AL_PREPARE_H

#include "postgres.h"
#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "refusal.h"
#include "registry.h"
#include "schema.h"
#include "words.h"

/* What a caller asks for. */
typedef struct AlProposal
{
	char	   *tool_name;		/* NULL: none was given */
	const AlTool *tool;			/* NULL: not found yet, or not there */
	Jsonb	   *args;			/* NULL: none were given */
	Jsonb	   *options;		/* NULL: none */
	char	   *identity;		/* NULL: from the tool's template or the arguments */
	char	   *run_id;			/* NULL: none */
	int			step;
	bool		has_step;
	TimestampTz not_before;		/* 0: at once */
	TimestampTz expires_at;		/* 0: never */
	int			priority;		/* 1, 0 or -1 */
	bool		refuse_unavailable; /* raise LG019 while the service's breaker is open */
	char	   *actor;			/* NULL: none */
	Jsonb	   *meta;			/* NULL: none */
	const char *approval_reason;	/* why its proposer wants a person to approve it; NULL: does not */
	Oid			requester;
	Oid			session_user;
} AlProposal;

/* Which action stands for it. */
typedef struct AlPrepared
{
	bool		created;
	AlStory		story;
} AlPrepared;

/*
 * Read the options of perform() into a proposal.  on_error_skip: where
 * perform_many's on_error may be given; NULL: not allowed.  Returns a list of
 * AlFinding * for what cannot be read, NIL when all is well.
 */
extern List *al_prepare_options(AlProposal *proposal, Jsonb *options, bool *on_error_skip);

/*
 * Refuse (LG004) a proposal whose expires_at is over, or not after its
 * not_before; NULL when it can be sent.  What stands for it already is not asked.
 */
extern AlRefusal *al_prepare_expiry(const AlProposal *proposal);

/*
 * Find the identity of a proposal: explicit, from the tool's template, or the
 * tool's name and the hash of the canonical arguments.  Raises LG008.
 */
extern char *al_prepare_identity(const AlTool *tool, const AlProposal *proposal);

/*
 * Find the action that has this identity, without waiting for anybody; false
 * when there is none to be seen.  Raises LG007 for other arguments.  Needs an
 * AlSession.
 */
extern bool al_prepare_known(const AlTool *tool, const AlProposal *proposal, char *identity, AlPrepared *prepared);

/*
 * Record the action, or find the one that has this identity.  Waits for another
 * open transaction with the same identity up to actionledger.identity_wait.
 * Raises LG007 for other arguments, LG009 for what is too large, LG019 for an
 * identity that stays held.  Needs an AlSession.
 */
extern AlPrepared al_prepare(const AlTool *tool, const AlProposal *proposal, char *identity);

#endif							/* AL_PREPARE_H */
