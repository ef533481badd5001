/*
 * definition.c
 *		What the definitions of services and tools have in common: durations,
 *		nearest names, merge patches, headers.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/varlena.h"

#include "definition_internal.h"
#include "rules/text_template.h"

/* Longer names are not compared; nobody mistypes those. */
#define NEAREST_MAX_LEN 64

/* Headers that the wire makes itself, or that would change what is sent. */
static const char *const RESERVED_HEADERS[] = {
	"accept-encoding", "connection", "content-length", "expect", "host", "http2-settings",
	"keep-alive", "proxy-authorization", "proxy-connection", "te", "traceparent", "trailer",
	"transfer-encoding", "upgrade"
};
#define RESERVED_HEADER_PREFIX "actionledger-"

static const char *const HEADER_HINT =
"Write printable ASCII; a secret stands as {secret:name}, with a name of A-Z a-z 0-9 _ . and -.";

static void merge_objects(JsonbParseState **state, const JsonbValue *target, const JsonbValue *patch);
static bool is_credential(const char *name);
static void push_merged(JsonbParseState **state, JsonbValue *name, const JsonbValue *target, const JsonbValue *patch);
static JsonbValue *find_member(const JsonbValue *object, const JsonbValue *name);
static void check_header_name(AlPlace place, const char *name);
static bool is_token(const char *text);

bool
al_duration_parse(const char *text, int64 *ms)
{
	static const struct
	{
		const char *name;
		int64		ms;
	}			units[] = {
		{"ms", 1}, {"s", AL_SECOND_MS}, {"m", AL_MINUTE_MS}, {"h", AL_HOUR_MS}, {"d", AL_DAY_MS},
	};
	const char *c = text;
	int64		n = 0;

	while (*c >= '0' && *c <= '9')
	{
		if (pg_mul_s64_overflow(n, 10, &n) || pg_add_s64_overflow(n, *c - '0', &n))
			return false;
		c++;
	}
	if (c == text)
		return false;
	for (int i = 0; i < lengthof(units); i++)
	{
		if (strcmp(c, units[i].name) == 0)
		{
			int64		product;

			if (pg_mul_s64_overflow(n, units[i].ms, &product))
				return false;
			*ms = product;
			return true;
		}
	}
	return false;
}

const char *
al_nearest_name(const char *name, const char *const *names)
{
	int			len = strlen(name);
	int			nearest = 4;	/* more is no typing mistake */
	const char *found = NULL;

	if (len > NEAREST_MAX_LEN)
		return NULL;
	for (; *names != NULL; names++)
	{
		int			other = strlen(*names);
		int			distance;

		if (other > NEAREST_MAX_LEN)
			continue;
		distance = varstr_levenshtein_less_equal(name, len, *names, other, 1, 1, 1, nearest, true);
		/* at least half of the name must have been right */
		if (distance < nearest && distance * 2 <= Max(len, other))
		{
			nearest = distance;
			found = *names;
		}
	}
	return found;
}

Jsonb *
al_merge_patch(Jsonb *target, Jsonb *patch)
{
	JsonbParseState *state = NULL;
	JsonbValue	from = al_option_root(target);
	JsonbValue	with = al_option_root(patch);

	if (!al_option_is_object(&with))
		return patch;
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	merge_objects(&state, &from, &with);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

void
al_definition_check_name(AlPlace place)
{
	for (const char *c = place.name; *c != '\0'; c++)
	{
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			al_definition_error(al_place_member(place, "name"), NULL,
								"the name has a control character");
	}
}

void
al_definition_headers(AlPlace place, const JsonbValue *object, bool placeholders, List **headers)
{
	JsonbIterator *it;
	JsonbValue	name;
	JsonbValue	value;

	if (!al_option_is_object(object))
		al_definition_error(place, "Write {\"Name\": \"value\"}.",
							"an object of headers belongs here, not %s", al_option_kind(object));
	it = al_option_open(object);
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		char	   *key = pnstrdup(name.val.string.val, name.val.string.len);
		AlPlace		here = al_place_member(place, key);

		(void) JsonbIteratorNext(&it, &value, true);
		al_definition_header(here, key, al_option_text(here, &value), placeholders, headers);
		if (is_credential(key))
			al_definition_check_reference(here, al_option_text(here, &value));
	}
}

/* Tells whether a header of this name holds a credential. */
static bool
is_credential(const char *name)
{
	static const char *const whole[] = {"authorization", "proxy-authorization", "cookie"};
	static const char *const ends[] = {"token", "secret", "password", "api-key", "apikey", "access-key", "auth-key"};
	size_t		len = strlen(name);

	for (int i = 0; i < lengthof(whole); i++)
	{
		if (pg_strcasecmp(name, whole[i]) == 0)
			return true;
	}
	for (int i = 0; i < lengthof(ends); i++)
	{
		size_t		end = strlen(ends[i]);

		if (len >= end && pg_strcasecmp(name + len - end, ends[i]) == 0)
			return true;
	}
	return false;
}

/* A credential in a definition would be read in views, dumps and logs. */
void
al_definition_check_reference(AlPlace place, const char *value)
{
	const char *cursor = value;
	const char *end = value + strlen(value);
	AlTextPiece piece;

	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_SECRET || piece.kind == AL_TEXT_PLACEHOLDER)
			return;
	}
	al_definition_error(place, "Store it with actionledger.set_secret() or as a file of actionledger.secret_directory, and write {secret:name} here.",
						"a credential stands here as it is");
}

