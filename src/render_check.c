/*
 * render_check.c
 *		Checking a tool's templates when it is created.
 *
 * A misspelt placeholder would be a literal in every request, and in an
 * identity it would make all actions one: so it is refused before the first.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "definition_internal.h"
#include "render_internal.h"
#include "rules/text_template.h"
#include "rules/uri_template.h"

/* What a template may refer to besides arguments. */
typedef enum Extent
{
	ONLY_ARGUMENTS,				/* summary and target: shown, no sensitive field */
	AND_RUN,					/* identity: {_run_id}, no sensitive field */
	AND_OURS,					/* path and headers: all of ours */
	IN_BODY,					/* all of ours, and other braces are literal */
	IN_LOOKUP					/* all of ours, and {_external_ref} */
} Extent;

static const char *const HINTS[] = {
	"Name a property of the input schema.",
	"Name a property of the input schema, or _run_id.",
	"Name a property of the input schema, or _key, _identity, _action_id or _run_id.",
	"Name a property of the input schema, or _key, _identity, _action_id or _run_id; "
	"a word that stands in braces for the destination takes spaces, as in { word }.",
	"Name a property of the input schema, or _key, _identity, _action_id, _run_id or _external_ref; GET {_location} alone asks for what an answer pointed to."
};

typedef struct Check
{
	const AlToolDef *tool;
	AlPlace		place;
	Extent		extent;
	List	   *used;			/* of char *: arguments seen in any template */
} Check;

static void check_path(Check *check, AlPlace place, const char *path, Extent extent);
static bool visit_variable(const AlUriVariable *variable, void *arg);
static void check_text(Check *check, AlPlace place, const char *text, Extent extent);
static void check_headers(Check *check, AlPlace place);
static void check_body(Check *check, AlPlace place, const JsonbValue *value);
static void check_body_text(Check *check, AlPlace place, const JsonbValue *string, bool is_name);
static void check_placeholder(Check *check, const char *name, size_t len);
static bool is_ours(const char *name, size_t len, Extent extent);
static void check_sensitive(Check *check, AlPlace place);
static void check_all_used(Check *check, AlPlace place);
static char *pointer_head(const char *pointer);
static bool collect_name(const AlUriVariable *variable, void *arg);
static bool is_in(const List *names, const char *name, size_t len);
static JsonbValue *properties(const AlToolDef *tool);

void
al_render_check(const AlToolDef *tool)
{
	AlPlace		place = {"tool", tool->name, ""};
	Check		check = {tool, place, AND_OURS, NIL};

	check_sensitive(&check, al_place_member(place, "sensitive"));
	if (!tool->external)
		check_path(&check, al_place_member(place, "request"), tool->path, AND_OURS);
	check_headers(&check, al_place_member(place, "headers"));
	if (tool->body_template != NULL)
	{
		JsonbValue	root = al_option_root(tool->body_template);

		check_body(&check, al_place_member(place, tool->body == AL_BODY_FORM ? "form" : "json"), &root);
	}
	check_text(&check, al_place_member(place, "identity"), tool->identity, AND_RUN);
	check_text(&check, al_place_member(place, "summary"), tool->summary, ONLY_ARGUMENTS);
	check_text(&check, al_place_member(place, "target"), tool->target, ONLY_ARGUMENTS);
	if (tool->body == AL_BODY_NONE && !tool->external)
		check_all_used(&check, al_place_member(place, "request"));
	if (tool->lookup != NULL && tool->lookup->path != NULL)
		check_path(&check, al_place_member(al_place_member(place, "lookup"), "request"), tool->lookup->path, IN_LOOKUP);
	if (tool->has_idempotency)
		al_render_check_key(tool, &tool->idempotency);
}

