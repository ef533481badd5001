/*
 * resolver.c
 *		A name server and a network for tests, by LD_PRELOAD.
 *
 * It answers getaddrinfo() for names that end in ".test" as the file in
 * AL_RESOLVER says, sends connections for some addresses elsewhere, and logs
 * both, and every other connect() over IP, to that file with ".log" added.
 *
 *	map 93.184.216.34 127.0.0.1		connections to the first go to the second,
 *									and getpeername() tells of the first
 *	pay.test 93.184.216.34 | 10.0.0.1 127.0.0.1
 *									answers in turn, the last one again and again
 *	*.slow.test hang:30 fail		words: hang:MILLISECONDS, fail, or an address
 *
 * The file is read at every call.  The turns of a name are counted per process,
 * and start anew when its line changes.  A log line is
 *	lookup SECONDS PID NAME TURN	and at the end of it
 *	answer SECONDS PID NAME TURN
 *	connect SECONDS PID ADDRESS PORT
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_NAMES 256
#define MOST_DESCRIPTORS 65536
#define LONGEST_LINE 1024

typedef int (*Getaddrinfo) (const char *, const char *, const struct addrinfo *, struct addrinfo **);
typedef int (*Connect) (int, const struct sockaddr *, socklen_t);
typedef int (*Getpeername) (int, struct sockaddr *, socklen_t *);

typedef struct Turns
{
	char		name[256];
	char		rule[LONGEST_LINE];
	int			n;
} Turns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Turns names[MOST_NAMES];
static int	n_names;
static struct sockaddr_in pretended[MOST_DESCRIPTORS];	/* sin_port 0: none */

static bool find_rule(const char *name, char *rule);
static bool covers(const char *pattern, const char *name);
static int	take_turn(const char *name, const char *rule);
static int	answer(char *words, const char *service, const struct addrinfo *hints, struct addrinfo **list);
static bool mapped(const struct sockaddr_in *address, struct sockaddr_in *instead);
static void write_log(const char *format,...) __attribute__((format(printf, 1, 2)));
static double now(void);

/* Answers for names of ours; the rest is libc's. */
int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	Getaddrinfo real = (Getaddrinfo) dlsym(RTLD_NEXT, "getaddrinfo");
	size_t		len = name ? strlen(name) : 0;
	char		rule[LONGEST_LINE];
	char	   *words;
	char	   *rest = rule;
	int			turn;
	int			result;

	if (getenv("AL_RESOLVER") == NULL || len < 5 || strcmp(name + len - 5, ".test") != 0)
		return real(name, service, hints, list);
	if (!find_rule(name, rule))
	{
		write_log("lookup %.6f %d %s 0\n", now(), (int) getpid(), name);
		return EAI_NONAME;
	}
	turn = take_turn(name, rule);
	words = strsep(&rest, "|");
	for (int i = 1; i < turn && rest != NULL; i++)
		words = strsep(&rest, "|");
	write_log("lookup %.6f %d %s %d\n", now(), (int) getpid(), name, turn);
	result = answer(words, service, hints, list);
	write_log("answer %.6f %d %s %d\n", now(), (int) getpid(), name, turn);
	return result;
}

/* Notes a connection, and leads it elsewhere when its address is mapped. */
int
connect(int fd, const struct sockaddr *address, socklen_t len)
{
	Connect		real = (Connect) dlsym(RTLD_NEXT, "connect");
	struct sockaddr_in instead;
	char		text[INET6_ADDRSTRLEN] = "";

	if (getenv("AL_RESOLVER") == NULL || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return real(fd, address, len);
	if (address->sa_family == AF_INET6)
	{
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) address;

		(void) inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		write_log("connect %.6f %d %s %d\n", now(), (int) getpid(), text, ntohs(in6->sin6_port));
	}
	else
	{
		const struct sockaddr_in *in = (const struct sockaddr_in *) address;
		bool		elsewhere = mapped(in, &instead);

		(void) inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		write_log("connect %.6f %d %s %d\n", now(), (int) getpid(), text, ntohs(in->sin_port));
		if (fd < MOST_DESCRIPTORS)
			pretended[fd] = elsewhere ? *in : (struct sockaddr_in) {0};
		if (elsewhere)
			return real(fd, (const struct sockaddr *) &instead, sizeof(instead));
	}
	return real(fd, address, len);
}

