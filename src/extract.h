/*
 * extract.h
 *		Reading an answer's body by jsonpath, whatever its bytes are.
 */
#ifndef AL_EXTRACT_H
#define AL_EXTRACT_H

#include "postgres.h"

#include "registry.h"

#define AL_EXTERNAL_REF_MAX 255 /* bytes kept of a reference */

/*
 * Read the tool's external_ref (text) and, where result is not NULL, its result
 * (a jsonb Datum) out of a body.  Leaves them as they are when the tool has no such path, the body is no
 * JSON that this database can hold, or nothing is found.  Never raises: runs in
 * a subtransaction of its own.
 */
extern void al_extract(const AlTool *tool, const unsigned char *body, size_t len,
					   char **external_ref, Datum *result);

#endif							/* AL_EXTRACT_H */
