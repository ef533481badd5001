/*
 * verb.h
 *		What the verbs of operators have in common (operate.c).
 */
#ifndef AL_VERB_H
#define AL_VERB_H

#include "postgres.h"
#include "fmgr.h"

#include "ledger.h"

/* The action that a verb is about: its first argument, LG014 when that is null. */
extern int64 al_verb_action(FunctionCallInfo fcinfo, const char *verb);

/* Refuse a decision without a note, which is an argument of that number; the hint says what to write. */
extern void al_verb_note(FunctionCallInfo fcinfo, int note, const char *verb, const char *hint);

/*
 * Lock and read an action that the caller may decide about.  LG014 when there
 * is none that the caller may see, LG012 when only operators may.
 */
extern AlStanding *al_verb_lock(int64 action_id, Oid caller, bool operator_only);

/* Refuse a decision about what is at rest, or not as expected (NULL: any): LG011. */
extern void al_verb_check_expected(const AlStanding *standing, const char *expected);

/* Append the event of a decision; note and evidence are argument numbers of the verb, -1 for none. */
extern void al_verb_event(int64 action_id, const char *what, AlStatus status, const char *by_whom,
						  FunctionCallInfo fcinfo, int note, int evidence);

/* The same with a note of its own. */
extern void al_verb_event_note(int64 action_id, const char *what, AlStatus status, const char *by_whom, const char *note);

/* The row that a verb returns. */
extern Datum al_verb_row(FunctionCallInfo fcinfo, int64 action_id, AlStatus status, AlStep step, const char *message);
extern Datum al_verb_tuple(TupleDesc descriptor, int64 action_id, AlStatus status, AlStep step, const char *message);

#endif							/* AL_VERB_H */
