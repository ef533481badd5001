/*
 * databases.c
 *		Reading pg_db_role_setting without a database.
 *
 * The relation cache of a process that is connected to no database knows only
 * a few shared catalogs, and this is none of them.  So its pages are read
 * directly and judged by a snapshot, in the way in which CREATE DATABASE reads
 * another database's pg_class (dbcommands.c, ScanSourceDatabasePgClass).  What
 * is set for a role does not count: it is the database that sends.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_database.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/relmapper.h"
#include "utils/snapmgr.h"

#include "databases.h"

/* What one row of the catalog says. */
typedef struct Setting
{
	Oid			database;
	AlDatabaseWish wish;
} Setting;

static List *scan_settings(void);
static List *scan_page(Buffer buffer, TupleDesc descriptor, Snapshot snapshot, List *found);
static AlDatabaseWish read_wish(Datum config);
static TupleDesc setting_descriptor(void);
static BlockNumber setting_blocks(void);
static Buffer read_setting_block(BlockNumber block);

/* Sorts the databases for which something is set. */
void
al_databases_read(List **on, List **off)
{
	ListCell   *cell;

	*on = *off = NIL;
	foreach(cell, scan_settings())
	{
		Setting    *setting = lfirst(cell);

		if (setting->wish == AL_DATABASE_OFF)
			*off = lappend_oid(*off, setting->database);
		else if (al_database_connectable(setting->database))
			*on = lappend_oid(*on, setting->database);
	}
}

/* Finds what is set for a database. */
AlDatabaseWish
al_database_wish(Oid database)
{
	ListCell   *cell;

	foreach(cell, scan_settings())
	{
		Setting    *setting = lfirst(cell);

		if (setting->database == database)
			return setting->wish;
	}
	return AL_DATABASE_UNSET;
}

/* Lets the launcher find this database. */
void
al_database_enable(void)
{
	VariableSetStmt *statement;
	A_Const    *value;

	if (al_database_wish(MyDatabaseId) != AL_DATABASE_UNSET)
		return;
	value = makeNode(A_Const);
	value->val.sval.type = T_String;
	value->val.sval.sval = pstrdup("on");
	value->location = -1;
	statement = makeNode(VariableSetStmt);
	statement->kind = VAR_SET_VALUE;
	statement->name = pstrdup("actionledger.enabled");
	statement->args = list_make1(value);
	AlterSetting(MyDatabaseId, InvalidOid, statement);
}

/* Lists the databases for which something is set. */
static List *
scan_settings(void)
{
	Snapshot	snapshot;
	TupleDesc	descriptor = setting_descriptor();
	List	   *found = NIL;
	BlockNumber n_blocks;

	LockRelationOid(DbRoleSettingRelationId, AccessShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	n_blocks = setting_blocks();
	for (BlockNumber block = 0; block < n_blocks; block++)
	{
		Buffer		buffer = read_setting_block(block);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		found = scan_page(buffer, descriptor, snapshot, found);
		UnlockReleaseBuffer(buffer);
	}
	UnregisterSnapshot(snapshot);
	UnlockRelationOid(DbRoleSettingRelationId, AccessShareLock);
	return found;
}

/* Tells whether a database exists and accepts connections. */
bool
al_database_connectable(Oid database)
{
	Relation	relation = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(relation, 0, NULL);
	HeapTuple	tuple;
	bool		connectable = false;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (form->oid == database)
			connectable = form->datallowconn;
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	return connectable;
}

/* Adds what the rows on a page say of databases. */
static List *
scan_page(Buffer buffer, TupleDesc descriptor, Snapshot snapshot, List *found)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber last;

	if (PageIsNew(page) || PageIsEmpty(page))
		return found;
	last = PageGetMaxOffsetNumber(page);
	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset = OffsetNumberNext(offset))
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;
		Datum		values[Natts_pg_db_role_setting];
		bool		nulls[Natts_pg_db_role_setting];
		Setting		setting;

		if (!ItemIdIsNormal(item))
			continue;
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), offset);
		tuple.t_tableOid = DbRoleSettingRelationId;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		if (!HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			continue;
		heap_deform_tuple(&tuple, descriptor, values, nulls);
		if (!OidIsValid(DatumGetObjectId(values[Anum_pg_db_role_setting_setrole - 1])) &&
			!nulls[Anum_pg_db_role_setting_setconfig - 1])
		{
			setting.database = DatumGetObjectId(values[Anum_pg_db_role_setting_setdatabase - 1]);
			setting.wish = read_wish(values[Anum_pg_db_role_setting_setconfig - 1]);
			if (setting.wish != AL_DATABASE_UNSET)
				found = lappend(found, memcpy(palloc(sizeof(Setting)), &setting, sizeof(Setting)));
		}
	}
	return found;
}

