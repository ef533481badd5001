/*
 * form.c
 *		Writing application/x-www-form-urlencoded with bracketed nesting.
 */
#include <stdio.h>

#include "form.h"

static bool is_itself(unsigned char c);

/* Writes text in its encoded form. */
void
al_form_encode(const char *utf8, size_t len, AlFormAppend append, void *sink)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t		from = 0;

	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) utf8[i];
		char		escape[3] = {'%', hex[c >> 4], hex[c & 15]};

		if (is_itself(c))
			continue;
		append(sink, utf8 + from, i - from);
		from = i + 1;
		if (c == ' ')
			append(sink, "+", 1);
		else
			append(sink, escape, sizeof(escape));
	}
	append(sink, utf8 + from, len - from);
}

/* Lengthens a name by a member of an object. */
void
al_form_member(bool nested, const char *utf8, size_t len, AlFormAppend append, void *sink)
{
	if (nested)
		append(sink, "[", 1);
	al_form_encode(utf8, len, append, sink);
	if (nested)
		append(sink, "]", 1);
}

/* Lengthens a name by an element of an array. */
void
al_form_element(int index, AlFormAppend append, void *sink)
{
	char		text[16];
	int			len = snprintf(text, sizeof(text), "[%d]", index);

	append(sink, text, (size_t) len);
}

/* Writes a field. */
void
al_form_field(bool first, const char *name, size_t name_len, const char *utf8, size_t len,
			  AlFormAppend append, void *sink)
{
	if (!first)
		append(sink, "&", 1);
	append(sink, name, name_len);
	append(sink, "=", 1);
	al_form_encode(utf8, len, append, sink);
}

/* Tells whether a byte stands for itself. */
static bool
is_itself(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '*' || c == '-' || c == '.' || c == '_';
}
