/*
 * definition_lookup.c
 *		Reading and checking how a tool looks up what has become of a request.
 *
 * An absence that is only believed is a second refund: what can prove one is
 * said explicitly here, and a definition that could never prove it although it
 * says so is refused.
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"

#include "definition_internal.h"
#include "render_internal.h"

#define DEFAULT_EVERY_MS (10 * AL_SECOND_MS)
#define DEFAULT_ATTEMPTS 10
#define MAX_ATTEMPTS 100
#define DEFAULT_WINDOW_MS AL_DAY_MS

#define BY_LOCATION "GET {_location}"

static void read_request(AlPlace place, const JsonbValue *value, void *target);
static void read_match(AlPlace place, const JsonbValue *value, void *target);
static void read_more(AlPlace place, const JsonbValue *value, void *target);
static void read_outcome(AlPlace place, const JsonbValue *value, void *target);
static void read_absence(AlPlace place, const JsonbValue *value, void *target);

static const AlOption LOOKUP_OPTIONS[] = {
	AL_OPTION_READ_BY("request", read_request),
	AL_OPTION_READ_BY("match", read_match),
	AL_OPTION_READ_BY("more", read_more),
	AL_OPTION_READ_BY("outcome", read_outcome),
	AL_OPTION_DURATION_AT("every", AlLookupDef, every_ms, 1, AL_DAY_MS),
	AL_OPTION_INT_AT("attempts", AlLookupDef, attempts, 1, MAX_ATTEMPTS),
	AL_OPTION_DURATION_AT("window", AlLookupDef, window_ms, AL_SECOND_MS, 30 * AL_DAY_MS),
	AL_OPTION_READ_BY("absence", read_absence),
	AL_OPTION_BOOL_AT("resend", AlLookupDef, resend),
	AL_OPTION_END
};

/* A lookup as it is being read. */
typedef struct LookupReader
{
	AlLookupDef lookup;			/* first: the table's offsets are its */
	bool		has_request;
} LookupReader;

static void check_variables(AlPlace place, const char *path, const AlToolDef *tool);
static bool is_variable(const char *name, size_t len, const AlToolDef *tool);
static const char *skip_text(const char *at);
static const char *find_filter(const char *path);
static char *list_path(const char *path);
static bool selects_elements(const char *path, const char *end);
static void check_list(AlPlace place, const char *path);
static void parse_jsonpath(const char *text);

void
al_definition_lookup(AlPlace place, const JsonbValue *value, void *target)
{
	LookupReader reader = {
		.lookup = {.every_ms = DEFAULT_EVERY_MS, .attempts = DEFAULT_ATTEMPTS, .window_ms = DEFAULT_WINDOW_MS}
	};

	al_option_read(place, value, LOOKUP_OPTIONS, &reader);
	if (!reader.has_request)
		al_definition_error(place, "Write a request such as \"GET /v1/refunds{?payment_intent}\".",
							"the lookup has no request");
	if (reader.lookup.match == NULL)
		al_definition_error(place, "Write a jsonpath such as $.data[*] ? (@.metadata.key == $_key); \"$\" where the answer is the object itself.",
							"the lookup has no match: nothing says which object of the answer belongs to the action");
	((AlToolDef *) target)->lookup = memcpy(palloc(sizeof(AlLookupDef)), &reader.lookup, sizeof(AlLookupDef));
}

void
al_definition_settle_lookup(AlPlace place, AlToolDef *tool)
{
	AlLookupDef *lookup = tool->lookup;
	AlToolDef  *request;

	if (lookup == NULL)
		return;
	check_variables(al_place_member(place, "match"), lookup->match, tool);
	if (lookup->more != NULL)
		check_variables(al_place_member(place, "more"), lookup->more, tool);
	if (lookup->authoritative)
		check_list(al_place_member(place, "match"), lookup->match);
	lookup->list = list_path(lookup->match);
	lookup->filters = *find_filter(lookup->match) != '\0';
	if (lookup->resend && !lookup->authoritative && lookup->absent == NULL)
		al_definition_error(al_place_member(place, "resend"), "Say with \"absence\" what proves that there is no such object.",
							"there is no send after an absence that nothing proves");
	if (lookup->resend && tool->type == AL_TYPE_IRREVERSIBLE)
		al_definition_error(al_place_member(place, "resend"), "Leave it out; a person decides.",
							"an irreversible action is never sent again");

	request = palloc0(sizeof(AlToolDef));
	request->name = tool->name;
	request->method = pstrdup("GET");
	request->path = lookup->path;
	request->type = AL_TYPE_READ_ONLY;
	request->input = tool->input;
	request->headers = tool->headers;
	request->body = AL_BODY_NONE;
	lookup->request = request;
}

static void
read_request(AlPlace place, const JsonbValue *value, void *target)
{
	LookupReader *reader = target;
	char	   *text = al_option_text(place, value);
	char	   *method;

	reader->has_request = true;
	if (strcmp(text, BY_LOCATION) == 0)
		return;
	al_definition_request(place, text, &method, &reader->lookup.path);
	if (strcmp(method, "GET") != 0)
		al_definition_error(place, "Write a request such as \"GET /v1/refunds{?payment_intent}\".",
							"a lookup is a GET: it must change nothing, and its answer is read");
}

static void
read_match(AlPlace place, const JsonbValue *value, void *target)
{
	((LookupReader *) target)->lookup.match = al_definition_jsonpath(place, value);
}

