/*
 * lookup.c
 *		Asking the destination what has become of an action.
 *
 * The request is rendered from the definition as it is now, and goes only where
 * the frozen one went.  Its answer is read with suspicion: only a whole answer
 * of the expected form says anything, and an object counts only when match
 * selects it.  "Not there" is what a maintenance page says too, so a list must
 * be seen, and be complete, before its emptiness means something.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/numeric.h"

#include "answer.h"
#include "lookup.h"
#include "option.h"
#include "rules/uri_template.h"
#include "session.h"

#define MAX_URL 8192
#define MAX_REFS 20				/* references kept of several objects */

/* What a rendering takes and gives. */
typedef struct Rendering
{
	const AlTool *tool;
	AlRenderContext context;
	AlRendered *rendered;
} Rendering;

/* What a reading takes and fills. */
typedef struct Reading
{
	const AlTool *tool;
	const AlParticulars *particulars;
	const AlWireResult *result;
	AlFound    *found;
	bool		bare;			/* reference and result are not looked for */
} Reading;

static void render(void *arg);
static void render_headers(void *arg);
static bool is_below(const char *url, const char *base);
static bool has_lines(const char *lines, const char *others, const char *key);
static char *resolve_location(const char *location, const char *base);
static bool is_sound_url(const char *url);
static void classify(const AlEvidence *evidence, AlFound *found);
static void read_answer(void *arg);
static void read_objects(Reading *reading, Datum document);
static void judge_object(Reading *reading, Jsonb *object);
static void keep_several(Reading *reading, Jsonb *matches);
static bool leads_to_next(const char *link);
static bool has_more(const Reading *reading, Datum document, Jsonb *vars);
static Jsonb *variables(const AlTool *tool, const AlParticulars *particulars);
static void put_variable(JsonbParseState **state, const char *name, JsonbValue *value);
static Jsonb *select_all(Datum document, const char *path, Jsonb *vars);
static AlSightKind finding_of(const AlOutcome *outcome);

/* Renders the lookup of an action. */
AlRendered *
al_lookup_render(const AlTool *tool, const AlParticulars *particulars, const char *sent_url, const char *sent_headers, char **why)
{
	const AlLookupDef *lookup = tool->def->lookup;
	Rendering	rendering = {
		.tool = tool,
		.context = {
			.args = particulars->args, .key = particulars->key, .identity = particulars->identity,
			.run_id = particulars->run_id, .action_id = particulars->action_id, .external_ref = particulars->external_ref,
			.needs_all = true
		}
	};
	char	   *location = NULL;

	if (!al_lookup_same_origin(sent_url, tool->service->def->origin))
	{
		*why = psprintf("it went to another origin than %s, where the service is now", tool->service->def->origin);
		return NULL;
	}
	if (lookup->path == NULL)
	{
		location = particulars->location ? resolve_location(particulars->location, sent_url) : NULL;
		if (location == NULL || !is_sound_url(location) || !al_lookup_same_origin(location, tool->service->def->origin))
		{
			*why = pstrdup(particulars->location == NULL ? "no answer has told a location to ask at"
						   : "the location that an answer told is none at this service");
			return NULL;
		}
	}
	if (!al_session_try(location == NULL ? render : render_headers, &rendering))
	{
		*why = pstrdup("its request needs something that the action does not have");
		return NULL;
	}
	if (location != NULL)
		rendering.rendered->url = location;
	rendering.rendered->elsewhere = !is_below(sent_url, tool->service->def->base_url) ||
		!has_lines(sent_headers, rendering.rendered->headers, particulars->key) ||
		!has_lines(rendering.rendered->headers, sent_headers, particulars->key);
	return rendering.rendered;
}

/* Tells whether a URL is one below a base. */
static bool
is_below(const char *url, const char *base)
{
	size_t		len = strlen(base);

	return strncmp(url, base, len) == 0 && (url[len] == '\0' || strchr("/?", url[len]) != NULL);
}

