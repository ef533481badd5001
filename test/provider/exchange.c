/*
 * exchange.c
 *		One request from its arrival to its answer.
 *
 * The steps are: identify the operation, write "received", pick the behaviour,
 * execute (now or later, with or without a client), answer (now, later or
 * never).  An exchange outlives its connection when it has still to execute.
 */
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "behaviour.h"
#include "exchange.h"
#include "fields.h"
#include "identify.h"
#include "timer.h"
#include "truth.h"

#define HELD_MS 10				/* between two looks whether an answer is released */
#define LIST_LIMIT 100			/* most effects in one answer */

struct Exchange
{
	Conn	   *conn;			/* NULL: the client has gone */
	uint64_t	conn_id;
	uint32_t	req;
	uint32_t	n;
	Op		   *op;
	Mode		mode;
	bool		keyed;
	bool		keep_alive;
	bool		head_only;
	bool		replayed;
	bool		executed;		/* the execution step is over */
	bool		looks_for_one;	/* a lookup of one operation, not of all */
	Execute		how;
	int64_t		hide_us;
	int64_t		limit;
	unsigned char body_hash[32];
	Item		item;
	Answer		answer;
	Timer		timer;
	Buf			middle;			/* the fields of a truth line that stay the same */
	Buf			plan;
	Buf			lines;
	Buf			lookup;
	Buf			rest;			/* a body that is sent later */
	struct Exchange *next_free;
};

static Exchange *exchange_new(Conn *conn, const HttpRequest *request);
static void exchange_free(Exchange *x);
static void describe(Exchange *x, const HttpRequest *request, Slice id, Slice key);
static bool pick(Exchange *x, const HttpRequest *request);
static void start(Exchange *x);
static void execute(void *owner);
static void hold(void *owner);
static void respond(void *owner);
static void respond_shaped(Exchange *x, Buf *body, Head *head);
static void send_rest(void *owner);
static void finish_lookup(Exchange *x, Buf *body);
static void refuse(Exchange *x, int status, const char *code);
static void finish(Exchange *x, After after);
static void log_event(const Exchange *x, TruthEvent event, int status);

static Exchange *Free;
static Buf	KeyStore;			/* scratch, valid within one call of exchange_begin() */
static Buf	OpStore;
static Buf	BodyStore;

/* Takes a complete request. */
void
exchange_begin(Conn *conn, const HttpRequest *request)
{
	Exchange   *x = exchange_new(conn, request);
	Slice		rest;
	Slice		key;
	Slice		id;

	x->mode = identify_mode(request, &rest);
	if (x->mode == MODE_TRUTH)
	{
		Head		head = {.close = !x->keep_alive};

		BodyStore.len = 0;
		answer_truth(true, &BodyStore);
		head.length = (int64_t) BodyStore.len;
		answer_head(&x->answer, &head, &conn->out);
		buf_add(&conn->out, BodyStore.data, BodyStore.len);
		finish(x, AFTER_KEEP);
		return;
	}
	key = identify_key(request, rest, &KeyStore);
	identify_hash(x->body_hash, &request->body, 1);
	id = identify_operation(request, x->mode, key, &OpStore);
	x->op = ops_get(id, x->mode == MODE_LIST || x->mode == MODE_ONE);
	x->n = ++x->op->n;
	x->keyed = x->mode == MODE_KEYED && key.len > 0;
	if (key.len > 0)
		x->op->has_key = true;
	if (x->mode == MODE_LIST || x->mode == MODE_ONE)
	{
		/* The identifier carries "lookup:" in front of what is looked for. */
		x->looks_for_one = key.data != NULL;
		buf_reserve(&x->lookup, 1);
		buf_add(&x->lookup, id.data + 7, id.len - 7);
		Truth.lookups++;
	}
	else
		Truth.received++;
	describe(x, request, id, key);
	conn->last_op = x->op;
	conn->last_n = x->n;
	log_event(x, TRUTH_RECEIVED, 0);
	if (x->mode == MODE_NONE)
		refuse(x, 404, "no_such_path");
	else if (!pick(x, request))
		refuse(x, 501, "no_such_behaviour");
	else
		start(x);
}

