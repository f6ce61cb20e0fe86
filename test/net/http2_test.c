/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 over real sockets: many requests at once, windows, ends. Limits are in http2_limit_test. */
#include "h2peer.h"

static struct h2_peer p; /* large */

static void replies_carry_the_usual_headers(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_wait(&p, h2_get(&p, "/hello"));
    assert_int_equal(a->status, 200);
    assert_string_equal(buf_cstr(&a->body), "hello");
    assert_has(&a->headers, "date: ");
    assert_has(&a->headers, " GMT\n");
    assert_has(&a->headers, "server: themis/test\n");
    assert_has(&a->headers, "content-type: text/plain\n");
    assert_has(&a->headers, "content-length: 5\n");
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .method = "HEAD", .path = "/hello" }));
    assert_int_equal(a->status, 200);
    assert_has(&a->headers, "content-length: 5\n");
    assert_int_equal(a->body.len, 0);
    a = h2_wait(&p, h2_get(&p, "/nothing"));
    assert_int_equal(a->status, 204);
    assert_false(has(&a->headers, "content-"));
    a = h2_wait(&p, h2_get(&p, "/missing?with=query"));
    assert_int_equal(a->status, 404);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .method = "HEAD", .path = "/stream?100000" }));
    assert_int_equal(a->status, 200);
    wait_until(&f->writes_failed, 1); /* its writer is stopped */
    h2_close(&p);
    fixture_free(f);
}

static void events_arrive_as_they_are_written(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_answer(&p, h2_get(&p, "/hold"));
    h2_send(&p);
    wait_held(f, 1);
    exchange_start_events(f->held[0], NULL, 0);
    h2_until(&p, a->status);
    assert_has(&a->headers, "content-type: text/event-stream");
    assert_has(&a->headers, "cache-control: no-cache\n");
    assert_has(&a->headers, "x-accel-buffering: no\n");
    assert_false(has(&a->headers, "content-length"));
    for (size_t i = 1; i <= 3; i++) {
        exchange_event(f->held[0], slice_str("{\"n\":1}"));
        h2_until(&p, count_of(&a->body, "data: {\"n\":1}\n\n") == i);
        assert_int_equal(count_of(&a->body, "data: {\"n\":1}\n\n"), i);
    }
    assert_false(a->is_closed);
    exchange_finish(f->held[0]);
    assert_int_equal(h2_wait(&p, a->id)->code, NGHTTP2_NO_ERROR);
    h2_close(&p);
    exchange_unref(f->held[0]);
    f->held_count = 0;
    fixture_free(f);
}

static void headers_reach_the_handler(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){
                                   .path = "/teapot?q",
                                   .extra = { "x-other", "1", "x-tea", "green", "x-tea", "black" },
                               }));
    assert_int_equal(a->status, 418);
    assert_string_equal(buf_cstr(&a->body), "green, black");
    h2_close(&p);
    fixture_free(f);
}

static void requests_are_answered_as_they_are_ready(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    int32_t first, second, ids[200];

    (void)state;
    h2_open(&p, f);
    first = h2_get(&p, "/hold");
    second = h2_get(&p, "/pool");
    h2_wait(&p, second);
    assert_false(h2_answer(&p, first)->is_closed);
    wait_held(f, 1);
    exchange_reply(f->held[0], 200, "text/plain", NULL, 0, slice_str("at last"));
    assert_string_equal(buf_cstr(&h2_wait(&p, first)->body), "at last");
    for (int i = 0; i < 200; i++) { /* twice as many as may run at once: the client waits */
        char path[32];
        snprintf(path, sizeof path, "/order?%d", i);
        ids[i] = h2_get(&p, path);
    }
    for (int i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof text, "<%d>", i);
        assert_string_equal(buf_cstr(&h2_wait(&p, ids[i])->body), text);
    }
    h2_close(&p);
    exchange_unref(f->held[0]);
    f->held_count = 0;
    fixture_free(f);
}

