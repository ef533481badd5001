/*
 * perform.c
 *		SQL functions with which applications record actions.
 *
 * perform → validate → identity → ledger.  The caller's identity is taken at
 * entry; only the ledger's own statements run as the extension's owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "check.h"
#include "errors.h"
#include "json_write.h"
#include "perform.h"
#include "session.h"
#include "settings.h"
#include "tally.h"
#include "tool_lock.h"
#include "validate.h"
#include "visible.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(al_perform);
PG_FUNCTION_INFO_V1(al_perform_many);

/* One item of perform_many. */
typedef struct BulkItem
{
	int			number;			/* in the input, from 1 */
	AlProposal	proposal;
	char	   *identity;
	AlPrepared	prepared;
	AlSession  *session;
	ErrorData  *error;			/* on_error skip: why it was not recorded */
} BulkItem;

static AlRefusal *propose(AlProposal *proposal, AlPrepared *prepared);
static AlRefusal *record(AlProposal *proposal, char *identity, AlSession *session, AlPrepared *prepared);
static AlRefusal *find_tool(AlProposal *proposal);
static void count_refusal(const AlTool *tool, int sqlstate);
static Datum performed_row(FunctionCallInfo fcinfo, const AlPrepared *prepared);
static void warn_of_repeats(const BulkItem *items, int n);
static BulkItem *read_items(FunctionCallInfo fcinfo, const AlProposal *common, int *n);
static void attempt_item(BulkItem *item, void (*step) (BulkItem *), bool skip);
static void run_step(BulkItem *item, void (*step) (BulkItem *));
static void name_item(void *number);
static void identify_item(BulkItem *item);
static void prepare_item(BulkItem *item);
static int	compare_identities(const void *a, const void *b);
static int	compare_numbers(const void *a, const void *b);
static void put_item(ReturnSetInfo *result, const BulkItem *item);
static Datum error_json(const ErrorData *error);

/* perform(tool, args, identity, run_id, step, options) */
Datum
al_perform(PG_FUNCTION_ARGS)
{
	AlProposal *proposal = al_perform_arguments(fcinfo);
	AlPrepared	prepared;
	AlRefusal  *refusal;

	PreventCommandIfReadOnly("perform()");
	refusal = al_perform_counted(proposal, &prepared);
	if (refusal != NULL)
		al_refuse(refusal);
	al_perform_warn_of_repeat(&prepared);
	al_perform_warn(proposal->tool);
	return performed_row(fcinfo, &prepared);
}

/* Takes the arguments of a call, and who calls. */
AlProposal *
al_perform_arguments(FunctionCallInfo fcinfo)
{
	AlProposal *proposal = palloc0(sizeof(AlProposal));

	proposal->requester = GetUserId();
	proposal->session_user = GetSessionUserId();
	proposal->tool_name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	proposal->args = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	proposal->identity = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	proposal->run_id = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	proposal->has_step = !PG_ARGISNULL(4);
	proposal->step = proposal->has_step ? PG_GETARG_INT32(4) : 0;
	proposal->options = PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5);
	return proposal;
}

