/*
 * pause.h
 *		What people have told the dispatchers to leave alone.
 *
 * A pause is a row; dispatchers and sessions learn of it as of a changed tool.
 * A lock for each service, shared by the turns that claim from it, makes the
 * commit of a pause the moment from which nothing more is claimed.
 */
#ifndef AL_PAUSE_H
#define AL_PAUSE_H

#include "postgres.h"
#include "datatype/timestamp.h"

/* Service number of the lock that a pause of everything takes. */
#define AL_PAUSE_ALL 0

/* An open pause that covers a tool. */
typedef struct AlPause
{
	bool		sends;			/* it holds them */
	bool		lookups;
	char	   *subject;		/* "service x", "tool y", "sending" */
	char	   *reason;
	char	   *by;
	TimestampTz at;
} AlPause;

/*
 * Share the lock of a service until the end of the transaction, without
 * waiting.  False while somebody is about to pause or resume it.
 */
extern bool al_pause_share(int32 service_id);

/* The subject of a pause from its scope and name; palloc'ed. */
extern char *al_pause_subject(const char *scope, const char *name);

#endif							/* AL_PAUSE_H */
