/*
 * schema_sql.c
 *		The schema validator as SQL functions, for its tests: the public suite
 *		of JSON Schema runs through them.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "schema.h"

PG_FUNCTION_INFO_V1(al_sql_schema_check);
PG_FUNCTION_INFO_V1(al_sql_schema_validate);

static void push_text(JsonbParseState **state, JsonbIteratorToken token, const char *text);

/* _schema_check(schema jsonb) → text: 'ok', or LG015. */
Datum
al_sql_schema_check(PG_FUNCTION_ARGS)
{
	al_schema_check(PG_GETARG_JSONB_P(0), false);
	PG_RETURN_TEXT_P(cstring_to_text("ok"));
}

/* _schema_validate(schema jsonb, value jsonb) → jsonb: an array of findings. */
Datum
al_sql_schema_validate(PG_FUNCTION_ARGS)
{
	static const char *const kinds[] = {"missing", "unknown", "invalid"};
	List	   *findings = al_schema_validate(PG_GETARG_JSONB_P(0), PG_GETARG_JSONB_P(1), false);
	JsonbParseState *state = NULL;
	JsonbValue *result;
	ListCell   *cell;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, findings)
	{
		AlFinding  *finding = lfirst(cell);

		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		push_text(&state, WJB_KEY, "kind");
		push_text(&state, WJB_VALUE, kinds[finding->kind]);
		push_text(&state, WJB_KEY, "at");
		push_text(&state, WJB_VALUE, finding->at);
		push_text(&state, WJB_KEY, "got");
		push_text(&state, WJB_VALUE, finding->got);
		push_text(&state, WJB_KEY, "want");
		push_text(&state, WJB_VALUE, finding->want);
		push_text(&state, WJB_KEY, "suggest");
		push_text(&state, WJB_VALUE, finding->suggest);
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	result = pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(result));
}

/* Push a string, or null. */
static void
push_text(JsonbParseState **state, JsonbIteratorToken token, const char *text)
{
	JsonbValue	value;

	value.type = text == NULL ? jbvNull : jbvString;
	if (text != NULL)
	{
		value.val.string.val = pstrdup(text);
		value.val.string.len = (int) strlen(text);
	}
	pushJsonbValue(state, token, &value);
}
