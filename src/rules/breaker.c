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
	if (breaker->probing != 0 || now_ms < breaker->probe_at_ms)
		return 0;
	return free > 1 ? 1 : free;
}

/* Notes that a request begins; while open, it is the probe. */
int64_t
al_breaker_begin(AlBreaker *breaker)
{
	if (!breaker->open)
		return 0;
	return breaker->probing = ++breaker->probes;
}

/* Notes how a request has ended. */
bool
al_breaker_end(AlBreaker *breaker, int threshold, int64_t cooldown_ms, AlBreakerSign sign, int64_t probe, int64_t now_ms)
{
	bool		was_open = breaker->open;
	bool		is_probe = was_open && probe != 0 && probe == breaker->probing;

	switch (sign)
	{
		case AL_SIGN_NONE:
			/* The question is still open, for another probe. */
			if (is_probe)
				breaker->probing = 0;
			break;
		case AL_SIGN_ALIVE:
			breaker->failures = 0;
			breaker->open = false;
			breaker->probing = 0;
			break;
		case AL_SIGN_FAILING:
			if (breaker->failures < 1000000)
				breaker->failures++;
			if (was_open ? is_probe : breaker->failures >= threshold)
			{
				breaker->open = true;
				breaker->probing = 0;
				breaker->probe_at_ms = now_ms + cooldown_ms;
			}
			break;
	}
	return breaker->open != was_open;
}

/* Reads what an attempt says of the destination. */
AlBreakerSign
al_breaker_read(const AlEvidence *evidence)
{
	if (evidence->prereqs > 0 && evidence->head_complete)
		return evidence->status >= 500 ? AL_SIGN_FAILING : AL_SIGN_ALIVE;
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
			return AL_SIGN_FAILING;
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
	return AL_SIGN_NONE;
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
