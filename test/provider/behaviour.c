/*
 * behaviour.c
 *		The vocabulary of "do=": what the provider can be told to do.
 */
#include <stdlib.h>

#include "behaviour.h"

#define MAX_DELAY_MS (24 * 3600 * 1000LL)

static char *nth_item(char *plan, uint32_t n);
static char *choose(char *item, uint64_t chance);
static bool read_status(char *arg, Buf *lines, Item *item);
static void add_header(Buf *lines, const char *name, const char *value);
static uint64_t mix(uint64_t hash);

static const Behaviour Behaviours[] = {
	{"ok", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_OK},
	{"show", ARG_TEXT, false, DELAY_NONE, SHAPE_NORMAL, 200, BODY_OK},
	{"late", ARG_NUMBER, true, DELAY_AFTER, SHAPE_NORMAL, 200, BODY_OK},
	{"held", ARG_NUMBER, true, DELAY_HELD, SHAPE_NORMAL, 200, BODY_OK},
	{"slowexec", ARG_NUMBER, true, DELAY_BEFORE, SHAPE_NORMAL, 200, BODY_OK},
	{"processing", ARG_NUMBER, true, DELAY_BEFORE, SHAPE_NORMAL, 200, BODY_OK},
	{"hang", ARG_NONE, true, DELAY_NONE, SHAPE_HANG, 200, BODY_OK},
	{"noexec_hang", ARG_NONE, false, DELAY_NONE, SHAPE_HANG, 200, BODY_OK},
	{"close", ARG_NONE, true, DELAY_NONE, SHAPE_CLOSE, 200, BODY_OK},
	{"close_before", ARG_NONE, false, DELAY_NONE, SHAPE_CLOSE, 200, BODY_OK},
	{"reset", ARG_NONE, true, DELAY_NONE, SHAPE_RESET, 200, BODY_OK},
	{"reset_before", ARG_NONE, false, DELAY_NONE, SHAPE_RESET, 200, BODY_OK},
	{"status", ARG_STATUS, false, DELAY_NONE, SHAPE_NORMAL, 0, BODY_STATUS},
	{"execstatus", ARG_STATUS, true, DELAY_NONE, SHAPE_NORMAL, 0, BODY_STATUS},
	{"loststatus", ARG_STATUS, true, DELAY_NONE, SHAPE_CLOSE, 0, BODY_STATUS},
	{"cuthead", ARG_NONE, true, DELAY_NONE, SHAPE_CUTHEAD, 200, BODY_OK},
	{"statusline", ARG_TEXT, true, DELAY_NONE, SHAPE_STATUSLINE, 200, BODY_OK},
	{"truncated", ARG_NONE, true, DELAY_NONE, SHAPE_TRUNCATED, 200, BODY_OK},
	{"noframing", ARG_NONE, true, DELAY_NONE, SHAPE_NOFRAMING, 200, BODY_OK},
	{"interim", ARG_NUMBER, true, DELAY_NONE, SHAPE_INTERIM, 200, BODY_OK},
	{"interim_ok", ARG_NUMBER, true, DELAY_NONE, SHAPE_INTERIM_OK, 200, BODY_OK},
	{"nul", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_NUL},
	{"gzip", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_GZIP},
	{"endless", ARG_NONE, true, DELAY_NONE, SHAPE_ENDLESS, 200, BODY_OK},
	{"deep", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_DEEP},
	{"badutf8", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_BADUTF8},
	{"hugenum", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_HUGENUM},
	{"big", ARG_NUMBER, true, DELAY_NONE, SHAPE_NORMAL, 200, BODY_BIG},
	{"redirect", ARG_TEXT, false, DELAY_NONE, SHAPE_NORMAL, 302, BODY_STATUS},
	{"accepted", ARG_NONE, true, DELAY_NONE, SHAPE_NORMAL, 202, BODY_ACCEPTED},
	{"okfalse", ARG_NONE, false, DELAY_NONE, SHAPE_NORMAL, 200, BODY_OKFALSE},
	{"readclose2", ARG_NONE, true, DELAY_NONE, SHAPE_READCLOSE2, 200, BODY_OK},
	{"slowbody", ARG_NUMBER, true, DELAY_AFTER, SHAPE_SLOWBODY, 200, BODY_OK},
};

