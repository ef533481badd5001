/*
 * fields.c
 *		Single values out of query strings, form bodies and JSON bodies.
 *
 * JSON is scanned, not validated: only the top level of an object is looked at,
 * nested values are skipped without recursion, and the first member of a name
 * wins.
 */
#include <stdlib.h>

#include "fields.h"

static bool json_get(Slice body, const char *name, Slice *value);
static size_t json_skip_space(Slice body, size_t at);
static size_t json_skip_string(Slice body, size_t at);
static size_t json_skip_value(Slice body, size_t at);
static void json_unescape(Slice raw, Buf *text);
static size_t json_unescape_unicode(Slice raw, size_t at, Buf *text);
static bool json_read_hex4(Slice raw, size_t at, uint32_t *code);
static void add_code_point(Buf *text, uint32_t code);

/* Replaces value by the first query parameter of that name, decoded; false when there is none. */
bool
query_get(Slice query, const char *name, Buf *value)
{
	size_t		name_len = strlen(name);
	const char *at = query.data;
	const char *end = query.data + query.len;

	while (query.len > 0 && at < end)
	{
		const char *stop = memchr(at, '&', (size_t) (end - at));
		const char *next = stop != NULL ? stop : end;
		size_t		len = (size_t) (next - at);

		if (len >= name_len && memcmp(at, name, name_len) == 0 &&
			(len == name_len || at[name_len] == '='))
		{
			size_t		skip = len == name_len ? name_len : name_len + 1;

			value->len = 0;
			buf_reserve(value, len - skip + 1);
			buf_add(value, at + skip, len - skip);
			value->len = percent_decode(value->data, value->len);
			return true;
		}
		at = next + 1;
	}
	return false;
}

/* Returns a numeric query parameter, or what stands for an absent or broken one. */
int64_t
query_get_int(Slice query, const char *name, int64_t absent)
{
	Buf			text = {NULL, 0, 0};
	int64_t		number = absent;

	if (query.len > 0 && query_get(query, name, &text) &&
		!slice_to_int((Slice) {text.data, text.len}, &number))
		number = absent;
	buf_free(&text);
	return number;
}

/*
 * Replaces value by a top-level field of a JSON object or of a form body.
 *
 * Strings are unescaped, other JSON values are given as written; null counts as
 * absent.
 */
bool
body_get(Slice body, const char *name, Buf *value)
{
	size_t		at = json_skip_space(body, 0);
	Slice		raw;

	if (at >= body.len)
		return false;
	if (body.data[at] != '{')
		return query_get(body, name, value);
	if (!json_get(body, name, &raw) || slice_is(raw, "null"))
		return false;
	value->len = 0;
	if (raw.len >= 2 && raw.data[0] == '"')
		json_unescape((Slice) {raw.data + 1, raw.len - 2}, value);
	else
		buf_add(value, raw.data, raw.len);
	return true;
}

/* Finds the raw value of a top-level member. */
static bool
json_get(Slice body, const char *name, Slice *value)
{
	size_t		name_len = strlen(name);
	size_t		at = json_skip_space(body, 0);

	if (at >= body.len || body.data[at] != '{')
		return false;
	at++;
	for (;;)
	{
		size_t		key;
		size_t		key_end;
		size_t		start;

		key = json_skip_space(body, at);
		if (key >= body.len || body.data[key] != '"')
			return false;
		key_end = json_skip_string(body, key);
		at = json_skip_space(body, key_end);
		if (at >= body.len || body.data[at] != ':')
			return false;
		start = json_skip_space(body, at + 1);
		at = json_skip_value(body, start);
		if (key_end - key == name_len + 2 && memcmp(body.data + key + 1, name, name_len) == 0)
		{
			size_t		end = at;

			while (end > start && strchr(" \t\r\n", body.data[end - 1]) != NULL)
				end--;
			*value = (Slice) {body.data + start, end - start};
			return end > start;
		}
		if (at >= body.len || body.data[at] != ',')
			return false;
		at++;
	}
}

