/*
 * validate.h
 *		Whether a proposal may become an action.
 */
#ifndef AL_VALIDATE_H
#define AL_VALIDATE_H

#include "postgres.h"
#include "utils/jsonb.h"

#include "errors.h"
#include "registry.h"

/*
 * Validate in the order of cost: missing, unknown, invalid arguments, then
 * permission.  Raises LG002, LG003, LG004 with all findings of the stage in
 * DETAIL and what to send instead in HINT, or LG005.
 */
extern void al_validate(const AlTool *tool, Jsonb *args, Oid requester);

/* Raise LG001 for a tool that is not there. */
extern AL_NORETURN void al_validate_no_tool(const char *name);

#endif							/* AL_VALIDATE_H */
