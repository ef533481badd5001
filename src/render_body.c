/*
 * render_body.c
 *		Filling a body template, and writing it as JSON or as a form.
 *
 * A missing optional argument leaves its member or element out; an explicit
 * null stays (in a form: a field without value).
 */
#include "postgres.h"

#include "miscadmin.h"

#include "canonical.h"
#include "errors.h"
#include "render_internal.h"
#include "rules/form.h"
#include "rules/text_template.h"

/* A form as it grows. */
typedef struct Form
{
	const AlToolDef *tool;
	size_t		max;
	StringInfo	out;
	StringInfoData name;		/* of the field we are in: items[0][x] */
} Form;

static void check_size(const AlToolDef *tool, StringInfo out, size_t max);
static Jsonb *fill_args(const AlToolDef *tool, const AlRenderContext *context, const char *key_field);
static Jsonb *fill_template(const AlToolDef *tool, const AlRenderContext *context, const char *key_field);
static void push_key(JsonbParseState **state, const AlRenderContext *context, const char *key_field);
static JsonbValue *push_container(JsonbParseState **state, const JsonbValue *template,
								  const AlRenderContext *context, const char *key_field);
static void push_filled(JsonbParseState **state, JsonbValue *name, const JsonbValue *template,
						const AlRenderContext *context);
static JsonbValue *fill_scalar(const JsonbValue *template, const AlRenderContext *context);
static JsonbValue *fill_string(const JsonbValue *template, const AlRenderContext *context);
static bool is_name(const JsonbValue *name, const char *text);
static bool is_listed(const List *names, const JsonbValue *name);
static void append_form(Form *form, const JsonbValue *value);
static void append_form_members(Form *form, const JsonbValue *object);
static void truncate_name(Form *form, int len);
static void take(void *sink, const char *bytes, size_t len);

void
al_render_body(const AlToolDef *tool, const AlRenderContext *context,
			   const char *key_field, size_t max, StringInfo out)
{
	Jsonb	   *body = tool->body == AL_BODY_ARGS ? fill_args(tool, context, key_field) :
		fill_template(tool, context, key_field);

	if (tool->body == AL_BODY_FORM)
	{
		JsonbValue	root = al_option_root(body);
		Form		form = {tool, max, out, {0}};

		initStringInfo(&form.name);
		append_form_members(&form, &root);
	}
	else
		al_canonical_append(out, body);
	check_size(tool, out, max);
}

static void
check_size(const AlToolDef *tool, StringInfo out, size_t max)
{
	if ((size_t) out->len > max)
		ereport(ERROR,
				(errcode(AL_ERR_REQUEST_TOO_LARGE),
				 errmsg("request of tool \"%s\" is too large", tool->name),
				 errdetail("Its body has more than %zu bytes.", max),
				 errhint("Send less in one action, or send a reference to the data.")));
}

