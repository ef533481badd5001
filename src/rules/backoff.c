/*
 * backoff.c
 *		When to try again: exponential with jitter, or when the destination says.
 *
 * Dates are read by hand: strptime and mktime depend on the locale and the time
 * zone of the server, and a Retry-After is any bytes.
 */
#include <string.h>

#include "backoff.h"

#define SECONDS_PER_DAY 86400
#define MAX_TIME INT64_C(253402300799)	/* 9999-12-31 23:59:59 UTC */

/* Bytes not yet read. */
typedef struct Cursor
{
	const char *at;
	size_t		left;
} Cursor;

typedef struct CivilTime
{
	int			year;
	int			month;			/* 1 .. 12 */
	int			day;
	int			second;			/* of the day */
} CivilTime;

static const char *const day_names[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
static const char *const long_day_names[] = {
	"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
};
static const char *const month_names[] = {
	"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
};

#define N_DAYS 7
#define N_MONTHS 12

static int64_t share(int64_t whole, double unit);
static bool parse_delay(const char *value, size_t len, int64_t *seconds);
static bool parse_date(const char *value, size_t len, int64_t now_unix, int64_t *unix_time);
static bool parse_imf_fixdate(Cursor in, CivilTime *out);
static bool parse_rfc850(Cursor in, int64_t now_unix, CivilTime *out);
static bool parse_asctime(Cursor in, CivilTime *out);
static bool take_text(Cursor *in, const char *text);
static bool take_name(Cursor *in, const char *const *names, int n, int *position);
static bool take_digits(Cursor *in, int n, int *number);
static bool take_time(Cursor *in, int *second);
static bool day_exists(const CivilTime *t);
static int	year_in_reach(const CivilTime *t, int64_t now_unix);
static int64_t to_unix(const CivilTime *t);
static int64_t days_from_civil(int64_t year, int month, int day);
static CivilTime civil_from_unix(int64_t unix_time);

/* Gives the delay before the next try. */
int64_t
al_backoff_delay_ms(int failures, int64_t base_ms, int64_t cap_ms, double unit)
{
	int64_t		cap = cap_ms > 0 ? cap_ms : 1;
	int64_t		delay = base_ms > 0 ? base_ms : 1;
	int64_t		least;
	int64_t		more;

	for (int i = 1; i < failures && delay < cap; i++)
		delay = delay > cap / 2 ? cap : delay * 2;
	if (delay > cap)
		delay = cap;

	least = delay - delay / 2;
	more = share(delay, unit);
	return more > INT64_MAX - least ? INT64_MAX : least + more;
}

/* Gives the delay that the destination asked for, within bounds and never earlier. */
int64_t
al_retry_after_delay_ms(int64_t seconds, double unit)
{
	int64_t		ms;

	if (seconds < AL_RETRY_AFTER_MIN_S)
		seconds = AL_RETRY_AFTER_MIN_S;
	if (seconds > AL_RETRY_AFTER_MAX_S)
		seconds = AL_RETRY_AFTER_MAX_S;
	ms = seconds * 1000;
	return ms + share(ms / 4, unit);
}

/* Reads a Retry-After value, in either form. */
bool
al_retry_after_parse(const char *value, size_t len, int64_t now_unix, int64_t *seconds)
{
	int64_t		then;

	if (value == NULL || len == 0)
		return false;
	if (parse_delay(value, len, seconds))
		return true;
	if (!parse_date(value, len, now_unix, &then))
		return false;

	if (then <= now_unix)
		*seconds = 0;
	else if (now_unix < 0 && then > INT64_MAX + now_unix)
		*seconds = INT64_MAX;
	else
		*seconds = then - now_unix;
	return true;
}

/* Gives a random part of a whole: less than it, and 0 for a unit that is no such number. */
static int64_t
share(int64_t whole, double unit)
{
	double		part = (double) whole * unit;

	if (whole <= 0 || !(unit > 0.0))
		return 0;

	/* Above 2^53 the product may round up, up to where the cast is undefined. */
	if (unit >= 1.0 || part >= 9.2e18)
		return whole - 1;
	return (int64_t) part < whole ? (int64_t) part : whole - 1;
}

/* Reads delay-seconds; more digits than fit mean as long as can be. */
static bool
parse_delay(const char *value, size_t len, int64_t *seconds)
{
	int64_t		number = 0;

	for (size_t i = 0; i < len; i++)
	{
		int			digit = value[i] - '0';

		if (digit < 0 || digit > 9)
			return false;
		if (number > (INT64_MAX - digit) / 10)
			number = INT64_MAX;
		else
			number = number * 10 + digit;
	}
	*seconds = number;
	return true;
}

/*
 * Reads an HTTP-date (RFC 9110 section 5.6.7), in any of its three forms.  The
 * name of the day must be one, but need not be the right one: a clerical error
 * there leaves the time itself clear.
 */
static bool
parse_date(const char *value, size_t len, int64_t now_unix, int64_t *unix_time)
{
	Cursor		in = {value, len};
	CivilTime	t;

	if (!parse_imf_fixdate(in, &t) && !parse_rfc850(in, now_unix, &t) && !parse_asctime(in, &t))
		return false;
	if (!day_exists(&t))
		return false;
	*unix_time = to_unix(&t);
	return true;
}

/* Reads "Sun, 06 Nov 1994 08:49:37 GMT". */
static bool
parse_imf_fixdate(Cursor in, CivilTime *out)
{
	int			weekday;

	return take_name(&in, day_names, N_DAYS, &weekday) &&
		take_text(&in, ", ") &&
		take_digits(&in, 2, &out->day) &&
		take_text(&in, " ") &&
		take_name(&in, month_names, N_MONTHS, &out->month) &&
		take_text(&in, " ") &&
		take_digits(&in, 4, &out->year) &&
		take_text(&in, " ") &&
		take_time(&in, &out->second) &&
		take_text(&in, " GMT") &&
		in.left == 0;
}

/* Reads "Sunday, 06-Nov-94 08:49:37 GMT". */
static bool
parse_rfc850(Cursor in, int64_t now_unix, CivilTime *out)
{
	int			weekday;

	if (!(take_name(&in, long_day_names, N_DAYS, &weekday) &&
		  take_text(&in, ", ") &&
		  take_digits(&in, 2, &out->day) &&
		  take_text(&in, "-") &&
		  take_name(&in, month_names, N_MONTHS, &out->month) &&
		  take_text(&in, "-") &&
		  take_digits(&in, 2, &out->year) &&
		  take_text(&in, " ") &&
		  take_time(&in, &out->second) &&
		  take_text(&in, " GMT") &&
		  in.left == 0))
		return false;
	out->year = year_in_reach(out, now_unix);
	return true;
}

/* Reads "Sun Nov  6 08:49:37 1994". */
static bool
parse_asctime(Cursor in, CivilTime *out)
{
	int			weekday;

	return take_name(&in, day_names, N_DAYS, &weekday) &&
		take_text(&in, " ") &&
		take_name(&in, month_names, N_MONTHS, &out->month) &&
		take_text(&in, " ") &&
		(take_text(&in, " ") ? take_digits(&in, 1, &out->day) : take_digits(&in, 2, &out->day)) &&
		take_text(&in, " ") &&
		take_time(&in, &out->second) &&
		take_text(&in, " ") &&
		take_digits(&in, 4, &out->year) &&
		in.left == 0;
}

/* Takes a text, if it comes next. */
static bool
take_text(Cursor *in, const char *text)
{
	size_t		len = strlen(text);

	if (in->left < len || memcmp(in->at, text, len) != 0)
		return false;
	in->at += len;
	in->left -= len;
	return true;
}

/* Takes one of n names and gives its position, from 1; case counts. */
static bool
take_name(Cursor *in, const char *const *names, int n, int *position)
{
	for (int i = 0; i < n; i++)
	{
		if (take_text(in, names[i]))
		{
			*position = i + 1;
			return true;
		}
	}
	return false;
}

/* Takes exactly n digits. */
static bool
take_digits(Cursor *in, int n, int *number)
{
	int			value = 0;

	if (in->left < (size_t) n)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			digit = in->at[i] - '0';

		if (digit < 0 || digit > 9)
			return false;
		value = value * 10 + digit;
	}
	in->at += n;
	in->left -= (size_t) n;
	*number = value;
	return true;
}

