/*
 * fence.c
 *		Recognising that this is a copy.
 *
 * The ledger has a home, the cluster and database that may send.  Besides, each
 * action carries its instance, a digest of the place where it was prepared:
 * rows that arrive before the row of the ledger does, or without it (a restored
 * dump, a logical subscription), are claimed by nobody.
 *
 * Device numbers and machine ids are not compared: they change on ordinary
 * reboots, and a false alarm stops a business.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority.h"
#include "databases.h"
#include "errors.h"
#include "fence.h"
#include "session.h"
#include "visible.h"
#include "wakeup.h"

PG_FUNCTION_INFO_V1(al_resume_dispatch);
PG_FUNCTION_INFO_V1(al_sql_instance);

static AlStatement select_home = {
	"SELECT system_id, database_id::bigint, timeline, control_inode, namespace FROM actionledger.ledger", 0, {0}
};
static AlStatement update_home = {
	"UPDATE actionledger.ledger SET system_id = $1, database_id = $2::oid, timeline = $3, control_inode = $4",
	4, {TEXTOID, INT8OID, INT4OID, INT8OID}
};
static AlStatement settle_home = {
	"UPDATE actionledger.ledger SET system_id = $1, database_id = $2::oid, timeline = $3, control_inode = $4 WHERE system_id IS NULL",
	4, {TEXTOID, INT8OID, INT4OID, INT8OID}
};
static AlStatement abandon_inherited = {
	"WITH live AS (SELECT a.action_id, a.claimed_by FROM actionledger.due d JOIN actionledger.action a USING (action_id) WHERE a.instance <> $3 FOR UPDATE OF a), "
	"ended AS (UPDATE actionledger.action a SET status = 'failed', next_step = 'none', claimed_by = NULL, finished_at = clock_timestamp(), "
	"  error_code = 'inherited', error_message = 'inherited by a copy of the database; never sent from here' "
	"  FROM live WHERE a.action_id = live.action_id RETURNING a.action_id), "
	"gone AS (DELETE FROM actionledger.due d USING ended e WHERE d.action_id = e.action_id) "
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note) SELECT action_id, 'inherited', 'failed'::actionledger.status, $1, $2 FROM ended "
	"UNION ALL SELECT action_id, 'left_open', 'failed', $1, 'a request may have been under way where this is a copy of' FROM live WHERE claimed_by > 0",
	3, {TEXTOID, TEXTOID, INT8OID}
};

/*
 * What was inherited may have been sent by the other one until now.  What was
 * not sent from here, and has consequences, is looked up before it is, where its
 * tool has a lookup; so is what waits here for a person, who may have approved or
 * mended it there.
 */
static AlStatement adopt_inherited = {
	"WITH live AS (SELECT a.action_id, a.status = 'prepared' AND "
	"                (a.next_step IN ('approve', 'blocked') OR (a.next_step = 'send' AND (a.attempts > 0 OR coalesce(d.held_at, d.next_at) <= clock_timestamp()))) "
	"                AND t.options ? 'lookup' AND t.action_type IN ('non_idempotent', 'irreversible') AS doubtful, "
	"    actionledger._duration(t.options ->> 'timeout', '30 s') AS timeout "
	"  FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id) "
	"  WHERE a.instance <> $3 FOR UPDATE OF a), "
	"adopted AS (UPDATE actionledger.action a SET instance = $3, doubted_at = clock_timestamp() + live.timeout, overridden = false, "
	"  status = CASE WHEN live.doubtful THEN 'needs_reconciliation' ELSE a.status END, "
	"  next_step = CASE WHEN live.doubtful THEN 'lookup' ELSE a.next_step END, "
	"  known = CASE WHEN live.doubtful THEN 'unknown' ELSE a.known END, "
	"  error_code = CASE WHEN live.doubtful THEN 'outcome_unknown' ELSE a.error_code END, "
	"  error_message = CASE WHEN live.doubtful THEN 'inherited; the other place may have sent it; it is looked up first' ELSE a.error_message END "
	"  FROM live WHERE a.action_id = live.action_id RETURNING a.action_id, a.status), "
	"released AS (UPDATE actionledger.due d SET next_at = least(coalesce(d.held_at, d.next_at), clock_timestamp()), held_at = NULL, external = false FROM live "
	"  WHERE d.action_id = live.action_id AND live.doubtful) "
	"INSERT INTO actionledger.event (action_id, what, status, by_whom, note) SELECT action_id, 'successor', status, $1, $2 FROM adopted",
	3, {TEXTOID, TEXTOID, INT8OID}
};

typedef struct Home
{
	char		system_id[32];
	int64		database_id;
	int32		timeline;
	int64		control_inode;
} Home;

