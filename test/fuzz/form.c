/*
 * form.c
 *		Fields of any names and values, written as a form and read again.
 *
 * Input: per part a byte (0: a member whose name follows, 1: an element, 2: one
 * level up, else: a field whose value follows), a length, and the text of names
 * and values.  The reader here is written from the URL standard's parser.
 */
#include "fuzz.h"
#include "rules/form.h"

#define MAX_OUT 65536
#define MAX_DEPTH 16
#define MAX_FIELDS 64

/* Bytes as they come. */
typedef struct Sink
{
	char		bytes[MAX_OUT];
	size_t		len;
} Sink;

/* A part of a name, as it was meant. */
typedef struct Part
{
	bool		element;
	int			index;
	const char *text;
	size_t		len;
	size_t		before;			/* length of the name that it lengthened */
} Part;

/* A field as it was meant. */
typedef struct Field
{
	Part		parts[MAX_DEPTH];
	int			depth;
	const char *value;
	size_t		len;
} Field;

static Sink name;
static Sink form;
static Field fields[MAX_FIELDS];

static void take(void *sink, const char *bytes, size_t len);
static const char *take_text(FuzzInput *in, size_t *len);
static void check_alphabet(const Sink *sink);
static void check_field(const Field *field, const char *at, const char *end);
static const char *check_part(const Part *part, bool first, const char *at, const char *end);
static const char *check_text(const char *text, size_t len, const char *at, const char *end);
static int	hex_value(char c);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	in = {data, size};
	Part		parts[MAX_DEPTH];
	int			depth = 0;
	int			n = 0;
	const char *at = form.bytes;

	name.len = form.len = 0;
	while (in.left > 0 && n < MAX_FIELDS)
	{
		uint8_t		what = fuzz_byte(&in);

		if (what == 2)
		{
			if (depth > 0)
				name.len = parts[--depth].before;
		}
		else if (what < 2 && depth < MAX_DEPTH)
		{
			Part	   *part = &parts[depth];

			*part = (Part) {.element = what == 1 && depth > 0, .before = name.len};
			if (part->element)
				al_form_element(part->index = fuzz_byte(&in) * 8388607, take, &name);
			else
			{
				part->text = take_text(&in, &part->len);
				al_form_member(depth > 0, part->text, part->len, take, &name);
			}
			depth++;
		}
		else if (what > 2 && depth > 0)
		{
			Field	   *field = &fields[n];

			memcpy(field->parts, parts, sizeof(parts));
			field->depth = depth;
			field->value = take_text(&in, &field->len);
			al_form_field(n++ == 0, name.bytes, name.len, field->value, field->len, take, &form);
		}
	}
	check_alphabet(&form);
	for (int i = 0; i < n; i++)
	{
		const char *end = form.bytes + form.len;
		const char *next = memchr(at, '&', (size_t) (end - at));

		claim((next == NULL) == (i == n - 1));
		check_field(&fields[i], at, next != NULL ? next : end);
		at = next != NULL ? next + 1 : end;
	}
	claim(at == form.bytes + form.len);
	return 0;
}

/* Take bytes that have been written; the sizes here leave room for all. */
static void
take(void *sink, const char *bytes, size_t len)
{
	Sink	   *to = sink;

	claim(to->len + len <= MAX_OUT);
	if (len > 0)
		memcpy(to->bytes + to->len, bytes, len);
	to->len += len;
}

/* Take a text of at most 15 bytes out of the input. */
static const char *
take_text(FuzzInput *in, size_t *len)
{
	const char *text;

	*len = fuzz_byte(in) % 16;
	if (*len > in->left)
		*len = in->left;
	text = (const char *) in->at;
	in->at += *len;
	in->left -= *len;
	return text;
}

/* No byte leaves that means something to a line of HTTP, or that is not ASCII. */
static void
check_alphabet(const Sink *sink)
{
	for (size_t i = 0; i < sink->len; i++)
	{
		char		c = sink->bytes[i];

		claim(c > ' ' && c < 0x7f);
		claim(strchr("\"'<>#?/\\{}|^`,;:@!$()~", c) == NULL);
	}
}

/* Read a field again. */
static void
check_field(const Field *field, const char *at, const char *end)
{
	const char *equals = memchr(at, '=', (size_t) (end - at));

	claim(equals != NULL);
	for (int i = 0; i < field->depth; i++)
		at = check_part(&field->parts[i], i == 0, at, equals);
	claim(at == equals);
	claim(check_text(field->value, field->len, equals + 1, end) == end);
}

/* Read a part of a name; returns where the next one begins. */
static const char *
check_part(const Part *part, bool first, const char *at, const char *end)
{
	const char *close;

	if (first)
	{
		close = memchr(at, '[', (size_t) (end - at));
		close = close != NULL ? close : end;
		claim(check_text(part->text, part->len, at, close) == close);
		return close;
	}
	claim(at < end && *at == '[');
	close = memchr(at, ']', (size_t) (end - at));
	claim(close != NULL);
	if (part->element)
	{
		long		index = 0;

		claim(close > at + 1);
		for (at++; at < close; at++)
		{
			claim(*at >= '0' && *at <= '9');
			index = index * 10 + (*at - '0');
		}
		claim(index == part->index);
	}
	else
		claim(check_text(part->text, part->len, at + 1, close) == close);
	return close + 1;
}

/* Decode up to end, which must give the text; returns end. */
static const char *
check_text(const char *text, size_t len, const char *at, const char *end)
{
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c;

		claim(at < end);
		if (*at == '%')
		{
			claim(end - at >= 3);
			c = (unsigned char) (hex_value(at[1]) * 16 + hex_value(at[2]));
			at += 3;
		}
		else
			c = (unsigned char) (*at == '+' ? ' ' : *at), at++;
		claim(c == (unsigned char) text[i]);
	}
	claim(at == end);
	return at;
}

static int
hex_value(char c)
{
	claim((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'));
	return c <= '9' ? c - '0' : c - 'A' + 10;
}
