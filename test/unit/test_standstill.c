/*
 * test_standstill.c
 *		What is held is counted once, and only while it was due; against a model
 *		that looks at every instant.
 */
#include <stdlib.h>

#include "rules/standstill.h"

#include "tap.h"

#define NEVER INT64_MAX

static void check_examples(void);
static void check_model(void);

int
main(void)
{
	check_examples();
	check_model();
	return done_testing();
}

/* Pauses as an operator makes them. */
static void
check_examples(void)
{
	const AlSpan all = {0, 0, false, 100, 200};
	const AlSpan open = {7, 0, true, 150, NEVER};
	const AlSpan tool = {7, 3, false, 120, 160};
	const AlSpan both[] = {{0, 0, false, 100, 200}, {7, 3, false, 120, 160}, {7, 0, true, 150, NEVER}};

	ok(al_standstill_us(NULL, 0, 7, 3, false, 0, 0, 50, 300) == 0, "without pauses nothing is held");
	ok(al_standstill_us(&all, 1, 7, 3, false, 0, 0, 50, 300) == 100, "a pause of all holds every tool");
	ok(al_standstill_us(&all, 1, 7, 3, false, 0, 0, 150, 300) == 50, "only what was due");
	ok(al_standstill_us(&all, 1, 7, 3, false, 0, 0, 200, 300) == 0, "due when it ended: nothing");
	ok(al_standstill_us(&all, 1, 7, 3, true, 0, 0, 50, 300) == 0, "a pause of writes holds no reads");
	ok(al_standstill_us(&open, 1, 7, 3, true, 0, 0, 50, 300) == 150, "a pause of everything holds reads, until now while it goes on");
	ok(al_standstill_us(&open, 1, 8, 3, true, 0, 0, 50, 300) == 0, "another service is not held");
	ok(al_standstill_us(&tool, 1, 7, 3, false, 0, 0, 50, 300) == 40, "a pause of a tool");
	ok(al_standstill_us(&tool, 1, 7, 4, false, 0, 0, 50, 300) == 0, "does not hold its neighbour");
	ok(al_standstill_us(both, 3, 7, 3, false, 0, 0, 50, 300) == 200, "what overlaps counts once");
	ok(al_standstill_us(&all, 1, 7, 3, false, 20, 150, 50, 300) == 150, "a breaker that was open before the pause, too");
	ok(al_standstill_us(&all, 1, 7, 3, false, 210, NEVER, 50, 300) == 190, "and one that opened after it");
	ok(al_standstill_us(NULL, 0, 7, 3, false, 40, NEVER, 50, 300) == 250, "or a breaker alone");
	ok(al_standstill_us(both, 3, 7, 3, false, 0, 0, 300, 200) == 0, "a clock that was set back holds nothing");
}

/* Random spans against a count of instants. */
static void
check_model(void)
{
	int			wrong = 0;
	int64_t		held = 0;

	srand(20261130);
	for (int round = 0; round < 20000; round++)
	{
		AlSpan		spans[6];
		int			n = rand() % 7;
		int64_t		from = 0;
		int64_t		since = rand() % 40;
		int64_t		now = rand() % 60;
		int64_t		more_from = rand() % 3 == 0 ? 0 : 1 + rand() % 50;
		int64_t		more_until = rand() % 3 == 0 ? NEVER : more_from + rand() % 20;
		bool		read_only = rand() % 2;
		int64_t		expected = 0;

		for (int i = 0; i < n; i++)
		{
			from += rand() % 12;
			spans[i] = (AlSpan) {rand() % 3, 0, rand() % 2, from, rand() % 4 == 0 ? NEVER : from + rand() % 15};
			spans[i].tool_id = spans[i].service_id == 1 ? rand() % 3 : 0;
		}
		for (int64_t t = since; t < now; t++)
		{
			bool		still = more_from != 0 && more_from <= t && t < more_until;

			for (int i = 0; i < n; i++)
				still = still || ((!read_only || spans[i].reads) && spans[i].service_id != 2 && spans[i].tool_id != 2 &&
								  spans[i].from <= t && t < spans[i].until);
			expected += still;
		}
		held += expected;
		wrong += al_standstill_us(spans, n, 1, 1, read_only, more_from, more_until, since, now) != expected;
	}
	ok(held > 10000, "the model has held much");
	ok(wrong == 0, "and 20000 random histories agree with it");
}
