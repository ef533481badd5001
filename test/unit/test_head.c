/*
 * test_head.c
 *		A response head is believed byte by byte, or not at all.
 *
 * The status line is held against the regular expression of the contract, run
 * by the C library's own engine.  Lines are handed over in buffers of exactly
 * their length, so that an address sanitizer sees any byte read beyond.
 */
#define _GNU_SOURCE				/* REG_STARTEND */
#include <ctype.h>
#include <regex.h>
#include <stdlib.h>

#include "rules/head.h"

#include "tap.h"

static const char *const KEEP[] = {"retry-after", "idempotent-replayed", "location", "x-request-id", NULL};
static const char *const KEEP_NONE[] = {NULL};

static uint64_t seed = UINT64_C(9112);
static AlHead head;				/* 10 kB: one is enough */

static void check_status_numbers(void);
static void check_lying_lines(void);
static void check_changed_bytes(void);
static void check_informational(void);
static void check_cut_heads(void);
static void check_malformed_stays(void);
static void check_kept(void);
static void check_values(void);
static void check_caps(void);
static void check_long_heads(void);
static void check_length(void);
static void check_chunked(void);
static void check_trailers(void);
static void check_random_lines(void);

int
main(void)
{
	check_status_numbers();
	check_lying_lines();
	check_changed_bytes();
	check_informational();
	check_cut_heads();
	check_malformed_stays();
	check_kept();
	check_values();
	check_caps();
	check_long_heads();
	check_length();
	check_chunked();
	check_trailers();
	check_random_lines();
	return done_testing();
}

/* ---- Handing lines over ---- */

/* One line of exactly this length. */
static bool
give(const char *line, size_t len, const char *const *keep)
{
	char	   *exact = malloc(len > 0 ? len : 1);
	bool		going;

	if (exact == NULL)
		abort();
	memcpy(exact, line, len);
	going = al_head_line(&head, exact, len, keep);
	free(exact);
	return going;
}

static bool
line(const char *text)
{
	return give(text, strlen(text), KEEP);
}

/* A fresh head that has seen its status line. */
static void
begin(const char *status_line)
{
	al_head_init(&head);
	line(status_line);
}

/* A 200 with these fields (NULL at the end) and its blank line. */
static void
with_fields(const char *const *fields)
{
	begin("HTTP/1.1 200 OK\r\n");
	for (; *fields != NULL; fields++)
		line(*fields);
	line("\r\n");
}

#define FIELDS(...) ((const char *const[]) {__VA_ARGS__, NULL})

/* ---- The status line ---- */

/* A first line, whose blank line follows, is the head of this status; or malformed for 0. */
static void
expect_first(const char *text, size_t len, int status)
{
	bool		going;

	al_head_init(&head);
	going = give(text, len, KEEP);
	if (status == 0)
	{
		tap_cell(!going && head.malformed && head.status == 0 && !head.complete, "\"%.*s\" (%zu bytes) is taken for status %d", (int) len, text, len, head.status);
		give("\r\n", 2, KEEP);
		tap_cell(!head.complete, "\"%.*s\" (%zu bytes) completes a head", (int) len, text, len);
		return;
	}
	tap_cell(going && !head.malformed && head.status == status && !head.complete, "\"%.*s\": status %d, malformed %d, expected status %d", (int) len, text, head.status, head.malformed, status);
	tap_cell(give("\r\n", 2, KEEP) && head.complete == (status >= 200) && !head.malformed, "\"%.*s\" and a blank line: complete %d", (int) len, text, head.complete);
}

static void
expect_line(const char *text, int status)
{
	expect_first(text, strlen(text), status);
}

