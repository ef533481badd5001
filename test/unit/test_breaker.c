/*
 * test_breaker.c
 *		Breaker and rate limit against an expectation written from their prose.
 *
 * The expectation of the breaker is a machine of three named states that knows
 * every request under way; random histories are played to both.  That of the
 * rate is the definition: in no stretch of time do more begin than the bucket
 * holds and the rate allows.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/breaker.h"
#include "tap.h"

#define HISTORIES 3000
#define STEPS 400
#define MOST_UNDER_WAY 40
#define ARRIVALS 400

static uint64_t seed;

/* A number below n. */
static int
pick(int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int) ((seed >> 11) % (uint64_t) n);
}

/* ---- the breaker ---- */

typedef enum State
{
	CLOSED,
	RESTING,					/* open, before its time */
	HALF_OPEN					/* open, one probe may go or is under way */
} State;

typedef struct Request
{
	int64_t		number;			/* what the breaker gave it */
	bool		probe;			/* the one that the present question hangs on */
} Request;

/* What the prose says: failures in a row, and when the rest ends. */
typedef struct Model
{
	bool		open;
	int			in_a_row;
	int64_t		until;
} Model;

static State
state_of(const Model *model, int64_t now)
{
	return !model->open ? CLOSED : now < model->until ? RESTING : HALF_OPEN;
}

/* Play one history; the numbers of cells tell what has been seen. */
static void
play(int threshold, int64_t cooldown, int *probes_seen, int *opened, int *strays)
{
	AlBreaker	breaker = {0};
	Model		model = {0};
	Request		requests[MOST_UNDER_WAY];
	int			n = 0;
	int64_t		now = 1000;

	for (int step = 0; step < STEPS; step++)
	{
		int			free = pick(5);
		int			room = al_breaker_room(&breaker, now, free);
		int			probing = 0;
		int			expected;

		for (int i = 0; i < n; i++)
			probing += requests[i].probe;
		switch (state_of(&model, now))
		{
			case CLOSED:
				expected = free;
				break;
			case RESTING:
				expected = 0;
				break;
			default:
				expected = probing ? 0 : free > 0;
				break;
		}
		tap_cell(room == expected, "step %d: room %d, expected %d", step, room, expected);
		tap_cell(probing <= 1, "step %d: %d probes", step, probing);

		if (room > 0 && n < MOST_UNDER_WAY && pick(3) > 0)
		{
			requests[n].probe = model.open;
			requests[n].number = al_breaker_begin(&breaker);
			tap_cell((requests[n].number != 0) == requests[n].probe, "step %d: a probe has a number, others have none", step);
			*probes_seen += requests[n].probe;
			n++;
		}
		else if (n > 0 && pick(2) == 0)
		{
			int			which = pick(n);
			Request		ended = requests[which];
			AlBreakerSign sign = pick(8) == 0 ? AL_SIGN_NONE : pick(3) == 0 ? AL_SIGN_ALIVE : AL_SIGN_FAILING;
			bool		was_open = model.open;
			bool		changed = al_breaker_end(&breaker, threshold, cooldown, sign, ended.number, now);

			requests[which] = requests[--n];
			if (sign == AL_SIGN_ALIVE)
			{
				model.open = false;
				model.in_a_row = 0;
				for (int i = 0; i < n; i++)
					requests[i].probe = false;	/* the question has been answered */
			}
			else if (sign == AL_SIGN_FAILING)
			{
				model.in_a_row++;
				*strays += model.open && !ended.probe;
				if (model.open ? ended.probe : model.in_a_row >= threshold)
				{
					model.open = true;
					model.until = now + cooldown;
					*opened += 1;
				}
			}
			tap_cell(changed == (was_open != model.open), "step %d: a change is told", step);
			tap_cell(breaker.open == model.open, "step %d: open %d, expected %d", step, breaker.open, model.open);
			tap_cell(breaker.failures == model.in_a_row, "step %d: %d failures, expected %d", step, breaker.failures, model.in_a_row);
		}
		now += pick(4) == 0 ? pick((int) cooldown + 2) : pick(3);
	}
}

