/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client against the server, and against servers that misbehave. */
#include "fixture.h"
#include "net/client.h"

static struct http_client *client_for(uint16_t port, struct http_client_options opt)
{
    struct http_client *c = NULL;
    struct error err = { 0 };
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    opt.url = url;
    if (http_client_new(&c, &opt, &err) != OK)
        fail_msg("%s", err.text);
    return c;
}

static void call_ok(struct http_client *c, const struct http_call *call, struct http_reply *reply)
{
    struct error err = { 0 };

    if (http_client_call(c, call, reply, &err) != OK)
        fail_msg("%s", err.text);
}

static void calls_share_a_connection(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct http_client *c = client_for(f->port, (struct http_client_options){ 0 });
    struct http_reply r;

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct http_call call = { .method = "GET", .path = "/hello" };
        call_ok(c, &call, &r);
        assert_int_equal(r.status, 200);
        assert_true(slice_is(buf_slice(&r.content_type), "text/plain"));
        assert_true(slice_is(buf_slice(&r.body), "hello"));
        http_reply_release(&r);
    }
    call_ok(c, &(struct http_call){ .method = "HEAD", .path = "/hello" }, &r);
    assert_int_equal(r.body.len, 0);
    http_reply_release(&r);
    call_ok(c, &(struct http_call){ .method = "GET", .path = "/nothing" }, &r);
    assert_int_equal(r.status, 204);
    http_reply_release(&r);
    call_ok(c, &(struct http_call){ .method = "GET", .path = "/missing" }, &r);
    assert_int_equal(r.status, 404);
    http_reply_release(&r);
    in_loop(f, count_in_loop);
    assert_int_equal(atomic_load(&f->active), 1000); /* one connection */
    http_client_free(c);
    fixture_free(f);
}

static struct slice next_piece(void *ctx)
{
    int *left = ctx;

    return *left > 0 ? (*left)--, slice_str("0123456789") : slice_of(NULL, 0);
}

static void bodies_go_whole_or_in_pieces(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct http_client *c = client_for(f->port, (struct http_client_options){ 0 });
    struct http_reply r;
    int pieces = 1000;
    char large[100000];

    (void)state;
    memset(large, 'x', sizeof large);
    call_ok(c, &(struct http_call){ .method = "POST", .path = "/echo", .body = slice_str("small") },
            &r);
    assert_true(slice_is(buf_slice(&r.body), "small"));
    http_reply_release(&r);
    call_ok(c,
            &(struct http_call){
                .method = "POST", .path = "/echo", .body = slice_of(large, sizeof large) },
            &r);
    assert_int_equal(r.body.len, sizeof large);
    http_reply_release(&r);
    call_ok(c,
            &(struct http_call){
                .method = "POST", .path = "/echo", .next_piece = next_piece, .body_ctx = &pieces },
            &r);
    assert_int_equal(r.body.len, 10000);
    http_reply_release(&r);
    http_client_free(c);
    fixture_free(f);
}

static void an_early_refusal_is_read_while_sending(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct http_client *c = client_for(f->port, (struct http_client_options){ 0 });
    struct http_reply r;
    int pieces = 5000000; /* 50 MB, of which 1 is taken */
    char *large = mem_zalloc(30000000);

    (void)state;
    call_ok(
        c,
        &(struct http_call){ .method = "POST", .path = "/echo", .body = slice_of(large, 30000000) },
        &r);
    assert_int_equal(r.status, 413);
    http_reply_release(&r);
    call_ok(c,
            &(struct http_call){
                .method = "POST", .path = "/echo", .next_piece = next_piece, .body_ctx = &pieces },
            &r);
    assert_int_equal(r.status, 413);
    http_reply_release(&r);
    call_ok(c, &(struct http_call){ .method = "GET", .path = "/hello" }, &r);
    assert_int_equal(r.status, 200);
    http_reply_release(&r);
    mem_free(large);
    http_client_free(c);
    fixture_free(f);
}

struct taken {
    size_t bytes, limit;
};

static bool take_piece(void *ctx, int status, struct slice piece)
{
    struct taken *t = ctx;

    assert_int_equal(status, 200);
    t->bytes += piece.len;
    return t->bytes < t->limit;
}

