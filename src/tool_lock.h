/*
 * tool_lock.h
 *		Keeping a tool what it is while actions of it are recorded.
 */
#ifndef AL_TOOL_LOCK_H
#define AL_TOOL_LOCK_H

/*
 * Keep a tool from being dropped, or carried elsewhere, until the transaction
 * ends; raises LG019 when somebody is about to.  What is known of the tool may
 * be older than the lock.
 */
extern void al_tool_lock_share(int32 tool_id, const char *name);

/*
 * Wait until every transaction that has recorded an action of a tool has ended,
 * and keep others from it until this one does; raises LG016 when that takes long.
 */
extern void al_tool_lock_exclusive(int32 tool_id, const char *name);

#endif							/* AL_TOOL_LOCK_H */