/* Every three digits; 100 to 599 are a status, and only 200 to 599 are final. */
static void
check_status_numbers(void)
{
	static const char *const VERSIONS[] = {"HTTP/1.0", "HTTP/1.1", "HTTP/2"};
	static const char *const ENDS[] = {" OK\r\n", " \r\n", "\r\n", "\n", " OK\n", ""};
	char		text[64];

	tap_group("status numbers 000 to 999 in three versions");
	for (int number = 0; number <= 999; number++)
	{
		for (size_t v = 0; v < sizeof(VERSIONS) / sizeof(VERSIONS[0]); v++)
		{
			for (size_t e = 0; e < sizeof(ENDS) / sizeof(ENDS[0]); e++)
			{
				snprintf(text, sizeof(text), "%s %03d%s", VERSIONS[v], number, ENDS[e]);
				expect_line(text, number >= 100 && number <= 599 ? number : 0);
			}
		}
	}
	tap_group_end();
}

/* Status lines that were seen to be misread, and their kin. */
static void
check_lying_lines(void)
{
	static const char *const LIES[] = {
		"HTTP/1.1 2000\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 20\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2\r\n", "HTTP/1.1 \r\n", "HTTP/1.1\r\n", "HTTP/1.1 OK\r\n",
		"ICY 200 OK\r\n", " HTTP/1.1 200 OK\r\n", "\tHTTP/1.1 200 OK\r\n", "\r\nHTTP/1.1 200 OK\r\n", "\nHTTP/1.1 200 OK\r\n", "xHTTP/1.1 200 OK\r\n",
		"http/1.1 200 OK\r\n", "Http/1.1 200 OK\r\n", "HTTP/1.2 200 OK\r\n", "HTTP/0.9 200 OK\r\n", "HTTP/1 200 OK\r\n", "HTTP/1.10 200 OK\r\n", "HTTP/11 200 OK\r\n",
		"HTTP/2.0 200\r\n", "HTTP/3 200\r\n", "HTTP/22 200\r\n", "HTTP/ 200 OK\r\n", "HTTP 200 OK\r\n", "HTTP/1.1  200 OK\r\n", "HTTP/1.1\t200 OK\r\n", "HTTP/1.1200 OK\r\n",
		"HTTP/1.1 200\tOK\r\n", "HTTP/1.1 200OK\r\n", "HTTP/1.1 200;OK\r\n", "HTTP/1.1 200.5 OK\r\n", "HTTP/1.1 2OO OK\r\n", "HTTP/1.1 +20 OK\r\n", "HTTP/1.1 -200 OK\r\n", "HTTP/1.1 0200 OK\r\n",
		"HTTP/1.1 0xC8 OK\r\n", "HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n", "HTTPS/1.1 200 OK\r\n", "Content-Length: 5\r\n", "<html>\r\n", "{\"ok\":true}\r\n", "SIP/2.0 200 OK\r\n", "RTSP/1.0 200 OK\r\n",
	"\r\n", "\n", "H", "HTTP/1.", "HTTP/2 20", "HTTP/2 2000\r\n", "HTTP/2  200\r\n", "HTTP/1,1 200 OK\r\n"};

	tap_group("status lines that lie");
	for (size_t i = 0; i < sizeof(LIES) / sizeof(LIES[0]); i++)
		expect_line(LIES[i], 0);
	expect_first("HTTP/1.1 200\0OK\r\n", 17, 0);
	expect_first("HTTP/1.1 20\0 OK\r\n", 17, 0);
	expect_first("HTTP/1.1\0 200 OK\r\n", 18, 0);
	expect_first("\0HTTP/1.1 200 OK\r\n", 18, 0);
	expect_first("HTTP/1.1 200 OK\r\n", 11, 0);	/* "HTTP/1.1 20", the rest not handed over */
	tap_group_end();

	tap_group("status lines that are none too pretty but true");
	expect_line("HTTP/1.1 200\r\n", 200);
	expect_line("HTTP/1.1 200", 200);
	expect_line("HTTP/1.1 200 \r\n", 200);
	expect_line("HTTP/2 200\r\n", 200);
	expect_line("HTTP/2 200 \r\n", 200);
	expect_line("HTTP/1.0 404 Not: Found\r\n", 404);
	expect_line("HTTP/1.1 200 HTTP/1.1 500 Error\r\n", 200);
	expect_line("HTTP/1.1 200 \xff\xfe\x80\r\n", 200);
	expect_first("HTTP/1.1 200 O\0K\r\n", 18, 200);
	expect_first("HTTP/1.1 200 OK\r\n", 12, 200);
	tap_group_end();
}

