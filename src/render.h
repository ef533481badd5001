/*
 * render.h
 *		From a tool and arguments to the frozen request.
 */
#ifndef AL_RENDER_H
#define AL_RENDER_H

#include "postgres.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"
#include "utils/uuid.h"

#include "definition.h"

/* The values that our own placeholders stand for. */
typedef struct AlRenderContext
{
	Jsonb	   *args;
	const char *key;			/* {_key} */
	const char *identity;		/* {_identity} */
	const char *run_id;			/* {_run_id}; NULL: empty */
} AlRenderContext;

/* The frozen request.  All text is UTF-8 for the wire, NUL-terminated. */
typedef struct AlRendered
{
	char	   *url;			/* absolute */
	char	   *headers;		/* lines "Name: value" joined with \n, {secret:name} unresolved;
								 * Content-Type and the key header are among them */
	char	   *body;			/* NULL: none */
	size_t		body_len;
} AlRendered;

/*
 * Render the identity of a call from the tool's template, e.g.
 * "refund:{refund_id}".  Raises LG008 when a field is missing, null, an object
 * or array, or when the result is empty, over 200 bytes or has control characters.
 */
extern char *al_render_identity(const AlToolDef *tool, Jsonb *args, const char *run_id);

/*
 * Render a display template (summary, target): plain substitution, a missing
 * argument gives an empty string; cut at max bytes on a character boundary.
 */
extern char *al_render_text(const char *template, Jsonb *args, int max);

/*
 * The idempotency key on the wire: UUIDv5 of (service, 0x1F, identity) in the
 * ledger's namespace, or prefix and identity where the service declares that
 * form.  Raises LG008 when the key does not fit the declared length or
 * alphabet.  Never empty.
 */
extern char *al_render_key(const AlIdempotency *idempotency, const pg_uuid_t *namespace_id,
						   const char *service, const char *identity);

/*
 * Render the request.  Raises LG004 (invalid_arguments) when an argument cannot
 * stand where the template puts it: a path segment that becomes "." or "..",
 * CR, LF or NUL in path, query or header, an object where a scalar is needed.
 * Raises LG009 when the body is over max_body bytes.
 */
extern AlRendered *al_render_request(const AlServiceDef *service, const AlToolDef *tool,
									 const AlIdempotency *idempotency,
									 const AlRenderContext *context, size_t max_body);

/*
 * Check, when a tool is created, that every {placeholder} in a template names a
 * property of the input schema or one of ours, and that summary, target and
 * identity use no sensitive field.  Raises LG015.
 */
extern void al_render_check(const AlToolDef *tool);

#endif							/* AL_RENDER_H */
