/*
 * registry.c
 *		The cache of services and tools.
 *
 * Entries are filled on first use.  A change sends a relation cache
 * invalidation for actionledger.tool; the next al_registry_refresh() drops the
 * cache, which lives on until the end of the transaction for those who still
 * point into it.  It outlives transactions, so it is filled with what is
 * committed now, never with what an old snapshot shows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "authority.h"
#include "errors.h"
#include "registry.h"
#include "session.h"
#include "visible.h"

PG_FUNCTION_INFO_V1(al_ledger_replace);

typedef struct ToolEntry
{
	int32		tool_id;
	AlTool	   *tool;
} ToolEntry;

typedef struct ServiceEntry
{
	int32		service_id;
	AlService  *service;
} ServiceEntry;

typedef struct NameEntry
{
	char		name[NAMEDATALEN * 2];
	int32		tool_id;
} NameEntry;

#define TOOL_COLUMNS \
	"SELECT t.tool_id, t.name, t.dropped_at IS NOT NULL, t.service_id, t.request, t.action_type::pg_catalog.text, " \
	"t.identity, t.input, t.options, t.created_by, " \
	"ARRAY(SELECT g.role FROM actionledger.tool_grant g WHERE g.tool_id OPERATOR(pg_catalog.=) t.tool_id) " \
	"FROM actionledger.tool t "

static AlStatement select_tool_by_name = {
	TOOL_COLUMNS "WHERE t.name OPERATOR(pg_catalog.=) $1 AND t.dropped_at IS NULL", 1, {TEXTOID}
};
static AlStatement select_tool_by_id = {
	TOOL_COLUMNS "WHERE t.tool_id OPERATOR(pg_catalog.=) $1", 1, {INT4OID}
};
static AlStatement select_service = {
	"SELECT s.name, s.base_url, s.options FROM actionledger.service s WHERE s.service_id OPERATOR(pg_catalog.=) $1",
	1, {INT4OID}
};

static AlStatement select_pause = {
	"SELECT p.sends, p.lookups, p.scope, p.name, p.reason, p.paused_by, p.paused_at FROM actionledger._paused p "
	"WHERE p.tool_id OPERATOR(pg_catalog.=) $1",
	1, {INT4OID}
};
static AlStatement select_namespace = {
	"SELECT l.namespace FROM actionledger.ledger l", 0, {0}
};
static AlStatement delete_ledger = {
	"DELETE FROM actionledger.ledger", 0, {0}
};

static MemoryContext cache_context = NULL;
static pg_uuid_t *ledger_namespace;	/* in the cache; NULL: not read yet */
static HTAB *tools;				/* by number */
static HTAB *names;				/* name to number */
static HTAB *services;			/* by number */
static Oid	tool_relation = InvalidOid;
static uint64 generation = 1;
static uint64 cached_generation = 0;

static void on_relation_change(Datum arg, Oid relation);
static HTAB *create_table(const char *name, Size key, Size entry, int flags);
static AlTool *load_tool(void);
static AlPause *load_pause(int32 tool_id);
static void *guarded(void *(*find) (int32), int32 number);
static void *find_tool(int32 tool_id);
static void *find_service(int32 service_id);
static List *text_array_to_list(uint64 row, int column);
static uint64 digest(const void *bytes, size_t len, uint64 before);

/* Installs the invalidation callback. */
void
al_registry_install(void)
{
	CacheRegisterRelcacheCallback(on_relation_change, (Datum) 0);
}

/* Counts a change of any relation that may be ours. */
static void
on_relation_change(Datum arg, Oid relation)
{
	if (!OidIsValid(relation) || !OidIsValid(tool_relation) || relation == tool_relation)
		generation++;
}

/* Gives the counter of changes. */
uint64
al_registry_generation(void)
{
	return generation;
}

/* Announces a change to every process, at commit. */
void
al_registry_changed(void)
{
	Oid			relation = get_relname_relid("tool", get_namespace_oid("actionledger", false));

	CacheInvalidateRelcacheByRelid(relation);
	generation++;
}

