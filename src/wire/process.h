/*
 * process.h
 *		What the wire asks of the process it runs in.
 *
 * libcurl starts resolver threads, and a thread inherits the mask of the call
 * that starts it.  So all signals are blocked around every call, or a handler of
 * the process would one day run in such a thread.
 */
#ifndef AL_PROCESS_H
#define AL_PROCESS_H

#include <signal.h>

/* Unset *_proxy in any case, and SSLKEYLOGFILE. */
extern void al_process_clean_environment(void);

/* Ignore SIGPIPE unless the process handles it: OpenSSL writes without MSG_NOSIGNAL. */
extern void al_process_ignore_sigpipe(void);

extern void al_process_block_signals(sigset_t *before);
extern void al_process_restore_signals(const sigset_t *before);

#endif							/* AL_PROCESS_H */
