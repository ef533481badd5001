/*
 * test_backoff.c
 *		Delays stay in their bounds, and Retry-After is read as RFC 9110 writes it.
 *
 * Values are handed over in buffers of exactly their length, so that an address
 * sanitizer sees any byte read beyond.  Dates are made by the C library, not by
 * the arithmetic under test.
 */
#define _GNU_SOURCE				/* timegm */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "rules/backoff.h"

#include "tap.h"

#define UNTOUCHED INT64_C(-77)
#define NOV_1994 INT64_C(784111777) /* Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example */

static uint64_t seed = UINT64_C(9110);

static void check_delay_bounds(void);
static void check_delay_growth(void);
static void check_delay_extremes(void);
static void check_retry_after_delay(void);
static void check_seconds(void);
static void check_date_forms(void);
static void check_calendar(void);
static void check_two_digit_years(void);
static void check_fifty_years(void);
static void check_every_month(void);
static void check_refused(void);
static void check_cut_and_changed(void);
static void check_random_bytes(void);

int
main(void)
{
	check_delay_bounds();
	check_delay_growth();
	check_delay_extremes();
	check_retry_after_delay();
	check_seconds();
	check_date_forms();
	check_calendar();
	check_two_digit_years();
	check_fifty_years();
	check_every_month();
	check_refused();
	check_cut_and_changed();
	check_random_bytes();
	return done_testing();
}

/* ---- Backoff ---- */

static const double UNITS[] = {0.0, 0.000001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999999, 0x1.fffffffffffffp-1};
#define N_UNITS ((int) (sizeof(UNITS) / sizeof(UNITS[0])))

/* base * 2^(n-1), at most cap, in floating point. */
static double
middle(int failures, double base, double cap)
{
	double		wanted = base;

	for (int i = 1; i < failures && wanted < cap; i++)
		wanted *= 2;
	return wanted < cap ? wanted : cap;
}

/* Every delay lies in [0.5, 1.5) of its middle, and both ends of the range are used. */
static void
check_delay_bounds(void)
{
	static const int64_t BASES[] = {1, 2, 100, 1000, 5000, 60000};
	static const int64_t CAPS[] = {1, 1000, 60000, 3600000, INT64_C(86400000)};

	tap_group("delay is the middle times [0.5, 1.5)");
	for (int failures = 1; failures <= 80; failures++)
	{
		for (size_t b = 0; b < sizeof(BASES) / sizeof(BASES[0]); b++)
		{
			for (size_t c = 0; c < sizeof(CAPS) / sizeof(CAPS[0]); c++)
			{
				double		mid = middle(failures, (double) BASES[b], (double) CAPS[c]);

				for (int u = 0; u < N_UNITS; u++)
				{
					int64_t		got = al_backoff_delay_ms(failures, BASES[b], CAPS[c], UNITS[u]);

					tap_cell(got >= 0 && (double) got >= floor(mid * 0.5) && (double) got <= ceil(mid * 1.5),
							 "failures %d base %lld cap %lld unit %g: %lld, middle %g", failures, (long long) BASES[b], (long long) CAPS[c], UNITS[u], (long long) got, mid);
					tap_cell((double) got <= 1.5 * (double) CAPS[c], "above 1.5 * cap %lld: %lld", (long long) CAPS[c], (long long) got);
				}
			}
		}
	}
	tap_group_end();

	is_int(al_backoff_delay_ms(1, 1000, 60000, 0.0), 500, "the lowest of the first try is half the base");
	is_int(al_backoff_delay_ms(1, 1000, 60000, 0.5), 1000, "the middle of the first try is the base");
	is_int(al_backoff_delay_ms(4, 1000, 60000, 0.5), 8000, "the middle of the fourth is eight times the base");
	is_int(al_backoff_delay_ms(20, 1000, 60000, 0.5), 60000, "the middle is capped");
	ok(al_backoff_delay_ms(1, 1000, 60000, 0.999) > 1490, "the highest of the first try nears 1.5 times the base");
	is_int(al_backoff_delay_ms(1, 5000, 1000, 0.5), 1000, "a base above the cap is the cap");
}

