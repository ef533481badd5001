/*
 * schema_pattern.c
 *		The "pattern" keyword: ECMA-262 expressions for PostgreSQL's engine.
 *
 * JSON Schema means ECMA-262 (in Unicode mode), PostgreSQL has its own "advanced"
 * syntax, and the two give the same text different meanings: \b is a word
 * boundary here and a backspace there, . matches a newline only there, [[:x:]]
 * is a class only there.  So a pattern is translated, token by token, and run
 * with the C collation, where \d and \w are ASCII as in ECMA-262.  What has no
 * equal is refused: back references, \p{...}, inline flags, more than 255
 * repetitions.  A boolean match needs no captures and no laziness, so every
 * group becomes (?:...) and a lazy quantifier loses its question mark.  Stray
 * {, } and ] stand for themselves, as in browsers.
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "regex/regex.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "schema_internal.h"

/* The engine's own limits: DUPMAX, and the copy it makes of the string. */
#define MAX_REPEAT 255
#define MAX_STRING ((int) (MaxAllocSize / sizeof(pg_wchar)) - 1)

/* White space of ECMA-262 beyond ASCII, and all that is none, for UTF-8. */
#define SPACES "\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
#define NOT_SPACES \
	"\\u0001-\\u0008\\u000e-\\u001f\\u0021-\\u009f\\u00a1-\\u167f\\u1681-\\u1fff" \
	"\\u200b-\\u2027\\u202a-\\u202e\\u2030-\\u205e\\u2060-\\u2fff\\u3001-\\ufefe" \
	"\\uff00-\\U0010ffff"

typedef struct Translation
{
	const char *at;
	const char *end;
	StringInfoData out;
	char	   *error;
	int			open;			/* groups that are not closed yet */
	bool		repeatable;		/* what came last may take a quantifier */
	bool		utf8;
} Translation;

/* One member of a bracket expression, or one escape, already translated. */
typedef struct Atom
{
	char		text[256];
	bool		is_class;
} Atom;

static bool fail(Translation *t, const char *error);
static void translate_token(Translation *t);
static void translate_group(Translation *t);
static void translate_escape(Translation *t);
static void translate_bracket(Translation *t);
static bool read_member(Translation *t, Atom *atom);
static void translate_quantifier(Translation *t);
static bool at_braces(const Translation *t);
static bool read_escape(Translation *t, Atom *atom);
static bool read_code_point(Translation *t, char kind, Atom *atom);
static bool read_hex(Translation *t, int digits, uint32 *code);
static bool put_code_point(Translation *t, uint32 code, Atom *atom);

/*
 * Translate a pattern for REG_ADVANCED and the C collation; NULL, and the
 * reason in *error, when it cannot be.
 */
text *
al_schema_pattern_translate(const char *pattern, int len, char **error)
{
	Translation t = {.at = pattern, .end = pattern + len};

	t.utf8 = GetDatabaseEncoding() == PG_UTF8;
	initStringInfo(&t.out);
	while (t.at < t.end && t.error == NULL)
		translate_token(&t);
	if (t.error == NULL && t.open > 0)
		fail(&t, "a group is not closed");
	*error = t.error;
	return t.error == NULL ? cstring_to_text_with_len(t.out.data, t.out.len) : NULL;
}

/* Compile a pattern once; the reason when it cannot be, else NULL. */
char *
al_schema_pattern_check(const char *pattern, int len)
{
	char	   *error;
	text	   *translated = al_schema_pattern_translate(pattern, len, &error);
	pg_wchar   *wide;
	int			wide_len;
	int			status;
	regex_t		compiled;

	if (translated == NULL)
		return error;
	wide = palloc((VARSIZE_ANY_EXHDR(translated) + 1) * sizeof(pg_wchar));
	wide_len = pg_mb2wchar_with_len(VARDATA_ANY(translated), wide, VARSIZE_ANY_EXHDR(translated));
	status = pg_regcomp(&compiled, wide, wide_len, REG_ADVANCED | REG_NOSUB, C_COLLATION_OID);
	pfree(wide);
	if (status == REG_OKAY)
	{
		pg_regfree(&compiled);
		return NULL;
	}
	CHECK_FOR_INTERRUPTS();
	error = palloc(128);
	pg_regerror(status, &compiled, error, 128);
	return error;
}

