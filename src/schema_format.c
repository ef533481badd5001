/*
 * schema_format.c
 *		The "format" keyword: date and date-time (RFC 3339), email (RFC 5321),
 *		uri (RFC 3986) and uuid (RFC 9562).  Pure string checks, none allocates.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <ctype.h>

#include "schema_internal.h"

/* Longest host literal that inet_pton is asked about. */
#define MAX_ADDRESS 64

#define SUB_DELIMS "!$&'()*+,;="
#define ATEXT "!#$%&'*+-/=?^_`{|}~"

typedef bool (*FormatCheck) (const char *s, int len);

static bool is_date(const char *s, int len);
static bool is_date_time(const char *s, int len);
static bool is_email(const char *s, int len);
static bool is_uri(const char *s, int len);
static bool is_uuid(const char *s, int len);
static bool is_local_part(const char *s, int len);
static bool is_quoted_local_part(const char *s, int len);
static bool is_domain(const char *s, int len);
static bool is_authority(const char *s, int len);
static bool is_ip_literal(const char *s, int len);
static bool is_address(int family, const char *s, int len);
static bool only_uri_chars(const char *s, int len, const char *more);
static bool is_alnum(char c);
static bool read_number(const char *s, int digits, int *number);

const char *const al_schema_format_names[] = {"date", "date-time", "email", "uri", "uuid", NULL};

static const FormatCheck checks[] = {is_date, is_date_time, is_email, is_uri, is_uuid};

static const char *const examples[] = {
	"2026-01-31", "2026-01-31T14:30:00Z", "name@example.com", "https://example.com/path",
	"5f0c8a1e-7b1d-4e0a-9c53-0d8f1b2a3c4d"
};

/* Find a format by name; -1 when it is none of the five. */
static int
format_index(const JsonbValue *format)
{
	for (int i = 0; al_schema_format_names[i] != NULL; i++)
	{
		if (al_schema_is_text(format, al_schema_format_names[i]))
			return i;
	}
	return -1;
}

/* Give a value of a format, for people; NULL when the format is unknown. */
const char *
al_schema_format_example(const JsonbValue *format)
{
	int			i = format_index(format);

	return i < 0 ? NULL : examples[i];
}

/* Tell whether a string has a format. */
bool
al_schema_format_match(const JsonbValue *format, const JsonbValue *value)
{
	int			i = format_index(format);

	return i >= 0 && checks[i] (value->val.string.val, value->val.string.len);
}

/* Check a full-date. */
static bool
is_date(const char *s, int len)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			year;
	int			month;
	int			day;
	bool		leap;

	if (len != 10 || s[4] != '-' || s[7] != '-' || !read_number(s, 4, &year) ||
		!read_number(s + 5, 2, &month) || !read_number(s + 8, 2, &day))
		return false;
	leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	return month >= 1 && month <= 12 && day >= 1 &&
		day <= days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Check a date-time; second 60 only where a leap second can be, 23:59 UTC. */
static bool
is_date_time(const char *s, int len)
{
	int			hour;
	int			minute;
	int			second;
	int			zone_hour = 0;
	int			zone_minute = 0;
	int			at = 19;
	int			offset = 0;

	if (len < 20 || !is_date(s, 10) || (s[10] != 'T' && s[10] != 't') || s[13] != ':' ||
		s[16] != ':' || !read_number(s + 11, 2, &hour) || !read_number(s + 14, 2, &minute) ||
		!read_number(s + 17, 2, &second))
		return false;
	if (s[at] == '.')
	{
		for (at++; at < len && s[at] >= '0' && s[at] <= '9'; at++)
			;
		if (at == 20)
			return false;
	}
	if (len - at == 6 && (s[at] == '+' || s[at] == '-'))
	{
		if (s[at + 3] != ':' || !read_number(s + at + 1, 2, &zone_hour) ||
			!read_number(s + at + 4, 2, &zone_minute))
			return false;
		offset = (zone_hour * 60 + zone_minute) * (s[at] == '+' ? -1 : 1);
	}
	else if (len - at != 1 || (s[at] != 'Z' && s[at] != 'z'))
		return false;
	if (hour > 23 || minute > 59 || second > 60 || zone_hour > 23 || zone_minute > 59)
		return false;
	return second < 60 || (hour * 60 + minute + offset + 2880) % 1440 == 1439;
}

/* Check a mailbox: local part, @, domain or address literal. */
static bool
is_email(const char *s, int len)
{
	int			at = len - 1;

	while (at >= 0 && s[at] != '@')
		at--;
	if (at < 1 || at > 64 || len > 254)
		return false;
	return is_local_part(s, at) && is_domain(s + at + 1, len - at - 1);
}

/* Check a dot-string or a quoted string. */
static bool
is_local_part(const char *s, int len)
{
	if (s[0] == '"')
		return is_quoted_local_part(s, len);
	if (s[0] == '.' || s[len - 1] == '.')
		return false;
	for (int i = 0; i < len; i++)
	{
		if (s[i] == '.' ? s[i - 1] == '.' : !is_alnum(s[i]) && strchr(ATEXT, s[i]) == NULL)
			return false;
	}
	return true;
}

