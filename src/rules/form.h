/*
 * form.h
 *		Writing application/x-www-form-urlencoded with bracketed nesting.
 *
 * Pure C, libc only.  The URL standard's encoding of UTF-8 bytes: a space is +,
 * A-Z a-z 0-9 * - . _ are themselves, all else is %XX.  The name of a field is
 * what leads to it: a, a[b], a[0][b]; only the brackets of the nesting are bare.
 */
#ifndef AL_FORM_H
#define AL_FORM_H

#include <stdbool.h>
#include <stddef.h>

/* Takes bytes that have been written; what it does with them is the caller's. */
typedef void (*AlFormAppend) (void *sink, const char *bytes, size_t len);

/* Write text in its encoded form. */
extern void al_form_encode(const char *utf8, size_t len, AlFormAppend append, void *sink);

/* Lengthen a name by a member of an object; nested: it is not the first part of the name. */
extern void al_form_member(bool nested, const char *utf8, size_t len, AlFormAppend append, void *sink);

/* Lengthen a name by an element of an array, which is never the first part. */
extern void al_form_element(int index, AlFormAppend append, void *sink);

/* Write a field: its name as lengthened above, and its value. */
extern void al_form_field(bool first, const char *name, size_t name_len, const char *utf8, size_t len,
						  AlFormAppend append, void *sink);

#endif							/* AL_FORM_H */
