/*
 * clock.c
 *		A time of day that can be set, by LD_PRELOAD.
 *
 * AL_CLOCK names a file of eight bytes, a number of microseconds in the byte
 * order of the machine, which is added to the time of day wherever a process
 * asks for it.  The file is mapped: what a test writes holds for every process
 * at once, as when the clock of the machine is set.  Clocks that nobody can set
 * are left alone.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int (*ClockGettime) (clockid_t, struct timespec *);

static int64_t set_by(void);

/* The time of day, by seconds and nanoseconds; other clocks as they are. */
int
clock_gettime(clockid_t clock, struct timespec *now)
{
	static ClockGettime real;
	int			result;

	if (real == NULL)
		real = (ClockGettime) dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
	{
		int64_t		us = (int64_t) now->tv_sec * 1000000 + now->tv_nsec / 1000 + set_by();

		now->tv_nsec = us % 1000000 * 1000 + now->tv_nsec % 1000;
		now->tv_sec = us / 1000000;
	}
	return result;
}

/* The same by microseconds. */
int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

/* The same by seconds. */
time_t
time(time_t *out)
{
	struct timespec at;

	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return (time_t) -1;
	if (out != NULL)
		*out = at.tv_sec;
	return at.tv_sec;
}

/* By how much the clock has been set. */
static int64_t
set_by(void)
{
	static volatile int64_t *shared;

	if (shared == NULL)
	{
		const char *name = getenv("AL_CLOCK");
		int			fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
		void	   *at;

		if (fd < 0)
			return 0;
		at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
		(void) close(fd);
		if (at == MAP_FAILED)
			return 0;
		shared = at;
	}
	return *shared;
}
