/*
 * queue.h
 *		The limit on what a service's queue may hold (limits.queued).
 */
#ifndef AL_QUEUE_H
#define AL_QUEUE_H

#include "postgres.h"

#include "errors.h"
#include "registry.h"

/*
 * Whether the queue of a service has room for one more action, which is then
 * taken.  Others' transactions that are open do not count; and in a long queue
 * what was counted holds for a moment.  Needs an AlSession.
 */
extern bool al_queue_take(const AlService *service);

/* Refuse an action for want of room: LG018. */
extern AL_NORETURN void al_queue_refuse(const AlService *service);

#endif							/* AL_QUEUE_H */
