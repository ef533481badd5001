/*
 * answer.c
 *		Rendering answers: head and body.
 */
#define _GNU_SOURCE
#include "answer.h"
#include "http.h"
#include "truth.h"

#define DEEP_LEVELS 20000

static void add_refund(const Answer *answer, Buf *out);
static void add_refund_id(const Answer *answer, Buf *out);
static void add_error(const char *code, int status, Buf *out);
static bool is_visible(const Effect *effect, const Lookup *lookup, int64_t now);

/* Renders status line and headers with the blank line. */
void
answer_head(const Answer *answer, const Head *head, Buf *out)
{
	buf_reserve(out, 256);
	if (head->line != NULL)
		buf_adds(out, head->line);
	else
	{
		buf_add_literal(out, "HTTP/1.1 ");
		buf_add_int(out, answer->status);
		buf_addc(out, ' ');
		buf_adds(out, http_reason(answer->status));
	}
	buf_add_literal(out, "\r\nServer: provider\r\n");
	if (answer->status >= 200 &&
		(answer->headers == NULL || strcasestr(answer->headers, "Content-Type:") == NULL))
		buf_add_literal(out, "Content-Type: application/json\r\n");
	if (answer->body == BODY_GZIP)
		buf_add_literal(out, "Content-Encoding: gzip\r\n");
	if (answer->body == BODY_ACCEPTED && answer->effect != NULL)
	{
		buf_add_literal(out, "Location: /refunds?op=");
		buf_add_url(out, (Slice) {answer->effect->op->id, answer->effect->op->id_len});
		buf_add_literal(out, "\r\n");
	}
	if (answer->headers != NULL)
		buf_adds(out, answer->headers);
	if (head->replayed)
		buf_add_literal(out, "Idempotent-Replayed: true\r\n");
	if (head->chunked)
		buf_add_literal(out, "Transfer-Encoding: chunked\r\n");
	else if (head->length >= 0 && answer->status >= 200 && answer->status != 204 &&
			 answer->status != 304)
	{
		buf_add_literal(out, "Content-Length: ");
		buf_add_int(out, head->length);
		buf_add_literal(out, "\r\n");
	}
	if (head->close)
		buf_add_literal(out, "Connection: close\r\n");
	buf_add_literal(out, "\r\n");
}

/* Renders the body; nothing for a status that has none. */
void
answer_body(const Answer *answer, Buf *out)
{
	size_t		start = out->len;

	if (answer->status < 200 || answer->status == 204 || answer->status == 304)
		return;
	switch (answer->body)
	{
		case BODY_STATUS:
			if (answer->status < 300)
				add_refund(answer, out);
			else
				add_error("provider_error", answer->status, out);
			break;
		case BODY_ERROR:
			add_error(answer->text, answer->status, out);
			break;
		case BODY_TEXT:
			buf_adds(out, answer->text);
			break;
		case BODY_NUL:
			buf_add_literal(out, "{\"status\":\"succ\0eeded\",\"id\":");
			add_refund_id(answer, out);
			buf_add_literal(out, "}\0");
			break;
		case BODY_GZIP:
			buf_add_literal(out, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\xca\xff\x00\xfe"
							"not really compressed\x00\x80\x81");
			break;
		case BODY_DEEP:
			buf_add_literal(out, "{\"status\":\"succeeded\",\"id\":");
			add_refund_id(answer, out);
			buf_add_literal(out, ",\"deep\":");
			buf_fill(out, '[', DEEP_LEVELS);
			buf_fill(out, ']', DEEP_LEVELS);
			buf_addc(out, '}');
			break;
		case BODY_BADUTF8:
			buf_add_literal(out, "{\"status\":\"succeeded\",\"note\":\"caf\xe9 \xff\xfe \xc3\x28\",\"id\":");
			add_refund_id(answer, out);
			buf_addc(out, '}');
			break;
		case BODY_HUGENUM:
			buf_add_literal(out, "{\"status\":\"succeeded\",\"amount\":1e130000,\"id\":");
			add_refund_id(answer, out);
			buf_addc(out, '}');
			break;
		case BODY_BIG:
			buf_add_literal(out, "{\"status\":\"succeeded\",\"id\":");
			add_refund_id(answer, out);
			buf_add_literal(out, ",\"pad\":\"");
			if (answer->size > (int64_t) (out->len - start) + 2)
				buf_fill(out, 'x', (size_t) answer->size - (out->len - start) - 2);
			buf_add_literal(out, "\"}");
			break;
		case BODY_ACCEPTED:
			buf_add_literal(out, "{\"object\":\"refund\",\"status\":\"pending\",\"id\":");
			add_refund_id(answer, out);
			buf_addc(out, '}');
			break;
		case BODY_OKFALSE:
			buf_add_literal(out, "{\"ok\":false,\"error\":\"x\"}");
			break;
		case BODY_OK:
			add_refund(answer, out);
			break;
	}
}

