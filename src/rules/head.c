/*
 * head.c
 *		Reading a response head line by line.
 *
 * The head comes from a stranger.  Nothing is trusted that is not well-formed:
 * a status line must match byte by byte, a field with a broken name is passed
 * over, and what is kept is capped and printable.
 */
#include <string.h>

#include "head.h"

static bool spoil(AlHead *head);
static int	parse_status_line(const char *line, size_t len);
static void begin_head(AlHead *head, int status);
static void take_field(AlHead *head, const char *line, size_t len, const char *const *keep);
static void take_length(AlHead *head, const char *value, size_t len);
static void take_coding(AlHead *head, const char *value, size_t len);
static void keep_field(AlHead *head, const char *name, size_t name_len,
					   const char *value, size_t value_len);
static bool is_wanted(const char *name, size_t len, const char *const *keep);
static bool starts_with(const char *line, size_t len, const char *prefix);
static bool same_name(const char *name, size_t len, const char *other);
static void trim(const char **text, size_t *len);
static bool is_blank(char c);
static bool is_digit(char c);
static bool is_token_char(char c);
static char to_lower(char c);

/* Starts afresh. */
void
al_head_init(AlHead *head)
{
	/* The kept headers are many bytes, and valid only up to n_kept. */
	memset(head, 0, offsetof(AlHead, kept));
}

/* Takes one line; false means that the transfer is to be stopped. */
bool
al_head_line(AlHead *head, const char *line, size_t len, const char *const *keep)
{
	bool		ended = len > 0 && line[len - 1] == '\n';
	size_t		text_len = len;

	if (head->malformed)
		return false;
	if (head->complete)
		return true;

	if (len > AL_HEAD_MAX_BYTES - head->bytes)
	{
		head->bytes = AL_HEAD_MAX_BYTES;
		return spoil(head);
	}
	head->bytes += len;

	if (ended)
		text_len--;
	if (text_len > 0 && line[text_len - 1] == '\r')
		text_len--;

	if (head->status == 0 || head->between || starts_with(line, len, "HTTP/"))
	{
		int			status = parse_status_line(line, len);

		/* Only an informational head may be followed by another. */
		if (status == 0 || head->status >= 200)
			return spoil(head);
		begin_head(head, status);
	}
	else if (text_len == 0)
	{
		/* Without its line feed it is a cut, not a blank line. */
		if (ended && head->status >= 200)
			head->complete = true;
		else if (ended)
			head->between = true;
	}
	else
		take_field(head, line, text_len, keep);
	return true;
}

/* Finds the value of a kept header. */
const char *
al_head_find(const AlHead *head, const char *name)
{
	size_t		len;

	if (name == NULL)
		return NULL;
	len = strlen(name);
	for (int i = 0; i < head->n_kept; i++)
	{
		if (same_name(name, len, head->kept[i].name))
			return head->kept[i].value;
	}
	return NULL;
}

/* Marks the head as malformed. */
static bool
spoil(AlHead *head)
{
	head->malformed = true;
	return false;
}

/* Gives the status of a status line, or 0 when it is none (RFC 9112 section 4). */
static int
parse_status_line(const char *line, size_t len)
{
	static const char *const versions[] = {"HTTP/1.0 ", "HTTP/1.1 ", "HTTP/2 "};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
	{
		size_t		at = strlen(versions[i]);

		if (!starts_with(line, len, versions[i]))
			continue;
		if (len < at + 3 || line[at] < '1' || line[at] > '5' ||
			!is_digit(line[at + 1]) || !is_digit(line[at + 2]))
			return 0;
		if (len > at + 3 && line[at + 3] != ' ' && line[at + 3] != '\r' && line[at + 3] != '\n')
			return 0;
		return (line[at] - '0') * 100 + (line[at + 1] - '0') * 10 + (line[at + 2] - '0');
	}
	return 0;
}

/* Forgets the informational head before, except for its size. */
static void
begin_head(AlHead *head, int status)
{
	size_t		bytes = head->bytes;

	al_head_init(head);
	head->bytes = bytes;
	head->status = status;
}

