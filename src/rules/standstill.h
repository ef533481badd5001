/*
 * standstill.h
 *		For how long something kept an action from being sent.
 *
 * Pure C, libc only.  Times and durations are microseconds of one clock.
 */
#ifndef AL_STANDSTILL_H
#define AL_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

/* A time in which sends stood still, of one tool, of one service, or of all. */
typedef struct AlSpan
{
	int32_t		service_id;		/* 0: any */
	int32_t		tool_id;		/* 0: any of the service */
	bool		reads;			/* read_only tools too */
	int64_t		from;
	int64_t		until;			/* INT64_MAX: it goes on */
} AlSpan;

/*
 * How long [since, now] was covered by any of the spans that concern a tool, or
 * by [more_from, more_until] (more_from 0: none).  Spans are ordered by from;
 * where they overlap, the time counts once.
 */
extern int64_t al_standstill_us(const AlSpan *spans, int n, int32_t service_id, int32_t tool_id, bool read_only,
								int64_t more_from, int64_t more_until, int64_t since, int64_t now);

#endif							/* AL_STANDSTILL_H */