static void
read_more(AlPlace place, const JsonbValue *value, void *target)
{
	((LookupReader *) target)->lookup.more = al_definition_jsonpath(place, value);
}

static void
read_outcome(AlPlace place, const JsonbValue *value, void *target)
{
	AlLookupDef *lookup = &((LookupReader *) target)->lookup;

	lookup->outcome = al_definition_rules(place, value);
	lookup->has_outcome = true;
}

/* "authoritative", or the answer that means absence. */
static void
read_absence(AlPlace place, const JsonbValue *value, void *target)
{
	AlLookupDef *lookup = &((LookupReader *) target)->lookup;
	const char *hint = "Write \"authoritative\" where a list shows everything that was done, or the answer that means absence, such as {\"status\": 404, \"if\": \"$.error.code == \\\"not_found\\\"\"}.";

	if (al_option_is_object(value))
	{
		lookup->absent = al_definition_condition(place, value);
		if (lookup->absent->status_from < 200 || lookup->absent->status_from != lookup->absent->status_to)
			al_definition_error(al_place_member(place, "status"), hint, "an answer that means absence has one status, such as 404");
		if (lookup->absent->status_from == 429 || lookup->absent->status_from >= 500 ||
			lookup->absent->status_from == 401 || lookup->absent->status_from == 403)
			al_definition_error(al_place_member(place, "status"), hint,
								"an answer with status %d says that it did not look", lookup->absent->status_from);
		return;
	}
	if (value->type != jbvString || strcmp(al_option_text(place, value), "authoritative") != 0)
		al_definition_error(place, hint, "\"authoritative\" or an object belongs here");
	lookup->authoritative = true;
}

/* Refuse a variable that stands for nothing, and would only show so in the first lookup. */
static void
check_variables(AlPlace place, const char *path, const AlToolDef *tool)
{
	static const char *const ends = "?%$.[]{}()|&!=<>@#,*:-+/\\\" \t\n\r\f";

	for (const char *c = path; *c != '\0';)
	{
		const char *next = skip_text(c);
		size_t		len;

		if (next != c)
		{
			c = next;
			continue;
		}
		if (*c++ != '$' || *c == '\0')
			continue;
		if (*c == '"')
			al_definition_error(place, "Name an argument whose name is a plain word.",
								"a variable in quotation marks is not supported");
		len = strcspn(c, ends);
		if (len > 0 && !is_variable(c, len, tool))
			al_definition_error(place, "Name a property of the input schema, or _key, _identity, _action_id or _run_id.",
								"the variable $%s stands for nothing here", pnstrdup(c, len));
		c += len;
	}
}

static bool
is_variable(const char *name, size_t len, const AlToolDef *tool)
{
	static const char *const ours[] = {"_key", "_identity", "_action_id", "_run_id"};

	for (int i = 0; i < lengthof(ours); i++)
	{
		if (strlen(ours[i]) == len && memcmp(ours[i], name, len) == 0)
			return true;
	}
	return name[0] != '_' && al_render_property(tool, name, len) != NULL;
}

/* Step over a string or a comment that begins here. */
static const char *
skip_text(const char *at)
{
	if (*at == '"')
	{
		for (at++; *at != '\0' && *at != '"'; at++)
		{
			if (*at == '\\' && at[1] != '\0')
				at++;
		}
		return *at == '"' ? at + 1 : at;
	}
	if (at[0] == '/' && at[1] == '*')
	{
		const char *end = strstr(at + 2, "*/");

		return end != NULL ? end + 2 : at + strlen(at);
	}
	return at;
}

/* The first filter of a path, or its end. */
static const char *
find_filter(const char *path)
{
	const char *c = path;

	while (*c != '\0' && *c != '?')
	{
		const char *next = skip_text(c);

		c = next != c ? next : c + 1;
	}
	return c;
}

/* The part of a path before its first filter, in strict mode; NULL when it does not select the elements of an array. */
static char *
list_path(const char *path)
{
	const char *end = find_filter(path);
	const char *start = path + strspn(path, " \t\r\n");

	if (strncmp(start, "lax ", 4) == 0)
		start += 4;
	else if (strncmp(start, "strict ", 7) == 0)
		start += 7;
	if (!selects_elements(start, end))
		return NULL;
	return psprintf("strict %s", pnstrdup(start, end - start));
}

/* Whether there is a [*] in a part of a path. */
static bool
selects_elements(const char *path, const char *end)
{
	for (const char *c = path; c < end;)
	{
		const char *next = skip_text(c);

		if (next == c && *c == '[')
		{
			next = c + 1 + strspn(c + 1, " ");
			if (*next == '*' && next[1 + strspn(next + 1, " ")] == ']')
				return true;
		}
		c = next != c ? next : c + 1;
	}
	return false;
}

/* Refuse a path by which no list could be seen to be without the object. */
static void
check_list(AlPlace place, const char *path)
{
	const char *hint = "Let it begin with the array, as in $.data[*] ? (@.key == $_key); or say in \"absence\" which answer means that there is no such object.";
	char	   *list = list_path(path);

	if (list == NULL)
		al_definition_error(place, hint, "absence is seen in a list, and this selects from none");
	al_option_compiles(place, "the jsonpath up to its first filter", list, parse_jsonpath);
}

static void
parse_jsonpath(const char *text)
{
	(void) DirectFunctionCall1(jsonpath_in, CStringGetDatum(text));
}
