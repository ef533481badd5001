/*
 * ledger_internal.h
 *		What the files of the ledger's statements share.
 */
#ifndef AL_LEDGER_INTERNAL_H
#define AL_LEDGER_INTERNAL_H

#include "ledger.h"
#include "session.h"

/* The columns of action a that make its standing, first in a statement's result. */
#define STANDING_COLUMNS \
	"a.action_id, a.tool_id, a.service_id, a.status, a.known, a.attempts::int, a.sends::int, a.claimed_by, " \
	"a.last_sent_at, a.window_ends_at, a.key_ends_at, a.expires_at, a.cancelled_at, a.key_place, a.expiry_moves, " \
	"a.lookups::int, a.lookups_before::int, a.absences::int, a.lookup_ends_at, a.doubted_at, a.approve_by, a.next_step, a.overridden"
#define N_STANDING_COLUMNS 23

/* Read the STANDING_COLUMNS of a result row. */
extern void al_ledger_read_standing(uint64 row, AlStanding *standing);

#endif							/* AL_LEDGER_INTERNAL_H */
