/*
 * claim.h
 *		What a turn claims, marks and sends.
 */
#ifndef AL_CLAIM_H
#define AL_CLAIM_H

#include "postgres.h"

#include "flight.h"
#include "turn.h"

/* One marked action and the request that will be sent for it. */
typedef struct AlClaimed
{
	AlDueAction *action;
	AlMark		mark;
	AlLane	   *lane;
	AlFlight   *flight;
	AlHeaderLines headers;		/* of it, until it is sent */
	AlWireRequest request;
} AlClaimed;

typedef struct AlClaim
{
	int			n;
	AlClaimed  *claimed;		/* in the turn's memory */
} AlClaim;

/*
 * Claim what is due, inside the turn's transaction: mark what may be sent, move
 * on what may not (expired, window passed), block what a person has to mend.
 */
extern void al_claim_take(AlDispatcher *dispatcher, AlClaim *claim);

/*
 * After the commit: hand the requests to the wire, or, with the gate closed,
 * queue them as not sent.
 */
extern void al_claim_send(AlDispatcher *dispatcher, AlClaim *claim, bool gate_open);

/* After a failed turn: nothing was marked, look again. */
extern void al_claim_undo(AlDispatcher *dispatcher, AlClaim *claim);

#endif							/* AL_CLAIM_H */
