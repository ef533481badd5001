/*
 * definition_service.c
 *		Reading and checking a service: base URL, credentials, headers, limits, TLS.
 */
#include "postgres.h"

#include <arpa/inet.h>

#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "rules/text_template.h"
#include "rules/uri_template.h"

#include "definition_internal.h"

#define DEFAULT_IN_FLIGHT 100
#define MAX_IN_FLIGHT 10000
#define MAX_QUEUED 100000000
#define DEFAULT_BREAKER_FAILURES 5
#define DEFAULT_BREAKER_COOLDOWN_MS AL_MINUTE_MS
#define MAX_BASE_URL 2048

/* The options that are not fields of a service as they stand. */
typedef struct ServiceOptions
{
	AlServiceDef *service;
	List	   *headers;		/* lines of "auth" and "headers" */
	int			in_flight;
	int			queued;
	double		rate_per_second;
	int			breaker_failures;
	int64		breaker_cooldown_ms;
	bool		allow_private;
	char	   *ca_file;
	char	   *client_cert;
	char	   *client_key;
	bool		tls;
	bool		idempotency;
} ServiceOptions;

static void read_auth(AlPlace place, const JsonbValue *value, void *target);
static void read_bearer(AlPlace place, const JsonbValue *value, void *target);
static void read_basic(AlPlace place, const JsonbValue *value, void *target);
static void read_auth_header(AlPlace place, const JsonbValue *value, void *target);
static void read_headers(AlPlace place, const JsonbValue *value, void *target);
static void read_idempotency(AlPlace place, const JsonbValue *value, void *target);
static void read_limits(AlPlace place, const JsonbValue *value, void *target);
static void read_rate(AlPlace place, const JsonbValue *value, void *target);
static void read_breaker(AlPlace place, const JsonbValue *value, void *target);
static void read_tls(AlPlace place, const JsonbValue *value, void *target);

static const AlOption SERVICE_OPTIONS[] = {
	AL_OPTION_READ_BY("auth", read_auth),
	AL_OPTION_READ_BY("headers", read_headers),
	AL_OPTION_READ_BY("idempotency", read_idempotency),
	AL_OPTION_READ_BY("limits", read_limits),
	AL_OPTION_READ_BY("breaker", read_breaker),
	AL_OPTION_READ_BY("tls", read_tls),
	AL_OPTION_BOOL_AT("allow_private", ServiceOptions, allow_private),
	AL_OPTION_NOT_YET("dry_run"),
	AL_OPTION_NOT_YET("http2"),
	AL_OPTION_NOT_YET("proxy"),
	AL_OPTION_NOT_YET("signing"),
	AL_OPTION_END
};

static const AlOption AUTH_OPTIONS[] = {
	AL_OPTION_READ_BY("bearer", read_bearer),
	AL_OPTION_READ_BY("basic", read_basic),
	AL_OPTION_READ_BY("header", read_auth_header),
	AL_OPTION_END
};

static const AlOption LIMIT_OPTIONS[] = {
	AL_OPTION_INT_AT("in_flight", ServiceOptions, in_flight, 1, MAX_IN_FLIGHT),
	AL_OPTION_READ_BY("rate_per_second", read_rate),
	AL_OPTION_INT_AT("queued", ServiceOptions, queued, 1, MAX_QUEUED),
	AL_OPTION_END
};

static const AlOption BREAKER_OPTIONS[] = {
	AL_OPTION_INT_AT("failures", ServiceOptions, breaker_failures, 1, 1000),
	AL_OPTION_DURATION_AT("cooldown", ServiceOptions, breaker_cooldown_ms, 100, AL_DAY_MS),
	AL_OPTION_END
};

static const AlOption TLS_OPTIONS[] = {
	AL_OPTION_TEXT_AT("ca_file", ServiceOptions, ca_file),
	AL_OPTION_TEXT_AT("client_cert", ServiceOptions, client_cert),
	AL_OPTION_TEXT_AT("client_key", ServiceOptions, client_key),
	AL_OPTION_END
};

