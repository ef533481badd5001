/*
 * secrets.c
 *		Secrets from files and from the write-only table.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "catalog/pg_type.h"
#include "common/base64.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/fd.h"
#include "utils/builtins.h"

#include "authority.h"
#include "secrets.h"
#include "session.h"
#include "settings.h"
#include "wakeup.h"

PG_FUNCTION_INFO_V1(al_set_secret);

static AlStatement select_secret = {
	"SELECT s.value FROM actionledger.secret s WHERE s.name = $1", 1, {TEXTOID}
};
static AlStatement upsert_secret = {
	"INSERT INTO actionledger.secret (name, value, set_by) VALUES ($1, $2, $3) "
	"ON CONFLICT (name) DO UPDATE SET value = excluded.value, set_by = excluded.set_by, set_at = now()",
	3, {TEXTOID, TEXTOID, TEXTOID}
};
static AlStatement delete_secret = {
	"DELETE FROM actionledger.secret s WHERE s.name = $1", 1, {TEXTOID}
};

/* A secret that this turn has looked up; an empty value stands for none. */
typedef struct Secret
{
	char	   *name;
	char		value[AL_SECRET_MAX + 1];
} Secret;

static List *known = NIL;		/* of Secret *, in the turn's memory */

static bool expand(StringInfo out, const char *text, size_t len, List **held, char **missing);
static bool read_file(Secret *secret);
static void read_row(Secret *secret);
static void settle(Secret *secret, ssize_t n);
static bool append_secret(StringInfo out, const char *name, size_t len, List **held, char **missing);
static bool append_basic(StringInfo out, const char *text, size_t len, List **held, char **missing);
static const char *basic_end(const char *text);
static const char *user_end(const char *text, size_t len);
static void check_secret(const char *name, const char *value);

/* Resolves the references of a header line. */
char *
al_secrets_resolve(const char *line, List **held, char **missing)
{
	StringInfoData out;

	initStringInfo(&out);
	if (expand(&out, line, strlen(line), held, missing))
		return out.data;
	al_secrets_forget(out.data);
	return NULL;
}

/* Overwrites and frees a text. */
void
al_secrets_forget(char *text)
{
	if (text == NULL)
		return;
	explicit_bzero(text, strlen(text));
	pfree(text);
}