/* With the same random number a later try never comes sooner; with the same try a higher one never does. */
static void
check_delay_growth(void)
{
	tap_group("delay grows with the tries and with the random number");
	for (int u = 0; u < N_UNITS; u++)
	{
		int64_t		before = 0;

		for (int failures = 1; failures <= 200; failures++)
		{
			int64_t		got = al_backoff_delay_ms(failures, 250, 3600000, UNITS[u]);

			tap_cell(got >= before, "failures %d unit %g: %lld after %lld", failures, UNITS[u], (long long) got, (long long) before);
			if (failures > 1 && failures < 14)
				tap_cell(got > before, "failures %d unit %g does not grow below the cap", failures, UNITS[u]);
			before = got;
		}
	}
	for (int failures = 1; failures <= 40; failures++)
	{
		for (int u = 1; u < N_UNITS; u++)
			tap_cell(al_backoff_delay_ms(failures, 1000, 3600000, UNITS[u]) >= al_backoff_delay_ms(failures, 1000, 3600000, UNITS[u - 1]), "failures %d unit %g", failures, UNITS[u]);
	}
	tap_group_end();
}

/* Counts, bases and caps at the edge of their types. */
static void
check_delay_extremes(void)
{
	static const int COUNTS[] = {INT_MIN, -1, 0, 1, 2, 31, 32, 33, 62, 63, 64, 65, 1023, 1024, 1025, INT_MAX - 1, INT_MAX};
	static const int64_t SIZES[] = {1, 3, 1000, INT64_C(1) << 31, INT64_C(1) << 53, INT64_C(1) << 62, INT64_MAX / 3, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};

	tap_group("no count, base or cap overflows");
	for (size_t n = 0; n < sizeof(COUNTS) / sizeof(COUNTS[0]); n++)
	{
		for (size_t b = 0; b < sizeof(SIZES) / sizeof(SIZES[0]); b++)
		{
			for (size_t c = 0; c < sizeof(SIZES) / sizeof(SIZES[0]); c++)
			{
				for (int u = 0; u < N_UNITS; u++)
				{
					int64_t		got = al_backoff_delay_ms(COUNTS[n], SIZES[b], SIZES[c], UNITS[u]);
					double		mid = middle(COUNTS[n] > 2000 ? 2000 : COUNTS[n], (double) SIZES[b], (double) SIZES[c]);
					double		least = fmin(floor(mid * 0.5) * 0.999999, 9.2e18);

					tap_cell(got >= 0 && (double) got >= least && (double) got <= 1.5 * (double) SIZES[c],
							 "failures %d base %lld cap %lld unit %g: %lld", COUNTS[n], (long long) SIZES[b], (long long) SIZES[c], UNITS[u], (long long) got);
				}
			}
		}
	}
	tap_group_end();

	is_int(al_backoff_delay_ms(0, 1000, 60000, 0.25), al_backoff_delay_ms(1, 1000, 60000, 0.25), "no failure counts as one");
	is_int(al_backoff_delay_ms(INT_MIN, 1000, 60000, 0.25), al_backoff_delay_ms(1, 1000, 60000, 0.25), "a negative count counts as one");
	is_int(al_backoff_delay_ms(INT_MAX, 1000, 60000, 0.5), 60000, "INT_MAX failures give the cap");
}

/* Never earlier than told, at most a quarter later, between 1 s and 1 h. */
static void
check_retry_after_delay(void)
{
	static const int64_t ASKED[] = {INT64_MIN, -1, 0, 1, 2, 59, 3599, 3600, 3601, 86400, INT64_C(1) << 40, INT64_MAX / 1000, INT64_MAX / 1000 + 1, INT64_MAX};

	tap_group("Retry-After delay is clamped and jittered upward only");
	for (size_t a = 0; a < sizeof(ASKED) / sizeof(ASKED[0]); a++)
	{
		int64_t		told = ASKED[a] < 1 ? 1 : ASKED[a] > 3600 ? 3600 : ASKED[a];

		for (int u = 0; u < N_UNITS; u++)
		{
			int64_t		got = al_retry_after_delay_ms(ASKED[a], UNITS[u]);

			tap_cell(got >= told * 1000 && got <= told * 1250, "asked %lld unit %g: %lld ms", (long long) ASKED[a], UNITS[u], (long long) got);
		}
	}
	tap_group_end();
	ok(al_retry_after_delay_ms(100, 0.999) > al_retry_after_delay_ms(100, 0.001), "actions refused together do not come back together");
	ok(al_retry_after_delay_ms(100, 0.999) > 120000, "the jitter uses its range");
}

