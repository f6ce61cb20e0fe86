/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/val.h"
#include <stdio.h>

static const char *hex(const uint8_t *bytes, size_t len)
{
    static char text[129];

    hash_hex(bytes, len, text);
    return text;
}

/* Fixed for ever: slots, stored objects and placement depend on them. */
static void xxh3_gives_the_golden_vectors(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {
        { "", 0x2d06800538d394c2u },
        { "a", 0xe6c632b61e964e1fu },
        { "abc", 0x78af5f94892f3950u },
        { "_key", 0xbed94cc41cd9c7ceu },
        { "customers/4711", 0x593f7d12d89c2dau },
        { "The quick brown fox jumps over the lazy dog", 0xce7d19a5418fb365u },
    };
    char big[1000];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t hash = hash_xxh3(rows[i].text, strlen(rows[i].text));
        assert_int_equal(hash, rows[i].hash);
        assert_int_equal(hash_slot(slice_str(rows[i].text)), rows[i].hash >> 52);
        assert_int_equal(val_name_hash(slice_str(rows[i].text)), (uint32_t)rows[i].hash);
    }
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)i;
    assert_int_equal(hash_xxh3(big, sizeof big), 0xd33dd80b46f60e50u);
    assert_int_equal(hash_xxh3(NULL, 0), 0x2d06800538d394c2u);
}

static void slots_are_spread_evenly(void **state)
{
    static unsigned counts[SLOT_COUNT];
    char key[32];

    (void)state;
    for (int i = 0; i < SLOT_COUNT * 100; i++) {
        int len = snprintf(key, sizeof key, "key%d", i);
        uint16_t slot = hash_slot(slice_of(key, (size_t)len));
        assert_true(slot < SLOT_COUNT);
        counts[slot]++;
    }
    for (int i = 0; i < SLOT_COUNT; i++)
        assert_in_range(counts[i], 40, 180);
}

static void digests_are_those_of_the_standards(void **state)
{
    uint8_t out[32];

    (void)state;
    hash_sha256("abc", 3, out);
    assert_string_equal(hex(out, 32),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256(NULL, 0, out);
    assert_string_equal(hex(out, 32),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_md5("abc", 3, out);
    assert_string_equal(hex(out, 16), "900150983cd24fb0d6963f7d28e17f72");
    hash_sha1("abc", 3, out);
    assert_string_equal(hex(out, 20), "a9993e364706816aba3e25717850c26c9cd0d89d");
    hash_hmac_sha256(slice_str("Jefe"), slice_str("what do ya want for nothing?"), out);
    assert_string_equal(hex(out, 32),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hash_hmac_sha256(slice_str(""), slice_str(""), out);
    assert_string_equal(hex(out, 32),
                        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void a_stream_hashes_like_its_whole(void **state)
{
    struct sha256 *s = sha256_new();
    uint8_t out[32];

    (void)state;
    for (int i = 0; i < 1000; i++)
        sha256_add(s, "aaaaaaaaaa", 10);
    sha256_finish(s, out);
    assert_string_equal(hex(out, 32),
                        "27dd1f61b867b6a0f6e9d8a41c43231de52107e53ae424de8f847b821db4b711");
}

static void equality_looks_at_every_byte(void **state)
{
    (void)state;
    assert_true(hash_equal("abcd", "abcd", 4));
    assert_false(hash_equal("abcd", "abce", 4));
    assert_true(hash_equal("a", "b", 0));
}

static void base64_goes_both_ways(void **state)
{
    static const char *const rows[][3] = { { "", "", "" },
                                           { "f", "Zg==", "Zg" },
                                           { "fo", "Zm8=", "Zm8" },
                                           { "foo", "Zm9v", "Zm9v" },
                                           { "foobar", "Zm9vYmFy", "Zm9vYmFy" },
                                           { "\xFB\xFF\xFE", "+//+", "-__-" } };
    static const char *const bad[] = { "Zg=", "Zg", "Z===", "Zm9v*mFy", "====", "Zh==", "Zm9v\n" };
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int url = 0; url < 2; url++) {
            buf_clear(&out);
            base64_encode(slice_str(rows[i][0]), url, &out);
            assert_string_equal(buf_cstr(&out), rows[i][1 + url]);
            buf_clear(&out);
            assert_int_equal(base64_decode(slice_str(rows[i][1 + url]), url, &out),
                             strlen(rows[i][0]));
            assert_string_equal(buf_cstr(&out), rows[i][0]);
        }
    }
    buf_clear(&out);
    buf_add_str(&out, "before");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(base64_decode(slice_str(bad[i]), false, &out), -1);
        assert_string_equal(buf_cstr(&out), "before");
    }
    assert_int_equal(base64_decode(slice_str("+//+"), true, &out), -1);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xxh3_gives_the_golden_vectors),
        cmocka_unit_test(slots_are_spread_evenly),
        cmocka_unit_test(digests_are_those_of_the_standards),
        cmocka_unit_test(a_stream_hashes_like_its_whole),
        cmocka_unit_test(equality_looks_at_every_byte),
        cmocka_unit_test(base64_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
