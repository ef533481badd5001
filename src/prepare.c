/*
 * prepare.c
 *		identity → key → frozen request → rows.
 *
 * The statements run with the caller's search_path, so every name and operator
 * in them is qualified.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "approval.h"
#include "authority.h"
#include "canonical.h"
#include "errors.h"
#include "fence.h"
#include "prepare.h"
#include "queue.h"
#include "render.h"
#include "roster.h"
#include "session.h"
#include "settings.h"
#include "visible.h"
#include "wakeup.h"

#define IDENTITY_MAX 200
#define SUMMARY_MAX 200
#define TARGET_MAX 200
#define CONFLICT_TRIES 3

static AlStatement insert_action = {
	"INSERT INTO actionledger.action (action_id, tool_id, service_id, status, next_step, args_hash, idempotency_key, identity, "
	"requested_by, session_by, actor, method, url, headers, body, args, run_id, step, summary, target, owner, meta, expires_at, created_at, key_place, instance, "
	"not_before, expiry_moves, approve_by, approver, approval_reason) "
	"VALUES ($1, $2, $3, 'prepared', CASE WHEN $27 IS NULL THEN 'send' ELSE 'approve' END::actionledger.next_step, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29) "
	"ON CONFLICT (service_id, identity) DO NOTHING",
	29, {INT8OID, INT4OID, INT4OID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID,
		JSONBOID, TEXTOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, INT8OID,
		TIMESTAMPTZOID, BOOLOID, TIMESTAMPTZOID, TEXTOID, TEXTOID}
};
static AlStatement insert_due = {
	"INSERT INTO actionledger.due (action_id, service_id, next_at, priority, external) VALUES ($1, $2, $3, $4, $5)",
	5, {INT8OID, INT4OID, TIMESTAMPTZOID, INT2OID, BOOLOID}
};
static AlStatement select_same = {
	"SELECT a.action_id, a.tool_id, a.args_hash, a.requested_by, a.owner, a.status::pg_catalog.text, a.next_step::pg_catalog.text, "
	"a.summary, a.external_ref, a.confirmed_by, a.error_code, a.error_message, a.sends::pg_catalog.int4, a.created_at, "
	"a.cancelled_at IS NOT NULL, a.approve_by, a.approver, a.approval_reason, a.target, "
	"CASE WHEN a.status OPERATOR(pg_catalog.=) 'failed' THEN (SELECT (e.evidence OPERATOR(pg_catalog.->>) 'superseded_by')::pg_catalog.int8 "
	"FROM actionledger.event e WHERE e.action_id OPERATOR(pg_catalog.=) a.action_id AND e.what OPERATOR(pg_catalog.=) 'superseded' LIMIT 1) END, a.key_place IS NOT NULL "
	"FROM actionledger.action a WHERE a.service_id OPERATOR(pg_catalog.=) $1 AND a.identity OPERATOR(pg_catalog.=) $2",
	2, {INT4OID, TEXTOID}
};
static void hash_arguments(const AlTool *tool, const AlProposal *proposal, uint8 *hash);
static void begin_story(const AlTool *tool, char *identity, AlStory *story);
static bool insert(const AlTool *tool, const AlProposal *proposal, const char *identity, const uint8 *hash, int64 action_id,
				   AlStory *story);
static bool find_same(const AlTool *tool, const AlProposal *proposal, char *identity, const uint8 *hash, AlStory *story);
static bool insert_waiting(Datum *values, const char *nulls, const char *identity);
static AL_NORETURN void raise_held(const char *identity);
static int64 next_action_id(void);
static void check_identity(const char *identity);
static void check_available(const AlTool *tool);

/* Finds the identity of a proposal. */
char *
al_prepare_identity(const AlTool *tool, const AlProposal *proposal)
{
	uint8		hash[AL_HASH_LEN];
	char	   *identity;

	if (proposal->identity != NULL)
		identity = proposal->identity;
	else if (tool->def->identity != NULL)
		identity = al_render_identity(tool->def, proposal->args, proposal->run_id);
	else
	{
		hash_arguments(tool, proposal, hash);
		identity = psprintf("%s:%s", tool->name, al_hex(hash, AL_HASH_LEN));
	}
	check_identity(identity);
	return identity;
}

