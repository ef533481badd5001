/*
 * secrets.c
 *		Secrets from files.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/base64.h"
#include "lib/stringinfo.h"
#include "storage/fd.h"

#include "secrets.h"
#include "settings.h"

static bool expand(StringInfo out, const char *text, size_t len, char **missing);
static bool append_secret(StringInfo out, const char *name, size_t len, char **missing);
static bool append_basic(StringInfo out, const char *text, size_t len, char **missing);
static const char *basic_end(const char *text);
static const char *user_end(const char *text, size_t len);

/* Resolves the references of a header line. */
char *
al_secrets_resolve(const char *line, char **missing)
{
	StringInfoData out;

	initStringInfo(&out);
	if (expand(&out, line, strlen(line), missing))
		return out.data;
	al_secrets_forget(out.data);
	return NULL;
}

/* Overwrites and frees a line. */
void
al_secrets_forget(char *line)
{
	if (line == NULL)
		return;
	explicit_bzero(line, strlen(line));
	pfree(line);
}

/* Copies text, replacing references on the way. */
static bool
expand(StringInfo out, const char *text, size_t len, char **missing)
{
	const char *end = text + len;

	while (text < end)
	{
		const char *close;

		if (end - text > 8 && strncmp(text, "{secret:", 8) == 0 &&
			(close = memchr(text, '}', end - text)) != NULL)
		{
			if (!append_secret(out, text + 8, close - text - 8, missing))
				return false;
			text = close + 1;
		}
		else if (end - text > 7 && strncmp(text, "{basic:", 7) == 0 &&
				 (close = basic_end(text)) != NULL && close < end)
		{
			if (!append_basic(out, text + 7, close - text - 7, missing))
				return false;
			text = close + 1;
		}
		else
			appendStringInfoChar(out, *text++);
	}
	return true;
}

/* Finds the brace that closes a {basic:…}, which may hold {secret:…}. */
static const char *
basic_end(const char *text)
{
	int			depth = 0;

	for (; *text; text++)
	{
		if (*text == '{')
			depth++;
		else if (*text == '}' && --depth == 0)
			return text;
	}
	return NULL;
}

/* Finds the colon outside of any reference that parts user and password. */
static const char *
user_end(const char *text, size_t len)
{
	int			depth = 0;

	for (size_t i = 0; i < len; i++)
	{
		if (text[i] == '{')
			depth++;
		else if (text[i] == '}')
			depth--;
		else if (text[i] == ':' && depth == 0)
			return text + i;
	}
	return NULL;
}

/* Appends the content of a secret's file. */
static bool
append_secret(StringInfo out, const char *name, size_t len, char **missing)
{
	char		path[MAXPGPATH];
	char		content[AL_SECRET_MAX + 1];
	int			fd;
	ssize_t		n;

	*missing = pnstrdup(name, len);
	if (al_secret_directory == NULL || al_secret_directory[0] == '\0' ||
		len == 0 || (*missing)[0] == '.' || strchr(*missing, '/') != NULL)
		return false;
	snprintf(path, sizeof(path), "%s/%s", al_secret_directory, *missing);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
		return false;
	n = read(fd, content, sizeof(content));
	CloseTransientFile(fd);
	if (n > 0 && n <= AL_SECRET_MAX)
	{
		while (n > 0 && (content[n - 1] == '\n' || content[n - 1] == '\r'))
			n--;
		for (ssize_t i = 0; i < n; i++)
		{
			if ((unsigned char) content[i] < 0x20 || (unsigned char) content[i] > 0x7e)
				n = -1;
		}
		if (n > 0)
			appendBinaryStringInfo(out, content, (int) n);
	}
	else
		n = -1;
	explicit_bzero(content, sizeof(content));
	return n > 0;
}

/* Appends user:password in base64 (RFC 7617); a user that holds a colon would mean another one. */
static bool
append_basic(StringInfo out, const char *text, size_t len, char **missing)
{
	StringInfoData plain;
	const char *colon = user_end(text, len);
	bool		resolved;

	initStringInfo(&plain);
	resolved = colon != NULL && expand(&plain, text, colon - text, missing);
	if (resolved && strchr(plain.data, ':') != NULL)
		resolved = false;
	resolved = resolved && expand(&plain, colon, len - (colon - text), missing);
	if (resolved)
	{
		int			room = pg_b64_enc_len(plain.len) + 1;
		int			n;

		enlargeStringInfo(out, room);
#if PG_VERSION_NUM >= 180000
		n = pg_b64_encode((const uint8 *) plain.data, plain.len, out->data + out->len, room);
#else
		n = pg_b64_encode(plain.data, plain.len, out->data + out->len, room);
#endif
		resolved = n >= 0;
		if (resolved)
		{
			out->len += n;
			out->data[out->len] = '\0';
		}
	}
	al_secrets_forget(plain.data);
	return resolved;
}
