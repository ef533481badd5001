/*
 * test_approval.c
 *		Without the approval that it needs nothing is sent, in every cell of the
 *		state machine; and nothing else changes.
 */
#include <string.h>

#include "rules/policy.h"

#include "situations.h"
#include "tap.h"

static bool
same(AlDecision a, AlDecision b)
{
	return a.status == b.status && a.step == b.step && a.when == b.when &&
		(a.error_code == NULL || b.error_code == NULL ? a.error_code == b.error_code : strcmp(a.error_code, b.error_code) == 0);
}

/* What the prose says of a cell in which a send would follow. */
static AlDecision
in_place_of_a_send(const AlSituation *s)
{
	bool		open = s->known == AL_KNOWN_IN_PROGRESS || s->known == AL_KNOWN_UNKNOWN || s->known == AL_KNOWN_UNKNOWN_ENDED;

	if (open)
		return (AlDecision) {AL_STATUS_NEEDS_RECONCILIATION, AL_STEP_REVIEW, AL_WHEN_NEVER, "outcome_unknown"};
	if (s->approval == AL_APPROVAL_WAITED)
		return (AlDecision) {AL_STATUS_PREPARED, AL_STEP_APPROVE, AL_WHEN_APPROVAL_END, NULL};
	return (AlDecision) {AL_STATUS_FAILED, AL_STEP_NONE, AL_WHEN_NEVER, "approval_expired"};
}

int
main(void)
{
	static const AlApproval missing[] = {AL_APPROVAL_WAITED, AL_APPROVAL_LAPSED};
	int			kept = 0;

	for (int a = 0; a < 2; a++)
	{
		tap_group(a == 0 ? "an approval that is waited for" : "an approval that nobody gave in time");
		for (int n = 0; n < N_SITUATIONS; n++)
		{
			AlSituation given = situation(n, AL_APPROVAL_GIVEN);
			AlSituation s = situation(n, missing[a]);
			AlDecision	with = al_policy_decide(&given);
			AlDecision	got = al_policy_decide(&s);
			bool		sends = with.step == AL_STEP_SEND || with.step == AL_STEP_RESEND;

			kept += sends;
			tap_cell(got.step != AL_STEP_SEND && got.step != AL_STEP_RESEND, "situation %d sends without approval", n);
			tap_cell(same(got, sends ? in_place_of_a_send(&s) : with), "situation %d: got %s/%s, where with approval it is %s/%s", n,
					 al_status_name(got.status), al_step_name(got.step), al_status_name(with.status), al_step_name(with.step));
		}
		tap_group_end();
	}
	ok(kept > 100, "the product has sends to keep back (%d)", kept);
	return done_testing();
}