static void bodies_arrive_whole_or_in_pieces(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;
    int32_t echo, upload;

    (void)state;
    h2_open(&p, f);
    echo = h2_post(&p, "/echo", 1000000);
    upload = h2_post(&p, "/upload", 30000000); /* more than all windows together */
    a = h2_wait(&p, echo);
    assert_int_equal(a->status, 200);
    assert_int_equal(a->body.len, 1000000);
    assert_string_equal(buf_cstr(&h2_wait(&p, upload)->body), "30000000");
    a = h2_wait(&p, h2_post(&p, "/echo", 0));
    assert_int_equal(a->status, 200);
    assert_int_equal(a->body.len, 0);
    h2_close(&p);
    fixture_free(f);
}

static void a_client_is_told_to_continue(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_request r = { .method = "POST",
                            .path = "/echo",
                            .has_body = true,
                            .holds_end = true,
                            .extra = { "expect", "100-continue" } };
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_answer(&p, h2_ask(&p, r));
    h2_until(&p, a->informational);
    assert_int_equal(a->informational, 100);
    a->to_send = 3;
    a->holds_end = false;
    nghttp2_session_resume_data(p.session, a->id);
    assert_string_equal(buf_cstr(&h2_wait(&p, a->id)->body), "bbb");
    r.path = "/teapot"; /* answered without the body */
    a = h2_answer(&p, h2_ask(&p, r));
    h2_until(&p, a->status);
    assert_int_equal(a->status, 418);
    assert_int_equal(a->informational, 0);
    r.extra[1] = "200-ok";
    a = h2_answer(&p, h2_ask(&p, r));
    h2_until(&p, a->status);
    assert_int_equal(a->status, 417);
    h2_close(&p);
    fixture_free(f);
}

/* ---- windows ---- */

static void a_paused_body_stops_its_client_but_no_other(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    int32_t id;

    (void)state;
    atomic_store(&f->is_resume_held, true);
    h2_open(&p, f);
    id = h2_post(&p, "/upload", 10000000);
    h2_until(&p, nghttp2_session_get_stream_remote_window_size(p.session, id) == 0);
    assert_int_equal(nghttp2_session_get_stream_remote_window_size(p.session, id), 0);
    h2_for(&p, 100);
    size_t sent = 10000000 - h2_answer(&p, id)->to_send;
    assert_in_range(sent, 4 * MIB, 4 * MIB + 64 * KIB); /* the first piece is taken */
    assert_true(atomic_load(&f->streamed) <= 128 * KIB);
    h2_wait(&p, h2_get(&p, "/hello"));
    assert_int_equal(h2_wait(&p, h2_post(&p, "/echo", 1000000))->status, 200);
    atomic_store(&f->is_resume_held, false);
    assert_string_equal(buf_cstr(&h2_wait(&p, id)->body), "10000000");
    h2_close(&p);
    fixture_free(f);
}

/* Bytes that wait in a stream that ends count for the connection's window no more. */
static void the_window_of_the_connection_is_not_lost(void **state)
{
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    atomic_store(&f->is_resume_held, true);
    h2_open(&p, f);
    for (int i = 0; i < 8; i++) { /* 32 MiB of 16 */
        int32_t id = h2_post(&p, "/upload", 10000000);
        h2_until(&p, nghttp2_session_get_stream_remote_window_size(p.session, id) == 0);
        assert_int_equal(nghttp2_session_get_stream_remote_window_size(p.session, id), 0);
        nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        h2_send(&p);
    }
    atomic_store(&f->is_resume_held, false);
    wait_until(&f->cancels, 8);
    assert_int_equal(h2_wait(&p, h2_post(&p, "/echo", 1000000))->status, 200);
    h2_close(&p);
    fixture_free(f);
}

