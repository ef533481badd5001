/*
 * replay.c
 *		The kept inputs of every fuzz target, without a fuzzer.
 *
 * Compiled with any compiler together with the targets, whose entry points the
 * build renames and lists in FUZZ_TARGETS.  Run in the top folder: one TAP line
 * for each target, from the files in test/fuzz/corpus/TARGET, each in a process
 * of its own because a claim that does not hold ends it.
 */
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "../unit/tap.h"

#define CORPUS "test/fuzz/corpus"
#define MAX_FILE 65536
#define LIMIT 60				/* seconds for one input */

#define TARGET(name) extern int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS
#undef TARGET

typedef struct Target
{
	const char *name;
	int			(*run) (const uint8_t *data, size_t size);
} Target;

#define TARGET(name) {#name, fuzz_##name},
static const Target targets[] = {FUZZ_TARGETS};
#undef TARGET

static void replay(const Target *target);
static bool replay_file(const Target *target, const char *path);
static int	run_file(const Target *target, const char *path);

int
main(void)
{
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		replay(&targets[i]);
	return done_testing();
}

/* Give a target all its inputs; without any, that is a failure. */
static void
replay(const Target *target)
{
	char		folder[256];
	char		path[1024];
	DIR		   *dir;
	struct dirent *entry;

	snprintf(folder, sizeof(folder), CORPUS "/%s", target->name);
	tap_group(target->name);
	dir = opendir(folder);
	if (dir == NULL)
		diag("could not open %s", folder);
	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		tap_cell(replay_file(target, path), "%s", path);
	}
	if (dir != NULL)
		closedir(dir);
	tap_group_end();
}

/* Give a target one input in a process of its own; whether that ends well. */
static bool
replay_file(const Target *target, const char *path)
{
	int			status = -1;
	pid_t		pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		dup2(STDOUT_FILENO, STDERR_FILENO);
		alarm(LIMIT);
		_exit(run_file(target, path));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Give a target one input. */
static int
run_file(const Target *target, const char *path)
{
	static uint8_t buffer[MAX_FILE];
	FILE	   *file = fopen(path, "rb");
	size_t		size;
	char	   *exact;
	int			result;

	if (file == NULL)
		return 1;
	size = fread(buffer, 1, sizeof(buffer), file);
	if (ferror(file) || fgetc(file) != EOF)
		return 1;
	fclose(file);
	exact = fuzz_exact(buffer, size);
	result = target->run((const uint8_t *) exact, size);
	free(exact);
	return result;
}
