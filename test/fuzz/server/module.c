/*
 * module.c
 *		The SQL functions that lead to the fuzz target of this library.
 *
 * The library is the extension's own objects with the target in test/fuzz/server
 * and this file: nothing of it is installed.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "../fuzz.h"

/* fuzz_replay(input bytea): gives the target one input; the process ends when a claim does not hold. */
PG_FUNCTION_INFO_V1(fuzz_replay);
Datum
fuzz_replay(PG_FUNCTION_ARGS)
{
	bytea	   *input = PG_GETARG_BYTEA_PP(0);
	char	   *exact = fuzz_exact(VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input));

	(void) LLVMFuzzerTestOneInput((const uint8_t *) exact, VARSIZE_ANY_EXHDR(input));
	free(exact);
	PG_RETURN_VOID();
}

#ifdef AL_LIBFUZZER
extern int	LLVMFuzzerRunDriver(int *argc, char ***argv, int (*target) (const uint8_t *data, size_t size));

/* fuzz_search(arguments text): runs libFuzzer in this process, which does not come back. */
PG_FUNCTION_INFO_V1(fuzz_search);
Datum
fuzz_search(PG_FUNCTION_ARGS)
{
	static char *argv[64] = {"fuzz_search"};
	char	  **arguments = argv;
	int			argc = 1;

	for (char *word = strtok(text_to_cstring(PG_GETARG_TEXT_PP(0)), " "); word != NULL && argc < (int) lengthof(argv) - 1; word = strtok(NULL, " "))
		argv[argc++] = word;
	PG_RETURN_INT32(LLVMFuzzerRunDriver(&argc, &arguments, LLVMFuzzerTestOneInput));
}
#endif
