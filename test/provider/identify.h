/*
 * identify.h
 *		What a request is about: mode, idempotency key, operation.
 */
#ifndef PROVIDER_IDENTIFY_H
#define PROVIDER_IDENTIFY_H

#include "http.h"

typedef enum Mode
{
	MODE_KEYED,
	MODE_UNKEYED,
	MODE_READ,
	MODE_LIST,					/* /refunds */
	MODE_ONE,					/* /refunds/ID */
	MODE_TRUTH,
	MODE_NONE
} Mode;

extern Mode identify_mode(const HttpRequest *request, Slice *rest);
extern Slice identify_key(const HttpRequest *request, Slice rest, Buf *store);
extern Slice identify_operation(const HttpRequest *request, Mode mode, Slice key, Buf *store);
extern void identify_hash(unsigned char *hash, const Slice *parts, int count);

#endif							/* PROVIDER_IDENTIFY_H */
