/*
 * json_write.c
 *		Members of a JSON object that is being put together.
 */
#include "postgres.h"

#include "utils/numeric.h"

#include "json_write.h"

/* Puts a member's name. */
void
al_json_key(JsonbParseState **state, const char *key)
{
	JsonbValue	value = {.type = jbvString};

	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
}

/* Puts a text member, null for NULL. */
void
al_json_text(JsonbParseState **state, const char *key, const char *text)
{
	JsonbValue	value = {.type = jbvNull};

	al_json_key(state, key);
	if (text != NULL)
	{
		value.type = jbvString;
		value.val.string.val = unconstify(char *, text);
		value.val.string.len = (int) strlen(text);
	}
	pushJsonbValue(state, WJB_VALUE, &value);
}

/* Puts a number member. */
void
al_json_int(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue	value = {.type = jbvNumeric};

	al_json_key(state, key);
	value.val.numeric = int64_to_numeric(number);
	pushJsonbValue(state, WJB_VALUE, &value);
}

/* Puts a boolean member. */
void
al_json_bool(JsonbParseState **state, const char *key, bool truth)
{
	JsonbValue	value = {.type = jbvBool};

	al_json_key(state, key);
	value.val.boolean = truth;
	pushJsonbValue(state, WJB_VALUE, &value);
}
