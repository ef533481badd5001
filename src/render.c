/*
 * render.c
 *		From a tool and arguments to the frozen request.
 *
 * Arguments come from agents: they never decide where a request goes or what
 * its headers are.  In a URL they are percent-encoded and cannot leave their
 * path segment; in a header they are printable ASCII without braces, so that an
 * argument never reads as a reference to a secret.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "canonical.h"
#include "definition_internal.h"
#include "errors.h"
#include "render_internal.h"
#include "visible.h"
#include "rules/text_template.h"
#include "rules/uri_template.h"

#define MAX_IDENTITY 200
#define UNIT_SEPARATOR '\x1f'
#define CONTENT_TYPE "Content-Type"

/* Lookups carry none: they change nothing. */
static const AlIdempotency no_key = {.place = AL_KEY_PLACE_NONE, .name = ""};

static void append_identity_field(StringInfo out, const char *name, const JsonbValue *value);
AL_NORETURN static void bad_identity(const char *detail);
static char *render_url(const AlServiceDef *service, const AlToolDef *tool,
						const AlIdempotency *idempotency, const AlRenderContext *context);
AL_NORETURN static void refuse_expansion(const AlToolDef *tool, AlUriResult result, size_t at);
static bool look_up(const AlUriVariable *variable, AlUriValue *value, void *arg);
static char *with_key_parameter(char *url, const AlIdempotency *idempotency, const char *key);
static char *render_headers(const AlServiceDef *service, const AlToolDef *tool,
							const AlIdempotency *idempotency, const AlRenderContext *context);
static char *render_header(const char *line, const AlRenderContext *context);
static void append_header_argument(StringInfo out, const AlRenderContext *context, const AlTextPiece *piece);
static bool has_header(const List *lines, const char *name);
static bool same_name(const char *line, const char *name);
static void append_line(StringInfo out, const char *line);

char *
al_render_identity(const AlToolDef *tool, Jsonb *args, const char *run_id)
{
	AlRenderContext context = {args, NULL, NULL, run_id, 0};
	const char *cursor = tool->identity;
	const char *end = cursor + strlen(cursor);
	StringInfoData out;
	AlTextPiece piece;

	initStringInfo(&out);
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_PLACEHOLDER)
			append_identity_field(&out, pnstrdup(piece.text, piece.len),
								  al_render_value(&context, piece.text, piece.len));
		else
			appendBinaryStringInfo(&out, piece.text, piece.len);
	}
	if (out.len > MAX_IDENTITY)
		bad_identity(psprintf("It has %d bytes, and %d are the most.", out.len, MAX_IDENTITY));
	for (int i = 0; i < out.len; i++)
	{
		if ((unsigned char) out.data[i] < 0x20 || out.data[i] == 0x7f)
			bad_identity("It has a control character.");
	}
	return out.data;
}

char *
al_render_text(const char *template, Jsonb *args, int max)
{
	AlRenderContext context = {args, NULL, NULL, NULL, 0};
	const char *cursor = template;
	const char *end = template + strlen(template);
	StringInfoData out;
	AlTextPiece piece;
	char	   *text;

	initStringInfo(&out);
	while (out.len <= max && (piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		JsonbValue *value;

		if (piece.kind != AL_TEXT_PLACEHOLDER)
		{
			appendBinaryStringInfo(&out, piece.text, piece.len);
			continue;
		}
		value = al_render_value(&context, piece.text, piece.len);
		if (value != NULL && value->type == jbvBinary)
			(void) JsonbToCString(&out, value->val.binary.data, value->val.binary.len);
		else if (value != NULL)
			appendStringInfoString(&out, al_render_scalar(value));
	}
	text = unconstify(char *, al_visible(out.data));	/* it is shown on people's terminals */
	text[pg_mbcliplen(text, (int) strlen(text), max)] = '\0';
	return text;
}

char *
al_render_key(const AlIdempotency *idempotency, const pg_uuid_t *namespace_id,
			  const char *service, const char *identity)
{
	char	   *key;
	size_t		len;

	if (idempotency->form == AL_KEY_FORM_UUID)
	{
		StringInfoData name;
		pg_uuid_t	uuid;
		const char *utf8;
		int			utf8_len;

		initStringInfo(&name);
		utf8 = al_utf8(service, strlen(service), &utf8_len);
		appendBinaryStringInfo(&name, utf8, utf8_len);
		appendStringInfoChar(&name, UNIT_SEPARATOR);
		utf8 = al_utf8(identity, strlen(identity), &utf8_len);
		appendBinaryStringInfo(&name, utf8, utf8_len);
		al_uuid5(namespace_id, name.data, name.len, &uuid);
		key = DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&uuid)));
	}
	else
		key = psprintf("%s%s", idempotency->prefix, identity);

	len = strlen(key);
	if (identity[0] == '\0' || len < idempotency->min_length || len > idempotency->max_length)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_IDENTITY),
				 errmsg("identity does not give a valid idempotency key"),
				 errdetail("The key has %d bytes; service \"%s\" declares %d to %d.", (int) len, service,
						   idempotency->min_length, idempotency->max_length),
				 errhint("Use an identity of another length, or declare the key form \"uuid\" for the service.")));
	if (!al_key_fits(idempotency, key))
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_IDENTITY),
				 errmsg("identity does not give a valid idempotency key"),
				 errdetail("The key has a character that service \"%s\" does not allow in keys: %s.", service,
						   idempotency->alphabet ? idempotency->alphabet : "printable ASCII without space and braces"),
				 errhint("Use an identity of those characters, or declare the key form \"uuid\" for the service.")));
	return key;
}

