/*
 * canonical.c
 *		Canonical JSON (RFC 8785), its hash, and the names made from it.
 *
 * Two requests are the same when their canonical bytes are, so the text may
 * depend on nothing but the value: not on the server encoding, the locale, or
 * how a number was written.  Numbers are never rounded: the digits written are
 * always those of the numeric, and a double only decides the layout.
 */
#include "postgres.h"

#include <math.h>

#include "canonical.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "common/sha2.h"
#include "common/shortest_dec.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* What numeric_send() writes: base 10000, sign 0x4000 for negative, 0xC000 and up for no number. */
#define NUMERIC_BASE_DIGITS 4
#define NUMERIC_NEGATIVE 0x4000
#define NUMERIC_SPECIAL 0xC000
#define NUMERIC_HEADER 8

/* Beyond the range of a double a number is written with an exponent whatever it is. */
#define PLAIN_LIMIT 310

/* A number as RFC 8785 has it: 0.DIGITS * 10^point, no zero at either end. */
typedef struct Decimal
{
	bool		negative;
	char	   *digits;			/* empty for zero */
	int			n_digits;
	int			point;
} Decimal;

/* A member of an object, its name in UTF-8. */
typedef struct Member
{
	const char *name;
	int			len;
	JsonbValue	value;
} Member;

static void append_container(StringInfo out, JsonbContainer *container);
static void append_object(StringInfo out, JsonbIterator **it, int n);
static void append_value(StringInfo out, const JsonbValue *value);
static void append_string(StringInfo out, const char *utf8, int len);
static void append_number(StringInfo out, Numeric number);
static void append_zeros(StringInfo out, int n);
static void read_decimal(Numeric number, Decimal *decimal);
static bool double_holds(Numeric number, const Decimal *decimal);
static int	compare_members(const void *a, const void *b);
static void digest(pg_cryptohash_type type, const void *a, size_t a_len,
				   const void *b, size_t b_len, uint8 *out, size_t out_len);

void
al_canonical_append(StringInfo out, Jsonb *value)
{
	append_container(out, &value->root);
}

void
al_canonical_append_value(StringInfo out, const JsonbValue *value)
{
	append_value(out, value);
}

void
al_canonical_hash(Jsonb *value, uint8 *out)
{
	StringInfoData text;

	initStringInfo(&text);
	al_canonical_append(&text, value);
	al_sha256(text.data, text.len, out);
	pfree(text.data);
}

void
al_sha256(const void *data, size_t len, uint8 *out)
{
	digest(PG_SHA256, data, len, NULL, 0, out, AL_HASH_LEN);
}

void
al_uuid5(const pg_uuid_t *namespace_id, const char *name, size_t len, pg_uuid_t *out)
{
	uint8		hash[SHA1_DIGEST_LENGTH];

	digest(PG_SHA1, namespace_id->data, UUID_LEN, name, len, hash, sizeof(hash));
	memcpy(out->data, hash, UUID_LEN);
	out->data[6] = (out->data[6] & 0x0f) | 0x50;
	out->data[8] = (out->data[8] & 0x3f) | 0x80;
}

char *
al_hex(const uint8 *data, size_t len)
{
	char	   *hex = palloc(len * 2 + 1);

	hex_encode((const char *) data, len, hex);
	hex[len * 2] = '\0';
	return hex;
}

const char *
al_utf8(const char *text, int len, int *utf8_len)
{
	char	   *utf8 = pg_server_to_any(text, len, PG_UTF8);

	/* without a conversion it is the same pointer, and need not end in NUL */
	*utf8_len = utf8 == text ? len : (int) strlen(utf8);
	return utf8;
}

/* Append an object, an array, or the scalar of a scalar document. */
static void
append_container(StringInfo out, JsonbContainer *container)
{
	JsonbIterator *it = JsonbIteratorInit(container);
	JsonbIteratorToken token;
	JsonbValue	value;
	bool		scalar;
	bool		first = true;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();

	token = JsonbIteratorNext(&it, &value, false);
	if (token == WJB_BEGIN_OBJECT)
	{
		append_object(out, &it, value.val.object.nPairs);
		return;
	}
	scalar = value.val.array.rawScalar;
	if (!scalar)
		appendStringInfoChar(out, '[');
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_ELEM)
	{
		if (!first)
			appendStringInfoChar(out, ',');
		first = false;
		append_value(out, &value);
	}
	if (!scalar)
		appendStringInfoChar(out, ']');
}

