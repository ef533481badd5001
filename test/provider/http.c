/*
 * http.c
 *		Reading HTTP/1.x requests out of a byte buffer.
 *
 * Strict about what could make two readers see two different requests (RFC
 * 9112, section 11.2), indifferent to everything else.  Functions that can find
 * fault return 0 or the status to refuse the request with.
 */
#define _GNU_SOURCE
#include "http.h"

static int	parse_request_line(Slice line, HttpRequest *request);
static bool split_target(HttpRequest *request);
static int	parse_header(Slice name, Slice value, HttpRequest *request);
static int	keep_once(Slice *field, Slice value);
static bool next_header(Slice *rest, Slice *name, Slice *value);
static bool list_has(Slice list, const char *token);
static bool is_token(Slice text);
static Slice trim(Slice text);

/* Returns the length of the head with its blank line, 0 while that is not there. */
size_t
http_find_head_end(const char *data, size_t len, size_t *scanned)
{
	size_t		from = *scanned > 3 ? *scanned - 3 : 0;
	const char *end = len > from ? memmem(data + from, len - from, "\r\n\r\n", 4) : NULL;

	*scanned = len;
	return end != NULL ? (size_t) (end - data) + 4 : 0;
}

/* Reads request line and headers. */
int
http_parse_head(Slice head, HttpRequest *request)
{
	const char *line_end = memmem(head.data, head.len, "\r\n", 2);
	Slice		rest;
	Slice		name;
	Slice		value;
	int			status;

	*request = (HttpRequest) {.content_length = -1, .keep_alive = true};
	status = parse_request_line((Slice) {head.data, (size_t) (line_end - head.data)}, request);
	if (status != 0)
		return status;
	request->headers.data = line_end + 2;
	request->headers.len = head.len - (size_t) (line_end - head.data) - 4;
	rest = request->headers;
	while (rest.len > 0)
	{
		if (!next_header(&rest, &name, &value) || !is_token(name))
			return 400;
		if ((status = parse_header(name, value, request)) != 0)
			return status;
	}
	if (request->chunked && request->content_length >= 0)
		return 400;
	if (request->content_length > (int64_t) HTTP_MAX_BODY)
		return 413;
	return 0;
}

/* Returns the value of the first header of that name. */
Slice
http_get_header(Slice headers, const char *name)
{
	Slice		found;
	Slice		value;

	while (headers.len > 0 && next_header(&headers, &found, &value))
	{
		if (slice_is_nocase(found, name))
			return value;
	}
	return SLICE_NONE;
}

/* Decodes what has come of a chunked body; state CHUNK_DONE when it is complete. */
int
http_dechunk(HttpChunks *chunks, Slice data, Buf *body)
{
	while (chunks->state != CHUNK_DONE && chunks->at < data.len)
	{
		const char *at = data.data + chunks->at;
		size_t		len = data.len - chunks->at;
		const char *end;

		if (chunks->state == CHUNK_DATA)
		{
			size_t		take = len < chunks->left ? len : chunks->left;

			buf_add(body, at, take);
			chunks->at += take;
			chunks->left -= take;
			if (chunks->left == 0)
				chunks->state = CHUNK_DATA_END;
			continue;
		}
		end = memmem(at, len, "\r\n", 2);
		if (end == NULL)
			return len > HTTP_MAX_HEAD ? 400 : 0;
		if (chunks->state == CHUNK_DATA_END)
		{
			if (end != at)
				return 400;
			chunks->state = CHUNK_SIZE;
		}
		else if (chunks->state == CHUNK_TRAILER)
		{
			if (end == at)
				chunks->state = CHUNK_DONE;
		}
		else
		{
			size_t		size = 0;
			size_t		digits = 0;

			for (; digits < 9 && at + digits < end; digits++)
			{
				char		c = at[digits];

				if (c >= '0' && c <= '9')
					size = size * 16 + (size_t) (c - '0');
				else if ((c | 32) >= 'a' && (c | 32) <= 'f')
					size = size * 16 + (size_t) ((c | 32) - 'a' + 10);
				else
					break;
			}
			if (digits == 0 || (at + digits < end && strchr("; \t", at[digits]) == NULL))
				return 400;
			if (size > HTTP_MAX_BODY || body->len + size > HTTP_MAX_BODY)
				return 413;
			chunks->left = size;
			chunks->state = size > 0 ? CHUNK_DATA : CHUNK_TRAILER;
		}
		chunks->at += (size_t) (end - at) + 2;
	}
	return 0;
}

/* Returns the usual reason phrase of a status. */
const char *
http_reason(int status)
{
	switch (status)
	{
		case 100:
			return "Continue";
		case 102:
			return "Processing";
		case 103:
			return "Early Hints";
		case 200:
			return "OK";
		case 201:
			return "Created";
		case 202:
			return "Accepted";
		case 204:
			return "No Content";
		case 302:
			return "Found";
		case 400:
			return "Bad Request";
		case 401:
			return "Unauthorized";
		case 403:
			return "Forbidden";
		case 404:
			return "Not Found";
		case 409:
			return "Conflict";
		case 413:
			return "Content Too Large";
		case 422:
			return "Unprocessable Content";
		case 429:
			return "Too Many Requests";
		case 431:
			return "Request Header Fields Too Large";
		case 500:
			return "Internal Server Error";
		case 501:
			return "Not Implemented";
		case 502:
			return "Bad Gateway";
		case 503:
			return "Service Unavailable";
		case 504:
			return "Gateway Timeout";
		case 505:
			return "HTTP Version Not Supported";
		default:
			return "Status";
	}
}