/* Returns the first effect that a lookup may see, or NULL. */
const Effect *
answer_find(const Lookup *lookup)
{
	const Op   *op = ops_find(lookup->id);
	int64_t		now = mono_us();

	for (const Effect *effect = op != NULL ? op->first : NULL; effect != NULL;
		 effect = effect->next_of_op)
	{
		if (is_visible(effect, lookup, now))
			return effect;
	}
	return NULL;
}

/* Renders an effect as a lookup shows it. */
void
answer_one(const Effect *effect, const Lookup *lookup, Buf *out)
{
	const Op   *op = effect->op;
	Slice		id = {op->id, op->id_len};

	buf_add_literal(out, "{\"id\":\"re_");
	buf_add_int(out, (int64_t) effect->id);
	buf_add_literal(out, "\",\"object\":\"refund\",\"status\":");
	buf_add_json(out, (Slice) {lookup->status, strlen(lookup->status)});
	buf_add_literal(out, ",\"amount\":");
	if (effect->has_amount)
		buf_add_int(out, effect->amount);
	else
		buf_add_literal(out, "null");
	buf_add_literal(out, ",\"key\":");
	buf_add_json(out, op->has_key ? id : SLICE_NONE);
	buf_add_literal(out, ",\"op\":");
	buf_add_json(out, id);
	buf_add_literal(out, ",\"created\":");
	buf_add_int(out, effect->wall / 1000000);
	buf_addc(out, '}');
}

/* Renders the list of what a lookup may see, oldest first. */
void
answer_list(const Lookup *lookup, Buf *out)
{
	bool		all = lookup->id.data == NULL;
	const Op   *op = all ? NULL : ops_find(lookup->id);
	const Effect *effect = all ? ops_effects() : (op != NULL ? op->first : NULL);
	int64_t		now = mono_us();
	int			count = 0;

	buf_add_literal(out, "{\"object\":\"list\",\"data\":[");
	for (; effect != NULL; effect = all ? effect->next : effect->next_of_op)
	{
		if (!is_visible(effect, lookup, now))
			continue;
		if (count == lookup->limit)
			break;
		if (count++ > 0)
			buf_addc(out, ',');
		answer_one(effect, lookup, out);
	}
	buf_adds(out, effect != NULL ? "],\"has_more\":true}" : "],\"has_more\":false}");
}

/* Renders the summary; the connection that asks is not counted as open. */
void
answer_truth(bool self_open, Buf *out)
{
	buf_printf(out, "{\"received\":%llu,\"executed\":%llu,\"replayed\":%llu,\"operations\":%llu,"
			   "\"max_executed_per_operation\":%llu,\"open_connections\":%llu,"
			   "\"lookups\":%llu,\"connections\":%llu}",
			   (unsigned long long) Truth.received, (unsigned long long) Truth.executed,
			   (unsigned long long) Truth.replayed, (unsigned long long) Truth.operations,
			   (unsigned long long) Truth.max_executed,
			   (unsigned long long) Truth.open_connections - (self_open ? 1 : 0),
			   (unsigned long long) Truth.lookups, (unsigned long long) Truth.connections);
}

/* Renders a refund as its own request is answered. */
static void
add_refund(const Answer *answer, Buf *out)
{
	const Effect *effect = answer->effect;

	if (effect == NULL)
	{
		buf_add_literal(out, "{\"object\":\"read\",\"status\":\"succeeded\"}");
		return;
	}
	buf_add_literal(out, "{\"id\":");
	add_refund_id(answer, out);
	buf_add_literal(out, ",\"object\":\"refund\",\"status\":\"succeeded\",\"amount\":");
	if (effect->has_amount)
		buf_add_int(out, effect->amount);
	else
		buf_add_literal(out, "null");
	buf_addc(out, '}');
}

/* Renders the identifier of the effect, re_0 where there is none. */
static void
add_refund_id(const Answer *answer, Buf *out)
{
	buf_add_literal(out, "\"re_");
	buf_add_int(out, answer->effect != NULL ? (int64_t) answer->effect->id : 0);
	buf_addc(out, '"');
}

/* Renders an error object. */
static void
add_error(const char *code, int status, Buf *out)
{
	buf_add_literal(out, "{\"error\":{\"code\":");
	buf_add_json(out, (Slice) {code, strlen(code)});
	buf_add_literal(out, ",\"status\":");
	buf_add_int(out, status);
	buf_add_literal(out, "}}");
}

/* Tells whether a lookup may see an effect yet. */
static bool
is_visible(const Effect *effect, const Lookup *lookup, int64_t now)
{
	return now - effect->mono >= lookup->hide_us;
}