/* Tells whether header lines have all of the others, but for those that a body and a key bring. */
static bool
has_lines(const char *lines, const char *others, const char *key)
{
	char	   *rest = pstrdup(others);
	char	   *line;

	while ((line = strsep(&rest, "\n")) != NULL)
	{
		size_t		len = strlen(line);
		const char *at = lines;

		if (len == 0 || pg_strncasecmp(line, "Content-Type:", 13) == 0 || strcmp(line + Min(strcspn(line, ":") + 2, len), key) == 0)
			continue;
		while (*at != '\0' && (strncmp(at, line, len) != 0 || (at[len] != '\n' && at[len] != '\0')))
			at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
		if (*at == '\0')
			return false;
	}
	return true;
}

/* Renders URL and headers. */
static void
render(void *arg)
{
	Rendering  *rendering = arg;

	rendering->rendered = al_render_lookup(rendering->tool->service->def, rendering->tool->def, &rendering->context);
}

/* Renders the headers alone. */
static void
render_headers(void *arg)
{
	Rendering  *rendering = arg;

	rendering->rendered = palloc0(sizeof(AlRendered));
	rendering->rendered->headers = al_render_lookup_headers(rendering->tool->service->def, rendering->tool->def,
															&rendering->context);
}

/* Makes an absolute URL of a Location (RFC 3986 section 5.2, without dot segments); NULL for one that is empty or was cut off. */
static char *
resolve_location(const char *location, const char *base)
{
	const char *authority = strstr(base, "://");
	const char *path;
	char	   *url;

	if (location[0] == '\0' || strlen(location) + 1 >= AL_HEAD_VALUE_MAX || authority == NULL)
		return NULL;
	path = authority + 3 + strcspn(authority + 3, "/?#");
	if (pg_strncasecmp(location, "http://", 7) == 0 || pg_strncasecmp(location, "https://", 8) == 0)
		url = pstrdup(location);
	else if (strncmp(location, "//", 2) == 0)
		url = psprintf("%.*s:%s", (int) (authority - base), base, location);
	else if (location[0] == '/')
		url = psprintf("%.*s%s", (int) (path - base), base, location);
	else if (location[0] == '?')
		url = psprintf("%.*s%s", (int) (path - base + strcspn(path, "?#")), base, location);
	else
	{
		const char *end = path + strcspn(path, "?#");

		while (end > path && end[-1] != '/')
			end--;
		url = psprintf("%.*s%s%s", (int) (end - base), base, end == path ? "/" : "", location);
	}
	url[strcspn(url, "#")] = '\0';
	return url;
}

/* Tells whether a URL of an answer may be asked for: printable, of bounded length, without dot segments. */
static bool
is_sound_url(const char *url)
{
	const char *authority = strstr(url, "://");
	const char *path;

	if (authority == NULL || strlen(url) >= MAX_URL)
		return false;
	for (const char *c = url; *c != '\0'; c++)
	{
		if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f || strchr("\"<>\\^`{|}", *c) != NULL)
			return false;
	}
	path = authority + 3 + strcspn(authority + 3, "/?#");
	return !al_uri_has_dot_segment(path, strlen(path));
}

/* Tells whether a URL goes to an origin. */
bool
al_lookup_same_origin(const char *url, const char *origin)
{
	const char *authority = strstr(url, "://");
	const char *end;
	char	   *normal;
	bool		https = pg_strncasecmp(url, "https:", 6) == 0;

	if (authority == NULL)
		return false;
	end = authority + 3 + strcspn(authority + 3, "/?#");
	normal = pnstrdup(url, end - url);
	if (strchr(strrchr(normal, ']') ? strrchr(normal, ']') : normal + (authority - url) + 3, ':') == NULL)
		normal = psprintf("%s:%d", normal, https ? 443 : 80);
	return pg_strcasecmp(normal, origin) == 0;
}