/* Tell whether a string matches a pattern that was checked before. */
bool
al_schema_pattern_match(const JsonbValue *pattern, const JsonbValue *value)
{
	char	   *error;
	text	   *translated;

	if (value->val.string.len > MAX_STRING)
		return false;
	translated = al_schema_pattern_translate(pattern->val.string.val, pattern->val.string.len,
											 &error);
	if (translated == NULL)
		return false;
	return RE_compile_and_execute(translated, value->val.string.val, value->val.string.len,
								  REG_ADVANCED, C_COLLATION_OID, 0, NULL);
}

/* Note why a pattern cannot be translated; false for the caller to return. */
static bool
fail(Translation *t, const char *error)
{
	if (t->error == NULL)
		t->error = pstrdup(error);
	return false;
}

/* Translate what stands next outside of brackets. */
static void
translate_token(Translation *t)
{
	int			len;

	switch (*t->at)
	{
		case '\\':
			translate_escape(t);
			return;
		case '[':
			translate_bracket(t);
			return;
		case '(':
			translate_group(t);
			return;
		case '*':
		case '+':
		case '?':
			translate_quantifier(t);
			return;
		case '{':
			if (at_braces(t))
			{
				translate_quantifier(t);
				return;
			}
			/* FALLTHROUGH */
		case '}':
		case ']':
			appendStringInfo(&t->out, "\\%c", *t->at++);
			t->repeatable = true;
			return;
		case '.':
			appendStringInfoString(&t->out, t->utf8 ? "[^\\n\\r\\u2028\\u2029]" : "[^\\n\\r]");
			t->at++;
			t->repeatable = true;
			return;
		case ')':
			if (t->open-- == 0)
				fail(t, "a parenthesis is closed that was not opened");
			appendStringInfoChar(&t->out, *t->at++);
			t->repeatable = true;
			return;
		case '|':
		case '^':
		case '$':
			appendStringInfoChar(&t->out, *t->at++);
			t->repeatable = false;
			return;
		default:
			len = Min(pg_mblen(t->at), (int) (t->end - t->at));
			appendBinaryStringInfo(&t->out, t->at, len);
			t->at += len;
			t->repeatable = true;
			return;
	}
}

/* Translate the opening of a group; captures and names serve no purpose. */
static void
translate_group(Translation *t)
{
	static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!"};
	const char *close;

	t->open++;
	t->repeatable = false;
	for (int i = 0; i < (int) lengthof(same); i++)
	{
		size_t		len = strlen(same[i]);

		if (t->end - t->at >= (ptrdiff_t) len && memcmp(t->at, same[i], len) == 0)
		{
			appendStringInfoString(&t->out, same[i]);
			t->at += len;
			return;
		}
	}
	appendStringInfoString(&t->out, "(?:");
	if (t->end - t->at < 2 || t->at[1] != '?')
	{
		t->at++;
		return;
	}
	close = t->end - t->at > 3 && t->at[2] == '<' ? memchr(t->at, '>', t->end - t->at) : NULL;
	if (close == NULL)
		fail(t, "inline flags and comments are not supported");
	else
		t->at = close + 1;
}