/* Takes "08:49:37" and gives the second of the day; second 60 is a leap second. */
static bool
take_time(Cursor *in, int *second)
{
	int			h;
	int			m;
	int			s;

	if (!(take_digits(in, 2, &h) && take_text(in, ":") &&
		  take_digits(in, 2, &m) && take_text(in, ":") &&
		  take_digits(in, 2, &s)))
		return false;
	if (h > 23 || m > 59 || s > 60)
		return false;
	*second = h * 3600 + m * 60 + s;
	return true;
}

/* Says whether the month has such a day. */
static bool
day_exists(const CivilTime *t)
{
	static const int lengths[N_MONTHS] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool		leap = (t->year % 4 == 0 && t->year % 100 != 0) || t->year % 400 == 0;
	int			length = lengths[t->month - 1] + (t->month == 2 && leap ? 1 : 0);

	return t->day >= 1 && t->day <= length;
}

/*
 * Gives the year that two digits mean: the latest one that does not put the
 * time more than 50 years into the future (RFC 9110 section 5.6.7).
 */
static int
year_in_reach(const CivilTime *t, int64_t now_unix)
{
	CivilTime	limit;
	CivilTime	guess = *t;

	if (now_unix < 0)
		now_unix = 0;
	if (now_unix > MAX_TIME)
		now_unix = MAX_TIME;
	limit = civil_from_unix(now_unix);
	limit.year += 50;
	guess.year = limit.year - limit.year % 100 + t->year;
	if (to_unix(&guess) > to_unix(&limit))
		guess.year -= 100;
	return guess.year;
}

/* Gives seconds since 1970 UTC. */
static int64_t
to_unix(const CivilTime *t)
{
	return days_from_civil(t->year, t->month, t->day) * SECONDS_PER_DAY + t->second;
}

/*
 * Gives days since 1970-01-01 in the Gregorian calendar, which repeats every
 * 400 years of 146,097 days; years begin in March so that a leap day is last.
 */
static int64_t
days_from_civil(int64_t year, int month, int day)
{
	int64_t		y = (month > 2 ? year : year - 1) + 400;
	int64_t		era = y / 400;
	int64_t		year_of_era = y % 400;
	int64_t		day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
	int64_t		day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

	return (era - 1) * 146097 + day_of_era - 719468;
}

/* Gives the calendar's reading of a time that is not before 1970. */
static CivilTime
civil_from_unix(int64_t unix_time)
{
	int64_t		days = unix_time / SECONDS_PER_DAY + 719468;
	int64_t		era = days / 146097;
	int64_t		day_of_era = days % 146097;
	int64_t		year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t		day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int			shifted = (int) ((5 * day_of_year + 2) / 153);
	CivilTime	t;

	t.day = (int) (day_of_year - (153 * shifted + 2) / 5) + 1;
	t.month = shifted < 10 ? shifted + 3 : shifted - 9;
	t.year = (int) (era * 400 + year_of_era) + (t.month <= 2 ? 1 : 0);
	t.second = (int) (unix_time % SECONDS_PER_DAY);
	return t;
}
