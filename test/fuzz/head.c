/*
 * head.c
 *		A response head of any bytes, whole lines or not.
 *
 * Input: a keep list, a way to cut, a length for it, how often fields are
 * repeated (so that a short input reaches the cap), then the head.
 */
#include <strings.h>

#include "fuzz.h"
#include "rules/head.h"

static const char *const KEEP_USUAL[] = {"retry-after", "idempotent-replayed", "location", "x", NULL};
static const char *const KEEP_LENGTH[] = {"content-length", "transfer-encoding", NULL};
static const char *const KEEP_NONE[] = {NULL};
static const char *const *const KEEP[] = {KEEP_USUAL, KEEP_LENGTH, KEEP_NONE, NULL};

typedef enum Cut
{
	AT_LINE_FEEDS,
	AT_A_LENGTH,
	BOTH,
	N_CUTS
} Cut;

/* What the head must say, kept by a reading of our own. */
typedef struct Expected
{
	int			status;
	bool		complete;
	bool		length_told;
	bool		length_broken;
	uint64_t	length;
	bool		chunked_told;	/* somewhere in a Transfer-Encoding */
} Expected;

static void give(AlHead *head, Expected *expected, const char *line, size_t len, const char *const *keep);
static void expect_line(Expected *expected, const char *line, size_t len, const AlHead *head);
static void expect_field(Expected *expected, const char *line, size_t len);
static void check_head(const AlHead *head, const Expected *expected);
static void check_kept(const AlHead *head, int from, const char *const *keep);
static int	status_of(const char *line, size_t len);
static bool is_name(const char *line, size_t len, const char *name);
static bool has_text(const char *text, size_t len, const char *wanted);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	in = {data, size};
	const char *const *keep = KEEP[fuzz_byte(&in) % 4];
	Cut			cut = (Cut) (fuzz_byte(&in) % N_CUTS);
	size_t		most = (size_t) fuzz_byte(&in) + 1;
	int			repeat = fuzz_byte(&in) % 64;
	AlHead		head;
	Expected	expected = {0};

	al_head_init(&head);
	while (in.left > 0)
	{
		const uint8_t *feed = cut == AT_A_LENGTH ? NULL : memchr(in.at, '\n', in.left);
		size_t		len = feed != NULL ? (size_t) (feed - in.at) + 1 : in.left;
		bool		field;
		char	   *exact;

		if (cut != AT_LINE_FEEDS && len > most)
			len = most;
		field = len > 2 && !(len >= 5 && memcmp(in.at, "HTTP/", 5) == 0);
		exact = fuzz_exact(in.at, len);
		for (int i = 0; i <= (field ? repeat : 0); i++)
			give(&head, &expected, exact, len, keep);
		free(exact);
		in.at += len;
		in.left -= len;
	}

	/* An empty line without its ending is no line at all. */
	give(&head, &expected, "", 0, keep);
	check_kept(&head, 0, keep);
	return 0;
}

/* Hand one line over and see what became of the head. */
static void
give(AlHead *head, Expected *expected, const char *line, size_t len, const char *const *keep)
{
	static AlHead before;		/* without what is kept, which would be slow */
	bool		going;

	memcpy(&before, head, offsetof(AlHead, kept));
	going = al_head_line(head, line, len, keep);
	claim(going == !head->malformed);
	claim(head->bytes >= before.bytes);
	if (before.malformed)
		claim(!going);
	if (before.malformed || before.complete)
		claim(memcmp(&before, head, offsetof(AlHead, kept)) == 0);
	else
	{
		claim(going || head->status == before.status);
		claim(!going || head->bytes == before.bytes + len);
		if (going)
			expect_line(expected, line, len, &before);
	}
	check_head(head, expected);
	check_kept(head, before.n_kept < head->n_kept ? before.n_kept : head->n_kept, keep);
}

/* Read a line that was taken; head is what there was before it. */
static void
expect_line(Expected *expected, const char *line, size_t len, const AlHead *head)
{
	bool		blank = (len == 1 && line[0] == '\n') || (len == 2 && memcmp(line, "\r\n", 2) == 0);

	if (head->status == 0 || head->between || (len >= 5 && memcmp(line, "HTTP/", 5) == 0))
	{
		memset(expected, 0, sizeof(*expected));
		expected->status = status_of(line, len);
		claim(expected->status != 0 && head->status < 200);
	}
	else if (blank)
		expected->complete = expected->status >= 200;
	else
		expect_field(expected, line, len);
}