/* Translate an escape outside of brackets. */
static void
translate_escape(Translation *t)
{
	char		kind = t->end - t->at < 2 ? '\0' : t->at[1];
	Atom		atom;

	if (kind == 'b' || kind == 'B')
	{
		appendStringInfoString(&t->out, kind == 'b' ? "\\y" : "\\Y");
		t->at += 2;
		t->repeatable = false;
		return;
	}
	if (!read_escape(t, &atom))
		return;
	if (kind == 's' || kind == 'S')
		appendStringInfo(&t->out, "[%s]", atom.text);
	else
		appendStringInfoString(&t->out, atom.text);
	t->repeatable = true;
}

/* Translate a bracket expression, every punctuation in it escaped. */
static void
translate_bracket(Translation *t)
{
	bool		negated = t->end - t->at > 1 && t->at[1] == '^';

	t->at += negated ? 2 : 1;
	t->repeatable = true;
	if (t->at < t->end && *t->at == ']')
	{
		/* [^] is any character at all, which is what . means there. */
		t->at++;
		if (negated)
			appendStringInfoChar(&t->out, '.');
		else
			fail(t, "[] matches nothing; write \\] for a bracket");
		return;
	}
	appendStringInfoString(&t->out, negated ? "[^" : "[");
	while (t->at < t->end && *t->at != ']')
	{
		Atom		first;
		Atom		last;

		if (!read_member(t, &first))
			return;
		appendStringInfoString(&t->out, first.text);
		if (t->end - t->at < 2 || t->at[0] != '-' || t->at[1] == ']')
			continue;
		t->at++;
		if (!read_member(t, &last))
			return;
		if (first.is_class || last.is_class)
		{
			fail(t, "a class such as \\d cannot bound a range");
			return;
		}
		appendStringInfo(&t->out, "-%s", last.text);
	}
	if (t->at >= t->end)
	{
		fail(t, "a bracket is not closed");
		return;
	}
	appendStringInfoChar(&t->out, *t->at++);
}

/* Read one member of a bracket expression. */
static bool
read_member(Translation *t, Atom *atom)
{
	int			len;

	if (*t->at == '\\')
	{
		if (t->end - t->at < 2 || t->at[1] != 'b')
			return read_escape(t, atom);
		t->at += 2;
		return put_code_point(t, '\b', atom);
	}
	atom->is_class = false;
	len = Min(pg_mblen(t->at), (int) (t->end - t->at));
	if (ispunct((unsigned char) *t->at) && len == 1 && !IS_HIGHBIT_SET(*t->at))
		snprintf(atom->text, sizeof(atom->text), "\\%c", *t->at);
	else
		snprintf(atom->text, sizeof(atom->text), "%.*s", len, t->at);
	t->at += len;
	return true;
}

/* Translate *, +, ? and {n,m}; a ? behind them (lazy) changes no answer. */
static void
translate_quantifier(Translation *t)
{
	if (!t->repeatable)
	{
		fail(t, "a quantifier has nothing to repeat");
		return;
	}
	t->repeatable = false;
	if (*t->at == '{')
	{
		for (; *t->at != '}'; t->at++)
		{
			int			digits = (int) strspn(t->at, "0123456789");

			if (digits > 3 || (digits == 3 && strncmp(t->at, "255", 3) > 0))
			{
				fail(t, psprintf("at most %d repetitions; use minLength and maxLength",
								 MAX_REPEAT));
				return;
			}
			appendStringInfoChar(&t->out, *t->at);
		}
	}
	appendStringInfoChar(&t->out, *t->at++);
	if (t->at < t->end && *t->at == '?')
		t->at++;
}

/* Tell whether {n}, {n,} or {n,m} stands next; any other { is a character. */
static bool
at_braces(const Translation *t)
{
	const char *at = t->at + 1;

	if (at >= t->end || !isdigit((unsigned char) *at))
		return false;
	while (at < t->end && isdigit((unsigned char) *at))
		at++;
	if (at < t->end && *at == ',')
		at++;
	while (at < t->end && isdigit((unsigned char) *at))
		at++;
	return at < t->end && *at == '}';
}

