/*
 * fault.c
 *		Dying at a named moment, in fault builds only.
 *
 * A plan is "point:mode[:nth]", several of them separated by commas; each fires
 * once.  An entry that cannot be read arms nothing and is said on stderr: a
 * test sees that its fault never fired.
 */
#include "fault.h"

#ifdef AL_FAULT_BUILD

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MAX_FAULTS 16
#define POINT_MAX 64
#define HANG_CHECK_MS 100

typedef enum Mode
{
	MODE_KILL,
	MODE_KILL_POSTMASTER,
	MODE_ABORT,
	MODE_HANG,
	MODE_ERROR
} Mode;
#define N_MODES 5

typedef struct Fault
{
	char		point[POINT_MAX];
	Mode		mode;
	long		nth;
	long		reached;
} Fault;

static const char *const mode_names[N_MODES] = {
	[MODE_KILL] = "kill",
	[MODE_KILL_POSTMASTER] = "kill_postmaster",
	[MODE_ABORT] = "abort",
	[MODE_HANG] = "hang",
	[MODE_ERROR] = "error",
};

static Fault faults[MAX_FAULTS];
static int	n_faults = 0;
static pid_t self = 0;
static pid_t parent = 0;		/* of self, when it first reached a point */

static bool parse_fault(const char *text, size_t len, Fault *out);
static bool parse_mode(const char *text, size_t len, Mode *out);
static bool parse_nth(const char *text, size_t len, long *out);
static bool fire(Mode mode);
static void hang(void);

/* Arms a plan in place of the one before. */
void
al_fault_plan(const char *plan)
{
	n_faults = 0;
	while (plan != NULL && *plan != '\0')
	{
		size_t		len = strcspn(plan, ",");

		if (n_faults < MAX_FAULTS && parse_fault(plan, len, &faults[n_faults]))
			n_faults++;
		else
			fprintf(stderr, "actionledger: fault plan not understood: %.*s\n", (int) len, plan);
		plan += len;
		if (*plan == ',')
			plan++;
	}
}

/* Does what the plan says of this point; true asks the caller to raise. */
bool
al_fault_reached(const char *point)
{
	bool		raise_error = false;

	if (n_faults > 0 && self != getpid())
	{
		self = getpid();
		parent = getppid();
	}
	for (int i = 0; i < n_faults; i++)
	{
		if (strcmp(faults[i].point, point) == 0 && ++faults[i].reached == faults[i].nth)
			raise_error |= fire(faults[i].mode);
	}
	return raise_error;
}

/* Reads one "point:mode[:nth]". */
static bool
parse_fault(const char *text, size_t len, Fault *out)
{
	const char *end = text + len;
	const char *mode = memchr(text, ':', len);
	const char *nth;

	if (mode == NULL || mode == text || mode - text >= POINT_MAX)
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out->point, text, (size_t) (mode - text));
	mode++;

	out->nth = 1;
	nth = memchr(mode, ':', (size_t) (end - mode));
	if (nth != NULL && !parse_nth(nth + 1, (size_t) (end - nth - 1), &out->nth))
		return false;
	return parse_mode(mode, (size_t) ((nth != NULL ? nth : end) - mode), &out->mode);
}

/* Reads a mode. */
static bool
parse_mode(const char *text, size_t len, Mode *out)
{
	for (int i = 0; i < N_MODES; i++)
	{
		if (strlen(mode_names[i]) == len && memcmp(mode_names[i], text, len) == 0)
		{
			*out = (Mode) i;
			return true;
		}
	}
	return false;
}

/* Reads a count from 1 to 999,999,999. */
static bool
parse_nth(const char *text, size_t len, long *out)
{
	long		value = 0;

	if (len == 0 || len > 9)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (text[i] - '0');
	}
	*out = value;
	return value > 0;
}

/* Makes the fault happen; true asks the caller to raise. */
static bool
fire(Mode mode)
{
	switch (mode)
	{
		case MODE_KILL:
			kill(getpid(), SIGKILL);
			return false;
		case MODE_KILL_POSTMASTER:
			if (getppid() > 1)
				kill(getppid(), SIGKILL);
			return false;
		case MODE_ABORT:
			abort();
		case MODE_HANG:
			hang();
			return false;
		case MODE_ERROR:
			break;
	}
	return true;
}

/*
 * Stops, deaf to every signal but SIGKILL, as long as the parent lives.  Not
 * pause(): nobody signals an orphan.  An orphan ends here, without a word and
 * without going on to what the hang was to keep it from.
 */
static void
hang(void)
{
	while (getppid() == parent)
		(void) poll(NULL, 0, HANG_CHECK_MS);
	_exit(1);
}

#endif							/* AL_FAULT_BUILD */
