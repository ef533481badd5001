/*
 * io.h
 *		Reading and writing sockets, plain or TLS.
 */
#ifndef PROVIDER_IO_H
#define PROVIDER_IO_H

#include <stdbool.h>
#include <sys/types.h>

#include <openssl/ssl.h>

/* What a call came to, other than a number of bytes. */
#define IO_AGAIN (-1)
#define IO_ERROR (-2)

extern bool io_use_tls(const char *cert, const char *key, const char *client_ca);
extern SSL *io_new_tls(int fd);
extern int	io_handshake(SSL *ssl, bool *wants_write);
extern void io_end_tls(SSL *ssl);
extern ssize_t io_read(int fd, SSL *ssl, char *data, size_t len);
extern ssize_t io_write(int fd, SSL *ssl, const char *data, size_t len);

#endif							/* PROVIDER_IO_H */
