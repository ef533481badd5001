/*
 * flight.c
 *		A request under way: its memory, the headers it is sent with, and those of its answer that are kept.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "utils/memutils.h"

#include "flight.h"
#include "secrets.h"

/* Names of the answer's headers that are kept. */
static const char *const kept_headers[] = {
	"location", "retry-after", "request-id", "x-request-id", NULL
};

static char *keep_rules(AlFlight *flight, char *at, const List *rules);
static char *keep_header(AlFlight *flight, char *at, const char *name);
static char *trace_parent(const pg_uuid_t *namespace_id, int64 action_id);

/* Makes the memory of a request under way, which outlives the turn. */
AlFlight *
al_flight_create(AlLane *lane, const AlTool *tool, bool lookup)
{
	AlFlight   *flight = MemoryContextAllocZero(TopMemoryContext, sizeof(AlFlight));
	const AlLookupDef *def = tool->def->lookup;
	char	   *end = flight->names;

	flight->lane = lane;
	for (int n = 0; kept_headers[n] != NULL; n++)
		flight->keep[n] = kept_headers[n];
	if (!lookup)
	{
		if (tool->idempotency->replay_header != NULL)
			end = keep_header(flight, end, tool->idempotency->replay_header);
		(void) keep_rules(flight, end, tool->def->outcome);
		return flight;
	}
	end = keep_header(flight, end, "link");
	if (def->absent != NULL && def->absent->header != NULL)
		end = keep_header(flight, end, def->absent->header);
	(void) keep_rules(flight, end, def->has_outcome ? def->outcome : tool->def->outcome);
	return flight;
}

/* Adds the headers that rules name. */
static char *
keep_rules(AlFlight *flight, char *at, const List *rules)
{
	ListCell   *cell;

	foreach(cell, rules)
	{
		AlRule	   *rule = lfirst(cell);

		if (rule->header != NULL)
			at = keep_header(flight, at, rule->header);
	}
	return at;
}

/* Adds a header's name to those that are kept; returns where the next one goes. */
static char *
keep_header(AlFlight *flight, char *at, const char *name)
{
	size_t		len = strlen(name);
	int			n = 0;

	for (; flight->keep[n] != NULL; n++)
	{
		if (pg_strcasecmp(flight->keep[n], name) == 0)
			return at;
	}
	if (n + 1 >= lengthof(flight->keep) || at + len + 1 > flight->names + sizeof(flight->names))
		return at;
	for (size_t i = 0; i <= len; i++)
		at[i] = pg_tolower((unsigned char) name[i]);
	flight->keep[n] = at;
	return at + len + 1;
}

/*
 * Lists the header lines of a request: the frozen ones with their secrets, and
 * ours.  False, with the name in *missing, when a secret cannot be had.
 */
bool
al_flight_headers(const pg_uuid_t *namespace_id, const char *ledger, const AlStanding *standing,
				  const char *frozen, AlHeaderLines *headers, char **missing)
{
	char	   *rest = pstrdup(frozen);
	char	   *line;

	*headers = (AlHeaderLines) {NIL, NIL};
	while ((line = strsep(&rest, "\n")) != NULL)
	{
		char	   *resolved;

		if (line[0] == '\0')
			continue;
		resolved = al_secrets_resolve(line, &headers->held, missing);
		if (resolved == NULL)
		{
			al_flight_forget_headers(headers);
			return false;
		}
		headers->lines = lappend(headers->lines, resolved);
	}
	headers->lines = lappend(headers->lines, psprintf("Actionledger-Action: %s/" INT64_FORMAT, ledger, standing->action_id));
	headers->lines = lappend(headers->lines, psprintf("Actionledger-Attempt: %d", standing->attempts + 1));
	headers->lines = lappend(headers->lines, trace_parent(namespace_id, standing->action_id));
	return true;
}

/* Overwrites and frees header lines and the secrets in them. */
void
al_flight_forget_headers(AlHeaderLines *headers)
{
	ListCell   *cell;

	foreach(cell, headers->lines)
		al_secrets_forget(lfirst(cell));
	foreach(cell, headers->held)
		al_secrets_forget(lfirst(cell));
	*headers = (AlHeaderLines) {NIL, NIL};
}

/* Makes a W3C traceparent: one trace per action, one span per attempt. */
static char *
trace_parent(const pg_uuid_t *namespace_id, int64 action_id)
{
	uint64		trace;

	memcpy(&trace, namespace_id->data, sizeof(trace));
	return psprintf("traceparent: 00-%016llx%016llx-%016llx-01", (unsigned long long) trace,
					(unsigned long long) action_id,
					(unsigned long long) (pg_prng_uint64(&pg_global_prng_state) | 1));
}
