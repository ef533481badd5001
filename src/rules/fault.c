/*
 * fault.c
 *		Dying at a named moment, in fault builds only.
 *
 * A plan is "point:mode[:nth[:label]]", several of them separated by commas; each
 * fires once.  An entry that cannot be read arms nothing and is said on stderr:
 * a test sees that its fault never fired.
 *
 * The journal has a line "armed PID PLAN" for every process that takes a plan
 * and "fired PID ENTRY" for every fault, written before it happens.
 */
#include "fault.h"

#ifdef AL_FAULT_BUILD

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MAX_FAULTS 16
#define POINT_MAX 64
#define ENTRY_MAX 128
#define LINE_MAX_BYTES 1024
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
	char		entry[ENTRY_MAX];	/* as it stands in the plan */
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
static const char *journal = NULL;
static pid_t self = 0;
static pid_t parent = 0;		/* of self, when it first reached a point */

static bool parse_fault(const char *text, size_t len, Fault *out);
static bool parse_mode(const char *text, size_t len, Mode *out);
static bool parse_nth(const char *text, size_t len, long *out);
static bool fire(Mode mode);
static void hang(void);
static void write_journal(const char *what, const char *text);
static bool has_fired(const char *entry);

/* Has everything written to a file, and what has fired according to it not fire again. */
void
al_fault_journal(const char *path)
{
	journal = path;
}

/* Arms a plan in place of the one before. */
void
al_fault_plan(const char *plan)
{
	n_faults = 0;
	write_journal("armed", plan != NULL ? plan : "");
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
		if (strcmp(faults[i].point, point) != 0 || ++faults[i].reached != faults[i].nth ||
			has_fired(faults[i].entry))
			continue;
		write_journal("fired", faults[i].entry);
		raise_error |= fire(faults[i].mode);
	}
	return raise_error;
}

/* Reads one "point:mode[:nth[:label]]". */
static bool
parse_fault(const char *text, size_t len, Fault *out)
{
	const char *end = text + len;
	const char *mode = memchr(text, ':', len);
	const char *nth;
	const char *label;

	if (mode == NULL || mode == text || mode - text >= POINT_MAX || len >= ENTRY_MAX)
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out->entry, text, len);
	memcpy(out->point, text, (size_t) (mode - text));
	mode++;

	out->nth = 1;
	nth = memchr(mode, ':', (size_t) (end - mode));
	if (nth != NULL)
	{
		label = memchr(nth + 1, ':', (size_t) (end - nth - 1));
		if (!parse_nth(nth + 1, (size_t) ((label != NULL ? label : end) - nth - 1), &out->nth))
			return false;
	}
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

/* Appends a line to the journal, in one write. */
static void
write_journal(const char *what, const char *text)
{
	char		line[LINE_MAX_BYTES];
	int			fd;
	int			len;

	if (journal == NULL)
		return;
	len = snprintf(line, sizeof(line), "%s %d %s\n", what, (int) getpid(), text);
	fd = open(journal, O_WRONLY | O_APPEND | O_CREAT, 0600);
	if (len < 0 || (size_t) len >= sizeof(line) || fd < 0 || write(fd, line, (size_t) len) != len)
		fprintf(stderr, "actionledger: could not write \"%s\"\n", journal);
	if (fd >= 0)
		close(fd);
}

/* Tells whether the journal has an entry as fired, by whomever. */
static bool
has_fired(const char *entry)
{
	char		line[LINE_MAX_BYTES];
	char		fired[ENTRY_MAX];
	bool		found = false;
	FILE	   *file = journal != NULL ? fopen(journal, "r") : NULL;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
		found = sscanf(line, "fired %*d %127s", fired) == 1 && strcmp(fired, entry) == 0;
	fclose(file);
	return found;
}

#endif							/* AL_FAULT_BUILD */
