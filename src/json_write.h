/*
 * json_write.h
 *		Members of a JSON object that is being put together.
 */
#ifndef AL_JSON_WRITE_H
#define AL_JSON_WRITE_H

#include "postgres.h"
#include "utils/jsonb.h"

/* A member's name; its value is pushed next.  The text must live as long as the state. */
extern void al_json_key(JsonbParseState **state, const char *key);

/* A member with its value; NULL text is null. */
extern void al_json_text(JsonbParseState **state, const char *key, const char *text);
extern void al_json_int(JsonbParseState **state, const char *key, int64 number);
extern void al_json_bool(JsonbParseState **state, const char *key, bool truth);

#endif							/* AL_JSON_WRITE_H */