/* Drops the cache when something has changed. */
void
al_registry_refresh(void)
{
	Oid			namespace_id;

	AcceptInvalidationMessages();
	if (cache_context != NULL && cached_generation == generation)
		return;
	if (cache_context != NULL)
		MemoryContextSetParent(cache_context, TopTransactionContext);
	cache_context = NULL;
	namespace_id = get_namespace_oid("actionledger", true);
	tool_relation = OidIsValid(namespace_id) ? get_relname_relid("tool", namespace_id) : InvalidOid;
	cached_generation = generation;
	ledger_namespace = NULL;

	cache_context = AllocSetContextCreate(CacheMemoryContext, "actionledger registry", ALLOCSET_DEFAULT_SIZES);
	tools = create_table("actionledger tools", sizeof(int32), sizeof(ToolEntry), HASH_BLOBS);
	services = create_table("actionledger services", sizeof(int32), sizeof(ServiceEntry), HASH_BLOBS);
	names = create_table("actionledger tool names", NAMEDATALEN * 2, sizeof(NameEntry), HASH_STRINGS);
}

/* Finds a tool that has not been dropped by its name. */
AlTool *
al_registry_tool(const char *name)
{
	NameEntry  *entry;
	Datum		value;
	AlTool	   *tool;

	if (strlen(name) >= NAMEDATALEN * 2)
		return NULL;
	entry = hash_search(names, name, HASH_FIND, NULL);
	if (entry != NULL)
		return al_registry_tool_by_id(entry->tool_id);
	value = CStringGetTextDatum(name);
	if (al_statement_read_latest(&select_tool_by_name, &value) == 0)
		return NULL;
	tool = load_tool();
	entry = hash_search(names, name, HASH_ENTER, NULL);
	entry->tool_id = tool->tool_id;
	return tool;
}

/* Finds a tool by its number, dropped or not. */
AlTool *
al_registry_tool_by_id(int32 tool_id)
{
	ToolEntry  *entry = hash_search(tools, &tool_id, HASH_FIND, NULL);
	Datum		value = Int32GetDatum(tool_id);

	if (entry != NULL)
		return entry->tool;
	if (al_statement_read_latest(&select_tool_by_id, &value) == 0)
		return NULL;
	return load_tool();
}

/* Finds a service by its number. */
AlService *
al_registry_service_by_id(int32 service_id)
{
	ServiceEntry *entry = hash_search(services, &service_id, HASH_FIND, NULL);
	Datum		value = Int32GetDatum(service_id);
	AlService  *service;
	MemoryContext old;
	char	   *name;
	char	   *base_url;
	Jsonb	   *options;
	bool		isnull;

	if (entry != NULL)
		return entry->service;
	if (al_statement_read_latest(&select_service, &value) == 0)
		return NULL;
	name = al_column_text(0, 1);
	base_url = al_column_text(0, 2);
	options = DatumGetJsonbP(al_column(0, 3, &isnull));

	old = MemoryContextSwitchTo(cache_context);
	service = palloc0(sizeof(AlService));
	service->service_id = service_id;
	service->name = pstrdup(name);
	service->def = al_service_parse(name, base_url, options);
	service->digest = digest(options, VARSIZE_ANY(options), digest(base_url, strlen(base_url), 0));
	MemoryContextSwitchTo(old);

	entry = hash_search(services, &service_id, HASH_ENTER, NULL);
	entry->service = service;
	return service;
}

/* Finds a tool without raising. */
AlTool *
al_registry_tool_guarded(int32 tool_id)
{
	ToolEntry  *entry = hash_search(tools, &tool_id, HASH_FIND, NULL);

	return entry ? entry->tool : guarded(find_tool, tool_id);
}

/* Gives a tool to judge by when the real one cannot be read. */
AlTool *
al_registry_cautious_tool(void)
{
	static AlIdempotency no_key = {.place = AL_KEY_PLACE_NONE};
	static AlToolDef def = {
		.name = "", .type = AL_TYPE_NON_IDEMPOTENT, .timeout_ms = 1, .attempts = 1, .base_ms = 1000, .cap_ms = 1000
	};
	static AlTool tool = {.name = "", .def = &def, .idempotency = &no_key};

	return &tool;
}

