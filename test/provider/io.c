/*
 * io.c
 *		Reading and writing sockets, plain or TLS.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "io.h"

static ssize_t tls_result(SSL *ssl, int result);
static int	choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
							const unsigned char *in, unsigned int in_len, void *arg);

static SSL_CTX *Tls;			/* NULL: plain */

/* Makes all connections speak TLS; with client_ca only with clients that have a certificate of it. */
bool
io_use_tls(const char *cert, const char *key, const char *client_ca)
{
	Tls = SSL_CTX_new(TLS_server_method());
	if (Tls == NULL ||
		SSL_CTX_use_certificate_chain_file(Tls, cert) != 1 ||
		SSL_CTX_use_PrivateKey_file(Tls, key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(Tls) != 1 ||
		SSL_CTX_set_session_id_context(Tls, (const unsigned char *) "provider", 8) != 1 ||
		(client_ca != NULL && SSL_CTX_load_verify_locations(Tls, client_ca, NULL) != 1))
	{
		ERR_print_errors_fp(stderr);
		return false;
	}
	if (client_ca != NULL)
		SSL_CTX_set_verify(Tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_mode(Tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(Tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_alpn_select_cb(Tls, choose_protocol, NULL);
	return true;
}

/* Starts TLS on a socket; NULL when connections are plain. */
SSL *
io_new_tls(int fd)
{
	SSL		   *ssl;

	if (Tls == NULL)
		return NULL;
	ssl = SSL_new(Tls);
	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1)
	{
		fprintf(stderr, "provider: out of memory\n");
		exit(2);
	}
	SSL_set_accept_state(ssl);
	return ssl;
}

/* Goes on with a handshake; 0 when it is over. */
int
io_handshake(SSL *ssl, bool *wants_write)
{
	int			result;
	int			error;

	ERR_clear_error();
	result = SSL_do_handshake(ssl);
	if (result == 1)
		return 0;
	error = SSL_get_error(ssl, result);
	*wants_write = error == SSL_ERROR_WANT_WRITE;
	return error == SSL_ERROR_WANT_READ || *wants_write ? IO_AGAIN : IO_ERROR;
}

/* Tells the peer that no more is sent; nothing for a plain connection. */
void
io_end_tls(SSL *ssl)
{
	if (ssl == NULL)
		return;
	ERR_clear_error();
	SSL_shutdown(ssl);
}

/* Reads; 0 is the end of what the client sends. */
ssize_t
io_read(int fd, SSL *ssl, char *data, size_t len)
{
	ssize_t		got;

	if (ssl != NULL)
	{
		ERR_clear_error();
		return tls_result(ssl, SSL_read(ssl, data, len > 1 << 30 ? 1 << 30 : (int) len));
	}
	do
	{
		got = recv(fd, data, len, 0);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? IO_AGAIN : IO_ERROR;
	return got;
}

/* Writes. */
ssize_t
io_write(int fd, SSL *ssl, const char *data, size_t len)
{
	ssize_t		sent;

	if (ssl != NULL)
	{
		ERR_clear_error();
		sent = tls_result(ssl, SSL_write(ssl, data, len > 1 << 30 ? 1 << 30 : (int) len));
		return sent == 0 ? IO_ERROR : sent;
	}
	do
	{
		sent = send(fd, data, len, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN ? IO_AGAIN : IO_ERROR;
	return sent;
}

/* Translates the result of a TLS read or write. */
static ssize_t
tls_result(SSL *ssl, int result)
{
	if (result > 0)
		return result;
	switch (SSL_get_error(ssl, result))
	{
		case SSL_ERROR_WANT_READ:
		case SSL_ERROR_WANT_WRITE:
			return IO_AGAIN;
		case SSL_ERROR_ZERO_RETURN:
			return 0;
		default:
			return IO_ERROR;
	}
}

/* Speaks HTTP/1.1 with a client that offers a choice. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
				const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	(void) ssl;
	(void) arg;
	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}