AlRendered *
al_render_request(const AlServiceDef *service, const AlToolDef *tool,
				  const AlIdempotency *idempotency,
				  const AlRenderContext *context, size_t max_body)
{
	AlRendered *rendered = palloc0(sizeof(AlRendered));

	if (tool->external)
	{
		rendered->url = pstrdup(service->base_url);
		rendered->headers = pstrdup("");
		return rendered;
	}
	al_render_check_key(tool, idempotency);
	rendered->url = render_url(service, tool, idempotency, context);
	rendered->headers = render_headers(service, tool, idempotency, context);
	if (tool->body != AL_BODY_NONE)
	{
		StringInfoData body;

		initStringInfo(&body);
		al_render_body(tool, context,
					   idempotency->place == AL_KEY_PLACE_BODY ? idempotency->name : NULL,
					   max_body, &body);
		rendered->body = body.data;
		rendered->body_len = body.len;
	}
	return rendered;
}

AlRendered *
al_render_lookup(const AlServiceDef *service, const AlToolDef *tool, const AlRenderContext *context)
{
	AlRendered *rendered = palloc0(sizeof(AlRendered));

	rendered->url = render_url(service, tool->lookup->request, &no_key, context);
	rendered->headers = render_headers(service, tool->lookup->request, &no_key, context);
	return rendered;
}

char *
al_render_lookup_headers(const AlServiceDef *service, const AlToolDef *tool, const AlRenderContext *context)
{
	return render_headers(service, tool->lookup->request, &no_key, context);
}

JsonbValue *
al_render_value(const AlRenderContext *context, const char *name, size_t len)
{
	const char *ours = NULL;
	JsonbValue *value;

	if (name[0] != '_')
		return JB_ROOT_IS_OBJECT(context->args) ?
			getKeyJsonValueFromContainer(&context->args->root, name, len, NULL) : NULL;
	value = palloc(sizeof(JsonbValue));
	if (len == 10 && memcmp(name, "_action_id", len) == 0)
	{
		value->type = jbvNumeric;
		value->val.numeric = int64_to_numeric(context->action_id);
		return value;
	}
	if (len == 4 && memcmp(name, "_key", len) == 0)
		ours = context->key;
	else if (len == 9 && memcmp(name, "_identity", len) == 0)
		ours = context->identity;
	else if (len == 7 && memcmp(name, "_run_id", len) == 0)
		ours = context->run_id ? context->run_id : "";
	else if (len == 13 && memcmp(name, "_external_ref", len) == 0)
		ours = context->external_ref;
	if (ours == NULL)
		return NULL;
	value->type = jbvString;
	value->val.string.val = unconstify(char *, ours);
	value->val.string.len = strlen(ours);
	return value;
}

char *
al_render_scalar(const JsonbValue *value)
{
	StringInfoData number;

	switch (value->type)
	{
		case jbvNull:
			return pstrdup("");
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		case jbvNumeric:
			initStringInfo(&number);
			al_canonical_append_value(&number, value);
			return number.data;
		default:
			return NULL;
	}
}

void
al_render_refuse(const char *name, const char *hint, const char *what)
{
	AlPlace		arguments = {"argument", name, ""};
	AlPlace		place = al_place_member(arguments, name);

	ereport(ERROR,
			(errcode(AL_ERR_INVALID_ARGUMENTS),
			 errmsg("argument \"%s\" cannot stand in the request", al_visible(name)),
			 errdetail("At \"%s\": %s.", al_visible(place.at), what),
			 errhint("%s", hint)));
}

/* Append a field that an identity is made of; an empty one would be many things' name. */
static void
append_identity_field(StringInfo out, const char *name, const JsonbValue *value)
{
	char	   *text = value != NULL ? al_render_scalar(value) : NULL;

	if (value == NULL)
		bad_identity(psprintf("Its field \"%s\" is missing.", name));
	if (text == NULL)
		bad_identity(psprintf("Its field \"%s\" is an object or an array.", name));
	if (text[0] == '\0')
		bad_identity(psprintf("Its field \"%s\" is empty.", name));
	appendStringInfoString(out, text);
}

