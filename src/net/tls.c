/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL works on the socket itself. It reads ahead, so that a record costs
 * one call of the kernel; what it holds then is invisible to poll, and
 * tls_has_more tells of it. Buffers are given back while a session is idle.
 */
#include "net/tls.h"
#include "base/fault.h"
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

/* Only forward secrecy and authenticated encryption; TLS 1.3 has nothing else. */
#define CIPHERS_TLS12 "ECDHE+AESGCM:ECDHE+CHACHA20"

enum { READ_AHEAD = 32 * KIB };

struct tls_config {
    SSL_CTX *ctx;
};

struct tls {
    SSL *ssl;
    bool has_more, write_waits_to_read;
    bool is_broken, is_distrusted;
    char why[160];
};

/* ---- configuration ---- */

/* The oldest entry of OpenSSL's queue is the cause; the queue is emptied. */
static void take_reason(char *out, size_t size)
{
    unsigned long code = ERR_get_error();
    const char *text =
        ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
        text = "what it sends is not TLS";
    snprintf(out, size, "%s", code && text ? text : "the connection broke");
    ERR_clear_error();
}

static enum errc fail_openssl(struct error *err, const char *what, const char *file)
{
    char reason[160];

    take_reason(reason, sizeof reason);
    return fail(err, ERR_INVALID, "%s %s cannot be used: %s", what, file, reason);
}

/* Nobody is there to type one. */
static int no_passphrase(char *out, int size, int is_writing, void *ctx)
{
    (void)out, (void)size, (void)is_writing, (void)ctx;
    return -1;
}

static struct tls_config *config_new(const SSL_METHOD *method)
{
    struct tls_config *c = mem_zalloc(sizeof *c);

    ERR_clear_error();
    c->ctx = SSL_CTX_new(method);
    if (!c->ctx)
        BUG("OpenSSL makes no context");
    SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(c->ctx, CIPHERS_TLS12);
    SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_read_ahead(c->ctx, 1);
    SSL_CTX_set_default_read_buffer_len(c->ctx, READ_AHEAD);
    SSL_CTX_set_default_passwd_cb(c->ctx, no_passphrase);
    return c;
}

void tls_config_free(struct tls_config *c)
{
    if (c)
        SSL_CTX_free(c->ctx);
    mem_free(c);
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *ctx)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)ctx;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static enum errc use_files(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                           struct error *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        return fail_openssl(err, "the certificate", cert_file);
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1)
        return fail_openssl(err, "the key", key_file);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return fail_openssl(err, "the key", key_file);
    return OK;
}

enum errc tls_config_server(struct tls_config **out, const char *cert_file, const char *key_file,
                            struct error *err)
{
    struct tls_config *c = config_new(TLS_server_method());
    enum errc rc = use_files(c->ctx, cert_file, key_file, err);

    if (rc != OK) {
        tls_config_free(c);
        return rc;
    }
    /* A client that just hangs up is no error to a server: messages carry their length. */
    SSL_CTX_set_options(c->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF); /* tickets need no memory here */
    SSL_CTX_set_num_tickets(c->ctx, 1);
    SSL_CTX_set_alpn_select_cb(c->ctx, choose_protocol, NULL);
    *out = c;
    return OK;
}

