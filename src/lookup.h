/*
 * lookup.h
 *		A lookup's request, and what its answer shows.
 */
#ifndef AL_LOOKUP_H
#define AL_LOOKUP_H

#include "postgres.h"

#include "ledger.h"
#include "registry.h"
#include "render.h"
#include "wire/wire.h"

/* What a lookup found. */
typedef struct AlFound
{
	AlSightKind	finding;
	bool		authoritative;	/* a finding of none can prove the absence */
	const char *category;		/* for attempt.category; static, or the definition's */
	char	   *external_ref;	/* of the object, or of the first; NULL: none */
	Datum		result;			/* jsonb of a confirmed object, 0: none */
	int			n;				/* how many objects matched */
	Datum		refs;			/* of several: jsonb array of their references; 0: none */
} AlFound;

/*
 * Render the lookup of an action whose frozen request went to sent_url with
 * sent_headers.  NULL, and in *why a reason that a person understands, when it
 * cannot be made.  Never raises for what the definition or the arguments bring.
 */
extern AlRendered *al_lookup_render(const AlTool *tool, const AlParticulars *particulars,
									const char *sent_url, const char *sent_headers, char **why);

/*
 * Read the answer to a lookup.  result is NULL when nothing came from the
 * wire.  Never raises: an answer that cannot be read proves nothing.
 */
extern void al_lookup_read(const AlTool *tool, const AlParticulars *particulars,
						   const AlEvidence *evidence, const AlWireResult *result, AlFound *found);

/* Whether a URL goes to an origin (scheme://host:port, port always there). */
extern bool al_lookup_same_origin(const char *url, const char *origin);

#endif							/* AL_LOOKUP_H */
