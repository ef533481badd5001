/*
 * conn.h
 *		Connections: sockets, TLS, and when bytes leave.
 *
 * Nothing is written while a request is handled: answers are gathered in out,
 * and conn_flush_all() sends them after the truth log was flushed.
 */
#ifndef PROVIDER_CONN_H
#define PROVIDER_CONN_H

#include <openssl/ssl.h>

#include "buf.h"
#include "http.h"
#include "ops.h"

struct Exchange;

/* What becomes of a connection after its answer. */
typedef enum After
{
	AFTER_KEEP,
	AFTER_FIN,
	AFTER_RST,
	AFTER_LINGER				/* end our side, read the client's rest: refusals */
} After;

typedef struct Conn
{
	int			fd;
	uint32_t	events;			/* what epoll watches */
	SSL		   *ssl;			/* NULL: plain */
	uint64_t	id;
	uint32_t	requests;
	uint32_t	last_n;
	const Op   *last_op;
	Buf			in;
	size_t		in_at;			/* start of the request that is being read */
	size_t		scanned;
	size_t		head_len;		/* 0: the head is not complete */
	int64_t		content_length;
	bool		chunked;
	HttpChunks	chunks;
	Buf			body;			/* decoded chunked body */
	struct Exchange *exchange;	/* the request that is being handled, or NULL */
	Buf			out;
	size_t		out_at;
	After		after;			/* other than AFTER_KEEP: no more requests */
	bool		handshaking;
	bool		endless;		/* chunks are sent until the client closes */
	bool		lingering;
	bool		logged_close;
	bool		dirty;
	bool		dead;
	struct Conn *next_dirty;
	struct Conn *next_dead;
	struct Conn *prev;
	struct Conn *next;
} Conn;

extern bool conn_listen(int epoll_fd, uint16_t *port);
extern void conn_accept_all(void);
extern void conn_on_event(Conn *conn, uint32_t events);
extern void conn_touch(Conn *conn);
extern void conn_end_exchange(Conn *conn, After after);
extern void conn_flush_all(void);
extern void conn_close_all(void);

#endif							/* PROVIDER_CONN_H */