/* Records a proposal, and counts it when it is refused in whatever way. */
AlRefusal *
al_perform_counted(AlProposal *proposal, AlPrepared *prepared)
{
	AlRefusal  *refusal = NULL;

	PG_TRY();
	{
		refusal = propose(proposal, prepared);
	}
	PG_CATCH();
	{
		count_refusal(proposal->tool, geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (refusal != NULL)
		count_refusal(proposal->tool, refusal->sqlstate);
	return refusal;
}

/* Validates a proposal and records it, or tells why not; what only the ledger can tell is raised. */
static AlRefusal *
propose(AlProposal *proposal, AlPrepared *prepared)
{
	AlSession	session;
	AlRefusal  *refusal;
	List	   *options = NIL;

	al_session_begin(&session, false);
	refusal = find_tool(proposal);
	if (refusal == NULL)
	{
		if (proposal->options != NULL)
			options = al_prepare_options(proposal, proposal->options, NULL);
		refusal = al_validate(proposal->tool, proposal->args, options, proposal->requester);
	}
	if (refusal == NULL)
	{
		char	   *identity = al_prepare_identity(proposal->tool, proposal);

		refusal = record(proposal, identity, &session, prepared);
	}
	al_session_end(&session);
	return refusal;
}

/*
 * Runs the tool's business check, and records the action.  What is known
 * already is not checked anew: the check may object to what it has led to, and
 * its time may be over.
 */
static AlRefusal *
record(AlProposal *proposal, char *identity, AlSession *session, AlPrepared *prepared)
{
	AlCheckAnswer answer;
	AlRefusal  *refusal = al_prepare_expiry(proposal);

	if (refusal != NULL && !al_prepare_known(proposal->tool, proposal, identity, prepared))
		return refusal;
	if (proposal->tool->def->check_function != NULL &&
		!al_prepare_known(proposal->tool, proposal, identity, prepared))
	{
		refusal = al_check_run(proposal, identity, session, &answer);
		if (refusal != NULL)
			return refusal;
		if (answer.code != NULL && proposal->approval_reason == NULL)
			return al_check_refusal(proposal->tool, &answer);
		if (answer.code != NULL)
			proposal->approval_reason = psprintf("%s (%s: %s)", proposal->approval_reason, answer.code, answer.message);
	}
	*prepared = al_prepare(proposal->tool, proposal, identity);
	return NULL;
}

/* perform_many(tool, args[], identities[], options) */
Datum
al_perform_many(PG_FUNCTION_ARGS)
{
	AlProposal	common = {.requester = GetUserId(), .session_user = GetSessionUserId()};
	AlSession	session;
	AlRefusal  *refusal;
	BulkItem   *items;
	bool		skip = false;
	bool		recorded = false;
	int			n;

	PreventCommandIfReadOnly("perform_many()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	al_session_begin(&session, false);
	common.tool_name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	refusal = find_tool(&common);
	if (refusal == NULL && PG_ARGISNULL(1))
		refusal = al_validate(common.tool, NULL, NIL, common.requester);
	if (refusal == NULL && !PG_ARGISNULL(3))
	{
		List	   *findings = al_prepare_options(&common, PG_GETARG_JSONB_P(3), &skip);

		if (findings != NIL)
			refusal = al_validate_options(findings);
	}
	if (refusal != NULL)
	{
		count_refusal(common.tool, refusal->sqlstate);
		al_refuse(refusal);
	}
	items = read_items(fcinfo, &common, &n);
	for (int i = 0; i < n; i++)
		items[i].session = &session;
	for (int i = 0; i < n; i++)
		attempt_item(&items[i], identify_item, skip);
	/* In the order of identities, two callers with the same set cannot deadlock. */
	qsort(items, n, sizeof(BulkItem), compare_identities);
	for (int i = 0; i < n; i++)
		if (items[i].error == NULL)
			attempt_item(&items[i], prepare_item, skip);
	al_session_end(&session);

	qsort(items, n, sizeof(BulkItem), compare_numbers);
	for (int i = 0; i < n; i++)
	{
		put_item((ReturnSetInfo *) fcinfo->resultinfo, &items[i]);
		recorded = recorded || items[i].error == NULL;
	}
	warn_of_repeats(items, n);
	if (recorded)
		al_perform_warn(common.tool);
	return (Datum) 0;
}

/* Finds the tool that a proposal names, and keeps it until the transaction ends. */
static AlRefusal *
find_tool(AlProposal *proposal)
{
	if (proposal->tool_name == NULL)
		return al_refusal_make(AL_ERR_MISSING_ARGUMENTS, pstrdup("no tool is named"),
							   pstrdup("The value for tool is null. Nothing was recorded."),
							   pstrdup("The view actionledger.tools shows the tools that you may perform."), NIL);
	for (int32 kept = 0;;)
	{
		al_registry_refresh();
		proposal->tool = al_registry_tool(proposal->tool_name);
		if (proposal->tool == NULL)
			return al_validate_no_tool(proposal->tool_name, proposal->requester);
		if (proposal->tool->tool_id == kept)
			return NULL;
		/* It may have been another one before the lock was there. */
		kept = proposal->tool->tool_id;
		al_tool_lock_share(kept, proposal->tool->name);
	}
}

/* Counts a refusal; other errors are none. */
static void
count_refusal(const AlTool *tool, int sqlstate)
{
	if (al_is_refusal(sqlstate))
		al_tally_refusal(tool != NULL ? tool->tool_id : AL_TALLY_NO_TOOL, sqlstate);
}

/* Makes the row that perform returns. */
static Datum
performed_row(FunctionCallInfo fcinfo, const AlPrepared *prepared)
{
	const AlStory *story = &prepared->story;
	TupleDesc	descriptor;
	Datum		values[6];
	bool		nulls[6] = {0};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(story->action_id);
	values[1] = CStringGetTextDatum(story->identity);
	values[2] = CStringGetTextDatum(al_status_name(story->status));
	values[3] = BoolGetDatum(prepared->created);
	values[4] = CStringGetTextDatum(al_step_name(story->step));
	values[5] = CStringGetTextDatum(al_words_observation(story, prepared->created, !prepared->created));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* Warns when the action that stands for a repeated request did not happen. */
void
al_perform_warn_of_repeat(const AlPrepared *prepared)
{
	if (prepared->created || prepared->story.status != AL_STATUS_FAILED)
		return;
	ereport(WARNING,
			(errmsg("identity \"%s\" stands for action " INT64_FORMAT ", which failed (%s)", al_visible(prepared->story.identity),
					prepared->story.action_id, prepared->story.error_code ? prepared->story.error_code : "unknown"),
			 errdetail("It was asked for at %s; nothing new was recorded.", al_words_time(prepared->story.created_at)),
			 prepared->story.superseded_by != 0
			 ? errhint("Action " INT64_FORMAT " has taken its place: see actionledger.result(" INT64_FORMAT ").",
					   prepared->story.superseded_by, prepared->story.superseded_by)
			 : errhint("For a deliberate new one, call actionledger.supersede(" INT64_FORMAT ", ..., 'why').", prepared->story.action_id)));
}

/* Warns when actions that stand for items did not happen. */
static void
warn_of_repeats(const BulkItem *items, int n)
{
	const BulkItem *first = NULL;
	int			count = 0;

	for (int i = n - 1; i >= 0; i--)
	{
		if (items[i].error == NULL && !items[i].prepared.created && items[i].prepared.story.status == AL_STATUS_FAILED)
		{
			first = &items[i];
			count++;
		}
	}
	if (first == NULL)
		return;
	ereport(WARNING,
			(errmsg("identities of %d of %d items stand for actions that failed", count, n),
			 errdetail("The first is item %d, identity \"%s\"; nothing new was recorded for them.", first->number, al_visible(first->identity)),
			 errhint("For deliberate new ones, call actionledger.supersede().")));
}

/* Warns, once per session, when what has been recorded will not be sent. */
void
al_perform_warn(const AlTool *tool)
{
	static bool warned = false;
	const char *why = al_workers_trouble(tool->service->service_id);

	if (why == NULL)
		warned = false;
	else if (!warned && !tool->def->external)
	{
		warned = true;
		ereport(WARNING,
				(errmsg("the action is recorded, and nobody is there to send it"),
				 errdetail("%c%s.", pg_toupper((unsigned char) why[0]), why + 1),
				 errhint("See the view actionledger.workers; what is recorded is sent when that is mended.")));
	}
}

/* Reads the items of perform_many. */
static BulkItem *
read_items(FunctionCallInfo fcinfo, const AlProposal *common, int *n)
{
	Datum	   *args;
	bool	   *args_null;
	Datum	   *identities = NULL;
	bool	   *identities_null = NULL;
	int			n_identities = 0;
	BulkItem   *items;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), JSONBOID, -1, false, TYPALIGN_INT, &args, &args_null, n);
	if (!PG_ARGISNULL(2))
	{
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), TEXTOID, -1, false, TYPALIGN_INT, &identities, &identities_null, &n_identities);
		if (n_identities != *n)
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_ARGUMENTS),
					 errmsg("perform_many needs as many identities as arguments"),
					 errdetail("There are %d arguments and %d identities. Nothing was recorded.", *n, n_identities),
					 errhint("Leave identities out, or give one for each item.")));
	}
	items = palloc0(Max(*n, 1) * sizeof(BulkItem));
	for (int i = 0; i < *n; i++)
	{
		items[i].number = i + 1;
		items[i].proposal = *common;
		items[i].proposal.args = args_null[i] ? NULL : DatumGetJsonbP(args[i]);
		items[i].proposal.identity = (identities == NULL || identities_null[i]) ? NULL : TextDatumGetCString(identities[i]);
	}
	return items;
}

