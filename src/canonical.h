/*
 * canonical.h
 *		Canonical JSON, its hash, and the names made from it.
 */
#ifndef AL_CANONICAL_H
#define AL_CANONICAL_H

#include "postgres.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"
#include "utils/uuid.h"

#define AL_HASH_LEN 32			/* SHA-256 */

/*
 * Append the canonical text of a JSON value (RFC 8785: members ordered by
 * UTF-16 code units, shortest number form, minimal escapes, no white space).
 * Always UTF-8 bytes, whatever the server encoding.  One deliberate departure:
 * a number that is not the shortest text of an IEEE double is written as its
 * exact decimal without trailing zeros, because money is never rounded (with an
 * exponent only beyond 310 places).
 */
extern void al_canonical_append(StringInfo out, Jsonb *value);

/* The same for a value in hand; containers as jbvBinary, as an iterator that skips gives them. */
extern void al_canonical_append_value(StringInfo out, const JsonbValue *value);

/* SHA-256 over the canonical text of a value; out has AL_HASH_LEN bytes. */
extern void al_canonical_hash(Jsonb *value, uint8 *out);

/* SHA-256 over any bytes. */
extern void al_sha256(const void *data, size_t len, uint8 *out);

/* UUIDv5 (RFC 9562 section 5.5) of a name's bytes in a namespace. */
extern void al_uuid5(const pg_uuid_t *namespace_id, const char *name, size_t len, pg_uuid_t *out);

/* Text of the server encoding in UTF-8; not NUL-terminated unless text is, and may be text itself. */
extern const char *al_utf8(const char *text, int len, int *utf8_len);

/* A palloc'ed lower-case hex string of len bytes. */
extern char *al_hex(const uint8 *data, size_t len);

#endif							/* AL_CANONICAL_H */
