/*
 * uri_template.h
 *		URI Templates (RFC 6570), levels 1 to 3.
 *
 * Pure C, libc only.  Operators: none + # . / ; ? &.  The modifiers of level 4
 * (":3", "*") and the operators that the RFC reserves are errors, never passed
 * through.  Text is UTF-8 bytes; variable names are as the RFC has them
 * (letters, digits, "_", percent-encoded octets, dots between).  One departure:
 * an apostrophe is a literal (OData paths need it; the RFC's grammar leaves it
 * out although it is a reserved character like the other sub-delims).
 */
#ifndef AL_URI_TEMPLATE_H
#define AL_URI_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum AlUriResult
{
	AL_URI_OK,
	AL_URI_SYNTAX,				/* not a URI template */
	AL_URI_UNSUPPORTED,			/* a level 4 modifier or a reserved operator */
	AL_URI_REFUSED,				/* the callback said no */
	AL_URI_CONTROL,				/* NUL, CR or LF in a value */
	AL_URI_DOT_SEGMENT,			/* a path segment became "." or ".." */
	AL_URI_TOO_LONG				/* the result does not fit */
} AlUriResult;

/* A variable as it stands in a template; name is not NUL-terminated. */
typedef struct AlUriVariable
{
	const char *name;
	size_t		name_len;
	char		operator;		/* '\0' for simple expansion */
	bool		in_path;		/* no '?' or '#' before it, and not part of a query itself */
} AlUriVariable;

/* What a callback says of a variable; undefined variables are skipped. */
typedef struct AlUriValue
{
	bool		defined;
	const char *text;			/* any bytes; borrowed until the next call */
	size_t		len;
} AlUriValue;

/* Look a variable up; *value comes in as undefined.  False refuses the expansion. */
typedef bool (*AlUriLookup) (const AlUriVariable *variable, AlUriValue *value, void *arg);

/* See a variable; false ends the walk. */
typedef bool (*AlUriVisit) (const AlUriVariable *variable, void *arg);

/*
 * Expand a template of len bytes into out, which has room for size bytes and
 * ends in NUL; *out_len is the length without it.  Segments are checked after
 * percent-decoding their dots, between encoded slashes too and without their
 * ";parameters", encoded or not, because there are servers that read "%2e%2e",
 * "..%2f" and "..;x" as "..".  On failure *at is the offset in the template
 * where it happened, and out is unspecified.
 */
extern AlUriResult al_uri_expand(const char *template, size_t len,
								 AlUriLookup lookup, void *arg,
								 char *out, size_t size, size_t *out_len, size_t *at);

/*
 * Walk over the variables of a template, in order, checking its syntax.  AL_URI_OK,
 * AL_URI_SYNTAX, AL_URI_UNSUPPORTED, or AL_URI_REFUSED with *at as above.
 */
extern AlUriResult al_uri_variables(const char *template, size_t len,
									AlUriVisit visit, void *arg, size_t *at);

/* Percent-encode everything but unreserved characters (RFC 3986); false when it does not fit. */
extern bool al_uri_encode(const char *text, size_t len, char *out, size_t size, size_t *out_len);

/* Whether a path has a "." or ".." segment, as al_uri_expand() judges it; ends at '?' or '#'. */
extern bool al_uri_has_dot_segment(const char *path, size_t len);

#endif							/* AL_URI_TEMPLATE_H */