/* Reads "METHOD target HTTP/1.x". */
static int
parse_request_line(Slice line, HttpRequest *request)
{
	const char *end = line.data + line.len;
	const char *space = memchr(line.data, ' ', line.len);
	const char *last = memrchr(line.data, ' ', line.len);
	Slice		version;

	if (space == NULL || last == space)
		return 400;
	request->method = (Slice) {line.data, (size_t) (space - line.data)};
	request->target = (Slice) {space + 1, (size_t) (last - space - 1)};
	version = (Slice) {last + 1, (size_t) (end - last - 1)};
	if (!is_token(request->method) || memchr(request->target.data, ' ', request->target.len) != NULL)
		return 400;
	if (slice_is(version, "HTTP/1.0"))
		request->keep_alive = false;
	else if (!slice_is(version, "HTTP/1.1"))
		return version.len > 5 && memcmp(version.data, "HTTP/", 5) == 0 ? 505 : 400;
	return split_target(request) ? 0 : 400;
}

/* Splits the target, in origin or absolute form, into path and query. */
static bool
split_target(HttpRequest *request)
{
	Slice		rest = request->target;
	const char *mark;

	if (rest.len > 0 && rest.data[0] != '/')
	{
		const char *authority = memmem(rest.data, rest.len, "://", 3);
		const char *path;

		if (authority == NULL)
			return false;
		authority += 3;
		path = memchr(authority, '/', rest.len - (size_t) (authority - rest.data));
		if (path == NULL)
			return false;
		rest = (Slice) {path, rest.len - (size_t) (path - rest.data)};
	}
	if (rest.len == 0)
		return false;
	mark = memchr(rest.data, '?', rest.len);
	request->path = rest;
	if (mark != NULL)
	{
		request->path.len = (size_t) (mark - rest.data);
		request->query = (Slice) {mark + 1, rest.len - request->path.len - 1};
	}
	return true;
}

/* Keeps the headers that mean something here. */
static int
parse_header(Slice name, Slice value, HttpRequest *request)
{
	switch (name.len)
	{
		case 6:
			if (slice_is_nocase(name, "Expect"))
				request->expect_continue = slice_is_nocase(value, "100-continue");
			break;
		case 10:
			if (slice_is_nocase(name, "Connection"))
			{
				if (list_has(value, "close"))
					request->keep_alive = false;
				else if (list_has(value, "keep-alive"))
					request->keep_alive = true;
			}
			break;
		case 11:
			if (slice_is_nocase(name, "X-Operation"))
				return keep_once(&request->operation, value);
			break;
		case 13:
			if (slice_is_nocase(name, "Authorization"))
				return keep_once(&request->auth, value);
			break;
		case 14:
			if (slice_is_nocase(name, "Content-Length"))
			{
				if (request->content_length >= 0 ||
					!slice_to_int(value, &request->content_length) || request->content_length < 0)
					return 400;
			}
			break;
		case 15:
			if (slice_is_nocase(name, "Idempotency-Key"))
				return keep_once(&request->key, value);
			break;
		case 17:
			if (slice_is_nocase(name, "Transfer-Encoding"))
			{
				if (request->chunked || !slice_is_nocase(value, "chunked"))
					return 501;
				request->chunked = true;
			}
			break;
		case 19:
			if (slice_is_nocase(name, "Actionledger-Action"))
				return keep_once(&request->action, value);
			break;
		case 20:
			if (slice_is_nocase(name, "Actionledger-Attempt"))
				return keep_once(&request->attempt, value);
			break;
		default:
			break;
	}
	return 0;
}

/* Keeps a header that must not come twice. */
static int
keep_once(Slice *field, Slice value)
{
	if (field->data != NULL)
		return 400;
	*field = value;
	return 0;
}

/* Takes the next header line off the rest. */
static bool
next_header(Slice *rest, Slice *name, Slice *value)
{
	const char *end = memmem(rest->data, rest->len, "\r\n", 2);
	size_t		len = end != NULL ? (size_t) (end - rest->data) : rest->len;
	const char *colon = memchr(rest->data, ':', len);

	if (colon == NULL)
		return false;
	*name = (Slice) {rest->data, (size_t) (colon - rest->data)};
	*value = trim((Slice) {colon + 1, len - name->len - 1});
	len += end != NULL ? 2 : 0;
	rest->data += len;
	rest->len -= len;
	return true;
}

/* Tells whether a comma-separated header value has a token. */
static bool
list_has(Slice list, const char *token)
{
	while (list.data != NULL)
	{
		const char *comma = memchr(list.data, ',', list.len);
		size_t		len = comma != NULL ? (size_t) (comma - list.data) : list.len;

		if (slice_is_nocase(trim((Slice) {list.data, len}), token))
			return true;
		if (comma == NULL)
			break;
		list.data += len + 1;
		list.len -= len + 1;
	}
	return false;
}

/* Tells whether the text is a token of RFC 9110, section 5.6.2. */
static bool
is_token(Slice text)
{
	for (size_t i = 0; i < text.len; i++)
	{
		unsigned char c = (unsigned char) text.data[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
			return false;
	}
	return text.len > 0;
}

/* Takes white space off both ends. */
static Slice
trim(Slice text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
	{
		text.data++;
		text.len--;
	}
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}