/* Returns the offset of the next byte that is no white space. */
static size_t
json_skip_space(Slice body, size_t at)
{
	while (at < body.len && (body.data[at] == ' ' || body.data[at] == '\t' ||
							 body.data[at] == '\r' || body.data[at] == '\n'))
		at++;
	return at;
}

/* Returns the offset behind the string that starts here. */
static size_t
json_skip_string(Slice body, size_t at)
{
	for (at++; at < body.len; at++)
	{
		if (body.data[at] == '\\')
			at++;
		else if (body.data[at] == '"')
			return at + 1;
	}
	return body.len;
}

/* Returns the offset of the comma or brace that ends the value starting here. */
static size_t
json_skip_value(Slice body, size_t at)
{
	size_t		depth = 0;

	while (at < body.len)
	{
		char		byte = body.data[at];

		if (byte == '"')
		{
			at = json_skip_string(body, at);
			continue;
		}
		if (depth == 0 && (byte == ',' || byte == '}'))
			return at;
		if (byte == '{' || byte == '[')
			depth++;
		else if ((byte == '}' || byte == ']') && depth > 0)
			depth--;
		at++;
	}
	return at;
}

/* Appends the text that a JSON string stands for. */
static void
json_unescape(Slice raw, Buf *text)
{
	static const char From[] = "bfnrt";
	static const char To[] = "\b\f\n\r\t";

	for (size_t at = 0; at < raw.len; at++)
	{
		const char *known;

		if (raw.data[at] != '\\' || at + 1 >= raw.len)
		{
			buf_addc(text, raw.data[at]);
			continue;
		}
		at++;
		if (raw.data[at] == 'u')
			at = json_unescape_unicode(raw, at, text);
		else if (raw.data[at] != '\0' && (known = strchr(From, raw.data[at])) != NULL)
			buf_addc(text, To[known - From]);
		else
			buf_addc(text, raw.data[at]);
	}
}

/* Appends the character of a \u escape and returns the offset of the last byte used. */
static size_t
json_unescape_unicode(Slice raw, size_t at, Buf *text)
{
	uint32_t	code;
	uint32_t	low;

	if (!json_read_hex4(raw, at + 1, &code))
	{
		buf_addc(text, 'u');
		return at;
	}
	at += 4;
	if (code >= 0xd800 && code <= 0xdbff && at + 2 < raw.len && raw.data[at + 1] == '\\' &&
		raw.data[at + 2] == 'u' && json_read_hex4(raw, at + 3, &low) &&
		low >= 0xdc00 && low <= 0xdfff)
	{
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		at += 6;
	}
	add_code_point(text, code);
	return at;
}

/* Reads four hexadecimal digits. */
static bool
json_read_hex4(Slice raw, size_t at, uint32_t *code)
{
	char		digits[5] = {0};
	char	   *end;

	if (at > raw.len || raw.len - at < 4)
		return false;
	memcpy(digits, raw.data + at, 4);
	if (digits[0] == '+' || digits[0] == '-' || digits[0] == ' ')
		return false;
	*code = (uint32_t) strtoul(digits, &end, 16);
	return *end == '\0';
}

/* Appends a code point as UTF-8. */
static void
add_code_point(Buf *text, uint32_t code)
{
	if (code < 0x80)
		buf_addc(text, (char) code);
	else if (code < 0x800)
	{
		buf_addc(text, (char) (0xc0 | code >> 6));
		buf_addc(text, (char) (0x80 | (code & 0x3f)));
	}
	else if (code < 0x10000)
	{
		buf_addc(text, (char) (0xe0 | code >> 12));
		buf_addc(text, (char) (0x80 | (code >> 6 & 0x3f)));
		buf_addc(text, (char) (0x80 | (code & 0x3f)));
	}
	else
	{
		buf_addc(text, (char) (0xf0 | code >> 18));
		buf_addc(text, (char) (0x80 | (code >> 12 & 0x3f)));
		buf_addc(text, (char) (0x80 | (code >> 6 & 0x3f)));
		buf_addc(text, (char) (0x80 | (code & 0x3f)));
	}
}
