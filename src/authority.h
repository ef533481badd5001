/*
 * authority.h
 *		Who may do what.
 */
#ifndef AL_AUTHORITY_H
#define AL_AUTHORITY_H

#include "postgres.h"
#include "nodes/pg_list.h"

/* The role that owns the ledger's tables.  Raises when the extension is not there. */
extern Oid	al_owner_role(void);

/* The name of a role, palloc'ed; "(dropped)" for one that is gone. */
extern char *al_role_name(Oid role);

/* Whether a role is, or is a member of, the role of that name; false for a name that is none. */
extern bool al_role_is(Oid role, const char *name);

/* An operator may decide about any action: whoever may execute actionledger.resolve. */
extern bool al_is_operator(Oid role);

/* An administrator defines tools: whoever may execute actionledger.create_tool. */
extern bool al_is_administrator(Oid role);

/*
 * Whether a role is a pooled one, behind which are persons or agents that it
 * names as actor: whoever may execute actionledger.speak_for_others.
 */
extern bool al_speaks_for_others(Oid role);

/* Whether a role may see an action: its requester, the tool's owner, an operator. */
extern bool al_may_see(Oid role, const char *requested_by, const char *owner);

#endif							/* AL_AUTHORITY_H */