/* Takes a field line; one that is folded or has no proper name is passed over. */
static void
take_field(AlHead *head, const char *line, size_t len, const char *const *keep)
{
	size_t		name_len = 0;
	const char *value;
	size_t		value_len;

	while (name_len < len && is_token_char(line[name_len]))
		name_len++;
	if (name_len == 0 || name_len == len || line[name_len] != ':')
		return;
	value = line + name_len + 1;
	value_len = len - name_len - 1;
	trim(&value, &value_len);

	if (same_name(line, name_len, "content-length"))
		take_length(head, value, value_len);
	else if (same_name(line, name_len, "transfer-encoding"))
		take_coding(head, value, value_len);
	if (is_wanted(line, name_len, keep))
		keep_field(head, line, name_len, value, value_len);
}

/* Takes a Content-Length; one that is no number or differs from another spoils both. */
static void
take_length(AlHead *head, const char *value, size_t len)
{
	int64_t		length = 0;
	bool		valid = len > 0;

	for (size_t i = 0; i < len && valid; i++)
	{
		int			digit = value[i] - '0';

		if (!is_digit(value[i]) || length > (INT64_MAX - digit) / 10)
			valid = false;
		else
			length = length * 10 + digit;
	}
	if (!valid || head->length < 0 || (head->has_length && head->length != length))
	{
		head->has_length = false;
		head->length = -1;
		return;
	}
	head->has_length = true;
	head->length = length;
}

/* Takes a Transfer-Encoding; the last coding of the last line counts. */
static void
take_coding(AlHead *head, const char *value, size_t len)
{
	size_t		start;

	while (len > 0 && (value[len - 1] == ',' || is_blank(value[len - 1])))
		len--;
	if (len == 0)
		return;
	start = len;
	while (start > 0 && value[start - 1] != ',')
		start--;
	value += start;
	len -= start;
	trim(&value, &len);
	head->chunked = same_name(value, len, "chunked");
}

/* Keeps a field, capped and made printable, while there is room. */
static void
keep_field(AlHead *head, const char *name, size_t name_len, const char *value, size_t value_len)
{
	AlHeader   *header;

	if (head->n_kept >= AL_HEAD_KEPT || name_len >= AL_HEAD_NAME_MAX)
		return;
	header = &head->kept[head->n_kept++];
	memcpy(header->name, name, name_len);
	header->name[name_len] = '\0';

	if (value_len >= AL_HEAD_VALUE_MAX)
		value_len = AL_HEAD_VALUE_MAX - 1;
	for (size_t i = 0; i < value_len; i++)
		header->value[i] = (value[i] >= 0x20 && value[i] <= 0x7e) ? value[i] : '?';
	header->value[value_len] = '\0';
}

/* Says whether a name is on the allow list. */
static bool
is_wanted(const char *name, size_t len, const char *const *keep)
{
	for (; keep != NULL && *keep != NULL; keep++)
	{
		if (same_name(name, len, *keep))
			return true;
	}
	return false;
}

/* Says whether a line begins with a text. */
static bool
starts_with(const char *line, size_t len, const char *prefix)
{
	size_t		prefix_len = strlen(prefix);

	return len >= prefix_len && memcmp(line, prefix, prefix_len) == 0;
}

/* Compares a name with another, in ASCII, whatever the case. */
static bool
same_name(const char *name, size_t len, const char *other)
{
	if (strlen(other) != len)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		if (to_lower(name[i]) != to_lower(other[i]))
			return false;
	}
	return true;
}

/* Drops white space at both ends (OWS, RFC 9110 section 5.6.3). */
static void
trim(const char **text, size_t *len)
{
	while (*len > 0 && is_blank((*text)[0]))
	{
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && is_blank((*text)[*len - 1]))
		(*len)--;
}

/* Says whether a character is a space or a tab. */
static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Says whether a character is an ASCII digit, in every locale. */
static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Says whether a character may be in a field name (RFC 9110 section 5.6.2). */
static bool
is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
		(c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* Gives the lower case of an ASCII letter, in every locale. */
static char
to_lower(char c)
{
	return (c >= 'A' && c <= 'Z') ? (char) (c - 'A' + 'a') : c;
}
