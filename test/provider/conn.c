/*
 * conn.c
 *		Connections: sockets, TLS, and when bytes leave.
 *
 * Level-triggered epoll.  A connection that ends is freed at the end of the
 * turn, because later events of the same turn may still point to it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "exchange.h"
#include "io.h"
#include "truth.h"

#define READ_SIZE ((size_t) 16 * 1024)
#define MAX_AHEAD ((size_t) 1024 * 1024)	/* read while a request is handled */
#define ENDLESS_SIZE 32768

static Conn *conn_new(int fd);
static void conn_handshake(Conn *conn);
static void conn_read(Conn *conn);
static void conn_discard(Conn *conn);
static void conn_on_eof(Conn *conn);
static void conn_process(Conn *conn);
static bool conn_next_request(Conn *conn);
static bool conn_take_head(Conn *conn);
static void conn_consume(Conn *conn, size_t count);
static void conn_flush(Conn *conn);
static void conn_finish(Conn *conn);
static void conn_add_endless(Conn *conn);
static void conn_watch(Conn *conn, uint32_t events);
static void conn_log_close(Conn *conn, const char *why);
static void conn_destroy(Conn *conn, const char *why);
static void conn_free_dead(void);

static int	EpollFd = -1;
static int	ListenFd = -1;
static bool ListenPaused;
static uint64_t ConnCount;
static Conn *All;
static Conn *Dirty;
static Conn *Dead;

