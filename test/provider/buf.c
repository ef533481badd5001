/*
 * buf.c
 *		Growable byte buffers, slices, and the encodings the provider needs.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "buf.h"

static size_t utf8_length(const unsigned char *bytes, size_t len);
static int	hex_value(char digit);

static const char HexDigits[] = "0123456789abcdef";

/* Allocates memory or ends the process. */
void *
xmalloc(size_t size)
{
	void	   *memory = malloc(size);

	if (memory == NULL)
	{
		fprintf(stderr, "provider: out of memory\n");
		exit(2);
	}
	return memory;
}

/* Makes room for that many more bytes. */
void
buf_reserve(Buf *buf, size_t more)
{
	size_t		cap = buf->cap > 0 ? buf->cap : 256;

	if (buf->cap - buf->len >= more)
		return;
	while (cap - buf->len < more)
		cap *= 2;
	buf->data = realloc(buf->data, cap);
	if (buf->data == NULL)
	{
		fprintf(stderr, "provider: out of memory\n");
		exit(2);
	}
	buf->cap = cap;
}

/* Appends the same byte count times. */
void
buf_fill(Buf *buf, int byte, size_t count)
{
	buf_reserve(buf, count);
	memset(buf->data + buf->len, byte, count);
	buf->len += count;
}

/* Appends a decimal number. */
void
buf_add_int(Buf *buf, int64_t number)
{
	char		digits[24];
	char	   *at = digits + sizeof(digits);
	uint64_t	rest = number < 0 ? -(uint64_t) number : (uint64_t) number;

	do
	{
		*--at = (char) ('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (number < 0)
		*--at = '-';
	buf_add(buf, at, (size_t) (digits + sizeof(digits) - at));
}

/* Appends bytes as lower-case hexadecimal. */
void
buf_add_hex(Buf *buf, const unsigned char *bytes, size_t count)
{
	buf_reserve(buf, count * 2);
	for (size_t i = 0; i < count; i++)
	{
		buf->data[buf->len++] = HexDigits[bytes[i] >> 4];
		buf->data[buf->len++] = HexDigits[bytes[i] & 15];
	}
}

/*
 * Appends a JSON string, or null for SLICE_NONE.
 *
 * Valid UTF-8 is kept, any other byte is written as the code point of the same
 * number.
 */
void
buf_add_json(Buf *buf, Slice text)
{
	const unsigned char *at = (const unsigned char *) text.data;
	size_t		left = text.len;

	if (text.data == NULL)
	{
		buf_add_literal(buf, "null");
		return;
	}
	buf_reserve(buf, text.len * 6 + 2);
	buf->data[buf->len++] = '"';
	while (left > 0)
	{
		size_t		take = 1;

		if (*at == '"' || *at == '\\')
		{
			buf->data[buf->len++] = '\\';
			buf->data[buf->len++] = (char) *at;
		}
		else if (*at >= 0x20 && *at < 0x7f)
			buf->data[buf->len++] = (char) *at;
		else if ((take = utf8_length(at, left)) > 1)
			buf_add(buf, at, take);
		else
		{
			take = 1;
			buf_add_literal(buf, "\\u00");
			buf_add_hex(buf, at, 1);
		}
		at += take;
		left -= take;
	}
	buf_addc(buf, '"');
}

/* Appends text percent-encoded, unreserved characters as they are. */
void
buf_add_url(Buf *buf, Slice text)
{
	for (size_t i = 0; i < text.len; i++)
	{
		unsigned char byte = (unsigned char) text.data[i];

		if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
			(byte >= '0' && byte <= '9') || (byte != 0 && strchr("-._~", byte) != NULL))
			buf_addc(buf, (char) byte);
		else
		{
			buf_addc(buf, '%');
			buf_add_hex(buf, &byte, 1);
		}
	}
}

/* Appends formatted text; for the paths that need not be fast. */
void
buf_printf(Buf *buf, const char *format,...)
{
	va_list		args;
	int			need;

	va_start(args, format);
	need = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (need < 0)
		return;
	buf_reserve(buf, (size_t) need + 1);
	va_start(args, format);
	vsnprintf(buf->data + buf->len, (size_t) need + 1, format, args);
	va_end(args);
	buf->len += (size_t) need;
}

/* Gives the memory back. */
void
buf_free(Buf *buf)
{
	free(buf->data);
	*buf = (Buf) {NULL, 0, 0};
}

/* Decodes %XX in place and returns the new length; a broken escape stays as it is. */
size_t
percent_decode(char *text, size_t len)
{
	size_t		to = 0;

	for (size_t from = 0; from < len; from++)
	{
		if (text[from] == '%' && from + 2 < len &&
			hex_value(text[from + 1]) >= 0 && hex_value(text[from + 2]) >= 0)
		{
			text[to++] = (char) (hex_value(text[from + 1]) * 16 + hex_value(text[from + 2]));
			from += 2;
		}
		else
			text[to++] = text[from];
	}
	return to;
}

/* Tells whether a slice is exactly that text. */
bool
slice_is(Slice slice, const char *text)
{
	return slice.data != NULL && slice.len == strlen(text) &&
		memcmp(slice.data, text, slice.len) == 0;
}

/* Tells whether a slice is that text but for ASCII case. */
bool
slice_is_nocase(Slice slice, const char *text)
{
	return slice.data != NULL && slice.len == strlen(text) &&
		strncasecmp(slice.data, text, slice.len) == 0;
}

/* Reads a decimal integer of at most 18 digits that fills the whole slice. */
bool
slice_to_int(Slice slice, int64_t *number)
{
	size_t		i = 0;
	bool		negative = slice.len > 0 && slice.data[0] == '-';
	int64_t		value = 0;

	if (negative)
		i++;
	if (i == slice.len || slice.len - i > 18)
		return false;
	for (; i < slice.len; i++)
	{
		if (slice.data[i] < '0' || slice.data[i] > '9')
			return false;
		value = value * 10 + (slice.data[i] - '0');
	}
	*number = negative ? -value : value;
	return true;
}

/* Returns the length of the valid multi-byte UTF-8 character here, else 0. */
static size_t
utf8_length(const unsigned char *bytes, size_t len)
{
	size_t		need;
	uint32_t	code;

	if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
		need = 2;
	else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
		need = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
		need = 4;
	else
		return 0;
	if (len < need)
		return 0;
	code = bytes[0] & (0xffu >> (need + 1));
	for (size_t i = 1; i < need; i++)
	{
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	if ((need == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) ||
		(need == 4 && (code < 0x10000 || code > 0x10ffff)))
		return 0;
	return need;
}

/* Returns the value of a hexadecimal digit, else -1. */
static int
hex_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}
