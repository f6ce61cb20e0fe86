/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: the server against raw peers and our client, certificates good and bad. */
#include "certs.h"
#include "fixture.h"
#include "net/client.h"
#include "net/tls.h"
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

static struct certs certs;

static int make_certs(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* of the raw peers */
    certs_open(&certs);
    certs_add(&certs, "good", "DNS:localhost,IP:127.0.0.1", 3600);
    certs_add(&certs, "second", "IP:127.0.0.1", 3600);
    certs_add(&certs, "other", "DNS:elsewhere.example", 3600);
    certs_add(&certs, "expired", "IP:127.0.0.1", -60);
    return 0;
}

static int remove_certs(void **state)
{
    (void)state;
    certs_close(&certs);
    return 0;
}

static struct tls_config *config(const char *name)
{
    struct tls_config *tls = NULL;
    struct error err = { 0 };
    char cert[32], key[32];

    snprintf(cert, sizeof cert, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    if (tls_config_server(&tls, certs_path(&certs, cert), certs_path(&certs, key), &err) != OK)
        fail_msg("%s", err.text);
    return tls;
}

/* ---- our client ---- */

static enum errc call(const struct fixture *f, const char *ca_file, const char *path,
                      struct http_reply *reply, struct error *err)
{
    struct http_client *c = NULL;
    char url[64];
    struct http_client_options opt = { .url = url, .ca_file = ca_file };

    snprintf(url, sizeof url, "https://127.0.0.1:%u", f->port);
    enum errc rc = http_client_new(&c, &opt, err);
    if (rc == OK)
        rc = http_client_call(c, &(struct http_call){ .method = "GET", .path = path }, reply, err);
    http_client_free(c);
    return rc;
}

struct counter {
    size_t bytes;
    int left;
};

static bool count_piece(void *ctx, int status, struct slice piece)
{
    struct counter *n = ctx;

    assert_int_equal(status, 200);
    n->bytes += piece.len;
    return true;
}

static struct slice next_piece(void *ctx)
{
    static char piece[50000];
    struct counter *n = ctx;

    return n->left-- > 0 ? slice_of(piece, sizeof piece) : slice_of(NULL, 0);
}

static void requests_and_bodies_pass_through(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct http_client *c = NULL;
    struct counter n = { 0, 200 };
    struct http_reply r;
    struct error err = { 0 };
    char url[64], *large = mem_zalloc(1000000);

    (void)state;
    snprintf(url, sizeof url, "https://127.0.0.1:%u", f->port);
    struct http_client_options opt = { .url = url, .ca_file = certs_path(&certs, "ca.pem") };
    assert_int_equal(http_client_new(&c, &opt, &err), OK);
    struct http_call calls[] = {
        /* First, because the server sends tickets then, which are no answer. */
        { .method = "POST", .path = "/upload", .next_piece = next_piece, .body_ctx = &n },
        { .method = "GET", .path = "/pool" },
        { .method = "GET", .path = "/stream?5000", .on_piece = count_piece, .piece_ctx = &n },
        { .method = "POST", .path = "/echo", .body = slice_of(large, 1000000) },
        { .method = "POST", .path = "/echo?5", .body = slice_of(large, 1000000) }, /* refused */
        { .method = "GET", .path = "/hello" },
    };
    static const int statuses[] = { 200, 200, 200, 200, 413, 200 };
    size_t sizes[] = { 8, 6, 0, 1000000, 0, 5 };
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (http_client_call(c, &calls[i], &r, &err) != OK)
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(r.status, statuses[i]);
        if (sizes[i])
            assert_int_equal(r.body.len, sizes[i]);
        http_reply_release(&r);
    }
    assert_int_equal(n.bytes, 5000000);
    assert_int_equal(atomic_load(&f->streamed), 10000000);
    mem_free(large);
    http_client_free(c);
    fixture_free(f);
}

static void a_kept_connection_serves_again_and_is_not_taken_for_stale(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct http_client *c = NULL;
    struct http_reply r;
    struct error err = { 0 };
    char url[64];

    (void)state;
    snprintf(url, sizeof url, "https://127.0.0.1:%u", f->port);
    struct http_client_options opt = { .url = url, .ca_file = certs_path(&certs, "ca.pem") };
    assert_int_equal(http_client_new(&c, &opt, &err), OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(
            http_client_call(c, &(struct http_call){ .method = "GET", .path = "/hello" }, &r, &err),
            OK);
        http_reply_release(&r);
        sleep_ms(5);
    }
    in_loop(f, count_in_loop);
    assert_int_equal(atomic_load(&f->active), 1000); /* one connection */
    http_client_free(c);
    fixture_free(f);
}

