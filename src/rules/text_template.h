/*
 * text_template.h
 *		Reading text with {placeholders} and {secret:name} references.
 *
 * Pure C, libc only.  A placeholder is one or more of A-Z a-z 0-9 _ . - and
 * bytes from 0x80, between braces and nothing else; a secret's name is the same
 * without the latter.  Any other brace is told as such, so that a caller can
 * refuse it (identity, header) or keep it (a JSON body may hold GraphQL).
 */
#ifndef AL_TEXT_TEMPLATE_H
#define AL_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum AlTextKind
{
	AL_TEXT_END,
	AL_TEXT_LITERAL,
	AL_TEXT_PLACEHOLDER,		/* {name} */
	AL_TEXT_SECRET,				/* {secret:name} */
	AL_TEXT_BRACE				/* a single brace that belongs to neither */
} AlTextKind;

typedef struct AlTextPiece
{
	AlTextKind	kind;
	const char *text;			/* the literal, the brace, or the name without braces */
	size_t		len;
} AlTextPiece;

/* Read the next piece and move *cursor behind it. */
extern AlTextPiece al_text_next(const char **cursor, const char *end);

/* Whether the text is one placeholder and nothing else; *piece is it then. */
extern bool al_text_is_placeholder(const char *text, size_t len, AlTextPiece *piece);

#endif							/* AL_TEXT_TEMPLATE_H */