static void check_tls(AlPlace place, const ServiceOptions *options);
static void check_path(AlPlace place, const char *path);
static void read_base_url(AlPlace place, const char *base_url, AlServiceDef *service);
static char *read_host(AlPlace place, const char *authority, size_t len, size_t *host_len);
static int	read_port(AlPlace place, const char *port, size_t len, int otherwise);
static void check_reg_name(AlPlace place, const char *host);
static void check_base_path(AlPlace place, const char *path);

AlServiceDef *
al_service_parse(const char *name, const char *base_url, Jsonb *options)
{
	AlServiceDef *service = palloc0(sizeof(AlServiceDef));
	ServiceOptions read;
	AlPlace		place = {"service", name, ""};
	JsonbValue	root = al_option_root(options);

	al_definition_check_name(place);
	read_base_url(al_place_member(place, "base_url"), base_url, service);

	memset(&read, 0, sizeof(read));
	read.service = service;
	read.in_flight = DEFAULT_IN_FLIGHT;
	read.breaker_failures = DEFAULT_BREAKER_FAILURES;
	read.breaker_cooldown_ms = DEFAULT_BREAKER_COOLDOWN_MS;
	al_option_read(place, &root, SERVICE_OPTIONS, &read);
	if (!read.idempotency)
		al_definition_idempotency_default(&service->idempotency);
	check_tls(al_place_member(place, "tls"), &read);

	service->headers = read.headers;
	al_definition_check_key_header(place, service->headers, &service->idempotency);
	service->in_flight = read.in_flight;
	service->rate_per_second = read.rate_per_second;
	service->queued = read.queued;
	service->breaker_failures = read.breaker_failures;
	service->breaker_cooldown_ms = read.breaker_cooldown_ms;
	service->allow_private = read.allow_private;
	service->ca_file = read.ca_file;
	service->client_cert = read.client_cert;
	service->client_key = read.client_key;
	return service;
}

/* Exactly one way to authenticate. */
static void
read_auth(AlPlace place, const JsonbValue *value, void *target)
{
	if (al_option_is_object(value) && JsonContainerSize(value->val.binary.data) != 1)
		al_definition_error(place, NULL, "exactly one of \"bearer\", \"basic\" and \"header\" belongs here");
	al_option_read(place, value, AUTH_OPTIONS, target);
}

static void
read_bearer(AlPlace place, const JsonbValue *value, void *target)
{
	ServiceOptions *options = target;
	char	   *text = al_option_text(place, value);

	al_definition_header(place, "Authorization", psprintf("Bearer %s", text), false, &options->headers);
	al_definition_check_reference(place, text);
}

/*
 * The two parts cannot be encoded while they hold references to secrets, so the
 * line keeps the marker that definition.h describes.
 */
static void
read_basic(AlPlace place, const JsonbValue *value, void *target)
{
	ServiceOptions *options = target;
	char	   *parts[2];
	const char *cursor;
	const char *end;
	AlTextPiece piece;

	if (!al_option_is_array(value) || JsonContainerSize(value->val.binary.data) != 2)
		al_definition_error(place, "Write [\"user\", \"{secret:name}\"].",
							"an array of a user and a password belongs here");
	for (int i = 0; i < 2; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(value->val.binary.data, i);
		AlPlace		here = al_place_element(place, i);

		/* a password, or a user of a token service, may be empty */
		parts[i] = element->type == jbvString && element->val.string.len == 0 ? pstrdup("") :
			al_option_text(here, element);
		al_definition_check_value(here, parts[i], false);
	}
	cursor = parts[0];
	end = cursor + strlen(cursor);
	while ((piece = al_text_next(&cursor, end)).kind != AL_TEXT_END)
	{
		if (piece.kind == AL_TEXT_LITERAL && memchr(piece.text, ':', piece.len) != NULL)
			al_definition_error(al_place_element(place, 0), NULL, "a user cannot have a colon (RFC 7617)");
	}
	al_definition_check_reference(place, psprintf("%s %s", parts[0], parts[1]));
	al_definition_add_header(place, "Authorization", psprintf("Basic {basic:%s:%s}", parts[0], parts[1]),
							 &options->headers);
}