static void replies_may_be_taken_in_pieces_and_stopped(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct http_client *c = client_for(f->port, (struct http_client_options){ 0 });
    struct taken t = { 0, SIZE_MAX };
    struct http_call call = {
        .method = "GET", .path = "/stream?3000", .on_piece = take_piece, .piece_ctx = &t
    };
    struct http_reply r;

    (void)state;
    call_ok(c, &call, &r);
    assert_int_equal(t.bytes, 3000000);
    assert_int_equal(r.body.len, 0);
    http_reply_release(&r);
    t = (struct taken){ 0, 5000 };
    call.path = "/stream?100000000";
    call_ok(c, &call, &r);
    assert_true(t.bytes >= 5000 && t.bytes < 1000000);
    http_reply_release(&r);
    wait_until(&f->writes_failed, 1); /* the server has noticed */
    call_ok(c, &(struct http_call){ .method = "GET", .path = "/hello" }, &r);
    assert_int_equal(r.status, 200);
    http_reply_release(&r);
    http_client_free(c);
    fixture_free(f);
}

static void a_kept_connection_that_was_closed_is_opened_again(void **state)
{
    struct http_limits limits = default_limits();
    limits.idle_ms = 50;
    struct fixture *f = fixture_new(limits);
    struct http_client *c = client_for(f->port, (struct http_client_options){ 0 });
    struct http_reply r;

    (void)state;
    for (int i = 0; i < 3; i++) {
        call_ok(c, &(struct http_call){ .method = "POST", .path = "/echo", .body = slice_str("x") },
                &r);
        assert_int_equal(r.status, 200);
        http_reply_release(&r);
        sleep_ms(400);
    }
    http_client_free(c);
    fixture_free(f);
}

static void errors_say_what_to_do(void **state)
{
    struct http_client *c = NULL;
    struct http_client_options opt = { .url = "ftp://127.0.0.1:1" };
    struct error err = { 0 };
    struct http_reply r;
    struct fixture *f = fixture_new(default_limits());
    uint16_t port = f->port;

    (void)state;
    fixture_free(f); /* nobody listens there now */
    assert_int_equal(http_client_new(&c, &opt, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "the URL must begin with http:// or https:// (got 'ftp://127.0.0.1:1')");
    opt.url = "127.0.0.1:8765";
    assert_int_equal(http_client_new(&c, &opt, &err), ERR_INVALID);
    opt.url = "http://";
    assert_int_equal(http_client_new(&c, &opt, &err), ERR_INVALID);
    opt.url = "http://[::1";
    assert_int_equal(http_client_new(&c, &opt, &err), ERR_INVALID);
    opt.url = "http://h:1/path";
    assert_int_equal(http_client_new(&c, &opt, &err), ERR_INVALID);
    c = client_for(port, (struct http_client_options){ 0 });
    assert_int_equal(
        http_client_call(c, &(struct http_call){ .method = "GET", .path = "/" }, &r, &err), ERR_IO);
    char text[128];
    snprintf(text, sizeof text,
             "cannot connect to http://127.0.0.1:%u: Connection refused; is themisd running?",
             port);
    assert_string_equal(err.text, text);
    http_client_free(c);
}

/* ---- a server of one answer ---- */

struct canned {
    int listener;
    uint16_t port;
    const char *answer;
    struct buf seen;
    unsigned delay_ms;
    pthread_t thread;
};

static void *serve_canned(void *arg)
{
    struct canned *s = arg;
    int fd = accept(s->listener, NULL, NULL);

    get_until(fd, &s->seen, "\r\n\r\n", 1);
    put(fd, s->answer);
    sleep_ms(s->delay_ms);
    close(fd);
    return NULL;
}

static void canned_start(struct canned *s, const char *answer, unsigned delay_ms)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof a;

    *s = (struct canned){ .answer = answer, .delay_ms = delay_ms };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->listener, 5), 0);
    getsockname(s->listener, (struct sockaddr *)&a, &len);
    s->port = ntohs(a.sin_port);
    pthread_create(&s->thread, NULL, serve_canned, s);
}

static enum errc ask_canned(struct canned *s, struct http_client_options opt, struct http_reply *r,
                            struct error *err)
{
    struct http_client *c = client_for(s->port, opt);
    enum errc rc =
        http_client_call(c, &(struct http_call){ .method = "GET", .path = "/x" }, r, err);

