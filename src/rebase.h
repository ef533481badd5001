/*
 * rebase.h
 *		Moves the stored times of live actions when the clock has been set.
 *
 * What was measured (when a request was sent, until when its key is relied on,
 * when to try again) moves with the clock; what people have asked for
 * (not_before, expires_at) is a time of day and stays.
 */
#ifndef AL_REBASE_H
#define AL_REBASE_H

#include "postgres.h"

/*
 * Notice that the clock was set, also while no dispatcher ran, and move the
 * stored times; runs transactions of its own.  False when that failed: the
 * process goes on by its old clock, and the stored times still fit it.
 */
extern bool al_rebase_run(Oid ledger);

/*
 * Keep others from moving times until the transaction ends.  False when the
 * clock was set just now: nothing may be read or written by this clock any more.
 */
extern bool al_rebase_keep_off(void);

/* At a regular look: keep the recorded offset fresh, and see to what could not be moved before. */
extern void al_rebase_look(void);

/* Whether there may be times that could not be moved yet, because sessions had locked their actions. */
extern bool al_rebase_owes(void);

/* Move the times of actions that could not be moved before and are not locked by others; how many. */
extern int	al_rebase_pay(void);

#endif							/* AL_REBASE_H */
