/*
 * definition_tool.c
 *		Reading and checking a tool: request, body, time limits, retries.
 *
 * Only what the definition says by itself is checked here, because a dispatcher
 * reads it too; what placeholders refer to is al_render_check()'s.
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "definition_internal.h"

#define DEFAULT_TIMEOUT_MS (30 * AL_SECOND_MS)
#define DEFAULT_CONNECT_TIMEOUT_MS (5 * AL_SECOND_MS)
#define DEFAULT_ATTEMPTS 4
#define MAX_ATTEMPTS 100
#define DEFAULT_BASE_MS AL_SECOND_MS
#define DEFAULT_CAP_MS (30 * AL_SECOND_MS)
#define DEFAULT_WINDOW_MS AL_HOUR_MS

/* Long enough to look for an effect even where the timeout is short. */
#define MIN_PROCESSING_MS AL_MINUTE_MS
#define PROCESSING_TIMEOUTS 10

#define MAX_PATH 4096

static void read_json(AlPlace place, const JsonbValue *value, void *target);
static void read_form(AlPlace place, const JsonbValue *value, void *target);
static void read_headers(AlPlace place, const JsonbValue *value, void *target);
static void read_external_ref(AlPlace place, const JsonbValue *value, void *target);
static void read_result(AlPlace place, const JsonbValue *value, void *target);
static void read_transport(AlPlace place, const JsonbValue *value, void *target);
static void read_retry(AlPlace place, const JsonbValue *value, void *target);
static void read_sensitive(AlPlace place, const JsonbValue *value, void *target);
static void read_idempotency(AlPlace place, const JsonbValue *value, void *target);

static const AlOption TOOL_OPTIONS[] = {
	AL_OPTION_TEXT_AT("summary", AlToolDef, summary),
	AL_OPTION_TEXT_AT("target", AlToolDef, target),
	AL_OPTION_TEXT_AT("owner", AlToolDef, owner),
	AL_OPTION_DURATION_AT("timeout", AlToolDef, timeout_ms, 1, AL_HOUR_MS),
	AL_OPTION_DURATION_AT("connect_timeout", AlToolDef, connect_timeout_ms, 1, AL_HOUR_MS),
	AL_OPTION_READ_BY("outcome", al_definition_outcome),
	AL_OPTION_READ_BY("json", read_json),
	AL_OPTION_READ_BY("form", read_form),
	AL_OPTION_READ_BY("headers", read_headers),
	AL_OPTION_READ_BY("external_ref", read_external_ref),
	AL_OPTION_READ_BY("result", read_result),
	AL_OPTION_DURATION_AT("max_processing", AlToolDef, max_processing_ms, 0, 30 * AL_DAY_MS),
	AL_OPTION_READ_BY("transport", read_transport),
	AL_OPTION_READ_BY("retry", read_retry),
	AL_OPTION_READ_BY("lookup", al_definition_lookup),
	AL_OPTION_DURATION_AT("expires_after", AlToolDef, expires_after_ms, AL_SECOND_MS, 400 * AL_DAY_MS),
	AL_OPTION_READ_BY("sensitive", read_sensitive),
	AL_OPTION_READ_BY("idempotency", read_idempotency),
	AL_OPTION_READ_BY("approval", al_definition_approval),
	AL_OPTION_TEXT_AT("check_function", AlToolDef, check_function),
	AL_OPTION_NOT_YET("compensation"),
	AL_OPTION_NOT_YET("handlers"),
	AL_OPTION_NOT_YET("ordering_key"),
	AL_OPTION_BOOL_AT("per_run", AlToolDef, per_run),
	AL_OPTION_END
};

static const AlOption RETRY_OPTIONS[] = {
	AL_OPTION_INT_AT("attempts", AlToolDef, attempts, 1, MAX_ATTEMPTS),
	AL_OPTION_DURATION_AT("base", AlToolDef, base_ms, 1, AL_HOUR_MS),
	AL_OPTION_DURATION_AT("cap", AlToolDef, cap_ms, 1, AL_DAY_MS),
	AL_OPTION_DURATION_AT("window", AlToolDef, window_ms, AL_SECOND_MS, 30 * AL_DAY_MS),
	AL_OPTION_END
};

static void read_external(AlPlace place, const char *request, AlToolDef *tool);
static void settle_body(AlPlace place, AlToolDef *tool);
static void settle_times(AlPlace place, AlToolDef *tool);
static void set_template(AlPlace place, const JsonbValue *value, AlBodyKind kind, AlToolDef *tool);
static void check_pointer(AlPlace place, const char *pointer);
static bool is_one_of(const char *text, const char *const *list);

