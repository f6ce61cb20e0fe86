/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/val_text.h"
#include "cluster/gen_code.h"
#include "cluster/peers.h"
#include <stdio.h>

static struct gen_request sample(struct arena *arena)
{
    static const struct gen_bias bias[] = { { 5, -100 }, { 7, 1.5F } };
    static const struct slice stops[] = { { "end", 3 }, { "\n\n", 2 } };
    struct gen_request req = { .model = slice_str("chat"),
                               .domain = slice_str("legal"),
                               .adapter = slice_str("a"),
                               .tenant = slice_str("root"),
                               .sampling = { .temperature = 0.25,
                                             .top_p = 0.5,
                                             .min_p = 0.125,
                                             .top_k = 40,
                                             .repeat_penalty = 1.5,
                                             .presence_penalty = -0.5,
                                             .frequency_penalty = 2,
                                             .seed = UINT64_MAX - 3,
                                             .has_seed = true,
                                             .bias = bias,
                                             .bias_count = 2 },
                               .max_tokens = 17,
                               .ignores_end = true,
                               .stops = stops,
                               .stop_count = 2,
                               .wants_logprobs = true,
                               .top_logprobs = 3 };

    if (val_parse(slice_str("[{\"role\":\"user\",\"content\":\"hé\"}]"), arena, &req.messages,
                  NULL) != OK)
        fail_msg("no JSON");
    return req;
}

static void a_request_reads_back(void **state)
{
    struct arena *arena = arena_new(0);
    struct gen_request req = sample(arena), back;
    struct error err = { 0 };
    struct buf bytes;

    (void)state;
    buf_init(&bytes, 0);
    assert_int_equal(gen_request_encode(&req, &bytes, &err), OK);
    assert_int_equal(gen_request_decode(buf_slice(&bytes), arena, &back, &err), OK);
    assert_true(slice_is(back.model, "chat") && slice_is(back.domain, "legal") &&
                slice_is(back.adapter, "a") && slice_is(back.tenant, "root"));
    assert_true(val_equal(back.messages, req.messages));
    assert_int_equal(back.token_count, 0);
    assert_int_equal(back.max_tokens, 17);
    assert_true(back.ignores_end && back.wants_logprobs);
    assert_int_equal(back.top_logprobs, 3);
    assert_int_equal(back.stop_count, 2);
    assert_true(slice_is(back.stops[1], "\n\n"));
    assert_true(back.sampling.temperature == 0.25 && back.sampling.top_p == 0.5 &&
                back.sampling.min_p == 0.125 && back.sampling.repeat_penalty == 1.5 &&
                back.sampling.presence_penalty == -0.5 && back.sampling.frequency_penalty == 2);
    assert_int_equal(back.sampling.top_k, 40);
    assert_true(back.sampling.has_seed && back.sampling.seed == UINT64_MAX - 3);
    assert_int_equal(back.sampling.bias_count, 2);
    assert_true(back.sampling.bias[1].id == 7 && back.sampling.bias[1].bias == 1.5F);
    buf_release(&bytes);
    arena_free(arena);
}

static void tokens_and_texts_travel_as_well(void **state)
{
    struct arena *arena = arena_new(0);
    static const int32_t tokens[] = { 0, 1, 32767, INT32_MAX };
    struct gen_request req = { .tokens = tokens, .token_count = 4 }, back;
    struct buf bytes;

    (void)state;
    buf_init(&bytes, 0);
    assert_int_equal(gen_request_encode(&req, &bytes, NULL), OK);
    assert_int_equal(gen_request_decode(buf_slice(&bytes), arena, &back, NULL), OK);
    assert_int_equal(back.token_count, 4);
    assert_memory_equal(back.tokens, tokens, sizeof tokens);
    assert_false(back.sampling.has_seed);
    buf_clear(&bytes);
    req = (struct gen_request){ .prompt = slice_str("once") };
    assert_int_equal(gen_request_encode(&req, &bytes, NULL), OK);
    assert_int_equal(gen_request_decode(buf_slice(&bytes), arena, &back, NULL), OK);
    assert_true(slice_is(back.prompt, "once") && val_is_null(back.messages));
    buf_release(&bytes);
    arena_free(arena);
}

/* Whatever the bytes are: a request or an error, no harm. */
static void damaged_requests_do_no_harm(void **state)
{
    struct arena *arena = arena_new(0);
    struct gen_request req = sample(arena), back;
    struct buf bytes;

    (void)state;
    buf_init(&bytes, 0);
    assert_int_equal(gen_request_encode(&req, &bytes, NULL), OK);
    for (size_t i = 0; i < bytes.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct error err = { 0 };
            bytes.ptr[i] = (char)(bytes.ptr[i] ^ (1 << bit));
            enum errc rc = gen_request_decode(buf_slice(&bytes), arena, &back, &err);
            assert_true(rc == OK || (rc == ERR_INVALID && err.text[0]));
            bytes.ptr[i] = (char)(bytes.ptr[i] ^ (1 << bit));
        }
        assert_int_equal(gen_request_decode(slice_of(bytes.ptr, i), arena, &back, NULL),
                         ERR_INVALID);
    }
    buf_release(&bytes);
    arena_free(arena);
}