/*
 * Reads what a list of settings says.  A list so long that it is stored out of
 * line cannot be read here: that database gets a worker, which sees its own
 * setting and leaves if it is off.
 */
static AlDatabaseWish
read_wish(Datum config)
{
	static const char name[] = "actionledger.enabled=";
	Datum	   *elements;
	int			n;
	bool		enabled;
	AlDatabaseWish wish = AL_DATABASE_UNSET;

	if (VARATT_IS_EXTERNAL(DatumGetPointer(config)))
		return AL_DATABASE_UNREADABLE;
	deconstruct_array(DatumGetArrayTypeP(config), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *setting = TextDatumGetCString(elements[i]);

		if (strncmp(setting, name, strlen(name)) == 0 && parse_bool(setting + strlen(name), &enabled))
			wish = enabled ? AL_DATABASE_ON : AL_DATABASE_OFF;
	}
	return wish;
}

/* Describes the rows of pg_db_role_setting; an oid is laid out as an int4. */
static TupleDesc
setting_descriptor(void)
{
	TupleDesc	descriptor = CreateTemplateTupleDesc(Natts_pg_db_role_setting);

	TupleDescInitBuiltinEntry(descriptor, Anum_pg_db_role_setting_setdatabase, "setdatabase", INT4OID, -1, 0);
	TupleDescInitBuiltinEntry(descriptor, Anum_pg_db_role_setting_setrole, "setrole", INT4OID, -1, 0);
	TupleDescInitBuiltinEntry(descriptor, Anum_pg_db_role_setting_setconfig, "setconfig", TEXTARRAYOID, -1, 0);
	return descriptor;
}

#if PG_VERSION_NUM >= 160000

/* Locates the catalog's file. */
static RelFileLocator
setting_file(void)
{
	RelFileLocator file = {
		.spcOid = GLOBALTABLESPACE_OID,
		.dbOid = InvalidOid,
		.relNumber = RelationMapOidToFilenumber(DbRoleSettingRelationId, true)
	};

	return file;
}
#else

/* Locates the catalog's file. */
static RelFileNode
setting_file(void)
{
	RelFileNode file = {
		.spcNode = GLOBALTABLESPACE_OID,
		.dbNode = InvalidOid,
		.relNode = RelationMapOidToFilenode(DbRoleSettingRelationId, true)
	};

	return file;
}
#endif

/* Counts the catalog's pages. */
static BlockNumber
setting_blocks(void)
{
#if PG_VERSION_NUM >= 170000
	SMgrRelation file = smgropen(setting_file(), INVALID_PROC_NUMBER);
#else
	SMgrRelation file = smgropen(setting_file(), InvalidBackendId);
#endif
	BlockNumber n = smgrnblocks(file, MAIN_FORKNUM);

	smgrclose(file);
	return n;
}

/* Reads one of the catalog's pages. */
static Buffer
read_setting_block(BlockNumber block)
{
	return ReadBufferWithoutRelcache(setting_file(), MAIN_FORKNUM, block, RBM_NORMAL, NULL, true);
}