/* Hashes what names an action without a template: its arguments, and the run where the tool says so. */
static void
hash_arguments(const AlTool *tool, const AlProposal *proposal, uint8 *hash)
{
	StringInfoData text;
	const char *run_id;
	int			len;

	if (!tool->def->per_run)
	{
		al_canonical_hash(proposal->args, hash);
		return;
	}
	if (proposal->run_id == NULL || proposal->run_id[0] == '\0')
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_IDENTITY),
				 errmsg("\"%s\" needs a run_id", tool->name),
				 errdetail("Its actions are named by their arguments and their run (per_run). Nothing was recorded."),
				 errhint("Pass the run_id of this run, or an identity of the operation.")));
	initStringInfo(&text);
	al_canonical_append(&text, proposal->args);
	appendStringInfoChar(&text, '\x1f');
	run_id = al_utf8(proposal->run_id, strlen(proposal->run_id), &len);
	appendBinaryStringInfo(&text, run_id, len);
	al_sha256(text.data, text.len, hash);
}

/* Finds the action that is there. */
bool
al_prepare_known(const AlTool *tool, const AlProposal *proposal, char *identity, AlPrepared *prepared)
{
	uint8		hash[AL_HASH_LEN];

	memset(prepared, 0, sizeof(*prepared));
	begin_story(tool, identity, &prepared->story);
	al_canonical_hash(proposal->args, hash);
	return find_same(tool, proposal, identity, hash, &prepared->story);
}

/* Records an action, or finds the one that is there. */
AlPrepared
al_prepare(const AlTool *tool, const AlProposal *proposal, char *identity)
{
	AlPrepared	prepared = {0};
	uint8		hash[AL_HASH_LEN];
	int64		action_id;

	if (VARSIZE_ANY(proposal->args) > (Size) al_max_request_size * 1024)
		ereport(ERROR,
				(errcode(AL_ERR_REQUEST_TOO_LARGE),
				 errmsg("arguments for \"%s\" are too large", tool->name),
				 errdetail("They take %zu bytes; the most is %zu.", (size_t) VARSIZE_ANY(proposal->args),
						   (size_t) al_max_request_size * 1024),
				 errhint("Send a reference to the data instead of the data, or raise actionledger.max_request_size.")));
	begin_story(tool, identity, &prepared.story);
	al_canonical_hash(proposal->args, hash);
	/* What is there already needs neither the service nor a place. */
	if (proposal->refuse_unavailable)
	{
		if (find_same(tool, proposal, identity, hash, &prepared.story))
			return prepared;
		check_available(tool);
	}
	if (!al_queue_take(tool->service))
	{
		if (find_same(tool, proposal, identity, hash, &prepared.story))
			return prepared;
		al_queue_refuse(tool->service);
	}
	for (int i = 0; i < CONFLICT_TRIES; i++)
	{
		action_id = next_action_id();
		if (insert(tool, proposal, identity, hash, action_id, &prepared.story))
		{
			prepared.created = true;
			return prepared;
		}
		/* Between the conflict and this look, the other may have been purged. */
		if (find_same(tool, proposal, identity, hash, &prepared.story))
			return prepared;
	}
	raise_held(identity);
}

/* Fills in what the tool tells of an action. */
static void
begin_story(const AlTool *tool, char *identity, AlStory *story)
{
	story->tool = tool->name;
	story->service = tool->service->name;
	story->external = tool->def->external;
	story->identity = identity;
	if (tool->pause != NULL && tool->pause->sends)
		story->pause = tool->pause;
	al_words_breaker(story, tool->service->service_id);
}

