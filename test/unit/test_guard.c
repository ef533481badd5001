/*
 * test_guard.c
 *		The address guard against a corpus of addresses, edges of ranges included.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "../../src/wire/guard.h"
#include "tap.h"

typedef enum Expected
{
	OPEN,						/* always allowed */
	PRIVATE,					/* only with allow_private */
	NEVER
} Expected;

typedef struct Address
{
	const char *text;
	Expected	expected;
} Address;

static const Address corpus[] = {
	/* this host */
	{"0.0.0.0", NEVER}, {"0.0.0.1", NEVER}, {"0.255.255.255", NEVER}, {"1.0.0.0", OPEN},
	/* RFC 1918 */
	{"9.255.255.255", OPEN}, {"10.0.0.0", PRIVATE}, {"10.255.255.255", PRIVATE}, {"11.0.0.0", OPEN},
	{"172.15.255.255", OPEN}, {"172.16.0.0", PRIVATE}, {"172.31.255.255", PRIVATE}, {"172.32.0.0", OPEN},
	{"192.167.255.255", OPEN}, {"192.168.0.0", PRIVATE}, {"192.168.255.255", PRIVATE}, {"192.169.0.0", OPEN},
	/* shared */
	{"100.63.255.255", OPEN}, {"100.64.0.0", PRIVATE}, {"100.127.255.255", PRIVATE}, {"100.128.0.0", OPEN},
	/* loopback */
	{"126.255.255.255", OPEN}, {"127.0.0.0", PRIVATE}, {"127.0.0.1", PRIVATE}, {"127.255.255.255", PRIVATE},
	{"128.0.0.0", OPEN},
	/* link-local, with the clouds' metadata service in it */
	{"169.253.255.255", OPEN}, {"169.254.0.0", PRIVATE}, {"169.254.169.254", PRIVATE},
	{"169.254.255.255", PRIVATE}, {"169.255.0.0", OPEN},
	/* protocol assignments, documentation, benchmarking, former relays */
	{"191.255.255.255", OPEN}, {"192.0.0.0", NEVER}, {"192.0.0.255", NEVER}, {"192.0.1.0", OPEN},
	{"192.0.2.1", PRIVATE}, {"192.0.3.0", OPEN}, {"192.88.98.255", OPEN}, {"192.88.99.1", NEVER},
	{"192.88.100.0", OPEN}, {"198.17.255.255", OPEN}, {"198.18.0.0", PRIVATE}, {"198.19.255.255", PRIVATE},
	{"198.20.0.0", OPEN}, {"198.51.99.255", OPEN}, {"198.51.100.1", PRIVATE}, {"198.51.101.0", OPEN},
	{"203.0.112.255", OPEN}, {"203.0.113.1", PRIVATE}, {"203.0.114.0", OPEN},
	/* multicast, reserved, broadcast */
	{"223.255.255.255", OPEN}, {"224.0.0.0", NEVER}, {"239.255.255.255", NEVER}, {"240.0.0.0", NEVER},
	{"255.255.255.254", NEVER}, {"255.255.255.255", NEVER},
	{"8.8.8.8", OPEN}, {"93.184.216.34", OPEN},

	/* IPv6: unspecified, loopback, IPv4-compatible */
	{"::", NEVER}, {"::1", PRIVATE}, {"::2", NEVER}, {"::127.0.0.1", NEVER}, {"::8.8.8.8", NEVER},
	/* IPv4-mapped */
	{"::ffff:127.0.0.1", PRIVATE}, {"::ffff:10.0.0.1", PRIVATE}, {"::ffff:169.254.169.254", PRIVATE},
	{"::ffff:0.0.0.0", NEVER}, {"::ffff:224.0.0.1", NEVER}, {"::ffff:8.8.8.8", OPEN},
	{"::fffe:8.8.8.8", NEVER}, {"::ffff:0:8.8.8.8", NEVER},
	/* NAT64 */
	{"64:ff9b::127.0.0.1", PRIVATE}, {"64:ff9b::192.168.1.1", PRIVATE}, {"64:ff9b::0.0.0.1", NEVER},
	{"64:ff9b::8.8.8.8", OPEN}, {"64:ff9b:0:0:0:1:808:808", NEVER}, {"64:ff9b:1::8.8.8.8", PRIVATE},
	{"64:ff9b:2::8.8.8.8", NEVER},
	/* 6to4 */
	{"2002:7f00:1::1", PRIVATE}, {"2002:a00:1::", PRIVATE}, {"2002:c0a8:101::1", PRIVATE},
	{"2002:e000:1::", NEVER}, {"2002:0:1::", NEVER}, {"2002:808:808::1", OPEN},
	/* global unicast and the holes in it */
	{"1fff:ffff::", NEVER}, {"2000::", OPEN}, {"2001::1", NEVER}, {"2001:0:4136:e378::1", NEVER},
	{"2001:2::1", PRIVATE}, {"2001:2:1::1", NEVER}, {"2001:1ff:ffff::", NEVER}, {"2001:200::1", OPEN},
	{"2001:4860:4860::8888", OPEN}, {"2001:db7:ffff::", OPEN}, {"2001:db8::1", PRIVATE},
	{"2001:db9::", OPEN}, {"2003::1", OPEN}, {"2606:4700::1111", OPEN}, {"3ffe:ffff::", OPEN},
	{"3fff::1", PRIVATE}, {"3fff:fff::1", PRIVATE}, {"3fff:1000::", OPEN}, {"4000::", NEVER},
	/* the rest */
	{"100::1", NEVER}, {"5f00::1", NEVER}, {"fbff:ffff::", NEVER}, {"fc00::", PRIVATE},
	{"fd12:3456::1", PRIVATE}, {"fdff:ffff::", PRIVATE}, {"fe00::", NEVER}, {"fe7f:ffff::", NEVER},
	{"fe80::1", PRIVATE}, {"febf:ffff::", PRIVATE}, {"fec0::1", PRIVATE}, {"feff:ffff::", PRIVATE},
	{"ff00::", NEVER}, {"ff02::1", NEVER}, {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NEVER}
};

