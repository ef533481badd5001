/*
 * guard.h
 *		Which addresses a request may go to.
 *
 * libc only.  Judged are addresses, never names: 0x7f000001, 2130706433, 127.1
 * and a name under somebody else's control all end up here as the same bytes.
 */
#ifndef AL_GUARD_H
#define AL_GUARD_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Whether a connection to this address is permitted.
 *
 * Globally reachable unicast always is.  Loopback, private, shared (RFC 6598),
 * link-local, benchmarking and documentation ranges are only with
 * allow_private.  "This host" (0/8, ::), multicast, broadcast and reserved
 * ranges never are.  An IPv4 address inside ::ffff:0:0/96, 64:ff9b::/96 or
 * 2002::/16 is judged as itself.  Any other family, and NULL, is refused.
 *
 * Sources: the IANA special-purpose address registries (RFC 6890), RFC 6052
 * (NAT64), RFC 3056 (6to4).
 */
extern bool al_guard_allows(const struct sockaddr *address, bool allow_private);

/* The same for an address in text without port or zone, as libcurl reports its peer. */
extern bool al_guard_allows_text(const char *address, bool allow_private);

#endif							/* AL_GUARD_H */
