/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 with clients that ask for too much, are too slow, flood or break the rules. */
#include "h2peer.h"

static struct h2_peer p; /* large */

static void the_server_is_well(struct fixture *f)
{
    struct h2_peer *other = mem_zalloc(sizeof *other);

    h2_open(other, f);
    assert_int_equal(h2_wait(other, h2_get(other, "/hello"))->status, 200);
    h2_close(other);
    mem_free(other);
}

/* ---- too much ---- */

static void bodies_over_the_limit_get_413(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct h2_request r = { .method = "POST",
                            .path = "/bodypool",
                            .has_body = true,
                            .holds_end = true,
                            .extra = { "content-length", "1048577" } };
    struct h2_answer *a;

    (void)state;
    h2_open(&p, f);
    a = h2_answer(&p, h2_ask(&p, r)); /* by its length alone */
    h2_until(&p, a->status);
    assert_int_equal(a->status, 413);
    assert_int_equal(atomic_load(&f->cancels), 1);
    /* A client that sends all before it reads gets to the answer. */
    a = h2_wait(&p, h2_post(&p, "/bodypool", 3000000));
    assert_int_equal(a->status, 413);
    assert_has(&a->body, "limit of 1048576 bytes");
    assert_int_equal(a->code, NGHTTP2_NO_ERROR);
    /* But not without end. */
    a = h2_wait(&p, h2_post(&p, "/bodypool", 300000000));
    assert_int_equal(a->status, 413);
    assert_int_equal(a->code, NGHTTP2_NO_ERROR);
    assert_true(a->to_send > 280000000);
    a = h2_wait(&p, h2_post(&p, "/hello", 300000000));
    assert_int_equal(a->status, 200);
    assert_int_equal(a->code, NGHTTP2_NO_ERROR);
    assert_true(a->to_send > 280000000);
    assert_int_equal(h2_wait(&p, h2_get(&p, "/hello"))->status, 200);
    h2_close(&p);
    fixture_free(f);
}

static void headers_over_the_limit_get_431(void **state)
{
    struct fixture *f = fixture_new(default_limits()); /* 16 KiB, 100 headers */
    struct h2_answer *a;
    char large[17000], *huge = mem_zalloc(40001);
    nghttp2_nv nv[120] = { h2_nv(":method", "GET"), h2_nv(":scheme", "http"),
                           h2_nv(":authority", "h"), h2_nv(":path", "/hello") };

    (void)state;
    memset(large, 'x', sizeof large - 1);
    large[0] = '/';
    large[sizeof large - 1] = 0;
    memset(huge, 'x', 40000);
    h2_open(&p, f);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .path = "/hello", .extra = { "x", large } }));
    assert_int_equal(a->status, 431);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .path = large }));
    assert_int_equal(a->status, 431);
    /* Far above, the stream just ends. */
    a = h2_wait(
        &p, h2_ask(&p, (struct h2_request){ .path = "/hello", .extra = { "x", huge, "y", huge } }));
    assert_int_equal(a->status, 0);
    assert_int_not_equal(a->code, NGHTTP2_NO_ERROR);
    a = &p.answers[p.count++];
    for (size_t i = 4; i < ARRAY_LEN(nv); i++)
        nv[i] = h2_nv("x", "1");
    a->id = nghttp2_submit_request(p.session, NULL, nv, ARRAY_LEN(nv), NULL, NULL);
    assert_int_equal(h2_wait(&p, a->id)->status, 431);
    a->id = nghttp2_submit_request(p.session, NULL, nv, 102, NULL, NULL); /* with the Host, 99 */
    assert_int_equal(h2_wait(&p, h2_get(&p, "/hello"))->status, 200);
    assert_int_equal(h2_wait(&p, a->id)->status, 200);
    mem_free(huge);
    h2_close(&p);
    fixture_free(f);
}

