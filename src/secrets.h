/*
 * secrets.h
 *		Putting secrets into header lines at send time.
 */
#ifndef AL_SECRETS_H
#define AL_SECRETS_H

#include "postgres.h"

#define AL_SECRET_MAX 8192		/* bytes of a secret */

/*
 * Replace {secret:name} and {basic:user:password} in one frozen header line.
 * Returns a palloc'ed line, or NULL with the name of the missing or unusable
 * secret in *missing.  Secrets are the files of actionledger.secret_directory,
 * without the line ending at their end, and then the rows of
 * actionledger.secret; each is read once a turn.  Needs an AlSession.
 */
extern char *al_secrets_resolve(const char *line, char **missing);

/* Forget what the last turn has read; the memory is the current context's. */
extern void al_secrets_begin_turn(void);

/* Overwrite and free a line that held a secret. */
extern void al_secrets_forget(char *line);

#endif							/* AL_SECRETS_H */
