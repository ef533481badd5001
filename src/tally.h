/*
 * tally.h
 *		How many proposals were refused, by tool and code: in shared memory, since
 *		a refused perform() leaves nothing behind in a table.
 */
#ifndef AL_TALLY_H
#define AL_TALLY_H

#include "postgres.h"

#define AL_TALLY_NO_TOOL 0		/* a name that no tool has */

/* Ask for shared memory; only while shared_preload_libraries is processed. */
extern void al_tally_request(void);

/*
 * Count a refusal in this database.  The table is bounded: when it is full, a
 * pair of tool and code that is not in it yet is counted with the others.
 */
extern void al_tally_refusal(int32 tool_id, int sqlstate);

#endif							/* AL_TALLY_H */
