/*
 * standstill.c
 *		The union of pauses and an open breaker, cut to the time that an action
 *		was due.
 */
#include "standstill.h"

static bool concerns(const AlSpan *span, int32_t service_id, int32_t tool_id, bool read_only);
static int64_t uncovered(int64_t *covered_to, int64_t from, int64_t until, int64_t now);

/* Adds up how long an action was held. */
int64_t
al_standstill_us(const AlSpan *spans, int n, int32_t service_id, int32_t tool_id, bool read_only,
				 int64_t more_from, int64_t more_until, int64_t since, int64_t now)
{
	int64_t		covered_to = since;
	int64_t		held = 0;
	bool		more = more_from != 0;

	for (int i = 0; i < n; i++)
	{
		if (!concerns(&spans[i], service_id, tool_id, read_only))
			continue;
		if (more && more_from <= spans[i].from)
		{
			held += uncovered(&covered_to, more_from, more_until, now);
			more = false;
		}
		held += uncovered(&covered_to, spans[i].from, spans[i].until, now);
	}
	if (more)
		held += uncovered(&covered_to, more_from, more_until, now);
	return held;
}

/* Tells whether a span keeps a tool's sends. */
static bool
concerns(const AlSpan *span, int32_t service_id, int32_t tool_id, bool read_only)
{
	if (read_only && !span->reads)
		return false;
	return (span->service_id == 0 || span->service_id == service_id) &&
		(span->tool_id == 0 || span->tool_id == tool_id);
}

/* Gives what a span adds to the time that is covered already, and moves its end. */
static int64_t
uncovered(int64_t *covered_to, int64_t from, int64_t until, int64_t now)
{
	int64_t		begin = from > *covered_to ? from : *covered_to;
	int64_t		end = until < now ? until : now;

	if (end <= begin)
		return 0;
	*covered_to = end;
	return end - begin;
}