/* Inserts an action and its due row; false when the identity is taken. */
static bool
insert(const AlTool *tool, const AlProposal *proposal, const char *identity, const uint8 *hash, int64 action_id, AlStory *story)
{
	const AlIdempotency *key_rules = tool->idempotency;
	char	   *key = al_render_key(key_rules, al_registry_namespace(), tool->service->name, identity);
	AlRenderContext context = {
		.args = proposal->args, .key = key, .identity = identity, .run_id = proposal->run_id, .action_id = action_id
	};
	AlRendered *request = al_render_request(tool->service->def, tool->def, key_rules, &context,
											(size_t) al_max_request_size * 1024);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz due_at = Max(now, proposal->not_before);
	TimestampTz expires_at = proposal->expires_at;
	char	   *summary = tool->def->summary ? al_render_text(tool->def->summary, proposal->args, SUMMARY_MAX) : NULL;
	char	   *target = tool->def->target ? al_render_text(tool->def->target, proposal->args, TARGET_MAX) : NULL;
	bytea	   *hash_value = palloc(VARHDRSZ + AL_HASH_LEN);
	bytea	   *body = NULL;
	char	   *key_place = al_registry_key_place(tool);
	bool		expiry_moves = expires_at == 0 && tool->def->expires_after_ms > 0;
	AlApprovalNeed approval = al_approval_need(tool, proposal->args, proposal->approval_reason, now);
	char		nulls[30] = "                             ";
	Datum		values[29];

	if (expiry_moves)
		expires_at = TimestampTzPlusMilliseconds(now, tool->def->expires_after_ms);
	if (expires_at != 0)
		approval.until = Min(approval.until, expires_at);
	SET_VARSIZE(hash_value, VARHDRSZ + AL_HASH_LEN);
	memcpy(VARDATA(hash_value), hash, AL_HASH_LEN);
	if (request->body != NULL)
	{
		body = palloc(VARHDRSZ + request->body_len);
		SET_VARSIZE(body, VARHDRSZ + request->body_len);
		memcpy(VARDATA(body), request->body, request->body_len);
	}
#define SET(i, present, datum) \
	do { if (present) values[i] = (datum); else { values[i] = (Datum) 0; nulls[i] = 'n'; } } while (0)
#define SET_TEXT(i, text) SET(i, (text) != NULL, CStringGetTextDatum(text))
	SET(0, true, Int64GetDatum(action_id));
	SET(1, true, Int32GetDatum(tool->tool_id));
	SET(2, true, Int32GetDatum(tool->service->service_id));
	SET(3, true, PointerGetDatum(hash_value));
	SET_TEXT(4, key);
	SET_TEXT(5, identity);
	SET_TEXT(6, al_role_name(proposal->requester));
	SET_TEXT(7, proposal->session_user == proposal->requester ? NULL : al_role_name(proposal->session_user));
	SET_TEXT(8, proposal->actor);
	SET_TEXT(9, tool->def->method);
	SET_TEXT(10, request->url);
	SET_TEXT(11, request->headers);
	SET(12, body != NULL, PointerGetDatum(body));
	SET(13, true, JsonbPGetDatum(proposal->args));
	SET_TEXT(14, proposal->run_id);
	SET(15, proposal->has_step, Int32GetDatum(proposal->step));
	SET_TEXT(16, summary);
	SET_TEXT(17, target);
	SET_TEXT(18, tool->def->owner);
	SET(19, proposal->meta != NULL, JsonbPGetDatum(proposal->meta));
	SET(20, expires_at != 0, TimestampTzGetDatum(expires_at));
	SET(21, true, TimestampTzGetDatum(now));
	SET_TEXT(22, key_place);
	SET(23, true, Int64GetDatum(al_fence_instance()));
	SET(24, proposal->not_before != 0, TimestampTzGetDatum(proposal->not_before));
	SET(25, true, BoolGetDatum(expiry_moves));
	SET(26, approval.reason != NULL, TimestampTzGetDatum(approval.until));
	SET_TEXT(27, approval.by);
	SET_TEXT(28, approval.reason);
#undef SET_TEXT
#undef SET
	if (!insert_waiting(values, nulls, identity))
		return false;

	if (approval.reason != NULL)
		due_at = approval.until;
	values[0] = Int64GetDatum(action_id);
	values[1] = Int32GetDatum(tool->service->service_id);
	values[2] = TimestampTzGetDatum(due_at);
	values[3] = Int16GetDatum((int16) proposal->priority);
	values[4] = BoolGetDatum(tool->def->external);
	(void) al_statement_run(&insert_due, values, NULL);
	al_wakeup_at_commit(due_at);

	story->action_id = action_id;
	story->status = AL_STATUS_PREPARED;
	story->step = approval.reason ? AL_STEP_APPROVE : AL_STEP_SEND;
	story->approver = al_approval_by_whom(approval.by, tool->def->owner);
	story->approval_reason = approval.reason;
	story->approve_by = approval.until;
	story->summary = summary;
	story->target = target;
	story->created_at = now;
	story->next_at = due_at;
	return true;
}

