/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed replies, and compressed requests that are not taken. */
#include "h2peer.h"
#include "net/gzip.h"
#include <zlib.h>

static void accept_encoding_is_understood(void **state)
{
    static const struct {
        const char *text;
        bool is_welcome;
    } rows[] = {
        { "gzip", true },
        { "GZIP", true },
        { "x-gzip", true },
        { "gzip, deflate, br", true },
        { "deflate, br ,gzip", true },
        { "br;q=1.0, gzip;q=0.8, *;q=0.1", true },
        { "*", true },
        { "*;q=0.5", true },
        { "gzip;q=0.001", true },
        { "gzip ; q=0.5", true },
        { "gzip;level=9;q=1", true },
        { "gzip;q=0.5, identity;q=0.5", true },
        { "gzip, identity;q=0", true },
        { "", false },
        { " ", false },
        { "identity", false },
        { "deflate", false },
        { "gzipped", false },
        { "gzi", false },
        { "gzip;q=0", false },
        { "gzip;q=0.000", false },
        { "gzip; Q=0", false },
        { "*;q=0", false },
        { "gzip;q=0, *", false },
        { "*, gzip;q=0", false },
        { "gzip;q=0.4, identity;q=0.5", false },
        { "gzip;q=", false },
        { "gzip;q=x", false },
        { "gzip;q=-1", false },
        { ",,,;;=,", false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (gzip_is_welcome(slice_str(rows[i].text)) != rows[i].is_welcome)
            fail_msg("'%s'", rows[i].text);
}

static void types_that_shrink_are_known(void **state)
{
    static const char *const yes[] = { "application/json",    "application/json; charset=utf-8",
                                       "Application/JSON",    "text/plain",
                                       "text/html;charset=x", "application/problem+json",
                                       "image/svg+xml",       "application/x-ndjson" };
    static const char *const no[] = {
        "image/png", "application/octet-stream", "application/gzip", "application/jsonx", "json", ""
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (!gzip_suits(yes[i]))
            fail_msg("%s", yes[i]);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (gzip_suits(no[i]))
            fail_msg("%s", no[i]);
}

/* Unpacks a whole gzip file. */
static void unpack(struct slice in, struct buf *out)
{
    z_stream z = { .next_in = (Bytef *)in.ptr, .avail_in = (uInt)in.len };
    int rc = Z_OK;

    buf_init(out, 0);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    while (rc == Z_OK) {
        char bytes[4096];
        z.next_out = (Bytef *)bytes;
        z.avail_out = sizeof bytes;
        rc = inflate(&z, Z_NO_FLUSH);
        buf_add(out, bytes, sizeof bytes - z.avail_out);
    }
    assert_int_equal(rc, Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    inflateEnd(&z);
}

static void what_does_not_shrink_stays(void **state)
{
    struct buf out, back, text;
    unsigned seed = 3;

    (void)state;
    buf_init(&out, 0);
    buf_init(&text, 0);
    buf_add_str(&out, "kept");
    assert_false(gzip_pack(slice_str(""), &out));
    assert_false(gzip_pack(slice_str("short"), &out));
    for (int i = 0; i < 100000; i++)
        buf_add_char(&text, (char)rand_r(&seed));
    assert_false(gzip_pack(buf_slice(&text), &out));
    assert_string_equal(buf_cstr(&out), "kept");
    for (size_t i = 0; i < text.len; i++)
        text.ptr[i] = (char)('a' + (text.ptr[i] & 3));
    assert_true(gzip_pack(buf_slice(&text), &out));
    assert_true(out.len < text.len / 3);
    unpack(slice_of(out.ptr + 4, out.len - 4), &back);
    assert_true(slice_eq(buf_slice(&back), buf_slice(&text)));
    buf_release(&out);
    buf_release(&back);
    buf_release(&text);
}

/* ---- over the wire ---- */

static struct fixture *packing(void)
{
    struct http_limits limits = default_limits();

    limits.gzip_bytes = 1000;
    return fixture_new(limits);
}

/* The body of the reply, and its head as text. */
static struct slice split(struct buf *in)
{
    char *end = memmem(in->ptr, in->len, "\r\n\r\n", 4);

    assert_non_null(end);
    struct slice body = slice_of(end + 4, (size_t)(in->ptr + in->len - end - 4));
    end[2] = 0;
    return body;
}

static void large_replies_are_packed_for_who_asks(void **state)
{
    static const struct {
        const char *request;
        bool is_packed, varies;
    } rows[] = {
        { "GET /json?1000 HTTP/1.1\r\nAccept-Encoding: gzip\r\n", true, true },
        { "GET /json?999 HTTP/1.1\r\nAccept-Encoding: gzip\r\n", false, true }, /* too small */
        { "GET /json?1000 HTTP/1.1\r\n", false, true },
        { "GET /json?1000 HTTP/1.1\r\nAccept-Encoding: gzip;q=0\r\n", false, true },
        { "GET /json?100000 HTTP/1.1\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip\r\n", true,
          true },
        { "GET /json?1000 HTTP/1.0\r\nAccept-Encoding: gzip\r\n", true, true },
        { "GET /stream?3 HTTP/1.1\r\nAccept-Encoding: gzip\r\n", false, false }, /* in pieces */
        { "GET /events HTTP/1.1\r\nAccept-Encoding: gzip\r\n", false, false },
    };
    struct fixture *f = packing();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[256];
        struct buf in, body;
        snprintf(text, sizeof text, "%sHost: h\r\nConnection: close\r\n\r\n", rows[i].request);
        talk(f, text, &in);
        struct slice got = split(&in);
        if (has(&in, "Content-Encoding: gzip\r\n") != rows[i].is_packed ||
            has(&in, "Vary: Accept-Encoding\r\n") != rows[i].varies)
            fail_msg("row %zu: %s", i, buf_cstr(&in));
        if (rows[i].is_packed) {
            char length[64];
            snprintf(length, sizeof length, "Content-Length: %zu\r\n", got.len);
            assert_has(&in, length);
            unpack(got, &body);
            assert_int_equal(body.len, strtoul(strchr(text, '?') + 1, NULL, 10));
            assert_int_equal(memcmp(body.ptr, "{\"a\":1},{\"a\":1}", 15), 0);
            buf_release(&body);
        }
        buf_release(&in);
    }
    fixture_free(f);
}

static void head_has_the_length_of_the_packed_body(void **state)
{
    struct fixture *f = packing();
    struct buf get, head;

    (void)state;
    talk(f,
         "GET /json?9000 HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nConnection: "
         "close\r\n\r\n",
         &get);
    talk(f,
         "HEAD /json?9000 HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nConnection: "
         "close\r\n\r\n",
         &head);
    assert_int_equal(split(&head).len, 0);
    split(&get);
    assert_string_equal(strstr(get.ptr, "Server"), strstr(head.ptr, "Server"));
    buf_release(&get);
    buf_release(&head);
    fixture_free(f);
}

static struct h2_peer p; /* large */

static void http2_packs_as_well(void **state)
{
    struct fixture *f = packing();
    struct h2_answer *a;
    struct buf body;

    (void)state;
    h2_open(&p, f);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .path = "/json?50000",
                                                    .extra = { "accept-encoding", "gzip" } }));
    assert_has(&a->headers, "content-encoding: gzip\n");
    assert_has(&a->headers, "vary: Accept-Encoding\n");
    unpack(buf_slice(&a->body), &body);
    assert_int_equal(body.len, 50000);
    buf_release(&body);
    h2_close(&p);
    fixture_free(f);
}