/* Runs a step for an item; with skip, its error is kept and the rest goes on. */
static void
attempt_item(BulkItem *item, void (*step) (BulkItem *), bool skip)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	if (!skip)
	{
		ErrorContextCallback callback = {.previous = error_context_stack, .callback = name_item, .arg = &item->number};

		error_context_stack = &callback;
		run_step(item, step);
		error_context_stack = callback.previous;
		return;
	}
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		run_step(item, step);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		item->error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (!al_is_refusal(item->error->sqlerrcode))
			ReThrowError(item->error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* Tells which item an error is about. */
static void
name_item(void *number)
{
	errcontext("item %d of perform_many", *(int *) number);
}

/* Runs a step, and counts the item when it is refused. */
static void
run_step(BulkItem *item, void (*step) (BulkItem *))
{
	PG_TRY();
	{
		step(item);
	}
	PG_CATCH();
	{
		count_refusal(item->proposal.tool, geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* Validates an item and finds its identity. */
static void
identify_item(BulkItem *item)
{
	AlProposal *proposal = &item->proposal;
	AlRefusal  *refusal = al_validate(proposal->tool, proposal->args, NIL, proposal->requester);

	if (refusal != NULL)
		al_refuse(refusal);
	item->identity = al_prepare_identity(proposal->tool, proposal);
}

/* Checks and records an item, so that the check sees the items before it. */
static void
prepare_item(BulkItem *item)
{
	AlRefusal  *refusal = record(&item->proposal, item->identity, item->session, &item->prepared);

	if (refusal != NULL)
		al_refuse(refusal);
}

/* Orders items by identity, those without one first. */
static int
compare_identities(const void *a, const void *b)
{
	const BulkItem *x = a;
	const BulkItem *y = b;
	int			order = strcmp(x->identity ? x->identity : "", y->identity ? y->identity : "");

	return order != 0 ? order : x->number - y->number;
}

/* Orders items as they came. */
static int
compare_numbers(const void *a, const void *b)
{
	return ((const BulkItem *) a)->number - ((const BulkItem *) b)->number;
}

/* Puts an item into the result. */
static void
put_item(ReturnSetInfo *result, const BulkItem *item)
{
	const AlStory *story = &item->prepared.story;
	bool		failed = item->error != NULL;
	Datum		values[6] = {0};
	bool		nulls[6] = {false, failed, item->identity == NULL, failed, failed, !failed};

	values[0] = Int32GetDatum(item->number);
	if (item->identity != NULL)
		values[2] = CStringGetTextDatum(item->identity);
	if (failed)
		values[5] = error_json(item->error);
	else
	{
		values[1] = Int64GetDatum(story->action_id);
		values[3] = CStringGetTextDatum(al_status_name(story->status));
		values[4] = BoolGetDatum(item->prepared.created);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Makes a JSON object of an error. */
static Datum
error_json(const ErrorData *error)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	al_json_text(&state, "code", pstrdup(unpack_sql_state(error->sqlerrcode)));
	al_json_text(&state, "message", error->message);
	al_json_text(&state, "detail", error->detail);
	al_json_text(&state, "hint", error->hint);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}
