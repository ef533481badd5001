/*
 * test_fault.c
 *		Plans of faults, and the journal: in the mode "error", which only returns true.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/fault.h"
#include "tap.h"

static char path[] = "/tmp/actionledger_fault_XXXXXX";

/* Tells which of the first eight times of a point fire, as a string of 0 and 1. */
static const char *
times(const char *plan, const char *point)
{
	static char found[9];

	al_fault_plan(plan);
	for (int i = 0; i < 8; i++)
		found[i] = al_fault_reached(point) ? '1' : '0';
	return found;
}

/* Counts the lines of the journal that contain a text. */
static int
lines_with(const char *text)
{
	char		line[1024];
	int			n = 0;
	FILE	   *file = fopen(path, "r");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		n += strstr(line, text) != NULL;
	if (file != NULL)
		fclose(file);
	return n;
}

int
main(void)
{
	is_str(times("a:error", "a"), "10000000", "the first time by default");
	is_str(times("a:error:3", "a"), "00100000", "the nth time, once");
	is_str(times("a:error:2,a:error:5", "a"), "01001000", "several entries");
	is_str(times("a:error:2:label", "a"), "01000000", "a label changes nothing");
	is_str(times("a:error", "b"), "00000000", "another point");
	is_str(times("", "a"), "00000000", "no plan");
	is_str(times(NULL, "a"), "00000000", "no plan at all");
	is_str(times("a", "a"), "00000000", "no mode");
	is_str(times("a:explode", "a"), "00000000", "an unknown mode");
	is_str(times("a:error:0", "a"), "00000000", "a count of nothing");
	is_str(times("a:error:x", "a"), "00000000", "a count that is none");
	is_str(times("a:error::label", "a"), "00000000", "an empty count");
	is_str(times("a:explode,a:error", "a"), "10000000", "what is not understood leaves the others");

	ok(mkstemp(path) >= 0, "there is a journal");
	al_fault_journal(path);
	is_str(times("a:error:2:one", "a"), "01000000", "with a journal: fires");
	ok(lines_with("fired ") == 1 && lines_with(" a:error:2:one\n") == 2, "and it is written who was armed and what fired");
	is_str(times("a:error:2:one", "a"), "00000000", "the same entry does not fire again when armed anew");
	is_str(times("a:error:2:two", "a"), "01000000", "one with another label does");
	is_str(times("a:error:2:on", "a"), "01000000", "a beginning of one that has fired is another one");
	unlink(path);
	is_str(times("a:error:2:one", "a"), "01000000", "without its journal an entry fires again");
	unlink(path);
	return done_testing();
}
