/*
 * fields.h
 *		Single values out of query strings, form bodies and JSON bodies.
 */
#ifndef PROVIDER_FIELDS_H
#define PROVIDER_FIELDS_H

#include "buf.h"

extern bool query_get(Slice query, const char *name, Buf *value);
extern int64_t query_get_int(Slice query, const char *name, int64_t absent);
extern bool body_get(Slice body, const char *name, Buf *value);

#endif							/* PROVIDER_FIELDS_H */
