/*
 * head.h
 *		Our own reading of a response head: evidence, not convenience.
 *
 * Pure C, libc only.  libcurl reads "HTTP/1.1 2000" as 200 and reports status
 * 200 with code OK for a head that was cut off; so the status line and the
 * blank line are judged here, byte by byte.  Bounded memory: a fixed number of
 * kept headers, each capped.
 */
#ifndef AL_HEAD_H
#define AL_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_HEAD_MAX_BYTES 32768	/* of one response, informational heads included */
#define AL_HEAD_KEPT 16
#define AL_HEAD_NAME_MAX 64
#define AL_HEAD_VALUE_MAX 512

typedef struct AlHeader
{
	char		name[AL_HEAD_NAME_MAX];	/* as received, NUL-terminated */
	char		value[AL_HEAD_VALUE_MAX];	/* trimmed, NUL-terminated, cut at the cap; bytes
											 * outside printable ASCII become '?' */
} AlHeader;

typedef struct AlHead
{
	int			status;			/* of the last well-formed status line; 0 when none */
	bool		complete;		/* blank line after a final (>= 200) status line seen */
	bool		between;		/* an informational head has ended: a status line must follow */
	bool		malformed;		/* a status line that is none, or too many bytes */
	bool		chunked;		/* Transfer-Encoding ends in chunked */
	bool		has_length;		/* a valid Content-Length */
	int64_t		length;			/* meaningful with has_length; -1 after a contradiction */
	size_t		bytes;			/* head bytes seen so far */
	int			n_kept;
	AlHeader	kept[AL_HEAD_KEPT];	/* headers whose name is on the allow list, in order */
} AlHead;

/* Start afresh, for a new attempt. */
extern void al_head_init(AlHead *head);

/*
 * Take one header line as libcurl's header callback delivers it (status line,
 * field or blank line, with its line ending).  keep: lower-case names, NULL at
 * the end, whose fields are kept.  A status line must match
 * ^HTTP/1\.[01] [1-5][0-9][0-9]( |\r|\n|$) or, for HTTP/2, ^HTTP/2 [1-5][0-9][0-9]( |\r|\n|$).
 * A later status line (after 1xx) starts the head again.  Lines after the
 * complete head (trailers) are ignored.  False when the head is malformed or over
 * AL_HEAD_MAX_BYTES: the caller stops the transfer.
 */
extern bool al_head_line(AlHead *head, const char *line, size_t len, const char *const *keep);

/* The value of a kept header by case-insensitive name (the first), or NULL. */
extern const char *al_head_find(const AlHead *head, const char *name);

#endif							/* AL_HEAD_H */
