/*
 * try_perform.c
 *		perform() for callers that cannot handle an error, and the request that a
 *		person allow what its check does not: whatever was proposed,
 *		the answer is an envelope.
 *
 * The proposal runs in a subtransaction.  A refusal is recorded outside of it,
 * in the caller's transaction; refusals of perform() leave no row, since they
 * abort the transaction, and are only counted (tally.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "authority.h"
#include "envelope.h"
#include "perform.h"
#include "session.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(al_try_perform);
PG_FUNCTION_INFO_V1(al_request_approval);

#define KEPT_NAME_MAX 100			/* bytes kept of a tool's name and an identity that were made up */
#define KEPT_TEXT_MAX 1000
#define TRIM_AT_ONCE 10			/* old rows that one refusal removes, so that the table shrinks */

static AlStatement insert_refusal = {
	"INSERT INTO actionledger.refusal (tool, code, message, findings, identity, run_id, step, requested_by, session_by, actor) "
	"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
	10, {TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, TEXTOID, INT4OID, TEXTOID, TEXTOID, TEXTOID}
};
static AlStatement delete_old = {
	"DELETE FROM actionledger.refusal WHERE refusal_id IN (SELECT o.refusal_id FROM actionledger.refusal o "
	"WHERE o.at < now() - make_interval(mins => $1) ORDER BY o.at LIMIT $2 FOR UPDATE SKIP LOCKED)",
	2, {INT4OID, INT8OID}
};

static Jsonb *answer(AlProposal *proposal);
static AlRefusal *attempt(AlProposal *proposal, AlPrepared *prepared);
static void record_refusal(const AlProposal *proposal, const AlRefusal *refusal);
static void set_text(Datum *value, char *null, const char *text, int most);

/* try_perform(tool, args, identity, run_id, step, options) */
Datum
al_try_perform(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("try_perform()");
	PG_RETURN_JSONB_P(answer(al_perform_arguments(fcinfo)));
}

/* request_approval(tool, args, reason, identity) */
Datum
al_request_approval(PG_FUNCTION_ARGS)
{
	AlProposal *proposal = palloc0(sizeof(AlProposal));
	char	   *reason = PG_ARGISNULL(2) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(2));

	PreventCommandIfReadOnly("request_approval()");
	if (reason[0] == '\0' || strlen(reason) > KEPT_TEXT_MAX)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("request_approval needs a reason"),
				 errdetail("It is null, empty, or longer than %d bytes. Nothing was recorded.", KEPT_TEXT_MAX),
				 errhint("Say in a sentence why somebody should approve this; it is what they read.")));
	proposal->requester = GetUserId();
	proposal->session_user = GetSessionUserId();
	proposal->tool_name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	proposal->args = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	proposal->approval_reason = reason;
	proposal->identity = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	PG_RETURN_JSONB_P(answer(proposal));
}

/* Records a proposal, or its refusal, and answers with the envelope. */
static Jsonb *
answer(AlProposal *proposal)
{
	AlPrepared	prepared;
	AlRefusal  *refusal = attempt(proposal, &prepared);
	Jsonb	   *envelope;
	AlSeen		seen;

	if (refusal != NULL)
	{
		record_refusal(proposal, refusal);
		return al_envelope_refused(refusal);
	}
	al_perform_warn_of_repeat(&prepared);
	al_perform_warn(proposal->tool);
	envelope = al_envelope_asked(prepared.story.action_id, proposal->requester,
								 prepared.created ? AL_ASKED_CREATED : AL_ASKED_AGAIN, &seen);
	if (envelope == NULL)
		elog(ERROR, "action " INT64_FORMAT " is gone", prepared.story.action_id);
	return envelope;
}

/* Records a proposal in a subtransaction; what is no refusal passes through. */
static AlRefusal *
attempt(AlProposal *proposal, AlPrepared *prepared)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	AlRefusal  *volatile refusal = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		refusal = al_perform_counted(proposal, prepared);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (!al_is_refusal(error->sqlerrcode))
			ReThrowError(error);
		refusal = al_refusal_of(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return refusal;
}

/* Keeps a refusal, and lets old ones go. */
static void
record_refusal(const AlProposal *proposal, const AlRefusal *refusal)
{
	char		nulls[11] = "          ";
	Datum		values[10];
	AlSession	session;

	al_session_begin(&session, true);
	set_text(&values[0], &nulls[0], proposal->tool_name, KEPT_NAME_MAX);
	set_text(&values[1], &nulls[1], al_refusal_code(refusal->sqlstate), KEPT_TEXT_MAX);
	set_text(&values[2], &nulls[2], refusal->message, KEPT_TEXT_MAX);
	values[3] = JsonbPGetDatum(al_envelope_findings(refusal->findings));
	set_text(&values[4], &nulls[4], proposal->identity, KEPT_NAME_MAX);
	set_text(&values[5], &nulls[5], proposal->run_id, KEPT_TEXT_MAX);
	values[6] = Int32GetDatum(proposal->step);
	nulls[6] = proposal->has_step ? ' ' : 'n';
	set_text(&values[7], &nulls[7], al_role_name(proposal->requester), KEPT_TEXT_MAX);
	set_text(&values[8], &nulls[8], proposal->session_user == proposal->requester ? NULL : al_role_name(proposal->session_user), KEPT_TEXT_MAX);
	set_text(&values[9], &nulls[9], proposal->actor, KEPT_TEXT_MAX);
	(void) al_statement_run(&insert_refusal, values, nulls);
	/* A snapshot that is kept would make of a row that another call has removed a serialization failure. */
	if (al_refusal_retention >= 0 && !IsolationUsesXactSnapshot())
	{
		values[0] = Int32GetDatum(al_refusal_retention);
		values[1] = Int64GetDatum(TRIM_AT_ONCE);
		(void) al_statement_run(&delete_old, values, NULL);
	}
	al_session_end(&session);
}

/* Sets a text, cut to so many bytes; NULL stays null. */
static void
set_text(Datum *value, char *null, const char *text, int most)
{
	*null = text != NULL ? ' ' : 'n';
	*value = (Datum) 0;
	if (text != NULL)
		*value = PointerGetDatum(cstring_to_text_with_len(text, pg_mbcliplen(text, (int) strlen(text), most)));
}
