/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "cluster/gossip_codec.h"
#include <math.h>

static struct gossip_adapter adapter(const char *domain, double accuracy)
{
    struct gossip_adapter a = { .model = 7,
                                .accuracy = accuracy,
                                .latency_ms = -12.5,
                                .samples = 1000,
                                .round = 3,
                                .announced_ms = 1700000000000 };
    strncpy(a.domain, domain, GOSSIP_DOMAIN_BYTES);
    return a;
}

static void a_state_reads_back(void **state)
{
    struct gossip_adapter adapters[] = { adapter("legal", 0.875), adapter("medical", -1) };
    struct gossip_adapter space[GOSSIP_ADAPTERS_MAX];
    struct gossip_state in = { .is_draining = true,
                               .model_count = 2,
                               .models = { 7, UINT64_MAX },
                               .adapter_count = 2,
                               .adapters = adapters };
    struct gossip_state out = { .adapters = space };
    struct buf buf;

    (void)state;
    buf_init(&buf, 0);
    gossip_state_encode(&in, &buf);
    assert_int_equal(gossip_state_decode(buf_slice(&buf), &out, NULL), OK);
    assert_true(out.is_draining && !out.is_leaving);
    assert_int_equal(out.model_count, 2);
    assert_true(out.models[1] == UINT64_MAX);
    assert_int_equal(out.adapter_count, 2);
    assert_string_equal(space[1].domain, "medical");
    assert_true(space[0].accuracy == 0.875 && space[1].accuracy == -1);
    assert_true(space[0].latency_ms == -12.5);
    assert_int_equal(space[0].samples, 1000);
    assert_true(space[0].announced_ms == 1700000000000);
    buf_release(&buf);
}

/* Each shorter and each longer text is refused, and none is read beyond its end. */
static void a_state_cut_short_is_damaged(void **state)
{
    struct gossip_adapter adapters[] = { adapter("legal", 0.5) };
    struct gossip_adapter space[GOSSIP_ADAPTERS_MAX];
    struct gossip_state in = {
        .model_count = 1, .models = { 1 }, .adapter_count = 1, .adapters = adapters
    };
    struct gossip_state out = { .adapters = space };
    struct buf buf;

    (void)state;
    buf_init(&buf, 0);
    gossip_state_encode(&in, &buf);
    for (size_t len = 0; len < buf.len; len++) {
        char *exact = mem_strndup(slice_of(buf.ptr, len));
        assert_int_equal(gossip_state_decode(slice_of(exact, len), &out, NULL), ERR_CORRUPT);
        mem_free(exact);
    }
    buf_add_char(&buf, 0);
    assert_int_equal(gossip_state_decode(buf_slice(&buf), &out, NULL), ERR_CORRUPT);
    buf_release(&buf);
}

static void values_out_of_range_are_refused(void **state)
{
    static const double accuracies[] = { 1.0001, -1.0001, NAN, INFINITY };
    static const double latencies[] = { 3.7e6, -3.7e6, NAN, -INFINITY };
    static const char *const domains[] = { "", "a b", "../x", ".hidden" };
    struct error err;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct gossip_adapter bad[] = { adapter("legal", accuracies[i]), adapter("legal", 0),
                                        adapter(domains[i], 0) };
        bad[1].latency_ms = latencies[i];
        for (size_t k = 0; k < 3; k++) {
            struct gossip_state s = { .adapter_count = 1, .adapters = &bad[k] };
            assert_int_equal(gossip_state_check(&s, &err), ERR_INVALID);
        }
    }
    struct gossip_adapter twice[] = { adapter("legal", 0.1), adapter("legal", 0.2) };
    struct gossip_state s = { .adapter_count = 2, .adapters = twice };
    assert_int_equal(gossip_state_check(&s, &err), ERR_INVALID);
    twice[1].model++;
    assert_int_equal(gossip_state_check(&s, &err), OK);

    struct gossip_load load = { .pending = 1000001 };
    assert_int_equal(gossip_load_check(&load, &err), ERR_INVALID);
    load = (struct gossip_load){ .service_ms = 24 * 3600 * 1000 + 1 };
    assert_int_equal(gossip_load_check(&load, &err), ERR_INVALID);
}

static void load_and_prefixes_read_back(void **state)
{
    const struct gossip_load in = { 5, 8, 120, 1370, 2, 4000 };
    const struct gossip_chain chains[] = { { 11, 256 }, { UINT64_MAX, 512 } };
    struct gossip_chain space[GOSSIP_CHAINS_MAX];
    struct gossip_load out;
    unsigned count;
    struct buf buf;

    (void)state;
    buf_init(&buf, 0);
    gossip_load_encode(&in, &buf);
    assert_int_equal(gossip_load_decode(buf_slice(&buf), &out, NULL), OK);
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(gossip_load_decode(slice_of(buf.ptr, buf.len - 1), &out, NULL), ERR_CORRUPT);
    buf_clear(&buf);
    gossip_chains_encode(chains, 2, &buf);
    assert_int_equal(gossip_chains_decode(buf_slice(&buf), space, &count, NULL), OK);
    assert_int_equal(count, 2);
    assert_true(space[1].key == UINT64_MAX && space[1].tokens == 512);
    buf.ptr[0] = GOSSIP_CHAINS_MAX + 1;
    assert_int_equal(gossip_chains_decode(buf_slice(&buf), space, &count, NULL), ERR_CORRUPT);
    buf_release(&buf);
}