/* Reads the answer to a lookup. */
void
al_lookup_read(const AlTool *tool, const AlParticulars *particulars, const AlEvidence *evidence,
			   const AlWireResult *result, AlFound *found)
{
	bool		whole = evidence->ending == AL_END_OK && evidence->prereqs == 1 &&
		evidence->head_complete && evidence->framing_complete;
	Reading		reading = {tool, particulars, result, found};

	classify(evidence, found);
	if (result == NULL || particulars == NULL || tool->def->lookup == NULL || !whole || result->body_capped)
		return;
	if (al_session_try(read_answer, &reading))
		return;
	/* What raises where reference and result are looked for must not take away what was found. */
	classify(evidence, found);
	reading.bare = true;
	if (!al_session_try(read_answer, &reading))
		*found = (AlFound) {.category = "unreadable"};
}

/* Says why an answer proves nothing, until it is seen that it does. */
static void
classify(const AlEvidence *evidence, AlFound *found)
{
	AlContext	context = {.earlier_open = true};
	AlOutcome	outcome = al_classify(evidence, &context);

	*found = (AlFound) {.finding = AL_FOUND_NOTHING_SURE, .category = outcome.category};
	if (!evidence->head_complete || outcome.verdict == AL_VERDICT_NOT_SENT || evidence->prereqs >= 2)
		return;
	if (!evidence->framing_complete || evidence->ending != AL_END_OK)
		found->category = "body_truncated";
	else if (outcome.verdict == AL_VERDICT_REJECTED && !outcome.transient)
		found->category = "lookup_refused";
	else if (outcome.verdict == AL_VERDICT_CONFIRMED)
		found->category = "unreadable";
	else if (outcome.verdict == AL_VERDICT_IN_PROGRESS)
		found->category = "status_ambiguous";
}

/* Reads a whole answer, raising for what cannot be read. */
static void
read_answer(void *arg)
{
	Reading    *reading = arg;
	const AlLookupDef *lookup = reading->tool->def->lookup;
	int			status = reading->result->head.status;
	Datum		document;
	bool		readable = false;

	if (status == 200 || status == 203 || (lookup->absent != NULL && lookup->absent->condition != NULL))
		readable = al_answer_document(reading->result, &document);
	if (readable && (status == 200 || status == 203))
		read_objects(reading, document);
	else if (lookup->absent != NULL && al_answer_fits(lookup->absent, reading->result, readable ? &document : NULL))
	{
		reading->found->finding = AL_FOUND_NONE;
		reading->found->authoritative = true;
		reading->found->category = "not_found";
	}
}

/* Finds the objects of the action in an answer. */
static void
read_objects(Reading *reading, Datum document)
{
	const AlLookupDef *lookup = reading->tool->def->lookup;
	AlFound    *found = reading->found;
	Jsonb	   *vars = variables(reading->tool, reading->particulars);
	Jsonb	   *matches = select_all(document, lookup->match, vars);

	found->n = JB_ROOT_COUNT(matches);
	for (int i = 0; i < found->n; i++)
	{
		JsonbValue *match = getIthJsonbValueFromContainer(&matches->root, i);

		if (!al_option_is_object(match))
		{
			found->category = "match_not_an_object";
			return;
		}
	}
	if (found->n > 1)
		keep_several(reading, matches);
	else if (found->n == 1)
		judge_object(reading, JsonbValueToJsonb(getIthJsonbValueFromContainer(&matches->root, 0)));
	if (found->n <= 1 && has_more(reading, document, vars))
	{
		found->finding = AL_FOUND_NOTHING_SURE;
		found->category = "more_pages";
		found->result = 0;
	}
	else if (found->n == 0)
	{
		found->finding = AL_FOUND_NONE;
		found->category = "not_found";
		/* Raises for an answer in which there is no such list. */
		if (lookup->authoritative)
			found->authoritative = select_all(document, lookup->list, vars) != NULL;
		else if (lookup->absent != NULL)
			found->authoritative = al_answer_fits(lookup->absent, reading->result, &document);
	}
}

