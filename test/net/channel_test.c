/* SPDX-License-Identifier: Apache-2.0 */
/* A channel and the server of a peer, on one loop that the test turns: mutual TLS, calls, ends. */
#include "certs.h"
#include "net/channel.h"
#include "net/loop.h"
#include "net/tls.h"
#include <time.h>

enum { WAIT_S = 60, BIG = 8 * MIB, ANSWER = 24 * MIB };

static struct certs certs;

struct world {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    struct channel *channel;
    int ups, downs, refused, cancelled;
    char why[200], refused_why[200], peer[64];
    struct exchange *held; /* of /hold */
};

struct call {
    struct http2_call *http;
    int status;
    struct buf body;
    bool is_paused, is_over, is_whole;
    struct world *world;
};

static struct tls_config *mutual(const char *ca, const char *name)
{
    struct tls_config *tls = NULL;
    struct error err = { 0 };
    char cert[32], key[32];

    snprintf(cert, sizeof cert, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    if (tls_config_mutual(&tls, certs_path(&certs, ca), certs_path(&certs, cert),
                          certs_path(&certs, key), &err) != OK)
        fail_msg("%s", err.text);
    return tls;
}

/* ---- the server ---- */

static void on_gone(void *ctx)
{
    struct world *w = ctx;

    w->cancelled++;
}

static void on_headers(void *ctx, struct exchange *x)
{
    (void)ctx;
    exchange_want_body(x, 0);
}

static void on_request(void *ctx, struct exchange *x)
{
    struct world *w = ctx;
    struct slice path = exchange_path(x);
    const char *name = exchange_peer_name(x);

    snprintf(w->peer, sizeof w->peer, "%s", name ? name : "nobody");
    if (slice_is(path, "/echo")) {
        exchange_reply(x, 200, "text/plain", NULL, 0, exchange_body(x));
    } else if (slice_is(path, "/big")) {
        struct buf body;
        buf_init(&body, 0);
        memset(buf_reserve(&body, ANSWER), 'x', ANSWER);
        exchange_reply(x, 200, "text/plain", NULL, 0, buf_slice(&body));
        buf_release(&body);
    } else if (slice_is(path, "/hold")) {
        w->held = exchange_ref(x);
        exchange_on_cancel(x, on_gone, w);
        exchange_start(x, 200, "text/plain", NULL, 0);
        exchange_write(x, slice_str("begun"));
    } else {
        exchange_reply(x, 404, "text/plain", NULL, 0, slice_str("none"));
    }
}

static void on_refused(void *ctx, const char *peer, const char *why)
{
    struct world *w = ctx;

    assert_non_null(strstr(peer, "127.0.0.1:"));
    w->refused++;
    snprintf(w->refused_why, sizeof w->refused_why, "%s", why);
}

static void listen_as(struct world *w, const char *name)
{
    struct http_server_options opt = {
        .host = "127.0.0.1",
        .port = w->port,
        .limits = { .header_bytes = 16 * KIB,
                    .body_bytes = 64 * MIB,
                    .connections = 100,
                    .header_ms = 30000,
                    .body_ms = 60000,
                    .idle_ms = 60000 },
        .handler = { .on_headers = on_headers, .on_request = on_request, .ctx = w },
        .tls = mutual("ca.pem", name),
        .on_refused = on_refused,
    };
    struct error err = { 0 };

    if (http_server_new(&w->server, w->loop, &opt, &err) != OK)
        fail_msg("%s", err.text);
    w->port = http_server_port(w->server);
}

/* ---- the channel ---- */

static void on_up(void *ctx)
{
    struct world *w = ctx;

    w->ups++;
}

static void on_down(void *ctx, const char *why)
{
    struct world *w = ctx;

    w->downs++;
    snprintf(w->why, sizeof w->why, "%s", why);
}

static void connect_as(struct world *w, const char *ca, const char *own, const char *name)
{
    char port[8];
    struct tls_config *tls = mutual(ca, own);
    struct channel_options opt = { .host = "127.0.0.1",
                                   .port = port,
                                   .name = name,
                                   .connect_ms = 30000,
                                   .ping_ms = 50,
                                   .ping_misses = 200,
                                   .on_up = on_up,
                                   .on_down = on_down,
                                   .ctx = w };

    snprintf(port, sizeof port, "%u", w->port);
    w->channel = channel_new(w->loop, tls, &opt);
    tls_config_free(tls);
}

static void begin(struct world *w)
{
    struct error err = { 0 };

    memset(w, 0, sizeof *w);
    assert_int_equal(loop_new(&w->loop, &err), OK);
    listen_as(w, "n1");
}

static void end(struct world *w)
{
    channel_free(w->channel);
    exchange_unref(w->held);
    http_server_free(w->server);
    loop_free(w->loop);
}

/* Turns the loop until it holds. */
#define until(w, condition)                                                                        \
    do {                                                                                           \
        for (time_t end_ = time(NULL) + WAIT_S; !(condition);) {                                   \
            loop_step((w)->loop);                                                                  \
            if (time(NULL) > end_)                                                                 \
                fail_msg("not in time: %s (%d up, %d down: %s)", #condition, (w)->ups, (w)->downs, \
                         (w)->why);                                                                \
        }                                                                                          \
    } while (0)

/* ---- calls ---- */

static void on_head(void *ctx, int status)
{
    struct call *c = ctx;

    c->status = status;
}

static bool on_piece(void *ctx, struct slice bytes)
{
    struct call *c = ctx;

    buf_add_slice(&c->body, bytes);
    return !c->is_paused;
}

static void on_end(void *ctx, bool is_whole)
{
    struct call *c = ctx;

    assert_false(c->is_over);
    c->is_over = true;
    c->is_whole = is_whole;
}

static void ask(struct world *w, struct call *c, const char *path, struct slice body)
{
    struct http2_ask a = { .authority = "n1", .path = path, .body = body };
    struct http2_call_events e = { on_head, on_piece, on_end, c };

    *c = (struct call){ .world = w };
    c->http = channel_ask(w->channel, &a, &e);
}

static void calls_run_side_by_side(void **state)
{
    struct world w;
    struct call calls[20], missing;
    char texts[20][16];

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    for (int i = 0; i < 20; i++) {
        snprintf(texts[i], sizeof texts[i], "call %d", i);
        ask(&w, &calls[i], "/echo", slice_str(texts[i]));
    }
    ask(&w, &missing, "/none", slice_str(""));
    for (int i = 0; i < 20; i++) {
        until(&w, calls[i].is_over);
        assert_true(calls[i].is_whole && calls[i].status == 200);
        assert_string_equal(buf_cstr(&calls[i].body), texts[i]);
        buf_release(&calls[i].body);
    }
    until(&w, missing.is_over);
    assert_int_equal(missing.status, 404);
    assert_string_equal(buf_cstr(&missing.body), "none");
    buf_release(&missing.body);
    assert_string_equal(w.peer, "n2"); /* proved by the certificate */
    until(&w, channel_rtt_us(w.channel));
    assert_int_equal(w.downs, 0);
    end(&w);
}

static void large_bodies_pass_both_windows(void **state)
{
    struct world w;
    struct call c;
    struct buf body;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    buf_init(&body, 0);
    for (uint32_t i = 0; body.len < BIG; i++)
        buf_add(&body, &i, sizeof i);
    ask(&w, &c, "/echo", buf_slice(&body));
    until(&w, c.is_over);
    assert_true(c.is_whole);
    assert_true(slice_eq(buf_slice(&c.body), buf_slice(&body)));
    buf_release(&c.body);
    buf_release(&body);
    end(&w);
}

static void a_receiver_that_pauses_holds_the_sender_back(void **state)
{
    struct world w;
    struct call c, other;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    ask(&w, &c, "/big", slice_str(""));
    c.is_paused = true;
    until(&w, c.body.len > 0);
    ask(&w, &other, "/echo", slice_str("meanwhile")); /* the others go on */
    until(&w, other.is_over);
    assert_true(other.is_whole);
    for (int i = 0; i < 200; i++)
        loop_step(w.loop);
    assert_true(c.body.len < ANSWER / 2 && !c.is_over);
    while (!c.is_over) {
        if (c.body.len > ANSWER / 2)
            c.is_paused = false;
        channel_resume(w.channel, c.http);
        loop_step(w.loop);
    }
    assert_true(c.is_whole);
    assert_int_equal(c.body.len, ANSWER);
    buf_release(&c.body);
    buf_release(&other.body);
    end(&w);
}

static void a_cancelled_call_ends_the_work(void **state)
{
    struct world w;
    struct call c;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    ask(&w, &c, "/hold", slice_str(""));
    until(&w, c.body.len == 5);
    channel_cancel(w.channel, c.http);
    until(&w, w.cancelled == 1);
    assert_false(c.is_over); /* whoever cancels is not called */
    buf_release(&c.body);
    end(&w);
}

static void calls_end_with_the_connection_and_it_comes_back(void **state)
{
    struct world w;
    struct call c, late;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    ask(&w, &c, "/hold", slice_str(""));
    until(&w, c.body.len == 5);
    http_server_free(w.server);
    w.server = NULL;
    until(&w, c.is_over);
    assert_false(c.is_whole);
    assert_true(w.downs >= 1);
    assert_false(channel_is_up(w.channel));
    ask(&w, &late, "/echo", slice_str(""));
    assert_null(late.http); /* at once */
    until(&w, w.downs >= 3);
    assert_non_null(strstr(w.why, "refused"));
    listen_as(&w, "n1");
    until(&w, w.ups == 2);
    ask(&w, &late, "/echo", slice_str("again"));
    until(&w, late.is_over);
    assert_true(late.is_whole);
    buf_release(&late.body);
    buf_release(&c.body);
    end(&w);
}

static void the_server_must_be_who_it_should_be(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n3");
    until(&w, w.downs >= 1);
    assert_int_equal(w.ups, 0);
    assert_non_null(strstr(w.why, "hostname mismatch"));
    end(&w);
}

/* TLS 1.3 lets the client up before the server has looked at its certificate. */
static void a_stranger_is_refused_and_noticed(void **state)
{
    struct world w;
    struct call c;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "stranger", "n1");
    until(&w, w.refused >= 1);
    assert_non_null(strstr(w.refused_why, "certificate"));
    until(&w, w.downs >= 1);
    if (channel_is_up(w.channel)) { /* the next try, which will fail as well */
        ask(&w, &c, "/echo", slice_str("let me in"));
        until(&w, c.is_over);
        assert_false(c.is_whole);
    }
    assert_string_equal(w.peer, ""); /* no request came through */
    end(&w);
}

