/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol alone: bytes in, exchanges and bytes out. */
#include "../check.h"
#include "net/http1.h"
#include <stdio.h>
#include <stdlib.h>

struct talk {
    struct http1 *p;
    struct exchange *list[64];
    size_t count, complete;
    struct buf log; /* what happened, as text */
    bool pauses_pieces, pauses_requests;
};

static struct exchange *begin(void *ctx)
{
    struct talk *t = ctx;
    struct exchange *x = exchange_new(NULL, NULL);

    t->list[t->count++] = exchange_ref(x);
    return x;
}

static void headers(void *ctx, struct exchange *x)
{
    struct talk *t = ctx;
    struct slice path = exchange_path(x), query = exchange_query(x);
    struct slice tag = exchange_header(x, "x-tag");

    buf_printf(&t->log, "[%d %.*s ?%.*s tag=%.*s]", exchange_method(x), SLICE_ARG(path),
               SLICE_ARG(query), SLICE_ARG(tag));
}

static bool piece(void *ctx, struct exchange *x, struct slice bytes)
{
    struct talk *t = ctx;

    (void)x;
    buf_add_slice(&t->log, bytes);
    return !t->pauses_pieces;
}

static bool complete(void *ctx, struct exchange *x)
{
    struct talk *t = ctx;

    (void)x;
    buf_add_str(&t->log, ";");
    t->complete++;
    return !t->pauses_requests;
}

static void talk_init(struct talk *t)
{
    struct protocol_events events = {
        .begin = begin,
        .headers = headers,
        .piece = piece,
        .complete = complete,
        .ctx = t,
        .header_bytes = 1024,
        .server_name = "themis/test",
    };

    *t = (struct talk){ 0 };
    t->p = http1_new(&events);
}

static void talk_release(struct talk *t)
{
    http1_free(t->p);
    for (size_t i = 0; i < t->count; i++)
        exchange_unref(t->list[i]);
    buf_release(&t->log);
}

/* Feeds all, again and again when it pauses. Returns the status of an error, or 0. */
static int feed(struct talk *t, const char *bytes, size_t len)
{
    while (len) {
        size_t used;
        struct protocol_error e = http1_feed(t->p, slice_of(bytes, len), &used);
        assert_true(used <= len);
        if (e.status)
            return e.status;
        bytes += used;
        len -= used;
    }
    return 0;
}

static const char two[] =
    "POST /a/b?c=d HTTP/1.1\r\nHost: h\r\nX-Tag: one  \r\nTransfer-Encoding: chunked\r\n"
    "\r\n3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\n"
    "PUT /second HTTP/1.1\r\nhost:h\r\ncontent-length:4\r\nx-tag: two\r\n\r\nwxyz"
    "GET /third HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
static const char two_log[] =
    "[4 /a/b ?c=d tag=one]abcdefgh;[8 /second ? tag=two]wxyz;[1 /third ? tag=];";

static void requests_may_be_split_at_every_byte(void **state)
{
    (void)state;
    for (size_t cut = 0; cut + 1 <= sizeof two; cut++) {
        for (int mode = 0; mode < 4; mode++) {
            struct talk t;
            talk_init(&t);
            t.pauses_pieces = mode & 1;
            t.pauses_requests = mode & 2;
            assert_int_equal(feed(&t, two, cut), 0);
            assert_int_equal(feed(&t, two + cut, sizeof two - 1 - cut), 0);
            assert_string_equal(buf_cstr(&t.log), two_log);
            assert_true(t.list[0]->keep_alive && t.list[1]->keep_alive);
            assert_false(t.list[2]->keep_alive);
            talk_release(&t);
        }
    }
}

static void requests_may_come_byte_by_byte(void **state)
{
    struct talk t;

    (void)state;
    talk_init(&t);
    for (size_t i = 0; i + 1 < sizeof two; i++)
        assert_int_equal(feed(&t, two + i, 1), 0);
    assert_string_equal(buf_cstr(&t.log), two_log);
    talk_release(&t);
}