/* Append the members of an object, whose beginning the iterator has passed. */
static void
append_object(StringInfo out, JsonbIterator **it, int n)
{
	Member	   *members = palloc_extended(sizeof(Member) * Max(n, 1), MCXT_ALLOC_HUGE);
	JsonbValue	name;
	int			i = 0;

	while (JsonbIteratorNext(it, &name, true) == WJB_KEY)
	{
		members[i].name = al_utf8(name.val.string.val, name.val.string.len, &members[i].len);
		(void) JsonbIteratorNext(it, &members[i].value, true);
		i++;
	}
	Assert(i == n);
	qsort(members, i, sizeof(Member), compare_members);

	appendStringInfoChar(out, '{');
	for (i = 0; i < n; i++)
	{
		if (i > 0)
			appendStringInfoChar(out, ',');
		append_string(out, members[i].name, members[i].len);
		appendStringInfoChar(out, ':');
		append_value(out, &members[i].value);
	}
	appendStringInfoChar(out, '}');
	pfree(members);
}

static void
append_value(StringInfo out, const JsonbValue *value)
{
	const char *utf8;
	int			len;

	switch (value->type)
	{
		case jbvNull:
			appendStringInfoString(out, "null");
			break;
		case jbvBool:
			appendStringInfoString(out, value->val.boolean ? "true" : "false");
			break;
		case jbvNumeric:
			append_number(out, value->val.numeric);
			break;
		case jbvString:
			utf8 = al_utf8(value->val.string.val, value->val.string.len, &len);
			append_string(out, utf8, len);
			break;
		case jbvBinary:
			append_container(out, value->val.binary.data);
			break;
		default:
			elog(ERROR, "unexpected jsonb value type %d", (int) value->type);
	}
}

/* Append a string as RFC 8785 section 3.2.2.2 escapes it. */
static void
append_string(StringInfo out, const char *utf8, int len)
{
	int			done = 0;

	appendStringInfoChar(out, '"');
	for (int i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) utf8[i];
		const char *escape = NULL;

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		appendBinaryStringInfo(out, utf8 + done, i - done);
		done = i + 1;
		switch (c)
		{
			case '"':
				escape = "\\\"";
				break;
			case '\\':
				escape = "\\\\";
				break;
			case '\b':
				escape = "\\b";
				break;
			case '\t':
				escape = "\\t";
				break;
			case '\n':
				escape = "\\n";
				break;
			case '\f':
				escape = "\\f";
				break;
			case '\r':
				escape = "\\r";
				break;
		}
		if (escape != NULL)
			appendStringInfoString(out, escape);
		else
			appendStringInfo(out, "\\u%04x", c);
	}
	appendBinaryStringInfo(out, utf8 + done, len - done);
	appendStringInfoChar(out, '"');
}

/*
 * Append a number in the layout of ECMAScript's Number::toString, which RFC 8785
 * asks for.  What a double does not hold is laid out plainly: a reader with
 * integers of any size would read the form with an exponent as a float.
 */
static void
append_number(StringInfo out, Numeric number)
{
	Decimal		d;
	int			low = -6;
	int			high = 21;

	read_decimal(number, &d);
	if (d.n_digits == 0)
	{
		appendStringInfoChar(out, '0');
		pfree(d.digits);
		return;
	}
	if (!double_holds(number, &d))
	{
		/* only so far: a number of 8 bytes must not become 130 kB of zeros */
		low = -PLAIN_LIMIT;
		high = PLAIN_LIMIT;
	}
	if (d.negative)
		appendStringInfoChar(out, '-');
	if (d.n_digits <= d.point && d.point <= high)
	{
		appendBinaryStringInfo(out, d.digits, d.n_digits);
		append_zeros(out, d.point - d.n_digits);
	}
	else if (0 < d.point && d.point < d.n_digits)
	{
		appendBinaryStringInfo(out, d.digits, d.point);
		appendStringInfoChar(out, '.');
		appendBinaryStringInfo(out, d.digits + d.point, d.n_digits - d.point);
	}
	else if (low < d.point && d.point <= 0)
	{
		appendStringInfoString(out, "0.");
		append_zeros(out, -d.point);
		appendBinaryStringInfo(out, d.digits, d.n_digits);
	}
	else
	{
		appendStringInfoChar(out, d.digits[0]);
		if (d.n_digits > 1)
		{
			appendStringInfoChar(out, '.');
			appendBinaryStringInfo(out, d.digits + 1, d.n_digits - 1);
		}
		appendStringInfo(out, "e%+d", d.point - 1);
	}
	pfree(d.digits);
}