static void add_item(struct buf *out, uint16_t shard, const char *payload, const char *seal)
{
    size_t from = out->len;
    struct gossip_item head = { .shard = shard,
                                .boot = 1ull << 40,
                                .kind = GOSSIP_LOAD,
                                .version = 9,
                                .payload = slice_str(payload) };
    gossip_item_open(out, &head);
    gossip_item_close(out, from, slice_str(seal));
}

static void write_sample(struct buf *out)
{
    struct buf item;
    struct gossip_writer w;
    const struct gossip_claim claim = { 3, 1ull << 33, 77 };
    const struct gossip_digest digest = { 4, 5, { 1, 2, 3 } };

    buf_init(&item, 0);
    buf_init(out, 0);
    add_item(&item, 2, "hello", "seal");
    gossip_write_begin(&w, out, GOSSIP_SYN);
    assert_true(gossip_write_item(&w, buf_slice(&item)));
    assert_true(gossip_write_item(&w, buf_slice(&item)));
    assert_true(gossip_write_claim(&w, &claim));
    assert_true(gossip_write_digest(&w, &digest));
    assert_true(gossip_write_end(&w));
    buf_release(&item);
}

static void a_message_reads_back(void **state)
{
    struct buf buf;
    struct gossip_message msg;
    struct gossip_item item;
    struct gossip_claim claim;
    struct gossip_digest digest;

    (void)state;
    write_sample(&buf);
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), OK);
    assert_int_equal(msg.type, GOSSIP_SYN);
    assert_int_equal(msg.item_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(gossip_next_item(&msg.items, &item));
        assert_int_equal(item.shard, 2);
        assert_true(item.boot == 1ull << 40);
        assert_int_equal(item.version, 9);
        assert_true(slice_is(item.payload, "hello") && slice_is(item.seal, "seal"));
    }
    assert_false(gossip_next_item(&msg.items, &item));
    assert_true(gossip_next_claim(&msg.claims, &claim));
    assert_int_equal(claim.beat, 77);
    assert_false(gossip_next_claim(&msg.claims, &claim));
    assert_true(gossip_next_digest(&msg.digests, &digest));
    assert_int_equal(digest.versions[2], 3);
    assert_false(gossip_next_digest(&msg.digests, &digest));
    buf_release(&buf);
}

static void a_message_cut_short_is_damaged(void **state)
{
    struct buf buf;
    struct gossip_message msg;

    (void)state;
    write_sample(&buf);
    for (size_t len = 0; len < buf.len; len++) {
        char *exact = mem_strndup(slice_of(buf.ptr, len));
        assert_int_equal(gossip_message_decode(slice_of(exact, len), &msg, NULL), ERR_CORRUPT);
        mem_free(exact);
    }
    buf_add_char(&buf, 0);
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), ERR_CORRUPT);
    buf_release(&buf);
}

static void another_format_or_type_is_refused(void **state)
{
    struct buf buf;
    struct gossip_message msg;

    (void)state;
    write_sample(&buf);
    buf.ptr[0] = 2;
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), ERR_CORRUPT);
    buf.ptr[0] = 1;
    buf.ptr[1] = 4;
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), ERR_CORRUPT);
    buf.ptr[1] = 1;
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), OK);
    buf_release(&buf);
}

static void a_message_grows_up_to_its_limit(void **state)
{
    struct buf buf;
    struct gossip_writer w;
    struct gossip_message msg;
    const struct gossip_digest digest = { 4, 5, { 1, 2, 3 } };
    unsigned n = 0;

    (void)state;
    buf_init(&buf, 0);
    gossip_write_begin(&w, &buf, GOSSIP_SYN);
    while (gossip_write_digest(&w, &digest))
        n++;
    assert_true(gossip_write_end(&w));
    assert_in_range(buf.len, GOSSIP_MESSAGE_BYTES - 40, GOSSIP_MESSAGE_BYTES);
    assert_true(n > GOSSIP_MEMBERS_MAX); /* a digest of everybody fits */
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), OK);
    assert_int_equal(msg.digest_count, n);
    buf_release(&buf);
}

static void an_empty_message_says_nothing(void **state)
{
    struct buf buf;
    struct gossip_writer w;
    struct gossip_message msg;

    (void)state;
    buf_init(&buf, 0);
    gossip_write_begin(&w, &buf, GOSSIP_NEWS);
    assert_false(gossip_write_end(&w));
    assert_int_equal(gossip_message_decode(buf_slice(&buf), &msg, NULL), OK);
    buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_reads_back),
        cmocka_unit_test(a_state_cut_short_is_damaged),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(load_and_prefixes_read_back),
        cmocka_unit_test(a_message_reads_back),
        cmocka_unit_test(a_message_cut_short_is_damaged),
        cmocka_unit_test(another_format_or_type_is_refused),
        cmocka_unit_test(a_message_grows_up_to_its_limit),
        cmocka_unit_test(an_empty_message_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
