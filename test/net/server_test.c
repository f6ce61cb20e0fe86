/* SPDX-License-Identifier: Apache-2.0 */
/* The server over real sockets. */
#include "base/metrics.h"
#include "fixture.h"
#include <fcntl.h>
#include <sys/resource.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

static void a_reply_carries_the_usual_headers(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;

    (void)state;
    talk(f, LAST("/hello"), &in);
    assert_has(&in, "HTTP/1.1 200 OK\r\n");
    assert_has(&in, "\r\nDate: ");
    assert_has(&in, " GMT\r\n");
    assert_has(&in, "Server: themis/test\r\n");
    assert_has(&in, "Content-Type: text/plain\r\n");
    assert_has(&in, "Content-Length: 5\r\n");
    assert_has(&in, "Connection: close\r\n");
    assert_has(&in, "\r\n\r\nhello");
    buf_release(&in);
    talk(f, "HEAD /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &in);
    assert_has(&in, "Content-Length: 5\r\n");
    assert_string_equal(strstr(buf_cstr(&in), "\r\n\r\n"), "\r\n\r\n");
    buf_release(&in);
    talk(f, LAST("/nothing"), &in);
    assert_has(&in, "HTTP/1.1 204 No Content\r\n");
    assert_false(has(&in, "Content-"));
    buf_release(&in);
    fixture_free(f);
}

static void a_connection_is_kept(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    for (size_t i = 1; i <= 20; i++) {
        assert_true(put(fd, i % 2 ? GET("/hello") : GET("/pool")));
        assert_true(get_until(fd, &in, "\r\n\r\n", i));
    }
    assert_false(has(&in, "Connection:"));
    close(fd);
    buf_release(&in);
    talk(f, "GET /hello HTTP/1.0\r\n\r\n", &in); /* 1.0 closes unless asked */
    assert_has(&in, "Connection: close\r\n");
    buf_release(&in);
    fd = dial(f);
    buf_init(&in, 0);
    put(fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(get_until(fd, &in, "hello", 1));
    assert_has(&in, "Connection: keep-alive\r\n");
    put(fd, "GET /hello HTTP/1.0\r\n\r\n");
    get_all(fd, &in);
    assert_int_equal(count_of(&in, "hello"), 2);
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    enum { COUNT = 200 };
    struct fixture *f = fixture_new(default_limits());
    struct buf in, all;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    buf_init(&all, 0);
    for (int i = 0; i < COUNT; i++)
        buf_printf(&all, "GET /order?%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
    buf_add_str(&all, LAST("/hello"));
    assert_true(put_bytes(fd, all.ptr, all.len));
    get_all(fd, &in);
    const char *at = buf_cstr(&in);
    for (int i = 0; i < COUNT; i++) {
        char text[16];
        snprintf(text, sizeof text, "<%d>", i);
        at = strstr(at, text);
        if (!at)
            fail_msg("no answer %d in its place", i);
    }
    assert_non_null(strstr(at, "hello"));
    close(fd);
    buf_release(&in);
    buf_release(&all);
    fixture_free(f);
}

static void reading_ahead_is_bounded(void **state)
{
    struct http_limits limits = default_limits();
    limits.pipeline = 3;
    struct fixture *f = fixture_new(limits);
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    for (int i = 0; i < 8; i++)
        put(fd, GET("/hold"));
    wait_held(f, 3);
    sleep_ms(50);
    assert_int_equal(f->held_count, 3);
    exchange_reply(f->held[1], 200, NULL, NULL, 0, slice_str("two"));
    exchange_reply(f->held[0], 200, NULL, NULL, 0, slice_str("one"));
    assert_true(get_until(fd, &in, "two", 1));
    assert_true(strstr(buf_cstr(&in), "one") < strstr(buf_cstr(&in), "two"));
    wait_held(f, 5);
    exchange_unref(f->held[0]);
    exchange_unref(f->held[1]);
    memmove(f->held, f->held + 2, 3 * sizeof *f->held);
    f->held_count = 3;
    close(fd);
    wait_until(&f->cancels, 3);
    buf_release(&in);
    fixture_free(f);
}

static void bodies_arrive_by_length_and_in_chunks(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;

    (void)state;
    talk(f,
         "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nConnection: close\r\n\r\nabcdef",
         &in);
    assert_has(&in, "\r\n\r\nabcdef");
    buf_release(&in);
    talk(f,
         "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
         "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
         &in);
    assert_has(&in, "Content-Length: 6\r\n");
    assert_has(&in, "\r\n\r\nabcdef");
    buf_release(&in);
    talk(f, "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &in);
    assert_has(&in, "Content-Length: 0\r\n");
    buf_release(&in);
    fixture_free(f);
}

static void the_client_is_told_to_continue(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    /* Behind another request: only when its turn has come. */
    put(fd, GET("/order?1") "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: "
                            "100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_true(get_until(fd, &in, "100 Continue\r\n\r\n", 1));
    assert_true(strstr(buf_cstr(&in), "<1>") < strstr(buf_cstr(&in), "100 Continue"));
    assert_int_equal(count_of(&in, "HTTP/1.1 200"), 1);
    put(fd, "abc");
    assert_true(get_until(fd, &in, "\r\n\r\nabc", 1));
    assert_int_equal(count_of(&in, "100 Continue"), 1);
    /* Not when the body is sent at once, nor when the answer is final; then the connection ends. */
    put(fd,
        "POST /teapot HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    get_all(fd, &in);
    assert_int_equal(count_of(&in, "100 Continue"), 1);
    assert_has(&in, "HTTP/1.1 418");
    assert_has(&in, "Connection: close\r\n");
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void bad_requests_get_an_answer_in_json(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;

    (void)state;
    talk(f, GET("/hello") "NONSENSE\r\n\r\n", &in);
    assert_has(&in, "\r\n\r\nhello"); /* the good one before it is answered */
    assert_has(&in, "HTTP/1.1 400 Bad Request\r\n");
    assert_has(&in, "{\"error\":true,\"code\":400,\"errorNum\":400,\"errorMessage\":\"");
    assert_has(&in, "Connection: close\r\n");
    buf_release(&in);
    talk(f, GET("/hello") "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &in);
    assert_has(&in, "HTTP/1.1 505 ");
    assert_has(&in, "HTTP/2 begins a connection");
    buf_release(&in);
    talk(f, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", &in);
    assert_has(&in, "HTTP/1.1 501 ");
    buf_release(&in);
    talk(f, "GET / HTTP/1.1\r\n\r\n", &in);
    assert_has(&in, "HTTP/1.1 400 ");
    buf_release(&in);
    fixture_free(f);
}

static void a_bad_body_is_refused_and_its_handler_hears_of_it(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;

    (void)state;
    talk(f, "POST /bodypool HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", &in);
    assert_has(&in, "HTTP/1.1 400 ");
    assert_int_equal(atomic_load(&f->cancels), 1);
    buf_release(&in);
    talk(f,
         "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n",
         &in);
    assert_has(&in, "HTTP/1.1 400 ");
    wait_until(&f->cancels, 2);
    buf_release(&in);
    fixture_free(f);
}

static void headers_over_the_limit_get_431(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in, all;

    (void)state;
    buf_init(&all, 0);
    buf_add_str(&all, "GET /hello HTTP/1.1\r\nHost: h\r\nX: ");
    for (int i = 0; i < 40000; i++)
        buf_add_char(&all, 'x');
    buf_add_str(&all, "\r\n\r\n");
    talk(f, buf_cstr(&all), &in);
    assert_has(&in, "HTTP/1.1 431 ");
    buf_release(&in);
    buf_release(&all);
    fixture_free(f);
}

static void bodies_over_the_limit_get_413(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    char block[10000] = { 0 };

    (void)state;
    /* At once, by the length alone. */
    talk(f, "POST /bodypool HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n", &in);
    assert_has(&in, "HTTP/1.1 413 ");
    assert_has(&in, "limit of 1048576 bytes");
    assert_int_equal(atomic_load(&f->cancels), 1);
    buf_release(&in);
    talk(f, "POST /echo?5 HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef", &in);
    assert_has(&in, "limit of 5 bytes");
    buf_release(&in);
    talk(f,
         "POST /echo?5 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
         "chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
         &in);
    assert_has(&in, "HTTP/1.1 413 ");
    buf_release(&in);
    /* A client that sends everything before it reads still gets the answer. */
    int fd = dial(f);
    buf_init(&in, 0);
    put(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n");
    for (int i = 0; i < 2000; i++)
        assert_true(put_bytes(fd, block, sizeof block));
    get_all(fd, &in);
    assert_has(&in, "HTTP/1.1 413 ");
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void a_body_that_nobody_wants_is_read_and_forgotten(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    char block[10000] = { 0 };
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(fd, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
    assert_true(get_until(fd, &in, "hello", 1)); /* answered before the body */
    for (int i = 0; i < 100; i++)
        assert_true(put_bytes(fd, block, sizeof block));
    put(fd, GET("/teapot"));
    assert_true(get_until(fd, &in, "HTTP/1.1 418", 1));
    close(fd);
    /* But not without end. */
    fd = dial(f);
    buf_clear(&in);
    put(fd, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
    bool is_ok = true;
    for (int i = 0; i < 10000 && is_ok; i++)
        is_ok = put_bytes(fd, block, sizeof block);
    put(fd, GET("/teapot"));
    get_all(fd, &in);
    assert_false(has(&in, "418"));
    close(fd);
    buf_release(&in);
    fixture_free(f);
}

static void slow_requests_get_408(void **state)
{
    struct http_limits limits = default_limits();
    limits.header_ms = limits.body_ms = 200;
    struct fixture *f = fixture_new(limits);
    struct buf in;
    uint64_t start = clock_ms();

    (void)state;
    talk(f, "GET /hello HTTP/1.1\r\nHost: h\r\nX: ", &in);
    assert_has(&in, "HTTP/1.1 408 ");
    assert_has(&in, "headers did not arrive");
    buf_release(&in);
    talk(f, "POST /bodypool HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", &in);
    assert_has(&in, "body did not arrive");
    assert_int_equal(atomic_load(&f->cancels), 1);
    buf_release(&in);
    talk(f, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", &in);
    assert_has(&in, "hello"); /* answered already: just closed */
    assert_false(has(&in, "408"));
    buf_release(&in);
    assert_true(clock_ms() - start < 10000);
    fixture_free(f);
}

static void idle_connections_are_closed(void **state)
{
    struct http_limits limits = default_limits();
    limits.idle_ms = 200;
    struct fixture *f = fixture_new(limits);
    struct buf in;

    (void)state;
    talk(f, "", &in);
    assert_int_equal(in.len, 0);
    buf_release(&in);
    talk(f, GET("/hello"), &in);
    assert_has(&in, "hello");
    buf_release(&in);
    talk(f, "\r\n\r\n\r\n", &in); /* empty lines are no request */
    assert_int_equal(in.len, 0);
    buf_release(&in);
    /* A request that runs longer is not idle. */
    int fd = dial(f);
    put(fd, GET("/hold"));
    wait_held(f, 1);
    sleep_ms(500);
    exchange_reply(f->held[0], 200, NULL, NULL, 0, slice_str("slow"));
    buf_init(&in, 0);
    assert_true(get_until(fd, &in, "slow", 1));
    close(fd);
    buf_release(&in);
    exchange_unref(f->held[0]);
    f->held_count = 0;
    fixture_free(f);
}

static void connections_over_the_limit_are_told_so(void **state)
{
    struct http_limits limits = default_limits();
    limits.connections = 2;
    struct fixture *f = fixture_new(limits);
    struct buf in;
    int a = dial(f), b = dial(f), crowd[200];

    (void)state;
    buf_init(&in, 0);
    put(a, GET("/hello"));
    put(b, GET("/hello"));
    assert_true(get_until(a, &in, "hello", 1) && get_until(b, &in, "hello", 2));
    buf_release(&in);
    talk(f, GET("/hello"), &in); /* to the end: what was sent is read, so nothing is reset */
    assert_has(&in, "HTTP/1.1 503 ");
    assert_has(&in, "Retry-After: 1");
    assert_has(&in, "Connection: close");
    assert_false(has(&in, "hello"));
    buf_release(&in);
    /* More at once than may be refused at once: they wait for it. */
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        crowd[i] = dial(f);
        put(crowd[i], GET("/hello"));
    }
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        buf_init(&in, 0);
        get_all(crowd[i], &in);
        assert_has(&in, "HTTP/1.1 503 ");
        close(crowd[i]);
        buf_release(&in);
    }
    put(a, GET("/hello")); /* those within are served all the time */
    buf_init(&in, 0);
    assert_true(get_until(a, &in, "hello", 1));
    buf_release(&in);
    close(a);
    for (int status = 503; status == 503; buf_release(&in)) { /* until its end is noticed */
        talk(f, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &in);
        status = has(&in, "HTTP/1.1 200 ") ? 200 : 503;
    }
    close(b);
    fixture_free(f);
}

static void running_out_of_descriptors_is_survived(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct rlimit before, low;
    struct buf in;
    int fds[64], count = 0;

    (void)state;
    buf_init(&in, 0);
    int a = dial(f);
    put(a, GET("/hello"));
    assert_true(get_until(a, &in, "hello", 1));
    getrlimit(RLIMIT_NOFILE, &before);
    int b = dial(f); /* ours is open; the server's is not yet, perhaps */
    put(b, GET("/hello"));
    assert_true(get_until(b, &in, "hello", 2));
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    low = before;
    low.rlim_cur = (rlim_t)c + 1;
    setrlimit(RLIMIT_NOFILE, &low);
    while (count < 64 && (fds[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(f->port) };
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(c, (struct sockaddr *)&addr, sizeof addr), 0);
    put(c, GET("/hello"));
    sleep_ms(300);
    put(a, GET("/hello")); /* those that are connected are served */
    assert_true(get_until(a, &in, "hello", 3));
    setrlimit(RLIMIT_NOFILE, &before);
    while (count)
        close(fds[--count]);
    assert_true(get_until(c, &in, "hello", 4));
    close(a);
    close(b);
    close(c);
    buf_release(&in);
    fixture_free(f);
}

static void draining_ends_what_runs_and_closes_what_is_idle(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in;
    int idle = dial(f), busy = dial(f), half = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(idle, GET("/hello"));
    assert_true(get_until(idle, &in, "hello", 1));
    put(busy, GET("/hold") GET("/hold"));
    put(half, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
    wait_held(f, 2);
    sleep_ms(20);
    in_loop(f, drain_in_loop);
    get_all(idle, &in); /* closed */
    buf_clear(&in);
    put(half, "def");
    get_all(half, &in);
    assert_has(&in, "abcdef");
    assert_has(&in, "Connection: close\r\n");
    in_loop(f, count_in_loop);
    assert_int_equal(atomic_load(&f->active) % 1000, 2);
    buf_clear(&in);
    exchange_reply(f->held[0], 200, NULL, NULL, 0, slice_str("one"));
    exchange_reply(f->held[1], 200, NULL, NULL, 0, slice_str("two"));
    get_all(busy, &in);
    assert_has(&in, "one");
    assert_has(&in, "two");
    assert_int_equal(count_of(&in, "Connection: close\r\n"), 1);
    /* Nobody is taken any more. */
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(f->port) };
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_not_equal(connect(late, (struct sockaddr *)&addr, sizeof addr), 0);
    close(late);
    close(idle);
    close(half);
    close(busy);
    for (int i = 0; i < 2000; i++) {
        in_loop(f, count_in_loop);
        if (!atomic_load(&f->active))
            break;
        sleep_ms(1);
    }
    assert_int_equal(atomic_load(&f->active), 0);
    exchange_unref(f->held[0]);
    exchange_unref(f->held[1]);
    f->held_count = 0;
    buf_release(&in);
    fixture_free(f);
}

static void a_port_in_use_is_explained(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct http_server_options opt = { .host = "127.0.0.1", .port = f->port };
    struct http_server *s = NULL;
    struct loop *loop;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(loop_new(&loop, &err), OK);
    assert_int_not_equal(http_server_new(&s, loop, &opt, &err), OK);
    assert_non_null(strstr(err.text, "cannot listen on 127.0.0.1"));
    assert_non_null(strstr(err.text, "in use"));
    opt.host = "no such host.";
    assert_int_equal(http_server_new(&s, loop, &opt, &err), ERR_INVALID);
    loop_free(loop);
    fixture_free(f);
}

struct many {
    const struct fixture *f;
    size_t answers;
};

static void *ask_many(void *arg)
{
    enum { ROUNDS = 125, BATCH = 20 };
    struct many *m = arg;
    struct buf in;
    int fd = dial(m->f);

    buf_init(&in, 0);
    for (size_t i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < BATCH; j++)
            put(fd, j % 2 ? GET("/pool") : GET("/hello"));
        buf_clear(&in);
        if (!get_until(fd, &in, "pooled", BATCH / 2))
            break;
        m->answers += count_of(&in, "hello") + count_of(&in, "pooled");
    }
    close(fd);
    buf_release(&in);
    return NULL;
}

static void ten_thousand_requests_are_answered(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct many m[4];
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        m[i] = (struct many){ .f = f };
        pthread_create(&threads[i], NULL, ask_many, &m[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(m[i].answers, 2500);
    }
    fixture_free(f);
}

static void garbage_does_no_harm(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    unsigned seed = 7;
    struct buf in;

    (void)state;
    for (int i = 0; i < 200; i++) {
        char bytes[512];
        int fd = dial(f);
        size_t len = 1 + (size_t)rand_r(&seed) % (sizeof bytes - 1);
        for (size_t j = 0; j < len; j++)
            bytes[j] = (char)rand_r(&seed);
        if (i % 2)
            memcpy(bytes, "GET /hold", len < 9 ? len : 9);
        put_bytes(fd, bytes, len);
        if (i % 3 == 0)
            shutdown(fd, SHUT_WR);
        close(fd);
    }
    talk(f, LAST("/hello"), &in);
    assert_has(&in, "hello");
    buf_release(&in);
    fixture_free(f);
}

static void metrics_count_what_happens(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf in, text;

    (void)state;
    talk(f, LAST("/hello"), &in);
    buf_init(&text, 0);
    metrics_print(&text);
    assert_has(&text, "themis_http_responses_total{class=\"2xx\"}");
    assert_has(&text, "themis_http_responses_total{class=\"4xx\"}");
    assert_has(&text, "themis_http_connections ");
    assert_has(&text, "themis_http_received_bytes_total ");
    assert_has(&text, "themis_http_sent_bytes_total ");
    assert_has(&text, "themis_http_cancelled_total ");
    buf_release(&text);
    buf_release(&in);
    fixture_free(f);
}

static unsigned long measured(void)
{
    static const char name[] = "themis_http_request_duration_seconds_count ";
    struct buf text;

    buf_init(&text, 0);
    metrics_print(&text);
    const char *at = strstr(buf_cstr(&text), name);
    unsigned long n = at ? strtoul(at + strlen(name), NULL, 10) : 0;
    buf_release(&text);
    return n;
}

static void wait_measured(unsigned long wanted)
{
    for (int i = 0; i < 5000 && measured() < wanted; i++)
        sleep_ms(1);
    assert_int_equal(measured(), wanted);
}

static void a_request_lasts_until_its_last_byte_has_left(void **state)
{
    enum { BIG = 64 * MIB }; /* more than the kernel takes */
    struct fixture *f = fixture_new(default_limits());
    unsigned long before = measured();
    struct buf in;
    char *big = mem_zalloc(BIG);
    int fd = dial(f);

    (void)state;
    buf_init(&in, 0);
    put(fd, GET("/hold"));
    wait_held(f, 1);
    assert_int_equal(measured(), before);
    exchange_reply(f->held[0], 200, "text/plain", NULL, 0, slice_str("small"));
    assert_true(get_until(fd, &in, "small", 1));
    wait_measured(before + 1);
    put(fd, GET("/hold"));
    wait_held(f, 2);
    exchange_reply(f->held[1], 200, "text/plain", NULL, 0, slice_of(big, BIG));
    sleep_ms(50);
    assert_int_equal(measured(), before + 1);
    for (size_t got = 0; got < BIG;) {
        ssize_t n = recv(fd, big, BIG, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    wait_measured(before + 2);
    close(fd);
    for (size_t i = 0; i < f->held_count; i++)
        exchange_unref(f->held[i]);
    f->held_count = 0;
    mem_free(big);
    buf_release(&in);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_carries_the_usual_headers),
        cmocka_unit_test(a_connection_is_kept),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(reading_ahead_is_bounded),
        cmocka_unit_test(bodies_arrive_by_length_and_in_chunks),
        cmocka_unit_test(the_client_is_told_to_continue),
        cmocka_unit_test(bad_requests_get_an_answer_in_json),
        cmocka_unit_test(a_bad_body_is_refused_and_its_handler_hears_of_it),
        cmocka_unit_test(headers_over_the_limit_get_431),
        cmocka_unit_test(bodies_over_the_limit_get_413),
        cmocka_unit_test(a_body_that_nobody_wants_is_read_and_forgotten),
        cmocka_unit_test(slow_requests_get_408),
        cmocka_unit_test(idle_connections_are_closed),
        cmocka_unit_test(connections_over_the_limit_are_told_so),
        cmocka_unit_test(running_out_of_descriptors_is_survived),
        cmocka_unit_test(draining_ends_what_runs_and_closes_what_is_idle),
        cmocka_unit_test(a_port_in_use_is_explained),
        cmocka_unit_test(ten_thousand_requests_are_answered),
        cmocka_unit_test(garbage_does_no_harm),
        cmocka_unit_test(metrics_count_what_happens),
        cmocka_unit_test(a_request_lasts_until_its_last_byte_has_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