static void
read_auth_header(AlPlace place, const JsonbValue *value, void *target)
{
	ServiceOptions *options = target;

	if (!al_option_is_object(value) || JsonContainerSize(value->val.binary.data) != 1)
		al_definition_error(place, "Write {\"Name\": \"{secret:name}\"}.",
							"an object of exactly one header belongs here");
	al_definition_headers(place, value, false, &options->headers);
	al_definition_check_reference(place, llast(options->headers));
}

static void
read_headers(AlPlace place, const JsonbValue *value, void *target)
{
	al_definition_headers(place, value, false, &((ServiceOptions *) target)->headers);
}

static void
read_idempotency(AlPlace place, const JsonbValue *value, void *target)
{
	ServiceOptions *options = target;

	options->idempotency = true;
	al_definition_idempotency(place, value, &options->service->idempotency);
}

static void
read_limits(AlPlace place, const JsonbValue *value, void *target)
{
	al_option_read(place, value, LIMIT_OPTIONS, target);
}

/* Requests begun a second, at most; fractions for less than one. */
static void
read_rate(AlPlace place, const JsonbValue *value, void *target)
{
	double		rate = 0;

	if (value->type == jbvNumeric)
		rate = DatumGetFloat8(DirectFunctionCall1(numeric_float8, NumericGetDatum(value->val.numeric)));
	if (!(rate >= 0.001 && rate <= 1000000))
		al_definition_error(place, "Write the requests a second, such as 25, or 0.5 for one every two seconds.",
							"a number between 0.001 and 1000000 belongs here");
	((ServiceOptions *) target)->rate_per_second = rate;
}

static void
read_breaker(AlPlace place, const JsonbValue *value, void *target)
{
	al_option_read(place, value, BREAKER_OPTIONS, target);
}

static void
read_tls(AlPlace place, const JsonbValue *value, void *target)
{
	((ServiceOptions *) target)->tls = true;
	al_option_read(place, value, TLS_OPTIONS, target);
}

static void
check_tls(AlPlace place, const ServiceOptions *options)
{
	if (!options->tls)
		return;
	if (options->service->plain_http)
		al_definition_error(place, "Use https in base_url, or leave tls out.",
							"a service over plain http has no TLS");
	check_path(al_place_member(place, "ca_file"), options->ca_file);
	check_path(al_place_member(place, "client_cert"), options->client_cert);
	check_path(al_place_member(place, "client_key"), options->client_key);
	if (options->client_key != NULL && options->client_cert == NULL)
		al_definition_error(al_place_member(place, "client_key"), NULL,
							"a key without \"client_cert\" is of no use");
}

static void
check_path(AlPlace place, const char *path)
{
	if (path == NULL)
		return;
	if (!is_absolute_path(path))
		al_definition_error(place, "Write an absolute path on the server.", "this is no absolute path");
	for (const char *c = path; *c != '\0'; c++)
	{
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			al_definition_error(place, NULL, "the path has a control character");
	}
}

