/*
 * fuzz.h
 *		What the fuzz targets share: reading their input, and claims.
 *
 * A target is a file with LLVMFuzzerTestOneInput() and nothing else that is not
 * static.  Its first bytes are choices (how to cut, which list, what time it
 * is), the rest is what a stranger sends.  A claim that does not hold ends the
 * program, with and without a sanitizer.
 */
#ifndef AL_TEST_FUZZ_H
#define AL_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input not yet read. */
typedef struct FuzzInput
{
	const uint8_t *at;
	size_t		left;
} FuzzInput;

#define claim(holds) ((holds) ? (void) 0 : fuzz_fail(#holds, __FILE__, __LINE__))

/* Say which claim does not hold, and end. */
static _Noreturn void __attribute__((unused))
fuzz_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

/* Take a byte; 0 when there is none left. */
static uint8_t __attribute__((unused))
fuzz_byte(FuzzInput *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->at++;
}

/* Take a number of eight bytes, the lowest first. */
static uint64_t __attribute__((unused))
fuzz_number(FuzzInput *in)
{
	uint64_t	number = 0;

	for (int i = 0; i < 8; i++)
		number |= (uint64_t) fuzz_byte(in) << (8 * i);
	return number;
}

/* Copy bytes to where a sanitizer sees any access beyond them; to be freed. */
static __attribute__((unused)) char *
fuzz_exact(const void *bytes, size_t len)
{
	char	   *copy = malloc(len > 0 ? len : 1);

	if (copy == NULL)
		abort();
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

#endif							/* AL_TEST_FUZZ_H */
