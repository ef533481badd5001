/*
 * test_text_template.c
 *		A text is cut into literals, placeholders, secrets and stray braces, and
 *		nothing of it is lost.
 */
#include "rules/text_template.h"

#include "tap.h"

typedef struct Example
{
	const char *text;
	const char *pieces;			/* kinds and texts: L literal, P placeholder, S secret, B brace */
} Example;

static const Example EXAMPLES[] = {
	{"", ""},
	{"abc", "L(abc)"},
	{"{a}", "P(a)"},
	{"refund:{refund_id}", "L(refund:)P(refund_id)"},
	{"{a}{b}", "P(a)P(b)"},
	{"x{_key}y", "L(x)P(_key)L(y)"},
	{"{a.b-c_1}", "P(a.b-c_1)"},
	{"{\xc3\xbc}", "P(\xc3\xbc)"},
	{"{secret:k.a-b_1}", "S(k.a-b_1)"},
	{"Bearer {secret:k}", "L(Bearer )S(k)"},
	{"{secret}", "P(secret)"},
	{"{secret:}", "B({)L(secret:)B(})"},
	{"{secret:\xc3\xbc}", "B({)L(secret:\xc3\xbc)B(})"},
	{"{secret:a b}", "B({)L(secret:a b)B(})"},
	{"{secret:a:b}", "B({)L(secret:a:b)B(})"},
	{"{other:a}", "B({)L(other:a)B(})"},
	{"{}", "B({)B(})"},
	{"{ a}", "B({)L( a)B(})"},
	{"{a }", "B({)L(a )B(})"},
	{"{a", "B({)L(a)"},
	{"a}", "L(a)B(})"},
	{"{", "B({)"},
	{"{secret:", "B({)L(secret:)"},
	{"{{a}}", "B({)P(a)B(})"},
	{"mutation { refund(id: $id) { id } }", "L(mutation )B({)L( refund(id: $id) )B({)L( id )B(})L( )B(})"},
	{NULL, NULL}
};

static void spell(const char *text, size_t len, char *out, size_t size);

int
main(void)
{
	AlTextPiece piece;

	tap_group("texts are cut into pieces");
	for (const Example *e = EXAMPLES; e->text != NULL; e++)
	{
		char		out[256];

		spell(e->text, strlen(e->text), out, sizeof(out));
		tap_cell(strcmp(out, e->pieces) == 0, "%s: got %s, expected %s", e->text, out, e->pieces);
	}
	tap_group_end();

	ok(al_text_is_placeholder("{a}", 3, &piece), "a text can be one placeholder");
	ok(piece.len == 1 && piece.text[0] == 'a', "and its name is told");
	ok(!al_text_is_placeholder("{a} ", 4, &piece), "not with anything behind it");
	ok(!al_text_is_placeholder(" {a}", 4, &piece), "nor before it");
	ok(!al_text_is_placeholder("{secret:a}", 10, &piece), "nor when it is a secret");
	ok(!al_text_is_placeholder("{a}", 2, &piece), "the end of the text is respected");
	ok(!al_text_is_placeholder("", 0, &piece), "an empty text is none");
	return done_testing();
}

/* Write the pieces of a text down. */
static void
spell(const char *text, size_t len, char *out, size_t size)
{
	static const char KINDS[] = {
		[AL_TEXT_LITERAL] = 'L', [AL_TEXT_PLACEHOLDER] = 'P', [AL_TEXT_SECRET] = 'S', [AL_TEXT_BRACE] = 'B'
	};
	const char *cursor = text;
	AlTextPiece piece;
	int			used = 0;

	out[0] = '\0';
	while ((piece = al_text_next(&cursor, text + len)).kind != AL_TEXT_END)
		used += snprintf(out + used, size - (size_t) used, "%c(%.*s)", KINDS[piece.kind],
						 (int) piece.len, piece.text);
}
