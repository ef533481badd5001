/*
 * check.c
 *		What libcurl is never given.
 */
#include <string.h>
#include <strings.h>

#include "check.h"

#define METHOD_MAX 32

/*
 * Headers that belong to the connection or to the framing of the message (RFC
 * 9110 section 7.6.1, RFC 9112 section 6): libcurl writes them or nobody does.
 */
static const char *const reserved_headers[] = {
	"connection", "content-length", "expect", "http2-settings", "keep-alive",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
	"upgrade", NULL
};

static const char *check_method(const AlWireRequest *request);
static const char *check_url(const char *url, bool allow_http);
static const char *check_header(const char *line);
static bool is_token(const char *text, size_t len);

/* Says what is wrong with a request, or NULL. */
const char *
al_check_request(const AlWireRequest *request)
{
	const char *reason = check_method(request);

	if (reason == NULL)
		reason = check_url(request->url, request->allow_http);
	for (int i = 0; reason == NULL && i < request->n_headers; i++)
		reason = check_header(request->headers[i]);
	if (reason == NULL && (request->timeout_ms <= 0 || request->connect_timeout_ms <= 0))
		reason = "time limit is not positive";
	if (reason == NULL && request->max_body == 0)
		reason = "response body limit is not positive";
	return reason;
}

/* Looks for a header by name. */
bool
al_check_has_header(const AlWireRequest *request, const char *name)
{
	size_t		len = strlen(name);

	for (int i = 0; i < request->n_headers; i++)
	{
		if (strncasecmp(request->headers[i], name, len) == 0 && request->headers[i][len] == ':')
			return true;
	}
	return false;
}

/* Says what is wrong with the method, or NULL. */
static const char *
check_method(const AlWireRequest *request)
{
	const char *method = request->method;
	size_t		len;

	if (method == NULL)
		return "method is missing";
	len = strlen(method);
	if (len > METHOD_MAX || !is_token(method, len))
		return "method is not a token";
	for (size_t i = 0; i < len; i++)
	{
		if (method[i] >= 'a' && method[i] <= 'z')
			return "method is not in upper case";
	}
	if (strcmp(method, "CONNECT") == 0)
		return "method CONNECT is not allowed";
	if (request->body == NULL && request->body_len > 0)
		return "request body is missing";
	if (strcmp(method, "HEAD") == 0 && request->body_len > 0)
		return "method HEAD takes no body";
	return NULL;
}

/* Says what is wrong with the URL, or NULL; the rest is libcurl's to judge. */
static const char *
check_url(const char *url, bool allow_http)
{
	const char *authority;
	size_t		len;

	if (url == NULL)
		return "URL is missing";
	for (const char *p = url; *p; p++)
	{
		if (*p <= ' ' || *p > '~')
			return "URL contains a character that must be percent-encoded";
	}

	if (strncasecmp(url, "https://", 8) == 0)
		authority = url + 8;
	else if (strncasecmp(url, "http://", 7) == 0)
	{
		if (!allow_http)
			return "plain http is not allowed";
		authority = url + 7;
	}
	else
		return "URL is not an absolute http or https URL";

	len = strcspn(authority, "/?#");
	if (len == 0)
		return "URL has no host";
	if (memchr(authority, '@', len) != NULL || memchr(authority, '\\', len) != NULL)
		return "URL has user information or a backslash before the path";
	return NULL;
}

/* Says what is wrong with a header line, or NULL. */
static const char *
check_header(const char *line)
{
	const char *colon = line ? strchr(line, ':') : NULL;
	bool		blank = true;
	size_t		len;

	if (colon == NULL)
		return "header has no colon";
	len = (size_t) (colon - line);
	if (!is_token(line, len))
		return "header name is not a token";

	for (const unsigned char *p = (const unsigned char *) colon + 1; *p; p++)
	{
		if (*p < ' ' || *p == 0x7f)
			return "header value contains a control character";
		if (*p != ' ')
			blank = false;
	}
	if (blank)
		return "header value is empty";

	for (int i = 0; reserved_headers[i]; i++)
	{
		if (strlen(reserved_headers[i]) == len && strncasecmp(line, reserved_headers[i], len) == 0)
			return "header belongs to the connection and cannot be set";
	}
	return NULL;
}

/* Tells whether text is an RFC 9110 token (section 5.6.2). */
static bool
is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		char		c = text[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			  (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL)))
			return false;
	}
	return len > 0;
}
