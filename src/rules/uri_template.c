/*
 * uri_template.c
 *		URI Templates (RFC 6570), levels 1 to 3.
 *
 * One reader (read_piece) cuts a template into literals and variables; expansion
 * and the walk over variables are two consumers of it, so that what is checked
 * when a tool is created is what is expanded later.  How an operator lays its
 * values out is the table of RFC 6570 appendix A.
 */
#include "uri_template.h"

#include <string.h>

/* RFC 6570 appendix A. */
typedef struct Operator
{
	char		sign;
	char		first;			/* before the first defined value; '\0': nothing */
	char		separator;
	bool		named;			/* name=value */
	bool		equals_if_empty;	/* "name=" rather than "name" for an empty value */
	bool		reserved;		/* reserved characters and %XX are kept */
} Operator;

static const Operator OPERATORS[] = {
	{'\0', '\0', ',', false, false, false},
	{'+', '\0', ',', false, false, true},
	{'#', '#', ',', false, false, true},
	{'.', '.', '.', false, false, false},
	{'/', '/', '/', false, false, false},
	{';', ';', ';', true, false, false},
	{'?', '?', '&', true, true, false},
	{'&', '&', '&', true, true, false},
};
#define N_OPERATORS (sizeof(OPERATORS) / sizeof(OPERATORS[0]))

/* A place in a template. */
typedef struct Reader
{
	const char *template;
	size_t		len;
	size_t		pos;
	const Operator *operator;	/* of the expression we are in; NULL: outside */
} Reader;

/* A literal run or one variable. */
typedef struct Piece
{
	bool		variable;
	bool		opens;			/* the first variable of its expression */
	const char *text;			/* NULL: the template is over */
	size_t		len;
	size_t		at;
} Piece;

typedef struct Output
{
	char	   *text;
	size_t		size;
	size_t		len;
	bool		full;
} Output;

static AlUriResult read_piece(Reader *reader, Piece *piece);
static AlUriResult read_operator(Reader *reader);
static AlUriResult read_literal(Reader *reader, Piece *piece);
static AlUriResult read_variable(Reader *reader, Piece *piece);
static AlUriResult put_value(Output *out, const Operator *operator, const Piece *name,
							 const AlUriValue *value, bool first);
static void put_reserved(Output *out, const char *text, size_t len);
static void put_encoded(Output *out, const char *text, size_t len);
static void put_octet(Output *out, unsigned char c);
static void put(Output *out, char c);
static bool begins_query(const Operator *operator);
static bool leaves_path(const char *text, size_t len);
static bool is_dot_segment(const char *segment, size_t len);
static bool is_encoded_slash(const char *text, size_t len);
static bool is_encoded_semicolon(const char *text, size_t len);
static bool is_triplet(const char *text, size_t len);
static bool is_unreserved(unsigned char c);
static bool is_reserved(unsigned char c);
static bool is_literal(unsigned char c);
static bool is_hex(char c);
static bool is_alnum(char c);

AlUriResult
al_uri_expand(const char *template, size_t len, AlUriLookup lookup, void *arg,
			  char *out, size_t size, size_t *out_len, size_t *at)
{
	Reader		reader = {template, len, 0, NULL};
	Output		output = {out, size, 0, size == 0};
	bool		first = true;	/* no defined value yet in this expression */
	Piece		piece;

	for (;;)
	{
		AlUriResult result = read_piece(&reader, &piece);

		*at = piece.at;
		if (result != AL_URI_OK)
			return result;
		if (piece.text == NULL)
			break;
		if (!piece.variable)
			put_reserved(&output, piece.text, piece.len);
		else
		{
			AlUriVariable variable = {piece.text, piece.len, reader.operator->sign,
			!begins_query(reader.operator) && !leaves_path(out, output.len)};
			AlUriValue	value = {false, NULL, 0};

			first = first || piece.opens;
			if (!lookup(&variable, &value, arg))
				return AL_URI_REFUSED;
			if (value.defined)
			{
				result = put_value(&output, reader.operator, &piece, &value, first);
				if (result != AL_URI_OK)
					return result;
				first = false;
			}
		}
		if (output.full)
			return AL_URI_TOO_LONG;
	}
	if (output.full || output.len >= size)
		return AL_URI_TOO_LONG;
	out[output.len] = '\0';
	*out_len = output.len;
	return al_uri_has_dot_segment(out, output.len) ? AL_URI_DOT_SEGMENT : AL_URI_OK;
}

