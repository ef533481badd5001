/*
 * truth.c
 *		The provider's own record of what it received, did and answered.
 *
 * A write that fails ends the process: an answer without its truth would make
 * every check that relies on the file worthless.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

static int64_t clock_us(clockid_t clock);
static void fail(const char *what);

TruthCounts Truth;

static int	TruthFd = -1;
static const char *TruthPath;	/* the caller's */
static bool TruthSync;
static bool TruthUnsynced;
static uint64_t TruthSeq;
static Buf	TruthLines;

static const Slice EventNames[] = {
	[TRUTH_RECEIVED] = {"received", 8},
	[TRUTH_EXECUTED] = {"executed", 8},
	[TRUTH_REPLAYED] = {"replayed", 8},
	[TRUTH_ANSWERED] = {"answered", 8},
	[TRUTH_CLOSED] = {"closed", 6},
};

/* Opens the file, which must be new or empty: what a former process stored is not known to this one. */
bool
truth_open(const char *path, bool sync)
{
	struct stat info;

	TruthFd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (TruthFd < 0 || fstat(TruthFd, &info) != 0)
	{
		fprintf(stderr, "provider: could not open truth log \"%s\": %s\n", path, strerror(errno));
		return false;
	}
	if (S_ISREG(info.st_mode) && info.st_size > 0)
	{
		fprintf(stderr, "provider: truth log \"%s\" is not empty\n", path);
		return false;
	}
	TruthSync = sync && S_ISREG(info.st_mode);
	TruthPath = path;
	return true;
}

/* Tells whether somebody has released the answers held under a number: by a file beside the truth log. */
bool
truth_is_released(int64_t number)
{
	char		path[4096];

	snprintf(path, sizeof(path), "%s.released.%lld", TruthPath, (long long) number);
	return access(path, F_OK) == 0;
}

/* Adds a line; middle are the fields from "op" to "body_len", status 0 is null, why is for "closed". */
void
truth_write(TruthEvent event, uint64_t conn, uint32_t req, Slice middle, int status,
			const char *why)
{
	Buf		   *out = &TruthLines;
	int64_t		now = wall_us();
	char		micros[7];
	int64_t		rest = now % 1000000;

	for (int i = 5; i >= 0; i--)
	{
		micros[i] = (char) ('0' + rest % 10);
		rest /= 10;
	}
	buf_reserve(out, middle.len + 256);
	buf_add_literal(out, "{\"seq\":");
	buf_add_int(out, (int64_t) ++TruthSeq);
	buf_add_literal(out, ",\"t\":");
	buf_add_int(out, now / 1000000);
	buf_addc(out, '.');
	buf_add(out, micros, 6);
	buf_add_literal(out, ",\"ev\":\"");
	buf_add(out, EventNames[event].data, EventNames[event].len);
	buf_add_literal(out, "\",\"conn\":");
	buf_add_int(out, (int64_t) conn);
	buf_add_literal(out, ",\"req\":");
	buf_add_int(out, req);
	buf_add(out, middle.data, middle.len);
	buf_add_literal(out, ",\"status\":");
	if (status != 0)
		buf_add_int(out, status);
	else
		buf_add_literal(out, "null");
	if (why != NULL)
	{
		buf_add_literal(out, ",\"why\":\"");
		buf_adds(out, why);
		buf_addc(out, '"');
	}
	buf_add_literal(out, "}\n");
	if (event == TRUTH_EXECUTED)
		TruthUnsynced = true;
}

/* Brings the gathered lines into the file, and to disk when one of them tells of an effect. */
void
truth_flush(void)
{
	size_t		done = 0;

	while (done < TruthLines.len)
	{
		ssize_t		written = write(TruthFd, TruthLines.data + done, TruthLines.len - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			fail("write");
		done += (size_t) written;
	}
	TruthLines.len = 0;
	if (TruthUnsynced && TruthSync && fdatasync(TruthFd) != 0)
		fail("sync");
	TruthUnsynced = false;
}

/* Returns microseconds since 1970. */
int64_t
wall_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

/* Returns microseconds on a clock that never jumps. */
int64_t
mono_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

/* Reads a clock. */
static int64_t
clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Ends the process because the truth cannot be kept. */
static void
fail(const char *what)
{
	fprintf(stderr, "provider: could not %s truth log: %s\n", what, strerror(errno));
	_exit(2);
}
