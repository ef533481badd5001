/*
 * render_internal.h
 *		What the parts of rendering share.
 */
#ifndef AL_RENDER_INTERNAL_H
#define AL_RENDER_INTERNAL_H

#include "postgres.h"

#include "option.h"
#include "render.h"

#define AL_MAX_URL 8192			/* bytes; longer ones are refused by common servers */
#define AL_MAX_HEADER_VALUE 8000

/*
 * The value that a placeholder stands for: one of ours, an argument, or NULL
 * when the argument is missing.  name is not NUL-terminated.
 */
extern JsonbValue *al_render_value(const AlRenderContext *context, const char *name, size_t len);

/* A scalar as text of the server encoding (null: empty), numbers in canonical form; NULL for a container. */
extern char *al_render_scalar(const JsonbValue *value);

/* Raise LG004 about one argument; what is a whole sentence without its period. */
AL_NORETURN extern void al_render_refuse(const char *name, const char *hint, const char *what);

/* The names of the variables of a tool's path, as char *. */
extern List *al_render_path_names(const AlToolDef *tool);

/* The value of a property of a tool's input schema, or NULL. */
extern JsonbValue *al_render_property(const AlToolDef *tool, const char *name, size_t len);

/*
 * Render the body of a tool, with the key in the field key_field unless that is
 * NULL.  Raises LG009 beyond max bytes.
 */
extern void al_render_body(const AlToolDef *tool, const AlRenderContext *context,
						   const char *key_field, size_t max, StringInfo out);

#endif							/* AL_RENDER_INTERNAL_H */
