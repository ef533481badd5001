/*
 * clock.c
 *		The ledger's clock.
 */
#include "postgres.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "roster.h"

#ifdef CLOCK_BOOTTIME
#define ELAPSED_CLOCK CLOCK_BOOTTIME
#else
#define ELAPSED_CLOCK CLOCK_MONOTONIC
#endif

#define SAMPLE_TRIES 10
#define SAMPLE_WITHIN_US 1000	/* two clocks read further apart say nothing of each other */
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

static bool settled = false;
static int64 offset_us;			/* from elapsed time to time of day */
static int64 shifted_us;		/* by which it was changed since it was first settled */

/* Reads the clock that nobody can set. */
int64
al_clock_elapsed(void)
{
	struct timespec now;

	if (clock_gettime(ELAPSED_CLOCK, &now) != 0)
		elog(ERROR, "could not read the clock: %m");
	return (int64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Tells the time by which the ledger decides. */
TimestampTz
al_clock_now(void)
{
	int64		offset = settled ? offset_us : al_roster_clock(MyDatabaseId);

	return offset != 0 ? al_clock_elapsed() + offset : GetCurrentTimestamp();
}

/* Follows the drift of the time of day, and notices when it was set. */
bool
al_clock_has_jumped(void)
{
	int64		offset;

	if (!settled)
		return true;
	if (!al_clock_sample(&offset))
		return false;
	if (offset - offset_us > AL_CLOCK_JUMP_US || offset_us - offset > AL_CLOCK_JUMP_US)
		return true;
	offset_us = offset;
	return false;
}

/* Reads both clocks at one moment, as far as the system lets us. */
bool
al_clock_sample(int64 *offset)
{
	for (int i = 0; i < SAMPLE_TRIES; i++)
	{
		int64		before = al_clock_elapsed();
		TimestampTz wall = GetCurrentTimestamp();

		if (al_clock_elapsed() - before <= SAMPLE_WITHIN_US)
		{
			*offset = wall - before;
			return true;
		}
	}
	return false;
}

/* Takes on an offset. */
void
al_clock_settle(int64 offset)
{
	if (settled)
		shifted_us += offset - offset_us;
	offset_us = offset;
	settled = true;
}

/* Gives the offset at hand. */
int64
al_clock_offset(void)
{
	return settled ? offset_us : 0;
}

/* Tells by how much this process has changed its clock. */
int64
al_clock_shifted(void)
{
	return shifted_us;
}

/* Names this boot of the machine. */
const char *
al_clock_boot(void)
{
	static char boot[64];

	if (boot[0] == '\0')
	{
		int			fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
		ssize_t		len = fd >= 0 ? read(fd, boot, sizeof(boot) - 1) : 0;

		if (fd >= 0)
			(void) close(fd);
		boot[Max(len, 0)] = '\0';
		boot[strcspn(boot, "\n")] = '\0';
	}
	return boot[0] != '\0' ? boot : NULL;
}