/* Finds a service without raising. */
AlService *
al_registry_service_guarded(int32 service_id)
{
	ServiceEntry *entry = hash_search(services, &service_id, HASH_FIND, NULL);

	return entry ? entry->service : guarded(find_service, service_id);
}

/* Gives the namespace of this ledger's keys. */
const pg_uuid_t *
al_registry_namespace(void)
{
	bool		isnull;

	if (ledger_namespace != NULL)
		return ledger_namespace;
	if (al_statement_run(&select_namespace, NULL, NULL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the ledger has no identity"),
				 errdetail("Table actionledger.ledger has no row."),
				 errhint("Restore it from the dump that this ledger came from: its keys depend on it.")));
	ledger_namespace = MemoryContextAlloc(cache_context, sizeof(pg_uuid_t));
	*ledger_namespace = *DatumGetUUIDP(al_column(0, 1, &isnull));
	return ledger_namespace;
}

/*
 * Trigger before insert on actionledger.ledger: the row of a restored dump takes
 * the place of the one that CREATE EXTENSION made, and every process learns it.
 */
Datum
al_ledger_replace(PG_FUNCTION_ARGS)
{
	AlSession	session;

	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "al_ledger_replace is a trigger function");
	/* CREATE EXTENSION inserts the first row before the other tables are there. */
	if (OidIsValid(get_relname_relid("action", get_namespace_oid("actionledger", false))))
	{
		al_session_begin(&session, true);
		(void) al_statement_run(&delete_ledger, NULL, NULL);
		al_registry_changed();
		al_session_end(&session);
	}
	PG_RETURN_POINTER(((TriggerData *) fcinfo->context)->tg_trigtuple);
}

/* Tells whether a role may perform a tool. */
bool
al_registry_may_perform(const AlTool *tool, Oid role)
{
	ListCell   *cell;

	if (superuser_arg(role) || al_role_is(role, tool->created_by) || al_role_is(role, tool->def->owner))
		return true;
	foreach(cell, tool->grantees)
	{
		if (al_role_is(role, lfirst(cell)))
			return true;
	}
	return false;
}

/* Says where requests of a tool carry a key that is honoured. */
char *
al_registry_key_place(const AlTool *tool)
{
	static const char *const places[] = {
		[AL_KEY_PLACE_HEADER] = "header",
		[AL_KEY_PLACE_BODY] = "body",
		[AL_KEY_PLACE_QUERY] = "query",
		[AL_KEY_PLACE_NONE] = NULL
	};
	const AlIdempotency *key = tool->idempotency;

	if (!key->honoured || places[key->place] == NULL)
		return NULL;
	return psprintf("%s %s", places[key->place], key->name);
}

/*
 * Tells whether an unknown outcome can be settled by sending again.  A request
 * that was frozen before the destination declared its keys, or declared them
 * elsewhere, does not carry a key that counts.
 */
bool
al_registry_resendable(const AlTool *tool, const char *frozen_key_place)
{
	switch (tool->def->type)
	{
		case AL_TYPE_READ_ONLY:
		case AL_TYPE_IDEMPOTENT:
			return true;
		case AL_TYPE_NON_IDEMPOTENT:
			return al_registry_key_counts(tool, frozen_key_place);
		case AL_TYPE_IRREVERSIBLE:
			return false;
	}
	return false;
}

/* Tells whether a frozen request carries its key where it is honoured today. */
bool
al_registry_key_counts(const AlTool *tool, const char *frozen_key_place)
{
	char	   *place = frozen_key_place ? al_registry_key_place(tool) : NULL;
	bool		counts = place != NULL && pg_strcasecmp(place, frozen_key_place) == 0;

	if (place != NULL)
		pfree(place);
	return counts;
}