/* Answers bytes that are no request we take, and ends the connection. */
void
exchange_refuse(Conn *conn, int status)
{
	Answer		answer = {.status = status, .body = BODY_ERROR, .text = "bad_request"};
	Head		head = {.close = true};

	BodyStore.len = 0;
	answer_body(&answer, &BodyStore);
	head.length = (int64_t) BodyStore.len;
	answer_head(&answer, &head, &conn->out);
	buf_add(&conn->out, BodyStore.data, BodyStore.len);
	conn_end_exchange(conn, AFTER_LINGER);
}

/* Lets go of a client that has gone; what is still to be executed will be. */
void
exchange_abandon(Exchange *x)
{
	x->conn = NULL;
	if (x->timer.place != 0 && !x->executed)
		return;
	timer_cancel(&x->timer);
	exchange_free(x);
}

/* Takes an exchange off the free list or makes one. */
static Exchange *
exchange_new(Conn *conn, const HttpRequest *request)
{
	Exchange   *x = Free;

	if (x != NULL)
		Free = x->next_free;
	else
	{
		x = xmalloc(sizeof(*x));
		memset(x, 0, sizeof(*x));
	}
	x->conn = conn;
	x->conn_id = conn->id;
	x->req = ++conn->requests;
	x->n = 0;
	x->op = NULL;
	x->keyed = false;
	x->keep_alive = request->keep_alive;
	x->head_only = slice_is(request->method, "HEAD");
	x->replayed = false;
	x->executed = false;
	x->how = (Execute) {.body_hash = x->body_hash};
	x->hide_us = 0;
	x->limit = LIST_LIMIT;
	x->answer = (Answer) {.status = 200};
	x->timer.place = 0;
	x->middle.len = x->plan.len = x->lines.len = x->lookup.len = x->rest.len = 0;
	conn->exchange = x;
	return x;
}

/* Puts an exchange on the free list, without memory that only big ones need. */
static void
exchange_free(Exchange *x)
{
	if (x->rest.cap > 65536)
		buf_free(&x->rest);
	x->next_free = Free;
	Free = x;
}

/* Renders the fields that every truth line about this request has. */
static void
describe(Exchange *x, const HttpRequest *request, Slice id, Slice key)
{
	Buf		   *out = &x->middle;

	buf_reserve(out, 512);
	buf_add_literal(out, ",\"op\":");
	buf_add_json(out, id);
	buf_add_literal(out, ",\"n\":");
	buf_add_int(out, x->n);
	buf_add_literal(out, ",\"method\":");
	buf_add_json(out, request->method);
	buf_add_literal(out, ",\"path\":");
	buf_add_json(out, request->target);
	buf_add_literal(out, ",\"key\":");
	buf_add_json(out, key);
	buf_add_literal(out, ",\"action\":");
	buf_add_json(out, request->action);
	buf_add_literal(out, ",\"attempt\":");
	buf_add_json(out, request->attempt);
	buf_add_literal(out, ",\"auth\":");
	buf_add_json(out, request->auth);
	buf_add_literal(out, ",\"body_sha256\":\"");
	buf_add_hex(out, x->body_hash, sizeof(x->body_hash));
	buf_add_literal(out, "\",\"body_len\":");
	buf_add_int(out, (int64_t) request->body.len);
}

/* Reads the query parameters that steer this request. */
static bool
pick(Exchange *x, const HttpRequest *request)
{
	Slice		query = request->query;
	bool		planned = query.len > 0 && query_get(query, "do", &x->plan);
	uint64_t	chance = x->op->hash;

	if (planned)
		chance += (uint64_t) query_get_int(query, "seed", 0) * 0x9e3779b97f4a7c15u;
	if (!behaviour_pick(planned ? &x->plan : NULL, x->n, chance, &x->lines, &x->item))
	{
		fprintf(stderr, "provider: no such behaviour in \"%.*s\"\n",
				(int) request->target.len, request->target.data);
		return false;
	}
	if (query.len > 0)
	{
		x->how.key_ttl_us = query_get_int(query, "key_ttl_ms", 0) * 1000;
		x->hide_us = query_get_int(query, "hide_ms", 0) * 1000;
		x->limit = query_get_int(query, "limit", LIST_LIMIT);
		if (x->limit < 1 || x->limit > LIST_LIMIT)
			x->limit = LIST_LIMIT;
	}
	x->how.keyed = x->keyed;
	if (x->item.behaviour->executes && body_get(request->body, "amount", &BodyStore))
		x->how.has_amount = slice_to_int((Slice) {BodyStore.data, BodyStore.len}, &x->how.amount);
	return true;
}