/* Tells of the address that was asked for. */
int
getpeername(int fd, struct sockaddr *address, socklen_t *len)
{
	Getpeername real = (Getpeername) dlsym(RTLD_NEXT, "getpeername");
	socklen_t	room = *len;
	int			result = real(fd, address, len);

	if (result == 0 && address->sa_family == AF_INET && fd < MOST_DESCRIPTORS &&
		pretended[fd].sin_port != 0 && room >= sizeof(pretended[fd]))
		memcpy(address, &pretended[fd], sizeof(pretended[fd]));
	return result;
}

/* Finds the first line for a name, and copies what follows the name. */
static bool
find_rule(const char *name, char *rule)
{
	FILE	   *file = fopen(getenv("AL_RESOLVER"), "re");
	char		line[LONGEST_LINE];
	bool		found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		char	   *rest = line;
		char	   *pattern;

		line[strcspn(line, "\n")] = '\0';
		pattern = strsep(&rest, " ");
		if (rest != NULL && covers(pattern, name))
		{
			strcpy(rule, rest);
			found = true;
		}
	}
	fclose(file);
	return found;
}

/* Tells whether a pattern, a name or "*" and its end, stands for a name. */
static bool
covers(const char *pattern, const char *name)
{
	size_t		len = strlen(name);
	size_t		end = strlen(pattern);

	if (pattern[0] != '*')
		return strcasecmp(pattern, name) == 0;
	return len >= end - 1 && strcasecmp(name + len - (end - 1), pattern + 1) == 0;
}

/* Counts the calls for a name, from 1. */
static int
take_turn(const char *name, const char *rule)
{
	int			turn = 1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i <= n_names && i < MOST_NAMES; i++)
	{
		if (i == n_names)
		{
			n_names++;
			(void) snprintf(names[i].name, sizeof(names[i].name), "%s", name);
		}
		if (strcmp(names[i].name, name) != 0)
			continue;
		if (strcmp(names[i].rule, rule) != 0)
		{
			(void) snprintf(names[i].rule, sizeof(names[i].rule), "%s", rule);
			names[i].n = 0;
		}
		turn = ++names[i].n;
		break;
	}
	pthread_mutex_unlock(&lock);
	return turn;
}

/* Does what an answer's words say; addresses of a family that was not asked for are left out. */
static int
answer(char *words, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	Getaddrinfo real = (Getaddrinfo) dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo **end = list;
	char	   *word;

	*list = NULL;
	while ((word = strsep(&words, " ")) != NULL)
	{
		struct addrinfo numeric = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

		if (word[0] == '\0')
			continue;
		if (strcmp(word, "fail") == 0)
			return EAI_AGAIN;
		if (strncmp(word, "hang:", 5) == 0)
		{
			long		ms = atol(word + 5);
			struct timespec left = {ms / 1000, ms % 1000 * 1000000};

			while (nanosleep(&left, &left) != 0 && errno == EINTR)
				;
			continue;
		}
		if (hints != NULL)
		{
			numeric.ai_family = hints->ai_family;
			numeric.ai_socktype = hints->ai_socktype;
			numeric.ai_protocol = hints->ai_protocol;
		}
		numeric.ai_flags = AI_NUMERICHOST;
		if (real(word, service, &numeric, end) == 0)
		{
			while (*end != NULL)
				end = &(*end)->ai_next;
		}
	}
	return *list != NULL ? 0 : EAI_NONAME;
}

/* Finds where connections to an address go instead. */
static bool
mapped(const struct sockaddr_in *address, struct sockaddr_in *instead)
{
	FILE	   *file = fopen(getenv("AL_RESOLVER"), "re");
	char		line[LONGEST_LINE];
	bool		found = false;

	if (file == NULL)
		return false;
	*instead = *address;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		char		from[64];
		char		to[64];
		struct in_addr wanted;

		found = sscanf(line, "map %63s %63s", from, to) == 2 &&
			inet_pton(AF_INET, from, &wanted) == 1 && wanted.s_addr == address->sin_addr.s_addr &&
			inet_pton(AF_INET, to, &instead->sin_addr) == 1;
	}
	fclose(file);
	return found;
}

/* Appends a line in one write. */
static void
write_log(const char *format,...)
{
	char		path[4096];
	char		line[LONGEST_LINE];
	va_list		args;
	int			len;
	int			fd;

	(void) snprintf(path, sizeof(path), "%s.log", getenv("AL_RESOLVER"));
	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, line, len < (int) sizeof(line) ? (size_t) len : sizeof(line) - 1) < 0)
		fprintf(stderr, "resolver.so: could not write %s\n", path);
	close(fd);
}

/* Gives seconds since 1970. */
static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}
