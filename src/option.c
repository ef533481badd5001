/*
 * option.c
 *		Reading a JSON object of options by a table.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "definition.h"
#include "errors.h"
#include "option.h"
#include "visible.h"

static const AlOption *find_option(const AlOption *table, const char *name);
static void read_option(AlPlace place, const JsonbValue *value, const AlOption *option, void *target);
AL_NORETURN static void refuse_unknown(AlPlace place, const char *name, const AlOption *table);
static char *print_duration(int64 ms);

void
al_option_read(AlPlace place, const JsonbValue *object, const AlOption *table, void *target)
{
	JsonbIterator *it;
	JsonbValue	name;
	JsonbValue	value;

	if (!al_option_is_object(object))
		al_definition_error(place, NULL, "an object of options belongs here, not %s",
							al_option_kind(object));
	it = al_option_open(object);
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		char	   *key = pnstrdup(name.val.string.val, name.val.string.len);
		const AlOption *option = find_option(table, key);
		AlPlace		here = al_place_member(place, key);

		(void) JsonbIteratorNext(&it, &value, true);
		if (option == NULL)
			refuse_unknown(here, key, table);
		read_option(here, &value, option, target);
	}
}

char *
al_option_text(AlPlace place, const JsonbValue *value)
{
	if (value->type != jbvString)
		al_definition_error(place, NULL, "a string belongs here, not %s", al_option_kind(value));
	if (value->val.string.len == 0)
		al_definition_error(place, "Leave the option out to do without it.", "the string is empty");
	return pnstrdup(value->val.string.val, value->val.string.len);
}

bool
al_option_bool(AlPlace place, const JsonbValue *value)
{
	if (value->type != jbvBool)
		al_definition_error(place, NULL, "true or false belongs here, not %s", al_option_kind(value));
	return value->val.boolean;
}

int
al_option_int(AlPlace place, const JsonbValue *value, int64 min, int64 max)
{
	if (value->type == jbvNumeric)
	{
		Datum		number = NumericGetDatum(value->val.numeric);
		Datum		low = DirectFunctionCall1(int8_numeric, Int64GetDatum(min));
		Datum		high = DirectFunctionCall1(int8_numeric, Int64GetDatum(max));
		Datum		whole = DirectFunctionCall2(numeric_trunc, number, Int32GetDatum(0));

		if (DatumGetBool(DirectFunctionCall2(numeric_eq, number, whole)) &&
			DatumGetBool(DirectFunctionCall2(numeric_ge, number, low)) &&
			DatumGetBool(DirectFunctionCall2(numeric_le, number, high)))
			return (int) DatumGetInt64(DirectFunctionCall1(numeric_int8, number));
	}
	al_definition_error(place, NULL, "a whole number from " INT64_FORMAT " to " INT64_FORMAT " belongs here",
						min, max);
	return 0;					/* keep the compiler quiet */
}

int64
al_option_duration(AlPlace place, const JsonbValue *value, int64 min, int64 max)
{
	int64		ms;

	if (value->type != jbvString)
		al_definition_error(place, "Write a string with a unit (ms, s, m, h, d), such as \"20s\".",
							"a duration belongs here, not %s", al_option_kind(value));
	if (!al_duration_parse(pnstrdup(value->val.string.val, value->val.string.len), &ms))
		al_definition_error(place, "Write a whole number and a unit (ms, s, m, h, d), such as \"20s\".",
							"this is no duration");
	if (ms < min || ms > max)
		al_definition_error(place, NULL, "a duration from %s to %s belongs here",
							print_duration(min), print_duration(max));
	return ms;
}

JsonbValue
al_option_root(Jsonb *document)
{
	JsonbValue	value;

	if (!JB_ROOT_IS_SCALAR(document))
	{
		value.type = jbvBinary;
		value.val.binary.data = &document->root;
		value.val.binary.len = VARSIZE(document) - VARHDRSZ;
	}
	else
		value = *getIthJsonbValueFromContainer(&document->root, 0);
	return value;
}

bool
al_option_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

bool
al_option_is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

bool
al_option_only_member(const JsonbValue *object, char **name, JsonbValue *value)
{
	JsonbIterator *it;
	JsonbValue	key;

	if (!al_option_is_object(object) || JsonContainerSize(object->val.binary.data) != 1)
		return false;
	it = al_option_open(object);
	(void) JsonbIteratorNext(&it, &key, true);
	(void) JsonbIteratorNext(&it, value, true);
	*name = pnstrdup(key.val.string.val, key.val.string.len);
	return true;
}

JsonbIterator *
al_option_open(const JsonbValue *container)
{
	JsonbIterator *it = JsonbIteratorInit(container->val.binary.data);
	JsonbValue	opening;

	(void) JsonbIteratorNext(&it, &opening, false);
	return it;
}

