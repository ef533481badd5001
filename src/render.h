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
	int64		action_id;		/* {_action_id} */
	const char *external_ref;	/* {_external_ref}, in lookups; NULL: undefined */
	bool		needs_all;		/* refuse a URL in which a variable has no value */
} AlRenderContext;

/* The frozen request.  All text is UTF-8 for the wire, NUL-terminated. */
typedef struct AlRendered
{
	char	   *url;			/* absolute */
	char	   *headers;		/* lines "Name: value" joined with \n, {secret:name} unresolved;
								 * Content-Type and the key header are among them */
	char	   *body;			/* NULL: none */
	size_t		body_len;
	bool		elsewhere;		/* a lookup that does not ask where the action was sent */
} AlRendered;

/*
 * Render the identity of a call from the tool's template, e.g.
 * "refund:{refund_id}", which must have one.  Raises LG008 when a field is
 * missing, null, empty, an object or array, or when the result is over 200 bytes
 * or has control characters.
 */
extern char *al_render_identity(const AlToolDef *tool, Jsonb *args, const char *run_id);

/*
 * Render a display template (summary, target): plain substitution, a missing
 * argument gives an empty string, an object or array its JSON, and what a
 * terminal would obey is made visible; cut at max bytes on a character boundary.
 * In the server encoding.
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
 * stand where the template puts it: a path segment that becomes "." or "..", a
 * missing or empty value of {x} or {+x} in the path, a line break under {+x}
 * (elsewhere in a URL it is percent-encoded), anything but printable ASCII or a
 * brace in a header, an object where a scalar is needed.  Raises LG009 when the
 * body is over max_body bytes or the URL over 8 kB.  For an external tool it is
 * the service's base URL, and nothing else.
 *
 * Elsewhere a missing argument leaves out what it stands for: the variable in a
 * query, the header, the member or element of the body; within a text it is
 * empty.  An explicit null is undefined in a URL, null in JSON, and a field
 * without value in a form.
 */
extern AlRendered *al_render_request(const AlServiceDef *service, const AlToolDef *tool,
									 const AlIdempotency *idempotency,
									 const AlRenderContext *context, size_t max_body);

/*
 * Render the lookup of a tool, which must have a path: its GET with the headers
 * of service and tool and without a key.  Raises as above.
 */
extern AlRendered *al_render_lookup(const AlServiceDef *service, const AlToolDef *tool, const AlRenderContext *context);

/* The headers of a lookup alone, as lines. */
extern char *al_render_lookup_headers(const AlServiceDef *service, const AlToolDef *tool, const AlRenderContext *context);

/*
 * Check, when a tool is created, that every {placeholder} in a template names a
 * property of the input schema or one of ours, and that summary, target and
 * identity use no sensitive field.  Raises LG015.
 */
extern void al_render_check(const AlToolDef *tool);

/*
 * Check that the key's declared place exists in the tool's request and is not
 * also taken: no body field without a body, no argument or header of that name.
 * Raises LG015.  al_render_request() checks it too; this tells it when a tool is
 * created at a service, or a service altered, that declares such a place.
 */
extern void al_render_check_key(const AlToolDef *tool, const AlIdempotency *idempotency);

#endif							/* AL_RENDER_H */
