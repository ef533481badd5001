/*
 * gate.h
 *		Whether what has just been committed may be acted upon.
 */
#ifndef AL_GATE_H
#define AL_GATE_H

#include "postgres.h"
#include "access/xlogdefs.h"

/*
 * After the commit of a mark: whether the commit is as durable as promised.
 * With synchronous replication on, a cancelled wait leaves only a WARNING, and
 * emptying synchronous_standby_names releases a waiter without one; so the
 * released flush position must cover the commit, and at least
 * actionledger.min_sync_standbys standbys must have flushed it.
 */
extern bool al_gate_is_open(XLogRecPtr commit_end);

/* NULL, or why this server must not send at all (fsync off, …); static text. */
extern const char *al_gate_refusal(void);

/*
 * Why the ledger's tables forbid any sending, palloc'ed, or NULL: an unlogged
 * table does not survive a crash.  Needs a transaction.
 */
extern char *al_gate_table_refusal(void);

#endif							/* AL_GATE_H */
