/*
 * timer.h
 *		Timers on the monotonic clock, kept in a heap.
 */
#ifndef PROVIDER_TIMER_H
#define PROVIDER_TIMER_H

#include <stddef.h>
#include <stdint.h>

typedef struct Timer
{
	int64_t		due;			/* microseconds, mono_us() */
	size_t		place;			/* in the heap, from 1; 0: not set */
	void		(*fire) (void *owner);
	void	   *owner;
} Timer;

extern void timer_set(Timer *timer, int64_t delay_ms, void (*fire) (void *owner), void *owner);
extern void timer_cancel(Timer *timer);
extern int	timer_wait_ms(void);
extern void timer_run(void);

#endif							/* PROVIDER_TIMER_H */