/* Any byte of a status line changed to any other, or taken out, is as the contract's expression says. */
static void
check_changed_bytes(void)
{
	static const char *const LINES[] = {"HTTP/1.1 200 OK\r\n", "HTTP/1.0 503\r\n", "HTTP/2 404 \r\n", "HTTP/1.1 599\n"};
	regex_t		expression;

	if (regcomp(&expression, "^HTTP/(1\\.[01]|2) [1-5][0-9][0-9]( |\r|\n|$)", REG_EXTENDED) != 0)
		abort();
	tap_group("status lines with one byte changed or taken out, against the expression");
	for (size_t l = 0; l < sizeof(LINES) / sizeof(LINES[0]); l++)
	{
		size_t		full = strlen(LINES[l]);

		for (size_t at = 0; at < full; at++)
		{
			for (int byte = 0; byte <= 256; byte++)
			{
				char		text[64];
				size_t		len = byte < 256 ? full : full - 1;
				regmatch_t	match = {.rm_so = 0, .rm_eo = (regoff_t) len};
				int			status = 0;

				memcpy(text, LINES[l], full + 1);
				if (byte < 256)
					text[at] = (char) byte;
				else
					memmove(text + at, text + at + 1, full - at);
				if (regexec(&expression, text, 1, &match, REG_STARTEND) == 0)
					status = atoi(strchr(text, ' ') + 1);
				expect_first(text, len, status);
			}
		}
	}
	tap_group_end();
	regfree(&expression);
}

/* ---- More than one head ---- */

/* An informational head is never the answer, and leaves nothing behind but its bytes. */
static void
check_informational(void)
{
	static const int INFORMATIONAL[] = {100, 101, 102, 103, 199};
	char		text[64];

	tap_group("informational heads");
	for (size_t i = 0; i < sizeof(INFORMATIONAL) / sizeof(INFORMATIONAL[0]); i++)
	{
		snprintf(text, sizeof(text), "HTTP/1.1 %d Wait\r\n", INFORMATIONAL[i]);
		begin(text);
		tap_cell(line("Location: /first\r\n") && line("Content-Length: 7\r\n") && line("Transfer-Encoding: chunked\r\n"), "a field of %d stops", INFORMATIONAL[i]);
		tap_cell(line("\r\n") && !head.complete && head.status == INFORMATIONAL[i], "%d is final", INFORMATIONAL[i]);
		tap_cell(line("HTTP/1.1 201 Created\r\n") && !head.complete && head.status == 201, "201 after %d: status %d", INFORMATIONAL[i], head.status);
		tap_cell(head.n_kept == 0 && !head.has_length && !head.chunked, "%d leaves its fields to the final head", INFORMATIONAL[i]);
		tap_cell(line("X-Request-Id: b\r\n") && line("\r\n") && head.complete && !head.malformed, "201 after %d is not complete", INFORMATIONAL[i]);
		tap_cell(head.n_kept == 1 && al_head_find(&head, "location") == NULL, "a field of %d is found", INFORMATIONAL[i]);
		tap_cell(head.bytes == strlen(text) + 18 + 19 + 28 + 2 + 22 + 17 + 2, "bytes %zu", head.bytes);
	}
	begin("HTTP/1.1 100 Continue\r\n");
	line("\r\n");
	line("HTTP/1.1 103 Early Hints\r\n");
	line("\r\n");
	tap_cell(!head.complete && head.status == 103, "two informational heads: status %d", head.status);
	tap_cell(line("HTTP/1.1 500 Oops\r\n") && line("\r\n") && head.complete && head.status == 500, "500 at last: status %d", head.status);

	begin("HTTP/1.1 100 Continue\r\n");
	line("\r\n");
	tap_cell(!line("HTTP/1.1 2000 OK\r\n") && head.malformed && !head.complete && head.status != 200, "a lie after 100: status %d", head.status);
	begin("HTTP/1.1 100 Continue\r\n");
	line("\r\n");
	tap_cell(!line("ICY 200 OK\r\n") && head.malformed && !head.complete, "ICY after 100");
	tap_group_end();
}