/* ---- events ---- */

static void events_read_back_however_they_are_cut(void **state)
{
    struct error why = { ERR_LIMIT, 32, 507, "no memory for it" };
    struct gen_event events[] = {
        { .text = slice_str("hé"), .completion_tokens = 1, .prompt_tokens = 9, .queue_us = 77 },
        { .text = slice_str(""), .completion_tokens = 2 },
        { .is_last = true,
          .finish = GEN_FAILED,
          .err = &why,
          .completion_tokens = UINT32_MAX,
          .cached_tokens = 4,
          .prefill_us = UINT64_MAX,
          .decode_us = 3 },
    };
    struct buf all, in;

    (void)state;
    buf_init(&all, 0);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        gen_event_encode(&events[i], &all);
    for (size_t step = 1; step <= all.len; step++) {
        size_t got = 0;
        buf_init(&in, 0);
        for (size_t at = 0; at < all.len; at += step) {
            struct gen_event_frame f;
            buf_add(&in, all.ptr + at, all.len - at < step ? all.len - at : step);
            struct slice rest = buf_slice(&in);
            while (gen_event_decode(&rest, &f) == FRAME_WHOLE) {
                const struct gen_event *e = &events[got++];
                assert_true(slice_eq(f.event.text, e->text));
                assert_int_equal(f.event.is_last, e->is_last);
                assert_int_equal(f.event.completion_tokens, e->completion_tokens);
                assert_int_equal(f.event.prompt_tokens, e->prompt_tokens);
                assert_int_equal(f.event.cached_tokens, e->cached_tokens);
                assert_true(f.event.queue_us == e->queue_us && f.event.decode_us == e->decode_us &&
                            f.event.prefill_us == e->prefill_us);
                if (e->is_last) {
                    assert_int_equal(f.event.err->code, ERR_LIMIT);
                    assert_int_equal(f.event.err->http, 507);
                    assert_string_equal(f.event.err->text, "no memory for it");
                }
            }
            buf_drop(&in, in.len - rest.len);
        }
        assert_int_equal(got, ARRAY_LEN(events));
        assert_int_equal(in.len, 0);
        buf_release(&in);
    }
    buf_release(&all);
}

static void damaged_events_do_no_harm(void **state)
{
    struct error why = { ERR_BUSY, 0, 0, "busy" };
    struct gen_event e = {
        .text = slice_str("text"), .is_last = true, .finish = GEN_FAILED, .err = &why
    };
    struct buf bytes;

    (void)state;
    buf_init(&bytes, 0);
    gen_event_encode(&e, &bytes);
    for (size_t i = 0; i < bytes.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct gen_event_frame f;
            struct slice rest = buf_slice(&bytes);
            bytes.ptr[i] = (char)(bytes.ptr[i] ^ (1 << bit));
            enum gen_frame got = gen_event_decode(&rest, &f);
            if (got == FRAME_WHOLE)
                assert_true(utf8_check(f.event.text, NULL) && rest.len <= bytes.len);
            bytes.ptr[i] = (char)(bytes.ptr[i] ^ (1 << bit));
        }
    }
    buf_release(&bytes);
}

/* ---- hello ---- */

static void a_hello_reads_back(void **state)
{
    struct val_builder *b = val_builder_new(0);
    struct hello *h = mem_zalloc(sizeof *h), *back = mem_zalloc(sizeof *back);
    struct val v;

    (void)state;
    *h = (struct hello){ .cluster = "c",
                         .node = "n1",
                         .boot = "0123456789abcdef",
                         .epoch = 9,
                         .is_draining = true,
                         .running = 3,
                         .waiting = 4,
                         .model_count = 1 };
    h->models[0] = (struct peer_model){ "embed", MODEL_EMBEDDING, 512, 384 };
    hello_print(h, b);
    assert_int_equal(val_finish(b, &v, NULL), OK);
    assert_int_equal(hello_read(v, back, NULL), OK);
    assert_memory_equal(h, back, sizeof *h);
    assert_int_equal(hello_read(val_empty_object, back, NULL), ERR_CORRUPT);
    val_builder_free(b);
    mem_free(h);
    mem_free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reads_back),
        cmocka_unit_test(tokens_and_texts_travel_as_well),
        cmocka_unit_test(damaged_requests_do_no_harm),
        cmocka_unit_test(events_read_back_however_they_are_cut),
        cmocka_unit_test(damaged_events_do_no_harm),
        cmocka_unit_test(a_hello_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