/* Runs the insert, bounding the wait for another transaction with the same identity. */
static bool
insert_waiting(Datum *values, const char *nulls, const char *identity)
{
	int			saved = LockTimeout;
	volatile bool inserted = false;

	if (LockTimeout == 0 || LockTimeout > al_identity_wait)
		LockTimeout = al_identity_wait;
	PG_TRY();
	{
		inserted = al_statement_run(&insert_action, values, nulls) > 0;
		LockTimeout = saved;
	}
	PG_CATCH();
	{
		LockTimeout = saved;
		if (geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE)
		{
			FlushErrorState();
			raise_held(identity);
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	return inserted;
}

/*
 * Finds the action that has the identity.  Raises LG007 when it is another
 * request, or one that the caller may not see.
 */
static bool
find_same(const AlTool *tool, const AlProposal *proposal, char *identity, const uint8 *hash, AlStory *story)
{
	Datum		values[2] = {Int32GetDatum(tool->service->service_id), CStringGetTextDatum(identity)};
	bytea	   *their_hash;
	bool		isnull;
	bool		same;

	if (al_statement_run(&select_same, values, NULL) == 0)
		return false;
	if (!al_may_see(proposal->requester, al_column_text(0, 4), al_column_text(0, 5)))
		ereport(ERROR,
				(errcode(AL_ERR_IDENTITY_CONFLICT),
				 errmsg("identity \"%s\" is taken", al_visible(identity)),
				 errdetail("An action that you may not see has it. Nothing was recorded."),
				 errhint("Ask its operators, or use an identity of your own for another operation.")));
	their_hash = DatumGetByteaPP(al_column(0, 3, &isnull));
	same = al_column_int4(0, 2) == tool->tool_id &&
		VARSIZE_ANY_EXHDR(their_hash) == AL_HASH_LEN &&
		memcmp(VARDATA_ANY(their_hash), hash, AL_HASH_LEN) == 0;
	if (!same)
		ereport(ERROR,
				(errcode(AL_ERR_IDENTITY_CONFLICT),
				 errmsg("identity \"%s\" stands for another request", al_visible(identity)),
				 errdetail("Action " INT64_FORMAT " has it, with %s, and is %s. Nothing was recorded.", al_column_int8(0, 1),
						   al_column_int4(0, 2) == tool->tool_id ? "other arguments" : "another tool", al_column_text(0, 6)),
				 errhint("To see it, SELECT actionledger.result(" INT64_FORMAT "); for another operation use another identity.",
						 al_column_int8(0, 1))));
	story->action_id = al_column_int8(0, 1);
	story->owner = al_column_text(0, 5);
	(void) al_status_parse(al_column_text(0, 6), &story->status);
	(void) al_step_parse(al_column_text(0, 7), &story->step);
	story->summary = al_column_text(0, 8);
	story->external_ref = al_column_text(0, 9);
	story->confirmed_by = al_column_text(0, 10);
	story->error_code = al_column_text(0, 11);
	story->error_message = al_column_text(0, 12);
	story->sends = al_column_int4(0, 13);
	story->created_at = al_column_int8(0, 14);
	story->cancelled = al_column_bool(0, 15);
	story->approve_by = al_column_int8(0, 16);
	story->approver = al_approval_by_whom(al_column_text(0, 17), story->owner);
	story->approval_reason = al_column_text(0, 18);
	story->target = al_column_text(0, 19);
	story->superseded_by = al_column_int8(0, 20);
	story->keyed = al_column_bool(0, 21);
	return true;
}

/* Raises for an identity that another transaction holds. */
static void
raise_held(const char *identity)
{
	ereport(ERROR,
			(errcode(AL_ERR_UNAVAILABLE),
			 errmsg("identity \"%s\" is held by another transaction", al_visible(identity)),
			 errdetail("A transaction that has recorded it has not ended within actionledger.identity_wait (or lock_timeout, where that is shorter). Nothing was recorded."),
			 errhint("Try again when that transaction has ended; a prepared transaction shows in pg_prepared_xacts.")));
}

/* Takes the next action number. */
static int64
next_action_id(void)
{
	Oid			sequence = get_relname_relid("action_seq", get_namespace_oid("actionledger", false));

	return nextval_internal(sequence, false);
}

/* Refuses an identity that could not be shown or sent. */
static void
check_identity(const char *identity)
{
	bool		printable = true;

	for (const char *c = identity; *c; c++)
		printable = printable && (unsigned char) *c >= 0x20 && *c != 0x7f;
	if (identity[0] != '\0' && strlen(identity) <= IDENTITY_MAX && printable)
		return;
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_IDENTITY),
			 errmsg("identity of an action must be 1 to %d bytes without control characters", IDENTITY_MAX),
			 errdetail("It has %zu bytes%s. Nothing was recorded.", strlen(identity), printable ? "" : " and holds control characters"),
			 errhint("Use what names the operation in your application, such as refund:RR-88.")));
}

/* Refuses a request for a service that is being left alone. */
static void
check_available(const AlTool *tool)
{
	AlRosterBreaker breaker;

	if (tool->pause != NULL && tool->pause->sends)
		ereport(ERROR,
				(errcode(AL_ERR_UNAVAILABLE),
				 errmsg("service \"%s\" is unavailable", tool->service->name),
				 errdetail("The %s. Nothing was recorded.", al_words_pause(tool->pause)),
				 errhint("Do something else first, or leave if_unavailable out to have the action queued.")));
	/* An executor does not ask the breaker. */
	if (tool->def->external || !al_roster_breaker(MyDatabaseId, tool->service->service_id, &breaker) || !breaker.open)
		return;
	ereport(ERROR,
			(errcode(AL_ERR_UNAVAILABLE),
			 errmsg("service \"%s\" is unavailable", tool->service->name),
			 errdetail("It failed %d times in a row; the next probe goes at %s. Nothing was recorded.",
					   breaker.failures, al_words_time(breaker.probe_at)),
			 errhint("Do something else first, or leave if_unavailable out to have the action queued.")));
}
