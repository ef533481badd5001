/*
 * queue.c
 *		How many actions of a service may wait at once.
 *
 * The count reads the index of what is due up to the limit and no further, and
 * only what will be sent by itself, or when a pause is lifted: an action that
 * waits for a person to decide about it takes nobody's place.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"

#include "errors.h"
#include "queue.h"
#include "session.h"

static AlStatement count_queued = {
	"SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.unnest('{1,0,-1}'::pg_catalog.int2[]) p(priority), LATERAL ("
	"SELECT FROM actionledger.due d WHERE d.service_id OPERATOR(pg_catalog.=) $1 AND d.priority OPERATOR(pg_catalog.=) p.priority "
	"AND d.next_at OPERATOR(pg_catalog.<) 'infinity'::pg_catalog.timestamptz ORDER BY d.next_at, d.action_id LIMIT $2) q) OPERATOR(pg_catalog.+) "
	"(SELECT pg_catalog.count(*) FROM (SELECT FROM actionledger.due d WHERE d.held_at IS NOT NULL AND d.service_id OPERATOR(pg_catalog.=) $1 LIMIT $2) h)",
	2, {INT4OID, INT8OID}
};

/* The room that was found last, and in which statement. */
static struct
{
	TimestampTz statement;
	int32		service_id;
	int64		room;
}			found;

/* Takes a place, counting when it has to. */
bool
al_queue_take(const AlService *service)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	int64		limit = service->def->queued;

	if (limit == 0)
		return true;
	if (found.statement != statement || found.service_id != service->service_id || found.room <= 0)
	{
		Datum		values[2] = {Int32GetDatum(service->service_id), Int64GetDatum(limit)};

		(void) al_statement_run(&count_queued, values, NULL);
		found.statement = statement;
		found.service_id = service->service_id;
		found.room = limit - al_column_int8(0, 1);
	}
	return found.room-- > 0;
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