static void the_end_of_a_paused_request_needs_no_further_bytes(void **state)
{
    static const char text[] = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nwxyz";
    struct talk t;
    size_t used;

    (void)state;
    talk_init(&t);
    t.pauses_pieces = true;
    assert_int_equal(feed(&t, text, sizeof text - 1), 0);
    assert_int_equal(t.complete, 0);
    assert_int_equal(http1_feed(t.p, slice_of(NULL, 0), &used).status, 0);
    assert_int_equal(t.complete, 1);
    assert_null(http1_current(t.p));
    talk_release(&t);
}

static int status_of(const char *text)
{
    struct talk t;

    talk_init(&t);
    int status = feed(&t, text, strlen(text));
    talk_release(&t);
    return status;
}

static void what_is_not_http_is_refused(void **state)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        { 400, "hello world\r\n\r\n" },
        { 400, "\x16\x03\x01\x02\x01\x01" },
        { 400, "GET / HTTP/1.1\r\n\r\n" }, /* no Host */
        { 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" },
        { 400, "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n" },
        { 400, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n" },
        { 400, "GET / HTTP/1.1\nHost: h\n\n" },
        { 400,
          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 400,
          "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n" },
        { 400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
               "ffffffffffffffffff\r\n" },
        { 417, "POST / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\n" },
        { 501, "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n" },
        { 501, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n" },
        { 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
        { 505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n" },
        { 505, "GET / HTTP/3.7\r\nHost: h\r\n\r\n" },
        { 0, "GET / HTTP/1.0\r\n\r\n" },
        { 0, "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (status_of(rows[i].text) != rows[i].status)
            fail_msg("status %d, expected %d, for %s", status_of(rows[i].text), rows[i].status,
                     rows[i].text);
}

static void headers_have_limits(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 0);
    buf_add_str(&text, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 100; i++)
        buf_add_str(&text, "A: b\r\n");
    buf_add_str(&text, "\r\n");
    assert_int_equal(status_of(buf_cstr(&text)), 431);

    buf_clear(&text);
    buf_add_str(&text, "GET /");
    for (int i = 0; i < 1100; i++)
        buf_add_char(&text, 'x');
    assert_int_equal(status_of(buf_cstr(&text)), 431);

    buf_clear(&text); /* trailers count, too */
    buf_add_str(&text, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ");
    for (int i = 0; i < 1100; i++)
        buf_add_char(&text, 'x');
    assert_int_equal(status_of(buf_cstr(&text)), 431);
    buf_release(&text);
}

static void headers_of_one_name_are_joined(void **state)
{
    static const char text[] =
        "GET / HTTP/1.1\r\nX-Tag: a\r\nHost: h\r\nY: 1\r\nx-tag: b\r\nX-TAG:\r\nY: 2\r\n\r\n";
    struct talk t;

    (void)state;
    talk_init(&t);
    assert_int_equal(feed(&t, text, sizeof text - 1), 0);
    struct exchange *x = t.list[0];
    assert_true(slice_is(exchange_header(x, "x-tag"), "a, b, "));
    assert_true(slice_is(exchange_header(x, "y"), "1, 2"));
    assert_true(slice_is(exchange_header(x, "host"), "h"));
    assert_int_equal(x->req.header_count, 3);
    talk_release(&t);
}

static void offers_to_upgrade_are_ignored(void **state)
{
    static const char text[] =
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";
    struct talk t;

    (void)state;
    talk_init(&t);
    assert_int_equal(feed(&t, text, sizeof text - 1), 0);
    assert_int_equal(t.complete, 2);
    talk_release(&t);
}

static void after_an_error_nothing_more_is_taken(void **state)
{
    struct talk t;
    size_t used;

    (void)state;
    talk_init(&t);
    assert_int_equal(feed(&t, "\x01\x02", 2), 400);
    struct protocol_error e =
        http1_feed(t.p, slice_str("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), &used);
    assert_int_equal(e.status, 0);
    assert_int_equal(used, 0);
    assert_int_equal(t.complete, 0);
    talk_release(&t);
}

/* ---- replies ---- */

static const char *reply_to(struct talk *t, const char *request, struct buf *out)
{
    struct buf big;

    buf_init(&big, 0);
    talk_init(t);
    assert_int_equal(feed(t, request, strlen(request)), 0);
    struct exchange *x = t->list[0];
    exchange_start(x, 200, "text/plain", NULL, 0);
    exchange_write(x, slice_str("abc"));
    http1_put_reply(t->p, x, false, out, &big);
    exchange_write(x, slice_str("defg"));
    exchange_finish(x);
    http1_put_reply(t->p, x, false, out, &big);
    assert_int_equal(big.len, 0);
    talk_release(t);
    return buf_cstr(out);
}

static void streams_are_chunked(void **state)
{
    struct talk t;
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    const char *text = reply_to(&t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &out);
    assert_non_null(strstr(text, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(text, "\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"));
    buf_clear(&out);
    text = reply_to(&t, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", &out);
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    buf_clear(&out);
    text = reply_to(&t, "GET / HTTP/1.0\r\n\r\n", &out);
    assert_null(strstr(text, "Transfer-Encoding"));
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\nabcdefg");
    buf_release(&out);
}

static void large_pieces_are_not_copied(void **state)
{
    enum { LARGE = 100000 };
    char *bytes = mem_zalloc(LARGE);
    struct talk t;
    struct buf out, big;

    (void)state;
    buf_init(&out, 0);
    buf_init(&big, 0);
    talk_init(&t);
    feed(&t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 27);
    exchange_start(t.list[0], 200, "text/plain", NULL, 0);
    exchange_write(t.list[0], slice_of(bytes, LARGE));
    exchange_finish(t.list[0]);
    http1_put_reply(t.p, t.list[0], false, &out, &big);
    assert_int_equal(big.len, LARGE + 7);
    assert_memory_equal(big.ptr + LARGE, "\r\n0\r\n\r\n", 7);
    assert_memory_equal(out.ptr + out.len - 7, "186a0\r\n", 7);
    buf_release(&out);
    buf_release(&big);
    mem_free(bytes);
    talk_release(&t);
}

static void headers_that_would_split_a_reply_are_left_out(void **state)
{
    struct http_header bad[] = { { "X-A", "b\r\nSet-Cookie: c" },
                                 { "X-B", "fine" },
                                 { "X:C", "d" } };
    struct talk t;
    struct buf out, big;

    (void)state;
    buf_init(&out, 0);
    buf_init(&big, 0);
    talk_init(&t);
    feed(&t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 27);
    exchange_reply(t.list[0], 200, NULL, bad, 3, slice_str(""));
    http1_put_reply(t.p, t.list[0], false, &out, &big);
    assert_null(strstr(buf_cstr(&out), "Set-Cookie"));
    assert_null(strstr(buf_cstr(&out), "X:C"));
    assert_non_null(strstr(buf_cstr(&out), "X-B: fine\r\n"));
    buf_release(&out);
    talk_release(&t);
}

static void random_bytes_do_no_harm(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct talk t;
        char bytes[sizeof two];
        memcpy(bytes, two, sizeof two);
        talk_init(&t);
        for (int i = 0; i < 1 + round % 4; i++)
            bytes[(size_t)rand_r(&seed) % (sizeof two - 1)] = (char)rand_r(&seed);
        feed(&t, bytes, sizeof two - 1);
        talk_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_may_be_split_at_every_byte),
        cmocka_unit_test(requests_may_come_byte_by_byte),
        cmocka_unit_test(the_end_of_a_paused_request_needs_no_further_bytes),
        cmocka_unit_test(what_is_not_http_is_refused),
        cmocka_unit_test(headers_have_limits),
        cmocka_unit_test(headers_of_one_name_are_joined),
        cmocka_unit_test(offers_to_upgrade_are_ignored),
        cmocka_unit_test(after_an_error_nothing_more_is_taken),
        cmocka_unit_test(streams_are_chunked),
        cmocka_unit_test(large_pieces_are_not_copied),
        cmocka_unit_test(headers_that_would_split_a_reply_are_left_out),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
