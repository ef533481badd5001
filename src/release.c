/*
 * release.c
 *		Letting go of a database that is about to be dropped, renamed, moved or
 *		copied.
 *
 * These statements need a database to which nobody is connected, and give up
 * after five seconds.  So its dispatchers are asked to end before, and the
 * launcher starts none until the statement is over.  Who may not run the
 * statement disturbs nobody.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "clock.h"
#include "errors.h"
#include "release.h"
#include "roster.h"
#include "session.h"
#include "settings.h"

#define GRACE_MS 5000			/* for workers to end, beyond their drain timeout */
#define LOOK_MS 20

static AlStatement count_live = {
	"SELECT pg_catalog.count(*) FROM actionledger.due", 0, {0}
};

static ProcessUtility_hook_type previous_utility = NULL;
static bool launcher_must_look = false;

static void utility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion);
static void pass_on(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion);
static void on_xact(XactEvent event, void *arg);
static pg_noinline Oid needed_alone(Node *statement);
static Oid	copied_by(const CreatedbStmt *statement);
static bool changes_database(Node *statement);
static bool owns_database(Oid database);
static bool may_create_databases(void);
static void let_go(Oid database);
static void refuse_loss(const DropStmt *statement);

/* Installs the hook. */
void
al_release_install(void)
{
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	RegisterXactCallback(on_xact, NULL);
}

/* Runs a utility statement, with the database that it is about for itself. */
static void
utility(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
		ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	Oid			database = al_roster ? needed_alone(statement->utilityStmt) : InvalidOid;

	if (IsA(statement->utilityStmt, DropStmt))
		refuse_loss((DropStmt *) statement->utilityStmt);
	if (al_roster != NULL && changes_database(statement->utilityStmt))
		launcher_must_look = true;
	if (!OidIsValid(database) || !al_roster_hold(database))
	{
		pass_on(statement, query, read_only_tree, context, params, environment, receiver, completion);
		return;
	}
	PG_TRY();
	{
		let_go(database);
		pass_on(statement, query, read_only_tree, context, params, environment, receiver, completion);
	}
	PG_FINALLY();
	{
		al_roster_unhold(database);
	}
	PG_END_TRY();
}

/* Runs a utility statement as it would be run without us. */
static void
pass_on(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
		ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	if (previous_utility)
		previous_utility(statement, query, read_only_tree, context, params, environment, receiver, completion);
	else
		standard_ProcessUtility(statement, query, read_only_tree, context, params, environment, receiver, completion);
}

/* Has the launcher look at the databases again, once what has changed is committed. */
static void
on_xact(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (launcher_must_look && event == XACT_EVENT_COMMIT)
		al_roster_poke_launcher();
	launcher_must_look = false;
}

/* Finds the database that a statement needs without anybody else connected, if the user may run it. */
static Oid
needed_alone(Node *statement)
{
	const char *name = NULL;
	Oid			database;

	if (IsA(statement, CreatedbStmt))
		return copied_by((CreatedbStmt *) statement);
	if (IsA(statement, DropdbStmt))
		name = ((DropdbStmt *) statement)->dbname;
	else if (IsA(statement, RenameStmt) && ((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
		name = ((RenameStmt *) statement)->subname;
	else if (IsA(statement, AlterDatabaseStmt))
	{
		ListCell   *cell;

		foreach(cell, ((AlterDatabaseStmt *) statement)->options)
		{
			if (strcmp(lfirst_node(DefElem, cell)->defname, "tablespace") == 0)
				name = ((AlterDatabaseStmt *) statement)->dbname;
		}
	}
	database = name ? get_database_oid(name, true) : InvalidOid;
	return OidIsValid(database) && database != MyDatabaseId && owns_database(database) ? database : InvalidOid;
}

/* Finds the database that CREATE DATABASE copies. */
static Oid
copied_by(const CreatedbStmt *statement)
{
	const char *template = "template1";
	HeapTuple	tuple;
	ListCell   *cell;
	bool		may_copy = false;
	Oid			database;

	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			template = defGetString(option);
	}
	database = get_database_oid(template, true);
	if (!OidIsValid(database) || database == MyDatabaseId || !may_create_databases())
		return InvalidOid;
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (HeapTupleIsValid(tuple))
	{
		may_copy = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate || owns_database(database);
		ReleaseSysCache(tuple);
	}
	return may_copy ? database : InvalidOid;
}

/* Tells whether a statement may change which databases have dispatchers. */
static bool
changes_database(Node *statement)
{
	return IsA(statement, AlterDatabaseStmt) || IsA(statement, AlterDatabaseSetStmt) ||
		(IsA(statement, DropStmt) && ((DropStmt *) statement)->removeType == OBJECT_EXTENSION);
}

/* Tells whether the user owns a database. */
static bool
owns_database(Oid database)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, GetUserId());
#else
	return pg_database_ownercheck(database, GetUserId());
#endif
}

/* Tells whether the user may create databases. */
static bool
may_create_databases(void)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	bool		may = superuser();

	if (HeapTupleIsValid(tuple))
	{
		may = may || ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/* Ends the dispatchers of a database and waits, for a bounded time, until they have gone. */
static void
let_go(Oid database)
{
	int64		end = al_clock_elapsed() + INT64CONST(1000) * (al_drain_timeout + GRACE_MS);

	while (al_roster_dismiss(database) > 0 && al_clock_elapsed() < end)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Refuses to drop the extension while actions are live, unless CASCADE says that this is meant. */
static void
refuse_loss(const DropStmt *statement)
{
	Oid			extension = InvalidOid;
	ListCell   *cell;
	AlSession	session;
	int64		live;

	if (statement->removeType != OBJECT_EXTENSION || statement->behavior == DROP_CASCADE)
		return;
	foreach(cell, statement->objects)
	{
		if (strcmp(strVal(lfirst(cell)), "actionledger") == 0)
			extension = get_extension_oid("actionledger", true);
	}
	if (!OidIsValid(extension) ||
#if PG_VERSION_NUM >= 160000
		!object_ownercheck(ExtensionRelationId, extension, GetUserId()))
#else
		!pg_extension_ownercheck(extension, GetUserId()))
#endif
		return;
	al_session_begin(&session, true);
	(void) al_statement_run(&count_live, NULL, NULL);
	live = al_column_int8(0, 1);
	al_session_end(&session);
	if (live > 0)
		ereport(ERROR,
				(errcode(AL_ERR_IN_USE),
				 errmsg_plural("the ledger has %d live action", "the ledger has %d live actions", (unsigned long) live, (int) live),
				 errdetail("Live actions are prepared, submitted or need reconciliation. What is known of them would be lost."),
				 errhint("Wait for them or decide them; or use DROP EXTENSION ... CASCADE: nothing is sent after it, "
						 "and nobody learns what has become of calls under way.")));
}
