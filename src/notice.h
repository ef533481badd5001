/*
 * notice.h
 *		NOTIFY actionledger: some actions have come to rest.
 */
#ifndef AL_NOTICE_H
#define AL_NOTICE_H

#include "postgres.h"

/* So many outcomes have been committed. */
extern void al_notice_add(int outcomes);

/* Milliseconds until a notice is due, 0 for now; -1: nothing to tell. */
extern long al_notice_wait_ms(void);

/* Tell those who listen, in a transaction of its own; never waits for anybody. */
extern void al_notice_send(void);

#endif							/* AL_NOTICE_H */
