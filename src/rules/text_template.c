/*
 * text_template.c
 *		Reading text with {placeholders} and {secret:name} references.
 */
#include "text_template.h"

#include <string.h>

static const char SECRET[] = "secret:";

static bool read_braced(const char *from, const char *end, AlTextPiece *piece);
static bool is_name(unsigned char c, bool beyond_ascii);

AlTextPiece
al_text_next(const char **cursor, const char *end)
{
	const char *from = *cursor;
	const char *to = from;
	AlTextPiece piece = {AL_TEXT_END, from, 0};

	if (from == end)
		return piece;
	if (*from == '{' && read_braced(from, end, &piece))
	{
		*cursor = piece.text + piece.len + 1;
		return piece;
	}
	if (*from == '{' || *from == '}')
	{
		piece.kind = AL_TEXT_BRACE;
		to++;
	}
	else
	{
		piece.kind = AL_TEXT_LITERAL;
		while (to < end && *to != '{' && *to != '}')
			to++;
	}
	piece.text = from;
	piece.len = (size_t) (to - from);
	*cursor = to;
	return piece;
}

bool
al_text_is_placeholder(const char *text, size_t len, AlTextPiece *piece)
{
	const char *cursor = text;

	*piece = al_text_next(&cursor, text + len);
	return piece->kind == AL_TEXT_PLACEHOLDER && cursor == text + len;
}

/* Read "{name}" or "{secret:name}"; false when it is neither. */
static bool
read_braced(const char *from, const char *end, AlTextPiece *piece)
{
	const char *name = from + 1;
	const char *to;
	bool		secret = (size_t) (end - name) > strlen(SECRET) &&
		memcmp(name, SECRET, strlen(SECRET)) == 0;

	if (secret)
		name += strlen(SECRET);
	to = name;
	while (to < end && is_name((unsigned char) *to, !secret))
		to++;
	if (to == name || to == end || *to != '}')
		return false;
	piece->kind = secret ? AL_TEXT_SECRET : AL_TEXT_PLACEHOLDER;
	piece->text = name;
	piece->len = (size_t) (to - name);
	return true;
}

static bool
is_name(unsigned char c, bool beyond_ascii)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_' || c == '.' || c == '-' || (beyond_ascii && c >= 0x80);
}
