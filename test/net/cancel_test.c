/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave, do not read, or send more than anybody can take. */
#include "fixture.h"
#include <sys/resource.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static void reset(int fd)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void wait_no_connections(struct fixture *f)
{
    for (int i = 0; i < 5000; i++) {
        in_loop(f, count_in_loop);
        if (!atomic_load(&f->active))
            return;
        sleep_ms(1);
    }
    fail_msg("%zu connections and requests are left", atomic_load(&f->active));
}

static void a_client_that_leaves_while_its_request_runs_cancels_it(void **state)
{
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    for (int i = 0; i < 4; i++) {
        int fd = dial(f);
        put(fd, GET("/hold"));
        wait_held(f, (size_t)i + 1);
        assert_false(atomic_load(exchange_cancel_flag(f->held[i])));
        if (i == 0)
            close(fd);
        else if (i == 1)
            reset(fd);
        else
            shutdown(fd, SHUT_WR);
        wait_until(&f->cancels, i + 1);
        assert_true(atomic_load(exchange_cancel_flag(f->held[i])));
        if (i >= 2)
            close(fd);
    }
    wait_no_connections(f);
    assert_false(exchange_write(f->held[0], slice_str("x")));
    exchange_reply(f->held[1], 200, NULL, NULL, 0, slice_str("late")); /* dropped */
    fixture_free(f);
}

static void a_client_that_leaves_behind_a_full_pipeline_cancels_all(void **state)
{
    struct http_limits limits = default_limits();
    limits.pipeline = 2;
    struct fixture *f = fixture_new(limits);
    int fd = dial(f);

    (void)state;
    put(fd, GET("/hold") GET("/hold") GET("/hold") GET("/hold"));
    wait_held(f, 2);
    close(fd);
    wait_until(&f->cancels, 2);
    wait_no_connections(f);
    fixture_free(f);
}

static void a_client_may_leave_in_any_phase_of_its_request(void **state)
{
    static const char text[] =
        "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\n\r\n" GET("/order?3") GET("/stream?2000") GET("/hold");
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        int fd = dial(f);
        put_bytes(fd, text, len);
        if (len % 3 == 0)
            sleep_ms(1);
        if (len % 2)
            reset(fd);
        else
            close(fd);
    }
    wait_no_connections(f);
    fixture_free(f);
}

