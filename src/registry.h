/*
 * registry.h
 *		Services and tools, parsed once per process and kept until one changes.
 */
#ifndef AL_REGISTRY_H
#define AL_REGISTRY_H

#include "postgres.h"
#include "nodes/pg_list.h"

#include "utils/uuid.h"

#include "definition.h"
#include "pause.h"

typedef struct AlService
{
	int32		service_id;
	char	   *name;
	AlServiceDef *def;
	uint64		digest;			/* of its definition */
} AlService;

typedef struct AlTool
{
	int32		tool_id;
	char	   *name;
	bool		dropped;
	AlService  *service;
	AlToolDef  *def;
	const AlIdempotency *idempotency;	/* the tool's own, else the service's */
	List	   *grantees;		/* of char *: roles that may perform it */
	char	   *created_by;
	uint64		digest;			/* of its definition and its service's */
	AlPause    *pause;			/* NULL: none covers it */
} AlTool;

/*
 * Forget what has changed since the last call.  To be called once at the start
 * of a call or turn, inside a transaction; pointers got since then stay valid
 * until the transaction ends.
 */
extern void al_registry_refresh(void);

/* Find by name or number; NULL when there is none.  Needs an AlSession. */
extern AlTool *al_registry_tool(const char *name);
extern AlTool *al_registry_tool_by_id(int32 tool_id);

/*
 * The same without raising: NULL too when the definition cannot be read.  For
 * workers, which one bad definition must not stop.
 */
extern AlTool *al_registry_tool_guarded(int32 tool_id);
extern AlService *al_registry_service_guarded(int32 service_id);

/*
 * A tool to judge by when the real one cannot be read: non_idempotent, no key,
 * no retry, so that whatever is not certain reaches a person.
 */
extern AlTool *al_registry_cautious_tool(void);
extern AlService *al_registry_service_by_id(int32 service_id);

/* Whether a role may perform a tool: a grantee or a member of one, the one who created it, its owner, or a superuser. */
extern bool al_registry_may_perform(const AlTool *tool, Oid role);

/*
 * Where requests of this tool carry a key that the destination declares to
 * honour, such as "header Idempotency-Key"; NULL: nowhere.
 */
extern char *al_registry_key_place(const AlTool *tool);

/* Whether a request frozen with its key at a place carries it where it is honoured today. */
extern bool al_registry_key_counts(const AlTool *tool, const char *frozen_key_place);

/*
 * Whether an unknown outcome can be settled by sending again, given the place
 * of the key that is honoured today and was when the request was frozen.
 */
extern bool al_registry_resendable(const AlTool *tool, const char *frozen_key_place);

/* The namespace of this ledger's idempotency keys.  Needs an AlSession. */
extern const pg_uuid_t *al_registry_namespace(void);

/* A counter that moves whenever services or tools may have changed. */
extern uint64 al_registry_generation(void);

/* Tell every process that services or tools have changed, at commit. */
extern void al_registry_changed(void);

/* Install the invalidation callback; once per process. */
extern void al_registry_install(void);

#endif							/* AL_REGISTRY_H */
