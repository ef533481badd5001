/*
 * ledger.h
 *		The one place where dispatch meets the tables.
 *
 * Every function runs set-based statements inside the dispatcher's
 * transaction.  Locks are taken on action rows first, always with SKIP LOCKED:
 * nobody's open transaction can hold up a dispatcher.
 */
#ifndef AL_LEDGER_H
#define AL_LEDGER_H

#include "postgres.h"
#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "rules/policy.h"
#include "rules/standstill.h"

/* What may be claimed from one service in a turn. */
typedef struct AlLot
{
	int32		service_id;
	int32		priority;		/* 1, 0 or -1 */
	int32		free;			/* at most so many */
	TimestampTz mark_at;		/* look only after (mark_at, mark_id) */
	int64		mark_id;
} AlLot;

/* The state of an action, locked in this transaction. */
typedef struct AlStanding
{
	int64		action_id;
	int32		tool_id;
	int32		service_id;
	AlStatus	status;
	AlStep		step;
	AlKnown		known;
	int			attempts;
	int			sends;
	int			lookups;
	int			lookups_before; /* of a budget that is closed */
	int			absences;		/* proved so far */
	int64		claimed_by;		/* 0: nobody */
	TimestampTz last_sent_at;	/* these eight: 0 for null */
	TimestampTz window_ends_at;
	TimestampTz key_ends_at;
	TimestampTz expires_at;
	TimestampTz cancelled_at;
	bool		expiry_moves;	/* with the clock */
	TimestampTz lookup_ends_at;
	TimestampTz doubted_at;		/* nobody waits for an answer since then; 0: not known */
	TimestampTz approve_by;		/* until when a person may approve; 0: none needs to, or one has */
	bool		overridden;		/* a person has decided that it is sent once more */
	char	   *key_place;		/* where the frozen request carries an honoured key; NULL: nowhere */
} AlStanding;

/* What a lookup of an action needs beyond its standing. */
typedef struct AlParticulars
{
	int64		action_id;
	char	   *identity;
	char	   *key;
	char	   *run_id;			/* NULL: none */
	Jsonb	   *args;
	char	   *external_ref;	/* the last one that an answer of 2xx gave, or somebody reported; NULL: none */
	char	   *location;		/* of the last answer of 2xx or 303 that had one; NULL: none */
} AlParticulars;

/* An action that is due, with its frozen request. */
typedef struct AlDueAction
{
	AlStanding	standing;
	TimestampTz next_at;
	int			priority;
	bool		looks;			/* its step is a lookup */
	AlParticulars *particulars; /* then; NULL otherwise */
	char	   *requested_by;
	char	   *method;
	char	   *url;
	char	   *headers;
	bytea	   *body;			/* NULL: none */
} AlDueAction;

/* The mark: an attempt is about to be made. */
typedef struct AlMark
{
	int64		action_id;
	int			attempt;
	TimestampTz deadline;
	TimestampTz window_ends_at;
	TimestampTz key_ends_at;	/* 0: null */
	TimestampTz expires_at;		/* 0: null */
	bool		lookup;			/* no send */
	TimestampTz lookup_ends_at; /* 0: null */
} AlMark;

/* What closes an attempt. */
typedef struct AlClosing
{
	int64		action_id;
	int			attempt;
	TimestampTz finished_at;
	AlVerdict	verdict;
	const char *category;
	bool		sent;
	bool		truncated;
	int			http_status;	/* 0: null */
	int			curl_code;
	int64		retry_after_s;	/* < 0: null */
	char	   *detail;
	char	   *external_ref;	/* NULL: none */
	int32		timing_us[5];
	char	   *headers;		/* NULL: none */
	bytea	   *body;			/* NULL: none */
} AlClosing;

/* Where an action goes. */
typedef struct AlMove
{
	int64		action_id;
	AlStatus	status;
	AlStep		step;
	AlKnown		known;
	AlKnown		known_before;	/* what it was folded from */
	TimestampTz next_at;		/* DT_NOEND: waits for a person; ignored when terminal */
	bool		clear_key_window;	/* nothing was delivered: the key's window has not begun */
	bool		forgive;		/* the last send was stopped by a definition: it is no try */
	bool		forgive_lookup; /* and so was the last lookup */
	TimestampTz doubted_at;		/* 0: leave as it is */
	bool		absent;			/* proved absent: counted, and a new budget of lookups begins */
	char	   *external_ref;	/* NULL: leave as it is */
	Datum		result;			/* jsonb, 0: leave as it is */
	const char *confirmed_by;	/* NULL: leave as it is */
	const char *error_code;		/* NULL: none */
	char	   *error_message;	/* NULL: none */
} AlMove;

