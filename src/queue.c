/*
 * queue.c
 *		How many actions of a service may wait at once.
 *
 * The count reads the index of what is due up to the limit and no further, and
 * only what will be sent by itself, or when a pause is lifted: an action that
 * waits for a person to decide about it takes nobody's place.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "clock.h"
#include "errors.h"
#include "queue.h"
#include "session.h"

/* Actions of dispatchers and of outside executors have indexes of their own. */
#define COUNT_OF(which) \
	"(SELECT pg_catalog.count(*) FROM pg_catalog.unnest('{1,0,-1}'::pg_catalog.int2[]) p(priority), LATERAL (" \
	"SELECT FROM actionledger.due d WHERE " which " AND d.service_id OPERATOR(pg_catalog.=) $1 AND d.priority OPERATOR(pg_catalog.=) p.priority " \
	"AND d.next_at OPERATOR(pg_catalog.<) 'infinity'::pg_catalog.timestamptz ORDER BY d.next_at, d.action_id LIMIT $2) q)"

static AlStatement count_queued = {
	"SELECT " COUNT_OF("NOT d.external") " OPERATOR(pg_catalog.+) " COUNT_OF("d.external") " OPERATOR(pg_catalog.+) "
	"(SELECT pg_catalog.count(*) FROM (SELECT FROM actionledger.due d WHERE d.held_at IS NOT NULL AND d.service_id OPERATOR(pg_catalog.=) $1 LIMIT $2) h)",
	2, {INT4OID, INT8OID}
};

/* A count of so many rows is worth keeping for a while. */
#define LONG_QUEUE 1000

/* And for so many times as long as it took: a tenth of the time goes into counting. */
#define WORTH 10

/* So much of the room that was found may be taken before the next count. */
#define SHARE 32

/* What was found last. */
static struct
{
	int32		service_id;
	int			limit;
	int64		until;			/* for how long it holds, in elapsed time */
	int64		room;			/* places that may be taken without another count */
	bool		full;
}			found;

static void count_room(int32 service_id, int limit);

/* Takes a place, counting when it has to. */
bool
al_queue_take(const AlService *service)
{
	if (service->def->queued == 0)
		return true;
	if (found.service_id != service->service_id || found.limit != service->def->queued ||
		al_clock_elapsed() >= found.until || (found.room == 0 && !found.full))
		count_room(service->service_id, service->def->queued);
	if (found.room > 0)
		found.room--;
	return !found.full;
}

/* Counts, up to the limit. */
static void
count_room(int32 service_id, int limit)
{
	Datum		values[2] = {Int32GetDatum(service_id), Int64GetDatum(limit)};
	int64		before = al_clock_elapsed();
	int64		after;
	int64		queued;

	(void) al_statement_run(&count_queued, values, NULL);
	queued = al_column_int8(0, 1);
	after = al_clock_elapsed();
	found.service_id = service_id;
	found.limit = limit;
	found.full = queued >= limit;
	found.room = queued >= limit ? 0 : (limit - queued) / SHARE;
	found.until = queued >= LONG_QUEUE ? after + WORTH * (after - before) : before;
}

/* Raises for a queue that is full. */
void
al_queue_refuse(const AlService *service)
{
	ereport(ERROR,
			(errcode(AL_ERR_QUOTA_EXCEEDED),
			 errmsg("the queue of service \"%s\" is full", service->name),
			 errdetail("At least %d actions wait to be sent or to be sent again there, which is its limit (limits.queued). Nothing was recorded.",
					   service->def->queued),
			 errhint("Propose it again when some have been sent; the views actionledger.pending and actionledger.breakers show what they wait for.")));
	pg_unreachable();
}
