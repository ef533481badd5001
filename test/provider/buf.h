/*
 * buf.h
 *		Growable byte buffers, slices, and the encodings the provider needs.
 *
 * Memory that cannot be had ends the process: a provider without its truth
 * must not answer.
 */
#ifndef PROVIDER_BUF_H
#define PROVIDER_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Buf
{
	char	   *data;
	size_t		len;
	size_t		cap;
} Buf;

/* Borrowed bytes; data is NULL for "not there". */
typedef struct Slice
{
	const char *data;
	size_t		len;
} Slice;

#define SLICE_NONE ((Slice) {NULL, 0})
#define SLICE_OF(literal) ((Slice) {(literal), sizeof(literal) - 1})

extern void *xmalloc(size_t size);
extern void buf_reserve(Buf *buf, size_t more);
extern void buf_fill(Buf *buf, int byte, size_t count);
extern void buf_add_int(Buf *buf, int64_t number);
extern void buf_add_hex(Buf *buf, const unsigned char *bytes, size_t count);
extern void buf_add_json(Buf *buf, Slice text);
extern void buf_add_url(Buf *buf, Slice text);
extern void buf_printf(Buf *buf, const char *format,...) __attribute__((format(printf, 2, 3)));
extern void buf_free(Buf *buf);
extern size_t percent_decode(char *text, size_t len);
extern bool slice_is(Slice slice, const char *text);
extern bool slice_is_nocase(Slice slice, const char *text);
extern bool slice_to_int(Slice slice, int64_t *number);

/* Appends bytes. */
static inline void
buf_add(Buf *buf, const void *bytes, size_t count)
{
	if (buf->cap - buf->len < count)
		buf_reserve(buf, count);
	if (count > 0)
		memcpy(buf->data + buf->len, bytes, count);
	buf->len += count;
}

#define buf_add_literal(buf, literal) buf_add((buf), (literal), sizeof(literal) - 1)

/* Appends a C string. */
static inline void
buf_adds(Buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

/* Appends one byte. */
static inline void
buf_addc(Buf *buf, char byte)
{
	buf_add(buf, &byte, 1);
}

#endif							/* PROVIDER_BUF_H */
