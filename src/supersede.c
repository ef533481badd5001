/*
 * supersede.c
 *		A deliberate second one: a new action in the place of one that is over.
 *
 * The new one is named after the first of the line, with its place in it:
 * refund:1, refund:1#2, refund:1#3 (or with another sign, where the key is the
 * identity and the destination does not take this one).  Each has one successor at most, so that
 * asking twice is asking once.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "authority.h"
#include "definition_internal.h"
#include "errors.h"
#include "perform.h"
#include "session.h"
#include "wakeup.h"

PG_FUNCTION_INFO_V1(al_supersede);

/* More of one line than anybody asks for on purpose. */
#define ORDINAL_MAX 10000

static AlStatement lock_first = {
	"SELECT t.name, a.service_id, a.identity, a.status::text, a.requested_by, a.owner, a.run_id, a.step, "
	"EXISTS (SELECT FROM actionledger.event e WHERE e.action_id = a.action_id AND e.what = 'conflict' AND NOT EXISTS ("
	"  SELECT FROM actionledger.event k WHERE k.action_id = a.action_id AND k.what = 'acknowledged' AND k.event_id > e.event_id)) "
	"FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) WHERE a.action_id = $1 FOR NO KEY UPDATE OF a",
	1, {INT8OID}
};
static AlStatement select_line = {
	"SELECT (SELECT e.evidence ->> 'identity' FROM actionledger.event e WHERE e.action_id = $1 AND e.what = 'superseded' LIMIT 1), "
	"(SELECT e.evidence ->> 'first' FROM actionledger.event e WHERE e.action_id = $1 AND e.what = 'supersedes' LIMIT 1), "
	"(SELECT (e.evidence ->> 'ordinal')::int FROM actionledger.event e WHERE e.action_id = $1 AND e.what = 'supersedes' LIMIT 1)",
	1, {INT8OID}
};
static AlStatement find_identity = {
	"SELECT 1 FROM actionledger.action WHERE service_id = $1 AND identity = $2", 2, {INT4OID, TEXTOID}
};
static AlStatement insert_links = {
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note, evidence) "
	"SELECT $1, 'superseded', a.status, $3, $4, jsonb_build_object('superseded_by', $2, 'identity', $5) FROM actionledger.action a WHERE a.action_id = $1 "
	"UNION ALL SELECT $2, 'supersedes', 'prepared', $3, $4, jsonb_build_object('supersedes', $1, 'first', $6, 'ordinal', $7)",
	7, {INT8OID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID}
};

/* The action that is over, and its line. */
typedef struct Line
{
	int64		action_id;
	char	   *tool;
	char	   *successor;		/* identity of the one that has superseded it; NULL: none */
	char	   *first;			/* identity of the first of the line */
	int			ordinal;		/* of the new one */
	char	   *identity;		/* of the new one */
	char	   *run_id;
	bool		has_step;
	int			step;
} Line;

static Line read_line(int64 action_id, Oid caller);
static void check_over(int64 action_id, const char *status, bool conflict);
static void name_next(Line *line, int32 service_id);
static char separator(const char *tool);
static char *message_of(const Line *line, const AlPrepared *prepared);

/* supersede(action_id, args, note) */
Datum
al_supersede(PG_FUNCTION_ARGS)
{
	AlProposal *proposal = palloc0(sizeof(AlProposal));
	char	   *note = PG_ARGISNULL(2) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(2));
	Datum		values[7];
	bool		nulls[4] = {0};
	TupleDesc	descriptor;
	AlPrepared	prepared;
	AlRefusal  *refusal;
	AlSession	session;
	Line		line;

	PreventCommandIfReadOnly("supersede()");
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("supersede needs an action"),
				 errdetail("The action_id is null."),
				 errhint("Take it from the view actionledger.actions.")));
	if (note[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("supersede needs a note"),
				 errdetail("The note is what others will read about why it was done again."),
				 errhint("Say why a second one is wanted.")));
	proposal->requester = GetUserId();
	proposal->session_user = GetSessionUserId();

	al_session_begin(&session, true);
	line = read_line(PG_GETARG_INT64(0), proposal->requester);
	al_session_end(&session);
	proposal->tool_name = line.tool;
	proposal->args = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	proposal->identity = line.identity;
	proposal->run_id = line.run_id;
	proposal->has_step = line.has_step;
	proposal->step = line.step;
	refusal = al_perform_counted(proposal, &prepared);
	if (refusal != NULL)
		al_refuse(refusal);
	if (prepared.created)
	{
		values[0] = Int64GetDatum(line.action_id);
		values[1] = Int64GetDatum(prepared.story.action_id);
		values[2] = CStringGetTextDatum(al_role_name(proposal->requester));
		values[3] = CStringGetTextDatum(note);
		values[4] = CStringGetTextDatum(line.identity);
		values[5] = CStringGetTextDatum(line.first);
		values[6] = Int32GetDatum(line.ordinal);
		al_session_begin(&session, true);
		(void) al_statement_run(&insert_links, values, NULL);
		al_session_end(&session);
	}
	al_perform_warn_of_repeat(&prepared);
	al_perform_warn(proposal->tool);

	values[0] = Int64GetDatum(prepared.story.action_id);
	values[1] = CStringGetTextDatum(al_status_name(prepared.story.status));
	values[2] = CStringGetTextDatum(al_step_name(prepared.story.step));
	values[3] = CStringGetTextDatum(message_of(&line, &prepared));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* Locks the action that is over, and finds the place of the next one in its line. */
