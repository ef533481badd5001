/*
 * test_uri_template.c
 *		Every example of RFC 6570 up to level 3 expands as printed there; what is
 *		no template, what could leave its path segment and what does not fit is
 *		refused.
 */
#include <stdlib.h>

#include "rules/uri_template.h"

#include "tap.h"

typedef struct Example
{
	const char *template;
	const char *expansion;
} Example;

typedef struct Variable
{
	const char *name;
	const char *value;
} Variable;

typedef struct Refusal
{
	const char *template;
	AlUriResult result;
	size_t		at;
} Refusal;

/* RFC 6570 sections 1.2 and 3.2; whatever is not here is undefined. */
static const Variable VARIABLES[] = {
	{"var", "value"}, {"hello", "Hello World!"}, {"path", "/foo/bar"}, {"empty", ""},
	{"x", "1024"}, {"y", "768"}, {"half", "50%"}, {"who", "fred"}, {"dub", "me/too"},
	{"base", "http://example.com/home/"}, {"v", "6"},
	/* ours */
	{"dot", "."}, {"dots", ".."}, {"encoded", "%2e%2E"}, {"up", "a/../b"}, {"crlf", "a\r\nb"},
	{"utf8", "\xc3\xbc\xf0\x9f\x98\x80"}, {"a.b", "dotted"}, {"a%20b", "octet"}, {"query", "a?b"},
};
#define N_VARIABLES (sizeof(VARIABLES) / sizeof(VARIABLES[0]))

/* Section 1.2. */
static const Example LEVELS[] = {
	{"{var}", "value"},
	{"{hello}", "Hello%20World%21"},
	{"{+var}", "value"},
	{"{+hello}", "Hello%20World!"},
	{"{+path}/here", "/foo/bar/here"},
	{"here?ref={+path}", "here?ref=/foo/bar"},
	{"X{#var}", "X#value"},
	{"X{#hello}", "X#Hello%20World!"},
	{"map?{x,y}", "map?1024,768"},
	{"{x,hello,y}", "1024,Hello%20World%21,768"},
	{"{+x,hello,y}", "1024,Hello%20World!,768"},
	{"{+path,x}/here", "/foo/bar,1024/here"},
	{"{#x,hello,y}", "#1024,Hello%20World!,768"},
	{"{#path,x}/here", "#/foo/bar,1024/here"},
	{"X{.var}", "X.value"},
	{"X{.x,y}", "X.1024.768"},
	{"{/var}", "/value"},
	{"{/var,x}/here", "/value/1024/here"},
	{"{;x,y}", ";x=1024;y=768"},
	{"{;x,y,empty}", ";x=1024;y=768;empty"},
	{"{?x,y}", "?x=1024&y=768"},
	{"{?x,y,empty}", "?x=1024&y=768&empty="},
	{"?fixed=yes{&x}", "?fixed=yes&x=1024"},
	{"{&x,y,empty}", "&x=1024&y=768&empty="},
	{NULL, NULL}
};

/* Sections 3.2.2 to 3.2.9, those of level 4 left out. */
static const Example OPERATORS[] = {
	{"{half}", "50%25"},
	{"O{empty}X", "OX"},
	{"O{undef}X", "OX"},
	{"{x,y}", "1024,768"},
	{"?{x,empty}", "?1024,"},
	{"?{x,undef}", "?1024"},
	{"?{undef,y}", "?768"},
	{"{+half}", "50%25"},
	{"{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"},
	{"{+base}index", "http://example.com/home/index"},
	{"O{+empty}X", "OX"},
	{"O{+undef}X", "OX"},
	{"up{+path}{var}/here", "up/foo/barvalue/here"},
	{"{#var}", "#value"},
	{"{#hello}", "#Hello%20World!"},
	{"{#half}", "#50%25"},
	{"foo{#empty}", "foo#"},
	{"foo{#undef}", "foo"},
	{"{.who}", ".fred"},
	{"{.who,who}", ".fred.fred"},
	{"{.half,who}", ".50%25.fred"},
	{"X{.empty}", "X."},
	{"X{.undef}", "X"},
	{"{/who}", "/fred"},
	{"{/who,who}", "/fred/fred"},
	{"{/half,who}", "/50%25/fred"},
	{"{/who,dub}", "/fred/me%2Ftoo"},
	{"{/var,empty}", "/value/"},
	{"{/var,undef}", "/value"},
	{"{;who}", ";who=fred"},
	{"{;half}", ";half=50%25"},
	{"{;empty}", ";empty"},
	{"{;v,empty,who}", ";v=6;empty;who=fred"},
	{"{;v,bar,who}", ";v=6;who=fred"},
	{"{;x,y,undef}", ";x=1024;y=768"},
	{"{?who}", "?who=fred"},
	{"{?half}", "?half=50%25"},
	{"{?x,y,undef}", "?x=1024&y=768"},
	{"{&who}", "&who=fred"},
	{"{&half}", "&half=50%25"},
	{"{&x,y,undef}", "&x=1024&y=768"},
	{NULL, NULL}
};

