/*
 * scripted.h
 *		A small TCP server that does what the path of a request says.
 *
 * Included once per test program.  It runs in a child process, with one more
 * process per connection, and counts in shared memory what really happened:
 * connections accepted, requests read to their end ("executed").  Every
 * process of it dies with its parent and after a minute at the latest.
 */
#ifndef AL_TEST_SCRIPTED_H
#define AL_TEST_SCRIPTED_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPTED_REQUEST_MAX (4 * 1024 * 1024)
#define SCRIPTED_LIFETIME_S 60

/* What really happened; shared with the server's processes. */
typedef struct ScriptedTruth
{
	atomic_int	connections;
	atomic_int	executions;
} ScriptedTruth;

typedef struct Scripted
{
	pid_t		pid;
	int			port;
	ScriptedTruth *truth;
} Scripted;

/* A request as the server read it. */
typedef struct ScriptedRequest
{
	char	   *bytes;			/* SCRIPTED_REQUEST_MAX + 1 of them */
	size_t		len;
	size_t		head_len;
	size_t		body_len;		/* as announced */
	char		path[64];
} ScriptedRequest;

/* A path and the bytes it answers with; then the connection is kept or closed. */
typedef struct ScriptedAnswer
{
	const char *path;
	const char *bytes;
	size_t		len;
	bool		keep;
} ScriptedAnswer;

#define SCRIPTED_BYTES(text) (text), sizeof(text) - 1