static void a_client_that_leaves_in_its_body_cancels_the_handler_once(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    int fd = dial(f);

    (void)state;
    put(fd, "POST /bodypool HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
    sleep_ms(20);
    close(fd);
    wait_until(&f->cancels, 1);
    fd = dial(f);
    put(fd, "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
    sleep_ms(20);
    reset(fd);
    wait_until(&f->cancels, 2);
    wait_no_connections(f);
    assert_int_equal(atomic_load(&f->cancels), 2);
    assert_int_equal(atomic_load(&f->bodies), 0);
    fixture_free(f);
}

static void a_client_that_only_ends_its_side_gets_what_is_ready(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(fd, GET("/hello") GET("/hello"));
    shutdown(fd, SHUT_WR);
    get_all(fd, &in);
    assert_int_equal(count_of(&in, "hello"), 2);
    close(fd);
    buf_release(&in);
    wait_no_connections(f);
    fixture_free(f);
}

static void a_stream_stops_when_its_client_leaves(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(fd, GET("/stream?100000000"));
    assert_true(get_until(fd, &in, "bbbb", 1));
    reset(fd);
    wait_until(&f->writes_failed, 1);
    wait_no_connections(f);
    buf_release(&in);
    fixture_free(f);
}

static void an_aborted_reply_is_seen_as_broken(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;

    (void)state;
    talk(f, GET("/abort"), &in);
    assert_false(has(&in, "0\r\n\r\n"));
    buf_release(&in);
    fixture_free(f);
}

static void a_writer_waits_for_a_slow_reader(void **state)
{
    enum { PIECES = 40000 }; /* 40 MB */
    struct fixture *f = fixture_new(default_limits());
    int small = 65536, fd;
    char bytes[65536];
    size_t got = 0;
    ssize_t n;

    (void)state;
    fd = dial(f);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    put(fd, "GET /stream?40000 HTTP/1.0\r\n\r\n");
    sleep_ms(300);
    assert_true(atomic_load(&f->written) < 20 * MIB);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        got += (size_t)n;
    assert_true(got > PIECES * 1000u && got < PIECES * 1000u + 1000);
    assert_true(atomic_load(&f->peak_unsent) < 5 * MIB);
    assert_int_equal(atomic_load(&f->writes_failed), 0);
    close(fd);
    fixture_free(f);
}

static void a_client_that_does_not_read_is_dropped(void **state)
{
    struct http_limits limits = default_limits();
    limits.body_ms = 200;
    struct fixture *f = fixture_new(limits);
    int small = 4096, fd = dial(f);

    (void)state;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    put(fd, GET("/stream?100000000"));
    wait_until(&f->writes_failed, 1);
    wait_no_connections(f);
    close(fd);
    fixture_free(f);
}

static void streams_arrive_whole(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(fd, GET("/stream?500"));
    assert_true(get_until(fd, &in, "\r\n0\r\n\r\n", 1));
    size_t letters = 0;
    for (const char *at = strstr(buf_cstr(&in), "\r\n\r\n"); *at; at++)
        letters += *at >= 'g' && *at <= 'z'; /* sizes have no such digits */
    assert_int_equal(letters, 1000 * (500 / 26 * 20 + (500 % 26 > 6 ? 500 % 26 - 6 : 0)));
    put(fd, GET("/events"));
    buf_clear(&in);
    assert_true(get_until(fd, &in, "\r\n0\r\n\r\n", 1));
    assert_has(&in, "Content-Type: text/event-stream");
    assert_has(&in, "data: {\"n\":0}\n\n");
    assert_has(&in, "data: {\"n\":2}\n\n");
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

/* ---- bodies in ---- */

static long resident_kib(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

static void send_large(int fd, size_t total)
{
    static char block[100000];

    for (size_t sent = 0; sent < total; sent += sizeof block)
        if (!put_bytes(fd, block, sizeof block))
            fail_msg("sending stopped after %zu bytes", sent);
}

static void a_large_body_streams_in_with_bounded_memory(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);
    long before = resident_kib();

    (void)state;
    buf_init(&in, 0);
    put(fd, "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\n");
    send_large(fd, 50000000);
    assert_true(get_until(fd, &in, "\r\n\r\n50000000", 1));
    assert_true(resident_kib() - before < 30 * 1024);
    put(fd, GET("/hello"));
    assert_true(get_until(fd, &in, "hello", 1));
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void a_paused_body_stops_the_client(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct timeval limit = { .tv_usec = 300000 };
    static char block[100000];
    struct buf in;
    int fd = dial(f);
    size_t sent = 0;

    (void)state;
    buf_init(&in, 0);
    atomic_store(&f->is_resume_held, true);
    put(fd, GET("/order?1") "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\n");
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    for (ssize_t n; sent < 50000000; sent += (size_t)n)
        if ((n = send(fd, block, sizeof block < 50000000 - sent ? sizeof block : 50000000 - sent,
                      0)) <= 0)
            break;
    assert_true(sent < 20000000);
    assert_true(atomic_load(&f->streamed) < 1000000);
    assert_true(get_until(fd, &in, "<1>", 1)); /* the one before does not wake it */
    sleep_ms(20);
    assert_true(atomic_load(&f->streamed) < 1000000);
    atomic_store(&f->is_resume_held, false);
    limit = (struct timeval){ .tv_sec = 20 };
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    while (sent < 50000000) {
        size_t len = sizeof block < 50000000 - sent ? sizeof block : 50000000 - sent;
        assert_true(put_bytes(fd, block, len));
        sent += len;
    }
    assert_true(get_until(fd, &in, "\r\n\r\n50000000", 1));
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void a_client_may_leave_while_its_body_is_paused(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    int fd = dial(f);

    (void)state;
    atomic_store(&f->is_resume_held, true);
    put(fd, "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\nabc");
    sleep_ms(20);
    close(fd);
    wait_until(&f->cancels, 1);
    atomic_store(&f->is_resume_held, false);
    wait_no_connections(f);
    fixture_free(f);
}

static void the_server_may_go_while_requests_run(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct fixture *f = fixture_new(default_limits());
        int fds[8];
        for (int j = 0; j < 8; j++) {
            fds[j] = dial(f);
            put(fds[j], j % 2 ? GET("/order?5") GET("/stream?20000") : GET("/hold") GET("/pool"));
        }
        wait_held(f, 4);
        fixture_free(f); /* held ones are answered afterwards */
        for (int j = 0; j < 8; j++)
            close(fds[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_leaves_while_its_request_runs_cancels_it),
        cmocka_unit_test(a_client_that_leaves_behind_a_full_pipeline_cancels_all),
        cmocka_unit_test(a_client_may_leave_in_any_phase_of_its_request),
        cmocka_unit_test(a_client_that_leaves_in_its_body_cancels_the_handler_once),
        cmocka_unit_test(a_client_that_only_ends_its_side_gets_what_is_ready),
        cmocka_unit_test(a_stream_stops_when_its_client_leaves),
        cmocka_unit_test(an_aborted_reply_is_seen_as_broken),
        cmocka_unit_test(a_writer_waits_for_a_slow_reader),
        cmocka_unit_test(a_client_that_does_not_read_is_dropped),
        cmocka_unit_test(streams_arrive_whole),
        cmocka_unit_test(a_large_body_streams_in_with_bounded_memory),
        cmocka_unit_test(a_paused_body_stops_the_client),
        cmocka_unit_test(a_client_may_leave_while_its_body_is_paused),
        cmocka_unit_test(the_server_may_go_while_requests_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
