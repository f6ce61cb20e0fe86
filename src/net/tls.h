/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls -- TLS 1.2 and 1.3 over a non-blocking socket, both roles. Hides OpenSSL.
 *
 * A configuration is made from files, so by threads that may read files, and
 * never changes. Sessions keep what they need of it: it may be freed before
 * them. A session belongs to one thread and makes its handshake by itself when
 * it is first read or written.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/base.h"
#include "base/error.h"
#include "net/io.h"
#include <sys/types.h>

struct tls_config;
struct tls;

/* A certificate with its chain, and its key: PEM files, not encrypted. Returns it to the caller. */
MUST_CHECK enum errc tls_config_server(struct tls_config **out, const char *cert_file,
                                       const char *key_file, struct error *err);
/* Trusts the authorities in ca_file, or those of the system when it is NULL. */
MUST_CHECK enum errc tls_config_client(struct tls_config **out, const char *ca_file,
                                       struct error *err);
/* A client that proves itself, too. */
MUST_CHECK enum errc tls_config_identify(struct tls_config *c, const char *cert_file,
                                         const char *key_file, struct error *err);
/*
 * For programs that know each other, in both roles: each proves who it is by a certificate that an
 * authority of ca_file has signed. TLS 1.3 and HTTP/2 only, and every connection is checked anew.
 */
MUST_CHECK enum errc tls_config_mutual(struct tls_config **out, const char *ca_file,
                                       const char *cert_file, const char *key_file,
                                       struct error *err);
/* The same once more, with a life of its own. Returns it to the caller. */
struct tls_config *tls_config_share(const struct tls_config *c);
void tls_config_free(struct tls_config *c); /* NULL is allowed */

/* The certificate of a server's configuration is valid between these, seconds since 1970. */
struct tls_validity {
    int64_t from_s, until_s;
};
struct tls_validity tls_config_validity(const struct tls_config *c);

/* Sessions borrow the descriptor. */
struct tls *tls_accept(const struct tls_config *c, int fd);
/* The server must prove that it is host, a name or a numeric address. */
struct tls *tls_connect(const struct tls_config *c, int fd, const char *host);
/* With a mutual configuration: the other side must prove that it is the program of this name. */
struct tls *tls_connect_peer(const struct tls_config *c, int fd, const char *name);
void tls_free(struct tls *t); /* NULL is allowed */

/* Bytes, or IO_AGAIN, IO_GONE or (reading) IO_EOF. */
ssize_t tls_read(struct tls *t, void *bytes, size_t len);
ssize_t tls_write(struct tls *t, const void *bytes, size_t len);
/* Goes on with the handshake: 1 when it is over, or IO_AGAIN or IO_GONE. */
int tls_handshake(struct tls *t);

/*
 * A read may get on although the socket brings nothing new: it holds bytes, or
 * waits for the socket to take some. Try again when the socket can be written.
 */
bool tls_has_more(const struct tls *t);
/* The last write waits for the socket to bring bytes, not to take some. */
bool tls_write_waits_to_read(const struct tls *t);
/* A read would not answer IO_AGAIN. Costs a look at the socket. */
bool tls_is_readable(struct tls *t);
bool tls_is_up(const struct tls *t);    /* the handshake is over */
bool tls_is_http2(const struct tls *t); /* and both agreed on HTTP/2 */

/*
 * After the handshake: who the other side has proved to be, the one DNS name of its certificate.
 * False: it has shown none, or one without or with several names.
 */
MUST_CHECK bool tls_peer_name(const struct tls *t, char *out, size_t size);
/* The name in the configuration's own certificate, by the same rule. */
MUST_CHECK bool tls_config_name(const struct tls_config *c, char *out, size_t size);

/* Tells the other side that nothing follows; does not wait. */
void tls_end(struct tls *t);

/* Why it answered IO_GONE, as the end of a sentence. */
const char *tls_why(const struct tls *t);
/* It did because the server's certificate was not accepted. */
bool tls_is_distrusted(const struct tls *t);

#endif