/* The arguments that are not in the URL. */
static Jsonb *
fill_args(const AlToolDef *tool, const AlRenderContext *context, const char *key_field)
{
	List	   *in_path = al_render_path_names(tool);
	JsonbParseState *state = NULL;
	JsonbValue	root = al_option_root(context->args);
	JsonbValue	name;
	JsonbValue	value;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (al_option_is_object(&root))
	{
		JsonbIterator *it = al_option_open(&root);

		while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
		{
			(void) JsonbIteratorNext(&it, &value, true);
			if (is_listed(in_path, &name) || is_name(&name, key_field))
				continue;
			pushJsonbValue(&state, WJB_KEY, &name);
			pushJsonbValue(&state, WJB_VALUE, &value);
		}
	}
	push_key(&state, context, key_field);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static Jsonb *
fill_template(const AlToolDef *tool, const AlRenderContext *context, const char *key_field)
{
	JsonbParseState *state = NULL;
	JsonbValue	root = al_option_root(tool->body_template);
	JsonbValue *filled;

	if (root.type == jbvBinary)
		filled = push_container(&state, &root, context, key_field);
	else
		filled = fill_scalar(&root, context);
	if (filled == NULL)
		al_render_refuse(pnstrdup(root.val.string.val + 1, root.val.string.len - 2),
						 "Send a value.", "it is missing, and it is the whole body");
	return JsonbValueToJsonb(filled);
}

static void
push_key(JsonbParseState **state, const AlRenderContext *context, const char *key_field)
{
	JsonbValue	value;

	if (key_field == NULL)
		return;
	value.type = jbvString;
	value.val.string.val = unconstify(char *, key_field);
	value.val.string.len = strlen(key_field);
	pushJsonbValue(state, WJB_KEY, &value);
	value.val.string.val = unconstify(char *, context->key);
	value.val.string.len = strlen(context->key);
	pushJsonbValue(state, WJB_VALUE, &value);
}

/* Push an object or array with its placeholders filled; key_field only at the top. */
static JsonbValue *
push_container(JsonbParseState **state, const JsonbValue *template,
			   const AlRenderContext *context, const char *key_field)
{
	JsonbIterator *it = al_option_open(template);
	bool		object = al_option_is_object(template);
	JsonbValue	name;
	JsonbValue	value;

	check_stack_depth();
	pushJsonbValue(state, object ? WJB_BEGIN_OBJECT : WJB_BEGIN_ARRAY, NULL);
	if (object)
	{
		while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
		{
			(void) JsonbIteratorNext(&it, &value, true);
			if (!is_name(&name, key_field))
				push_filled(state, &name, &value, context);
		}
		push_key(state, context, key_field);
		return pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	while (JsonbIteratorNext(&it, &value, true) == WJB_ELEM)
		push_filled(state, NULL, &value, context);
	return pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

/* Push one member (name given) or element. */
static void
push_filled(JsonbParseState **state, JsonbValue *name, const JsonbValue *template,
			const AlRenderContext *context)
{
	JsonbValue *filled;

	if (template->type == jbvBinary)
	{
		if (name != NULL)
			pushJsonbValue(state, WJB_KEY, name);
		(void) push_container(state, template, context, NULL);
		return;
	}
	filled = fill_scalar(template, context);
	if (filled == NULL)
		return;
	if (name != NULL)
		pushJsonbValue(state, WJB_KEY, name);
	pushJsonbValue(state, name != NULL ? WJB_VALUE : WJB_ELEM, filled);
}

/* A scalar of the template with its placeholders filled, or NULL to leave it out. */
static JsonbValue *
fill_scalar(const JsonbValue *template, const AlRenderContext *context)
{
	AlTextPiece piece;
	JsonbValue *copy;

	if (template->type == jbvString)
	{
		if (al_text_is_placeholder(template->val.string.val, template->val.string.len, &piece))
			return al_render_value(context, piece.text, piece.len);
		return fill_string(template, context);
	}
	copy = palloc(sizeof(JsonbValue));
	*copy = *template;
	return copy;
}

/* A string with its placeholders replaced by text; other braces stay. */
static JsonbValue *
fill_string(const JsonbValue *template, const AlRenderContext *context)
{
	const char *cursor = template->val.string.val;
	const char *end = cursor + template->val.string.len;
	JsonbValue *filled = palloc(sizeof(JsonbValue));
	StringInfoData text;
	AlTextPiece piece;

	initStringInfo(&text);
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		JsonbValue *value;
		char	   *scalar;

		if (piece.kind != AL_TEXT_PLACEHOLDER)
		{
			appendBinaryStringInfo(&text, piece.text, piece.len);
			continue;
		}
		value = al_render_value(context, piece.text, piece.len);
		if (value == NULL)
			continue;
		scalar = al_render_scalar(value);
		if (scalar == NULL)
			al_render_refuse(pnstrdup(piece.text, piece.len), "Send a string, a number or a boolean.",
							 "an object or an array cannot stand inside a text");
		appendStringInfoString(&text, scalar);
	}
	filled->type = jbvString;
	filled->val.string.val = text.data;
	filled->val.string.len = text.len;
	return filled;
}

static bool
is_name(const JsonbValue *name, const char *text)
{
	return text != NULL && strlen(text) == name->val.string.len &&
		memcmp(text, name->val.string.val, name->val.string.len) == 0;
}

static bool
is_listed(const List *names, const JsonbValue *name)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (is_name(name, lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Append "name=value", or what a container holds with its place in brackets.
 * The size is checked as it grows: a name is repeated for every leaf below it.
 */
static void
append_form(Form *form, const JsonbValue *value)
{
	StringInfo	out = form->out;
	int			name_len = form->name.len;
	const char *utf8;
	char	   *text;
	int			len;

	check_stack_depth();
	if (al_option_is_object(value))
		append_form_members(form, value);
	else if (value->type == jbvBinary)
	{
		JsonbIterator *it = al_option_open(value);
		JsonbValue	element;

		for (int i = 0; JsonbIteratorNext(&it, &element, true) == WJB_ELEM; i++)
		{
			al_form_element(i, take, &form->name);
			append_form(form, &element);
			truncate_name(form, name_len);
		}
	}
	else
	{
		text = al_render_scalar(value);
		utf8 = al_utf8(text, strlen(text), &len);
		al_form_field(out->len == 0, form->name.data, form->name.len, utf8, len, take, out);
		pfree(text);
		check_size(form->tool, out, form->max);
	}
}

/* Append the members of an object: a=1 at the top, name[a]=1 below. */
static void
append_form_members(Form *form, const JsonbValue *object)
{
	JsonbIterator *it = al_option_open(object);
	int			name_len = form->name.len;
	JsonbValue	key;
	JsonbValue	value;
	const char *utf8;
	int			len;

	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		utf8 = al_utf8(key.val.string.val, key.val.string.len, &len);
		al_form_member(name_len > 0, utf8, len, take, &form->name);
		append_form(form, &value);
		truncate_name(form, name_len);
	}
}

static void
truncate_name(Form *form, int len)
{
	form->name.len = len;
	form->name.data[len] = '\0';
}

/* Takes the bytes of a form or of a name. */
static void
take(void *sink, const char *bytes, size_t len)
{
	appendBinaryStringInfo(sink, bytes, (int) len);
}
