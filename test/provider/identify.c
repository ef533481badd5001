/*
 * identify.c
 *		What a request is about: mode, idempotency key, operation.
 */
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "fields.h"
#include "identify.h"

/* Tells the mode from the first path segment; rest is the last segment. */
Mode
identify_mode(const HttpRequest *request, Slice *rest)
{
	Slice		path = request->path;
	const char *slash = memchr(path.data + 1, '/', path.len - 1);
	Slice		first = {path.data + 1, slash != NULL ? (size_t) (slash - path.data) - 1 : path.len - 1};

	*rest = SLICE_NONE;
	for (size_t i = path.len; i > 0; i--)
	{
		if (path.data[i - 1] == '/')
		{
			*rest = (Slice) {path.data + i, path.len - i};
			break;
		}
	}
	if (slice_is(first, "keyed"))
		return MODE_KEYED;
	if (slice_is(first, "unkeyed"))
		return MODE_UNKEYED;
	if (slice_is(first, "read"))
		return MODE_READ;
	if (slice_is(first, "refunds"))
		return slash != NULL && rest->len > 0 ? MODE_ONE : MODE_LIST;
	if (slice_is(request->path, "/truth") && slice_is(request->method, "GET"))
		return MODE_TRUTH;
	return MODE_NONE;
}

/* Finds the key where the query says it is, else in Idempotency-Key; for lookups, what is looked for. */
Slice
identify_key(const HttpRequest *request, Slice rest, Buf *store)
{
	static Buf	name;
	Slice		query = request->query;
	Slice		path = request->path;

	store->len = 0;
	if (path.len >= 8 && memcmp(path.data, "/refunds", 8) == 0)
	{
		if (path.len > 9)
		{
			buf_reserve(store, rest.len);
			buf_add(store, rest.data, rest.len);
			store->len = percent_decode(store->data, store->len);
			return (Slice) {store->data, store->len};
		}
		if (query.len > 0 && (query_get(query, "key", store) || query_get(query, "op", store)))
			return (Slice) {store->data, store->len};
		return SLICE_NONE;
	}
	if (query.len == 0)
		return request->key;
	if (query_get(query, "key_header", &name))
	{
		buf_addc(&name, '\0');
		return http_get_header(request->headers, name.data);
	}
	if (query_get(query, "key_field", &name))
	{
		buf_addc(&name, '\0');
		return body_get(request->body, name.data, store) ? (Slice) {store->data, store->len} : SLICE_NONE;
	}
	if (query_get(query, "key_query", &name))
	{
		buf_addc(&name, '\0');
		return query_get(query, name.data, store) ? (Slice) {store->data, store->len} : SLICE_NONE;
	}
	if (query_get(query, "key_path", &name))
	{
		buf_add(store, rest.data, rest.len);
		if (store->len > 0)
			store->len = percent_decode(store->data, store->len);
		return store->len > 0 ? (Slice) {store->data, store->len} : SLICE_NONE;
	}
	return request->key;
}

/* Finds what tells this operation from others. */
Slice
identify_operation(const HttpRequest *request, Mode mode, Slice key, Buf *store)
{
	unsigned char hash[32];

	store->len = 0;
	if (mode == MODE_LIST || mode == MODE_ONE)
	{
		buf_add_literal(store, "lookup:");
		buf_add(store, key.data, key.len);
		return (Slice) {store->data, store->len};
	}
	if (key.len > 0)
		return key;
	if (request->action.len > 0)
		return request->action;
	if (request->operation.len > 0)
		return request->operation;
	identify_hash(hash, (Slice[]) {request->method, SLICE_OF(" "), request->target, SLICE_OF("\n"),
							request->body}, 5);
	buf_add_hex(store, hash, sizeof(hash));
	return (Slice) {store->data, store->len};
}

/* Hashes the parts, one after the other. */
void
identify_hash(unsigned char *hash, const Slice *parts, int count)
{
	static EVP_MD_CTX *context;
	static EVP_MD *algorithm;

	if (context == NULL)
	{
		context = EVP_MD_CTX_new();
		algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
		if (context == NULL || algorithm == NULL || !EVP_DigestInit_ex2(context, algorithm, NULL))
		{
			fprintf(stderr, "provider: no SHA-256\n");
			exit(2);
		}
	}
	EVP_DigestInit_ex2(context, NULL, NULL);
	for (int i = 0; i < count; i++)
		EVP_DigestUpdate(context, parts[i].data, parts[i].len);
	EVP_DigestFinal_ex(context, hash, NULL);
}