static void
bad_identity(const char *detail)
{
	ereport(ERROR,
			(errcode(AL_ERR_INVALID_IDENTITY),
			 errmsg("arguments do not give a valid identity"),
			 errdetail("%s", al_visible(detail)),
			 errhint("An identity names one operation for ever: give each of its fields a short, printable value.")));
}

static char *
render_url(const AlServiceDef *service, const AlToolDef *tool,
		   const AlIdempotency *idempotency, const AlRenderContext *context)
{
	char		out[AL_MAX_URL];
	int			path_len;
	const char *path = al_utf8(tool->path, strlen(tool->path), &path_len);
	size_t		out_len;
	size_t		at;
	AlUriResult result = al_uri_expand(path, path_len, look_up, unconstify(AlRenderContext *, context),
									   out, sizeof(out), &out_len, &at);
	char	   *url;

	if (result != AL_URI_OK)
		refuse_expansion(tool, result, at);
	if (memchr(out, '#', out_len) != NULL)
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("arguments cannot stand in the path of tool \"%s\"", tool->name),
				 errdetail("One of them brings a \"#\", and what follows it would not be sent."),
				 errhint("Send a value without \"#\".")));
	if (out_len > 1 && out[1] == '/')
		ereport(ERROR,
				(errcode(AL_ERR_INVALID_ARGUMENTS),
				 errmsg("arguments cannot stand in the path of tool \"%s\"", tool->name),
				 errdetail("They make it begin with \"//\", which some take for the name of a host."),
				 errhint("Send a value that does not begin with \"/\".")));
	url = psprintf("%s%s", service->base_url, out);
	if (idempotency->place == AL_KEY_PLACE_QUERY)
		url = with_key_parameter(url, idempotency, context->key);
	if (strlen(url) >= AL_MAX_URL)
		refuse_expansion(tool, AL_URI_TOO_LONG, 0);
	return url;
}

static void
refuse_expansion(const AlToolDef *tool, AlUriResult result, size_t at)
{
	switch (result)
	{
		case AL_URI_TOO_LONG:
			ereport(ERROR,
					(errcode(AL_ERR_REQUEST_TOO_LARGE),
					 errmsg("request of tool \"%s\" is too large", tool->name),
					 errdetail("Its URL is longer than %d bytes.", AL_MAX_URL - 1),
					 errhint("Send shorter values, or let the tool send them in the body.")));
			break;
		case AL_URI_DOT_SEGMENT:
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_ARGUMENTS),
					 errmsg("arguments cannot stand in the path of tool \"%s\"", tool->name),
					 errdetail("They make a segment \".\" or \"..\", which would lead to another resource."),
					 errhint("Send the plain name or number of the resource.")));
			break;
		case AL_URI_CONTROL:
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_ARGUMENTS),
					 errmsg("arguments cannot stand in the path of tool \"%s\"", tool->name),
					 errdetail("One of them has a line break."),
					 errhint("Send a value of one line.")));
			break;
		default:
			ereport(ERROR,
					(errcode(AL_ERR_INVALID_DEFINITION),
					 errmsg("invalid definition of tool \"%s\"", tool->name),
					 errdetail("At \"/request\": the path is no URI template at byte %zu.", at + 1),
					 errhint("Correct it with create_tool(..., replace => true).")));
	}
	pg_unreachable();
}

/* A variable of the path template, in UTF-8. */
static bool
look_up(const AlUriVariable *variable, AlUriValue *value, void *arg)
{
	const AlRenderContext *context = arg;
	JsonbValue *found = al_render_value(context, variable->name, variable->name_len);
	bool		needed = variable->in_path && (variable->operator == '\0' || variable->operator == '+');
	char	   *text = found != NULL ? al_render_scalar(found) : NULL;
	int			len;

	if (found != NULL && text == NULL)
		al_render_refuse(pnstrdup(variable->name, variable->name_len),
						 "Send a string, a number or a boolean.",
						 "an object or an array cannot stand in a URL");

	if (text != NULL && strpbrk(text, "\r\n") != NULL)
		al_render_refuse(pnstrdup(variable->name, variable->name_len),
						 "Send a value of one line.",
						 "it has a line break, which cannot stand in a URL");

	if (context->needs_all && (text == NULL || text[0] == '\0'))
		al_render_refuse(pnstrdup(variable->name, variable->name_len),
						 "Send a value.",
						 "it is missing or empty, and without it something else is asked for");

	/* DELETE /customers/{id} must not become DELETE /customers/ */
	if (needed && (text == NULL || text[0] == '\0'))
		al_render_refuse(pnstrdup(variable->name, variable->name_len),
						 "Send a value.",
						 "it is missing or empty, and without it the path is another resource's");
	if (found != NULL && found->type != jbvNull)
	{
		value->defined = true;
		value->text = al_utf8(text, strlen(text), &len);
		value->len = len;
	}
	return true;
}