/* A head that broke off before its blank line is not complete, wherever it broke. */
static void
check_cut_heads(void)
{
	static const char *const LINES[] = {"HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "X-Request-Id: abc\r\n", "Connection: close\r\n"};
	size_t		bytes = 0;

	tap_group("heads cut before the blank line");
	al_head_init(&head);
	tap_cell(!head.complete && head.status == 0 && head.n_kept == 0 && head.bytes == 0 && !head.malformed && !head.chunked && !head.has_length, "a fresh head knows something");
	for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++)
	{
		bytes += strlen(LINES[i]);
		tap_cell(line(LINES[i]) && !head.complete && head.status == 200, "complete after line %zu", i);
		tap_cell(head.bytes == bytes, "bytes %zu, expected %zu", head.bytes, bytes);
	}
	tap_cell(line("\r\n") && head.complete && head.status == 200, "not complete after the blank line");
	begin("HTTP/1.1 200 OK\n");
	tap_cell(line("\n") && head.complete, "a bare newline is a blank line too");
	begin("HTTP/1.1 200 OK\r\n");
	line(" \r\n");
	tap_cell(!head.complete, "a line of one space is no blank line");
	begin("HTTP/1.1 200 OK\r\n");
	give("\0\r\n", 3, KEEP);
	tap_cell(!head.complete, "a line of one NUL is no blank line");
	tap_group_end();
}

/* Once malformed, no later line makes it good; only a new attempt does. */
static void
check_malformed_stays(void)
{
	al_head_init(&head);
	ok(!line("ICY 200 OK\r\n"), "no HTTP: the caller stops");
	ok(!line("HTTP/1.1 200 OK\r\n"), "a good line after a bad one does not mend it");
	ok(!line("\r\n"), "neither does the blank line");
	ok(head.malformed && !head.complete, "malformed stays, complete never comes");
	al_head_init(&head);
	ok(line("HTTP/1.1 200 OK\r\n") && line("\r\n") && head.complete && !head.malformed, "a fresh head forgets it");

	tap_group("two final status lines in one head prove neither");
	for (int first = 200; first <= 599; first++)
	{
		char		text[32];

		snprintf(text, sizeof(text), "HTTP/1.1 %d X\r\n", first);
		begin(text);
		line("HTTP/1.1 404 Not Found\r\n");
		line("\r\n");
		tap_cell(!head.complete && head.malformed, "%d and 404: complete %d with status %d", first, head.complete, head.status);
	}
	tap_group_end();
}

/* ---- Kept headers ---- */

/* The allow list decides, whatever the case, and nothing else is kept. */
static void
check_kept(void)
{
	with_fields(FIELDS("RETRY-AFTER: 5\r\n", "Set-Cookie: secret\r\n", "x-request-id: one\r\n", "X-Request-ID: two\r\n", "Server: x\r\n"));
	is_int(head.n_kept, 3, "only the allow list is kept");
	is_str(head.kept[0].name, "RETRY-AFTER", "the name stays as received");
	is_str(al_head_find(&head, "retry-after"), "5", "found by its lower-case name");
	is_str(al_head_find(&head, "Retry-After"), "5", "found by any case");
	is_str(al_head_find(&head, "x-request-id"), "one", "the first of two is found");
	is_str(head.kept[2].value, "two", "the second is kept in order");
	is_str(al_head_find(&head, "set-cookie"), NULL, "what is not on the list is not found");
	is_str(al_head_find(&head, "location"), NULL, "what did not come is not found");
	is_str(al_head_find(&head, ""), NULL, "no name finds nothing");

	with_fields(FIELDS("Retry-Afte: 1\r\n", "Retry-After-X: 2\r\n", "XRetry-After: 3\r\n", "Retry_After: 4\r\n", "Retry-After\r\n", ": 5\r\n", "nonsense\r\n"));
	is_int(head.n_kept, 0, "a name is the whole name");
	ok(head.complete && head.status == 200, "odd fields do not spoil the head");

	begin("HTTP/1.1 200 OK\r\n");
	give("Retry-After: 5\r\n", 16, KEEP_NONE);
	give("Content-Length: 5\r\n", 19, KEEP_NONE);
	ok(head.n_kept == 0 && head.has_length && head.length == 5, "an empty list keeps nothing, framing is read all the same");

	begin("HTTP/1.1 200 OK\r\n");
	give("Retry-\0After: 5\r\n", 17, KEEP);
	give("Retry-After\0: 5\r\n", 17, KEEP);
	is_int(head.n_kept, 0, "a NUL in the name is no name on the list");
}