static void
append_zeros(StringInfo out, int n)
{
	enlargeStringInfo(out, n);
	memset(out->data + out->len, '0', n);
	out->len += n;
	out->data[out->len] = '\0';
}

/* Take a numeric apart, by its digits and without writing out its zeros. */
static void
read_decimal(Numeric number, Decimal *decimal)
{
	bytea	   *sent = DatumGetByteaPP(DirectFunctionCall1(numeric_send, NumericGetDatum(number)));
	uint16		header[4];
	const char *data = VARDATA_ANY(sent);
	int			skip = 0;
	int			n;

	memcpy(header, data, sizeof(header));
	n = pg_ntoh16(header[0]);
	if (pg_ntoh16(header[2]) >= NUMERIC_SPECIAL)
		elog(ERROR, "a JSON number is not finite");
	decimal->negative = pg_ntoh16(header[2]) == NUMERIC_NEGATIVE;
	decimal->point = ((int16) pg_ntoh16(header[1]) + 1) * NUMERIC_BASE_DIGITS;
	decimal->digits = palloc(n * NUMERIC_BASE_DIGITS + 1);
	for (int i = 0; i < n; i++)
	{
		uint16		group;

		memcpy(&group, data + NUMERIC_HEADER + i * sizeof(group), sizeof(group));
		group = pg_ntoh16(group);
		for (int j = NUMERIC_BASE_DIGITS - 1; j >= 0; j--, group /= 10)
			decimal->digits[i * NUMERIC_BASE_DIGITS + j] = '0' + group % 10;
	}
	n *= NUMERIC_BASE_DIGITS;
	while (n > 0 && decimal->digits[n - 1] == '0')
		n--;
	while (skip < n && decimal->digits[skip] == '0')
		skip++;
	decimal->n_digits = n - skip;
	decimal->point -= skip;
	memmove(decimal->digits, decimal->digits + skip, decimal->n_digits);
	decimal->digits[decimal->n_digits] = '\0';
	pfree(sent);
}

/* Whether the shortest text of the nearest double is this very number. */
static bool
double_holds(Numeric number, const Decimal *decimal)
{
	char		text[DOUBLE_SHORTEST_DECIMAL_LEN + 32];
	double		nearest;
	Datum		back;

	if (decimal->n_digits > 17 || abs(decimal->point) > 400)
		return false;
	/* any 15 digits survive in the range of normal doubles */
	if (decimal->n_digits <= 15 && abs(decimal->point) < 300)
		return true;
	snprintf(text, sizeof(text), "%s0.%se%d", decimal->negative ? "-" : "",
			 decimal->digits, decimal->point);
	nearest = strtod(text, NULL);
	if (isinf(nearest) || nearest == 0)
		return false;
	double_to_shortest_decimal_buf(nearest, text);
	back = DirectFunctionCall3(numeric_in, CStringGetDatum(text),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	return DatumGetBool(DirectFunctionCall2(numeric_eq, back, NumericGetDatum(number)));
}

/*
 * Order member names by UTF-16 code units (RFC 8785 section 3.2.3).  That is the
 * order of their UTF-8 bytes, except that characters beyond U+FFFF, written as
 * surrogates, come before U+E000 to U+FFFF.
 */
static int
compare_members(const void *a, const void *b)
{
	const Member *x = a;
	const Member *y = b;
	int			len = Min(x->len, y->len);

	for (int i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) x->name[i];
		unsigned char d = (unsigned char) y->name[i];

		if (c == d)
			continue;
		if (c >= 0xee && d >= 0xee && (c >= 0xf0) != (d >= 0xf0))
			return c >= 0xf0 ? -1 : 1;
		return c < d ? -1 : 1;
	}
	return x->len < y->len ? -1 : x->len > y->len;
}

/* Hash the concatenation of two runs of bytes. */
static void
digest(pg_cryptohash_type type, const void *a, size_t a_len,
	   const void *b, size_t b_len, uint8 *out, size_t out_len)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(type);

	if (pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, a, a_len) < 0 ||
		(b_len > 0 && pg_cryptohash_update(ctx, b, b_len) < 0) ||
		pg_cryptohash_final(ctx, out, out_len) < 0)
		elog(ERROR, "could not compute a hash: %s", pg_cryptohash_error(ctx));
	pg_cryptohash_free(ctx);
}
