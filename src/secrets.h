/*
 * secrets.h
 *		Putting secrets into header lines at send time.
 */
#ifndef AL_SECRETS_H
#define AL_SECRETS_H

#include "postgres.h"
#include "nodes/pg_list.h"

#define AL_SECRET_MAX 8192		/* bytes of a secret */

/*
 * Replace {secret:name} and {basic:user:password} in one frozen header line.
 * Returns a palloc'ed line, or NULL with the name of the missing or unusable
 * secret in *missing.  Appends palloc'ed copies of what the line holds now and
 * nobody may see (secrets, and what base64 made of them) to the list *held.  Secrets are the files of actionledger.secret_directory,
 * without the line ending at their end, and then the rows of
 * actionledger.secret; each is read once a turn.  Needs an AlSession.
 */
extern char *al_secrets_resolve(const char *line, List **held, char **missing);

/* Forget what the last turn has read; the memory is the current context's. */
extern void al_secrets_begin_turn(void);

/* Overwrite and free a text that held a secret. */
extern void al_secrets_forget(char *text);

#endif							/* AL_SECRETS_H */