/* Executes now, or later when the behaviour says so. */
static void
start(Exchange *x)
{
	const Item *item = &x->item;

	x->answer = (Answer) {
		.status = item->status,
		.body = item->body != NULL ? BODY_TEXT : item->behaviour->body,
		.size = item->number,
		.headers = item->headers,
		.text = item->body,
	};
	if (item->behaviour->delay != DELAY_BEFORE)
	{
		execute(x);
		return;
	}
	if (x->keyed && x->op->processing != NULL)
	{
		refuse(x, 409, "idempotency_key_in_use");
		return;
	}
	if (behaviour_is(item, "processing"))
		x->op->processing = x;
	timer_set(&x->timer, item->number, execute, x);
}

/* Executes, where behaviour and mode have it so, and goes on to the answer. */
static void
execute(void *owner)
{
	Exchange   *x = owner;
	const Behaviour *behaviour = x->item.behaviour;

	if (x->op->processing == x)
		x->op->processing = NULL;
	x->executed = true;
	if (behaviour->executes && (x->mode == MODE_KEYED || x->mode == MODE_UNKEYED))
	{
		if (x->keyed && x->op->processing != NULL)
		{
			refuse(x, 409, "idempotency_key_in_use");
			return;
		}
		switch (ops_execute(x->op, &x->how, &x->answer))
		{
			case EXECUTION_DONE:
				log_event(x, TRUTH_EXECUTED, x->answer.status);
				break;
			case EXECUTION_REPLAYED:
				x->replayed = true;
				log_event(x, TRUTH_REPLAYED, x->answer.status);
				break;
			case EXECUTION_MISMATCH:
				refuse(x, 422, "idempotency_key_mismatch");
				return;
		}
	}
	if (behaviour->delay == DELAY_AFTER && behaviour->shape != SHAPE_SLOWBODY && x->conn != NULL)
		timer_set(&x->timer, x->item.number, respond, x);
	else if (behaviour->delay == DELAY_HELD)
		hold(x);
	else
		respond(x);
}

/* Answers when somebody has released it, or when nobody waits for it any more. */
static void
hold(void *owner)
{
	Exchange   *x = owner;

	if (x->conn == NULL || truth_is_released(x->item.number))
		respond(x);
	else
		timer_set(&x->timer, HELD_MS, hold, x);
}

/* Answers in the shape that the behaviour asks for. */
static void
respond(void *owner)
{
	Exchange   *x = owner;
	Shape		shape = x->item.behaviour->shape;
	Head		head = {.replayed = x->replayed, .close = !x->keep_alive};

	if (x->conn == NULL)
	{
		exchange_free(x);
		return;
	}
	if (shape == SHAPE_READCLOSE2)
		shape = x->req > 1 ? SHAPE_CLOSE : SHAPE_NORMAL;
	switch (shape)
	{
		case SHAPE_HANG:
			return;
		case SHAPE_CLOSE:
			finish(x, AFTER_FIN);
			return;
		case SHAPE_RESET:
			finish(x, AFTER_RST);
			return;
		case SHAPE_INTERIM:
		case SHAPE_INTERIM_OK:
			buf_printf(&x->conn->out, "HTTP/1.1 %d %s\r\n\r\n", (int) x->item.number,
					   http_reason((int) x->item.number));
			conn_touch(x->conn);
			if (shape == SHAPE_INTERIM)
				return;
			break;
		default:
			break;
	}
	BodyStore.len = 0;
	if ((x->mode == MODE_LIST || x->mode == MODE_ONE) && x->answer.body == BODY_OK)
		finish_lookup(x, &BodyStore);
	else
		answer_body(&x->answer, &BodyStore);
	head.length = (int64_t) BodyStore.len;
	log_event(x, TRUTH_ANSWERED, x->answer.status);
	respond_shaped(x, &BodyStore, &head);
	if (BodyStore.cap > 1024 * 1024)
		buf_free(&BodyStore);
}

