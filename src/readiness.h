/*
 * readiness.h
 *		What a tool has that keeps an unknown outcome from staying unknown.
 */
#ifndef AL_READINESS_H
#define AL_READINESS_H

#include "postgres.h"

#include "registry.h"

/*
 * What a consequential tool lacks, in words: "no lookup, no owner"; NULL when
 * nothing, and for a tool that is not consequential.  palloc'ed.
 */
extern char *al_readiness_missing(const AlTool *tool);

/* The same, and NULL too where the tool's approval policy does not leave it to that. */
extern char *al_readiness_gate(const AlTool *tool);

#endif							/* AL_READINESS_H */
