/*
 * guard.c
 *		Which addresses a request may go to.
 *
 * Two tables of prefixes, first match wins.  IPv6 is closed by default: what no
 * line mentions is reserved, because only 2000::/3 has been handed out.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "guard.h"

/* What a range is. */
typedef enum Reach
{
	REACH_GLOBAL,
	REACH_PRIVATE,				/* needs allow_private */
	REACH_NEVER,
	REACH_EMBEDDED				/* an IPv4 address inside decides */
} Reach;

typedef struct Range4
{
	uint32_t	prefix;			/* host byte order */
	int			bits;
	Reach		reach;
} Range4;

typedef struct Range6
{
	uint8_t		prefix[16];
	int			bits;
	Reach		reach;
	int			embedded_at;	/* first byte of the IPv4 address inside */
} Range6;

static const Range4 ranges4[] = {
	{0x00000000, 8, REACH_NEVER},	/* 0.0.0.0/8, this host */
	{0x0A000000, 8, REACH_PRIVATE}, /* 10.0.0.0/8 */
	{0x64400000, 10, REACH_PRIVATE},	/* 100.64.0.0/10, shared */
	{0x7F000000, 8, REACH_PRIVATE}, /* 127.0.0.0/8, loopback */
	{0xA9FE0000, 16, REACH_PRIVATE},	/* 169.254.0.0/16, link-local */
	{0xAC100000, 12, REACH_PRIVATE},	/* 172.16.0.0/12 */
	{0xC0000000, 24, REACH_NEVER},	/* 192.0.0.0/24, protocol assignments */
	{0xC0000200, 24, REACH_PRIVATE},	/* 192.0.2.0/24, documentation */
	{0xC0586300, 24, REACH_NEVER},	/* 192.88.99.0/24, former 6to4 relays */
	{0xC0A80000, 16, REACH_PRIVATE},	/* 192.168.0.0/16 */
	{0xC6120000, 15, REACH_PRIVATE},	/* 198.18.0.0/15, benchmarking */
	{0xC6336400, 24, REACH_PRIVATE},	/* 198.51.100.0/24, documentation */
	{0xCB007100, 24, REACH_PRIVATE},	/* 203.0.113.0/24, documentation */
	{0xE0000000, 4, REACH_NEVER},	/* 224.0.0.0/4, multicast */
	{0xF0000000, 4, REACH_NEVER},	/* 240.0.0.0/4, reserved, and broadcast */
	{0x00000000, 0, REACH_GLOBAL}
};

static const Range6 ranges6[] = {
	{{[15] = 1}, 128, REACH_PRIVATE, 0},	/* ::1, loopback */
	{{[10] = 0xff, [11] = 0xff}, 96, REACH_EMBEDDED, 12},	/* ::ffff:0:0/96, IPv4-mapped */
	{{0x00, 0x64, 0xff, 0x9b}, 96, REACH_EMBEDDED, 12}, /* 64:ff9b::/96, NAT64 */
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, REACH_PRIVATE, 0},	/* local NAT64 */
	{{0x20, 0x01, 0x00, 0x02, 0x00, 0x00}, 48, REACH_PRIVATE, 0},	/* benchmarking */
	{{0x20, 0x01, 0x00, 0x00}, 23, REACH_NEVER, 0}, /* protocol assignments, Teredo */
	{{0x20, 0x01, 0x0d, 0xb8}, 32, REACH_PRIVATE, 0},	/* 2001:db8::/32, documentation */
	{{0x20, 0x02}, 16, REACH_EMBEDDED, 2},	/* 2002::/16, 6to4 */
	{{0x3f, 0xff, 0x00}, 20, REACH_PRIVATE, 0}, /* 3fff::/20, documentation */
	{{0x20}, 3, REACH_GLOBAL, 0},	/* 2000::/3, global unicast */
	{{0xfc}, 7, REACH_PRIVATE, 0},	/* fc00::/7, unique local */
	{{0xfe, 0x80}, 10, REACH_PRIVATE, 0},	/* fe80::/10, link-local */
	{{0xfe, 0xc0}, 10, REACH_PRIVATE, 0},	/* fec0::/10, former site-local */
	{{0x00}, 0, REACH_NEVER, 0} /* ::, ff00::/8 and all that nobody has been given */
};

static bool address4_allowed(uint32_t address, bool allow_private);
static bool address6_allowed(const uint8_t *address, bool allow_private);
static bool prefix6_matches(const uint8_t *address, const Range6 *range);
static bool reach_allowed(Reach reach, bool allow_private);

/* Judges a socket address. */
bool
al_guard_allows(const struct sockaddr *address, bool allow_private)
{
	if (address == NULL)
		return false;

	if (address->sa_family == AF_INET)
	{
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		return address4_allowed(ntohl(in.sin_addr.s_addr), allow_private);
	}
	if (address->sa_family == AF_INET6)
	{
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		return address6_allowed(in6.sin6_addr.s6_addr, allow_private);
	}
	return false;
}

/* Judges an address given as text. */
bool
al_guard_allows_text(const char *address, bool allow_private)
{
	struct in_addr in;
	struct in6_addr in6;

	if (address == NULL)
		return false;
	if (inet_pton(AF_INET, address, &in) == 1)
		return address4_allowed(ntohl(in.s_addr), allow_private);
	if (inet_pton(AF_INET6, address, &in6) == 1)
		return address6_allowed(in6.s6_addr, allow_private);
	return false;
}

/* Judges an IPv4 address in host byte order. */
static bool
address4_allowed(uint32_t address, bool allow_private)
{
	const Range4 *range = ranges4;

	while (range->bits > 0 && ((address ^ range->prefix) >> (32 - range->bits)) != 0)
		range++;
	return reach_allowed(range->reach, allow_private);
}

/* Judges an IPv6 address of 16 bytes. */
static bool
address6_allowed(const uint8_t *address, bool allow_private)
{
	const Range6 *range = ranges6;
	uint32_t	inner;

	while (!prefix6_matches(address, range))
		range++;
	if (range->reach != REACH_EMBEDDED)
		return reach_allowed(range->reach, allow_private);

	memcpy(&inner, address + range->embedded_at, sizeof(inner));
	return address4_allowed(ntohl(inner), allow_private);
}

/* Tells whether the first bits of an address are those of the range. */
static bool
prefix6_matches(const uint8_t *address, const Range6 *range)
{
	int			bytes = range->bits / 8;
	int			rest = range->bits % 8;

	if (memcmp(address, range->prefix, (size_t) bytes) != 0)
		return false;
	return rest == 0 || ((address[bytes] ^ range->prefix[bytes]) >> (8 - rest)) == 0;
}

/* Tells whether a range is open under the service's setting. */
static bool
reach_allowed(Reach reach, bool allow_private)
{
	return reach == REACH_GLOBAL || (reach == REACH_PRIVATE && allow_private);
}
