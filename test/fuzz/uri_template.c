/*
 * uri_template.c
 *		A URI template of any bytes, filled with values of any bytes.
 *
 * Input: the room for the result, then the template and the values, each ended
 * by a byte 0xff.  A value "\x01" is an undefined one, "\x02" refuses.
 */
#include "fuzz.h"
#include "rules/uri_template.h"

#define MAX_VALUES 8
#define MAX_SEEN 64
#define ROOM 16384

typedef struct Text
{
	const char *text;
	size_t		len;
} Text;

/* Values to fill in, and what was asked for. */
typedef struct Filling
{
	Text		values[MAX_VALUES];
	int			n_values;
	int			n_seen;
	AlUriVariable seen[MAX_SEEN];
	bool		refused;
	bool		reserved;		/* a value was filled in under + or # */
	bool		control;		/* a value had a NUL, CR or LF */
	int			n_slashes;		/* variables of the operator that adds one */
} Filling;

static Text take_text(FuzzInput *in);
static AlUriResult expand(Text template, Filling *filling, char *out, size_t size, size_t *len);
static bool look_up(const AlUriVariable *variable, AlUriValue *value, void *arg);
static bool visit(const AlUriVariable *variable, void *arg);
static void note(Filling *filling, const AlUriVariable *variable);
static void check_variables(Text template, AlUriResult expanded, const Filling *filling);
static void check_result(Text template, const Filling *filling, const char *out, size_t len);
static void check_room(Text template, const Filling *filling, const char *out, size_t len, size_t size);
static void check_encode(Text value);
static void check_octets(const char *text, size_t len, const char *besides);
static bool leads_up(const char *path, size_t len);
static int	count(const char *text, size_t len, char c);
static int	hex_value(char c);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	in = {data, size};
	size_t		room = (size_t) fuzz_byte(&in) * 4;
	Text		template = take_text(&in);
	char	   *exact = fuzz_exact(template.text, template.len);
	Filling		filling = {0};
	static char out[ROOM];
	AlUriResult result;
	size_t		len;

	template.text = exact;
	while (in.left > 0 && filling.n_values < MAX_VALUES)
		filling.values[filling.n_values++] = take_text(&in);

	result = expand(template, &filling, out, sizeof(out), &len);
	check_variables(template, result, &filling);
	if (result == AL_URI_OK)
	{
		check_result(template, &filling, out, len);
		check_room(template, &filling, out, len, len + 1);
		check_room(template, &filling, out, len, len);
		check_room(template, &filling, out, len, room);
	}
	if (result == AL_URI_DOT_SEGMENT)
		claim(leads_up(out, len));
	claim((result == AL_URI_REFUSED) == filling.refused);
	claim((result == AL_URI_CONTROL) == filling.control);
	claim(al_uri_has_dot_segment(template.text, template.len) == leads_up(template.text, template.len));
	for (int i = 0; i < filling.n_values; i++)
		check_encode(filling.values[i]);
	free(exact);
	return 0;
}

/* Take what comes before the next 0xff, or the rest. */
static Text
take_text(FuzzInput *in)
{
	Text		text = {(const char *) in->at, in->left};
	const uint8_t *end = in->left > 0 ? memchr(in->at, 0xff, in->left) : NULL;

	if (end != NULL)
		text.len = (size_t) (end - in->at);
	in->at += text.len;
	in->left -= text.len;
	(void) fuzz_byte(in);
	return text;
}

static AlUriResult
expand(Text template, Filling *filling, char *out, size_t size, size_t *len)
{
	size_t		at = SIZE_MAX;
	AlUriResult result;

	filling->n_seen = 0;
	filling->n_slashes = 0;
	filling->reserved = false;
	filling->control = false;
	filling->refused = false;
	*len = SIZE_MAX;
	result = al_uri_expand(template.text, template.len, look_up, filling, out, size, len, &at);
	claim(at <= template.len);
	if (result == AL_URI_OK)
		claim(*len < size);
	return result;
}

/* Give the variables their values in turn. */
static bool
look_up(const AlUriVariable *variable, AlUriValue *value, void *arg)
{
	Filling    *filling = arg;
	Text		text;

	claim(!value->defined);
	note(filling, variable);
	if (filling->n_values == 0)
		return true;
	text = filling->values[(filling->n_seen - 1) % filling->n_values];
	filling->refused = text.len == 1 && text.text[0] == '\x02';
	if (filling->refused || (text.len == 1 && text.text[0] == '\x01'))
		return !filling->refused;
	if (variable->operator == '+' || variable->operator == '#')
		filling->reserved = true;
	for (size_t i = 0; i < text.len; i++)
		filling->control = filling->control || memchr("\0\r\n", text.text[i], 3) != NULL;
	value->defined = true;
	value->text = text.text;
	value->len = text.len;
	return true;
}

static bool
visit(const AlUriVariable *variable, void *arg)
{
	note(arg, variable);
	return true;
}

/* Remember a variable, whose name is letters, digits, "_", "." and octets. */
static void
note(Filling *filling, const AlUriVariable *variable)
{
	claim(variable->name_len > 0);
	claim(variable->operator == '\0' || strchr("+#./;?&", variable->operator) != NULL);
	check_octets(variable->name, variable->name_len, "_.");
	claim(variable->name[0] != '.' && variable->name[variable->name_len - 1] != '.');
	claim(memmem(variable->name, variable->name_len, "..", 2) == NULL);
	if (variable->operator == '/')
		filling->n_slashes++;
	if (filling->n_seen < MAX_SEEN)
		filling->seen[filling->n_seen] = *variable;
	filling->n_seen++;
}

