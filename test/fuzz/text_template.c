/*
 * text_template.c
 *		A text of any bytes, cut into its pieces and put together again.
 *
 * Input: the text.
 */
#include "fuzz.h"
#include "rules/text_template.h"

static size_t check_piece(const AlTextPiece *piece, const char *from, const char *cursor, const char *end);
static void check_brace(const char *at, const char *end);
static size_t name_length(const char *at, const char *end, bool secret);
static bool is_name_char(char c, bool secret);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = fuzz_exact(data, size);
	const char *end = text + size;
	const char *cursor = text;
	AlTextPiece whole;
	AlTextPiece piece;
	AlTextKind	last = AL_TEXT_END;
	AlTextKind	first = AL_TEXT_END;
	size_t		covered = 0;
	int			n = 0;

	for (;;)
	{
		const char *from = cursor;

		piece = al_text_next(&cursor, end);
		if (piece.kind == AL_TEXT_END)
			break;
		claim(!(piece.kind == AL_TEXT_LITERAL && last == AL_TEXT_LITERAL));
		covered += check_piece(&piece, from, cursor, end);
		last = piece.kind;
		if (n++ == 0)
			first = piece.kind;
	}
	claim(cursor == end && piece.len == 0 && covered == size);
	claim(al_text_is_placeholder(text, size, &whole) == (n == 1 && first == AL_TEXT_PLACEHOLDER));
	claim(whole.kind == first);
	free(text);
	return 0;
}

/* Check one piece, which lies between from and cursor; the number of bytes it stands for. */
static size_t
check_piece(const AlTextPiece *piece, const char *from, const char *cursor, const char *end)
{
	size_t		before = 0;		/* "{", "{secret:" */
	size_t		behind = 0;

	switch (piece->kind)
	{
		case AL_TEXT_LITERAL:
			claim(memchr(piece->text, '{', piece->len) == NULL && memchr(piece->text, '}', piece->len) == NULL);
			claim(cursor == end || *cursor == '{' || *cursor == '}');
			break;
		case AL_TEXT_BRACE:
			claim(piece->len == 1);
			check_brace(piece->text, end);
			break;
		case AL_TEXT_PLACEHOLDER:
		case AL_TEXT_SECRET:
			before = piece->kind == AL_TEXT_SECRET ? strlen("{secret:") : 1;
			behind = 1;
			claim(memcmp(from, "{secret:", before) == 0);
			claim(name_length(piece->text, end, piece->kind == AL_TEXT_SECRET) == piece->len);
			claim(cursor[-1] == '}');
			break;
		case AL_TEXT_END:
			break;
	}
	claim(piece->len > 0);
	claim(piece->text == from + before);
	claim(cursor == piece->text + piece->len + behind);
	return (size_t) (cursor - from);
}

/* A brace is told as one only when nothing was meant by it. */
static void
check_brace(const char *at, const char *end)
{
	size_t		len;
	bool		secret;

	claim(*at == '{' || *at == '}');
	if (*at == '}')
		return;
	at++;
	secret = end - at >= 7 && memcmp(at, "secret:", 7) == 0;
	if (secret)
		at += 7;
	len = name_length(at, end, secret);
	claim(len == 0 || at + len == end || at[len] != '}');
}

static size_t
name_length(const char *at, const char *end, bool secret)
{
	const char *to = at;

	while (to < end && is_name_char(*to, secret))
		to++;
	return (size_t) (to - at);
}

static bool
is_name_char(char c, bool secret)
{
	return c != '\0' &&
		(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", c) != NULL ||
		 (!secret && (unsigned char) c >= 0x80));
}