/* Copies text, replacing references on the way. */
static bool
expand(StringInfo out, const char *text, size_t len, List **held, char **missing)
{
	const char *end = text + len;

	while (text < end)
	{
		const char *close = memchr(text, '{', end - text);
		size_t		plain = (close ? close : end) - text;

		appendBinaryStringInfo(out, text, (int) plain);
		text += plain;
		if (text == end)
			break;
		if (end - text > 8 && strncmp(text, "{secret:", 8) == 0 &&
			(close = memchr(text, '}', end - text)) != NULL)
		{
			if (!append_secret(out, text + 8, close - text - 8, held, missing))
				return false;
			text = close + 1;
		}
		else if (end - text > 7 && strncmp(text, "{basic:", 7) == 0 &&
				 (close = basic_end(text)) != NULL && close < end)
		{
			if (!append_basic(out, text + 7, close - text - 7, held, missing))
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

/* Appends a secret. */
static bool
append_secret(StringInfo out, const char *name, size_t len, List **held, char **missing)
{
	ListCell   *cell;
	Secret	   *secret;

	*missing = pnstrdup(name, len);
	foreach(cell, known)
	{
		secret = lfirst(cell);
		if (strcmp(secret->name, *missing) == 0)
			break;
	}
	if (cell == NULL)
	{
		secret = palloc0(sizeof(Secret));
		secret->name = *missing;
		if (!read_file(secret))
			read_row(secret);
		known = lappend(known, secret);
	}
	if (secret->value[0] == '\0')
		return false;
	appendStringInfoString(out, secret->value);
	*held = lappend(*held, pstrdup(secret->value));
	return true;
}

/* Reads a secret from its file. */
static bool
read_file(Secret *secret)
{
	char		path[MAXPGPATH];
	int			fd;
	ssize_t		n;

	if (al_secret_directory == NULL || al_secret_directory[0] == '\0' ||
		secret->name[0] == '\0' || secret->name[0] == '.' || strchr(secret->name, '/') != NULL)
		return false;
	snprintf(path, sizeof(path), "%s/%s", al_secret_directory, secret->name);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
		return false;
	n = read(fd, secret->value, sizeof(secret->value));
	CloseTransientFile(fd);
	settle(secret, n);
	return true;
}

/* Reads a secret from its row. */
static void
read_row(Secret *secret)
{
	Datum		value = CStringGetTextDatum(secret->name);
	char	   *text;

	if (al_statement_run(&select_secret, &value, NULL) == 0)
		return;
	text = al_column_text(0, 1);
	settle(secret, (ssize_t) strlcpy(secret->value, text, sizeof(secret->value)));
	al_secrets_forget(text);
}

/* Cuts the line ending off a secret of n bytes, and empties one that no header can hold. */
static void
settle(Secret *secret, ssize_t n)
{
	if (n > AL_SECRET_MAX)
		n = 0;
	while (n > 0 && (secret->value[n - 1] == '\n' || secret->value[n - 1] == '\r'))
		n--;
	for (ssize_t i = 0; i < n; i++)
	{
		if ((unsigned char) secret->value[i] < 0x20 || (unsigned char) secret->value[i] > 0x7e)
			n = 0;
	}
	explicit_bzero(secret->value + Max(n, 0), sizeof(secret->value) - Max(n, 0));
}

/* Forgets what the last turn has read. */
void
al_secrets_begin_turn(void)
{
	known = NIL;
}

/* set_secret(name, value) */
Datum
al_set_secret(PG_FUNCTION_ARGS)
{
	char	   *who = al_role_name(GetUserId());
	AlSession	session;
	Datum		values[3];
	uint64		n;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a secret needs a name"),
				 errdetail("The name is null."),
				 errhint("Use the name that stands in {secret:name}.")));
	values[0] = PG_GETARG_DATUM(0);
	values[1] = PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1);
	values[2] = CStringGetTextDatum(who);
	check_secret(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)));
	al_session_begin(&session, true);
	n = al_statement_run(PG_ARGISNULL(1) ? &delete_secret : &upsert_secret, values, NULL);
	al_session_end(&session);
	al_wakeup_at_commit(DT_NOEND);
	PG_RETURN_TEXT_P(cstring_to_text(!PG_ARGISNULL(1) ? "set" : n > 0 ? "removed" : "there was no such secret"));
}

/*
 * Refuses a name that no reference can spell and a value that no header can
 * hold; value is NULL to remove.  The table's own constraints would tell the
 * value in their message.
 */
static void
check_secret(const char *name, const char *value)
{
	size_t		len = value != NULL ? strlen(value) : 1;

	if (name[0] == '\0' || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != strlen(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid name of a secret"),
				 errdetail("A name has letters, digits, and the characters _ . -, and at least one of them."),
				 errhint("Use the name that stands in {secret:name}.")));
	while (len > 0 && value != NULL && (value[len - 1] == '\n' || value[len - 1] == '\r'))
		len--;
	for (size_t i = 0; value != NULL && i < len; i++)
	{
		if ((unsigned char) value[i] < 0x20 || (unsigned char) value[i] > 0x7e)
			len = 0;
	}
	if (len == 0 || len > AL_SECRET_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value of secret \"%s\"", name),
				 errdetail("A secret is one line of 1 to %d characters of printable ASCII.", AL_SECRET_MAX),
				 errhint("Pass NULL to remove a secret.")));
}

/* Appends user:password in base64 (RFC 7617); a user that holds a colon would mean another one. */
static bool
append_basic(StringInfo out, const char *text, size_t len, List **held, char **missing)
{
	StringInfoData plain;
	const char *colon = user_end(text, len);
	bool		resolved;

	initStringInfo(&plain);
	resolved = colon != NULL && expand(&plain, text, colon - text, held, missing);
	if (resolved && strchr(plain.data, ':') != NULL)
		resolved = false;
	resolved = resolved && expand(&plain, colon, len - (colon - text), held, missing);
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
			*held = lappend(*held, pnstrdup(out->data + out->len, n));
			out->len += n;
			out->data[out->len] = '\0';
		}
	}
	al_secrets_forget(plain.data);
	return resolved;
}
