/*
 * option.h
 *		Reading a JSON object of options by a table.
 *
 * A table lists every name that the interface has, with its kind, its place in
 * a struct and its bounds.  A name of the interface that this version does not
 * have yet is in the table too (AL_OPTION_LATER), so that it is refused as such
 * and never ignored.  Every error is LG015 with a JSON Pointer in DETAIL.
 */
#ifndef AL_OPTION_H
#define AL_OPTION_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

#include "errors.h"

#define AL_SECOND_MS INT64CONST(1000)
#define AL_MINUTE_MS (60 * AL_SECOND_MS)
#define AL_HOUR_MS (60 * AL_MINUTE_MS)
#define AL_DAY_MS (24 * AL_HOUR_MS)

/* Where in which definition we are. */
typedef struct AlPlace
{
	const char *kind;			/* "service", "tool" */
	const char *name;			/* of the service or tool */
	const char *at;				/* JSON Pointer */
} AlPlace;

typedef enum AlOptionKind
{
	AL_OPTION_TEXT,				/* char *, not empty */
	AL_OPTION_BOOL,				/* bool */
	AL_OPTION_INT,				/* int, within min and max */
	AL_OPTION_DURATION,			/* int64 in ms, within min and max */
	AL_OPTION_READ,				/* by the function */
	AL_OPTION_LATER				/* not supported in this version */
} AlOptionKind;

/* Read a value into the struct that the table describes. */
typedef void (*AlOptionReader) (AlPlace place, const JsonbValue *value, void *target);

/* One line of a table, which ends in a line without a name. */
typedef struct AlOption
{
	const char *name;
	AlOptionKind kind;
	size_t		offset;			/* for the kinds with a place in the struct */
	int64		min;
	int64		max;
	AlOptionReader read;		/* for AL_OPTION_READ */
} AlOption;

#define AL_OPTION_TEXT_AT(name, type, field) \
	{name, AL_OPTION_TEXT, offsetof(type, field), 0, 0, NULL}
#define AL_OPTION_BOOL_AT(name, type, field) \
	{name, AL_OPTION_BOOL, offsetof(type, field), 0, 0, NULL}
#define AL_OPTION_INT_AT(name, type, field, min, max) \
	{name, AL_OPTION_INT, offsetof(type, field), min, max, NULL}
#define AL_OPTION_DURATION_AT(name, type, field, min, max) \
	{name, AL_OPTION_DURATION, offsetof(type, field), min, max, NULL}
#define AL_OPTION_READ_BY(name, reader) \
	{name, AL_OPTION_READ, 0, 0, 0, reader}
#define AL_OPTION_NOT_YET(name) \
	{name, AL_OPTION_LATER, 0, 0, 0, NULL}
#define AL_OPTION_END \
	{NULL, AL_OPTION_LATER, 0, 0, 0, NULL}

/* Read the members of an object as the table says; raises LG015. */
extern void al_option_read(AlPlace place, const JsonbValue *object, const AlOption *table, void *target);

/* Read one value of a kind; raise LG015 for any other. */
extern char *al_option_text(AlPlace place, const JsonbValue *value);
extern bool al_option_bool(AlPlace place, const JsonbValue *value);
extern int	al_option_int(AlPlace place, const JsonbValue *value, int64 min, int64 max);
extern int64 al_option_duration(AlPlace place, const JsonbValue *value, int64 min, int64 max);

/* A whole document as a value: jbvBinary for a container. */
extern JsonbValue al_option_root(Jsonb *document);
extern bool al_option_is_object(const JsonbValue *value);
extern bool al_option_is_array(const JsonbValue *value);

/* The only member of an object, or false when there is not exactly one. */
extern bool al_option_only_member(const JsonbValue *object, char **name, JsonbValue *value);

/* Begin to read a container: an iterator that stands behind its opening token. */
extern JsonbIterator *al_option_open(const JsonbValue *container);

/* The place of a member or an element, with the escapes of RFC 6901. */
extern AlPlace al_place_member(AlPlace place, const char *name);
extern AlPlace al_place_element(AlPlace place, int index);

/*
 * Raise LG015.  what is a whole sentence about the place, without its period;
 * hint is a whole sentence or NULL.
 */
AL_NORETURN extern void al_definition_error(AlPlace place, const char *hint,
											const char *what,...) pg_attribute_printf(3, 4);

/* How a value is called in a message, without showing it: "a number", "an object". */
extern const char *al_option_kind(const JsonbValue *value);

/*
 * Run one of PostgreSQL's parsers for its errors only: what it refuses becomes
 * LG015 with the parser's message; any other error passes through.
 */
typedef void (*AlParser) (const char *text);
extern void al_option_compiles(AlPlace place, const char *what, const char *text, AlParser parse);

#endif							/* AL_OPTION_H */
