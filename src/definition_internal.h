/*
 * definition_internal.h
 *		What the readers of services and tools share.
 */
#ifndef AL_DEFINITION_INTERNAL_H
#define AL_DEFINITION_INTERNAL_H

#include "postgres.h"

#include "definition.h"
#include "option.h"

/* Refuse a name with a control character (0x1F parts the name a key is made from). */
extern void al_definition_check_name(AlPlace place);

/*
 * Read an object of headers into lines "Name: value".  Values are printable
 * ASCII without space at the ends and may hold {secret:name}; and
 * {placeholders} where placeholders is true.
 */
extern void al_definition_headers(AlPlace place, const JsonbValue *object, bool placeholders, List **headers);

/* Check one header and append its line. */
extern void al_definition_header(AlPlace place, const char *name, const char *value,
								 bool placeholders, List **headers);

/* Append the line of a header whose value is checked already; refuses a bad, reserved or repeated name. */
/* A value that must be given by reference: raises unless it holds a {secret:name} (or an argument). */
extern void al_definition_check_reference(AlPlace place, const char *value);
extern void al_definition_add_header(AlPlace place, const char *name, const char *value, List **headers);

/* Refuse anything but printable ASCII with {secret:name}, and {placeholders} where allowed. */
extern void al_definition_check_value(AlPlace place, const char *value, bool placeholders);

/* Read the declaration of idempotency. */
extern void al_definition_idempotency(AlPlace place, const JsonbValue *value, AlIdempotency *idempotency);

/* What holds without one: the key is sent in Idempotency-Key and not relied on. */
extern void al_definition_idempotency_default(AlIdempotency *idempotency);

/* Refuse a header that would stand beside the key's. */
extern void al_definition_check_key_header(AlPlace place, const List *headers, const AlIdempotency *idempotency);

/* Whether the characters of a text may stand in a key: the alphabet, or printable ASCII; never { } or space. */
extern bool al_key_fits(const AlIdempotency *idempotency, const char *text);

/* Read a text that compiles as jsonpath. */
extern char *al_definition_jsonpath(AlPlace place, const JsonbValue *value);

/* Read a tool's outcome rules; target is its AlToolDef. */
extern void al_definition_outcome(AlPlace place, const JsonbValue *value, void *target);

/* Read an array of outcome rules. */
extern List *al_definition_rules(AlPlace place, const JsonbValue *value);

/* Read an object that tells answers apart: status, header and if, without a verdict. */
extern AlRule *al_definition_condition(AlPlace place, const JsonbValue *value);

/* Read "METHOD /path" with one space between. */
extern void al_definition_request(AlPlace place, const char *request, char **method, char **path);

/* Read a tool's lookup; target is its AlToolDef. */
extern void al_definition_lookup(AlPlace place, const JsonbValue *value, void *target);

/* Check what a lookup says together with the rest of its tool, which is all read by now. */
extern void al_definition_settle_lookup(AlPlace place, AlToolDef *tool);

/* Read a tool's approval policy; target is its AlToolDef. */
extern void al_definition_approval(AlPlace place, const JsonbValue *value, void *target);

/* How long an approval may be waited for where nothing is said. */
#define AL_DEFAULT_APPROVAL_MS AL_DAY_MS

/* Printable ASCII, space included. */
extern bool al_definition_is_printable(const char *text);

#endif							/* AL_DEFINITION_INTERNAL_H */