void
al_render_check_key(const AlToolDef *tool, const AlIdempotency *idempotency)
{
	AlPlace		place = {"tool", tool->name, ""};
	size_t		len = strlen(idempotency->name);

	/* Its executor puts the key where it belongs. */
	if (tool->external)
		return;
	al_definition_check_key_header(place, tool->headers, idempotency);
	if (idempotency->place == AL_KEY_PLACE_BODY)
	{
		if (tool->body == AL_BODY_NONE && tool->type != AL_TYPE_READ_ONLY)
			al_definition_error(al_place_member(place, "request"),
								"Give the tool a json template, or an idempotency of its own.",
								"the key belongs into the body field \"%s\", and the request has no body",
								idempotency->name);
		if (tool->body_template != NULL && !JB_ROOT_IS_OBJECT(tool->body_template))
			al_definition_error(al_place_member(place, "json"),
								"Use an object as the template, or give the tool an idempotency of its own.",
								"the key belongs into the body field \"%s\", and the body is no object",
								idempotency->name);
		if (tool->body == AL_BODY_ARGS && al_render_property(tool, idempotency->name, len) != NULL)
			al_definition_error(al_place_member(al_place_member(al_place_member(place, "input"), "properties"),
												idempotency->name),
								"Remove the argument; every action's own key is put there.",
								"the body field \"%s\" carries the idempotency key", idempotency->name);
	}
	if (idempotency->place == AL_KEY_PLACE_QUERY &&
		is_in(al_render_path_names(tool), idempotency->name, len))
		al_definition_error(al_place_member(place, "request"),
							"Rename the argument; every action's own key is put there.",
							"the parameter \"%s\" carries the idempotency key", idempotency->name);
}

List *
al_render_path_names(const AlToolDef *tool)
{
	List	   *names = NIL;
	size_t		at;

	(void) al_uri_variables(tool->path, strlen(tool->path), collect_name, &names, &at);
	return names;
}

JsonbValue *
al_render_property(const AlToolDef *tool, const char *name, size_t len)
{
	JsonbValue *all = properties(tool);

	return all == NULL ? NULL :
		getKeyJsonValueFromContainer(all->val.binary.data, name, len, NULL);
}

static void
check_path(Check *check, AlPlace place, const char *path, Extent extent)
{
	size_t		at;

	check->place = place;
	check->extent = extent;
	switch (al_uri_variables(path, strlen(path), visit_variable, check, &at))
	{
		case AL_URI_OK:
			break;
		case AL_URI_UNSUPPORTED:
			al_definition_error(place, "Only {x}, {+x}, {.x}, {/x}, {;x}, {?x} and {&x} can be used.",
								"the path uses a URI template operator or modifier that is not supported, at byte %zu",
								at + 1);
		default:
			al_definition_error(place, "Names are of A-Z a-z 0-9 _; other characters are percent-encoded (RFC 6570).",
								"the path is no URI template at byte %zu", at + 1);
	}
	if (strchr(path, '#') != NULL)
		al_definition_error(place, NULL, "the path has a fragment, which is never sent");
	if (al_uri_has_dot_segment(path, strlen(path)))
		al_definition_error(place, NULL, "the path has a segment \".\" or \"..\"");
}

static bool
visit_variable(const AlUriVariable *variable, void *arg)
{
	check_placeholder(arg, variable->name, variable->name_len);
	return true;
}

/* A text in which every brace must mean something. */
static void
check_text(Check *check, AlPlace place, const char *text, Extent extent)
{
	const char *cursor = text;
	const char *end;
	AlTextPiece piece;

	if (text == NULL)
		return;
	check->place = place;
	check->extent = extent;
	end = text + strlen(text);
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_PLACEHOLDER)
			check_placeholder(check, piece.text, piece.len);
		else if (piece.kind == AL_TEXT_SECRET)
			al_definition_error(place, "Secrets stand in headers only.", "the template refers to a secret");
		else if (piece.kind == AL_TEXT_BRACE)
			al_definition_error(place, "Write {argument} without spaces.",
								"the template has a brace that belongs to no placeholder");
	}
}

/* The braces of headers are checked when they are read. */
static void
check_headers(Check *check, AlPlace place)
{
	ListCell   *lc;

	check->extent = AND_OURS;
	foreach(lc, check->tool->headers)
	{
		const char *line = lfirst(lc);
		size_t		name_len = strcspn(line, ":");
		const char *cursor = line + name_len + 2;
		const char *end = line + strlen(line);
		AlTextPiece piece;

		check->place = al_place_member(place, pnstrdup(line, name_len));
		while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
		{
			if (piece.kind == AL_TEXT_PLACEHOLDER)
				check_placeholder(check, piece.text, piece.len);
		}
	}
}

static void
check_body(Check *check, AlPlace place, const JsonbValue *value)
{
	JsonbIterator *it;
	JsonbValue	name;
	JsonbValue	inner;

	check_stack_depth();
	if (value->type == jbvString)
		check_body_text(check, place, value, false);
	if (value->type != jbvBinary)
		return;
	it = al_option_open(value);
	if (al_option_is_object(value))
	{
		while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
		{
			AlPlace		here = al_place_member(place, pnstrdup(name.val.string.val, name.val.string.len));

			(void) JsonbIteratorNext(&it, &inner, true);
			check_body_text(check, here, &name, true);
			check_body(check, here, &inner);
		}
		return;
	}
	for (int i = 0; JsonbIteratorNext(&it, &inner, true) == WJB_ELEM; i++)
		check_body(check, al_place_element(place, i), &inner);
}