static void
check_breaker(void)
{
	int			probes = 0;
	int			opened = 0;
	int			strays = 0;

	tap_group("random histories go as the machine of three states does");
	for (int h = 0; h < HISTORIES; h++)
		play(1 + pick(6), 1 + pick(50), &probes, &opened, &strays);
	tap_group_end();
	diag("%d probes, opened %d times, %d failures of requests that were no probe while open", probes, opened, strays);
	ok(probes > 1000 && opened > 1000 && strays > 1000, "with probes, openings, and late ends of others");
}

/* One transition after another, by hand. */
static void
check_transitions(void)
{
	AlBreaker	breaker = {0};
	int64_t		probe;

	for (int i = 0; i < 4; i++)
		(void) al_breaker_end(&breaker, 5, 60, AL_SIGN_FAILING, 0, 100);
	ok(!breaker.open, "four of five failures leave it closed");
	(void) al_breaker_end(&breaker, 5, 60, AL_SIGN_ALIVE, 0, 100);
	for (int i = 0; i < 4; i++)
		(void) al_breaker_end(&breaker, 5, 60, AL_SIGN_FAILING, 0, 100);
	ok(!breaker.open, "a sign of life between them starts the count anew");
	ok(al_breaker_end(&breaker, 5, 60, AL_SIGN_FAILING, 0, 100) && breaker.open, "the fifth opens it, and says so");
	is_int(al_breaker_room(&breaker, 159, 10), 0, "before the cooldown is over nothing goes");
	is_int(al_breaker_room(&breaker, 160, 10), 1, "then one");
	is_int(al_breaker_room(&breaker, 160, 0), 0, "if there is room for one");
	probe = al_breaker_begin(&breaker);
	is_int(al_breaker_room(&breaker, 1000, 10), 0, "and while it is under way no other");
	ok(!al_breaker_end(&breaker, 5, 60, AL_SIGN_FAILING, 0, 1000), "an older request that fails");
	is_int(al_breaker_room(&breaker, 5000, 10), 0, "does not make room for a second probe");
	ok(!al_breaker_end(&breaker, 5, 60, AL_SIGN_FAILING, probe, 6000), "the probe fails: still open");
	is_int(al_breaker_room(&breaker, 6059, 10), 0, "for another cooldown");
	probe = al_breaker_begin(&breaker);
	ok(!al_breaker_end(&breaker, 5, 60, AL_SIGN_NONE, probe, 6100), "a probe that says nothing");
	is_int(al_breaker_room(&breaker, 6100, 10), 1, "makes room for another");
	probe = al_breaker_begin(&breaker);
	ok(al_breaker_end(&breaker, 5, 60, AL_SIGN_ALIVE, probe, 6200), "a probe that lives closes it, and says so");
	is_int(al_breaker_room(&breaker, 6200, 10), 10, "and everything goes again");
}

/* What attempts say, for every ending and status. */
static void
check_signs(void)
{
	/* in the order of AlEnding: F failing, - nothing, for an attempt without a complete head */
	static const char expected[] = "-FFFFFFFFFF-------- ";

	tap_group("what each ending says without an answer");
	for (int e = 0; e < AL_N_ENDINGS; e++)
	{
		AlEvidence	evidence = {.ending = (AlEnding) e, .prereqs = 1, .status = 200};

		tap_cell(al_breaker_read(&evidence) == (expected[e] == 'F' ? AL_SIGN_FAILING : AL_SIGN_NONE), "ending %d", e);
	}
	tap_group_end();
	tap_group("what each status says, however the body ended");
	for (int status = 100; status <= 599; status++)
	{
		for (int e = 0; e < AL_N_ENDINGS; e++)
		{
			AlEvidence	evidence = {.ending = (AlEnding) e, .prereqs = 1, .head_complete = true, .status = status};

			tap_cell(al_breaker_read(&evidence) == (status < 500 ? AL_SIGN_ALIVE : AL_SIGN_FAILING), "status %d, ending %d", status, e);
		}
	}
	tap_group_end();
}

