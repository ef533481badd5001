/*
 * perform.h
 *		The way of a proposal, which perform and try_perform share.
 */
#ifndef AL_PERFORM_H
#define AL_PERFORM_H

#include "postgres.h"
#include "fmgr.h"

#include "prepare.h"
#include "refusal.h"

/* Take the arguments of perform(): tool, args, identity, run_id, step, options; and who calls. */
extern AlProposal *al_perform_arguments(FunctionCallInfo fcinfo);

/*
 * Validate a proposal and record it, or find the action that stands for it.
 * Returns NULL, or why it was refused; refusals that come up while the action is
 * written (LG007, LG008, LG009, LG019, …) are raised.  Both are counted.
 */
extern AlRefusal *al_perform_counted(AlProposal *proposal, AlPrepared *prepared);

/* Warn when the action that stands for a repeated request did not happen. */
extern void al_perform_warn_of_repeat(const AlPrepared *prepared);

/* Warn, once per session, when what has been recorded will not be sent. */
extern void al_perform_warn(const AlTool *tool);

#endif							/* AL_PERFORM_H */