/* What the RFC says without an example of it. */
static const Example OTHERS[] = {
	{"", ""},
	{"/v1/refunds", "/v1/refunds"},
	{"/a%20b", "/a%20b"},
	{"/\xc3\xbc", "/%C3%BC"},
	{"/Products('{x}')", "/Products('1024')"},
	{"{utf8}", "%C3%BC%F0%9F%98%80"},
	{"{+utf8}", "%C3%BC%F0%9F%98%80"},
	{"{a.b}", "dotted"},
	{"{?a%20b}", "?a%20b=octet"},
	{"{undef,undef,x}", "1024"},
	{"{?undef}{?x}", "?x=1024"},
	{"{/x}{/y}", "/1024/768"},
	{"/x{?undef,x}{&undef,y}", "/x?x=1024&y=768"},
	{"/{x}{dot}{y}", "/1024.768"},
	{"/...", "/..."},
	{"/a?b={dots}", "/a?b=.."},
	{"/a?b=/../{x}", "/a?b=/../1024"},
	{"/{encoded}", "/%252e%252E"},
	{NULL, NULL}
};

static const Refusal REFUSALS[] = {
	{"/{", AL_URI_SYNTAX, 1}, {"/{x", AL_URI_SYNTAX, 2}, {"/{}", AL_URI_SYNTAX, 2},
	{"/x}", AL_URI_SYNTAX, 2}, {"/{x,}", AL_URI_SYNTAX, 4}, {"/{,x}", AL_URI_UNSUPPORTED, 1},
	{"/{x{y}}", AL_URI_SYNTAX, 2}, {"/{ x}", AL_URI_SYNTAX, 2}, {"/{x-y}", AL_URI_SYNTAX, 2},
	{"/{x.}", AL_URI_SYNTAX, 2}, {"/{.x.}", AL_URI_SYNTAX, 3}, {"/{x..y}", AL_URI_SYNTAX, 2},
	{"/{x%2}", AL_URI_SYNTAX, 2}, {"/{+}", AL_URI_SYNTAX, 3}, {"/{*}", AL_URI_SYNTAX, 2},
	{"/a b", AL_URI_SYNTAX, 2}, {"/a\nb", AL_URI_SYNTAX, 2}, {"/%", AL_URI_SYNTAX, 1},
	{"/%2", AL_URI_SYNTAX, 1}, {"/%zz", AL_URI_SYNTAX, 1}, {"/a\\b", AL_URI_SYNTAX, 2},
	{"/a<b>", AL_URI_SYNTAX, 2}, {"/\"", AL_URI_SYNTAX, 1},
	{"/{x:3}", AL_URI_UNSUPPORTED, 2}, {"/{x*}", AL_URI_UNSUPPORTED, 2},
	{"/{=x}", AL_URI_UNSUPPORTED, 1}, {"/{!x}", AL_URI_UNSUPPORTED, 1},
	{"/{@x}", AL_URI_UNSUPPORTED, 1}, {"/{|x}", AL_URI_UNSUPPORTED, 1},
	{NULL, AL_URI_OK, 0}
};