/* Indexed references that unpack to far more than was sent. */
static void a_header_bomb_is_not_unpacked(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf out, block, in;
    char value[3000];

    (void)state;
    buf_init(&out, 0);
    buf_init(&block, 0);
    buf_init(&in, 0);
    buf_add_str(&out, H2_PREFACE);
    h2_frame(&out, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    buf_add(&block, "\x82\x86\x04\x06/hello\x01\x01h", 13);
    memset(value, 'v', sizeof value);
    buf_add(&block, "\x40\x01x\x7f\xb9\x16", 6); /* "x", indexed: a value of 3,000 bytes */
    buf_add(&block, value, sizeof value);
    for (int i = 0; i < 13000; i++)
        buf_add_char(&block, (char)0xbe); /* once more: 39 MB in all */
    h2_frame(&out, NGHTTP2_HEADERS, 5, 1, block.ptr, block.len);
    h2_raw_request(&out, 3, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
    int fd = dial(f);
    put_bytes(fd, out.ptr, out.len);
    char bytes[4096];
    for (ssize_t n; !in.len || !memmem(in.ptr, in.len, "hello", 5); buf_add(&in, bytes, (size_t)n))
        assert_true((n = recv(fd, bytes, sizeof bytes, 0)) > 0); /* the next request is served */
    close(fd);
    buf_release(&out);
    buf_release(&block);
    buf_release(&in);
    fixture_free(f);
}

static void streams_over_the_limit_are_refused(void **state)
{
    struct http_limits limits = default_limits();
    limits.streams = 5;
    struct fixture *f = fixture_new(limits);
    size_t refused = 0;

    (void)state;
    h2_open(&p, f); /* before it has seen the settings */
    for (int i = 0; i < 20; i++)
        h2_get(&p, "/hold");
    h2_until(&p, p.closed >= 15);
    for (int i = 0; i < 20; i++)
        refused += p.answers[i].is_closed && p.answers[i].code == NGHTTP2_REFUSED_STREAM;
    assert_int_equal(refused, 15);
    wait_held(f, 5);
    h2_close(&p);
    fixture_free(f);
}

/* ---- too slow ---- */

static void what_is_slow_ends(void **state)
{
    struct http_limits limits = default_limits();
    limits.header_ms = limits.body_ms = 300;
    struct fixture *f = fixture_new(limits);
    struct h2_answer *a;
    int32_t id;

    (void)state;
    h2_open(&p, f);
    /* A body that stops: 408, and the handler hears of it; others go on. */
    id = h2_post(&p, "/bodypool", 10);
    h2_answer(&p, id)->holds_end = true;
    a = h2_wait(&p, id);
    assert_int_equal(a->status, 408);
    assert_has(&a->body, "body did not arrive");
    assert_int_equal(atomic_load(&f->cancels), 1);
    id = h2_post(&p, "/upload", 10);
    h2_answer(&p, id)->holds_end = true;
    assert_int_equal(h2_wait(&p, id)->status, 408);
    assert_int_equal(atomic_load(&f->cancels), 2);
    id = h2_post(&p, "/hello", 10); /* answered already */
    h2_answer(&p, id)->holds_end = true;
    assert_int_equal(h2_wait(&p, id)->status, 200);
    /* A handler that is slow is not meant. */
    id = h2_get(&p, "/hold");
    h2_for(&p, 900);
    wait_held(f, 1);
    exchange_reply(f->held[0], 200, "text/plain", NULL, 0, slice_str("slow"));
    assert_string_equal(buf_cstr(&h2_wait(&p, id)->body), "slow");
    /* A client that does not open its window. */
    p.is_shut = true;
    a = h2_wait(&p, h2_get(&p, "/stream?100000000"));
    assert_int_equal(a->code, NGHTTP2_CANCEL);
    wait_until(&f->writes_failed, 1);
    h2_close(&p);
    exchange_unref(f->held[0]);
    f->held_count = 0;
    fixture_free(f);
}

static void a_client_that_reads_nothing_is_dropped(void **state)
{
    struct http_limits limits = default_limits();
    limits.body_ms = 400;
    struct fixture *f = fixture_new(limits);

    (void)state;
    h2_open(&p, f);
    nghttp2_settings_entry window = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 30 };
    nghttp2_submit_settings(p.session, NGHTTP2_FLAG_NONE, &window, 1);
    nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 0, 1 << 30);
    h2_wait(&p, h2_get(&p, "/hello"));
    h2_get(&p, "/stream?100000000");
    h2_get(&p, "/hold");
    h2_send(&p); /* and never again */
    wait_until(&f->writes_failed, 1);
    wait_until(&f->cancels, 1);
    h2_close(&p);
    fixture_free(f);
}

static void idle_connections_are_closed(void **state)
{
    struct http_limits limits = default_limits();
    limits.idle_ms = 300;
    struct fixture *f = fixture_new(limits);
    uint64_t start = clock_ms();

    (void)state;
    h2_open(&p, f);
    h2_wait(&p, h2_get(&p, "/hello"));
    while (!p.is_gone && clock_ms() - start < H2_WAIT_MS) { /* PING does not count */
        nghttp2_submit_ping(p.session, NGHTTP2_FLAG_NONE, NULL);
        h2_for(&p, 20);
    }
    assert_true(p.is_gone && p.has_goaway);
    assert_int_equal(p.goaway, NGHTTP2_NO_ERROR);
    h2_close(&p);
    h2_open(&p, f); /* not a request at all */
    h2_wait_gone(&p);
    assert_true(p.has_goaway);
    h2_close(&p);
    fixture_free(f);
}