static char *
with_key_parameter(char *url, const AlIdempotency *idempotency, const char *key)
{
	char		name[AL_MAX_URL];
	char		value[AL_MAX_URL];
	size_t		len;

	if (!al_uri_encode(idempotency->name, strlen(idempotency->name), name, sizeof(name), &len) ||
		!al_uri_encode(key, strlen(key), value, sizeof(value), &len))
		elog(ERROR, "idempotency key is too long");
	return psprintf("%s%c%s=%s", url, strchr(url, '?') != NULL ? '&' : '?', name, value);
}

/* All lines: the service's, the tool's instead of those of the same name, and ours. */
static char *
render_headers(const AlServiceDef *service, const AlToolDef *tool,
			   const AlIdempotency *idempotency, const AlRenderContext *context)
{
	const char *key_name = idempotency->place == AL_KEY_PLACE_HEADER ? idempotency->name : NULL;
	StringInfoData out;
	ListCell   *lc;

	initStringInfo(&out);
	foreach(lc, service->headers)
	{
		const char *line = lfirst(lc);
		const char *name = pnstrdup(line, strcspn(line, ":"));

		if (!has_header(tool->headers, name) && !(key_name != NULL && same_name(line, key_name)))
			append_line(&out, line);
	}
	foreach(lc, tool->headers)
	{
		char	   *rendered = render_header(lfirst(lc), context);

		if (rendered != NULL)
			append_line(&out, rendered);
	}
	if (tool->body != AL_BODY_NONE &&
		!has_header(service->headers, CONTENT_TYPE) && !has_header(tool->headers, CONTENT_TYPE))
		append_line(&out, tool->body == AL_BODY_FORM ?
					CONTENT_TYPE ": application/x-www-form-urlencoded" :
					CONTENT_TYPE ": application/json");
	if (key_name != NULL)
		append_line(&out, psprintf("%s: %s", key_name, context->key));
	return out.data;
}

/* One line of the tool's, or NULL when its arguments leave it without a value. */
static char *
render_header(const char *line, const AlRenderContext *context)
{
	const char *cursor = line + strcspn(line, ":") + 2;
	const char *end = line + strlen(line);
	StringInfoData value;
	AlTextPiece piece;
	char	   *trimmed;

	initStringInfo(&value);
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_PLACEHOLDER)
			append_header_argument(&value, context, &piece);
		else if (piece.kind == AL_TEXT_SECRET)
			appendStringInfo(&value, "{secret:%.*s}", (int) piece.len, piece.text);
		else
			appendBinaryStringInfo(&value, piece.text, piece.len);
	}
	while (value.len > 0 && value.data[value.len - 1] == ' ')
		value.data[--value.len] = '\0';
	trimmed = value.data + strspn(value.data, " ");
	return trimmed[0] == '\0' ? NULL :
		psprintf("%.*s: %s", (int) strcspn(line, ":"), line, trimmed);
}

/* An argument's text, if it can do no harm in a header. */
static void
append_header_argument(StringInfo out, const AlRenderContext *context, const AlTextPiece *piece)
{
	JsonbValue *found = al_render_value(context, piece->text, piece->len);
	char	   *name = pnstrdup(piece->text, piece->len);
	char	   *text;

	if (found == NULL)
		return;
	text = al_render_scalar(found);
	if (text == NULL)
		al_render_refuse(name, "Send a string, a number or a boolean.",
						 "an object or an array cannot stand in a header");
	if (!al_definition_is_printable(text))
		al_render_refuse(name, "Send a value of one line without accents.",
						 "a header holds printable ASCII only, and no line break");
	if (strpbrk(text, "{}") != NULL)
		al_render_refuse(name, "Send a value without { and }.",
						 "a brace in a header would read as a reference to a secret");
	if (strlen(text) > AL_MAX_HEADER_VALUE)
		al_render_refuse(name, "Send a shorter value.", "it is too long for a header");
	appendStringInfoString(out, text);
}

static bool
has_header(const List *lines, const char *name)
{
	ListCell   *lc;

	foreach(lc, lines)
	{
		if (same_name(lfirst(lc), name))
			return true;
	}
	return false;
}

static bool
same_name(const char *line, const char *name)
{
	size_t		len = strlen(name);

	return pg_strncasecmp(line, name, len) == 0 && line[len] == ':';
}

static void
append_line(StringInfo out, const char *line)
{
	if (out->len > 0)
		appendStringInfoChar(out, '\n');
	appendStringInfoString(out, line);
}