static void a_reply_waits_for_its_client(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;
    int32_t id;

    (void)state;
    h2_open(&p, f);
    p.is_shut = true;
    id = h2_get(&p, "/stream?30000");
    a = h2_answer(&p, id);
    h2_until(&p, a->body.len >= 65535);
    h2_for(&p, 300);
    assert_int_equal(a->body.len, 65535); /* the window that a client has by default */
    size_t written = atomic_load(&f->written);
    assert_true(written < 6 * MIB); /* the writer waits */
    assert_true(atomic_load(&f->peak_unsent) <= 5 * MIB);
    /* The stream's window alone; the connection's is spent. */
    nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, id, 1000000);
    h2_for(&p, 50);
    assert_int_equal(a->body.len, 65535);
    nghttp2_session_consume_connection(p.session, 65535);
    int32_t small = h2_get(&p, "/hello"); /* and another stream may go ahead */
    p.is_shut = false;
    nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 0, 1 << 30);
    nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, id, 1 << 30);
    h2_wait(&p, small);
    assert_int_equal(h2_wait(&p, id)->code, NGHTTP2_NO_ERROR);
    assert_int_equal(a->body.len, 30000000);
    for (size_t i = 0; i < 30000; i += 997)
        assert_int_equal(a->body.ptr[i * 1000], 'a' + (int)(i % 26));
    h2_close(&p);
    fixture_free(f);
}

/* ---- ends ---- */

static void a_reset_cancels_one_request(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    int32_t held, stream, other;

    (void)state;
    h2_open(&p, f);
    held = h2_get(&p, "/hold");
    other = h2_get(&p, "/hold");
    stream = h2_get(&p, "/stream?100000000");
    wait_held(f, (h2_for(&p, 50), 2));
    h2_until(&p, h2_answer(&p, stream)->body.len > 100000);
    nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, held, NGHTTP2_CANCEL);
    nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    h2_send(&p);
    wait_until(&f->cancels, 1);
    wait_until(&f->writes_failed, 1);
    assert_true(atomic_load(exchange_cancel_flag(f->held[0])));
    assert_false(atomic_load(exchange_cancel_flag(f->held[1])));
    for (size_t i = 0; i < 2; i++) /* the first is too late, and that does no harm */
        exchange_reply(f->held[i], 200, "text/plain", NULL, 0, slice_str("late"));
    assert_string_equal(buf_cstr(&h2_wait(&p, other)->body), "late");
    h2_wait(&p, h2_get(&p, "/hello"));
    h2_close(&p);
    exchange_unref(f->held[0]);
    exchange_unref(f->held[1]);
    f->held_count = 0;
    fixture_free(f);
}

static void a_client_that_leaves_cancels_all(void **state)
{
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    h2_open(&p, f);
    for (int i = 0; i < 10; i++)
        h2_get(&p, "/hold");
    int32_t post = h2_post(&p, "/bodypool", 100);
    h2_answer(&p, post)->holds_end = true;
    h2_for(&p, 20);
    wait_held(f, 10);
    h2_close(&p);
    wait_until(&f->cancels, 11);
    in_loop(f, count_in_loop);
    assert_int_equal(atomic_load(&f->active) % 1000, 0);
    fixture_free(f);
}

