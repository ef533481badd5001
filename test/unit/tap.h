/*
 * tap.h
 *		Just enough of the Test Anything Protocol for the unit tests.
 *
 * Included once per test program.  An enumeration is one test: tap_group()
 * opens it, tap_cell() counts each cell and shows the first few that do not
 * hold, tap_group_end() reports it with the number of cells.  A group without
 * a single cell fails: a check that cannot fail is a defect.
 */
#ifndef AL_TEST_TAP_H
#define AL_TEST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TAP_SHOWN 10			/* mismatches shown per group */

#define TAP_PRINTF(f, a) __attribute__((unused, format(printf, f, a)))

static int	tap_run = 0;
static int	tap_failed = 0;
static char tap_group_name[128];
static unsigned long tap_cells = 0;
static unsigned long tap_mismatches = 0;

/* Report one test. */
static bool TAP_PRINTF(2, 3)
ok(bool cond, const char *fmt,...)
{
	va_list		args;

	tap_run++;
	if (!cond)
		tap_failed++;
	printf("%s %d - ", cond ? "ok" : "not ok", tap_run);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	return cond;
}

/* Print a line that a harness ignores and a reader does not. */
static void TAP_PRINTF(1, 2)
diag(const char *fmt,...)
{
	va_list		args;

	fputs("# ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

/* Compare two integers. */
static bool __attribute__((unused))
is_int(long long got, long long expected, const char *name)
{
	bool		same = got == expected;

	ok(same, "%s", name);
	if (!same)
		diag("got %lld, expected %lld", got, expected);
	return same;
}

/* Compare two strings, either of which may be NULL. */
static bool __attribute__((unused))
is_str(const char *got, const char *expected, const char *name)
{
	bool		same;

	if (got == NULL || expected == NULL)
		same = got == expected;
	else
		same = strcmp(got, expected) == 0;
	ok(same, "%s", name);
	if (!same)
		diag("got \"%s\", expected \"%s\"", got ? got : "(null)", expected ? expected : "(null)");
	return same;
}

/* Open a group of cells. */
static void __attribute__((unused))
tap_group(const char *name)
{
	snprintf(tap_group_name, sizeof(tap_group_name), "%s", name);
	tap_cells = 0;
	tap_mismatches = 0;
}

/*
 * Count one cell of the open group; the format tells which cell it was.  A
 * macro, so that the telling costs nothing in the millions of cells that hold,
 * and comes after the condition.
 */
#define tap_cell(cond, ...) tap_count((cond) || tap_differs(__VA_ARGS__))

static bool __attribute__((unused))
tap_count(bool holds)
{
	tap_cells++;
	if (!holds)
		tap_mismatches++;
	return holds;
}

/* Show a mismatch, if not too many were shown; always false. */
static bool TAP_PRINTF(1, 2)
tap_differs(const char *fmt,...)
{
	va_list		args;

	if (tap_mismatches >= TAP_SHOWN)
		return false;
	fputs("# mismatch: ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	return false;
}

/* Report the open group. */
static bool __attribute__((unused))
tap_group_end(void)
{
	if (tap_mismatches > TAP_SHOWN)
		diag("and %lu more", tap_mismatches - TAP_SHOWN);
	return ok(tap_cells > 0 && tap_mismatches == 0, "%s (%lu cells, %lu mismatches)",
			  tap_group_name, tap_cells, tap_mismatches);
}

/* Print the plan; the exit status of the program. */
static int __attribute__((unused))
done_testing(void)
{
	printf("1..%d\n", tap_run);
	if (tap_failed > 0)
		diag("%d of %d failed", tap_failed, tap_run);
	return tap_failed > 0 || tap_run == 0;
}

#endif							/* AL_TEST_TAP_H */