/* Puts the one object that was found through the rules. */
static void
judge_object(Reading *reading, Jsonb *object)
{
	const AlToolDef *tool = reading->tool->def;
	Datum		document = JsonbPGetDatum(object);
	AlEvidence	evidence = reading->result->evidence;
	AlContext	context = {.earlier_open = true};
	AlAnswer	answer = {0};
	AlOutcome	rule;
	AlOutcome	outcome;

	al_answer_choose(tool->lookup->has_outcome ? tool->lookup->outcome : tool->outcome, reading->result, &document, &answer);
	if (!reading->bare)
		al_answer_extract(reading->tool, document, &answer);
	context.body_rule = answer.body_rule;
	if (answer.rule != NULL)
	{
		rule = (AlOutcome)
		{
			.verdict = answer.rule->verdict, .transient = answer.rule->transient, .category = answer.rule->category
		};
		context.rule = &rule;
	}
	outcome = al_classify(&evidence, &context);
	/* Whatever comes is taken for the object: then it has to look like one. */
	if (!tool->lookup->filters && answer.rule == NULL && tool->external_ref != NULL && answer.external_ref == NULL)
	{
		reading->found->category = "no_reference";
		return;
	}
	reading->found->finding = finding_of(&outcome);
	reading->found->category = outcome.verdict == AL_VERDICT_CONFIRMED ? "found" : outcome.category;
	reading->found->external_ref = answer.external_ref;
	if (outcome.verdict == AL_VERDICT_CONFIRMED)
		reading->found->result = answer.result;
}

/* Says what the object's outcome is as a finding. */
static AlSightKind
finding_of(const AlOutcome *outcome)
{
	switch (outcome->verdict)
	{
		case AL_VERDICT_CONFIRMED:
			return AL_FOUND_CONFIRMED;
		case AL_VERDICT_REJECTED:
			return outcome->transient ? AL_FOUND_REJECTED_TRANSIENT : AL_FOUND_REJECTED;
		case AL_VERDICT_IN_PROGRESS:
			return AL_FOUND_IN_PROGRESS;
		case AL_VERDICT_UNKNOWN:
		case AL_VERDICT_NOT_SENT:
			break;
	}
	return AL_FOUND_NOTHING_SURE;
}

/* Keeps the references of several objects. */
static void
keep_several(Reading *reading, Jsonb *matches)
{
	AlFound    *found = reading->found;
	JsonbParseState *state = NULL;

	found->finding = AL_FOUND_SEVERAL;
	found->category = "several";
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < Min(found->n, MAX_REFS); i++)
	{
		Jsonb	   *object = JsonbValueToJsonb(getIthJsonbValueFromContainer(&matches->root, i));
		AlAnswer	answer = {0};
		JsonbValue	ref = {.type = jbvString};

		if (!reading->bare)
			al_answer_extract(reading->tool, JsonbPGetDatum(object), &answer);
		if (answer.external_ref == NULL)
			continue;
		if (found->external_ref == NULL)
			found->external_ref = answer.external_ref;
		ref.val.string.val = answer.external_ref;
		ref.val.string.len = (int) strlen(answer.external_ref);
		pushJsonbValue(&state, WJB_ELEM, &ref);
	}
	found->refs = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}

/* Tells whether "next" is among the relations of a Link, of which one "rel" may name several. */
static bool
leads_to_next(const char *link)
{
	for (const char *at = link; (at = strcasestr(at, "rel")) != NULL; at += 3)
	{
		const char *value = at + 3 + strspn(at + 3, " \t");
		bool		quoted;

		if (*value != '=')
			continue;
		value += 1 + strspn(value + 1, " \t");
		quoted = *value == '"';
		value += quoted;
		for (const char *end = value + strcspn(value, quoted ? "\"" : " \t;,"); value < end; value += strcspn(value, " \t\""))
		{
			value += strspn(value, " \t");
			if (pg_strncasecmp(value, "next", 4) == 0 && strchr(" \t\";,", value[4]) != NULL)
				return true;
		}
	}
	return false;
}

