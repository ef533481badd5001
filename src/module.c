/*
 * module.c
 *		Loading the library.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "launcher.h"
#include "registry.h"
#include "release.h"
#include "roster.h"
#include "settings.h"
#include "tally.h"
#include "wakeup.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/* Defines settings and, when preloaded, registers shared memory and the launcher. */
void
_PG_init(void)
{
	al_settings_define();
	al_wakeup_install();
	al_registry_install();
	if (process_shared_preload_libraries_in_progress)
	{
		al_roster_request();
		al_tally_request();
		al_release_install();
		al_launcher_register();
	}
}