/* Finds something in a subtransaction, NULL and a log line when that raises. */
static void *
guarded(void *(*find) (int32), int32 number)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	void	   *volatile found = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		found = find(number);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		/* A client that got an error would take its statement for failed. */
		error->elevel = WARNING;
		al_visible_error(error);
		ThrowErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return found;
}

/* Finds a tool, for guarded(). */
static void *
find_tool(int32 tool_id)
{
	return al_registry_tool_by_id(tool_id);
}

/* Finds a service, for guarded(). */
static void *
find_service(int32 service_id)
{
	return al_registry_service_by_id(service_id);
}

/* Creates one of the cache's hash tables. */
static HTAB *
create_table(const char *name, Size key, Size entry, int flags)
{
	HASHCTL		control = {.keysize = key, .entrysize = entry, .hcxt = cache_context};

	return hash_create(name, 64, &control, HASH_ELEM | HASH_CONTEXT | flags);
}

/* Takes the tool of the current result row into the cache. */
static AlTool *
load_tool(void)
{
	AlTool	   *tool;
	ToolEntry  *entry;
	bool		isnull;
	int32		service_id = al_column_int4(0, 4);
	char	   *name = al_column_text(0, 2);
	char	   *request = al_column_text(0, 5);
	char	   *type = al_column_text(0, 6);
	char	   *identity = al_column_text(0, 7);
	Jsonb	   *input = DatumGetJsonbPCopy(al_column(0, 8, &isnull));
	Jsonb	   *options = DatumGetJsonbPCopy(al_column(0, 9, &isnull));
	MemoryContext old = MemoryContextSwitchTo(cache_context);

	tool = palloc0(sizeof(AlTool));
	tool->tool_id = al_column_int4(0, 1);
	tool->name = pstrdup(name);
	tool->dropped = al_column_bool(0, 3);
	tool->created_by = al_column_text(0, 10);
	tool->created_by = pstrdup(tool->created_by ? tool->created_by : "");
	tool->grantees = text_array_to_list(0, 11);
	tool->def = al_tool_parse(name, request, type, identity, input, options);
	MemoryContextSwitchTo(old);

	tool->service = al_registry_service_by_id(service_id);
	if (tool->service == NULL)
		elog(ERROR, "tool \"%s\" has no service", name);
	tool->idempotency = tool->def->has_idempotency ? &tool->def->idempotency : &tool->service->def->idempotency;

	tool->digest = digest(options, VARSIZE_ANY(options), digest(input, VARSIZE_ANY(input), tool->service->digest));
	tool->pause = load_pause(tool->tool_id);

	entry = hash_search(tools, &tool->tool_id, HASH_ENTER, NULL);
	entry->tool = tool;
	return tool;
}

/* Takes the pause that covers a tool into the cache; NULL for none. */
static AlPause *
load_pause(int32 tool_id)
{
	Datum		value = Int32GetDatum(tool_id);
	AlPause    *pause;
	MemoryContext old;

	if (al_statement_read_latest(&select_pause, &value) == 0)
		return NULL;
	old = MemoryContextSwitchTo(cache_context);
	pause = palloc0(sizeof(AlPause));
	pause->sends = al_column_bool(0, 1);
	pause->lookups = al_column_bool(0, 2);
	pause->subject = al_pause_subject(al_column_text(0, 3), al_column_text(0, 4));
	pause->reason = al_column_text(0, 5);
	pause->by = al_column_text(0, 6);
	pause->at = al_column_int8(0, 7);
	MemoryContextSwitchTo(old);
	return pause;
}

/* Digests bytes, and what came before them. */
static uint64
digest(const void *bytes, size_t len, uint64 before)
{
	return hash_bytes_extended(bytes, (int) len, before);
}

/* Copies a text array column into a list in the current context. */
static List *
text_array_to_list(uint64 row, int column)
{
	bool		isnull;
	Datum		array = al_column(row, column, &isnull);
	Datum	   *elements;
	int			n;
	List	   *list = NIL;

	if (isnull)
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
		list = lappend(list, TextDatumGetCString(elements[i]));
	return list;
}
