/*
 * truth.h
 *		The provider's own record of what it received, did and answered.
 *
 * Lines are gathered during a turn of the event loop and are in the file, and
 * on disk where they tell of an effect, before the turn's bytes leave.
 */
#ifndef PROVIDER_TRUTH_H
#define PROVIDER_TRUTH_H

#include "buf.h"

typedef enum TruthEvent
{
	TRUTH_RECEIVED,
	TRUTH_EXECUTED,
	TRUTH_REPLAYED,
	TRUTH_ANSWERED,
	TRUTH_CLOSED
} TruthEvent;

/* What GET /truth tells; lookups and GET /truth itself count only in their own field or not at all. */
typedef struct TruthCounts
{
	uint64_t	received;
	uint64_t	executed;
	uint64_t	replayed;
	uint64_t	operations;
	uint64_t	max_executed;
	uint64_t	lookups;
	uint64_t	connections;
	uint64_t	open_connections;
} TruthCounts;

extern TruthCounts Truth;

extern bool truth_open(const char *path, bool sync);
extern bool truth_is_released(int64_t number);
extern void truth_write(TruthEvent event, uint64_t conn, uint32_t req, Slice middle, int status,
						const char *why);
extern void truth_flush(void);
extern int64_t wall_us(void);
extern int64_t mono_us(void);

#endif							/* PROVIDER_TRUTH_H */
