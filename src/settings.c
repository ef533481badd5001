/*
 * settings.c
 *		Definitions of the configuration parameters, in alphabetical order.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "rules/fault.h"
#include "settings.h"

bool		al_enabled = false;
bool		al_notify = true;
int			al_dispatchers = 1;
int			al_max_workers = 16;
int			al_max_unproven = 32;
int			al_poll_interval = 5000;
int			al_drain_timeout = 2000;
int			al_identity_wait = 5000;
int			al_max_request_size = 8192;
int			al_max_response_size = 256;
int			al_min_sync_standbys = 0;
int			al_refusal_retention = 43200;
char	   *al_secret_directory = NULL;

static void define_worker_settings(void);
static void define_call_settings(void);

#ifdef AL_FAULT_BUILD
static char *fault_plan = NULL;

/* Arms the fault points from the setting. */
static void
assign_fault(const char *newval, void *extra)
{
	al_fault_plan(newval);
}
#endif

/* Defines every parameter and reserves their prefix. */
void
al_settings_define(void)
{
	define_worker_settings();
	define_call_settings();
#ifdef AL_FAULT_BUILD
	al_fault_journal("actionledger.fault");	/* in the data directory */
	DefineCustomStringVariable("actionledger.fault",
							   "Fault builds only: moments at which the process dies.",
							   NULL, &fault_plan, "", PGC_SIGHUP, 0,
							   NULL, assign_fault, NULL);
#endif
	MarkGUCPrefixReserved("actionledger");
}

/* Defines what concerns the launcher and the dispatchers. */
static void
define_worker_settings(void)
{
	DefineCustomIntVariable("actionledger.dispatchers",
							"Number of dispatchers per database.",
							"Each service belongs to one of them.",
							&al_dispatchers, 1, 1, 16, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.drain_timeout",
							"How long a dispatcher that is told to stop waits for answers under way.",
							"What has not answered by then has an unknown outcome.",
							&al_drain_timeout, 2000, 0, 600000, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("actionledger.enabled",
							 "Whether dispatchers run in this database.",
							 "Set for the database by the first create_service(); meant for ALTER DATABASE only.",
							 &al_enabled, false, PGC_SUSET, 0, NULL, NULL, NULL);
	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomIntVariable("actionledger.max_workers",
							"Most dispatchers of all databases together.",
							"Each also takes one of max_worker_processes.",
							&al_max_workers, 16, 1, 256, PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/* Defines what concerns calls and what they may use up. */
static void
define_call_settings(void)
{
	DefineCustomIntVariable("actionledger.identity_wait",
							"How long perform() waits for another transaction that has recorded the same identity and has not ended.",
							NULL,
							&al_identity_wait, 5000, 1, 3600000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.max_request_size",
							"Largest request body and largest arguments of an action.",
							NULL,
							&al_max_request_size, 8192, 1, 102400, PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.max_response_size",
							"How much of an answer is read and kept.",
							"A longer answer is cut and flagged; its status still counts where no rule needs the body.",
							&al_max_response_size, 256, 1, 16384, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.max_unproven",
							"Most requests that are marked as submitted and not yet on the wire, for tools whose unknown outcome cannot be re-sent.",
							"Bounds what a crash puts into the review queue.",
							&al_max_unproven, 32, 1, 10000, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.min_sync_standbys",
							"Nothing is sent until so many standbys have flushed the mark.",
							"0 leaves it to synchronous_standby_names alone.",
							&al_min_sync_standbys, 0, 0, 64, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("actionledger.notify",
							 "Whether dispatchers send NOTIFY actionledger when actions have come to rest.",
							 "At most one in 100 ms for each dispatcher, with the number of outcomes.",
							 &al_notify, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.poll_interval",
							"How often a dispatcher looks for work that no wake-up has announced, such as COMMIT PREPARED.",
							NULL,
							&al_poll_interval, 5000, 10, 60000, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("actionledger.refusal_retention",
							"How long refused proposals of try_perform() are kept.",
							"Each refusal removes some that are older; -1 keeps all.",
							&al_refusal_retention, 43200, -1, INT_MAX / 2, PGC_SUSET, GUC_UNIT_MIN, NULL, NULL, NULL);
	DefineCustomStringVariable("actionledger.secret_directory",
							   "Directory whose files hold the secrets that services refer to as {secret:name}.",
							   "Read by the dispatcher at send time; never stored.",
							   &al_secret_directory, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
}
