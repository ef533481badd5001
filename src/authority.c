/*
 * authority.c
 *		Roles, as PostgreSQL keeps them: membership and EXECUTE privileges.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "authority.h"
#include "errors.h"

PG_FUNCTION_INFO_V1(al_sql_may_see);

static bool may_execute(Oid role, const char *name, const Oid *types, int n);

/* Finds the owner of the ledger's tables. */
Oid
al_owner_role(void)
{
	Oid			namespace_id = get_namespace_oid("actionledger", true);
	Oid			relation = OidIsValid(namespace_id) ? get_relname_relid("action", namespace_id) : InvalidOid;
	HeapTuple	tuple = OidIsValid(relation) ? SearchSysCache1(RELOID, ObjectIdGetDatum(relation)) : NULL;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"actionledger\" is not installed in this database"),
				 errhint("Run CREATE EXTENSION actionledger.")));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Gives the name of a role. */
char *
al_role_name(Oid role)
{
	char	   *name = GetUserNameFromId(role, true);

	return name ? name : pstrdup("(dropped)");
}

/* Tells whether a role is, or is a member of, the named role. */
bool
al_role_is(Oid role, const char *name)
{
	Oid			other = name ? get_role_oid(name, true) : InvalidOid;

	return OidIsValid(other) && has_privs_of_role(role, other);
}

/* Tells whether a role may decide about any action. */
bool
al_is_operator(Oid role)
{
	Oid			types[] = {INT8OID, TEXTOID, JSONBOID, TEXTOID, TEXTOID, BOOLOID};

	return superuser_arg(role) || may_execute(role, "resolve", types, lengthof(types));
}

/* Tells whether a role may define tools. */
bool
al_is_administrator(Oid role)
{
	Oid			types[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID, BOOLOID};

	return may_execute(role, "create_tool", types, lengthof(types));
}

/* Tells whether a role speaks for others; a superuser is taken for one that does. */
bool
al_speaks_for_others(Oid role)
{
	return may_execute(role, "speak_for_others", NULL, 0);
}

/* Tells whether a role may see an action. */
bool
al_may_see(Oid role, const char *requested_by, const char *owner)
{
	return al_role_is(role, requested_by) || al_role_is(role, owner) || al_is_operator(role);
}

/* _may_see(requested_by, owner): visibility for the current role, used by the views. */
Datum
al_sql_may_see(PG_FUNCTION_ARGS)
{
	char	   *requested_by = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *owner = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));

	PG_RETURN_BOOL(al_may_see(GetUserId(), requested_by, owner));
}

/* Tells whether a role may execute a function of the extension, which is how such rights are given. */
static bool
may_execute(Oid role, const char *name, const Oid *types, int n)
{
	oidvector  *vector = buildoidvector(types, n);
	Oid			namespace_id = get_namespace_oid("actionledger", true);
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										   CStringGetDatum(name), PointerGetDatum(vector),
										   ObjectIdGetDatum(namespace_id));

#if PG_VERSION_NUM >= 160000
	return OidIsValid(function) &&
		object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
	return OidIsValid(function) &&
		pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}
