/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the HTTP/2 object does when there is no room for its output: without
 * sockets and time, so that it is full at exactly the place that is meant.
 */
#include "h2peer.h"
#include "net/http2.h"

enum { BODY = 300000, FRAME_MAX = 16384 + 9 };

struct side {
    struct http2 *h;
    struct exchange *x[4]; /* references, in the order of their requests */
    size_t count, answered, gone, sent;
    struct buf got; /* all that was put */
};

static struct exchange *begin(void *ctx)
{
    struct side *s = ctx;

    s->x[s->count] = exchange_new(NULL, NULL);
    return exchange_ref(s->x[s->count++]);
}

static void headers(void *ctx, struct exchange *x)
{
    (void)ctx, (void)x;
}

static bool piece(void *ctx, struct exchange *x, struct slice bytes)
{
    (void)ctx, (void)x, (void)bytes;
    return true;
}

static bool complete(void *ctx, struct exchange *x)
{
    (void)ctx, (void)x;
    return true;
}

static void sent(void *ctx, struct exchange *x, size_t bytes)
{
    struct side *s = ctx;

    (void)x;
    s->sent += bytes;
}

static void answered(void *ctx, struct exchange *x)
{
    struct side *s = ctx;

    (void)x;
    s->answered++;
}

static void gone(void *ctx, struct exchange *x)
{
    struct side *s = ctx;

    (void)x;
    s->gone++;
}

/* Requests 1, 3, ... have been read; the windows are open unless said otherwise. */
static void side_open(struct side *s, size_t requests, bool is_shut)
{
    struct http2_options opt = {
        .events = { begin, headers, piece, complete, s, 16 * KIB, "themis/test" },
        .sent = sent,
        .answered = answered,
        .gone = gone,
        .streams = 10,
    };
    struct buf in;

    *s = (struct side){ 0 };
    s->h = http2_new(&opt);
    buf_init(&in, 0);
    buf_add_str(&in, H2_PREFACE);
    h2_frame(&in, NGHTTP2_SETTINGS, 0, 0, is_shut ? "\0\x04\0\0\0\0" : "\0\x04\0\x7f\xff\xff", 6);
    h2_frame(&in, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\x7f\xff\xff", 4);
    for (uint32_t i = 0; i < requests; i++)
        h2_raw_request(&in, 2 * i + 1, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
    assert_true(http2_feed(s->h, buf_slice(&in)));
    assert_int_equal(s->count, requests);
    buf_release(&in);
}

static void side_close(struct side *s)
{
    http2_free(s->h);
    for (size_t i = 0; i < s->count; i++)
        exchange_unref(s->x[i]);
    buf_release(&s->got);
}

static void reply(struct side *s, size_t i, size_t len)
{
    char *body = mem_alloc(len);

    memset(body, 'a' + (int)i, len);
    exchange_reply(s->x[i], 200, "text/plain", NULL, 0, slice_of(body, len));
    http2_ready(s->h, s->x[i]);
    mem_free(body);
}

/* One turn with room for max bytes, of which the kernel then takes all. */
static bool turn(struct side *s, size_t max)
{
    struct buf out;

    buf_init(&out, 0);
    bool is_full = http2_put(s->h, &out, max);
    assert_true(is_full == (out.len >= max));
    assert_true(out.len < max + FRAME_MAX);
    buf_add_slice(&s->got, buf_slice(&out));
    buf_release(&out);
    return is_full;
}

/* Bytes of DATA and ends of stream id, and its bytes are its own. */
static size_t data_of(const struct side *s, uint32_t id, size_t *ends)
{
    size_t total = 0;

    *ends = 0;
    for (size_t i = 0; i < s->got.len;) {
        const uint8_t *head = (const uint8_t *)s->got.ptr + i;
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        uint32_t of =
            (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
        assert_true(i + 9 + len <= s->got.len); /* whole frames only */
        if (head[3] == NGHTTP2_DATA && of == id) {
            total += len;
            *ends += head[4] & NGHTTP2_FLAG_END_STREAM;
            for (size_t j = 0; j < len; j += 101)
                assert_int_equal(head[9 + j], 'a' + (int)(id / 2));
        }
        i += 9 + len;
    }
    return total;
}

static void check_whole(const struct side *s, uint32_t id, size_t len)
{
    size_t ends;

    assert_int_equal(data_of(s, id, &ends), len);
    assert_int_equal(ends, 1);
}

static void a_full_output_stops_anywhere_and_goes_on(void **state)
{
    (void)state;
    for (size_t max = 1; max < 2 * FRAME_MAX; max += 397) {
        struct side s;
        side_open(&s, 1, false);
        reply(&s, 0, BODY);
        size_t turns = 0;
        while (turn(&s, max))
            assert_true(++turns < BODY);
        check_whole(&s, 1, BODY);
        assert_int_equal(s.answered, 1);
        assert_int_equal(s.gone, 1);
        assert_int_equal(s.sent, BODY);
        assert_int_equal(exchange_unsent(s.x[0]), 0);
        side_close(&s);
    }
}

/* Replies side by side while the output is always full: in the order of RFC 9218, none is lost. */
static void a_full_output_is_shared(void **state)
{
    struct side s;
    size_t turns = 0;

    (void)state;
    side_open(&s, 4, false);
    for (size_t i = 4; i-- > 0;)
        reply(&s, i, BODY);
    while (turn(&s, 16384))
        turns++;
    assert_true(turns > 4 * BODY / (2 * FRAME_MAX));
    for (uint32_t i = 0; i < 4; i++)
        check_whole(&s, 2 * i + 1, BODY);
    assert_int_equal(s.answered, 4);
    assert_int_equal(s.gone, 4);
    side_close(&s);
}

/* Nothing at all may be put: nothing is lost, not even what nghttp2 had begun. */
static void an_output_without_room_loses_nothing(void **state)
{
    struct side s;
    struct buf out;

    (void)state;
    side_open(&s, 2, false);
    reply(&s, 0, BODY);
    reply(&s, 1, 0);
    buf_init(&out, 0);
    for (int i = 0; i < 10; i++)
        assert_true(http2_put(s.h, &out, 0));
    assert_int_equal(out.len, 0);
    assert_int_equal(s.answered, 0);
    while (turn(&s, 1))
        for (int i = 0; i < 3; i++)
            assert_true(http2_put(s.h, &out, 0));
    assert_int_equal(out.len, 0);
    check_whole(&s, 1, BODY);
    check_whole(&s, 3, 0);
    side_close(&s);
}

/* A shut window is not a full output: the turn ends, and what opens it later is heard. */
static void a_shut_window_is_not_a_full_output(void **state)
{
    struct side s;
    struct buf in;
    size_t ends;

    (void)state;
    side_open(&s, 1, true);
    reply(&s, 0, 1000);
    assert_false(turn(&s, 100000));
    assert_int_equal(data_of(&s, 1, &ends), 0);
    assert_false(turn(&s, 100000));
    for (size_t open = 0; open < 1000; open += 100) {
        buf_init(&in, 0);
        h2_frame(&in, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\x64", 4);
        assert_true(http2_feed(s.h, buf_slice(&in)));
        buf_release(&in);
        assert_false(turn(&s, 100000));
        assert_int_equal(data_of(&s, 1, &ends), open + 100);
    }
    check_whole(&s, 1, 1000);
    assert_int_equal(s.answered, 1);
    side_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_output_stops_anywhere_and_goes_on),
        cmocka_unit_test(a_full_output_is_shared),
        cmocka_unit_test(an_output_without_room_loses_nothing),
        cmocka_unit_test(a_shut_window_is_not_a_full_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
