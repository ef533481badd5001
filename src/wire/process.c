/*
 * process.c
 *		What the wire asks of the process it runs in.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "process.h"

/* Removes what would send requests elsewhere or write down session keys. */
void
al_process_clean_environment(void)
{
	char	  **entry = environ;

	(void) unsetenv("SSLKEYLOGFILE");
	while (entry && *entry)
	{
		size_t		len = strcspn(*entry, "=");
		char		name[64];

		if (len > 6 && len < sizeof(name) && strncasecmp(*entry + len - 6, "_proxy", 6) == 0)
		{
			memcpy(name, *entry, len);
			name[len] = '\0';
			if (unsetenv(name) == 0)
			{
				entry = environ;	/* it was rearranged */
				continue;
			}
		}
		entry++;
	}
}

/* Ignores SIGPIPE where it would end the process. */
void
al_process_ignore_sigpipe(void)
{
	struct sigaction action;

	if (sigaction(SIGPIPE, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
		action.sa_handler == SIG_DFL)
		(void) signal(SIGPIPE, SIG_IGN);
}

/* Blocks every signal but those that a fault of the running code raises. */
void
al_process_block_signals(sigset_t *before)
{
	sigset_t	all;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	sigdelset(&all, SIGTRAP);
	sigdelset(&all, SIGSYS);
	(void) pthread_sigmask(SIG_SETMASK, &all, before);
}

/* Brings back the mask from before. */
void
al_process_restore_signals(const sigset_t *before)
{
	(void) pthread_sigmask(SIG_SETMASK, before, NULL);
}
