/*
 * words.h
 *		Every sentence that tells a person or a model what happened and what to
 *		do next.
 */
#ifndef AL_WORDS_H
#define AL_WORDS_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "ledger.h"
#include "registry.h"
#include "rules/policy.h"

/* An action as its words need it. */
typedef struct AlStory
{
	int64		action_id;
	const char *tool;
	const char *service;		/* NULL: not known here */
	const char *summary;		/* NULL: none */
	const char *target;			/* NULL: none */
	const char *identity;
	AlStatus	status;
	AlStep		step;
	const char *external_ref;	/* NULL: none */
	const char *confirmed_by;	/* NULL: none */
	const char *error_code;		/* NULL: none */
	const char *error_message;	/* NULL: none */
	const char *owner;			/* NULL: none */
	int			sends;
	TimestampTz created_at;
	TimestampTz next_at;		/* 0: not live */
	bool		cancelled;		/* a cancel has been asked for */
	bool		external;		/* outside executors carry it out */
	bool		keyed;			/* its request carries a key that is declared to be honoured */
	int			breaker_failures;	/* 0: the breaker is closed */
	TimestampTz breaker_until;	/* when the next probe goes */
	const AlPause *pause;		/* that keeps it from being sent; NULL: none */
	const char *approver;		/* who approves, in words */
	const char *approval_reason;	/* NULL: nobody has to approve */
	TimestampTz approve_by;		/* until when; 0: nobody has to any more */
	int64		superseded_by;	/* the action that has taken the place of this one, which failed; 0: none */
} AlStory;

/* What kind of answer an action's state is, for a caller (interface: envelope). */
typedef struct AlAdvice
{
	const char *code;			/* error code; NULL when ok */
	const char *advice;			/* done, wait, correct, approve, verify, escalate, stop */
	const char *message;		/* short error message; NULL when ok */
} AlAdvice;

extern AlAdvice al_words_advice(const AlStory *story);

/* Fill in what a story has to say of its service's breaker. */
extern void al_words_breaker(AlStory *story, int32 service_id);

/* When it moves by itself: when it is due, or, where the breaker holds it, not before the next probe. */
extern TimestampTz al_words_moves_at(const AlStory *story);

/* One or two sentences: what happened, and what to do next; palloc'ed. */
extern char *al_words_observation(const AlStory *story, bool created, bool asked_again);

/*
 * The error_message of an action after an attempt; NULL when it is confirmed.
 * sends counts the attempt.
 */
extern char *al_words_outcome(const AlDecision *decision, const AlOutcome *outcome,
							  const AlEvidence *evidence, const AlTool *tool, int sends);

/* The error_message of an action after somebody reported an outcome; NULL when it is confirmed. */
extern char *al_words_reported(const AlDecision *decision, const AlOutcome *outcome, const AlTool *tool, const char *who, int sends);

/* The same after a lookup, which standing counts; NULL when it is confirmed. */
extern char *al_words_lookup(const AlDecision *decision, const AlOutcome *outcome, const AlEvidence *evidence,
							 const AlTool *tool, const AlStanding *standing);

/* How often it was sent, or, by outside executors, claimed. */
extern char *al_words_sends(bool external, int sends);

/* When what has been recorded or approved goes out; from now on: 0. */
extern char *al_words_goes_out(bool external, TimestampTz at);

/* The error_message of an action that cannot be looked up, and why. */
extern char *al_words_unseen(const AlDecision *decision, const AlTool *tool, int sends, const char *why);

/* The error_message of an action that a definition keeps from being sent, and what mends it. */
extern char *al_words_blocked(const char *category, const char *detail);

/* The error_message of an action that was moved on without an attempt. */
extern char *al_words_decision(const AlDecision *decision, const AlTool *tool, int sends);

/* How a recorded attempt ended, from its row; http_status 0: no complete head. */
extern char *al_words_attempt(AlVerdict verdict, const char *category, int http_status, bool lookup, const AlTool *tool);

/* Who has paused what, and why. */
extern char *al_words_pause(const AlPause *pause);

/* A time for a reader, UTC to the second. */
extern char *al_words_time(TimestampTz at);

/* What is remarkable about an outcome that deserves an event of its own. */
extern char *al_words_event(const AlOutcome *outcome);

#endif							/* AL_WORDS_H */