static void a_broken_reply_ends_its_stream_only(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_wait(&p, h2_get(&p, "/abort"));
    assert_int_equal(a->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(h2_wait(&p, h2_get(&p, "/hello"))->code, NGHTTP2_NO_ERROR);
    h2_close(&p);
    fixture_free(f);
}

static void draining_ends_what_runs(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_peer *idle = mem_zalloc(sizeof *idle);
    int32_t held, half;

    (void)state;
    h2_open(&p, f);
    h2_open(idle, f);
    h2_wait(idle, h2_get(idle, "/hello"));
    held = h2_get(&p, "/hold");
    half = h2_post(&p, "/echo", 100);
    h2_answer(&p, half)->holds_end = true;
    wait_held(f, (h2_for(&p, 50), 1));
    in_loop(f, drain_in_loop);
    h2_wait_gone(idle);
    assert_true(idle->has_goaway);
    assert_int_equal(idle->goaway, NGHTTP2_NO_ERROR);
    h2_until(&p, p.has_goaway);
    assert_int_equal(p.goaway, NGHTTP2_NO_ERROR);
    assert_false(p.is_gone);
    exchange_reply(f->held[0], 200, "text/plain", NULL, 0, slice_str("done"));
    assert_string_equal(buf_cstr(&h2_wait(&p, held)->body), "done");
    h2_answer(&p, half)->holds_end = false;
    nghttp2_session_resume_data(p.session, half);
    assert_int_equal(h2_wait(&p, half)->body.len, 100);
    h2_wait_gone(&p);
    h2_close(&p);
    h2_close(idle);
    mem_free(idle);
    exchange_unref(f->held[0]);
    f->held_count = 0;
    fixture_free(f);
}

static void the_server_may_go_while_requests_run(void **state)
{
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    h2_open(&p, f);
    for (int i = 0; i < 5; i++) {
        h2_get(&p, "/hold");
        h2_get(&p, "/stream?100000000");
        h2_post(&p, "/upload", 10000000);
    }
    h2_for(&p, 100);
    fixture_free(f);
    h2_close(&p);
}

/* ---- the beginning ---- */

static void the_preface_may_come_byte_by_byte(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    static const char text[] = H2_PREFACE;
    struct buf out, in;

    (void)state;
    buf_init(&out, 0);
    buf_add(&out, text, sizeof text - 1);
    h2_frame(&out, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    h2_raw_request(&out, 1, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
    int fd = dial(f);
    for (size_t i = 0; i < out.len; i++) {
        assert_true(put_bytes(fd, out.ptr + i, 1));
        if (i < 5)
            sleep_ms(2);
    }
    buf_init(&in, 0);
    char bytes[4096];
    for (ssize_t n; !in.len || !memmem(in.ptr, in.len, "hello", 5); buf_add(&in, bytes, (size_t)n))
        assert_true((n = recv(fd, bytes, sizeof bytes, 0)) > 0);
    close(fd);
    buf_release(&in);
    /* What only begins like it is HTTP/1. */
    talk(f, "PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n", &in);
    assert_has(&in, "HTTP/1.1 501 ");
    buf_release(&in);
    fd = dial(f);
    put(fd, "P");
    sleep_ms(5);
    put(fd, "OST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    buf_init(&in, 0);
    get_all(fd, &in);
    assert_has(&in, "\r\n\r\nok");
    close(fd);
    buf_release(&in);
    buf_release(&out);
    fixture_free(f);
}

static void what_a_request_needs_is_checked(void **state)
{
    static const struct {
        struct h2_request r;
        int status;
    } rows[] = {
        { { .path = "/hello", .authority = "", .extra = { "host", "h" } }, 200 },
        { { .path = "/hello", .extra = { "host", "h" } }, 200 },
        { { .path = "/hello", .extra = { "host", "other" } }, 400 },
        { { .path = "/hello", .method = "TRACE" }, 501 },
        { { .path = "/hello", .method = "A-METHOD-LONGER-THAN-ANY" }, 501 },
    };
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    h2_open(&p, f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h2_answer *a = h2_wait(&p, h2_ask(&p, rows[i].r));
        if (a->status != rows[i].status)
            fail_msg("row %zu: %d %s", i, a->status, buf_cstr(&a->body));
    }
    h2_close(&p);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_carry_the_usual_headers),
        cmocka_unit_test(events_arrive_as_they_are_written),
        cmocka_unit_test(headers_reach_the_handler),
        cmocka_unit_test(requests_are_answered_as_they_are_ready),
        cmocka_unit_test(bodies_arrive_whole_or_in_pieces),
        cmocka_unit_test(a_client_is_told_to_continue),
        cmocka_unit_test(a_paused_body_stops_its_client_but_no_other),
        cmocka_unit_test(the_window_of_the_connection_is_not_lost),
        cmocka_unit_test(a_reply_waits_for_its_client),
        cmocka_unit_test(a_reset_cancels_one_request),
        cmocka_unit_test(a_client_that_leaves_cancels_all),
        cmocka_unit_test(a_broken_reply_ends_its_stream_only),
        cmocka_unit_test(draining_ends_what_runs),
        cmocka_unit_test(the_server_may_go_while_requests_run),
        cmocka_unit_test(the_preface_may_come_byte_by_byte),
        cmocka_unit_test(what_a_request_needs_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
