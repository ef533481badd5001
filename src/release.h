/*
 * release.h
 *		Letting go of a database that is about to be dropped, renamed, moved or
 *		copied.
 */
#ifndef AL_RELEASE_H
#define AL_RELEASE_H

/* Watch utility statements; only while shared_preload_libraries is processed. */
extern void al_release_install(void);

#endif							/* AL_RELEASE_H */