/* Listens on loopback; port 0 becomes the port that was given. */
bool
conn_listen(int epoll_fd, uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
	socklen_t	len = sizeof(address);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int			on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	EpollFd = epoll_fd;
	ListenFd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ListenFd < 0 ||
		setsockopt(ListenFd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(ListenFd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(ListenFd, 4096) != 0 ||
		getsockname(ListenFd, (struct sockaddr *) &address, &len) != 0 ||
		epoll_ctl(EpollFd, EPOLL_CTL_ADD, ListenFd, &event) != 0)
	{
		fprintf(stderr, "provider: could not listen on port %d: %s\n", *port, strerror(errno));
		return false;
	}
	*port = ntohs(address.sin_port);
	return true;
}

/* Accepts what waits; without descriptors, no more until a connection ends. */
void
conn_accept_all(void)
{
	for (int i = 0; i < 1024; i++)
	{
		int			fd = accept4(ListenFd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			conn_new(fd);
		else if (errno == EMFILE || errno == ENFILE)
		{
			epoll_ctl(EpollFd, EPOLL_CTL_DEL, ListenFd, NULL);
			ListenPaused = true;
			return;
		}
		else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* Handles what epoll tells about a connection. */
void
conn_on_event(Conn *conn, uint32_t events)
{
	if (conn->dead)
		return;
	if (conn->handshaking)
	{
		conn_handshake(conn);
		if (conn->dead || conn->handshaking)
			return;
	}
	if (events & EPOLLOUT)
		conn_touch(conn);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
	{
		if (conn->after != AFTER_KEEP || conn->endless)
			conn_discard(conn);
		else
			conn_read(conn);
	}
}

/* Notes that a connection has bytes to send or an end to come to. */
void
conn_touch(Conn *conn)
{
	if (conn->dirty)
		return;
	conn->dirty = true;
	conn->next_dirty = Dirty;
	Dirty = conn;
}

/* Takes note that the present request is done with, and what follows. */
void
conn_end_exchange(Conn *conn, After after)
{
	conn->exchange = NULL;
	if (after != AFTER_KEEP)
	{
		conn->after = after;
		conn_log_close(conn, after == AFTER_RST ? "rst" : "fin");
	}
	conn_touch(conn);
}

/* Makes the turn's truth durable, then lets its bytes leave. */
void
conn_flush_all(void)
{
	truth_flush();
	while (Dirty != NULL)
	{
		Conn	   *conn = Dirty;

		Dirty = NULL;
		while (conn != NULL)
		{
			Conn	   *next = conn->next_dirty;

			conn->dirty = false;
			if (!conn->dead)
				conn_flush(conn);
			conn = next;
		}
		truth_flush();
	}
	conn_free_dead();
}

/* Ends all connections. */
void
conn_close_all(void)
{
	while (All != NULL)
		conn_destroy(All, "shutdown");
	truth_flush();
	conn_free_dead();
	close(ListenFd);
}

/* Starts a connection. */
static Conn *
conn_new(int fd)
{
	Conn	   *conn = xmalloc(sizeof(*conn));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
	int			on = 1;

	memset(conn, 0, sizeof(*conn));
	conn->fd = fd;
	conn->id = ++ConnCount;
	conn->events = EPOLLIN;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	conn->ssl = io_new_tls(fd);
	conn->handshaking = conn->ssl != NULL;
	conn->next = All;
	if (All != NULL)
		All->prev = conn;
	All = conn;
	Truth.connections++;
	Truth.open_connections++;
	epoll_ctl(EpollFd, EPOLL_CTL_ADD, fd, &event);
	return conn;
}

/* Goes on with the TLS handshake. */
static void
conn_handshake(Conn *conn)
{
	bool		wants_write = false;

	switch (io_handshake(conn->ssl, &wants_write))
	{
		case 0:
			conn->handshaking = false;
			conn_watch(conn, EPOLLIN);
			break;
		case IO_AGAIN:
			conn_watch(conn, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
			break;
		default:
			conn_destroy(conn, "tls");
			break;
	}
}

/* Reads what is there and handles the requests in it. */
static void
conn_read(Conn *conn)
{
	for (;;)
	{
		size_t		want = READ_SIZE;
		ssize_t		got;

		if (conn->exchange == NULL && conn->head_len > 0 &&
			(size_t) conn->content_length + conn->head_len > conn->in.len - conn->in_at)
			want += (size_t) conn->content_length + conn->head_len - (conn->in.len - conn->in_at);
		buf_reserve(&conn->in, want);
		want = conn->in.cap - conn->in.len;
		got = io_read(conn->fd, conn->ssl, conn->in.data + conn->in.len, want);
		if (got == 0)
		{
			conn_on_eof(conn);
			return;
		}
		if (got == IO_AGAIN)
			break;
		if (got == IO_ERROR)
		{
			conn_destroy(conn, "error");
			return;
		}
		conn->in.len += (size_t) got;
		if (conn->ssl == NULL && (size_t) got < want)
			break;
		if (conn->exchange != NULL && conn->in.len - conn->in_at > MAX_AHEAD)
		{
			conn_destroy(conn, "error");
			return;
		}
		conn_process(conn);
		if (conn->dead || conn->after != AFTER_KEEP)
			return;
	}
	conn_process(conn);
}

/* Reads and forgets what a client still sends. */
static void
conn_discard(Conn *conn)
{
	static char scratch[65536];
	ssize_t		got;

	for (int i = 0; i < 16; i++)
	{
		got = io_read(conn->fd, conn->ssl, scratch, sizeof(scratch));
		if (got == IO_AGAIN)
			return;
		if (got <= 0)
		{
			conn_destroy(conn, got == 0 ? "client" : "error");
			return;
		}
	}
}

/* Ends a connection whose client sends no more, after the answer if there is one. */
static void
conn_on_eof(Conn *conn)
{
	conn_process(conn);
	if (conn->dead || conn->after != AFTER_KEEP)
		return;
	if (conn->exchange == NULL && conn->out.len > conn->out_at)
		conn_end_exchange(conn, AFTER_FIN);
	else if (conn->exchange == NULL && conn->in.len > conn->in_at)
		conn_destroy(conn, "client_partial");
	else
		conn_destroy(conn, "client");
}

/* Handles complete requests until one keeps the connection busy. */
static void
conn_process(Conn *conn)
{
	while (!conn->dead && conn->exchange == NULL && conn->after == AFTER_KEEP &&
		   conn->in.len > conn->in_at)
	{
		if (!conn_next_request(conn))
			return;
	}
}

/* Handles the next request; false when it is not complete. */
static bool
conn_next_request(Conn *conn)
{
	Slice		data;
	HttpRequest request;
	size_t		used;
	int			status;

	if (conn->head_len == 0 && !conn_take_head(conn))
		return false;
	data = (Slice) {conn->in.data + conn->in_at, conn->in.len - conn->in_at};
	if (conn->chunked)
	{
		status = http_dechunk(&conn->chunks, data, &conn->body);
		if (status != 0)
		{
			exchange_refuse(conn, status);
			return false;
		}
		if (conn->chunks.state != CHUNK_DONE)
			return false;
		used = conn->chunks.at;
	}
	else
	{
		used = conn->head_len + (size_t) conn->content_length;
		if (data.len < used)
			return false;
	}
	http_parse_head((Slice) {data.data, conn->head_len}, &request);
	if (conn->chunked)
		request.body = (Slice) {conn->body.data != NULL ? conn->body.data : "", conn->body.len};
	else
		request.body = (Slice) {data.data + conn->head_len, (size_t) conn->content_length};
	exchange_begin(conn, &request);
	conn_consume(conn, used);
	return true;
}

/* Looks for a complete head and keeps what it says about the body. */
static bool
conn_take_head(Conn *conn)
{
	const char *data = conn->in.data + conn->in_at;
	size_t		len = conn->in.len - conn->in_at;
	HttpRequest request;
	int			status;

	conn->head_len = http_find_head_end(data, len, &conn->scanned);
	if (conn->head_len == 0 && len < HTTP_MAX_HEAD)
		return false;
	if (conn->head_len == 0 || conn->head_len > HTTP_MAX_HEAD)
	{
		exchange_refuse(conn, 431);
		return false;
	}
	status = http_parse_head((Slice) {data, conn->head_len}, &request);
	if (status != 0)
	{
		exchange_refuse(conn, status);
		return false;
	}
	conn->content_length = request.content_length > 0 ? request.content_length : 0;
	conn->chunked = request.chunked;
	conn->chunks = (HttpChunks) {.at = conn->head_len};
	conn->body.len = 0;
	if (request.expect_continue && len == conn->head_len)
	{
		buf_add_literal(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
		conn_touch(conn);
	}
	return true;
}

/* Drops a request from the input. */
static void
conn_consume(Conn *conn, size_t count)
{
	conn->in_at += count;
	conn->head_len = 0;
	conn->content_length = 0;
	conn->scanned = 0;
	if (conn->in_at == conn->in.len)
	{
		conn->in_at = conn->in.len = 0;
		if (conn->in.cap > 256 * 1024)
			buf_free(&conn->in);
		if (conn->body.cap > 256 * 1024)
			buf_free(&conn->body);
	}
	else if (conn->in_at > MAX_AHEAD)
	{
		memmove(conn->in.data, conn->in.data + conn->in_at, conn->in.len - conn->in_at);
		conn->in.len -= conn->in_at;
		conn->in_at = 0;
	}
}

/* Sends what is there, as far as the socket takes it. */
static void
conn_flush(Conn *conn)
{
	if (conn->handshaking)
		return;
	if (conn->endless && conn->out_at == conn->out.len)
		conn_add_endless(conn);
	while (conn->out_at < conn->out.len)
	{
		ssize_t		sent = io_write(conn->fd, conn->ssl, conn->out.data + conn->out_at,
									conn->out.len - conn->out_at);

		if (sent == IO_AGAIN)
		{
			conn_watch(conn, EPOLLIN | EPOLLOUT);
			return;
		}
		if (sent < 0)
		{
			conn_destroy(conn, "error");
			return;
		}
		conn->out_at += (size_t) sent;
	}
	conn->out.len = conn->out_at = 0;
	if (conn->out.cap > 128 * 1024)
		buf_free(&conn->out);
	if (conn->endless)
	{
		conn_watch(conn, EPOLLIN | EPOLLOUT);
		return;
	}
	conn_watch(conn, EPOLLIN);
	if (conn->after != AFTER_KEEP)
		conn_finish(conn);
	else
		conn_process(conn);
}

/* Ends a connection whose answer is out. */
static void
conn_finish(Conn *conn)
{
	if (conn->lingering)
		return;
	if (conn->after == AFTER_RST)
	{
		struct linger linger = {.l_onoff = 1, .l_linger = 0};

		setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	}
	else
		io_end_tls(conn->ssl);
	if (conn->after == AFTER_LINGER)
	{
		conn->lingering = true;
		shutdown(conn->fd, SHUT_WR);
		return;
	}
	conn_destroy(conn, "fin");
}

/* Adds one more chunk to an endless body. */
static void
conn_add_endless(Conn *conn)
{
	buf_printf(&conn->out, "%x\r\n", ENDLESS_SIZE);
	buf_fill(&conn->out, 'x', ENDLESS_SIZE);
	buf_add_literal(&conn->out, "\r\n");
}

/* Sets what epoll watches. */
static void
conn_watch(Conn *conn, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = conn};

	if (conn->events == events)
		return;
	conn->events = events;
	epoll_ctl(EpollFd, EPOLL_CTL_MOD, conn->fd, &event);
}

/* Writes "closed" to the truth log, once. */
static void
conn_log_close(Conn *conn, const char *why)
{
	static Buf	middle;

	if (conn->logged_close)
		return;
	conn->logged_close = true;
	middle.len = 0;
	buf_add_literal(&middle, ",\"op\":");
	if (conn->last_op != NULL)
		buf_add_json(&middle, (Slice) {conn->last_op->id, conn->last_op->id_len});
	else
		buf_add_literal(&middle, "null");
	buf_add_literal(&middle, ",\"n\":");
	if (conn->last_op != NULL)
		buf_add_int(&middle, conn->last_n);
	else
		buf_add_literal(&middle, "null");
	buf_add_literal(&middle, ",\"method\":null,\"path\":null,\"key\":null,\"action\":null,"
					"\"attempt\":null,\"auth\":null,\"body_sha256\":null,\"body_len\":null");
	truth_write(TRUTH_CLOSED, conn->id, conn->requests, (Slice) {middle.data, middle.len}, 0, why);
}

/* Ends a connection at once; its memory is freed at the end of the turn. */
static void
conn_destroy(Conn *conn, const char *why)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	if (conn->dead)
		return;
	conn_log_close(conn, why);
	if (conn->exchange != NULL)
		exchange_abandon(conn->exchange);
	conn->exchange = NULL;
	SSL_free(conn->ssl);
	close(conn->fd);
	conn->dead = true;
	if (conn->prev != NULL)
		conn->prev->next = conn->next;
	else
		All = conn->next;
	if (conn->next != NULL)
		conn->next->prev = conn->prev;
	conn->next_dead = Dead;
	Dead = conn;
	Truth.open_connections--;
	if (ListenPaused)
	{
		ListenPaused = false;
		epoll_ctl(EpollFd, EPOLL_CTL_ADD, ListenFd, &event);
	}
}

/* Frees the connections that ended in this turn. */
static void
conn_free_dead(void)
{
	while (Dead != NULL)
	{
		Conn	   *conn = Dead;

		Dead = conn->next_dead;
		buf_free(&conn->in);
		buf_free(&conn->body);
		buf_free(&conn->out);
		free(conn);
	}
}
