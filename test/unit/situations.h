/*
 * situations.h
 *		The full product of what the state machine decides by, for its unit tests.
 */
#ifndef AL_TEST_SITUATIONS_H
#define AL_TEST_SITUATIONS_H

#include "rules/policy.h"

#define N_SITUATIONS (AL_N_ACTION_TYPES * AL_N_KNOWN * AL_N_KEY_STATES * AL_N_BUDGETS * AL_N_LOOKUPS * AL_N_STOPS * 2)

/* The n-th situation, from 0. */
static AlSituation
situation(int n, AlApproval approval)
{
	AlSituation s = {.approval = approval};

	s.type = (AlActionType) (n % AL_N_ACTION_TYPES);
	n /= AL_N_ACTION_TYPES;
	s.known = (AlKnown) (n % AL_N_KNOWN);
	n /= AL_N_KNOWN;
	s.key = (AlKeyState) (n % AL_N_KEY_STATES);
	n /= AL_N_KEY_STATES;
	s.budget = (AlBudget) (n % AL_N_BUDGETS);
	n /= AL_N_BUDGETS;
	s.lookup = (AlLookup) (n % AL_N_LOOKUPS);
	n /= AL_N_LOOKUPS;
	s.stop = (AlStop) (n % AL_N_STOPS);
	n /= AL_N_STOPS;
	s.resend = n != 0;
	return s;
}

#endif							/* AL_TEST_SITUATIONS_H */