AlPlace
al_place_member(AlPlace place, const char *name)
{
	StringInfoData at;

	initStringInfo(&at);
	appendStringInfo(&at, "%s/", place.at);
	for (const char *c = name; *c != '\0'; c++)
	{
		if (*c == '~')
			appendStringInfoString(&at, "~0");
		else if (*c == '/')
			appendStringInfoString(&at, "~1");
		else
			appendStringInfoChar(&at, *c);
	}
	place.at = at.data;
	return place;
}

AlPlace
al_place_element(AlPlace place, int index)
{
	place.at = psprintf("%s/%d", place.at, index);
	return place;
}

void
al_definition_error(AlPlace place, const char *hint, const char *what,...)
{
	StringInfoData detail;

	initStringInfo(&detail);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, what);
		needed = appendStringInfoVA(&detail, what, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&detail, needed);
	}
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_DEFINITION),
			 errmsg("invalid definition of %s \"%s\"", place.kind, al_visible(place.name)),
			 errdetail("At \"%s\": %s.", al_visible(place.at), al_visible(detail.data)),
			 errhint("%s", hint ? hint : "Correct the value at that place and repeat the call.")));
}

const char *
al_option_kind(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "a string";
		case jbvNumeric:
			return "a number";
		case jbvBool:
			return value->val.boolean ? "true" : "false";
		default:
			return al_option_is_object(value) ? "an object" : "an array";
	}
}

void
al_option_compiles(AlPlace place, const char *what, const char *text, AlParser parse)
{
	MemoryContext old = CurrentMemoryContext;

	PG_TRY();
	{
		parse(text);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int			category;

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		category = ERRCODE_TO_CATEGORY(error->sqlerrcode);
		if (category != ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION &&
			category != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
		al_definition_error(place, NULL, "%s does not compile: %s", what, error->message);
	}
	PG_END_TRY();
}

static const AlOption *
find_option(const AlOption *table, const char *name)
{
	for (const AlOption *option = table; option->name != NULL; option++)
	{
		if (strcmp(option->name, name) == 0)
			return option;
	}
	return NULL;
}

static void
read_option(AlPlace place, const JsonbValue *value, const AlOption *option, void *target)
{
	char	   *field = (char *) target + option->offset;

	switch (option->kind)
	{
		case AL_OPTION_TEXT:
			*(char **) field = al_option_text(place, value);
			return;
		case AL_OPTION_BOOL:
			*(bool *) field = al_option_bool(place, value);
			return;
		case AL_OPTION_INT:
			*(int *) field = al_option_int(place, value, option->min, option->max);
			return;
		case AL_OPTION_DURATION:
			*(int64 *) field = al_option_duration(place, value, option->min, option->max);
			return;
		case AL_OPTION_READ:
			option->read(place, value, target);
			return;
		case AL_OPTION_LATER:
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_DEFINITION),
					 errmsg("option \"%s\" is not supported in this version", option->name),
					 errdetail("At \"%s\": the %s \"%s\" asks for it.", al_visible(place.at), place.kind, al_visible(place.name)),
					 errhint("Leave it out; it is refused rather than ignored.")));
	}
}

/* Refuse a name, and say which is near or which there are. */
static void
refuse_unknown(AlPlace place, const char *name, const AlOption *table)
{
	const char *names[64];
	const char *nearest;
	StringInfoData list;
	int			n = 0;

	initStringInfo(&list);
	for (const AlOption *option = table; option->name != NULL; option++)
	{
		if (option->kind == AL_OPTION_LATER)
			continue;
		Assert(n + 1 < lengthof(names));
		names[n++] = option->name;
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", option->name);
	}
	names[n] = NULL;
	nearest = al_nearest_name(name, names);
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_DEFINITION),
			 errmsg("unknown option \"%s\"", al_visible(name)),
			 errdetail("At \"%s\": the %s \"%s\" has an option that does not exist.",
					   al_visible(place.at), place.kind, al_visible(place.name)),
			 nearest != NULL ? errhint("Perhaps you meant \"%s\".", nearest) :
			 errhint("The options here are: %s.", list.data)));
}

/* A duration in the largest unit that divides it. */
static char *
print_duration(int64 ms)
{
	static const struct
	{
		int64		ms;
		const char *unit;
	}			units[] = {
		{AL_DAY_MS, "d"}, {AL_HOUR_MS, "h"}, {AL_MINUTE_MS, "m"}, {AL_SECOND_MS, "s"},
	};

	for (int i = 0; i < lengthof(units); i++)
	{
		if (ms > 0 && ms % units[i].ms == 0)
			return psprintf(INT64_FORMAT "%s", ms / units[i].ms, units[i].unit);
	}
	return psprintf(INT64_FORMAT "ms", ms);
}