enum errc tls_config_client(struct tls_config **out, const char *ca_file, struct error *err)
{
    struct tls_config *c = config_new(TLS_client_method());
    enum errc rc = OK;

    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    if (!ca_file)
        SSL_CTX_set_default_verify_paths(c->ctx);
    else if (SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
        rc = fail_openssl(err, "the file of trusted certificates", ca_file);
    if (rc != OK)
        tls_config_free(c);
    else
        *out = c;
    return rc;
}

enum errc tls_config_identify(struct tls_config *c, const char *cert_file, const char *key_file,
                              struct error *err)
{
    return use_files(c->ctx, cert_file, key_file, err);
}

/* Between peers there is nothing else to speak. */
static int choose_http2(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *in, unsigned in_len, void *ctx)
{
    static const unsigned char ours[] = "\x02h2";
    unsigned char *chosen;

    (void)ssl, (void)ctx;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

enum errc tls_config_mutual(struct tls_config **out, const char *ca_file, const char *cert_file,
                            const char *key_file, struct error *err)
{
    struct tls_config *c = config_new(TLS_method());
    enum errc rc = use_files(c->ctx, cert_file, key_file, err);

    if (rc == OK && SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
        rc = fail_openssl(err, "the file of trusted certificates", ca_file);
    if (rc != OK) {
        tls_config_free(c);
        return rc;
    }
    SSL_CTX_set_min_proto_version(c->ctx, TLS1_3_VERSION);
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(c->ctx, 0);
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_alpn_select_cb(c->ctx, choose_http2, NULL);
    *out = c;
    return OK;
}

struct tls_config *tls_config_share(const struct tls_config *c)
{
    struct tls_config *share = mem_zalloc(sizeof *share);

    share->ctx = c->ctx;
    SSL_CTX_up_ref(c->ctx);
    return share;
}

/* Its one DNS name. */
static bool name_of(const X509 *x, char *out, size_t size)
{
    GENERAL_NAMES *names = x ? X509_get_ext_d2i((X509 *)x, NID_subject_alt_name, NULL, NULL) : NULL;
    bool is_one = names && sk_GENERAL_NAME_num(names) == 1;

    if (is_one) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, 0);
        const ASN1_STRING *text = n->type == GEN_DNS ? n->d.dNSName : NULL;
        size_t len = text ? (size_t)ASN1_STRING_length(text) : 0;
        is_one = len && len < size && !memchr(ASN1_STRING_get0_data(text), 0, len);
        if (is_one) {
            memcpy(out, ASN1_STRING_get0_data(text), len);
            out[len] = 0;
        }
    }
    GENERAL_NAMES_free(names);
    return is_one;
}

bool tls_config_name(const struct tls_config *c, char *out, size_t size)
{
    return name_of(SSL_CTX_get0_certificate(c->ctx), out, size);
}

bool tls_peer_name(const struct tls *t, char *out, size_t size)
{
    return name_of(SSL_get0_peer_certificate(t->ssl), out, size);
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm utc = { 0 };

    return t && ASN1_TIME_to_tm(t, &utc) == 1 ? timegm(&utc) : 0;
}

struct tls_validity tls_config_validity(const struct tls_config *c)
{
    const X509 *x = SSL_CTX_get0_certificate(c->ctx);