/*
 * Finds the item for the n-th request of an operation.
 *
 * plan is the decoded parameter, or NULL for "ok"; it is cut up in place.
 * chance is the hash that decides "p:".  Returns false for an item that is not
 * in the vocabulary.
 */
bool
behaviour_pick(Buf *plan, uint32_t n, uint64_t chance, Buf *lines, Item *item)
{
	char	   *name;
	char	   *arg;

	*item = (Item) {.behaviour = &Behaviours[0], .status = 200};
	if (plan == NULL)
		return true;
	buf_addc(plan, '\0');
	name = choose(nth_item(plan->data, n), chance);
	if (name == NULL)
		return false;
	arg = strchr(name, ':');
	if (arg != NULL)
		*arg++ = '\0';
	item->behaviour = NULL;
	for (size_t i = 0; i < sizeof(Behaviours) / sizeof(Behaviours[0]); i++)
	{
		if (strcmp(name, Behaviours[i].name) == 0)
			item->behaviour = &Behaviours[i];
	}
	if (item->behaviour == NULL || (arg != NULL) != (item->behaviour->arg != ARG_NONE))
		return false;
	item->status = item->behaviour->status;
	switch (item->behaviour->arg)
	{
		case ARG_NONE:
			break;
		case ARG_NUMBER:
			return slice_to_int((Slice) {arg, strlen(arg)}, &item->number) &&
				item->number >= 0 && item->number <= MAX_DELAY_MS;
		case ARG_STATUS:
			return read_status(arg, lines, item);
		case ARG_TEXT:
			arg[percent_decode(arg, strlen(arg))] = '\0';
			item->text = arg;
			if (item->status == 302)
			{
				add_header(lines, "Location", arg);
				buf_addc(lines, '\0');
				item->headers = lines->data;
			}
			break;
	}
	return true;
}

/* Tells whether an item is of that name. */
bool
behaviour_is(const Item *item, const char *name)
{
	return strcmp(item->behaviour->name, name) == 0;
}

/* Returns the n-th item of a comma-separated plan, the last one for all that follow. */
static char *
nth_item(char *plan, uint32_t n)
{
	char	   *item = plan;
	char	   *comma;

	while ((comma = strchr(item, ',')) != NULL)
	{
		if (n-- <= 1)
		{
			*comma = '\0';
			break;
		}
		item = comma + 1;
	}
	return item;
}

/* Resolves "p:PERCENT:ITEM1/ITEM2", which may stand again in ITEM2. */
static char *
choose(char *item, uint64_t chance)
{
	while (strncmp(item, "p:", 2) == 0)
	{
		char	   *colon;
		double		percent = strtod(item + 2, &colon);
		char	   *slash = strchr(item, '/');

		if (*colon != ':' || slash == NULL || slash < colon)
			return NULL;
		*slash = '\0';
		chance = mix(chance);
		item = (double) (chance >> 11) * 0x1p-53 * 100.0 < percent ? colon + 1 : slash + 1;
	}
	return item;
}

/* Reads "NNN;Header:value;body:text". */
static bool
read_status(char *arg, Buf *lines, Item *item)
{
	char	   *part = strchr(arg, ';');
	int64_t		status;

	if (part != NULL)
		*part++ = '\0';
	if (!slice_to_int((Slice) {arg, strlen(arg)}, &status) || status < 100 || status > 999)
		return false;
	item->status = (int) status;
	while (part != NULL && *part != '\0')
	{
		char	   *next = strchr(part, ';');
		char	   *value;

		if (next != NULL)
			*next++ = '\0';
		value = strchr(part, ':');
		if (value == NULL)
			return false;
		*value++ = '\0';
		value[percent_decode(value, strlen(value))] = '\0';
		if (strcmp(part, "body") == 0)
			item->body = value;
		else
			add_header(lines, part, value);
		part = next;
	}
	if (lines->len > 0)
	{
		buf_addc(lines, '\0');
		item->headers = lines->data;
	}
	return true;
}

/* Adds a header line. */
static void
add_header(Buf *lines, const char *name, const char *value)
{
	buf_adds(lines, name);
	buf_add_literal(lines, ": ");
	buf_adds(lines, value);
	buf_add_literal(lines, "\r\n");
}

/* Scrambles a hash so that nested choices are independent. */
static uint64_t
mix(uint64_t hash)
{
	hash += 0x9e3779b97f4a7c15u;
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
	return hash ^ hash >> 31;
}