/* Other braces are literal here: bodies hold query languages that use them. */
static void
check_body_text(Check *check, AlPlace place, const JsonbValue *string, bool is_name)
{
	const char *cursor = string->val.string.val;
	const char *end = cursor + string->val.string.len;
	AlTextPiece piece;

	check->place = place;
	check->extent = IN_BODY;
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_SECRET)
			al_definition_error(place, "Secrets stand in headers only.", "the template refers to a secret");
		if (piece.kind != AL_TEXT_PLACEHOLDER)
			continue;
		if (is_name)
			al_definition_error(place, NULL, "the name of a member is taken literally and cannot hold a placeholder");
		check_placeholder(check, piece.text, piece.len);
	}
}

static void
check_placeholder(Check *check, const char *name, size_t len)
{
	char	   *copy = pnstrdup(name, len);
	ListCell   *lc;

	if (name[0] == '_' ? !is_ours(name, len, check->extent) :
		al_render_property(check->tool, name, len) == NULL)
		al_definition_error(check->place, HINTS[check->extent],
							"the placeholder {%s} stands for nothing here", copy);
	if (check->extent < AND_OURS)
	{
		foreach(lc, check->tool->sensitive)
		{
			if (strcmp(pointer_head(lfirst(lc)), copy) == 0)
				al_definition_error(check->place, "This text is stored and shown; use another field.",
									"the placeholder {%s} is a sensitive field", copy);
		}
	}
	check->used = lappend(check->used, copy);
}

static bool
is_ours(const char *name, size_t len, Extent extent)
{
	static const char *const ours[] = {"_run_id", "_key", "_identity", "_action_id", "_external_ref"};
	int			n = extent == ONLY_ARGUMENTS ? 0 : extent == AND_RUN ? 1 : extent == IN_LOOKUP ? 5 : 4;

	for (int i = 0; i < n; i++)
	{
		if (strlen(ours[i]) == len && memcmp(ours[i], name, len) == 0)
			return true;
	}
	return false;
}

/* A pointer to nothing would leave what it was meant for in the open. */
static void
check_sensitive(Check *check, AlPlace place)
{
	for (int i = 0; i < list_length(check->tool->sensitive); i++)
	{
		char	   *head = pointer_head(list_nth(check->tool->sensitive, i));

		if (al_render_property(check->tool, head, strlen(head)) == NULL)
			al_definition_error(al_place_element(place, i), "Name a property of the input schema.",
								"the pointer leads to no argument");
	}
}

/* Without a body, an argument that is in no template is lost. */
static void
check_all_used(Check *check, AlPlace place)
{
	JsonbValue *all = properties(check->tool);
	JsonbIterator *it;
	JsonbValue	name;
	JsonbValue	value;

	if (all == NULL)
		return;
	it = al_option_open(all);
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		if (!is_in(check->used, name.val.string.val, name.val.string.len))
		{
			char	   *text = pnstrdup(name.val.string.val, name.val.string.len);

			al_definition_error(place, psprintf("Add it to the path, as in %s %s{?%s}.",
												check->tool->method, check->tool->path, text),
								"the request has no body, and no template uses the argument \"%s\"", text);
		}
	}
}

/* The first token of a JSON Pointer, its escapes undone. */
static char *
pointer_head(const char *pointer)
{
	char	   *head = palloc(strlen(pointer) + 1);
	char	   *to = head;

	for (const char *c = pointer + 1; *c != '\0' && *c != '/'; c++)
	{
		if (*c == '~')
			*to++ = *++c == '1' ? '/' : '~';
		else
			*to++ = *c;
	}
	*to = '\0';
	return head;
}

static bool
collect_name(const AlUriVariable *variable, void *arg)
{
	List	  **names = arg;

	*names = lappend(*names, pnstrdup(variable->name, variable->name_len));
	return true;
}

static bool
is_in(const List *names, const char *name, size_t len)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		const char *other = lfirst(lc);

		if (strlen(other) == len && memcmp(other, name, len) == 0)
			return true;
	}
	return false;
}

/* The properties of the input schema, or NULL. */
static JsonbValue *
properties(const AlToolDef *tool)
{
	JsonbValue *all = getKeyJsonValueFromContainer(&tool->input->root, "properties", 10, NULL);

	return all != NULL && al_option_is_object(all) ? all : NULL;
}
