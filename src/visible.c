/*
 * visible.c
 *		Makes visible what would forge or disturb a line of a message or a log.
 *
 * Names, notes, arguments and answers come from strangers.  The server writes
 * messages into its log as they are (it only indents what follows a line feed),
 * and a terminal obeys what it is shown: a carriage return or an escape sequence
 * overwrites a line, a bidirectional override turns one around.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "visible.h"

static bool is_plain(const char *text);
static bool is_obeyed(pg_wchar c);
static pg_wchar character_at(const char *text, int len);
static void make_visible(char **text);

/* Gives a text in which nothing is obeyed. */
const char *
al_visible(const char *text)
{
	StringInfoData out;
	int			len;

	if (text == NULL || is_plain(text))
		return text;
	initStringInfo(&out);
	for (; *text != '\0'; text += len)
	{
		pg_wchar	c;

		len = (int) strnlen(text, pg_mblen(text));
		c = character_at(text, len);
		if (!is_obeyed(c))
			appendBinaryStringInfo(&out, text, len);
		else if (c == '\n' || c == '\r' || c == '\t')
			appendStringInfo(&out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
		else
			appendStringInfo(&out, "\\u%04X", (unsigned int) c);
	}
	return out.data;
}

/* Makes what an error says visible; its context too, which quotes what was read. */
void
al_visible_error(ErrorData *error)
{
	make_visible(&error->message);
	make_visible(&error->detail);
	make_visible(&error->detail_log);
	make_visible(&error->hint);
	make_visible(&error->context);
}

/* Reports the error that is being handled; EmitErrorReport() reports only what was raised. */
ErrorData *
al_visible_report(void)
{
	ErrorData  *error = CopyErrorData();

	FlushErrorState();
	al_visible_error(error);
	PG_TRY();
	{
		ReThrowError(error);
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
	}
	PG_END_TRY();
	return error;
}

/* Tells, byte by byte, that a text has nothing to look for. */
static bool
is_plain(const char *text)
{
	for (; *text != '\0'; text++)
	{
		if ((unsigned char) *text < 0x20 || (unsigned char) *text >= 0x7f)
			return false;
	}
	return true;
}

/*
 * Tells whether a terminal or a reader of lines obeys a character: the control
 * characters (C0, DEL, C1), the separators of lines and paragraphs, and what sets
 * the direction of writing.
 */
static bool
is_obeyed(pg_wchar c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
		(c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Reads a character; what is not ASCII has a meaning to us only in UTF-8. */
static pg_wchar
character_at(const char *text, int len)
{
	unsigned char first = (unsigned char) *text;

	if (first < 0x80)
		return first;
	return GetDatabaseEncoding() == PG_UTF8 && len == pg_utf_mblen((const unsigned char *) text)
		? utf8_to_unicode((const unsigned char *) text) : 0xfffd;
}

/* Makes a text of an error visible. */
static void
make_visible(char **text)
{
	if (*text != NULL)
		*text = pstrdup(al_visible(*text));
}
