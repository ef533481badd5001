/*
 * fence.h
 *		A copy of a database sends nothing until an operator says so.
 */
#ifndef AL_FENCE_H
#define AL_FENCE_H

#include "postgres.h"
#include "utils/uuid.h"

/*
 * Compare this cluster with the one that the ledger was sending from: system
 * identifier, database OID, timeline, inode of global/pg_control.  A ledger
 * that has never sent takes this cluster as its home.  Returns NULL when this
 * is home, else a palloc'ed text that says what differs, and in either case the
 * ledger's namespace.  Needs an AlSession.
 */
extern char *al_fence_check(pg_uuid_t *namespace_id);

#endif							/* AL_FENCE_H */
