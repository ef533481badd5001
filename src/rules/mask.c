/*
 * mask.c
 *		Taking secrets out of what comes back.
 */
#include <string.h>

#include "mask.h"

/* Overwrites a secret wherever it stands, and its beginning at the end. */
void
al_mask(void *bytes, size_t len, const char *secret, size_t secret_len)
{
	char	   *at = bytes;
	char	   *end = at + len;
	char	   *found;

	if (secret_len < AL_MASK_MIN || len < AL_MASK_MIN)
		return;
	while ((found = memmem(at, (size_t) (end - at), secret, secret_len)) != NULL)
	{
		memset(found, '*', secret_len);
		at = found + secret_len;
	}
	for (size_t part = secret_len - 1; part >= AL_MASK_MIN; part--)
	{
		if ((size_t) (end - at) >= part && memcmp(end - part, secret, part) == 0)
		{
			memset(end - part, '*', part);
			return;
		}
	}
}
