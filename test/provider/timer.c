/*
 * timer.c
 *		Timers on the monotonic clock, kept in a heap.
 */
#include <stdio.h>
#include <stdlib.h>

#include "timer.h"
#include "truth.h"

static void move_up(size_t place);
static void move_down(size_t place);
static void put(size_t place, Timer *timer);

static Timer **Heap;			/* places 1 to Count */
static size_t Count;
static size_t Cap;

/* Sets a timer that is not set. */
void
timer_set(Timer *timer, int64_t delay_ms, void (*fire) (void *owner), void *owner)
{
	if (Count + 1 >= Cap)
	{
		Cap = Cap > 0 ? Cap * 2 : 256;
		Heap = realloc(Heap, Cap * sizeof(*Heap));
		if (Heap == NULL)
		{
			fprintf(stderr, "provider: out of memory\n");
			exit(2);
		}
	}
	timer->due = mono_us() + delay_ms * 1000;
	timer->fire = fire;
	timer->owner = owner;
	put(++Count, timer);
	move_up(Count);
}

/* Takes a timer out; one that is not set stays so. */
void
timer_cancel(Timer *timer)
{
	size_t		place = timer->place;
	Timer	   *last;

	if (place == 0)
		return;
	timer->place = 0;
	last = Heap[Count--];
	if (last == timer)
		return;
	put(place, last);
	move_up(place);
	move_down(last->place);
}

/* Returns how long to wait for the next timer, -1 without one. */
int
timer_wait_ms(void)
{
	int64_t		left;

	if (Count == 0)
		return -1;
	left = Heap[1]->due - mono_us();
	if (left <= 0)
		return 0;
	return left > 3600000000LL ? 3600000 : (int) ((left + 999) / 1000);
}

/* Fires what is due; what is set meanwhile waits for the next turn. */
void
timer_run(void)
{
	int64_t		now;

	if (Count == 0)
		return;
	now = mono_us();
	while (Count > 0 && Heap[1]->due <= now)
	{
		Timer	   *timer = Heap[1];

		timer_cancel(timer);
		timer->fire(timer->owner);
	}
}

/* Restores the order towards the root. */
static void
move_up(size_t place)
{
	Timer	   *timer = Heap[place];

	for (; place > 1 && Heap[place / 2]->due > timer->due; place /= 2)
		put(place, Heap[place / 2]);
	put(place, timer);
}

/* Restores the order towards the leaves. */
static void
move_down(size_t place)
{
	Timer	   *timer = Heap[place];

	while (place * 2 <= Count)
	{
		size_t		child = place * 2;

		if (child < Count && Heap[child + 1]->due < Heap[child]->due)
			child++;
		if (Heap[child]->due >= timer->due)
			break;
		put(place, Heap[child]);
		place = child;
	}
	put(place, timer);
}

/* Puts a timer at a place. */
static void
put(size_t place, Timer *timer)
{
	Heap[place] = timer;
	timer->place = place;
}