AlToolDef *
al_tool_parse(const char *name, const char *request, const char *action_type,
			  const char *identity, Jsonb *input, Jsonb *options)
{
	AlToolDef  *tool = palloc0(sizeof(AlToolDef));
	AlPlace		place = {"tool", name, ""};
	JsonbValue	root = al_option_root(options);
	JsonbValue	schema = al_option_root(input);

	al_definition_check_name(place);
	tool->name = pstrdup(name);
	if (!al_type_parse(action_type, &tool->type))
		al_definition_error(al_place_member(place, "action_type"), NULL,
							"one of %s, %s, %s and %s belongs here",
							al_type_name(AL_TYPE_READ_ONLY), al_type_name(AL_TYPE_IDEMPOTENT),
							al_type_name(AL_TYPE_NON_IDEMPOTENT), al_type_name(AL_TYPE_IRREVERSIBLE));
	if (identity != NULL && identity[0] == '\0')
		al_definition_error(al_place_member(place, "identity"),
							"Pass NULL to name actions by a hash of their arguments.",
							"the identity template is empty");
	tool->identity = identity != NULL ? pstrdup(identity) : NULL;
	if (!al_option_is_object(&schema))
		al_definition_error(al_place_member(place, "input"), NULL, "a JSON Schema object belongs here");
	tool->input = (Jsonb *) memcpy(palloc(VARSIZE(input)), input, VARSIZE(input));

	tool->body = AL_BODY_ARGS;
	tool->max_processing_ms = -1;
	tool->timeout_ms = DEFAULT_TIMEOUT_MS;
	tool->attempts = DEFAULT_ATTEMPTS;
	tool->window_ms = DEFAULT_WINDOW_MS;
	tool->approval_expires_ms = AL_DEFAULT_APPROVAL_MS;
	al_option_read(place, &root, TOOL_OPTIONS, tool);
	if (tool->external)
		read_external(place, request, tool);
	else
		al_definition_request(al_place_member(place, "request"), request, &tool->method, &tool->path);
	if (tool->per_run && identity != NULL && strstr(identity, "{_run_id}") == NULL)
		al_definition_error(al_place_member(place, "per_run"), "Put {_run_id} into the identity, or leave per_run out.",
							"the identity has no {_run_id}, so that it is the same in every run");
	settle_body(place, tool);
	settle_times(place, tool);
	al_definition_settle_lookup(al_place_member(place, "lookup"), tool);
	return tool;
}

/* "METHOD /path" with one space between. */
void
al_definition_request(AlPlace place, const char *request, char **method, char **path)
{
	static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", NULL};
	const char *hint = "Write a request such as \"POST /v1/refunds\".";
	const char *space = strchr(request, ' ');

	if (space == NULL)
		al_definition_error(place, hint, "a method and a path with one space between belong here");
	*method = pnstrdup(request, space - request);
	*path = pstrdup(space + 1);
	if (!is_one_of(*method, methods))
		al_definition_error(place, hint, "the method is not one of GET, HEAD, POST, PUT, PATCH and DELETE");
	if ((*path)[0] != '/')
		al_definition_error(place, hint, "the path does not begin with \"/\"");
	if ((*path)[1] == '/')
		al_definition_error(place, hint, "the path begins with \"//\", which some take for the name of a host");
	if (strlen(*path) > MAX_PATH)
		al_definition_error(place, hint, "the path is longer than %d bytes", MAX_PATH);
	for (const char *c = *path; *c != '\0'; c++)
	{
		if ((unsigned char) *c <= 0x20 || *c == 0x7f)
			al_definition_error(place, "Percent-encode it.", "the path has a space or a control character");
	}
}

/* What an outside executor is told to do: a text for people, and nothing of a request. */
static void
read_external(AlPlace place, const char *request, AlToolDef *tool)
{
	const char *what = tool->body_template ? (tool->body == AL_BODY_FORM ? "form" : "json")
		: tool->headers ? "headers" : tool->connect_timeout_ms > 0 ? "connect_timeout" : NULL;

	if (what != NULL)
		al_definition_error(al_place_member(place, what), "Leave it out: the executor is given the arguments and the key.",
							"the ledger sends no request for a tool whose transport is external");
	if (request[0] == '\0' || strlen(request) > MAX_PATH)
		al_definition_error(al_place_member(place, "request"), "Say what is to be done, such as \"book the pickup by fax\".",
							"a text of at most %d bytes belongs here", MAX_PATH);
	for (const char *c = request; *c != '\0'; c++)
	{
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			al_definition_error(al_place_member(place, "request"), NULL, "the text has a control character");
	}
	tool->method = pstrdup(AL_EXTERNAL);
	tool->path = pstrdup(request);
	tool->body = AL_BODY_NONE;
}

/* What is sent when nothing is said, and what a method cannot have. */
static void
settle_body(AlPlace place, AlToolDef *tool)
{
	static const char *const without[] = {"GET", "HEAD", NULL};
	static const char *const optional[] = {"GET", "HEAD", "DELETE", NULL};

	if (tool->body == AL_BODY_ARGS && is_one_of(tool->method, optional))
		tool->body = AL_BODY_NONE;
	if (tool->body_template != NULL && is_one_of(tool->method, without))
		al_definition_error(al_place_member(place, tool->body == AL_BODY_JSON ? "json" : "form"),
							"Put the arguments into the URL, as in GET /v1/refunds{?payment_intent}.",
							"a %s request has no body", tool->method);
}