/* Take a base URL apart and put it together again in one spelling. */
static void
read_base_url(AlPlace place, const char *base_url, AlServiceDef *service)
{
	const char *hint = "Write an absolute URL, such as https://api.example.com/v1.";
	const char *authority;
	size_t		authority_len;
	size_t		host_len;
	char	   *host;
	char	   *path;
	int			port;
	int			usual;

	if (strlen(base_url) > MAX_BASE_URL)
		al_definition_error(place, hint, "the URL is longer than %d bytes", MAX_BASE_URL);
	for (const char *c = base_url; *c != '\0'; c++)
	{
		if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f || *c == '\\')
			al_definition_error(place, "Percent-encode such characters; write host names in their ASCII form.",
								"the URL has a space, a backslash, a control or a non-ASCII character");
	}
	service->plain_http = pg_strncasecmp(base_url, "http://", 7) == 0;
	if (!service->plain_http && pg_strncasecmp(base_url, "https://", 8) != 0)
		al_definition_error(place, hint, "the URL does not begin with https:// or http://");
	if (strpbrk(base_url, "?#") != NULL)
		al_definition_error(place, "Put a query into the requests of the tools.",
							"a base URL has neither query nor fragment");

	authority = base_url + (service->plain_http ? 7 : 8);
	authority_len = strcspn(authority, "/");
	if (memchr(authority, '@', authority_len) != NULL)
		al_definition_error(place, "Put credentials into the option auth.", "the URL has credentials in it");
	host = read_host(place, authority, authority_len, &host_len);
	usual = service->plain_http ? 80 : 443;
	port = read_port(place, authority + host_len, authority_len - host_len, usual);

	path = pstrdup(authority + authority_len);
	check_base_path(place, path);
	for (size_t len = strlen(path); len > 0 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';

	service->origin = psprintf("%s://%s:%d", service->plain_http ? "http" : "https", host, port);
	service->base_url = port == usual ?
		psprintf("%s://%s%s", service->plain_http ? "http" : "https", host, path) :
		psprintf("%s%s", service->origin, path);
}

/* The host of an authority in lower case; *host_len is its length there. */
static char *
read_host(AlPlace place, const char *authority, size_t len, size_t *host_len)
{
	char	   *host;

	if (len > 0 && authority[0] == '[')
	{
		const char *bracket = memchr(authority, ']', len);
		struct in6_addr address;

		if (bracket == NULL ||
			inet_pton(AF_INET6, pnstrdup(authority + 1, bracket - authority - 1), &address) != 1)
			al_definition_error(place, NULL, "the brackets do not hold an IPv6 address");
		*host_len = bracket - authority + 1;
	}
	else
	{
		const char *colon = len > 0 ? memchr(authority, ':', len) : NULL;

		*host_len = colon != NULL ? colon - authority : len;
	}
	host = pnstrdup(authority, *host_len);
	for (char *c = host; *c != '\0'; c++)
		*c = pg_ascii_tolower((unsigned char) *c);
	if (host[0] != '[')
		check_reg_name(place, host);
	return host;
}

/* The port of ":443", or the scheme's own when there is none. */
static int
read_port(AlPlace place, const char *port, size_t len, int otherwise)
{
	int			n = 0;

	if (len == 0)
		return otherwise;
	if (port[0] != ':' || len < 2 || len > 6)
		al_definition_error(place, NULL, "what follows the host is no port");
	for (size_t i = 1; i < len; i++)
	{
		if (port[i] < '0' || port[i] > '9')
			al_definition_error(place, NULL, "the port is not a number");
		n = n * 10 + (port[i] - '0');
	}
	if (n < 1 || n > 65535)
		al_definition_error(place, NULL, "the port is not from 1 to 65535");
	return n;
}

/* Labels of letters, digits, - and _ with single dots between. */
static void
check_reg_name(AlPlace place, const char *host)
{
	size_t		len = strlen(host);

	if (len == 0)
		al_definition_error(place, NULL, "the URL has no host");
	if (host[0] == '.' || host[len - 1] == '.' || strstr(host, "..") != NULL)
		al_definition_error(place, NULL, "the host has an empty label");
	if (strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != len)
		al_definition_error(place, "Write host names in their ASCII form (xn--).",
							"the host has a character that no host name has");
}

/* A literal path by the grammar of URI templates, without expressions. */
static void
check_base_path(AlPlace place, const char *path)
{
	size_t		at;

	if (strchr(path, '{') != NULL ||
		al_uri_variables(path, strlen(path), NULL, NULL, &at) != AL_URI_OK)
		al_definition_error(place, "Percent-encode it.", "the path has a character that no URL has");
	if (al_uri_has_dot_segment(path, strlen(path)))
		al_definition_error(place, NULL, "the path has a segment \".\" or \"..\"");
}
