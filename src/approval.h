/*
 * approval.h
 *		Which actions wait for a person, and for whom.
 */
#ifndef AL_APPROVAL_H
#define AL_APPROVAL_H

#include "postgres.h"
#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "registry.h"

/* What an action waits for. */
typedef struct AlApprovalNeed
{
	char	   *reason;			/* NULL: nothing */
	char	   *by;				/* role whose members may approve; NULL: the owner, or an operator */
	TimestampTz until;
} AlApprovalNeed;

/*
 * Find out whether an action with these arguments has to be approved: asked_for
 * is why its proposer wants that (NULL: does not).  Needs an AlSession.
 */
extern AlApprovalNeed al_approval_need(const AlTool *tool, Jsonb *args, const char *asked_for, TimestampTz now);

/* Who approves, in words: "finance", "payments or an operator", "an operator". */
extern char *al_approval_by_whom(const char *approver, const char *owner);

#endif							/* AL_APPROVAL_H */
