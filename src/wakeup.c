/*
 * wakeup.c
 *		The wake list of a transaction.
 *
 * One entry per subtransaction level that made something due; the entry of an
 * aborted level is dropped, that of a committed one is merged into its parent.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "roster.h"
#include "wakeup.h"

typedef struct WakeLevel
{
	int			nest_level;
	TimestampTz due_at;
	struct WakeLevel *parent;
} WakeLevel;

static WakeLevel *levels = NULL;	/* in TopTransactionContext, deepest first */

static void on_xact(XactEvent event, void *arg);
static void on_subxact(SubXactEvent event, SubTransactionId subid,
					   SubTransactionId parent, void *arg);
static void raise_durability(void);

/* Installs the transaction callbacks. */
void
al_wakeup_install(void)
{
	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
}

/* Adds to the wake list of the current level. */
void
al_wakeup_at_commit(TimestampTz due_at)
{
	int			nest_level = GetCurrentTransactionNestLevel();

	if (levels == NULL || levels->nest_level < nest_level)
	{
		WakeLevel  *level = MemoryContextAlloc(TopTransactionContext, sizeof(WakeLevel));

		level->nest_level = nest_level;
		level->due_at = due_at;
		level->parent = levels;
		levels = level;
	}
	else if (due_at < levels->due_at)
		levels->due_at = due_at;
}

/* Wakes after commit, and makes the commit durable before it. */
static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (levels != NULL)
				raise_durability();
			break;
		case XACT_EVENT_COMMIT:
			if (levels != NULL)
			{
				TimestampTz due_at = levels->due_at;

				levels = NULL;
				(void) al_roster_wake(MyDatabaseId, due_at);
			}
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			levels = NULL;
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

/* Merges or drops the entry of a subtransaction that ends. */
static void
on_subxact(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int			nest_level = GetCurrentTransactionNestLevel();

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	if (levels == NULL || levels->nest_level < nest_level)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		levels = levels->parent;
	else if (levels->parent != NULL && levels->parent->nest_level == nest_level - 1)
	{
		levels->parent->due_at = Min(levels->parent->due_at, levels->due_at);
		levels = levels->parent;
	}
	else
		levels->nest_level = nest_level - 1;
}

/* Raises synchronous_commit to at least "on" for the commit at hand. */
static void
raise_durability(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
		(void) set_config_option("synchronous_commit", "on", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}