static void a_server_that_cannot_prove_itself_is_refused(void **state)
{
    static const struct {
        const char *cert, *ca, *error;
    } rows[] = {
        { "good", "good.pem", "unable to get" }, /* not the authority */
        { "good", NULL, "is not trusted" },      /* the system does not know it */
        { "other", "ca.pem", "IP address mismatch" },
        { "expired", "ca.pem", "certificate has expired" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *f = fixture_new_tls(default_limits(), config(rows[i].cert));
        struct http_reply r;
        struct error err = { 0 };
        const char *ca = rows[i].ca ? certs_path(&certs, rows[i].ca) : NULL;
        assert_int_equal(call(f, ca, "/hello", &r, &err), ERR_IO);
        if (!strstr(err.text, rows[i].error) || !strstr(err.text, "is not trusted") ||
            !strstr(err.text, "--cacert"))
            fail_msg("row %zu: %s", i, err.text);
        fixture_free(f);
    }
}

static void errors_of_a_client_say_what_to_do(void **state)
{
    struct fixture *f = fixture_new(default_limits()); /* speaks no TLS */
    struct http_reply r;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(call(f, certs_path(&certs, "ca.pem"), "/hello", &r, &err), ERR_IO);
    if (!strstr(err.text, "does not speak TLS with us: what it sends is not TLS"))
        fail_msg("%s", err.text);
    assert_int_equal(call(f, certs_path(&certs, "none.pem"), "/hello", &r, &err), ERR_INVALID);
    if (!strstr(err.text, "none.pem cannot be used: No such file"))
        fail_msg("%s", err.text);
    fixture_free(f);
}

/* ---- raw peers ---- */

struct peer {
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
};

static struct peer peer_new(const struct fixture *f)
{
    struct peer p = { .fd = dial(f), .ctx = SSL_CTX_new(TLS_client_method()) };

    p.ssl = SSL_new(p.ctx);
    SSL_set_fd(p.ssl, p.fd);
    return p;
}

static void peer_free(struct peer *p)
{
    SSL_free(p->ssl);
    SSL_CTX_free(p->ctx);
    close(p->fd);
    ERR_clear_error();
}

static bool peer_get_until(struct peer *p, struct buf *in, const char *text, size_t times)
{
    char bytes[16384];

    while (count_of(in, text) < times) {
        int n = SSL_read(p->ssl, bytes, sizeof bytes);
        if (n <= 0)
            return false;
        buf_add(in, bytes, (size_t)n);
    }
    return true;
}

/* To the end. True when the server has said goodbye. */
static bool peer_get_all(struct peer *p, struct buf *in)
{
    char bytes[16384];
    int n;

    while ((n = SSL_read(p->ssl, bytes, sizeof bytes)) > 0)
        buf_add(in, bytes, (size_t)n);
    buf_cstr(in);
    return SSL_get_error(p->ssl, n) == SSL_ERROR_ZERO_RETURN;
}

static void requests_in_one_record_are_all_answered(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer p = peer_new(f);
    struct buf in, out;

    (void)state;
    assert_int_equal(SSL_connect(p.ssl), 1);
    buf_init(&in, 0);
    buf_init(&out, 0);
    /* More than are read ahead: the rest waits in a place that no poll can see. */
    for (int i = 0; i < 200; i++)
        buf_add_str(&out, GET("/pool"));
    assert_int_equal(SSL_write(p.ssl, out.ptr, (int)out.len), (int)out.len);
    assert_true(peer_get_until(&p, &in, "pooled", 200));
    /* Several records at once, with a body that is taken slowly. */
    buf_clear(&out);
    buf_add_str(&out, "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 400000\r\n\r\n");
    memset(buf_reserve(&out, 400000), 'x', 400000);
    buf_add_str(&out, LAST("/hello"));
    assert_int_equal(SSL_write(p.ssl, out.ptr, (int)out.len), (int)out.len);
    assert_true(peer_get_all(&p, &in));
    assert_has(&in, "400000");
    assert_has(&in, "hello");
    peer_free(&p);
    buf_release(&in);
    buf_release(&out);
    fixture_free(f);
}

static void records_may_arrive_in_pieces(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer p = peer_new(f);
    BIO *ours = BIO_new(BIO_s_mem());
    struct buf in;

    (void)state;
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_set0_wbio(p.ssl, ours); /* the records go to memory, and from there byte by byte */
    SSL_write(p.ssl, LAST("/pool"), (int)strlen(LAST("/pool")));
    char *bytes;
    long len = BIO_get_mem_data(ours, &bytes);
    for (long i = 0; i < len; i++) {
        assert_true(put_bytes(p.fd, bytes + i, 1));
        if (i % 16 == 0)
            sleep_ms(1);
    }
    buf_init(&in, 0);
    assert_true(peer_get_all(&p, &in));
    assert_has(&in, "pooled");
    peer_free(&p);
    buf_release(&in);
    fixture_free(f);
}

static void a_peer_that_speaks_no_tls_is_told(void **state)
{
    static const char *const texts[] = { GET("/hello"), "POST /echo HTTP/1.1\r\n",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "G" };
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct buf in;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        talk(f, texts[i], &in);
        assert_has(&in, "HTTP/1.1 400 Bad Request\r\n");
        assert_has(&in, "this port speaks TLS");
        assert_has(&in, "Connection: close\r\n");
        buf_release(&in);
    }
    int fd = dial(f); /* neither TLS nor HTTP: no answer but an alert of TLS */
    buf_init(&in, 0);
    put(fd, "\x01\x02\x03 nonsense that is long enough to be looked at as a record");
    get_all(fd, &in);
    assert_false(has(&in, "HTTP"));
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void half_a_handshake_is_closed_in_time(void **state)
{
    struct http_limits limits = default_limits();
    limits.header_ms = 200;
    struct fixture *f = fixture_new_tls(limits, config("good"));
    struct buf in;
    uint64_t start = clock_ms();

    (void)state;
    talk(f, "", &in); /* not a byte */
    assert_int_equal(in.len, 0);
    buf_release(&in);
    talk(f, "\x16\x03\x01\x02", &in); /* the head of a record */
    assert_int_equal(in.len, 0);
    buf_release(&in);
    assert_true(clock_ms() - start < 8000); /* not the limit of an idle connection */
    /* Once it is over, the connection may be idle for longer. */
    struct peer p = peer_new(f);
    assert_int_equal(SSL_connect(p.ssl), 1);
    sleep_ms(600);
    SSL_write(p.ssl, LAST("/hello"), (int)strlen(LAST("/hello")));
    buf_init(&in, 0);
    assert_true(peer_get_all(&p, &in));
    assert_has(&in, "hello");
    buf_release(&in);
    peer_free(&p);
    fixture_free(f);
}

static void old_versions_and_weak_ciphers_are_refused(void **state)
{
    static const struct {
        int version;
        const char *ciphers;
        bool is_fine;
    } rows[] = {
        { TLS1_1_VERSION, "ALL:@SECLEVEL=0", false },
        { TLS1_2_VERSION, "AES128-SHA:AES256-SHA256:@SECLEVEL=0", false },
        { TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", false }, /* CBC */
        { TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256", true },
        { TLS1_3_VERSION, NULL, true },
    };
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct peer p = peer_new(f);
        SSL_set_min_proto_version(p.ssl, rows[i].version);
        SSL_set_max_proto_version(p.ssl, rows[i].version);
        if (rows[i].ciphers)
            assert_int_equal(SSL_set_cipher_list(p.ssl, rows[i].ciphers), 1);
        if ((SSL_connect(p.ssl) == 1) != rows[i].is_fine)
            fail_msg("row %zu", i);
        peer_free(&p);
    }
    fixture_free(f);
}

static void the_protocol_is_agreed_upon(void **state)
{
    static const unsigned char both[] = "\x08http/0.9\x08http/1.1", none[] = "\x08http/0.9";
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer p = peer_new(f);
    const unsigned char *chosen;
    unsigned len;

    (void)state;
    SSL_set_alpn_protos(p.ssl, both, sizeof both - 1);
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_get0_alpn_selected(p.ssl, &chosen, &len);
    assert_true(slice_is(slice_of(chosen, len), "http/1.1"));
    peer_free(&p);
    p = peer_new(f);
    SSL_set_alpn_protos(p.ssl, none, sizeof none - 1);
    assert_int_not_equal(SSL_connect(p.ssl), 1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
    peer_free(&p);
    fixture_free(f);
}

/* A reply that ends with the connection is whole only if the server has said goodbye. */
static void a_broken_reply_does_not_look_like_a_whole_one(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer p = peer_new(f);
    struct buf in;

    (void)state;
    buf_init(&in, 0);
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_write(p.ssl, "GET /stream?3 HTTP/1.0\r\n\r\n", 26);
    assert_true(peer_get_all(&p, &in));
    peer_free(&p);
    p = peer_new(f);
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_write(p.ssl, "GET /abort HTTP/1.0\r\n\r\n", 23);
    assert_false(peer_get_all(&p, &in));
    peer_free(&p);
    buf_release(&in);
    fixture_free(f);
}

static void a_client_that_leaves_cancels(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer p = peer_new(f);

    (void)state;
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_write(p.ssl, GET("/hold"), (int)strlen(GET("/hold")));
    wait_held(f, 1);
    SSL_shutdown(p.ssl); /* the goodbye alone is enough */
    wait_until(&f->cancels, 1);
    peer_free(&p);
    p = peer_new(f);
    assert_int_equal(SSL_connect(p.ssl), 1);
    SSL_write(p.ssl, GET("/hold"), (int)strlen(GET("/hold")));
    wait_held(f, 2);
    peer_free(&p); /* without a goodbye */
    wait_until(&f->cancels, 2);
    fixture_free(f);
}

/* ---- other certificates ---- */

static struct tls_config *second;

static void use_second(struct loop_task *task)
{
    struct fixture *f = CONTAINER_OF(task, struct fixture, task);

    http_server_set_tls(f->server, second);
    atomic_store(&f->drained, 1);
}

static void peer_name(struct peer *p, char *out, int size)
{
    X509 *x = SSL_get1_peer_certificate(p->ssl);

    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, out, size);
    X509_free(x);
}

static void a_new_certificate_is_for_new_connections(void **state)
{
    struct fixture *f = fixture_new_tls(default_limits(), config("good"));
    struct peer old = peer_new(f), new;
    struct buf in;
    char name[64];

    (void)state;
    assert_int_equal(SSL_connect(old.ssl), 1);
    second = config("second");
    in_loop(f, use_second);
    new = peer_new(f);
    assert_int_equal(SSL_connect(new.ssl), 1);
    peer_name(&old, name, sizeof name);
    assert_string_equal(name, "good");
    peer_name(&new, name, sizeof name);
    assert_string_equal(name, "second");
    buf_init(&in, 0);
    SSL_write(old.ssl, LAST("/pool"), (int)strlen(LAST("/pool")));
    assert_true(peer_get_all(&old, &in)); /* those that were there go on */
    assert_has(&in, "pooled");
    buf_release(&in);
    peer_free(&old);
    peer_free(&new);
    fixture_free(f);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    static const struct {
        const char *cert, *key, *error;
    } rows[] = {
        { "none.pem", "good.key", "none.pem cannot be used: No such file" },
        { "good.pem", "none.key", "none.key cannot be used: No such file" },
        { "good.pem", "second.key", "second.key cannot be used: key values mismatch" },
        { "good.key", "good.key", "good.key cannot be used: no start line" },
        { "good.pem", "good.pem", "good.pem cannot be used: " },
        { "good.pem", "locked.key", "locked.key cannot be used: " },
        { "empty.pem", "good.key", "empty.pem cannot be used: no start line" },
    };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    struct tls_config *tls = NULL;

    (void)state;
    certs_write_key(certs_path(&certs, "locked.key"), key, "passphrase");
    EVP_PKEY_free(key);
    fclose(fopen(certs_path(&certs, "empty.pem"), "w"));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error err = { 0 };
        assert_int_equal(tls_config_server(&tls, certs_path(&certs, rows[i].cert),
                                           certs_path(&certs, rows[i].key), &err),
                         ERR_INVALID);
        if (!strstr(err.text, rows[i].error))
            fail_msg("row %zu: %s", i, err.text);
    }
    assert_null(tls);
    tls = config("expired"); /* to be warned of, not refused */
    struct tls_validity v = tls_config_validity(tls);
    assert_in_range(v.until_s - v.from_s, 86340 - 5, 86340 + 5);
    assert_in_range(time(NULL) - v.until_s, 55, 120);
    tls_config_free(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_bodies_pass_through),
        cmocka_unit_test(a_kept_connection_serves_again_and_is_not_taken_for_stale),
        cmocka_unit_test(a_server_that_cannot_prove_itself_is_refused),
        cmocka_unit_test(errors_of_a_client_say_what_to_do),
        cmocka_unit_test(requests_in_one_record_are_all_answered),
        cmocka_unit_test(records_may_arrive_in_pieces),
        cmocka_unit_test(a_peer_that_speaks_no_tls_is_told),
        cmocka_unit_test(half_a_handshake_is_closed_in_time),
        cmocka_unit_test(old_versions_and_weak_ciphers_are_refused),
        cmocka_unit_test(the_protocol_is_agreed_upon),
        cmocka_unit_test(a_broken_reply_does_not_look_like_a_whole_one),
        cmocka_unit_test(a_client_that_leaves_cancels),
        cmocka_unit_test(a_new_certificate_is_for_new_connections),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
    };

    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
