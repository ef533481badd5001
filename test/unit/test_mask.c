/*
 * test_mask.c
 *		Secrets in what comes back, whole and cut off.
 */
#include <stdlib.h>
#include <string.h>

#include "rules/mask.h"
#include "tap.h"

static void expect(const char *text, const char *secret, const char *wanted, const char *what);

int
main(void)
{
	static const char secret[] = "sk_live_4711";

	expect("{\"id\":1}", secret, "{\"id\":1}", "nothing to mask");
	expect("", secret, "", "nothing at all");
	expect("sk_live_4711", secret, "************", "the secret alone");
	expect("a sk_live_4711 b sk_live_4711", secret, "a ************ b ************", "wherever it stands");
	expect("sk_live_4711sk_live_4711", secret, "************************", "twice in a row");
	expect("x sk_live_471", secret, "x ***********", "cut off at the end");
	expect("x sk_live_", secret, "x ********", "cut off to the shortest");
	expect("x sk_live", secret, "x sk_live", "shorter than that is none");
	expect("sk_live_47 x", secret, "sk_live_47 x", "a part in the middle is none");
	expect("SK_LIVE_4711", secret, "SK_LIVE_4711", "in other letters it is another");
	expect("aaaaaaaaaaaa", "aaaaaaaa", "********aaaa", "one that repeats itself");
	expect("pass pass", "pass", "pass pass", "a short one stands there by chance");
	return done_testing();
}

/* Masks a copy that ends where its memory ends. */
static void
expect(const char *text, const char *secret, const char *wanted, const char *what)
{
	size_t		len = strlen(text);
	char	   *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, text, len);
	al_mask(copy, len, secret, strlen(secret));
	ok(memcmp(copy, wanted, len) == 0, "%s", what);
	free(copy);
}