/* The value of one X-Request-Id field. */
static void
expect_value(const char *field, size_t len, const char *value)
{
	const char *got;

	begin("HTTP/1.1 200 OK\r\n");
	give(field, len, KEEP);
	got = al_head_find(&head, "x-request-id");
	tap_cell(got != NULL && strcmp(got, value) == 0, "\"%.*s\": \"%s\", expected \"%s\"", (int) len, field, got ? got : "(null)", value);
}

/* Values are trimmed, and printable ASCII when kept. */
static void
check_values(void)
{
	char		field[64];

	tap_group("values");
	expect_value("X-Request-Id: abc\r\n", 19, "abc");
	expect_value("X-Request-Id:abc\r\n", 18, "abc");
	expect_value("X-Request-Id: \t  abc \t \r\n", 25, "abc");
	expect_value("X-Request-Id: abc\n", 18, "abc");
	expect_value("X-Request-Id: abc", 17, "abc");
	expect_value("X-Request-Id: a b: c\r\n", 22, "a b: c");
	expect_value("X-Request-Id:\r\n", 15, "");
	expect_value("X-Request-Id:   \r\n", 18, "");
	expect_value("X-Request-Id: a\0b\r\n", 19, "a?b");
	expect_value("X-Request-Id: \0\r\n", 17, "?");
	expect_value("X-Request-Id: \0\0b\0\r\n", 20, "??b?");
	for (int byte = 0; byte < 256; byte++)
	{
		char		value[4] = {'a', (char) byte, 'b', '\0'};

		if (byte == '\n' || byte == '\r')
			continue;			/* libcurl cuts there, so what comes is another line */
		if (byte < 0x20 || byte > 0x7e)
			value[1] = '?';
		memcpy(field, "X-Request-Id: a*b\r\n", 20);
		field[15] = (char) byte;
		expect_value(field, 19, value);
	}
	tap_group_end();
}

/* Whether all that is kept is terminated, printable and on the list. */
static bool
is_sound(void)
{
	if (head.n_kept < 0 || head.n_kept > AL_HEAD_KEPT)
		return false;
	for (int i = 0; i < head.n_kept; i++)
	{
		const AlHeader *kept = &head.kept[i];

		if (memchr(kept->name, '\0', AL_HEAD_NAME_MAX) == NULL || memchr(kept->value, '\0', AL_HEAD_VALUE_MAX) == NULL)
			return false;
		for (const char *c = kept->value; *c != '\0'; c++)
		{
			if ((unsigned char) *c < 0x20 || (unsigned char) *c > 0x7e)
				return false;
		}
	}
	return head.status == 0 || (head.status >= 100 && head.status <= 599);
}