#define N_CORPUS (sizeof(corpus) / sizeof(corpus[0]))

/* Ways to write loopback that a check of strings does not see. */
static const char *const disguises[] = {
	"0x7f000001", "2130706433", "127.1", "0x7f.1", "0177.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:0:0:1"
};

#define N_DISGUISES (sizeof(disguises) / sizeof(disguises[0]))

static void test_socket_addresses(void);
static void test_texts(void);
static void test_disguises(void);
static void test_others(void);
static void fill(const char *text, struct sockaddr_storage *address);
static bool allowed(Expected expected, bool allow_private);

int
main(void)
{
	test_socket_addresses();
	test_texts();
	test_disguises();
	test_others();
	return done_testing();
}

static void
test_socket_addresses(void)
{
	tap_group("socket addresses are judged by range");
	for (size_t i = 0; i < N_CORPUS; i++)
	{
		struct sockaddr_storage address;

		fill(corpus[i].text, &address);
		for (int allow = 0; allow <= 1; allow++)
			tap_cell(al_guard_allows((struct sockaddr *) &address, allow) ==
					 allowed(corpus[i].expected, allow), "%s, allow_private %d", corpus[i].text, allow);
	}
	tap_group_end();
}

static void
test_texts(void)
{
	static const char *const no_addresses[] = {
		"", "localhost", "8.8.8", "8.8.8.8:80", " 8.8.8.8", "[2000::]", "2000::%eth0", "08.8.8.8x"
	};

	tap_group("addresses in text are judged alike");
	for (size_t i = 0; i < N_CORPUS; i++)
	{
		for (int allow = 0; allow <= 1; allow++)
			tap_cell(al_guard_allows_text(corpus[i].text, allow) ==
					 allowed(corpus[i].expected, allow), "%s, allow_private %d", corpus[i].text, allow);
	}
	tap_group_end();

	tap_group("text that is no address is refused");
	for (size_t i = 0; i < sizeof(no_addresses) / sizeof(no_addresses[0]); i++)
		tap_cell(!al_guard_allows_text(no_addresses[i], true), "\"%s\"", no_addresses[i]);
	tap_cell(!al_guard_allows_text(NULL, true), "NULL");
	tap_group_end();
}

static void
test_disguises(void)
{
	tap_group("loopback is refused however it is written");
	for (size_t i = 0; i < N_DISGUISES; i++)
	{
		struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
		struct addrinfo *found;

		if (!tap_cell(getaddrinfo(disguises[i], "80", &hints, &found) == 0, "%s resolves", disguises[i]))
			continue;
		tap_cell(!al_guard_allows(found->ai_addr, false), "%s", disguises[i]);
		tap_cell(al_guard_allows(found->ai_addr, true), "%s with allow_private", disguises[i]);
		freeaddrinfo(found);
	}
	tap_group_end();
}

static void
test_others(void)
{
	struct sockaddr_storage address;

	memset(&address, 0, sizeof(address));
	address.ss_family = AF_UNIX;
	ok(!al_guard_allows((struct sockaddr *) &address, true), "a Unix socket is refused");
	address.ss_family = AF_UNSPEC;
	ok(!al_guard_allows((struct sockaddr *) &address, true), "no family is refused");
	ok(!al_guard_allows(NULL, true), "no address is refused");
}

/* Make a socket address of text. */
static void
fill(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *) address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	else
		ok(false, "\"%s\" in the corpus is an address", text);
}

static bool
allowed(Expected expected, bool allow_private)
{
	return expected == OPEN || (expected == PRIVATE && allow_private);
}