/* ---- the rate ---- */

/* Let arrivals come at random and begin what may begin; keep when each began. */
static int
let_arrive(double rate, int64_t start, int64_t *began)
{
	AlBucket	bucket = {0};
	int64_t		now = start;
	int			n = 0;
	int			pace = 1 + pick(3);

	while (n < ARRIVALS)
	{
		int			wanted = pick(4) == 0 ? 1 + pick(60) : 1;
		int			room = al_bucket_room(&bucket, rate, now, wanted);

		tap_cell(room >= 0 && room <= wanted, "room %d of %d", room, wanted);
		if (room > 0 && pick(5) == 0)
			room--;				/* not all that may begin does */
		for (int i = 0; i < room && n < ARRIVALS; i++)
			began[n++] = now;
		al_bucket_take(&bucket, rate, room);
		if (al_bucket_room(&bucket, rate, now, 1) == 0)
		{
			int64_t		wait = al_bucket_wait_ms(&bucket, rate);
			AlBucket	later = bucket;

			tap_cell(wait > 0, "no room and no wait");
			tap_cell(al_bucket_room(&later, rate, now + wait, 1) == 1, "after the wait of %d ms one may begin", (int) wait);
			if (pick(2) == 0)
				now += wait;
		}
		now += pick(6) == 0 ? pick((int) (4000 / (rate < 1 ? rate * 10 : 10)) + 2) : pick(pace);
	}
	return n;
}

static void
check_rate(void)
{
	static const double rates[] = {0.1, 0.5, 1, 2.5, 7, 25, 200, 5000};

	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++)
	{
		char		name[64];

		(void) snprintf(name, sizeof(name), "in no stretch more than the bucket and %g a second", rates[r]);
		tap_group(name);
		for (int round = 0; round < 20; round++)
		{
			static int64_t began[ARRIVALS];
			int			n = let_arrive(rates[r], pick(2) == 0 ? 1 : INT64_C(4000000000000), began);
			double		most = rates[r] > 1 ? rates[r] : 1;

			for (int i = 0; i < n; i++)
			{
				for (int j = i; j < n; j++)
				{
					double		allowed = most + rates[r] * (double) (began[j] - began[i]) / 1000;

					if (j - i + 1 > allowed + 1e-6)
						tap_cell(false, "%d began within %d ms", j - i + 1, (int) (began[j] - began[i]));
				}
			}
			tap_cell(true, "a round");
		}
		tap_group_end();
	}
}

static void
check_rate_by_hand(void)
{
	AlBucket	bucket = {0};

	is_int(al_bucket_room(&bucket, 0, 5, 7), 7, "no rate is no limit");
	is_int(al_bucket_wait_ms(&bucket, 0), 0, "and no wait");
	is_int(al_bucket_room(&bucket, 5, 1000, 100), 5, "a fresh bucket has the tokens of one second");
	al_bucket_take(&bucket, 5, 5);
	is_int(al_bucket_room(&bucket, 5, 1000, 100), 0, "then none");
	is_int(al_bucket_room(&bucket, 5, 1199, 100), 0, "nor before a fifth of a second");
	is_int(al_bucket_room(&bucket, 5, 1200, 100), 1, "then one");
	is_int(al_bucket_room(&bucket, 5, 900000, 100), 5, "and never more than those of one second");
	is_int(al_bucket_room(&bucket, 5, 800000, 100), 5, "a clock that goes back takes none away");
}

int
main(void)
{
	const char *given = getenv("SEED");

	seed = given ? strtoull(given, NULL, 10) : 20240601;
	seed = seed * 2654435761u + 1;
	check_transitions();
	check_breaker();
	check_signs();
	check_rate_by_hand();
	check_rate();
	return done_testing();
}