/* Templates that are sound; it is a value that must not stand there. */
static const Refusal VALUES[] = {
	{"/{dot}", AL_URI_DOT_SEGMENT, 0}, {"/a/{dots}/b", AL_URI_DOT_SEGMENT, 0},
	{"/{dots}?x", AL_URI_DOT_SEGMENT, 0}, {"/{dot}{dot}", AL_URI_DOT_SEGMENT, 0},
	{"/.{dot}", AL_URI_DOT_SEGMENT, 0}, {"/%2e{dot}", AL_URI_DOT_SEGMENT, 0},
	{"{/dots}", AL_URI_DOT_SEGMENT, 0}, {"{/x,dots}", AL_URI_DOT_SEGMENT, 0},
	{"/{.empty}", AL_URI_DOT_SEGMENT, 0}, {"/{dots}{;x}", AL_URI_DOT_SEGMENT, 0},
	{"/{up}", AL_URI_DOT_SEGMENT, 0}, {"/{+up}", AL_URI_DOT_SEGMENT, 0},
	{"/{+encoded}", AL_URI_DOT_SEGMENT, 0}, {"/..", AL_URI_DOT_SEGMENT, 0},
	{"/{+crlf}", AL_URI_CONTROL, 3}, {"/{#crlf}", AL_URI_CONTROL, 3}, {"/{crlf}", AL_URI_CONTROL, 2},
	{"/{.crlf}", AL_URI_CONTROL, 3}, {"{/crlf}", AL_URI_CONTROL, 2}, {"/{;crlf}", AL_URI_CONTROL, 3},
	{"/{?crlf}", AL_URI_CONTROL, 3}, {"/x?y=1{&crlf}", AL_URI_CONTROL, 8},
	{"/x?y={+crlf}", AL_URI_CONTROL, 7}, {"/{refused}", AL_URI_REFUSED, 2},
	{NULL, AL_URI_OK, 0}
};

static void check_examples(const char *name, const Example *examples);
static void check_refusals(void);
static void check_values(void);
static void check_bounds(void);
static void check_places(void);
static void check_nul(void);
static void check_encode(void);
static bool look_up(const AlUriVariable *variable, AlUriValue *value, void *arg);
static bool note_place(const AlUriVariable *variable, void *arg);
static bool never(const AlUriVariable *variable, void *arg);

int
main(void)
{
	check_examples("examples of RFC 6570 section 1.2, levels 1 to 3", LEVELS);
	check_examples("examples of RFC 6570 section 3.2, levels 1 to 3", OPERATORS);
	check_examples("rules of RFC 6570 without an example", OTHERS);
	check_refusals();
	check_values();
	check_bounds();
	check_places();
	check_nul();
	check_encode();
	return done_testing();
}

static void
check_examples(const char *name, const Example *examples)
{
	tap_group(name);
	for (const Example *e = examples; e->template != NULL; e++)
	{
		char		out[256] = "";
		size_t		len = 0;
		char		seen[64] = "";
		size_t		at;
		AlUriResult result = al_uri_expand(e->template, strlen(e->template), look_up, NULL,
										   out, sizeof(out), &len, &at);

		tap_cell(result == AL_URI_OK && strcmp(out, e->expansion) == 0 && len == strlen(out),
				 "%s: result %d, got \"%s\", expected \"%s\"", e->template, result, out, e->expansion);
		result = al_uri_variables(e->template, strlen(e->template), note_place, seen, &at);
		tap_cell(result == AL_URI_OK, "%s: walk %d", e->template, result);
	}
	tap_group_end();
}

static void
check_refusals(void)
{
	tap_group("what is no template is refused by expansion and by the walk alike, at its place");
	for (const Refusal *r = REFUSALS; r->template != NULL; r++)
	{
		char		out[256];
		char		seen[64] = "";
		size_t		len;
		size_t		at = 99;
		AlUriResult result = al_uri_expand(r->template, strlen(r->template), look_up, NULL,
										   out, sizeof(out), &len, &at);

		tap_cell(result == r->result && at == r->at, "%s: expansion %d at %zu",
				 r->template, result, at);
		result = al_uri_variables(r->template, strlen(r->template), note_place, seen, &at);
		tap_cell(result == r->result && at == r->at, "%s: walk %d at %zu",
				 r->template, result, at);
	}
	tap_group_end();
}

static void
check_values(void)
{
	tap_group("values that could leave their place are refused");
	for (const Refusal *r = VALUES; r->template != NULL; r++)
	{
		char		out[256];
		size_t		len;
		size_t		at = 99;
		AlUriResult result = al_uri_expand(r->template, strlen(r->template), look_up, NULL,
										   out, sizeof(out), &len, &at);

		tap_cell(result == r->result, "%s: result %d", r->template, result);
		if (result != AL_URI_DOT_SEGMENT)
			tap_cell(at == r->at, "%s: at %zu", r->template, at);
	}
	tap_group_end();
}