/* What is checked when a tool is created is what is expanded later. */
static void
check_variables(Text template, AlUriResult expanded, const Filling *filling)
{
	Filling		walked = {0};
	size_t		at = SIZE_MAX;
	AlUriResult result = al_uri_variables(template.text, template.len, visit, &walked, &at);

	claim(at <= template.len);
	claim(result == AL_URI_OK || result == AL_URI_SYNTAX || result == AL_URI_UNSUPPORTED);
	if (result == AL_URI_OK)
		claim(expanded != AL_URI_SYNTAX && expanded != AL_URI_UNSUPPORTED);
	else
		claim(expanded != AL_URI_OK && expanded != AL_URI_DOT_SEGMENT);
	if (expanded == AL_URI_OK)
		claim(walked.n_seen == filling->n_seen);
	claim(walked.n_seen >= filling->n_seen);

	for (int i = 0; i < filling->n_seen && i < MAX_SEEN; i++)
	{
		claim(walked.seen[i].name == filling->seen[i].name);
		claim(walked.seen[i].name_len == filling->seen[i].name_len);
		claim(walked.seen[i].operator == filling->seen[i].operator);

		/* Only a value with a "?" or "#" of its own ends the path early. */
		claim(filling->reserved || !walked.seen[i].in_path || filling->seen[i].in_path);
	}
}

/* A result is a path that stays where the template put it. */
static void
check_result(Text template, const Filling *filling, const char *out, size_t len)
{
	claim(strlen(out) == len);
	check_octets(out, len, "-._~:/?#[]@!$&'()*+,;=");
	claim(!leads_up(out, len));
	if (filling->reserved)
		return;

	/* A value that is encoded adds neither a segment nor a query. */
	claim(count(out, len, '/') <= count(template.text, template.len, '/') + filling->n_slashes);
	claim(count(out, len, '?') <= count(template.text, template.len, '?'));
	claim(count(out, len, '#') <= count(template.text, template.len, '#'));
}

/* The same comes out of any room that is enough, and nothing is written beyond it. */
static void
check_room(Text template, const Filling *filling, const char *out, size_t len, size_t size)
{
	Filling		again = *filling;
	char	   *small = malloc(size > 0 ? size : 1);
	size_t		small_len;
	AlUriResult result;

	if (small == NULL)
		abort();
	result = expand(template, &again, small, size, &small_len);
	if (size > len)
		claim(result == AL_URI_OK && small_len == len && memcmp(small, out, len + 1) == 0);
	else
		claim(result == AL_URI_TOO_LONG);
	free(small);
}

/* An encoded text has unreserved characters only, and is decoded to what it was. */
static void
check_encode(Text value)
{
	size_t		size = 3 * value.len + 1;
	char	   *out = malloc(size);
	char	   *exact = fuzz_exact(value.text, value.len);
	size_t		len;
	size_t		at = 0;

	if (out == NULL)
		abort();
	claim(al_uri_encode(exact, value.len, out, size, &len) && len < size && out[len] == '\0');
	check_octets(out, len, "-._~");
	for (size_t i = 0; i < value.len; i++)
	{
		unsigned char c = (unsigned char) out[at];

		if (c == '%')
			c = (unsigned char) (hex_value(out[at + 1]) * 16 + hex_value(out[at + 2]));
		claim(c == (unsigned char) value.text[i]);
		at += out[at] == '%' ? 3 : 1;
	}
	claim(at == len);
	claim(!al_uri_encode(exact, value.len, out, len, &len));
	free(out);
	free(exact);
}

/* A text is made of letters, digits, percent-encoded octets and the characters besides. */
static void
check_octets(const char *text, size_t len, const char *besides)
{
	for (size_t i = 0; i < len; i++)
	{
		char		c = text[i];

		if (c == '%')
		{
			claim(len - i >= 3 && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0);
			i += 2;
		}
		else
			claim((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
				  (c != '\0' && strchr(besides, c) != NULL));
	}
}

/* Whether a path, its dots, slashes and semicolons decoded, has a segment "." or "..", parameters aside. */
static bool
leads_up(const char *path, size_t len)
{
	char	   *decoded = malloc(len + 2);
	size_t		n = 0;
	bool		found = false;

	if (decoded == NULL)
		abort();
	for (size_t i = 0; i < len && path[i] != '?' && path[i] != '#'; i++)
	{
		int			octet = path[i] == '%' && len - i >= 3 && hex_value(path[i + 1]) >= 0 && hex_value(path[i + 2]) >= 0 ?
			hex_value(path[i + 1]) * 16 + hex_value(path[i + 2]) : -1;

		decoded[n++] = octet == '.' ? '.' : octet == '/' || octet == '\\' ? '/' : octet == ';' ? ';' : path[i];
		if (octet == '.' || octet == '/' || octet == '\\' || octet == ';')
			i += 2;
	}
	decoded[n] = '/';
	for (char *from = decoded, *to; from <= decoded + n; from = to + 1)
	{
		size_t		plain = 0;

		to = memchr(from, '/', (size_t) (decoded + n - from) + 1);
		while (from + plain < to && from[plain] != ';')
			plain++;
		found = found || (plain == 1 && from[0] == '.') || (plain == 2 && from[0] == '.' && from[1] == '.');
	}
	free(decoded);
	return found;
}

static int
count(const char *text, size_t len, char c)
{
	int			n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == c;
	return n;
}

static int
hex_value(char c)
{
	const char *digits = "0123456789abcdef0123456789ABCDEF";
	const char *found = c != '\0' ? strchr(digits, c) : NULL;

	return found != NULL ? (int) ((found - digits) % 16) : -1;
}
