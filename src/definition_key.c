/*
 * definition_key.c
 *		What a destination declares about idempotency keys.
 *
 * A declaration is a promise of the destination that the state machine relies
 * on (a resend after an unknown outcome), so a contradictory one is refused
 * here rather than found out when a key does not fit.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "regex/regex.h"
#include "utils/builtins.h"

#include "definition_internal.h"

#define DEFAULT_HEADER "Idempotency-Key"

/* The shortest that a documented provider keeps a key (PayPal, some APIs). */
#define DEFAULT_WINDOW_MS (3 * AL_HOUR_MS)
#define DEFAULT_MARGIN_MS (5 * AL_MINUTE_MS)

#define UUID_TEXT_LEN 36
#define MAX_KEY_LEN 255

/* The declaration as it is written. */
typedef struct KeyOptions
{
	char	   *header;
	char	   *body;
	char	   *query;
	bool		none;
	char	   *form;
	AlIdempotency key;
} KeyOptions;

static void read_none(AlPlace place, const JsonbValue *value, void *target);

static const AlOption KEY_OPTIONS[] = {
	AL_OPTION_TEXT_AT("header", KeyOptions, header),
	AL_OPTION_TEXT_AT("body", KeyOptions, body),
	AL_OPTION_TEXT_AT("query", KeyOptions, query),
	AL_OPTION_READ_BY("none", read_none),
	AL_OPTION_TEXT_AT("form", KeyOptions, form),
	AL_OPTION_TEXT_AT("prefix", KeyOptions, key.prefix),
	AL_OPTION_INT_AT("min_length", KeyOptions, key.min_length, 1, MAX_KEY_LEN),
	AL_OPTION_INT_AT("max_length", KeyOptions, key.max_length, 1, MAX_KEY_LEN),
	AL_OPTION_TEXT_AT("alphabet", KeyOptions, key.alphabet),
	AL_OPTION_DURATION_AT("window", KeyOptions, key.window_ms, AL_SECOND_MS, 400 * AL_DAY_MS),
	AL_OPTION_DURATION_AT("margin", KeyOptions, key.margin_ms, 0, 400 * AL_DAY_MS),
	AL_OPTION_TEXT_AT("replay_header", KeyOptions, key.replay_header),
	AL_OPTION_BOOL_AT("replays_errors", KeyOptions, key.replays_errors),
	AL_OPTION_END
};

static void set_none(AlIdempotency *key);
static void read_place(AlPlace place, KeyOptions *options);
static void read_form(AlPlace place, KeyOptions *options);
static void check_alphabet(AlPlace place, const char *alphabet);
static void compile_alphabet(const char *alphabet);
static void check_uuid_fits(AlPlace place, const AlIdempotency *key);

void
al_definition_idempotency_default(AlIdempotency *idempotency)
{
	memset(idempotency, 0, sizeof(*idempotency));
	idempotency->place = AL_KEY_PLACE_HEADER;
	idempotency->name = pstrdup(DEFAULT_HEADER);
	idempotency->form = AL_KEY_FORM_UUID;
	idempotency->prefix = pstrdup("");
	idempotency->min_length = 1;
	idempotency->max_length = MAX_KEY_LEN;
	idempotency->window_ms = DEFAULT_WINDOW_MS;
	idempotency->margin_ms = DEFAULT_MARGIN_MS;
}

void
al_definition_idempotency(AlPlace place, const JsonbValue *value, AlIdempotency *idempotency)
{
	KeyOptions	options;

	memset(&options, 0, sizeof(options));
	al_definition_idempotency_default(&options.key);
	options.key.margin_ms = -1;

	if (value->type == jbvString)
	{
		if (strcmp(al_option_text(place, value), "none") != 0)
			al_definition_error(place, "Write \"none\", or an object such as {\"header\": \"Idempotency-Key\"}.",
								"\"none\" is the only text that belongs here");
		set_none(idempotency);
		return;
	}
	al_option_read(place, value, KEY_OPTIONS, &options);
	if (options.none)
	{
		if (JsonContainerSize(value->val.binary.data) != 1)
			al_definition_error(place, NULL, "nothing else can be declared beside \"none\"");
		set_none(idempotency);
		return;
	}
	read_place(place, &options);
	read_form(place, &options);
	if (options.key.margin_ms < 0)
		options.key.margin_ms = Min(DEFAULT_MARGIN_MS, options.key.window_ms / 10);
	if (options.key.margin_ms >= options.key.window_ms)
		al_definition_error(al_place_member(place, "margin"), NULL,
							"the margin must be shorter than the window");
	options.key.declared = true;
	options.key.honoured = true;
	*idempotency = options.key;
}

/* "none" is said or left out: false would say less than it seems to. */
static void
read_none(AlPlace place, const JsonbValue *value, void *target)
{
	if (!al_option_bool(place, value))
		al_definition_error(place, "Leave it out, or declare where the key goes.",
							"true is the only value that belongs here");
	((KeyOptions *) target)->none = true;
}