void
al_definition_header(AlPlace place, const char *name, const char *value, bool placeholders, List **headers)
{
	al_definition_check_value(place, value, placeholders);
	if (value[0] == ' ' || value[strlen(value) - 1] == ' ')
		al_definition_error(place, NULL, "the value begins or ends with a space, which is not transmitted");
	al_definition_add_header(place, name, value, headers);
}

void
al_definition_add_header(AlPlace place, const char *name, const char *value, List **headers)
{
	int			len = strlen(name);
	ListCell   *lc;

	check_header_name(place, name);
	foreach(lc, *headers)
	{
		const char *line = lfirst(lc);

		if (pg_strncasecmp(line, name, len) == 0 && line[len] == ':')
			al_definition_error(place, "Leave one of them out; header names are the same in upper and lower case.",
								"the header \"%s\" is there twice", name);
	}
	*headers = lappend(*headers, psprintf("%s: %s", name, value));
}

void
al_definition_check_value(AlPlace place, const char *value, bool placeholders)
{
	const char *cursor = value;
	const char *end = value + strlen(value);
	AlTextPiece piece;

	if (!al_definition_is_printable(value))
		al_definition_error(place, HEADER_HINT, "the value has a character that is not printable ASCII");
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_BRACE || (piece.kind == AL_TEXT_PLACEHOLDER && !placeholders))
			al_definition_error(place, HEADER_HINT, placeholders ?
								"the value has a brace that belongs to no {argument} and no {secret:name}" :
								"the value has a brace that belongs to no {secret:name}");
	}
}

void
al_definition_check_key_header(AlPlace place, const List *headers, const AlIdempotency *idempotency)
{
	int			len;
	ListCell   *lc;

	if (idempotency->place != AL_KEY_PLACE_HEADER)
		return;
	len = strlen(idempotency->name);
	foreach(lc, headers)
	{
		const char *line = lfirst(lc);

		if (pg_strncasecmp(line, idempotency->name, len) == 0 && line[len] == ':')
			al_definition_error(al_place_member(place, "headers"),
								"Leave the header out; every action's own key is put there.",
								"the header \"%s\" is the one that carries the idempotency key",
								idempotency->name);
	}
}

bool
al_definition_is_printable(const char *text)
{
	for (; *text != '\0'; text++)
	{
		if ((unsigned char) *text < 0x20 || (unsigned char) *text > 0x7e)
			return false;
	}
	return true;
}

/* Push the members of target as patch changes them (RFC 7396); target may be no object. */
static void
merge_objects(JsonbParseState **state, const JsonbValue *target, const JsonbValue *patch)
{
	JsonbIterator *it;
	JsonbValue	name;
	JsonbValue	value;

	check_stack_depth();
	if (target != NULL && al_option_is_object(target))
	{
		it = al_option_open(target);
		while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
		{
			JsonbValue *change = find_member(patch, &name);

			(void) JsonbIteratorNext(&it, &value, true);
			if (change == NULL)
			{
				pushJsonbValue(state, WJB_KEY, &name);
				pushJsonbValue(state, WJB_VALUE, &value);
			}
			else
				push_merged(state, &name, &value, change);
		}
	}
	it = al_option_open(patch);
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		if (target == NULL || !al_option_is_object(target) || find_member(target, &name) == NULL)
			push_merged(state, &name, NULL, &value);
	}
}

/* Push one member that the patch names; null removes it. */
static void
push_merged(JsonbParseState **state, JsonbValue *name, const JsonbValue *target, const JsonbValue *patch)
{
	if (patch->type == jbvNull)
		return;
	pushJsonbValue(state, WJB_KEY, name);
	if (al_option_is_object(patch))
	{
		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
		merge_objects(state, target, patch);
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	else
	{
		JsonbValue	copy = *patch;

		pushJsonbValue(state, WJB_VALUE, &copy);
	}
}

static JsonbValue *
find_member(const JsonbValue *object, const JsonbValue *name)
{
	return getKeyJsonValueFromContainer(object->val.binary.data, name->val.string.val,
										name->val.string.len, NULL);
}

static void
check_header_name(AlPlace place, const char *name)
{
	if (!is_token(name))
		al_definition_error(place, NULL, "\"%s\" is no header name (RFC 9110 section 5.1)", name);
	for (int i = 0; i < lengthof(RESERVED_HEADERS); i++)
	{
		if (pg_strcasecmp(name, RESERVED_HEADERS[i]) == 0)
			al_definition_error(place, "Leave it out.",
								"the header \"%s\" is set by actionledger alone", name);
	}
	if (pg_strncasecmp(name, RESERVED_HEADER_PREFIX, strlen(RESERVED_HEADER_PREFIX)) == 0)
		al_definition_error(place, "Choose another name.",
							"headers beginning with \"%s\" are set by actionledger alone",
							RESERVED_HEADER_PREFIX);
}

/* A token of RFC 9110 section 5.6.2. */
static bool
is_token(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
	{
		if (!(*text >= 'a' && *text <= 'z') && !(*text >= 'A' && *text <= 'Z') &&
			!(*text >= '0' && *text <= '9') && strchr("!#$%&'*+-.^_`|~", *text) == NULL)
			return false;
	}
	return true;
}
