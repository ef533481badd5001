/*
 * wakeup.h
 *		Wake the dispatcher when, and only when, the transaction commits.
 */
#ifndef AL_WAKEUP_H
#define AL_WAKEUP_H

#include "postgres.h"
#include "datatype/timestamp.h"

/*
 * Note that this (sub)transaction has made something due at a time (DT_NOEND:
 * has decided something that makes nothing due).  Follows
 * subtransactions, is dropped at PREPARE TRANSACTION (the poll finds what
 * COMMIT PREPARED brings), and raises synchronous_commit to "on" for the
 * commit: what was decided here must survive a crash.
 */
extern void al_wakeup_at_commit(TimestampTz due_at);

/* Install the transaction callbacks; once per process. */
extern void al_wakeup_install(void);

#endif							/* AL_WAKEUP_H */
