/*
 * mask.h
 *		Taking secrets out of what comes back.
 *
 * Pure C, libc only.  A destination may echo what it was sent: its page for
 * debugging tells the headers, its error quotes the token.  What is kept of an
 * answer must not have them.
 */
#ifndef AL_MASK_H
#define AL_MASK_H

#include <stddef.h>

/* Shorter ones are no secrets, and stand in answers by chance. */
#define AL_MASK_MIN 8

/*
 * Overwrite every occurrence of a secret in some bytes with as many asterisks,
 * also one whose end was cut off, down to AL_MASK_MIN bytes of it.  A secret of
 * less than AL_MASK_MIN bytes is left alone.
 */
extern void al_mask(void *bytes, size_t len, const char *secret, size_t secret_len);

#endif							/* AL_MASK_H */
