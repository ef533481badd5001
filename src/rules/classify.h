/*
 * classify.h
 *		From the evidence of one attempt to its verdict.
 *
 * Pure C, libc only.  The rule is asymmetric: "not_sent" and "rejected" need
 * proof, whatever is not proven is "unknown".  A timeout is not a failure; it
 * is the absence of information.
 *
 * Sources: RFC 9110 sections 9.2.2 and 15, RFC 6585, RFC 8470 section 5.2,
 * draft-ietf-httpapi-idempotency-key-header (409 outstanding, 422 mismatch).
 */
#ifndef AL_CLASSIFY_H
#define AL_CLASSIFY_H

#include "vocabulary.h"

/* How a transfer ended, independent of any library's numbers. */
typedef enum AlEnding
{
	AL_END_OK,					/* the library saw nothing wrong */
	AL_END_RESOLVE,				/* the name did not resolve */
	AL_END_CONNECT,				/* no connection */
	AL_END_TLS,					/* handshake or peer verification failed */
	AL_END_PROXY,				/* proxy CONNECT failed */
	AL_END_TIMEOUT,				/* our time limit, in whatever phase */
	AL_END_SEND,				/* sending broke off */
	AL_END_RECEIVE,				/* receiving broke off (reset, EOF without an answer) */
	AL_END_PARTIAL,				/* the body broke off */
	AL_END_GARBLED,				/* what came back is not HTTP */
	AL_END_RESEND_BLOCKED,		/* a hidden second transmission was stopped */
	AL_END_CAPPED,				/* we stopped reading at our own cap */
	AL_END_ABORTED,				/* we cancelled it (shutdown) */
	AL_END_BAD_REQUEST,			/* URL malformed, scheme not allowed: configuration */
	AL_END_BAD_TRUST,			/* CA file or client certificate unusable: configuration */
	AL_END_ADDRESS_REFUSED,		/* our address guard refused: configuration */
	AL_END_LOCAL,				/* out of descriptors or memory here */
	AL_END_GATE_CLOSED,			/* the mark is not known to be replicated */
	AL_END_WORKER_LOST			/* worker or server died after the mark */
} AlEnding;
#define AL_N_ENDINGS 19

/* What was observed of one attempt. */
typedef struct AlEvidence
{
	AlEnding	ending;
	int			prereqs;		/* P: transmissions allowed to start; libcurl asks before each */
	bool		head_complete;	/* H: final status line and its blank line seen */
	int			status;			/* of the final status line; 0 when none was seen */
	bool		framing_complete;	/* F: length matched, chunked ended, or 204/304 */
	bool		upload_complete;	/* the whole request body was handed over */
	bool		replayed;		/* the service's replay marker was on the answer */
} AlEvidence;

/* What the tool's own body rule says of the answer. */
typedef enum AlBodyRule
{
	AL_BODY_RULE_NONE,			/* the tool has none */
	AL_BODY_RULE_HOLDS,
	AL_BODY_RULE_FAILS			/* also: the body could not be read as the rule needs it */
} AlBodyRule;

/* What an attempt proves. */
typedef struct AlOutcome
{
	AlVerdict	verdict;
	bool		transient;		/* rejected, and the same request may be accepted later */
	bool		configuration;	/* not_sent, and only a person can mend it: no retry */
	bool		conclusive;		/* decides for all earlier attempts with this key too */
	bool		ends_resending; /* unknown, and sending again can teach nothing new */
	bool		event;			/* deserves an event of its own (a re-send was blocked) */
	bool		ruled;			/* a rule of the tool said so */
	const char *category;		/* one of the constants below, or a rule's; not owned */
} AlOutcome;

/* What the reader of the evidence has to know about the action. */
typedef struct AlContext
{
	bool		key_honoured;	/* the destination deduplicates by our key */
	bool		earlier_open;	/* an earlier attempt is unknown or in progress */
	AlBodyRule	body_rule;
	const AlOutcome *rule;		/* what the tool's first rule that holds says; NULL: none does */
	bool		unreadable;		/* a rule that may hold needs the body, which cannot be read */
} AlContext;

/*
 * Categories.  "not_sent": resolve, connect, tls, proxy, timeout_before_send,
 * aborted_before_send, local_resources, gate_closed, bad_request, bad_trust,
 * address_refused.  "unknown": timeout_after_send, connection_lost,
 * response_cut, response_garbled, resend_blocked, aborted_after_send,
 * worker_lost, body_truncated, status_ambiguous, body_rule_not_met,
 * replayed_error, key_conflict.  "confirmed": confirmed, replayed.
 * "in_progress": accepted (202), key_in_use (409 with an honoured key).
 * "rejected": rejected, redirected (307, 308), throttled (429),
 * try_later (421, 423, 425, 511), request_timeout (408 before our body was
 * complete: transient, RFC 9110 section 15.5.9).
 */

/*
 * Give the verdict of an attempt.  Total: every input has an answer.
 *
 * With P = 0 nothing left: not_sent (bad_request, bad_trust, address_refused
 * are configuration).  gate_closed is always not_sent, worker_lost always
 * unknown.  With P >= 2, or without H, unknown whatever the ending.  With
 * P = 1 and H: an OK ending with F goes through the status table; a body that
 * is incomplete, capped or ended by end-of-connection does too, unless a body
 * rule is set or the status is 400, 409 or 422 (then unknown, body_truncated).
 * An aborted, timed-out or broken-off transfer with H counts as incomplete
 * body in that sense.
 *
 * With P = 1 and H a rule of the tool that holds comes before all that, and an
 * answer that a rule would have to read and cannot is unknown.  On an answer
 * with the replay marker a rule's certain verdict is conclusive, and its
 * unknown ends re-sending.
 */
extern AlOutcome al_classify(const AlEvidence *evidence, const AlContext *context);

#endif							/* AL_CLASSIFY_H */