/* Headers that do not come to an end. */
static void half_a_request_is_closed_in_time(void **state)
{
    struct http_limits limits = default_limits();
    limits.header_ms = 300;
    limits.idle_ms = 60000;
    struct fixture *f = fixture_new(limits);
    struct buf out, in;

    (void)state;
    for (int i = 0; i < 3; i++) {
        buf_init(&out, 0);
        buf_init(&in, 0);
        buf_add(&out, H2_PREFACE, i == 0 ? 2 : sizeof H2_PREFACE - 1);
        if (i) {
            h2_frame(&out, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
            h2_raw_request(&out, 1, NGHTTP2_FLAG_END_STREAM); /* a CONTINUATION is due */
        }
        int fd = dial(f);
        put_bytes(fd, out.ptr, out.len);
        if (i == 2) { /* which comes, and does not end it either */
            out.len = 0;
            h2_frame(&out, NGHTTP2_CONTINUATION, 0, 1, "\x01\x01y", 0);
            put_bytes(fd, out.ptr, out.len);
        }
        get_all(fd, &in);
        close(fd);
        buf_release(&out);
        buf_release(&in);
    }
    the_server_is_well(f);
    fixture_free(f);
}

/* ---- floods ---- */

/* What the server says at last when it gets all this. */
static uint32_t last_words(struct fixture *f, const struct buf *out)
{
    struct buf in;
    uint32_t code = UINT32_MAX;
    size_t at = 0;
    int fd = dial(f);

    buf_init(&in, 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (at < out->len) { /* it reads while it writes: answers are not what is tested */
        char bytes[65536];
        ssize_t n = send(fd, out->ptr + at, out->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            break;
        at += n > 0 ? (size_t)n : 0;
        n = recv(fd, bytes, sizeof bytes, 0);
        if (n == 0)
            break;
        if (n > 0)
            buf_add(&in, bytes, (size_t)n);
    }
    fcntl(fd, F_SETFL, 0);
    shutdown(fd, SHUT_WR);
    get_all(fd, &in);
    for (size_t i = 0; i + 9 <= in.len;) {
        const uint8_t *head = (const uint8_t *)in.ptr + i;
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (head[3] == NGHTTP2_GOAWAY && i + 17 <= in.len)
            code = (uint32_t)head[13] << 24 | (uint32_t)head[14] << 16 | (uint32_t)head[15] << 8 |
                   head[16];
        i += 9 + len;
    }
    close(fd);
    buf_release(&in);
    return code;
}

static void start(struct buf *out)
{
    buf_init(out, 0);
    buf_add_str(out, H2_PREFACE);
    h2_frame(out, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void floods_are_told_to_calm_down(void **state)
{
    static const struct {
        uint8_t type, flags;
        uint32_t id;
        size_t len;
    } rows[] = {
        { NGHTTP2_PING, 0, 0, 8 },
        { NGHTTP2_SETTINGS, 0, 0, 6 },
        { NGHTTP2_PRIORITY, 0, 1, 5 },
        { NGHTTP2_DATA, 0, 1, 0 },
    };
    static const uint8_t bytes[8] = { 0, 1, 0, 0, 16 }; /* as SETTINGS: the table's size */
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        start(&out);
        if (rows[i].id) { /* a body that is due */
            h2_frame(&out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1,
                     "\x83\x86\x04\x05/echo\x01\x01h", 12);
        }
        for (int j = 0; j < 20000; j++)
            h2_frame(&out, rows[i].type, rows[i].flags, rows[i].id, bytes, rows[i].len);
        uint32_t code = last_words(f, &out);
        if (code != NGHTTP2_ENHANCE_YOUR_CALM)
            fail_msg("row %zu: %x", i, code);
        buf_release(&out);
    }
    the_server_is_well(f);
    fixture_free(f);
}

/* A few, now and then, are fine. */
static void a_lively_client_is_no_flood(void **state)
{
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    h2_open(&p, f);
    for (int i = 0; i < 300; i++) {
        nghttp2_submit_ping(p.session, NGHTTP2_FLAG_NONE, NULL);
        nghttp2_submit_settings(p.session, NGHTTP2_FLAG_NONE, NULL, 0);
        assert_int_equal(h2_wait(&p, h2_get(&p, "/hello"))->status, 200);
        if (i % 6)
            continue;
        int32_t id = h2_get(&p, "/hold");
        h2_send(&p);
        nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    }
    assert_false(p.has_goaway);
    h2_close(&p);
    fixture_free(f);
}

static void rapid_resets_end_the_connection(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf out;

    (void)state;
    start(&out);
    for (uint32_t i = 0; i < 5000; i++) {
        h2_raw_request(&out, 2 * i + 1, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
        h2_frame(&out, NGHTTP2_RST_STREAM, 0, 2 * i + 1, "\0\0\0\x08", 4);
    }
    uint32_t code = last_words(f, &out);
    assert_int_not_equal(code, UINT32_MAX);
    assert_int_not_equal(code, NGHTTP2_NO_ERROR);
    buf_release(&out);
    the_server_is_well(f);
    fixture_free(f);
}

/* The server is brought to reset the streams itself: a window beyond 2^31, again and again. */
static void provoked_resets_end_the_connection(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf out;

    (void)state;
    start(&out);
    for (uint32_t i = 0; i < 600; i++) {
        h2_frame(&out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1,
                 "\x83\x86\x04\x05/echo\x01\x01h", 12);
        h2_frame(&out, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, "\x7f\xff\xff\xff", 4);
    }
    assert_int_equal(last_words(f, &out), NGHTTP2_ENHANCE_YOUR_CALM);
    buf_release(&out);
    the_server_is_well(f);
    fixture_free(f);
}

static void headers_without_end_are_cut_off(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    struct buf out;
    char piece[1000];

    (void)state;
    start(&out);
    h2_raw_request(&out, 1, NGHTTP2_FLAG_END_STREAM);
    memset(piece, 'c', sizeof piece);
    memcpy(piece, "\x00\x01y\x7f\xe4\x06", 6);
    for (int i = 0; i < 10000; i++)
        h2_frame(&out, NGHTTP2_CONTINUATION, 0, 1, piece, 990);
    uint32_t code = last_words(f, &out);
    assert_int_not_equal(code, UINT32_MAX);
    assert_int_not_equal(code, NGHTTP2_NO_ERROR);
    buf_release(&out);
    the_server_is_well(f);
    fixture_free(f);
}

/* ---- against the rules ---- */

struct broken {
    uint8_t type, flags;
    uint32_t id;
    const char *bytes;
    size_t len;
};

static void broken_frames_end_the_connection(void **state)
{
    static const char large[20000];
    static const struct broken rows[] = {
        { NGHTTP2_DATA, 0, 0, "x", 1 },                           /* of no stream */
        { NGHTTP2_DATA, 0, 7, "x", 1 },                           /* of one that never was */
        { NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\x09x", 2 },     /* more padding than frame */
        { NGHTTP2_HEADERS, 5, 0, "\x82", 1 },                     /* of no stream */
        { NGHTTP2_HEADERS, 5, 2, "\x82\x86\x84", 3 },             /* of the server's */
        { NGHTTP2_HEADERS, 5, 3, "\xff\xff\xff\xff\xff\xff", 6 }, /* not HPACK */
        { NGHTTP2_HEADERS, 5, 3, "\xc6", 1 },                     /* an entry that is not there */
        { NGHTTP2_HEADERS, 5, 3, "\x3f\xff\xff\xff\x7f", 5 },     /* a table of any size */
        { NGHTTP2_PRIORITY, 0, 1, "\0\0\0", 3 },                  /* too short */
        { NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\0", 4 },              /* of no stream */
        { NGHTTP2_RST_STREAM, 0, 9, "\0\0\0\0", 4 },              /* of one that never was */
        { NGHTTP2_SETTINGS, 0, 1, "", 0 },                        /* of a stream */
        { NGHTTP2_SETTINGS, 0, 0, "12345", 5 },                   /* not a list */
        { NGHTTP2_SETTINGS, 1, 0, "123456", 6 },                  /* acknowledged with words */
        { NGHTTP2_SETTINGS, 0, 0, "\0\x04\xff\xff\xff\xff", 6 },  /* a window beyond 2^31 */
        { NGHTTP2_SETTINGS, 0, 0, "\0\x05\0\0\0\x01", 6 },        /* frames of one byte */
        { NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\x02\x82", 5 },      /* by a client */
        { NGHTTP2_PING, 0, 0, "1234567", 7 },                     /* too short */
        { NGHTTP2_PING, 0, 1, "12345678", 8 },                    /* of a stream */
        { NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0", 4 },                  /* too short */
        { NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4 },           /* by nothing */
        { NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4 },   /* beyond 2^31 */
        { NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0", 2 },               /* too short */
        { NGHTTP2_CONTINUATION, 4, 1, "\x82", 1 },                /* of nothing */
        { NGHTTP2_DATA, 0, 1, large, sizeof large },              /* larger than a frame may be */
        { NGHTTP2_HEADERS, 5, 3, large, sizeof large },           /* the same */
    };
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        start(&out);
        h2_frame(&out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1,
                 "\x83\x86\x04\x05/echo\x01\x01h", 12); /* a request whose body is due */
        h2_frame(&out, rows[i].type, rows[i].flags, rows[i].id, rows[i].bytes, rows[i].len);
        uint32_t code = last_words(f, &out);
        if (code == UINT32_MAX || code == NGHTTP2_NO_ERROR)
            fail_msg("row %zu: %x", i, code);
        buf_release(&out);
    }
    the_server_is_well(f);
    fixture_free(f);
}

static void broken_requests_end_their_stream(void **state)
{
    static const struct h2_request rows[] = {
        { .method = "GET" }, /* no path */
        { .path = "" },
        { .path = "/hello", .authority = "" }, /* and no Host */
        { .path = "no-slash" },
        { .path = "/hello", .extra = { "connection", "close" } },
        { .path = "/hello", .extra = { "transfer-encoding", "chunked" } },
        { .path = "/hello", .extra = { "te", "gzip" } },
        { .path = "/hello", .extra = { ":status", "200" } },
        { .path = "/hello", .extra = { ":path", "/again" } },
        { .path = "/hello", .extra = { "x", "line\r\nend" } },
        { .path = "/hello", .extra = { "bad name", "x" } },
        { .path = "/echo",
          .method = "POST",
          .has_body = true,
          .body_bytes = 5,
          .extra = { "content-length", "4" } },
        { .path = "/echo",
          .method = "POST",
          .has_body = true,
          .body_bytes = 5,
          .extra = { "content-length", "x" } },
        { .path = "/echo",
          .method = "POST",
          .has_body = true,
          .body_bytes = 5,
          .extra = { "content-length", "5", "content-length", "5" } },
        { .path = "/hello", .extra = { "content-length", "4" } },
        { .path = "h:443", .method = "CONNECT" },
    };
    struct fixture *f = fixture_new(default_limits());

    (void)state;
    h2_open(&p, f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h2_answer *a = h2_wait(&p, h2_ask(&p, rows[i]));
        if (a->code != NGHTTP2_PROTOCOL_ERROR || a->status)
            fail_msg("row %zu: status %d, code %u", i, a->status, a->code);
    }
    assert_int_equal(h2_wait(&p, h2_get(&p, "/hello"))->status, 200);
    h2_close(&p);
    fixture_free(f);
}

static void garbage_does_no_harm(void **state)
{
    struct fixture *f = fixture_new(default_limits());
    unsigned seed = 11;

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct buf out;
        start(&out);
        for (int j = 0; j < 20; j++) {
            char bytes[64];
            size_t len = (size_t)rand_r(&seed) % sizeof bytes;
            for (size_t k = 0; k < len; k++)
                bytes[k] = (char)rand_r(&seed);
            if (j % 3 == 0)
                h2_raw_request(&out, (uint32_t)(2 * j + 1), (uint8_t)(rand_r(&seed) & 5));
            h2_frame(&out, (uint8_t)(rand_r(&seed) % 11), (uint8_t)rand_r(&seed),
                     (uint32_t)rand_r(&seed) % 40, bytes, len);
        }
        int fd = dial(f);
        put_bytes(fd, out.ptr, out.len);
        if (i % 3 == 0)
            shutdown(fd, SHUT_WR);
        close(fd);
        buf_release(&out);
    }
    the_server_is_well(f);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_over_the_limit_get_413),
        cmocka_unit_test(headers_over_the_limit_get_431),
        cmocka_unit_test(a_header_bomb_is_not_unpacked),
        cmocka_unit_test(streams_over_the_limit_are_refused),
        cmocka_unit_test(what_is_slow_ends),
        cmocka_unit_test(a_client_that_reads_nothing_is_dropped),
        cmocka_unit_test(idle_connections_are_closed),
        cmocka_unit_test(half_a_request_is_closed_in_time),
        cmocka_unit_test(floods_are_told_to_calm_down),
        cmocka_unit_test(a_lively_client_is_no_flood),
        cmocka_unit_test(rapid_resets_end_the_connection),
        cmocka_unit_test(provoked_resets_end_the_connection),
        cmocka_unit_test(headers_without_end_are_cut_off),
        cmocka_unit_test(broken_frames_end_the_connection),
        cmocka_unit_test(broken_requests_end_their_stream),
        cmocka_unit_test(garbage_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
