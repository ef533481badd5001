/*
 * define.h
 *		Making and finding tools from C.
 */
#ifndef AL_DEFINE_H
#define AL_DEFINE_H

#include "postgres.h"
#include "fmgr.h"
#include "utils/jsonb.h"

/* create_tool(): the same checks and the same answer.  Raises LG015, or 42710 for a name that is there. */
extern char *al_define_tool(const char *name, const char *service, const char *request, const char *type,
							const char *identity, Jsonb *input, Jsonb *options, bool replace);

/* An argument of a function, which has this name; raises LG015 for null. */
extern Datum al_define_argument(FunctionCallInfo fcinfo, int number, const char *name);

/* Lock the row of a tool, and leave it as the result row; its number.  Raises LG001.  Needs an AlSession. */
extern int32 al_define_find_tool(const char *name);

#endif							/* AL_DEFINE_H */