    http_client_free(c);
    pthread_join(s->thread, NULL);
    close(s->listener);
    return rc;
}

static void credentials_are_sent(void **state)
{
    struct canned s;
    struct http_reply r;
    struct error err = { 0 };

    (void)state;
    canned_start(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0);
    assert_int_equal(
        ask_canned(&s, (struct http_client_options){ .user = "Aladdin", .password = "open sesame" },
                   &r, &err),
        OK);
    assert_has(&s.seen, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
    buf_release(&s.seen);
    http_reply_release(&r);
    canned_start(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0);
    assert_int_equal(ask_canned(&s, (struct http_client_options){ .api_key = "k1" }, &r, &err), OK);
    assert_has(&s.seen, "Authorization: Bearer k1\r\n");
    assert_has(&s.seen, "Host: 127.0.0.1:");
    buf_release(&s.seen);
    http_reply_release(&r);
}

static void odd_answers_are_understood_or_refused(void **state)
{
    static const struct {
        const char *answer, *body, *error;
        int status;
    } rows[] = {
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", NULL,
          200 },
        { "HTTP/1.1 200 OK\r\n\r\nto the end", "to the end", NULL, 200 },
        { "HTTP/1.0 200 OK\r\n\r\nto the end", "to the end", NULL, 200 },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", NULL,
          200 },
        { "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", NULL, "closed the connection before",
          0 },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", NULL,
          "closed the connection before", 0 },
        { "", NULL, "closed the connection before", 0 },
        { "SSH-2.0-OpenSSH\r\n", NULL, "did not answer with HTTP", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct canned s;
        struct http_reply r;
        struct error err = { 0 };
        canned_start(&s, rows[i].answer, 0);
        enum errc rc = ask_canned(&s, (struct http_client_options){ 0 }, &r, &err);
        buf_release(&s.seen);
        if (rows[i].error) {
            assert_int_equal(rc, ERR_IO);
            if (!strstr(err.text, rows[i].error))
                fail_msg("row %zu: %s", i, err.text);
            continue;
        }
        if (rc != OK)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(r.status, rows[i].status);
        assert_true(slice_is(buf_slice(&r.body), rows[i].body));
        http_reply_release(&r);
    }
}

static void silence_times_out(void **state)
{
    struct canned s;
    struct http_reply r;
    struct error err = { 0 };

    (void)state;
    canned_start(&s, "HTTP/1.1 200 OK\r\n", 400);
    assert_int_equal(ask_canned(&s, (struct http_client_options){ .read_ms = 100 }, &r, &err),
                     ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "did not answer within 100 ms"));
    buf_release(&s.seen);
}

/* ---- events ---- */

static bool add_event(void *ctx, struct slice data)
{
    struct buf *all = ctx;

    buf_add_slice(all, data);
    buf_add_char(all, '|');
    return all->len < 60;
}

static void events_may_be_split_anywhere(void **state)
{
    static const char text[] =
        ": comment\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: more\r\n\r\ndata: [DONE]\n\n";

    (void)state;
    for (size_t cut = 0; cut + 1 <= sizeof text; cut++) {
        struct sse_reader r;
        struct buf all;
        sse_reader_init(&r);
        buf_init(&all, 0);
        assert_true(sse_reader_add(&r, slice_of(text, cut), add_event, &all));
        assert_true(
            sse_reader_add(&r, slice_of(text + cut, sizeof text - 1 - cut), add_event, &all));
        assert_string_equal(buf_cstr(&all), "one|two\nmore|[DONE]|");
        sse_reader_release(&r);
        buf_release(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_share_a_connection),
        cmocka_unit_test(bodies_go_whole_or_in_pieces),
        cmocka_unit_test(an_early_refusal_is_read_while_sending),
        cmocka_unit_test(replies_may_be_taken_in_pieces_and_stopped),
        cmocka_unit_test(a_kept_connection_that_was_closed_is_opened_again),
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(credentials_are_sent),
        cmocka_unit_test(odd_answers_are_understood_or_refused),
        cmocka_unit_test(silence_times_out),
        cmocka_unit_test(events_may_be_split_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