static void packed_requests_are_not_taken(void **state)
{
    struct fixture *f = packing();
    struct h2_answer *a;
    struct buf in;

    (void)state;
    talk(f,
         "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
         "Content-Length: 2\r\n\r\nxx",
         &in);
    assert_has(&in, "HTTP/1.1 415 Unsupported Media Type\r\n");
    assert_has(&in, "Accept-Encoding: identity\r\n");
    assert_has(&in, "without Content-Encoding");
    buf_release(&in);
    talk(f,
         "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Encoding: Identity\r\n"
         "Content-Length: 2\r\n\r\nok",
         &in);
    assert_has(&in, "\r\n\r\nok");
    buf_release(&in);
    talk(f,
         "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: gzip, chunked"
         "\r\n\r\n0\r\n\r\n",
         &in);
    assert_has(&in, "HTTP/1.1 501 ");
    buf_release(&in);
    h2_open(&p, f);
    a = h2_wait(&p, h2_ask(&p, (struct h2_request){ .method = "POST",
                                                    .path = "/echo",
                                                    .extra = { "content-encoding", "deflate" } }));
    assert_int_equal(a->status, 415);
    assert_has(&a->headers, "accept-encoding: identity\n");
    assert_int_equal(atomic_load(&f->bodies), 1); /* of the one that was fine */
    h2_close(&p);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_encoding_is_understood),
        cmocka_unit_test(types_that_shrink_are_known),
        cmocka_unit_test(what_does_not_shrink_stays),
        cmocka_unit_test(large_replies_are_packed_for_who_asks),
        cmocka_unit_test(head_has_the_length_of_the_packed_body),
        cmocka_unit_test(http2_packs_as_well),
        cmocka_unit_test(packed_requests_are_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