AlUriResult
al_uri_variables(const char *template, size_t len, AlUriVisit visit, void *arg, size_t *at)
{
	Reader		reader = {template, len, 0, NULL};
	bool		in_path = true;
	Piece		piece;

	for (;;)
	{
		AlUriResult result = read_piece(&reader, &piece);

		*at = piece.at;
		if (result != AL_URI_OK || piece.text == NULL)
			return result;
		if (piece.variable)
		{
			AlUriVariable variable = {piece.text, piece.len, reader.operator->sign, false};

			in_path = in_path && !begins_query(reader.operator);
			variable.in_path = in_path;
			if (!visit(&variable, arg))
				return AL_URI_REFUSED;
		}
		else
			in_path = in_path && !leaves_path(piece.text, piece.len);
	}
}

bool
al_uri_encode(const char *text, size_t len, char *out, size_t size, size_t *out_len)
{
	Output		output = {out, size, 0, size == 0};

	put_encoded(&output, text, len);
	if (output.full || output.len >= size)
		return false;
	out[output.len] = '\0';
	*out_len = output.len;
	return true;
}

bool
al_uri_has_dot_segment(const char *path, size_t len)
{
	size_t		start = 0;

	for (size_t i = 0; i <= len; i++)
	{
		bool		end = i == len || path[i] == '?' || path[i] == '#';

		if (!end && path[i] != '/' && !is_encoded_slash(path + i, len - i))
			continue;
		if (is_dot_segment(path + start, i - start))
			return true;
		if (end)
			break;
		if (path[i] == '%')
			i += 2;
		start = i + 1;
	}
	return false;
}

/* Read the next literal or variable; at the end, a piece without text. */
static AlUriResult
read_piece(Reader *reader, Piece *piece)
{
	memset(piece, 0, sizeof(*piece));
	piece->at = reader->pos;
	if (reader->operator != NULL)
	{
		char		c = reader->template[reader->pos];

		/* read_variable() has made sure that it is one of the two */
		reader->pos++;
		if (c == ',')
			return read_variable(reader, piece);
		reader->operator = NULL;
		piece->at = reader->pos;
	}
	if (reader->pos == reader->len)
		return AL_URI_OK;
	if (reader->template[reader->pos] == '{')
	{
		AlUriResult result = read_operator(reader);

		piece->opens = true;
		return result == AL_URI_OK ? read_variable(reader, piece) : result;
	}
	return read_literal(reader, piece);
}

/* Step over '{' and the operator. */
static AlUriResult
read_operator(Reader *reader)
{
	char		c;

	if (++reader->pos == reader->len)
		return AL_URI_SYNTAX;
	c = reader->template[reader->pos];
	if (c != '\0' && strchr("=,!@|", c) != NULL)
		return AL_URI_UNSUPPORTED;
	reader->operator = &OPERATORS[0];
	for (size_t i = 1; i < N_OPERATORS; i++)
	{
		if (OPERATORS[i].sign == c)
		{
			reader->operator = &OPERATORS[i];
			reader->pos++;
			break;
		}
	}
	return AL_URI_OK;
}

/* Read literal characters up to the next expression. */
static AlUriResult
read_literal(Reader *reader, Piece *piece)
{
	size_t		start = reader->pos;

	while (reader->pos < reader->len && reader->template[reader->pos] != '{')
	{
		const char *here = reader->template + reader->pos;

		piece->at = reader->pos;
		if (*here == '%' ? !is_triplet(here, reader->len - reader->pos)
			: !is_literal((unsigned char) *here))
			return AL_URI_SYNTAX;
		reader->pos++;
	}
	piece->at = start;
	piece->text = reader->template + start;
	piece->len = reader->pos - start;
	return AL_URI_OK;
}

/* Read one variable name; the reader ends on the ',' or '}' behind it. */
static AlUriResult
read_variable(Reader *reader, Piece *piece)
{
	size_t		start = reader->pos;
	bool		may_dot = false;

	piece->variable = true;
	piece->at = start;
	while (reader->pos < reader->len)
	{
		const char *here = reader->template + reader->pos;

		if (*here == ',' || *here == '}')
		{
			/* neither empty nor ending in a dot */
			if (!may_dot)
				return AL_URI_SYNTAX;
			piece->text = reader->template + start;
			piece->len = reader->pos - start;
			return AL_URI_OK;
		}
		if (*here == ':' || *here == '*')
			return may_dot ? AL_URI_UNSUPPORTED : AL_URI_SYNTAX;
		if (*here == '.' && may_dot)
		{
			may_dot = false;
			reader->pos++;
			continue;
		}
		if (*here == '%' && is_triplet(here, reader->len - reader->pos))
			reader->pos += 3;
		else if (is_alnum(*here) || *here == '_')
			reader->pos++;
		else
			return AL_URI_SYNTAX;
		may_dot = true;
	}
	return AL_URI_SYNTAX;
}