/* Read an escape that means the same inside and outside of brackets. */
static bool
read_escape(Translation *t, Atom *atom)
{
	char		kind;

	if (t->end - t->at < 2)
		return fail(t, "it ends in a backslash");
	kind = t->at[1];
	t->at += 2;
	atom->is_class = strchr("dDwWsS", kind) != NULL;
	if (kind == 's')
		snprintf(atom->text, sizeof(atom->text), "\\s%s", t->utf8 ? SPACES : "");
	else if (kind == 'S')
		snprintf(atom->text, sizeof(atom->text), "%s", t->utf8 ? NOT_SPACES : "\\S");
	else if (strchr("dDwWtnvfr", kind) != NULL)
		snprintf(atom->text, sizeof(atom->text), "\\%c", kind);
	else if (kind == 'x' || kind == 'u' || kind == 'c')
		return read_code_point(t, kind, atom);
	else if (kind == 'p' || kind == 'P')
		return fail(t, "\\p{...} is not supported; list the characters in brackets");
	else if (kind == 'k' || (kind >= '1' && kind <= '9'))
		return fail(t, "back references are not supported");
	else if (!IS_HIGHBIT_SET(kind) && ispunct((unsigned char) kind))
		snprintf(atom->text, sizeof(atom->text), "\\%c", kind);
	else if (!IS_HIGHBIT_SET(kind) && kind != ' ')
		return fail(t, psprintf("there is no escape \\%c", kind));
	else
	{
		t->at--;
		return read_member(t, atom);
	}
	return true;
}

/* Read \xhh, \uhhhh (pairs of surrogates too), \u{h...} or \cX. */
static bool
read_code_point(Translation *t, char kind, Atom *atom)
{
	uint32		code;
	uint32		low;

	if (kind == 'c')
	{
		if (t->at >= t->end || IS_HIGHBIT_SET(*t->at) || !isalpha((unsigned char) *t->at))
			return fail(t, "\\c needs a letter");
		return put_code_point(t, *t->at++ % 32, atom);
	}
	if (kind == 'u' && t->at < t->end && *t->at == '{')
	{
		const char *close = memchr(t->at, '}', t->end - t->at);

		t->at++;
		if (close == NULL || close - t->at > 6 || !read_hex(t, (int) (close - t->at), &code))
			return fail(t, "\\u{...} needs one to six hexadecimal digits");
		t->at++;
		return put_code_point(t, code, atom);
	}
	if (!read_hex(t, kind == 'x' ? 2 : 4, &code))
		return fail(t, "\\x needs two hexadecimal digits and \\u four");
	if (is_utf16_surrogate_first(code) && t->end - t->at >= 6 && t->at[0] == '\\' &&
		t->at[1] == 'u')
	{
		t->at += 2;
		if (!read_hex(t, 4, &low) || !is_utf16_surrogate_second(low))
			return fail(t, "a surrogate stands alone");
		code = surrogate_pair_to_codepoint(code, low);
	}
	return put_code_point(t, code, atom);
}

/* Read so many hexadecimal digits. */
static bool
read_hex(Translation *t, int digits, uint32 *code)
{
	*code = 0;
	if (digits < 1 || t->end - t->at < digits)
		return false;
	for (; digits > 0; digits--)
	{
		unsigned char c = (unsigned char) *t->at++;

		if (!isxdigit(c))
			return false;
		*code = *code * 16 + (isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return true;
}

/* Write a character by its code point. */
static bool
put_code_point(Translation *t, uint32 code, Atom *atom)
{
	atom->is_class = false;
	if (code == 0 || code > 0x10ffff || is_utf16_surrogate_first(code) ||
		is_utf16_surrogate_second(code))
		return fail(t, "an escape names no character that a string can hold");
	if (code > 0x7f && !t->utf8)
		return fail(t, "escapes beyond ASCII need a database in UTF8");
	snprintf(atom->text, sizeof(atom->text), "\\U%08x", code);
	return true;
}
