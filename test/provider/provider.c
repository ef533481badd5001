/*
 * provider.c
 *		An HTTP server that stands for a payment provider in tests.
 *
 * It does what the requests tell it to (behaviour.c), honours idempotency keys
 * or not, and keeps its own durable record of what it really did (truth.c), so
 * that a test can compare the ledger with the world.  One thread, one epoll
 * loop, loopback only.  README.md has the vocabulary.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "conn.h"
#include "io.h"
#include "timer.h"
#include "truth.h"

#define MAX_EVENTS 512

typedef struct Options
{
	const char *truth;
	const char *port_file;
	const char *cert;
	const char *key;
	const char *client_ca;
	uint16_t	port;
	bool		sync;
	bool		quiet;
	bool		daemon;
} Options;

static bool read_options(int argc, char **argv, Options *options);
static int	prepare_process(const Options *options, pid_t parent);
static bool write_port_file(const char *path, uint16_t port);
static void serve(int epoll_fd, const void *signal_mark);

/* Serves until it is told to end. */
int
main(int argc, char **argv)
{
	Options		options = {.sync = true};
	pid_t		parent = getppid();
	int			epoll_fd;
	int			signal_fd;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &signal_fd};

	if (!read_options(argc, argv, &options))
		return 1;
	signal_fd = prepare_process(&options, parent);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (signal_fd < 0 || epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, signal_fd, &event) != 0)
	{
		fprintf(stderr, "provider: could not start: %s\n", strerror(errno));
		return 1;
	}
	if (!truth_open(options.truth, options.sync) ||
		(options.cert != NULL && !io_use_tls(options.cert, options.key, options.client_ca)) ||
		!conn_listen(epoll_fd, &options.port) ||
		!write_port_file(options.port_file, options.port))
		return 1;
	if (!options.quiet)
		fprintf(stderr, "provider: listening on 127.0.0.1:%d\n", options.port);
	serve(epoll_fd, &signal_fd);
	conn_close_all();
	return 0;
}

/* Reads the command line. */
static bool
read_options(int argc, char **argv, Options *options)
{
	static const struct option names[] = {
		{"truth", required_argument, NULL, 't'},
		{"port-file", required_argument, NULL, 'f'},
		{"port", required_argument, NULL, 'p'},
		{"tls", required_argument, NULL, 's'},
		{"client-ca", required_argument, NULL, 'c'},
		{"no-fsync", no_argument, NULL, 'n'},
		{"quiet", no_argument, NULL, 'q'},
		{"daemon", no_argument, NULL, 'd'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
	{
		switch (option)
		{
			case 't':
				options->truth = optarg;
				break;
			case 'f':
				options->port_file = optarg;
				break;
			case 'p':
				options->port = (uint16_t) atoi(optarg);
				break;
			case 's':
				options->cert = optarg;
				options->key = optind < argc ? argv[optind++] : NULL;
				break;
			case 'c':
				options->client_ca = optarg;
				break;
			case 'n':
				options->sync = false;
				break;
			case 'q':
				options->quiet = true;
				break;
			case 'd':
				options->daemon = true;
				break;
			default:
				return false;
		}
	}
	if (options->truth == NULL || options->port_file == NULL || optind < argc ||
		(options->cert != NULL && options->key == NULL))
	{
		fprintf(stderr, "usage: provider --truth FILE --port-file FILE [--port N] "
				"[--tls CERT KEY [--client-ca FILE]] [--no-fsync] [--quiet] [--daemon]\n");
		return false;
	}
	return true;
}

/* Sets limits and signals, and returns the descriptor that tells of the signals to end. */
static int
prepare_process(const Options *options, pid_t parent)
{
	struct rlimit limit;
	sigset_t	ends;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (!options->daemon)
	{
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			raise(SIGTERM);
	}
	return signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Tells the port, never half of it. */
static bool
write_port_file(const char *path, uint16_t port)
{
	char		temp[4096];
	FILE	   *file;

	if (snprintf(temp, sizeof(temp), "%s.%d.tmp", path, (int) getpid()) >= (int) sizeof(temp))
		return false;
	file = fopen(temp, "w");
	if (file == NULL || fprintf(file, "%d\n", port) < 0 || fclose(file) != 0 ||
		rename(temp, path) != 0)
	{
		fprintf(stderr, "provider: could not write port file \"%s\": %s\n", path, strerror(errno));
		return false;
	}
	return true;
}

/* Runs the event loop. */
static void
serve(int epoll_fd, const void *signal_mark)
{
	static struct epoll_event events[MAX_EVENTS];

	for (;;)
	{
		int			count = epoll_wait(epoll_fd, events, MAX_EVENTS, timer_wait_ms());
		bool		ending = false;

		for (int i = 0; i < count; i++)
		{
			if (events[i].data.ptr == NULL)
				conn_accept_all();
			else if (events[i].data.ptr == signal_mark)
				ending = true;
			else
				conn_on_event(events[i].data.ptr, events[i].events);
		}
		timer_run();
		conn_flush_all();
		if (ending)
			return;
	}
}