/* ---- Retry-After ---- */

/* Parse from a buffer of exactly this length. */
static bool
parse(const char *value, size_t len, int64_t now, int64_t *seconds)
{
	char	   *exact = malloc(len > 0 ? len : 1);
	bool		read;

	if (exact == NULL)
		abort();
	memcpy(exact, value, len);
	*seconds = UNTOUCHED;
	read = al_retry_after_parse(exact, len, now, seconds);
	free(exact);
	return read;
}

/* Expect this many seconds. */
static void
reads(const char *value, int64_t now, int64_t expected)
{
	int64_t		seconds;
	bool		read = parse(value, strlen(value), now, &seconds);

	tap_cell(read && seconds == expected, "\"%s\" at %lld: %s %lld, expected %lld", value, (long long) now,
			 read ? "read" : "refused", (long long) seconds, (long long) expected);
}

/* Expect a refusal with *seconds untouched. */
static void
refuses_bytes(const char *value, size_t len, int64_t now)
{
	int64_t		seconds;
	bool		read = parse(value, len, now, &seconds);

	tap_cell(!read && seconds == UNTOUCHED, "\"%.*s\" (%zu bytes): %s, seconds %lld", (int) len, value, len, read ? "read" : "refused", (long long) seconds);
}

static void
refuses(const char *value)
{
	refuses_bytes(value, strlen(value), NOV_1994 - 100);
}

/* delay-seconds = 1*DIGIT */
static void
check_seconds(void)
{
	char		digits[401];
	int64_t		seconds;

	tap_group("Retry-After in seconds");
	reads("0", 0, 0);
	reads("1", 0, 1);
	reads("120", 0, 120);
	reads("120", INT64_MAX, 120);
	reads("120", INT64_MIN, 120);
	reads("0120", 0, 120);
	reads("00000000000000000000000000000000000000000000000120", 0, 120);
	reads("3600", 0, 3600);
	reads("2147483648", 0, INT64_C(2147483648));
	reads("4294967297", 0, INT64_C(4294967297));
	for (size_t len = 18; len <= 400; len++)
	{
		bool		read;

		memset(digits, '9', len);
		read = parse(digits, len, 0, &seconds);
		tap_cell(read && seconds >= AL_RETRY_AFTER_MAX_S, "%zu nines: %s %lld, expected a very long time", len, read ? "read" : "refused", (long long) seconds);
		digits[0] = '1';
		memset(digits + 1, '0', len - 1);
		read = parse(digits, len, 0, &seconds);
		tap_cell(read && seconds >= AL_RETRY_AFTER_MAX_S, "1 and %zu zeros: %s %lld", len - 1, read ? "read" : "refused", (long long) seconds);
	}
	tap_cell(parse("18446744073709551617", 20, 0, &seconds) && seconds >= AL_RETRY_AFTER_MAX_S, "2^64 + 1 wraps to %lld", (long long) seconds);
	tap_cell(parse("9223372036854775809", 19, 0, &seconds) && seconds >= AL_RETRY_AFTER_MAX_S, "2^63 + 1 wraps to %lld", (long long) seconds);
	tap_cell(parse("120999", 3, 0, &seconds) && seconds == 120, "the length is ignored: %lld", (long long) seconds);
	tap_group_end();
}