/* A finding or a decision, to be appended. */
typedef struct AlEvent
{
	int64		action_id;
	const char *what;
	AlStatus	status;
	char	   *note;
	const char *verdict;		/* NULL: it is no evidence */
	const char *source;			/* of the evidence: answer, lookup, callback, executor; NULL: none */
	Datum		evidence;		/* jsonb, 0: none */
} AlEvent;

/*
 * Lock what is due in each lot, in the order of due times, and read it.
 * Fills *actions (palloc'ed) and returns how many.
 */
extern int	al_ledger_pick(const AlLot *lots, int n_lots, TimestampTz now, AlDueAction **actions);

/* When the next action of each lot is due, DT_NOEND for none; out has n_lots entries. */
extern void al_ledger_next_due(const AlLot *lots, int n_lots, TimestampTz *out);

/* Write the mark and open the attempts. */
extern void al_ledger_mark(const AlMark *marks, int n, int64 incarnation, TimestampTz now);

/* Move actions on, and their due rows with them. */
extern void al_ledger_move(const AlMove *moves, int n, TimestampTz now);

/*
 * The same for actions that this incarnation has claimed and that nobody has
 * touched since; sets done[i] for those that were moved.  An action locked by
 * somebody else raises after a short wait.
 */
extern void al_ledger_move_claimed(const AlMove *moves, int n, TimestampTz now, int64 incarnation, bool *done);

/*
 * How many moves since the last call have brought an action to rest, or before a
 * person: what somebody may wait for.  Their transaction may have aborted.
 */
extern int	al_ledger_take_outcomes(void);

/* Lock and read actions by number; those locked by others are left out. */
extern int	al_ledger_lock(const int64 *action_ids, int n, AlStanding **standings);

/*
 * Find the action that would be claimed first, without reading more of it than
 * its number; 0 for none.  Sets *lot to the one lot that holds it and nothing else.
 */
extern int64 al_ledger_peek(const AlLot *lots, int n_lots, TimestampTz now, AlLot *lot);

/* Block an action that cannot be claimed, without reading it; or put its due row away only. */
extern void al_ledger_block(int64 action_id, const char *code, const char *message, int64 incarnation);
extern void al_ledger_park_for_good(int64 action_id);

/* Which of the actions are not there at all; sets gone[i]. */
extern void al_ledger_missing(const int64 *action_ids, int n, bool *gone);

/* Open attempts of actions that people have decided about meanwhile, made by other incarnations. */
extern int	al_ledger_left_open(int64 except, int index, int count, AlStanding **standings, bool **lookups);

/* Read an action without locking it; false when there is none. */
extern bool al_ledger_read(int64 action_id, AlStanding *standing);

/*
 * Put due rows aside until a pause is lifted, and those back whose pause was
 * lifted, a page at a time: those after *after of services number % count = index.
 */
extern void al_ledger_park(const int64 *action_ids, int n);

typedef struct AlReleased
{
	int			looked_at;		/* fewer than most: the end was reached */
	int			locked;			/* to be put back, and locked by others */
	int			released;
} AlReleased;

extern AlReleased al_ledger_release(int index, int count, int most, int64 *after);

/* All pauses that there were and are, in the order of their beginnings; palloc'ed. */
extern int	al_ledger_spans(AlSpan **spans);

/* Close attempts that are open. */
extern void al_ledger_close(const AlClosing *closings, int n);


/* Append events in the dispatcher's name, or in somebody's. */
extern void al_ledger_event(const AlEvent *events, int n, int64 incarnation);
extern void al_ledger_event_by(const AlEvent *events, int n, const char *by_whom);

/* The relation of this database's ledger, InvalidOid when there is none. */
extern Oid	al_ledger_relation(void);

/*
 * Lock that relation until the end of the transaction; false when it is not the
 * ledger any more: the extension was dropped, and perhaps created anew.
 */
extern bool al_ledger_hold(Oid relation);

/* Take a number for a dispatcher that starts, and record it. */
extern int64 al_ledger_next_incarnation(void);
extern void al_ledger_record_incarnation(int64 incarnation, const char *worker);
extern void al_ledger_end_incarnation(int64 incarnation);

/* Read what lookups need, by number; in the order of the numbers. */
extern int	al_ledger_particulars(const int64 *action_ids, int n, AlParticulars **particulars);

/*
 * Live actions claimed by other incarnations than this one, for services
 * number % count = index; lookups[i] tells that what is open is a lookup.
 */
extern int	al_ledger_claimed(int64 except, int index, int count, AlStanding **standings, bool **lookups);

/* The numbers of the services that belong to dispatcher index of count. */
extern int	al_ledger_services(int index, int count, int32 **service_ids);

#endif							/* AL_LEDGER_H */
