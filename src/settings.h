/*
 * settings.h
 *		The extension's configuration parameters.
 */
#ifndef AL_SETTINGS_H
#define AL_SETTINGS_H

#include "postgres.h"

extern bool al_enabled;			/* of this database; set for it by ALTER DATABASE */
extern bool al_notify;
extern int	al_dispatchers;		/* per database */
extern int	al_max_workers;		/* of all databases */
extern int	al_max_unproven;	/* marked and unsent at once, where an unknown cannot be re-sent */
extern int	al_poll_interval;	/* ms: the floor under the wake-ups */
extern int	al_drain_timeout;	/* ms: for answers to come in at shutdown */
extern int	al_identity_wait;	/* ms: for another transaction that holds an identity */
extern int	al_max_request_size;	/* bytes of a rendered body, and of the arguments */
extern int	al_max_response_size;	/* bytes of an answer that are kept */
extern int	al_min_sync_standbys;
extern int	al_refusal_retention;	/* minutes; -1: for ever */
extern char *al_secret_directory;

extern void al_settings_define(void);

#endif							/* AL_SETTINGS_H */
