/*
 * retry_after.c
 *		A Retry-After of any bytes at any time, and the delays made of it.
 *
 * Input: what time it is, a number that picks a factor and a time to spell,
 * then the value.
 */
#include <math.h>
#include <time.h>

#include "fuzz.h"
#include "rules/backoff.h"

#define YEAR_9999 INT64_C(253402300799)

static bool read_value(const char *value, size_t len, int64_t now, int64_t *seconds);
static bool is_number(const char *value, size_t len);
static void check_date(const char *value, size_t len, int64_t now, int64_t seconds);
static void check_clock(const char *value, size_t len, int64_t now, int64_t seconds);
static void check_delay(int64_t seconds, double unit);
static void check_backoff(uint64_t number, double unit);
static void check_spellings(int64_t then, int64_t now);
static double unit_of(uint64_t number);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	in = {data, size};
	int64_t		now = (int64_t) fuzz_number(&in);
	uint64_t	number = fuzz_number(&in);
	double		unit = unit_of(number);
	const char *value = (const char *) in.at;
	int64_t		seconds = -1;

	if (read_value(value, in.left, now, &seconds))
	{
		claim(seconds >= 0);
		if (!is_number(value, in.left))
			check_date(value, in.left, now, seconds);
		check_clock(value, in.left, now, seconds);
		check_delay(seconds, unit);
	}
	else
	{
		claim(seconds == -1);
		claim(!is_number(value, in.left));
	}
	check_delay((int64_t) number, unit);
	check_backoff(number, unit);
	check_spellings((int64_t) (number % (YEAR_9999 + 1)), now);
	return 0;
}

/* Read a value twice, alone and with more behind it that does not belong to it. */
static bool
read_value(const char *value, size_t len, int64_t now, int64_t *seconds)
{
	static const char *const behind[] = {"0", "9999999999999999999", " GMT", "\r\n", ":00 1994", ""};
	char	   *exact = fuzz_exact(value, len);
	bool		valid = al_retry_after_parse(exact, len, now, seconds);

	free(exact);
	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
	{
		size_t		more = strlen(behind[i]);
		char	   *longer = malloc(len + more + 1);
		int64_t		again = -1;

		if (longer == NULL)
			abort();
		memcpy(longer, value, len);
		memcpy(longer + len, behind[i], more + 1);
		claim(al_retry_after_parse(longer, len, now, &again) == valid);
		claim(again == *seconds);
		free(longer);
	}
	return valid;
}

static bool
is_number(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if (value[i] < '0' || value[i] > '9')
			return false;
	}
	return len > 0;
}

/* What is read as a date is one for the C library too (in the locale "C"), and the same. */
static void
check_date(const char *value, size_t len, int64_t now, int64_t seconds)
{
	static const char *const formats[] = {
		"%a, %d %b %Y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y", "%A, %d-%b-%y %H:%M:%S GMT"
	};
	char		text[64];
	size_t		n = sizeof(formats) / sizeof(formats[0]);
	bool		found = false;

	claim(len < sizeof(text));
	memcpy(text, value, len);
	text[len] = '\0';
	claim(strlen(text) == len);
	for (size_t i = 0; i < n && !found; i++)
	{
		struct tm	t = {0};
		const char *end = strptime(text, formats[i], &t);

		found = end != NULL && *end == '\0';
		if (found && seconds > 0 && seconds < INT64_MAX && i < n - 1)
			claim((int64_t) timegm(&t) - seconds == now);
	}
	claim(found);
}

/* A number does not depend on the time, and a date comes nearer as time passes. */
static void
check_clock(const char *value, size_t len, int64_t now, int64_t seconds)
{
	int64_t		later = -1;
	int64_t		year = INT64_C(31556952);
	bool		rfc850 = memchr(value, '-', len) != NULL;

	if (is_number(value, len))
	{
		claim(al_retry_after_parse(value, len, INT64_MIN, &later) && later == seconds);
		claim(al_retry_after_parse(value, len, INT64_MAX, &later) && later == seconds);
		return;
	}
	if (now < 0 || now > YEAR_9999)
		return;

	/* A year of two digits is never far ahead. */
	claim(!rfc850 || seconds <= 51 * year);
	if (rfc850 || now == YEAR_9999)
		return;
	claim(al_retry_after_parse(value, len, now + 1, &later));
	claim(later == (seconds > 0 ? seconds - 1 : 0));
}

/* The delay is never earlier than told, within the bounds. */
static void
check_delay(int64_t seconds, double unit)
{
	int64_t		told = seconds < AL_RETRY_AFTER_MIN_S ? AL_RETRY_AFTER_MIN_S :
		seconds > AL_RETRY_AFTER_MAX_S ? AL_RETRY_AFTER_MAX_S : seconds;
	int64_t		delay = al_retry_after_delay_ms(seconds, unit);

	claim(delay >= told * 1000);
	claim(delay <= told * 1250);
}

/* A backoff of any numbers is a delay of not more than 1.5 times its cap. */
static void
check_backoff(uint64_t number, double unit)
{
	int			failures = (int) (int8_t) (number & 0xff);
	int64_t		base = (int64_t) (number >> (number & 63));
	int64_t		cap = (int64_t) (number << (number >> 58));
	int64_t		delay = al_backoff_delay_ms(failures, base, cap, unit);

	claim(delay >= 0);
	if (cap > 0 && cap < INT64_MAX / 2)
		claim(delay <= cap + cap / 2 + 1);
}

/* A time is read back from the three ways to write it. */
static void
check_spellings(int64_t then, int64_t now)
{
	time_t		clock = (time_t) then;
	struct tm	t;
	char		text[64];
	int64_t		seconds;
	size_t		len;

	if (now < 0 || now > YEAR_9999 || gmtime_r(&clock, &t) == NULL)
		return;

	len = strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &t);
	claim(read_value(text, len, now, &seconds));
	claim(seconds == (then > now ? then - now : 0));
	len = strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &t);
	claim(read_value(text, len, now, &seconds));
	claim(seconds == (then > now ? then - now : 0));

	/* Two digits say a year only between 49 years ago and 49 ahead. */
	len = strftime(text, sizeof(text), "%A, %d-%b-%y %H:%M:%S GMT", &t);
	if (llabs(then - now) > INT64_C(49) * 31556952)
		return;
	claim(read_value(text, len, now, &seconds));
	claim(seconds == (then > now ? then - now : 0));
}

/* A factor: mostly as promised, sometimes not a number in [0, 1) at all. */
static double
unit_of(uint64_t number)
{
	double		any;

	if (number % 4 != 0)
		return (double) (number >> 11) / 9007199254740992.0;
	memcpy(&any, &number, sizeof(any));
	return any;
}