/* The output is malloc'ed at its exact size, so that a checker sees any overrun. */
static void
check_bounds(void)
{
	const char *template = "/a/{hello}{?x,half}";
	const char *expected = "/a/Hello%20World%21?x=1024&half=50%25";

	tap_group("a result is never longer than its buffer");
	for (size_t size = 0; size <= strlen(expected) + 2; size++)
	{
		char	   *out = malloc(size + (size == 0));
		size_t		len = 0;
		size_t		at;
		AlUriResult result = al_uri_expand(template, strlen(template), look_up, NULL,
										   out, size, &len, &at);

		if (size <= strlen(expected))
			tap_cell(result == AL_URI_TOO_LONG, "size %zu: result %d", size, result);
		else
			tap_cell(result == AL_URI_OK && strcmp(out, expected) == 0, "size %zu: result %d",
					 size, result);
		free(out);
	}
	tap_group_end();
}

static void
check_places(void)
{
	char		seen[64] = "";
	const char *template = "/{x}{+path}{/y}{;v}{?who}{&dub}/{var}";
	size_t		at;

	is_int(al_uri_variables(template, strlen(template), note_place, seen, &at), AL_URI_OK,
		   "a template is walked");
	is_str(seen, "-p+p/p;p?q&q-q", "the walk tells operators, and path from query");
	seen[0] = '\0';
	template = "/{x}?y={y}";
	al_uri_variables(template, strlen(template), note_place, seen, &at);
	is_str(seen, "-p-q", "a literal question mark ends the path");
	is_int(al_uri_variables(template, strlen(template), never, NULL, &at), AL_URI_REFUSED,
		   "a visitor can end the walk");
	is_int((long long) at, 2, "and the place is told");
}

static void
check_nul(void)
{
	char		out[64];
	size_t		len;
	size_t		at;

	is_int(al_uri_expand("/\0", 2, look_up, NULL, out, sizeof(out), &len, &at), AL_URI_SYNTAX,
		   "NUL is no literal");
	is_int(al_uri_expand("/{\0}", 4, look_up, NULL, out, sizeof(out), &len, &at), AL_URI_SYNTAX,
		   "NUL is no operator");
	is_int(al_uri_expand("/{nul}", 6, look_up, NULL, out, sizeof(out), &len, &at), AL_URI_CONTROL,
		   "NUL in a value is refused");
	is_int(al_uri_expand("/{+nul}", 7, look_up, NULL, out, sizeof(out), &len, &at), AL_URI_CONTROL,
		   "NUL in a value is refused under +");
}

static void
check_encode(void)
{
	char		out[16];
	size_t		len;

	ok(al_uri_encode("a b&\xc3\xbc", 6, out, sizeof(out), &len), "text is encoded");
	is_str(out, "a%20b%26%C3%BC", "all but unreserved characters");
	is_int((long long) len, 14, "with its length");
	ok(!al_uri_encode("a b&\xc3\xbc", 6, out, 14, &len), "what does not fit is refused");
	ok(al_uri_has_dot_segment("/a/%2E/b", 8), "an encoded dot is a dot segment");
	ok(al_uri_has_dot_segment("/a/..;x/b", 9), "parameters do not hide one");
	ok(al_uri_has_dot_segment("/a/..%3Bx%2fb", 13), "nor do encoded ones");
	ok(!al_uri_has_dot_segment("/a/.b/..c", 9), "names with dots are not");
	ok(!al_uri_has_dot_segment("/a/x;../b%3b..", 14), "nor are parameters of dots");
}

static bool
look_up(const AlUriVariable *variable, AlUriValue *value, void *arg)
{
	(void) arg;
	if (variable->name_len == 7 && memcmp(variable->name, "refused", 7) == 0)
		return false;
	if (variable->name_len == 3 && memcmp(variable->name, "nul", 3) == 0)
	{
		*value = (AlUriValue)
		{
			true, "a\0b", 3
		};
		return true;
	}
	for (size_t i = 0; i < N_VARIABLES; i++)
	{
		if (strlen(VARIABLES[i].name) == variable->name_len &&
			memcmp(VARIABLES[i].name, variable->name, variable->name_len) == 0)
		{
			value->defined = true;
			value->text = VARIABLES[i].value;
			value->len = strlen(VARIABLES[i].value);
		}
	}
	return true;
}

static bool
note_place(const AlUriVariable *variable, void *arg)
{
	char	   *seen = arg;
	size_t		len = strlen(seen);

	seen[len] = variable->operator == '\0' ? '-' : variable->operator;
	seen[len + 1] = variable->in_path ? 'p' : 'q';
	seen[len + 2] = '\0';
	return true;
}

static bool
never(const AlUriVariable *variable, void *arg)
{
	(void) variable;
	(void) arg;
	return false;
}
