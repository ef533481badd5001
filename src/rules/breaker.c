/*
 * breaker.c
 *		Circuit breaker and token bucket.
 */
#include "breaker.h"

/* Says how many of free requests may begin now. */
int
al_breaker_room(const AlBreaker *breaker, int64_t now_ms, int free)
{
	if (!breaker->open)
		return free;
	if (breaker->probing || now_ms < breaker->probe_at_ms)
		return 0;
	return free > 1 ? 1 : free;
}

/* Notes that a request begins; while open, it is the probe. */
void
al_breaker_begin(AlBreaker *breaker)
{
	if (breaker->open)
		breaker->probing = true;
}

/* Notes how a request has ended. */
bool
al_breaker_end(AlBreaker *breaker, int threshold, int64_t cooldown_ms, bool failed, int64_t now_ms)
{
	bool		was_open = breaker->open;

	if (!failed)
	{
		breaker->failures = 0;
		breaker->open = false;
		breaker->probing = false;
		return was_open;
	}
	if (breaker->failures < 1000000)
		breaker->failures++;
	if (breaker->open ? breaker->probing : breaker->failures >= threshold)
	{
		breaker->open = true;
		breaker->probing = false;
		breaker->probe_at_ms = now_ms + cooldown_ms;
	}
	return breaker->open != was_open;
}

/* Tells whether an attempt counts as a failure of the destination. */
bool
al_breaker_is_failure(const AlEvidence *evidence, bool *counts)
{
	*counts = true;
	if (evidence->prereqs > 0 && evidence->head_complete)
		return evidence->status >= 500;
	switch (evidence->ending)
	{
		case AL_END_RESOLVE:
		case AL_END_CONNECT:
		case AL_END_TLS:
		case AL_END_PROXY:
		case AL_END_TIMEOUT:
		case AL_END_SEND:
		case AL_END_RECEIVE:
		case AL_END_PARTIAL:
		case AL_END_GARBLED:
		case AL_END_RESEND_BLOCKED:
			return true;
		case AL_END_OK:
		case AL_END_CAPPED:
		case AL_END_ABORTED:
		case AL_END_BAD_REQUEST:
		case AL_END_BAD_TRUST:
		case AL_END_ADDRESS_REFUSED:
		case AL_END_LOCAL:
		case AL_END_GATE_CLOSED:
		case AL_END_WORKER_LOST:
			break;
	}
	*counts = false;
	return false;
}

/* Fills the bucket up to now, and says how many of free requests may begin. */
int
al_bucket_room(AlBucket *bucket, double rate, int64_t now_ms, int free)
{
	double		most = rate > 1 ? rate : 1;

	if (rate <= 0)
		return free;
	if (bucket->filled_ms == 0)
		bucket->tokens = most;
	else if (now_ms > bucket->filled_ms)
		bucket->tokens += rate * (double) (now_ms - bucket->filled_ms) / 1000;
	if (bucket->tokens > most)
		bucket->tokens = most;
	bucket->filled_ms = now_ms;
	return bucket->tokens >= free ? free : (int) bucket->tokens;
}

/* Takes what has begun out of the bucket. */
void
al_bucket_take(AlBucket *bucket, double rate, int n)
{
	if (rate > 0)
		bucket->tokens -= n;
}

/* Says how long until one more may begin. */
int64_t
al_bucket_wait_ms(const AlBucket *bucket, double rate)
{
	if (rate <= 0 || bucket->tokens >= 1)
		return 0;
	return (int64_t) ((1 - bucket->tokens) / rate * 1000) + 1;
}