/* A fixed number of headers, each of a fixed size. */
static void
check_caps(void)
{
	static char field[AL_HEAD_VALUE_MAX + 128];
	char		long_name[AL_HEAD_NAME_MAX + 64];
	const char *const keep_long[] = {long_name, NULL};

	begin("HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 3 * AL_HEAD_KEPT; i++)
	{
		snprintf(field, sizeof(field), "X-Request-Id: %d\r\n", i);
		line(field);
	}
	ok(line("\r\n") && head.complete, "more kept headers than there is room for do not stop the head");
	is_int(head.n_kept, AL_HEAD_KEPT, "as many are kept as there is room for");
	is_str(head.kept[AL_HEAD_KEPT - 1].value, "15", "the first ones are kept");

	tap_group("values around the cap");
	for (int len = AL_HEAD_VALUE_MAX - 4; len < AL_HEAD_VALUE_MAX + 64; len++)
	{
		int			kept = len < AL_HEAD_VALUE_MAX ? len : AL_HEAD_VALUE_MAX - 1;

		begin("HTTP/1.1 200 OK\r\n");
		snprintf(field, sizeof(field), "Location: %0*d\r\n", len, 0);
		line(field);
		tap_cell(head.n_kept == 1 && is_sound() && strlen(head.kept[0].value) == (size_t) kept, "%d bytes: kept %zu, expected %d", len, strlen(head.kept[0].value), kept);
	}
	tap_group_end();

	tap_group("names around the cap");
	for (size_t len = 1; len < sizeof(long_name) - 1; len++)
	{
		memset(long_name, 'a', len);
		long_name[len] = '\0';
		begin("HTTP/1.1 200 OK\r\n");
		snprintf(field, sizeof(field), "%s: v\r\n", long_name);
		tap_cell(give(field, strlen(field), keep_long) && is_sound(), "a name of %zu bytes", len);
		if (len < AL_HEAD_NAME_MAX)
			tap_cell(al_head_find(&head, long_name) != NULL, "a name of %zu bytes is lost", len);
	}
	tap_group_end();
}

/* The bytes of one response are bounded, informational heads included. */
static void
check_long_heads(void)
{
	static char field[AL_HEAD_MAX_BYTES + 64];
	size_t		start = strlen("HTTP/1.1 200 OK\r\n");
	int			rounds = 0;
	bool		going = true;

	tap_group("one field that fills the head");
	for (size_t total = AL_HEAD_MAX_BYTES - 4; total <= AL_HEAD_MAX_BYTES + 4; total++)
	{
		size_t		len = total - start - 2;
		bool		fits = total <= AL_HEAD_MAX_BYTES;

		memset(field, 'x', len);
		memcpy(field, "X-Filler: ", 10);
		memcpy(field + len - 2, "\r\n", 2);
		begin("HTTP/1.1 200 OK\r\n");
		going = give(field, len, KEEP);
		going = give("\r\n", 2, KEEP) && going;
		tap_cell(going == fits && head.malformed == !fits && head.complete == fits, "%zu bytes: going %d, malformed %d, complete %d", total, going, head.malformed, head.complete);
	}
	tap_group_end();

	begin("HTTP/1.1 200 OK\r\n");
	while (line("X-Filler: yes\r\n") && rounds < 10000)
		rounds++;
	is_int(rounds, (AL_HEAD_MAX_BYTES - (int) start) / 15, "many short fields stop at the same size");
	ok(head.malformed && !head.complete && !line("\r\n") && !head.complete, "and the blank line comes too late");

	al_head_init(&head);
	for (rounds = 0; rounds < 10000 && line("HTTP/1.1 100 Continue\r\n") && line("\r\n");)
		rounds++;
	ok(rounds < 2000 && head.malformed && !head.complete, "endless informational heads stop (%d)", rounds);

	al_head_init(&head);
	memset(field, 'x', sizeof(field));
	memcpy(field, "HTTP/1.1 200 ", 13);
	ok(!give(field, sizeof(field), KEEP) && head.malformed && !head.complete, "an over-long status line stops");
}

/* ---- Framing ---- */

/* Fields of a 200, and the length they give; -1 for none. */
static void
expect_length(const char *const *fields, int64_t length)
{
	with_fields(fields);
	tap_cell(length >= 0 ? head.has_length && head.length == length : !head.has_length, "%s%s: has_length %d length %lld, expected %lld",
			 fields[0], fields[1] ? fields[1] : "", head.has_length, (long long) head.length, (long long) length);
}

/* A length is digits that fit, and the same each time. */
static void
check_length(void)
{
	tap_group("Content-Length");
	expect_length(FIELDS("Content-Length: 0\r\n"), 0);
	expect_length(FIELDS("Content-Length: 5\r\n"), 5);
	expect_length(FIELDS("content-length:5\r\n"), 5);
	expect_length(FIELDS("CONTENT-LENGTH: \t 5 \t\r\n"), 5);
	expect_length(FIELDS("Content-Length: 005\r\n"), 5);
	expect_length(FIELDS("Content-Length: 4294967296\r\n"), INT64_C(4294967296));
	expect_length(FIELDS("Content-Length: 9223372036854775807\r\n"), INT64_MAX);
	expect_length(FIELDS("Content-Length: 5\r\n", "Content-Length: 5\r\n"), 5);
	expect_length(FIELDS("Content-Length: 5\r\n", "content-length: 5\r\n", "Content-Length: 5\r\n"), 5);
	expect_length(FIELDS("Content-Length: 5\r\n", "Content-Length: 6\r\n"), -1);
	expect_length(FIELDS("Content-Length: 6\r\n", "Content-Length: 5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5\r\n", "Content-Length: 6\r\n", "Content-Length: 5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5\r\n", "Content-Length: 6\r\n", "Content-Length: 6\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5\r\n", "Content-Length: five\r\n"), -1);
	expect_length(FIELDS("Content-Length: five\r\n", "Content-Length: 5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5, 6\r\n"), -1);
	expect_length(FIELDS("Content-Length: -1\r\n"), -1);
	expect_length(FIELDS("Content-Length: -0\r\n"), -1);
	expect_length(FIELDS("Content-Length: +5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5x\r\n"), -1);
	expect_length(FIELDS("Content-Length: x5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5 5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 0x5\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5.0\r\n"), -1);
	expect_length(FIELDS("Content-Length: 5e0\r\n"), -1);
	expect_length(FIELDS("Content-Length:\r\n"), -1);
	expect_length(FIELDS("Content-Length:  \r\n"), -1);
	expect_length(FIELDS("Content-Length\r\n"), -1);
	expect_length(FIELDS("Content-Length: 9223372036854775808\r\n"), -1);
	expect_length(FIELDS("Content-Length: 18446744073709551621\r\n"), -1);
	expect_length(FIELDS("Content-Length: 99999999999999999999\r\n"), -1);
	expect_length(FIELDS("Content-Length: 99999999999999999999999999999999999999\r\n"), -1);
	expect_length(FIELDS("X-Content-Length: 5\r\n"), -1);
	expect_length(FIELDS("Content-Lengths: 5\r\n"), -1);
	expect_length(FIELDS("Server: x\r\n"), -1);

	begin("HTTP/1.1 200 OK\r\n");
	give("Content-Length: 5\0\r\n", 20, KEEP);
	tap_cell(!head.has_length, "a NUL after the digits");
	begin("HTTP/1.1 200 OK\r\n");
	give("Content-Length: 5\0" "6\r\n", 21, KEEP);
	tap_cell(!head.has_length, "a NUL between the digits");
	tap_group_end();
}

static void
expect_chunked(const char *const *fields, bool chunked)
{
	with_fields(fields);
	tap_cell(head.chunked == chunked, "%s%s: chunked %d", fields[0], fields[1] ? fields[1] : "", head.chunked);
}

/* Chunked is what the last transfer coding of all lines says. */
static void
check_chunked(void)
{
	tap_group("Transfer-Encoding");
	expect_chunked(FIELDS("Transfer-Encoding: chunked\r\n"), true);
	expect_chunked(FIELDS("transfer-encoding:Chunked\r\n"), true);
	expect_chunked(FIELDS("TRANSFER-ENCODING: \t CHUNKED \t\r\n"), true);
	expect_chunked(FIELDS("Transfer-Encoding: gzip, chunked\r\n"), true);
	expect_chunked(FIELDS("Transfer-Encoding: gzip,chunked\r\n"), true);
	expect_chunked(FIELDS("Transfer-Encoding: gzip ,\tchunked\r\n"), true);
	expect_chunked(FIELDS("Transfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked\r\n"), true);
	expect_chunked(FIELDS("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: chunked, gzip\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: gzip\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: identity\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: xchunked\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: chunkedx\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: not chunked\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: gzip;chunked\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: x-chunked\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: \"chunked\"\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding: chunk\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encoding:\r\n"), false);
	expect_chunked(FIELDS("Transfer-Encodings: chunked\r\n"), false);
	expect_chunked(FIELDS("Content-Encoding: chunked\r\n"), false);
	expect_chunked(FIELDS("TE: chunked\r\n"), false);
	expect_chunked(FIELDS("Server: x\r\n"), false);
	begin("HTTP/1.1 200 OK\r\n");
	give("Transfer-Encoding: chunked\0\r\n", 29, KEEP);
	tap_cell(!head.chunked, "a NUL after chunked");
	tap_group_end();
}

/* What comes after the blank line of the final head changes nothing. */
static void
check_trailers(void)
{
	with_fields(FIELDS("X-Request-Id: first\r\n", "Content-Length: 5\r\n"));
	ok(line("X-Request-Id: trailer\r\n") && line("Location: /trailer\r\n"), "trailers do not stop the transfer");
	line("Content-Length: 6\r\n");
	line("Transfer-Encoding: chunked\r\n");
	line("HTTP/1.1 500 Oops\r\n");
	line("nonsense\r\n");
	line("\r\n");
	ok(head.complete && head.status == 200 && !head.malformed, "the head stays what it was");
	ok(head.n_kept == 1 && head.has_length && head.length == 5 && !head.chunked, "no trailer is kept or frames anything");
	is_str(al_head_find(&head, "location"), NULL, "no trailer is found");
}

/* ---- Anything ---- */

/* SplitMix64: the same bytes on every machine. */
static unsigned
draw(unsigned below)
{
	uint64_t	z = (seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (unsigned) ((z ^ (z >> 31)) % below);
}

/* Pieces in any order, some of them damaged: sound memory, and complete only with a final status. */
static void
check_random_lines(void)
{
	static const char *const PIECES[] = {
		"HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n", "HTTP/1.1 2000\r\n", "HTTP/2 404\r\n", "\r\n", "\n", "Content-Length: 5\r\n", "Content-Length: 999999999999999999999\r\n",
	"Transfer-Encoding: gzip, chunked\r\n", "X-Request-Id: a\r\n", "Location: \xff\xfe\r\n", ": :\r\n", ",,,\r\n", " folded\r\n", "Retry-After: ,\r\n", "\r"};
	char		text[64];

	tap_group("random lines");
	for (int round = 0; round < 100000; round++)
	{
		al_head_init(&head);
		for (unsigned n = draw(24); n > 0; n--)
		{
			const char *piece = PIECES[draw(4) == 0 ? draw(sizeof(PIECES) / sizeof(PIECES[0])) : draw(2) * 4];
			size_t		len = strlen(piece);
			bool		going;

			memcpy(text, piece, len);
			if (draw(3) == 0)
				text[draw((unsigned) len)] = (char) draw(256);
			if (draw(8) == 0)
				len = draw((unsigned) len + 1);
			going = give(text, len, KEEP);
			tap_cell(is_sound(), "unsound after \"%.*s\"", (int) len, text);
			tap_cell(going == !head.malformed, "malformed %d and still %s", head.malformed, going ? "going" : "stopped");
			tap_cell(!head.complete || (head.status >= 200 && head.status <= 599), "complete with status %d", head.status);
			tap_cell(!(head.has_length && head.length < 0), "length %lld", (long long) head.length);
		}
	}
	tap_group_end();
}