static const ScriptedAnswer scripted_answers[] = {
	{"/length", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kept: yes\r\n\r\nhello"), true},
	{"/length-and-end", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), false},
	{"/chunked", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
								"5\r\nhello\r\n6\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n"), true},
	{"/chunked-cut", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), false},
	{"/chunked-10", SCRIPTED_BYTES("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), false},
	{"/silent", SCRIPTED_BYTES(""), false},	/* read, done, not a word */
	{"/head-cut", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), false},
	{"/status-2000", SCRIPTED_BYTES("HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello"), true},
	{"/not-http", SCRIPTED_BYTES("SSH-2.0-OpenSSH_9.2\r\n"), false},
	{"/short", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"), false},
	{"/eof", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\n\r\nhello"), false},
	{"/no-content", SCRIPTED_BYTES("HTTP/1.1 204 No Content\r\n\r\n"), true},
	{"/not-modified", SCRIPTED_BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"), true},
	{"/reset-content", SCRIPTED_BYTES("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"), true},
	{"/redirect", SCRIPTED_BYTES("HTTP/1.1 302 Found\r\nLocation: /length\r\nContent-Length: 0\r\n\r\n"), true},
	{"/redirect-307", SCRIPTED_BYTES("HTTP/1.1 307 Temporary Redirect\r\nLocation: /length\r\nContent-Length: 0\r\n\r\n"), true},
	{"/unauthorized", SCRIPTED_BYTES("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"
									 "WWW-Authenticate: Digest realm=\"x\", nonce=\"1\"\r\nContent-Length: 0\r\n\r\n"), true},
	{"/gzip", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n\x1f\x8b\x08\0\0\0\0\0"), true},
	{"/nul-in-header", SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nX-Bad: a\0b\r\nContent-Length: 0\r\n\r\n"), true},
	{"/early-hints", SCRIPTED_BYTES("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
									"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), true},
	{"/switch", SCRIPTED_BYTES("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello"), false},
	{"/unavailable", SCRIPTED_BYTES("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"), true},
	{NULL, NULL, 0, false}
};

static void scripted_serve(int listener, ScriptedTruth *truth);
static void scripted_converse(int fd, ScriptedTruth *truth);
static bool scripted_read_body(int fd, ScriptedRequest *request);
static bool scripted_read_head(int fd, ScriptedRequest *request);
static bool scripted_act(int fd, const ScriptedRequest *request);
static bool scripted_write(int fd, const void *bytes, size_t len);
static bool scripted_write_body(int fd, const void *body, size_t len);
static void scripted_flood(int fd, const char *head, const char *piece);
static void scripted_refuse_upload(int fd);
static void scripted_wait_for_close(int fd);
static int	scripted_listen(int *port);

/* Start a server on a port of its own; exits the program when that fails. */
static Scripted
scripted_start(void)
{
	Scripted	server;
	int			listener = scripted_listen(&server.port);

	server.truth = mmap(NULL, sizeof(ScriptedTruth), PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fflush(stdout);
	server.pid = fork();
	if (server.truth == MAP_FAILED || server.pid < 0)
	{
		perror("scripted server");
		exit(1);
	}
	if (server.pid == 0)
		scripted_serve(listener, server.truth);
	close(listener);
	return server;
}

/* Stop a server and its connections. */
static void
scripted_stop(Scripted *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	munmap(server->truth, sizeof(ScriptedTruth));
}

/* Start counting anew. */
static void
scripted_reset(Scripted *server)
{
	server->truth->connections = 0;
	server->truth->executions = 0;
}

/* A listening socket on a free port of loopback, with a small receive buffer. */
static int
scripted_listen(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			small = 4096;

	if (fd < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) != 0 ||
		bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, 1024) != 0 ||
		getsockname(fd, (struct sockaddr *) &address, &len) != 0)
	{
		perror("scripted server");
		exit(1);
	}
	*port = ntohs(address.sin_port);
	return fd;
}

/* Accept until killed. */
static void
scripted_serve(int listener, ScriptedTruth *truth)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(SCRIPTED_LIFETIME_S);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	for (;;)
	{
		int			fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		truth->connections++;
		if (fork() == 0)
		{
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(SCRIPTED_LIFETIME_S);
			close(listener);
			scripted_converse(fd, truth);
			_exit(0);
		}
		close(fd);
	}
}

/* Read requests and act on them until the connection is to be closed. */
static void
scripted_converse(int fd, ScriptedTruth *truth)
{
	ScriptedRequest request = {.bytes = malloc(SCRIPTED_REQUEST_MAX + 1)};

	while (request.bytes && scripted_read_head(fd, &request))
	{
		if (strcmp(request.path, "/refuse-upload") == 0)
		{
			scripted_refuse_upload(fd);
			return;
		}
		if (!scripted_read_body(fd, &request))
			return;
		truth->executions++;
		if (!scripted_act(fd, &request))
			return;
	}
}

/* Read a request up to its blank line. */
static bool
scripted_read_head(int fd, ScriptedRequest *request)
{
	char	   *end;
	const char *length;

	request->len = 0;
	for (;;)
	{
		ssize_t		n = read(fd, request->bytes + request->len, SCRIPTED_REQUEST_MAX - request->len);

		if (n <= 0)
			return false;
		request->len += (size_t) n;
		request->bytes[request->len] = '\0';
		if ((end = strstr(request->bytes, "\r\n\r\n")) != NULL)
			break;
	}
	request->head_len = (size_t) (end - request->bytes) + 4;
	length = strcasestr(request->bytes, "\r\nContent-Length:");
	request->body_len = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
	return sscanf(request->bytes, "%*31s %63s", request->path) == 1;
}

/* Read the rest of a request. */
static bool
scripted_read_body(int fd, ScriptedRequest *request)
{
	if (request->head_len + request->body_len > SCRIPTED_REQUEST_MAX)
		return false;
	while (request->len < request->head_len + request->body_len)
	{
		ssize_t		n = read(fd, request->bytes + request->len, SCRIPTED_REQUEST_MAX - request->len);

		if (n <= 0)
			return false;
		request->len += (size_t) n;
	}
	return true;
}

/* Do what the path says; true to keep the connection. */
static bool
scripted_act(int fd, const ScriptedRequest *request)
{
	const char *path = request->path;

	for (const ScriptedAnswer *answer = scripted_answers; answer->path; answer++)
	{
		if (strcmp(path, answer->path) == 0)
			return scripted_write(fd, answer->bytes, answer->len) && answer->keep;
	}

	if (strcmp(path, "/echo-head") == 0)
		return scripted_write_body(fd, request->bytes, request->head_len);
	if (strcmp(path, "/echo-body") == 0)
		return scripted_write_body(fd, request->bytes + request->head_len, request->body_len);
	if (strcmp(path, "/head-only") == 0)
		return scripted_write(fd, SCRIPTED_BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
	if (strcmp(path, "/endless-body") == 0)
		scripted_flood(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\nxxxxxxxx\r\n");
	else if (strcmp(path, "/endless-head") == 0)
		scripted_flood(fd, "HTTP/1.1 200 OK\r\n", "X-More: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n");
	else if (strcmp(path, "/hints-then-hang") == 0)
	{
		scripted_write(fd, SCRIPTED_BYTES("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"));
		scripted_wait_for_close(fd);
	}
	else if (strcmp(path, "/hang") == 0)
		scripted_wait_for_close(fd);
	else if (strcmp(path, "/last-words") == 0)
	{
		/* The server's end closes the listener and then ends this process too. */
		kill(getppid(), SIGKILL);
		pause();
	}
	return false;
}

/* Answer 200 with this body. */
static bool
scripted_write_body(int fd, const void *body, size_t len)
{
	char		head[128];
	int			n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len);

	return scripted_write(fd, head, (size_t) n) && scripted_write(fd, body, len);
}

/* Write all of it. */
static bool
scripted_write(int fd, const void *bytes, size_t len)
{
	while (len > 0)
	{
		ssize_t		n = write(fd, bytes, len);

		if (n <= 0)
			return false;
		bytes = (const char *) bytes + n;
		len -= (size_t) n;
	}
	return true;
}

/* Write one piece again and again until the other side has enough. */
static void
scripted_flood(int fd, const char *head, const char *piece)
{
	bool		open = scripted_write(fd, head, strlen(head));

	while (open)
		open = scripted_write(fd, piece, strlen(piece));
}

/*
 * Answer 413 after the head and take no more of the body than the kernel has
 * room for; the other side's end cannot be heard behind it, so this one stays
 * until the server ends.
 */
static void
scripted_refuse_upload(int fd)
{
	scripted_write(fd, SCRIPTED_BYTES("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n"
									  "Connection: close\r\n\r\n"));
	pause();
}

/* Say nothing until the other side closes. */
static void
scripted_wait_for_close(int fd)
{
	char		byte;

	while (read(fd, &byte, 1) > 0)
		;
}

#endif							/* AL_TEST_SCRIPTED_H */