/* Sends head and body as the shape has them. */
static void
respond_shaped(Exchange *x, Buf *body, Head *head)
{
	Buf		   *out = &x->conn->out;
	After		after = AFTER_KEEP;

	switch (x->item.behaviour->shape)
	{
		case SHAPE_CUTHEAD:
			buf_printf(out, "HTTP/1.1 %d %s\r\nServer: provider\r\nContent-Ty", x->answer.status,
					   http_reason(x->answer.status));
			finish(x, AFTER_FIN);
			return;
		case SHAPE_SLOWBODY:
			answer_head(&x->answer, head, out);
			buf_add(&x->rest, body->data, body->len);
			conn_touch(x->conn);
			timer_set(&x->timer, x->item.number, send_rest, x);
			return;
		case SHAPE_ENDLESS:
			head->chunked = true;
			answer_head(&x->answer, head, out);
			x->conn->endless = true;
			conn_touch(x->conn);
			return;
		case SHAPE_STATUSLINE:
			head->line = x->item.text;
			break;
		case SHAPE_TRUNCATED:
			head->length += 1000;
			after = AFTER_FIN;
			break;
		case SHAPE_NOFRAMING:
			head->length = -1;
			head->close = true;
			after = AFTER_FIN;
			break;
		default:
			break;
	}
	if (x->answer.status < 200)
		after = AFTER_FIN;
	answer_head(&x->answer, head, out);
	if (!x->head_only)
		buf_add(out, body->data, body->len);
	finish(x, after);
}

/* Sends the body of a head that went before. */
static void
send_rest(void *owner)
{
	Exchange   *x = owner;

	buf_add(&x->conn->out, x->rest.data, x->rest.len);
	finish(x, AFTER_KEEP);
}

/* Renders what a lookup found. */
static void
finish_lookup(Exchange *x, Buf *body)
{
	Lookup		lookup = {.hide_us = x->hide_us, .limit = x->limit, .status = "succeeded"};
	const Effect *effect;

	if (behaviour_is(&x->item, "show"))
		lookup.status = x->item.text;
	if (x->looks_for_one)
		lookup.id = (Slice) {x->lookup.data, x->lookup.len};
	if (x->mode == MODE_LIST)
	{
		answer_list(&lookup, body);
		return;
	}
	effect = answer_find(&lookup);
	if (effect != NULL)
	{
		answer_one(effect, &lookup, body);
		return;
	}
	x->answer = (Answer) {.status = 404, .body = BODY_ERROR, .text = "not_found"};
	answer_body(&x->answer, body);
}

/* Answers plainly with an error, whatever the behaviour. */
static void
refuse(Exchange *x, int status, const char *code)
{
	Head		head = {.close = !x->keep_alive};

	if (x->conn == NULL)
	{
		exchange_free(x);
		return;
	}
	x->answer = (Answer) {.status = status, .body = BODY_ERROR, .text = code};
	BodyStore.len = 0;
	answer_body(&x->answer, &BodyStore);
	head.length = (int64_t) BodyStore.len;
	log_event(x, TRUTH_ANSWERED, status);
	answer_head(&x->answer, &head, &x->conn->out);
	if (!x->head_only)
		buf_add(&x->conn->out, BodyStore.data, BodyStore.len);
	finish(x, AFTER_KEEP);
}

/* Gives the connection back. */
static void
finish(Exchange *x, After after)
{
	Conn	   *conn = x->conn;

	if (after == AFTER_KEEP && !x->keep_alive)
		after = AFTER_FIN;
	exchange_free(x);
	conn_end_exchange(conn, after);
}

/* Writes a line about this request to the truth log. */
static void
log_event(const Exchange *x, TruthEvent event, int status)
{
	truth_write(event, x->conn_id, x->req, (Slice) {x->middle.data, x->middle.len}, status, NULL);
}