/* The RFC's own example in its three forms, before, at and after that second. */
static void
check_date_forms(void)
{
	static const char *const FORMS[] = {
	"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"};

	tap_group("Retry-After as a date in three forms");
	for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++)
	{
		reads(FORMS[i], NOV_1994 - 100, 100);
		reads(FORMS[i], NOV_1994 - 1, 1);
		reads(FORMS[i], NOV_1994, 0);
		reads(FORMS[i], NOV_1994 + 1, 0);
		reads(FORMS[i], NOV_1994 + INT64_C(86400) * 365 * 20, 0);
	}
	reads("Sun, 06 Nov 1994 08:49:37 GMT", 0, NOV_1994);
	reads("Sun, 06 Nov 1994 08:49:37 GMT", INT64_MAX, 0);
	reads("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0);
	reads("Wed, 16 Nov 1994 08:49:37 GMT", NOV_1994, 864000);
	reads("Wed Nov 16 08:49:37 1994", NOV_1994, 864000);
	reads("Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799) - 7, 7);
	tap_group_end();
}

/* Write a time in one of the three forms (0 IMF-fixdate, 1 RFC 850, 2 asctime). */
static void
write_date(char *out, size_t size, time_t when, int form)
{
	static const char *const FORMAT[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"};
	struct tm	tm;

	gmtime_r(&when, &tm);
	strftime(out, size, FORMAT[form], &tm);
}

/* Every day of 230 years, at a changing time of day, in every form that can say it. */
static void
check_calendar(void)
{
	char		text[64];

	tap_group("every day from 1970 to 2199, leap days included");
	for (int64_t day = 0; day < 84000; day++)
	{
		int64_t		when = day * 86400 + day * 7919 % 86400;

		for (int form = 0; form < 3; form++)
		{
			write_date(text, sizeof(text), (time_t) when, form);
			reads(text, when - 61, 61);
			if (form != 1)
				reads(text, when + 61, 0);
		}
	}
	tap_group_end();

	tap_group("dates before 1970, and a clock that is far off");
	reads("Sun, 06 Nov 1904 08:49:37 GMT", 0, 0);
	reads("Sun Nov  6 08:49:37 1904", -INT64_C(2056029023) - 10, 10);
	reads("Sun, 06 Nov 1904 08:49:37 GMT", -INT64_C(2056029023) - 10, 10);
	reads("Mon, 01 Jan 0001 00:00:00 GMT", 0, 0);
	for (int form = 0; form < 3; form++)
	{
		int64_t		seconds;

		write_date(text, sizeof(text), NOV_1994, form);
		tap_cell(parse(text, strlen(text), INT64_MAX, &seconds) && seconds >= 0, "\"%s\" at the end of time: %lld", text, (long long) seconds);
		tap_cell(parse(text, strlen(text), INT64_MIN, &seconds) && seconds >= 0, "\"%s\" at the beginning of time: %lld", text, (long long) seconds);
		if (form != 1)
			tap_cell(seconds >= AL_RETRY_AFTER_MAX_S, "\"%s\" at the beginning of time: %lld", text, (long long) seconds);
	}
	tap_group_end();

	tap_group("leap years");
	reads("Thu, 29 Feb 2024 00:00:00 GMT", INT64_C(1709164800) - 5, 5);
	reads("Tue, 29 Feb 2000 00:00:00 GMT", INT64_C(951782400) - 5, 5);
	refuses("Wed, 29 Feb 2023 00:00:00 GMT");
	refuses("Mon, 29 Feb 2100 00:00:00 GMT");
	refuses("Thu Feb 29 00:00:00 1900");
	refuses("Wednesday, 29-Feb-23 00:00:00 GMT");
	refuses("Fri, 30 Feb 2024 00:00:00 GMT");
	tap_group_end();
}

/* A two-digit year is the one at most 50 years ahead (RFC 9110 section 5.6.7). */
static void
check_two_digit_years(void)
{
	static const int NOWS[] = {1994, 1999, 2000, 2024, 2026, 2049, 2051, 2099};
	char		text[64];

	tap_group("two-digit years");
	for (size_t n = 0; n < sizeof(NOWS) / sizeof(NOWS[0]); n++)
	{
		struct tm	tm = {.tm_year = NOWS[n] - 1900, .tm_mon = 5, .tm_mday = 15};
		int64_t		now = timegm(&tm);

		for (int year = NOWS[n] - 49; year <= NOWS[n] + 49; year++)
		{
			struct tm	date = {.tm_year = year - 1900, .tm_mon = 5, .tm_mday = 15, .tm_hour = 1};
			int64_t		when = timegm(&date);

			write_date(text, sizeof(text), (time_t) when, 1);
			reads(text, now, when > now ? when - now : 0);
		}
	}
	tap_group_end();
}

/* "More than 50 years in the future" is a matter of seconds, on every day of the year. */
static void
check_fifty_years(void)
{
	static const int STARTS[] = {1971, 1996, 1999, 2000, 2023, 2024, 2026, 2049};
	char		text[64];

	tap_group("two-digit years at the edge of 50 years");
	for (size_t s = 0; s < sizeof(STARTS) / sizeof(STARTS[0]); s++)
	{
		for (int day = 1; day <= 365; day++)
		{
			struct tm	tm = {.tm_year = STARTS[s] - 1900, .tm_mday = day, .tm_hour = day % 24, .tm_min = 30};
			int64_t		now = timegm(&tm);
			int64_t		edge;

			if (tm.tm_mon == 1 && tm.tm_mday == 29)
				continue;		/* has no day 50 years on */
			tm.tm_year += 50;
			edge = timegm(&tm);
			write_date(text, sizeof(text), (time_t) (edge - 1), 1);
			reads(text, now, edge - 1 - now);
			/* One second past the edge it is 100 years earlier, and its weekday with it. */
			tm.tm_year -= 100;
			edge = timegm(&tm);
			write_date(text, sizeof(text), (time_t) (edge + 1), 1);
			reads(text, now, 0);
		}
	}
	tap_group_end();
}

/* Each month has its name and its last day, and not one more. */
static void
check_every_month(void)
{
	static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	static const char *const WEEK[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	char		text[64];

	tap_group("days that a month does not have");
	for (int m = 0; m < 12; m++)
	{
		struct tm	last = {.tm_year = 2026 - 1900, .tm_mon = m, .tm_mday = DAYS[m]};
		int64_t		when = timegm(&last);

		snprintf(text, sizeof(text), "%s, %02d %s 2026 00:00:00 GMT", WEEK[last.tm_wday], DAYS[m], MONTHS[m]);
		reads(text, when - 9, 9);
		for (int w = 0; w < 7; w++)
		{
			snprintf(text, sizeof(text), "%s, %02d %s 2026 00:00:00 GMT", WEEK[w], DAYS[m] + 1, MONTHS[m]);
			refuses(text);
			snprintf(text, sizeof(text), "%s, 00 %s 2026 00:00:00 GMT", WEEK[w], MONTHS[m]);
			refuses(text);
		}
	}
	tap_group_end();
}

/* What is neither digits nor one of the three forms. */
static void
check_refused(void)
{
	static const char *const GARBAGE[] = {
		"", "-1", "+1", "-", "1.5", "1e3", "0x10", "12a", "a12", "120 s", "120s", "120;", "120,", "120, 240", "1 2", "soon", "never", "\xff\xfe", "\xd9\xa1\xd9\xa2",
		"Sun", "Sun,", "Foo, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 ",
		"Sun, 06 Nov 1994 08:49:37 EST", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 GMTx",
		"Sun, 06 Nov 1994 08:49:37 GMT; 5", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49:99 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT", "Sun,06 Nov 1994 08:49:37 GMT", "Sun 06 Nov 1994 08:49:37 GMT", "06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 19940 08:49:37 GMT", "Sun, 06 Nov -994 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:-7 GMT", "Sun, 06 Nov 1994 +8:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT", "Sun, 06 Nov 1994 08:49:37GMT",
		"Sunday, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37", "Sunday, 06-Nov-9 08:49:37 GMT", "Sunday, 06-Nov-094 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sunday, 06-Foo-94 08:49:37 GMT", "Sunday, 31-Apr-94 08:49:37 GMT", "Someday, 06-Nov-94 08:49:37 GMT", "Sunday,06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994 GMT", "Sun Nov 6 08:49:37 1994", "Sun Nov   6 08:49:37 1994", "Sun Nov  6 08:49:37 94", "Sun Nov  6 08:49:37 19945", "Sun Foo  6 08:49:37 1994",
		"Sun Nov  0 08:49:37 1994", "Sun Nov 31 08:49:37 1994", "Sunday Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z", "784111777 GMT"};

	tap_group("garbage is refused, and *seconds untouched");
	for (size_t i = 0; i < sizeof(GARBAGE) / sizeof(GARBAGE[0]); i++)
		refuses(GARBAGE[i]);
	refuses_bytes("120\0", 4, 0);
	refuses_bytes("\0" "120", 4, 0);
	refuses_bytes("12\0" "3", 4, 0);
	refuses_bytes("\0", 1, 0);
	refuses_bytes("Sun, 06 Nov 1994 08:49:37 GMT\0", 30, NOV_1994 - 100);
	refuses_bytes("Sun, 06 Nov 1994 08:49:37 GMT\0junk", 34, NOV_1994 - 100);
	refuses_bytes("Sun, 06 Nov\0" "1994 08:49:37 GMT", 29, NOV_1994 - 100);
	refuses_bytes("Sun Nov  6 08:49:37 1994\0", 25, NOV_1994 - 100);
	tap_group_end();
}

/* No part of a date is a date, and no foreign byte in it goes unseen. */
static void
check_cut_and_changed(void)
{
	static const char *const FORMS[] = {
	"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"};

	tap_group("cut and changed dates are refused");
	for (size_t f = 0; f < sizeof(FORMS) / sizeof(FORMS[0]); f++)
	{
		size_t		len = strlen(FORMS[f]);
		char		text[64];

		for (size_t cut = 0; cut < len; cut++)
		{
			refuses_bytes(FORMS[f], cut, NOV_1994 - 100);
			if (cut > 0 && strspn(FORMS[f] + cut, "0123456789") < len - cut)	/* the year alone is a number */
				refuses(FORMS[f] + cut);
			strcpy(text, FORMS[f]);
			text[cut] = '\0';
			refuses_bytes(text, len, NOV_1994 - 100);
			text[cut] = (char) 0xb0;
			refuses_bytes(text, len, NOV_1994 - 100);
			text[cut] = '?';
			refuses_bytes(text, len, NOV_1994 - 100);
		}
	}
	tap_group_end();
}

/* SplitMix64: the same bytes on every machine. */
static unsigned
draw(unsigned below)
{
	uint64_t	z = (seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (unsigned) ((z ^ (z >> 31)) % below);
}

/* Whatever comes, it is a wait of zero or more seconds or nothing at all. */
static void
check_random_bytes(void)
{
	static const char ALPHABET[] = "0123456789 ,:-+SunMoTueWdhFriaJNvDcbGMTgmt\0\xff\r\n";
	char		text[48];

	tap_group("random bytes");
	for (int i = 0; i < 500000; i++)
	{
		size_t		len = draw(sizeof(text));
		int64_t		seconds;
		bool		read;

		if (draw(2) == 0)
		{
			for (size_t k = 0; k < len; k++)
				text[k] = ALPHABET[draw(sizeof(ALPHABET))];
		}
		else
		{
			write_date(text, sizeof(text), (time_t) draw(UINT_MAX), (int) draw(3));
			len = strlen(text);
			text[draw((unsigned) len)] = ALPHABET[draw(sizeof(ALPHABET))];
		}
		read = parse(text, len, (int64_t) draw(UINT_MAX), &seconds);
		tap_cell(read ? seconds >= 0 : seconds == UNTOUCHED, "\"%.*s\": %s, seconds %lld", (int) len, text, read ? "read" : "refused", (long long) seconds);
	}
	tap_group_end();
}