static void
set_none(AlIdempotency *key)
{
	al_definition_idempotency_default(key);
	key->declared = true;
	key->place = AL_KEY_PLACE_NONE;
	key->name = pstrdup("");
}

/* Where the key goes, and the names of headers. */
static void
read_place(AlPlace place, KeyOptions *options)
{
	AlIdempotency *key = &options->key;
	List	   *ignored = NIL;

	if ((options->header != NULL) + (options->body != NULL) + (options->query != NULL) > 1)
		al_definition_error(place, NULL, "only one of \"header\", \"body\" and \"query\" can carry the key");
	if (options->body != NULL)
	{
		key->place = AL_KEY_PLACE_BODY;
		key->name = options->body;
	}
	else if (options->query != NULL)
	{
		key->place = AL_KEY_PLACE_QUERY;
		key->name = options->query;
		if (!al_definition_is_printable(key->name))
			al_definition_error(al_place_member(place, "query"), NULL,
								"the name of a parameter is printable ASCII");
	}
	else if (options->header != NULL)
	{
		key->name = options->header;
		al_definition_header(al_place_member(place, "header"), key->name, "x", false, &ignored);
	}
	ignored = NIL;
	if (key->replay_header == NULL)
		return;
	al_definition_header(al_place_member(place, "replay_header"), key->replay_header, "x", false, &ignored);
	if (strlen(key->replay_header) > AL_ANSWER_HEADER_MAX)
		al_definition_error(al_place_member(place, "replay_header"), NULL, "the name is longer than %d bytes", AL_ANSWER_HEADER_MAX);
}

/* What the key looks like, and whether such a key can exist. */
static void
read_form(AlPlace place, KeyOptions *options)
{
	AlIdempotency *key = &options->key;

	if (key->min_length > key->max_length)
		al_definition_error(al_place_member(place, "min_length"), NULL,
							"the shortest key is longer than the longest");
	if (key->alphabet != NULL)
		check_alphabet(al_place_member(place, "alphabet"), key->alphabet);
	if (options->form == NULL || strcmp(options->form, "uuid") == 0)
	{
		if (key->prefix[0] != '\0')
			al_definition_error(al_place_member(place, "prefix"),
								"Add \"form\": \"identity\", or leave the prefix out.",
								"only a key of the form \"identity\" has a prefix");
		check_uuid_fits(place, key);
		return;
	}
	if (strcmp(options->form, "identity") != 0)
		al_definition_error(al_place_member(place, "form"), NULL,
							"\"uuid\" or \"identity\" belongs here");
	key->form = AL_KEY_FORM_IDENTITY;
	if (strlen(key->prefix) >= key->max_length)
		al_definition_error(al_place_member(place, "prefix"), NULL,
							"the prefix leaves no room for an identity");
	if (!al_key_fits(key, key->prefix))
		al_definition_error(al_place_member(place, "prefix"), NULL,
							"the prefix has a character outside the alphabet");
}

/* Refuse what would not be one character class, then let the regex compiler judge it. */
static void
check_alphabet(AlPlace place, const char *alphabet)
{
	if (alphabet[0] == '^' || strpbrk(alphabet, "[]\\") != NULL || !al_definition_is_printable(alphabet))
		al_definition_error(place, "Write characters and ranges only, such as A-Za-z0-9_-.",
							"this is no plain class of printable ASCII characters");
	al_option_compiles(place, "the alphabet", alphabet, compile_alphabet);
}

static void
compile_alphabet(const char *alphabet)
{
	(void) RE_compile_and_cache(cstring_to_text(psprintf("^[%s]*$", alphabet)), REG_ADVANCED, C_COLLATION_OID);
}

static void
check_uuid_fits(AlPlace place, const AlIdempotency *key)
{
	const char *hint = "Declare \"form\": \"identity\" with a prefix.";

	if (key->max_length < UUID_TEXT_LEN || key->min_length > UUID_TEXT_LEN)
		al_definition_error(place, hint, "a UUID has 36 characters, which the declared length does not allow");
	if (!al_key_fits(key, "0123456789abcdef-"))
		al_definition_error(al_place_member(place, "alphabet"), hint,
							"a UUID has the characters 0-9, a-f and -, which this does not allow");
}

bool
al_key_fits(const AlIdempotency *idempotency, const char *text)
{
	for (const char *c = text; *c != '\0'; c++)
	{
		/* braces would read as a secret's reference in a header */
		if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f || *c == '{' || *c == '}')
			return false;
	}
	return idempotency->alphabet == NULL ||
		RE_compile_and_execute(cstring_to_text(psprintf("^[%s]*$", idempotency->alphabet)),
							   unconstify(char *, text), strlen(text),
							   REG_ADVANCED, C_COLLATION_OID, 0, NULL);
}
