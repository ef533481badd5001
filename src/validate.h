/*
 * validate.h
 *		Whether a proposal may become an action.
 */
#ifndef AL_VALIDATE_H
#define AL_VALIDATE_H

#include "postgres.h"
#include "utils/jsonb.h"

#include "refusal.h"
#include "registry.h"

/*
 * Validate in the order of cost: missing, unknown, invalid arguments and options
 * (the findings of al_prepare_options()), then permission.  Returns NULL, or
 * LG002, LG003, LG004 with all findings of the stage, or LG005.
 */
extern AlRefusal *al_validate(const AlTool *tool, Jsonb *args, List *options, Oid requester);

/* LG001 for a tool that is not there.  Needs an AlSession. */
extern AlRefusal *al_validate_no_tool(const char *name, Oid role);

/* LG004 for options alone. */
extern AlRefusal *al_validate_options(List *findings);

#endif							/* AL_VALIDATE_H */