static void later_connections_show_the_new_certificate(void **state)
{
    struct world w;
    struct call c;
    struct tls_config *tls;

    (void)state;
    begin(&w);
    connect_as(&w, "ca.pem", "n2", "n1");
    until(&w, w.ups == 1);
    tls = mutual("ca.pem", "n3");
    channel_set_tls(w.channel, tls);
    tls_config_free(tls);
    http_server_free(w.server);
    listen_as(&w, "n1");
    until(&w, w.ups == 2);
    ask(&w, &c, "/echo", slice_str("who am I?"));
    until(&w, c.is_over);
    assert_string_equal(w.peer, "n3");
    buf_release(&c.body);
    end(&w);
}

static void a_certificate_has_one_name(void **state)
{
    struct tls_config *one = mutual("ca.pem", "n1"), *two = mutual("ca.pem", "two");
    char name[64];

    (void)state;
    assert_true(tls_config_name(one, name, sizeof name));
    assert_string_equal(name, "n1");
    assert_false(tls_config_name(one, name, 2));
    assert_false(tls_config_name(two, name, sizeof name));
    tls_config_free(one);
    tls_config_free(two);
}

static int make_certs(void **state)
{
    struct certs other;
    char command[300];

    (void)state;
    certs_open(&certs);
    certs_add(&certs, "n1", "DNS:n1", 86400);
    certs_add(&certs, "n2", "DNS:n2", 86400);
    certs_add(&certs, "n3", "DNS:n3", 86400);
    certs_add(&certs, "two", "DNS:n1,DNS:n2", 86400);
    certs_open(&other);
    certs_add(&other, "stranger", "DNS:n2", 86400);
    snprintf(command, sizeof command, "cp %s/stranger.* %s", other.dir, certs.dir);
    assert_int_equal(system(command), 0);
    certs_close(&other);
    return 0;
}

static int remove_certs(void **state)
{
    (void)state;
    certs_close(&certs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_run_side_by_side),
        cmocka_unit_test(large_bodies_pass_both_windows),
        cmocka_unit_test(a_receiver_that_pauses_holds_the_sender_back),
        cmocka_unit_test(a_cancelled_call_ends_the_work),
        cmocka_unit_test(calls_end_with_the_connection_and_it_comes_back),
        cmocka_unit_test(the_server_must_be_who_it_should_be),
        cmocka_unit_test(a_stranger_is_refused_and_noticed),
        cmocka_unit_test(later_connections_show_the_new_certificate),
        cmocka_unit_test(a_certificate_has_one_name),
    };

    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
