/*
 * define.h
 *		Making a tool from C, for functions that make several.
 */
#ifndef AL_DEFINE_H
#define AL_DEFINE_H

#include "postgres.h"
#include "utils/jsonb.h"

/* create_tool(): the same checks and the same answer.  Raises LG015, or 42710 for a name that is there. */
extern char *al_define_tool(const char *name, const char *service, const char *request, const char *type,
							const char *identity, Jsonb *input, Jsonb *options, bool replace);

#endif							/* AL_DEFINE_H */