static Home home_here(void);
static void write_home(AlStatement *statement, const Home *home);

/* Compares this cluster with the ledger's home. */
char *
al_fence_check(pg_uuid_t *namespace_id)
{
	Home		here = home_here();
	char	   *system_id;
	bool		isnull;

	if (al_statement_run(&select_home, NULL, NULL) == 0)
		return pstrdup("the ledger has no row that says where it may send from");
	*namespace_id = *DatumGetUUIDP(al_column(0, 5, &isnull));
	system_id = al_column_text(0, 1);
	if (system_id == NULL)
	{
		write_home(&settle_home, &here);
		return NULL;
	}
	if (strcmp(system_id, here.system_id) != 0)
		return psprintf("system identifier is %s, the ledger sent from %s", here.system_id, system_id);
	if (al_column_int8(0, 2) != here.database_id)
		return psprintf("database OID is " INT64_FORMAT ", the ledger sent from " INT64_FORMAT,
						here.database_id, al_column_int8(0, 2));
	if (al_column_int4(0, 3) != here.timeline)
		return psprintf("timeline is %d, the ledger sent from %d", here.timeline, al_column_int4(0, 3));
	if (al_column_int8(0, 4) != here.control_inode)
		return psprintf("inode of global/pg_control is " INT64_FORMAT ", the ledger sent from " INT64_FORMAT,
						here.control_inode, al_column_int8(0, 4));
	return NULL;
}

/* Makes this the ledger's home, when it has none. */
void
al_fence_settle(void)
{
	Home		here = home_here();

	write_home(&settle_home, &here);
}

/* Digests the place where this is. */
int64
al_fence_instance(void)
{
	static bool known = false;
	static int64 instance;

	if (!known)
	{
		Home		here = home_here();
		char	   *text = psprintf("%s/" INT64_FORMAT "/%d/" INT64_FORMAT, here.system_id, here.database_id,
									here.timeline, here.control_inode);

		instance = (int64) hash_bytes_extended((const unsigned char *) text, (int) strlen(text), 0);
		pfree(text);
		/* A standby is another place once it is promoted. */
		known = !RecoveryInProgress();
	}
	return instance;
}

/* _instance(): the digest of this place */
Datum
al_sql_instance(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(al_fence_instance());
}

/* resume_dispatch(mode, reason) */
Datum
al_resume_dispatch(PG_FUNCTION_ARGS)
{
	char	   *mode = PG_ARGISNULL(0) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *who = al_role_name(GetUserId());
	bool		copy = strcmp(mode, "copy") == 0;
	Home		here;
	Datum		values[3];
	AlSession	session;

	PreventCommandDuringRecovery("resume_dispatch()");
	here = home_here();
	values[0] = CStringGetTextDatum(who);
	values[1] = PG_GETARG_DATUM(1);
	values[2] = Int64GetDatum(al_fence_instance());

	if (!copy && strcmp(mode, "successor") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown way to resume: \"%s\"", al_visible(mode)),
				 errdetail("It is 'successor' or 'copy'."),
				 errhint("Say 'successor' when this database takes over and the other one will never send again; "
						 "'copy' when the other one goes on: everything inherited is then abandoned here.")));
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("resume_dispatch() needs a reason"),
				 errdetail("The reason is null. Nothing was changed."),
				 errhint("Say how you know what became of the other one; it is kept with the decision.")));
	al_session_begin(&session, true);
	(void) al_statement_run(copy ? &abandon_inherited : &adopt_inherited, values, NULL);
	write_home(&update_home, &here);
	al_database_enable();
	al_session_end(&session);
	al_wakeup_at_commit(GetCurrentTimestamp());
	PG_RETURN_TEXT_P(cstring_to_text(copy ? "inherited actions are abandoned; new ones are sent from here"
									 : "this database sends from now on; inherited submitted actions have unknown outcomes, prepared ones are looked up first where their tools have a lookup"));
}

/* Describes the cluster that this is. */
static Home
home_here(void)
{
	Home		here = {.database_id = MyDatabaseId, .timeline = (int32) GetWALInsertionTimeLine()};
	struct stat status;

	snprintf(here.system_id, sizeof(here.system_id), UINT64_FORMAT, GetSystemIdentifier());
	if (stat("global/pg_control", &status) == 0)
		here.control_inode = (int64) status.st_ino;
	return here;
}

/* Makes a cluster the ledger's home, by a statement with its four parts. */
static void
write_home(AlStatement *statement, const Home *home)
{
	Datum		values[4] = {
		CStringGetTextDatum(home->system_id), Int64GetDatum(home->database_id),
		Int32GetDatum(home->timeline), Int64GetDatum(home->control_inode)
	};

	(void) al_statement_run(statement, values, NULL);
}