/* Tells whether an answer is only a page of what there is: by the tool's path, or a Link to the next (RFC 8288). */
static bool
has_more(const Reading *reading, Datum document, Jsonb *vars)
{
	const char *path = reading->tool->def->lookup->more;
	const AlHead *head = &reading->result->head;
	Jsonb	   *more = path ? al_answer_first(document, path, vars) : NULL;
	JsonbValue	scalar;

	for (int i = 0; i < head->n_kept; i++)
	{
		const char *value = head->kept[i].value;

		/* One that was cut off may have named it behind the cut. */
		if (pg_strcasecmp(head->kept[i].name, "link") == 0 && (leads_to_next(value) || strlen(value) + 1 >= AL_HEAD_VALUE_MAX))
			return true;
	}
	/* And so may one for which there was no place. */
	if (head->n_kept >= AL_HEAD_KEPT)
		return true;
	if (more == NULL)
		return false;
	if (!JB_ROOT_IS_SCALAR(more) || !JsonbExtractScalar(&more->root, &scalar))
		return JB_ROOT_COUNT(more) > 0;
	switch (scalar.type)
	{
		case jbvBool:
			return scalar.val.boolean;
		case jbvString:
			return scalar.val.string.len > 0;
		case jbvNumeric:
			return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(scalar.val.numeric),
													 NumericGetDatum(int64_to_numeric(0)))) != 0;
		default:
			return false;
	}
}

/* Makes the variables of the paths: ours and the arguments, null for those that are missing. */
static Jsonb *
variables(const AlTool *tool, const AlParticulars *particulars)
{
	JsonbValue *properties = getKeyJsonValueFromContainer(&tool->def->input->root, "properties", 10, NULL);
	JsonbParseState *state = NULL;
	JsonbValue	value = {.type = jbvString};

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (properties != NULL && al_option_is_object(properties))
	{
		JsonbIterator *it = al_option_open(properties);
		JsonbValue	name;
		JsonbValue	ignored;

		while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
		{
			JsonbValue	null = {.type = jbvNull};
			JsonbValue *argument = JB_ROOT_IS_OBJECT(particulars->args)
				? getKeyJsonValueFromContainer(&particulars->args->root, name.val.string.val, name.val.string.len, NULL) : NULL;

			(void) JsonbIteratorNext(&it, &ignored, true);
			put_variable(&state, pnstrdup(name.val.string.val, name.val.string.len), argument ? argument : &null);
		}
	}
	value.val.string.val = particulars->key;
	value.val.string.len = (int) strlen(particulars->key);
	put_variable(&state, "_key", &value);
	value.val.string.val = particulars->identity;
	value.val.string.len = (int) strlen(particulars->identity);
	put_variable(&state, "_identity", &value);
	value.val.string.val = particulars->run_id ? particulars->run_id : "";
	value.val.string.len = (int) strlen(value.val.string.val);
	put_variable(&state, "_run_id", &value);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(particulars->action_id);
	put_variable(&state, "_action_id", &value);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* Puts one variable. */
static void
put_variable(JsonbParseState **state, const char *name, JsonbValue *value)
{
	JsonbValue	key = {.type = jbvString};

	key.val.string.val = unconstify(char *, name);
	key.val.string.len = (int) strlen(name);
	pushJsonbValue(state, WJB_KEY, &key);
	pushJsonbValue(state, WJB_VALUE, value);
}

/* Gives everything that a path selects as an array; raises what the path's mode raises. */
static Jsonb *
select_all(Datum document, const char *path, Jsonb *vars)
{
	return DatumGetJsonbP(DirectFunctionCall4(jsonb_path_query_array, document,
											  DirectFunctionCall1(jsonpath_in, CStringGetDatum(path)),
											  JsonbPGetDatum(vars), BoolGetDatum(false)));
}
