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

/* Make this the ledger's home when it has none yet.  Needs an AlSession. */
extern void al_fence_settle(void);

/*
 * The instance that this is: a digest of what al_fence_check() compares, which
 * actions carry that are prepared here.
 */
extern int64 al_fence_instance(void);

#endif							/* AL_FENCE_H */