/* Append one defined value as its operator lays it out (RFC 6570 section 3.2.1). */
static AlUriResult
put_value(Output *out, const Operator *operator, const Piece *name,
		  const AlUriValue *value, bool first)
{
	char		before = first ? operator->first : operator->separator;

	if (before != '\0')
		put(out, before);
	if (operator->named)
	{
		put_reserved(out, name->text, name->len);
		if (value->len > 0 || operator->equals_if_empty)
			put(out, '=');
	}
	/* Also where they would be encoded: who decodes them may take them for the end of a line. */
	for (size_t i = 0; i < value->len; i++)
	{
		if (value->text[i] == '\0' || value->text[i] == '\r' || value->text[i] == '\n')
			return AL_URI_CONTROL;
	}
	if (operator->reserved)
		put_reserved(out, value->text, value->len);
	else
		put_encoded(out, value->text, value->len);
	return AL_URI_OK;
}

/* Append text keeping unreserved, reserved and percent-encoded characters. */
static void
put_reserved(Output *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len && !out->full; i++)
	{
		unsigned char c = (unsigned char) text[i];

		if (is_unreserved(c) || is_reserved(c) || is_triplet(text + i, len - i))
			put(out, text[i]);
		else
			put_octet(out, c);
	}
}

/* Append text keeping only unreserved characters. */
static void
put_encoded(Output *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len && !out->full; i++)
	{
		if (is_unreserved((unsigned char) text[i]))
			put(out, text[i]);
		else
			put_octet(out, (unsigned char) text[i]);
	}
}

/* Append one octet as %XX. */
static void
put_octet(Output *out, unsigned char c)
{
	static const char HEX[] = "0123456789ABCDEF";

	put(out, '%');
	put(out, HEX[c >> 4]);
	put(out, HEX[c & 15]);
}

/* Append one character, leaving room for the NUL; too much only sets a flag. */
static void
put(Output *out, char c)
{
	if (out->full || out->len + 1 >= out->size)
		out->full = true;
	else
		out->text[out->len++] = c;
}

/* Whether what an operator lays out is no longer part of a path. */
static bool
begins_query(const Operator *operator)
{
	return operator->sign == '?' || operator->sign == '&' || operator->sign == '#';
}

/* Whether the path ends somewhere in this text. */
static bool
leaves_path(const char *text, size_t len)
{
	return memchr(text, '?', len) != NULL || memchr(text, '#', len) != NULL;
}

/* Whether a segment reads as "." or "..", with "%2e" for a dot and up to any ';' or "%3b". */
static bool
is_dot_segment(const char *segment, size_t len)
{
	int			dots = 0;
	size_t		i = 0;

	while (i < len && segment[i] != ';' && !is_encoded_semicolon(segment + i, len - i))
	{
		if (segment[i] == '.')
			i++;
		else if (len - i >= 3 && segment[i] == '%' && segment[i + 1] == '2' &&
				 (segment[i + 2] == 'e' || segment[i + 2] == 'E'))
			i += 3;
		else
			return false;
		dots++;
	}
	return dots == 1 || dots == 2;
}

/* Whether text begins with "%2f" or "%5c". */
static bool
is_encoded_slash(const char *text, size_t len)
{
	return len >= 3 && text[0] == '%' &&
		((text[1] == '2' && (text[2] == 'f' || text[2] == 'F')) ||
		 (text[1] == '5' && (text[2] == 'c' || text[2] == 'C')));
}

/* Whether text begins with "%3b". */
static bool
is_encoded_semicolon(const char *text, size_t len)
{
	return len >= 3 && text[0] == '%' && text[1] == '3' && (text[2] == 'b' || text[2] == 'B');
}

/* Whether text begins with a percent-encoded octet. */
static bool
is_triplet(const char *text, size_t len)
{
	return len >= 3 && text[0] == '%' && is_hex(text[1]) && is_hex(text[2]);
}

/* RFC 3986 section 2.3. */
static bool
is_unreserved(unsigned char c)
{
	return is_alnum((char) c) || (c != '\0' && strchr("-._~", c) != NULL);
}

/* RFC 3986 section 2.2. */
static bool
is_reserved(unsigned char c)
{
	return c != '\0' && strchr(":/?#[]@!$&'()*+,;=", c) != NULL;
}

/* RFC 6570 section 2.1, "%" and "{" aside; any byte of a UTF-8 character counts. */
static bool
is_literal(unsigned char c)
{
	return c >= 0x80 || (c > 0x20 && c != 0x7f && strchr("\"%<>\\^`{|}", c) == NULL);
}

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* ASCII only, whatever the locale. */
static bool
is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