/* Read a field line. */
static void
expect_field(Expected *expected, const char *line, size_t len)
{
	const char *value = memchr(line, ':', len);
	const char *end = line + len;
	uint64_t	number = 0;

	if (value == NULL)
		return;
	value++;
	if (end[-1] == '\n')
		end--;
	if (end > value && end[-1] == '\r')
		end--;
	if (is_name(line, (size_t) (value - line) - 1, "transfer-encoding"))
		expected->chunked_told = expected->chunked_told || has_text(value, (size_t) (end - value), "chunked");
	if (!is_name(line, (size_t) (value - line) - 1, "content-length"))
		return;

	while (value < end && strchr(" \t", *value) != NULL && *value != '\0')
		value++;
	while (end > value && strchr(" \t", end[-1]) != NULL && end[-1] != '\0')
		end--;
	if (value == end)
		expected->length_broken = true;
	for (; value < end; value++)
	{
		if (*value < '0' || *value > '9' || __builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, (uint64_t) (*value - '0'), &number))
		{
			expected->length_broken = true;
			return;
		}
	}
	if (number > INT64_MAX || (expected->length_told && expected->length != number))
		expected->length_broken = true;
	expected->length_told = true;
	expected->length = number;
}

/* What holds of every head at any time. */
static void
check_head(const AlHead *head, const Expected *expected)
{
	claim(head->bytes <= AL_HEAD_MAX_BYTES);
	claim(head->status == expected->status);
	claim(head->status == 0 || (head->status >= 100 && head->status <= 599));
	claim(head->complete == expected->complete);
	claim(!head->complete || head->status >= 200);
	claim(!head->between || head->status < 200);
	claim(head->has_length == (expected->length_told && !expected->length_broken));
	claim(!head->has_length || head->length == (int64_t) expected->length);
	claim((head->length < 0) == expected->length_broken);
	claim(!head->chunked || expected->chunked_told);
	claim(head->n_kept >= 0 && head->n_kept <= AL_HEAD_KEPT);
}

/* Kept fields, from the one of a number on, are ended, printable and wanted. */
static void
check_kept(const AlHead *head, int from, const char *const *keep)
{
	for (int i = from; i < head->n_kept; i++)
	{
		const AlHeader *header = &head->kept[i];
		const char *const *name = keep;

		claim(memchr(header->name, '\0', AL_HEAD_NAME_MAX) != NULL);
		claim(memchr(header->value, '\0', AL_HEAD_VALUE_MAX) != NULL);
		for (const char *c = header->value; *c != '\0'; c++)
			claim(*c >= ' ' && *c <= '~');
		while (name != NULL && *name != NULL && strcasecmp(*name, header->name) != 0)
			name++;
		claim(name != NULL && *name != NULL);
		claim(al_head_find(head, header->name) != NULL);
	}
	claim(al_head_find(head, "not-kept") == NULL);
}

/* The number in a well-formed status line, or 0. */
static int
status_of(const char *line, size_t len)
{
	char		text[16] = {0};
	char		version[9];
	char		digits[4];
	int			end = 0;

	memcpy(text, line, len < sizeof(text) ? len : sizeof(text) - 1);
	if (sscanf(text, "%8[HTP/0-9.]%*1[ ]%3[0-9]%n", version, digits, &end) != 2)
		return 0;
	if (strcmp(version, "HTTP/1.0") != 0 && strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/2") != 0)
		return 0;
	if (strlen(digits) != 3 || atoi(digits) < 100 || atoi(digits) > 599)
		return 0;
	return (size_t) end == len || memchr(" \r\n", line[end], 3) != NULL ? atoi(digits) : 0;
}

static bool
is_name(const char *line, size_t len, const char *name)
{
	return len == strlen(name) && strncasecmp(line, name, len) == 0;
}

static bool
has_text(const char *text, size_t len, const char *wanted)
{
	for (size_t i = 0; i + strlen(wanted) <= len; i++)
	{
		if (strncasecmp(text + i, wanted, strlen(wanted)) == 0)
			return true;
	}
	return false;
}