static Line
read_line(int64 action_id, Oid caller)
{
	Datum		value = Int64GetDatum(action_id);
	Line		line = {.action_id = action_id};
	int32		service_id;
	char	   *identity;
	bool		isnull;

	if (al_statement_run(&lock_first, &value, NULL) == 0 ||
		!al_may_see(caller, al_column_text(0, 5), al_column_text(0, 6)))
		ereport(ERROR,
				(errcode(AL_ERR_UNKNOWN_ACTION),
				 errmsg("there is no such action that you may see"),
				 errdetail("Action " INT64_FORMAT " does not exist, or belongs to others.", action_id),
				 errhint("See the view actionledger.actions for those that you may see.")));
	check_over(action_id, al_column_text(0, 4), al_column_bool(0, 9));
	line.tool = al_column_text(0, 1);
	service_id = al_column_int4(0, 2);
	identity = al_column_text(0, 3);
	line.run_id = al_column_text(0, 7);
	(void) al_column(0, 8, &isnull);
	line.has_step = !isnull;
	line.step = al_column_int4(0, 8);

	(void) al_statement_run(&select_line, &value, NULL);
	line.successor = al_column_text(0, 1);
	line.first = al_column_text(0, 2);
	line.ordinal = line.first ? al_column_int4(0, 3) : 1;
	if (line.first == NULL)
		line.first = identity;
	if (line.successor != NULL)
		line.identity = line.successor;
	else
		name_next(&line, service_id);
	return line;
}

/* Refuses a second one while the first may still happen. */
static void
check_over(int64 action_id, const char *status, bool conflict)
{
	bool		over = strcmp(status, "confirmed") == 0 || strcmp(status, "failed") == 0;

	if (!over)
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("action " INT64_FORMAT " is not over, so that nothing can take its place", action_id),
				 errdetail("It is %s: %s.", status, strcmp(status, "prepared") == 0 ? "it may still be sent" : "it may have happened"),
				 strcmp(status, "prepared") == 0
				 ? errhint("Cancel it first with actionledger.cancel(" INT64_FORMAT ").", action_id)
				 : errhint("Wait for its outcome, or find it out and decide with actionledger.resolve().")));
	if (conflict)
		ereport(ERROR,
				(errcode(AL_ERR_NOT_ALLOWED),
				 errmsg("action " INT64_FORMAT " is %s, and there is evidence of the contrary", action_id, status),
				 errdetail("See actionledger.conflicts: another one could be one too many."),
				 errhint("Find out what happened, and have an operator acknowledge it first.")));
}

/* Finds the first name of the line that nobody has taken. */
static void
name_next(Line *line, int32 service_id)
{
	Datum		values[2] = {Int32GetDatum(service_id)};
	char		sign = separator(line->tool);

	while (++line->ordinal <= ORDINAL_MAX)
	{
		line->identity = psprintf("%s%c%d", line->first, sign, line->ordinal);
		values[1] = CStringGetTextDatum(line->identity);
		if (al_statement_run(&find_identity, values, NULL) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(AL_ERR_NOT_ALLOWED),
			 errmsg("identity \"%s\" has been superseded too often", line->first),
			 errdetail("Names up to %c%d are taken.", sign, ORDINAL_MAX),
			 errhint("Perform it under another identity.")));
}

/* Chooses what stands before the place in the line: # unless that cannot be part of a key. */
static char
separator(const char *tool)
{
	const AlTool *found;

	al_registry_refresh();
	found = al_registry_tool(tool);
	if (found == NULL || !found->idempotency->honoured || found->idempotency->form != AL_KEY_FORM_IDENTITY)
		return '#';
	for (const char *sign = "#:.-_~"; *sign; sign++)
	{
		char		text[2] = {*sign, '\0'};

		if (al_key_fits(found->idempotency, text))
			return *sign;
	}
	return '#';
}

/* Says what the call has done. */
static char *
message_of(const Line *line, const AlPrepared *prepared)
{
	if (!prepared->created)
		return psprintf("%s has superseded action " INT64_FORMAT " before; nothing new was recorded", prepared->story.identity, line->action_id);
	return psprintf("supersedes action " INT64_FORMAT " as %s; %s", line->action_id, prepared->story.identity,
					prepared->story.step == AL_STEP_APPROVE ? psprintf("waits for approval by %s", prepared->story.approver)
					: al_words_goes_out(prepared->story.external, 0));
}
