/*
 * backoff.h
 *		When to try again.
 *
 * Pure C, libc only.  Exponential with jitter: base * 2^(n-1), at most cap,
 * times a factor in [0.5, 1.5), so that many actions refused together do not
 * come back together.
 */
#ifndef AL_BACKOFF_H
#define AL_BACKOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_RETRY_AFTER_MIN_S 1
#define AL_RETRY_AFTER_MAX_S 3600

/*
 * Delay in milliseconds before try number failures + 1.
 *
 * failures: how many tries have ended so far, >= 1 (less counts as 1).
 * base_ms, cap_ms: > 0.  unit: a random number in [0, 1).
 * Never negative, never overflows, at most 1.5 * cap_ms.
 */
extern int64_t al_backoff_delay_ms(int failures, int64_t base_ms, int64_t cap_ms, double unit);

/*
 * Delay in milliseconds that a Retry-After of this many seconds asks for:
 * clamped to 1 s .. 1 h, then jittered upward by up to a quarter, never
 * earlier than told.  unit: a random number in [0, 1).
 */
extern int64_t al_retry_after_delay_ms(int64_t seconds, double unit);

/*
 * Read a Retry-After value (RFC 9110 section 10.2.3): delay-seconds, or an
 * HTTP-date in any of the three forms of section 5.6.7, against now_unix
 * (seconds since 1970 UTC).  A date in the past gives 0.  False, with *seconds
 * untouched, for anything else; the value is any bytes, not NUL-terminated.
 */
extern bool al_retry_after_parse(const char *value, size_t len, int64_t now_unix, int64_t *seconds);

#endif							/* AL_BACKOFF_H */
