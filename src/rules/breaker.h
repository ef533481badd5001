/*
 * breaker.h
 *		A circuit breaker: leave a failing destination alone for a while.
 *
 * Pure C, libc only.  Closed until so many failures in a row; then open for the
 * cooldown, then half open: one probe, whose end closes or opens it again.
 * Times are monotonic milliseconds of the caller's.
 */
#ifndef AL_BREAKER_H
#define AL_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "classify.h"

typedef struct AlBreaker
{
	int			failures;		/* in a row */
	bool		open;
	int64_t		probing;		/* open: number of the probe that is under way; 0: none */
	int64_t		probes;			/* so far */
	int64_t		probe_at_ms;	/* open: when the next probe may go */
} AlBreaker;

/* What the end of a request says of the destination. */
typedef enum AlBreakerSign
{
	AL_SIGN_NONE,				/* nothing */
	AL_SIGN_ALIVE,
	AL_SIGN_FAILING
} AlBreakerSign;

/* How many of free requests may begin now. */
extern int	al_breaker_room(const AlBreaker *breaker, int64_t now_ms, int free);

/* A request begins.  Gives the number of the probe that it is, 0 for none. */
extern int64_t al_breaker_begin(AlBreaker *breaker);

/*
 * A request has ended, with the number that it began with.  True when that
 * opened or closed the breaker.  While open, only the end of the probe opens it
 * anew; a sign of life closes it whoever brings it.
 */
extern bool al_breaker_end(AlBreaker *breaker, int threshold, int64_t cooldown_ms, AlBreakerSign sign,
						   int64_t probe, int64_t now_ms);

/*
 * What an attempt says: failing for no connection, no answer, or a 5xx status;
 * nothing where it went wrong on our side; else, refusals (4xx) included, alive.
 */
extern AlBreakerSign al_breaker_read(const AlEvidence *evidence);

/* Requests a second, at most: a bucket that holds the tokens of one second, at least one. */
typedef struct AlBucket
{
	double		tokens;
	int64_t		filled_ms;		/* 0: never */
} AlBucket;

/* Fill up to now, and say how many of free requests may begin; rate <= 0 is no limit. */
extern int	al_bucket_room(AlBucket *bucket, double rate, int64_t now_ms, int free);

/* n requests have begun. */
extern void al_bucket_take(AlBucket *bucket, double rate, int n);

/* Milliseconds until one more may begin; 0: now. */
extern int64_t al_bucket_wait_ms(const AlBucket *bucket, double rate);

#endif							/* AL_BREAKER_H */