/* Check a quoted string: printable ASCII, quote and backslash escaped. */
static bool
is_quoted_local_part(const char *s, int len)
{
	if (len < 2 || s[len - 1] != '"')
		return false;
	for (int i = 1; i < len - 1; i++)
	{
		if (s[i] == '\\')
			i++;
		else if (s[i] == '"')
			return false;
		if (i == len - 1 || s[i] < ' ' || s[i] > '~')
			return false;
	}
	return true;
}

/* Check labels between dots, or [127.0.0.1] or [IPv6:...]. */
static bool
is_domain(const char *s, int len)
{
	int			start = 0;

	if (len > 2 && s[0] == '[' && s[len - 1] == ']')
	{
		if (len > 7 && pg_strncasecmp(s + 1, "IPv6:", 5) == 0)
			return is_address(AF_INET6, s + 6, len - 7);
		return is_address(AF_INET, s + 1, len - 2);
	}
	for (int i = 0; i <= len; i++)
	{
		if (i < len && s[i] != '.')
		{
			if (!is_alnum(s[i]) && s[i] != '-')
				return false;
			continue;
		}
		if (i == start || i - start > 63 || s[start] == '-' || s[i - 1] == '-')
			return false;
		start = i + 1;
	}
	return true;
}

/* Check a URI with its scheme; a relative reference is none. */
static bool
is_uri(const char *s, int len)
{
	int			at = 0;
	int			end;
	int			fragment;

	while (at < len && (is_alnum(s[at]) || strchr("+-.", s[at]) != NULL))
		at++;
	if (at == 0 || at == len || s[at] != ':' || !is_alnum(s[0]) || isdigit((unsigned char) s[0]))
		return false;
	at++;
	if (len - at >= 2 && s[at] == '/' && s[at + 1] == '/')
	{
		at += 2;
		for (end = at; end < len && strchr("/?#", s[end]) == NULL; end++)
			;
		if (!is_authority(s + at, end - at))
			return false;
		at = end;
	}
	for (fragment = at; fragment < len && s[fragment] != '#'; fragment++)
		;
	if (!only_uri_chars(s + at, fragment - at, SUB_DELIMS ":@/?"))
		return false;
	return fragment == len ||
		only_uri_chars(s + fragment + 1, len - fragment - 1, SUB_DELIMS ":@/?");
}

/* Check [userinfo@]host[:port]. */
static bool
is_authority(const char *s, int len)
{
	const char *at = len > 0 ? memchr(s, '@', len) : NULL;
	int			end;

	if (at != NULL)
	{
		if (!only_uri_chars(s, (int) (at - s), SUB_DELIMS ":"))
			return false;
		len -= (int) (at - s) + 1;
		s = at + 1;
	}
	if (len > 0 && s[0] == '[')
	{
		for (end = 1; end < len && s[end] != ']'; end++)
			;
		if (end == len || !is_ip_literal(s + 1, end - 1))
			return false;
		end++;
	}
	else
	{
		for (end = 0; end < len && s[end] != ':'; end++)
			;
		if (!only_uri_chars(s, end, SUB_DELIMS))
			return false;
	}
	if (end < len && s[end++] != ':')
		return false;
	for (; end < len; end++)
	{
		if (!isdigit((unsigned char) s[end]))
			return false;
	}
	return true;
}

/* Check what stands in brackets: an IPv6 address, or vN.something. */
static bool
is_ip_literal(const char *s, int len)
{
	int			at = 1;

	if (len == 0 || (s[0] != 'v' && s[0] != 'V'))
		return is_address(AF_INET6, s, len);
	while (at < len && isxdigit((unsigned char) s[at]))
		at++;
	return at > 1 && at + 1 < len && s[at] == '.' && memchr(s, '%', len) == NULL &&
		only_uri_chars(s + at + 1, len - at - 1, SUB_DELIMS ":");
}

/* Check an IP address in text. */
static bool
is_address(int family, const char *s, int len)
{
	char		text[MAX_ADDRESS];
	struct in6_addr address;

	if (len <= 0 || len >= MAX_ADDRESS)
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return inet_pton(family, text, &address) == 1;
}

/* Tell whether all is unreserved, percent-encoded or among more. */
static bool
only_uri_chars(const char *s, int len, const char *more)
{
	for (int i = 0; i < len; i++)
	{
		if (s[i] == '%')
		{
			if (i + 2 >= len || !isxdigit((unsigned char) s[i + 1]) ||
				!isxdigit((unsigned char) s[i + 2]))
				return false;
			i += 2;
		}
		else if (!is_alnum(s[i]) && strchr("-._~", s[i]) == NULL && strchr(more, s[i]) == NULL)
			return false;
	}
	return true;
}

/* Check 8-4-4-4-12 hexadecimal digits. */
static bool
is_uuid(const char *s, int len)
{
	if (len != 36)
		return false;
	for (int i = 0; i < len; i++)
	{
		bool		dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !isxdigit((unsigned char) s[i]))
			return false;
	}
	return true;
}

/* Tell whether a character is an ASCII letter or digit. */
static bool
is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Read exactly so many digits. */
static bool
read_number(const char *s, int digits, int *number)
{
	*number = 0;
	for (int i = 0; i < digits; i++)
	{
		if (s[i] < '0' || s[i] > '9')
			return false;
		*number = *number * 10 + (s[i] - '0');
	}
	return true;
}