/* Defaults that depend on other options, and what contradicts itself. */
static void
settle_times(AlPlace place, AlToolDef *tool)
{
	AlPlace		retry = al_place_member(place, "retry");

	if (tool->connect_timeout_ms == 0)
		tool->connect_timeout_ms = Min(DEFAULT_CONNECT_TIMEOUT_MS, tool->timeout_ms);
	if (tool->connect_timeout_ms > tool->timeout_ms)
		al_definition_error(al_place_member(place, "connect_timeout"), NULL,
							"connecting may not take longer than the whole request, which is timeout");
	if (tool->max_processing_ms < 0)
		tool->max_processing_ms = Max(PROCESSING_TIMEOUTS * tool->timeout_ms, MIN_PROCESSING_MS);
	if (tool->base_ms == 0)
		tool->base_ms = tool->cap_ms == 0 ? DEFAULT_BASE_MS : Min(DEFAULT_BASE_MS, tool->cap_ms);
	if (tool->cap_ms == 0)
		tool->cap_ms = Max(DEFAULT_CAP_MS, tool->base_ms);
	if (tool->cap_ms < tool->base_ms)
		al_definition_error(al_place_member(retry, "cap"), NULL, "the longest delay is shorter than the first, base");
}

static void
read_json(AlPlace place, const JsonbValue *value, void *target)
{
	if (value->type == jbvNull)
		al_definition_error(place, "Leave it out to send the arguments, or write {} for an empty object.",
							"a template belongs here, not null");
	set_template(place, value, AL_BODY_JSON, target);
}

static void
read_form(AlPlace place, const JsonbValue *value, void *target)
{
	if (!al_option_is_object(value))
		al_definition_error(place, NULL, "an object of fields belongs here, not %s", al_option_kind(value));
	set_template(place, value, AL_BODY_FORM, target);
}

static void
set_template(AlPlace place, const JsonbValue *value, AlBodyKind kind, AlToolDef *tool)
{
	JsonbValue	copy = *value;

	if (tool->body_template != NULL)
		al_definition_error(place, NULL, "a request has either \"json\" or \"form\"");
	tool->body = kind;
	tool->body_template = JsonbValueToJsonb(&copy);
}

static void
read_headers(AlPlace place, const JsonbValue *value, void *target)
{
	al_definition_headers(place, value, true, &((AlToolDef *) target)->headers);
}

static void
read_external_ref(AlPlace place, const JsonbValue *value, void *target)
{
	((AlToolDef *) target)->external_ref = al_definition_jsonpath(place, value);
}

static void
read_result(AlPlace place, const JsonbValue *value, void *target)
{
	((AlToolDef *) target)->result = al_definition_jsonpath(place, value);
}

static void
read_transport(AlPlace place, const JsonbValue *value, void *target)
{
	char	   *transport = al_option_text(place, value);

	if (strcmp(transport, "http") != 0 && strcmp(transport, "external") != 0)
		al_definition_error(place, NULL, "\"http\" (the ledger sends) or \"external\" (an outside executor claims) belongs here");
	((AlToolDef *) target)->external = strcmp(transport, "external") == 0;
}

static void
read_retry(AlPlace place, const JsonbValue *value, void *target)
{
	al_option_read(place, value, RETRY_OPTIONS, target);
}

static void
read_sensitive(AlPlace place, const JsonbValue *value, void *target)
{
	AlToolDef  *tool = target;

	if (!al_option_is_array(value))
		al_definition_error(place, "Write an array of JSON Pointers, such as [\"/card/number\"].",
							"an array belongs here, not %s", al_option_kind(value));
	for (int i = 0; i < JsonContainerSize(value->val.binary.data); i++)
	{
		AlPlace		here = al_place_element(place, i);
		char	   *pointer = al_option_text(here, getIthJsonbValueFromContainer(value->val.binary.data, i));

		check_pointer(here, pointer);
		tool->sensitive = lappend(tool->sensitive, pointer);
	}
}

static void
read_idempotency(AlPlace place, const JsonbValue *value, void *target)
{
	AlToolDef  *tool = target;

	tool->has_idempotency = true;
	al_definition_idempotency(place, value, &tool->idempotency);
}

/* The syntax of RFC 6901; the whole document is not a field. */
static void
check_pointer(AlPlace place, const char *pointer)
{
	if (pointer[0] != '/')
		al_definition_error(place, "Write a JSON Pointer, such as \"/card/number\".",
							"a JSON Pointer begins with \"/\"");
	for (const char *c = pointer; *c != '\0'; c++)
	{
		if (*c == '~' && c[1] != '0' && c[1] != '1')
			al_definition_error(place, "Write ~0 for ~ and ~1 for /.", "a JSON Pointer has ~ only in ~0 and ~1");
	}
}

static bool
is_one_of(const char *text, const char *const *list)
{
	for (; *list != NULL; list++)
	{
		if (strcmp(text, *list) == 0)
			return true;
	}
	return false;
}