    return (struct tls_validity){ .from_s = seconds_of(X509_get0_notBefore(x)),
                                  .until_s = seconds_of(X509_get0_notAfter(x)) };
}

/* ---- the socket as OpenSSL sees it ---- */

/* Its own way of writing would raise SIGPIPE when the other side has left. */
static int socket_write(BIO *bio, const char *bytes, size_t len, size_t *written)
{
    bool fails = fault_errno("tls.write", EPIPE) || fault_errno("tls.write", EAGAIN);
    ssize_t n = fails ? -1 : send((int)(intptr_t)BIO_get_data(bio), bytes, len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    *written = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int socket_read(BIO *bio, char *bytes, size_t len, size_t *got)
{
    bool fails = fault_errno("tls.read", ECONNRESET) || fault_errno("tls.read", EAGAIN);
    ssize_t n = fails ? -1 : recv((int)(intptr_t)BIO_get_data(bio), bytes, len, 0);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    *got = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static long socket_ctrl(BIO *bio, int what, long number, void *ptr)
{
    (void)number, (void)ptr;
    if (what == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method;

static void make_method(void)
{
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write_ex(socket_method, socket_write);
    BIO_meth_set_read_ex(socket_method, socket_read);
    BIO_meth_set_ctrl(socket_method, socket_ctrl);
}

static BIO *socket_bio(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_method);
    BIO *bio = BIO_new(socket_method);
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    return bio;
}

/* ---- sessions ---- */

static struct tls *session_new(const struct tls_config *c, int fd)
{
    struct tls *t = mem_zalloc(sizeof *t);

    t->ssl = SSL_new(c->ctx);
    BIO *bio = socket_bio(fd);
    SSL_set_bio(t->ssl, bio, bio);
    return t;
}

struct tls *tls_accept(const struct tls_config *c, int fd)
{
    struct tls *t = session_new(c, fd);

    SSL_set_accept_state(t->ssl);
    return t;
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

struct tls *tls_connect(const struct tls_config *c, int fd, const char *host)
{
    static const unsigned char http11[] = "\x08http/1.1";
    struct tls *t = session_new(c, fd);
    bool is_ok;

    SSL_set_connect_state(t->ssl);
    if (is_address(host)) {
        is_ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host) == 1;
    } else {
        SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        is_ok = SSL_set1_host(t->ssl, host) == 1 && SSL_set_tlsext_host_name(t->ssl, host) == 1;
    }
    if (!is_ok)
        BUG("OpenSSL takes no host name '%s'", host);
    SSL_set_alpn_protos(t->ssl, http11, sizeof http11 - 1);
    return t;
}

struct tls *tls_connect_peer(const struct tls_config *c, int fd, const char *name)
{
    static const unsigned char h2[] = "\x02h2";
    struct tls *t = session_new(c, fd);

    SSL_set_connect_state(t->ssl);
    SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (SSL_set1_host(t->ssl, name) != 1)
        BUG("OpenSSL takes no name '%s'", name);
    SSL_set_alpn_protos(t->ssl, h2, sizeof h2 - 1);
    return t;
}

void tls_free(struct tls *t)
{
    if (t)
        SSL_free(t->ssl);
    mem_free(t);
}

/* ---- bytes ---- */

static int break_session(struct tls *t)
{
    long verified = SSL_get_verify_result(t->ssl);

    t->is_broken = true;
    t->is_distrusted = !SSL_is_server(t->ssl) && verified != X509_V_OK;
    if (verified != X509_V_OK) {
        snprintf(t->why, sizeof t->why, "%s", X509_verify_cert_error_string(verified));
        ERR_clear_error();
    } else {
        take_reason(t->why, sizeof t->why);
    }
    return IO_GONE;
}

/* What a call that did not succeed means; *why is OpenSSL's code. */
static int outcome(struct tls *t, int rc, int *why)
{
    *why = SSL_get_error(t->ssl, rc);
    switch (*why) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return IO_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return IO_EOF;
    default:
        return break_session(t);
    }
}

ssize_t tls_read(struct tls *t, void *bytes, size_t len)
{
    size_t n;
    int why;

    if (t->is_broken)
        return IO_GONE;
    ERR_clear_error();
    int rc = SSL_read_ex(t->ssl, bytes, len, &n);
    if (rc == 1) {
        t->has_more = SSL_has_pending(t->ssl);
        return (ssize_t)n;
    }
    rc = outcome(t, rc, &why);
    t->has_more = why == SSL_ERROR_WANT_WRITE;
    return rc;
}

ssize_t tls_write(struct tls *t, const void *bytes, size_t len)
{
    size_t n;
    int why;

    if (t->is_broken)
        return IO_GONE;
    ERR_clear_error();
    int rc = SSL_write_ex(t->ssl, bytes, len, &n);
    if (rc == 1) {
        t->write_waits_to_read = false;
        return (ssize_t)n;
    }
    rc = outcome(t, rc, &why);
    t->write_waits_to_read = why == SSL_ERROR_WANT_READ;
    return rc == IO_AGAIN ? IO_AGAIN : IO_GONE;
}

int tls_handshake(struct tls *t)
{
    int why;

    if (t->is_broken)
        return IO_GONE;
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    t->has_more = false;
    if (rc == 1)
        return 1;
    rc = outcome(t, rc, &why);
    t->has_more = why == SSL_ERROR_WANT_WRITE;
    return rc == IO_AGAIN ? IO_AGAIN : IO_GONE;
}

bool tls_has_more(const struct tls *t)
{
    return t->has_more;
}

bool tls_write_waits_to_read(const struct tls *t)
{
    return t->write_waits_to_read;
}

bool tls_is_readable(struct tls *t)
{
    char byte;
    size_t n;
    int why;

    if (t->is_broken)
        return true;
    ERR_clear_error();
    int rc = SSL_peek_ex(t->ssl, &byte, 1, &n);
    return rc == 1 || outcome(t, rc, &why) != IO_AGAIN;
}

bool tls_is_up(const struct tls *t)
{
    return SSL_is_init_finished(t->ssl);
}

bool tls_is_http2(const struct tls *t)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(t->ssl, &name, &len);
    return slice_is(slice_of(name, len), "h2");
}

void tls_end(struct tls *t)
{
    if (t->is_broken || !SSL_is_init_finished(t->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl);
    ERR_clear_error();
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

bool tls_is_distrusted(const struct tls *t)
{
    return t->is_distrusted;
}
