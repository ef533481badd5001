/*
 * visible.h
 *		A stranger's text, on its way into a message.
 */
#ifndef AL_VISIBLE_H
#define AL_VISIBLE_H

#include "postgres.h"

/*
 * The text itself when it is harmless, else a palloc'ed copy of one line in
 * which \n, \r, \t and \uXXXX stand for the characters that a terminal or a
 * reader of logs would obey.  NULL for NULL.
 */
extern const char *al_visible(const char *text);

/* Make the texts of an error visible, in place. */
extern void al_visible_error(ErrorData *error);

/*
 * Report the error that is being handled, made visible, and end its handling;
 * gives a copy in the current memory context, which is not the one of errors.
 */
extern ErrorData *al_visible_report(void);

#endif							/* AL_VISIBLE_H */
