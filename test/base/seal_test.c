/* SPDX-License-Identifier: Apache-2.0 */
/* Known answers of AES-256-GCM and -CTR, and key files. */
#include "base/seal.h"

#include "../check.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/keyring.h"

static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
    return n;
}

static void assert_hex(const uint8_t *bytes, size_t len, const char *want)
{
    char text[1024];
    assert_true(2 * len < sizeof text);
    hash_hex(bytes, len, text);
    assert_string_equal(text, want);
}

/* Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation". */
static const char gcm_key[] = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
                  gcm_nonce[] = "cafebabefacedbaddecaf888",
                  gcm_text[] = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                               "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
                  gcm_aad[] = "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                  gcm_sealed[] = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                                 "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
                                 "76fc6ece0f4e1768cddf8853bb2d551b";

static void gcm_gives_the_known_answer(void **state)
{
    uint8_t key[32], nonce[12], text[64], aad[64], out[128], back[64];
    (void)state;
    unhex(gcm_key, key);
    unhex(gcm_nonce, nonce);
    size_t len = unhex(gcm_text, text), aad_len = unhex(gcm_aad, aad);
    seal_encrypt(key, nonce, slice_of(aad, aad_len), slice_of(text, len), out);
    assert_hex(out, len + SEAL_TAG_BYTES, gcm_sealed);
    assert_true(seal_decrypt(key, nonce, slice_of(aad, aad_len),
                             slice_of(out, len + SEAL_TAG_BYTES), back));
    assert_memory_equal(back, text, len);
}

static void every_changed_bit_is_found(void **state)
{
    uint8_t key[32], nonce[12], aad[64], sealed[128], back[64];
    (void)state;
    unhex(gcm_key, key);
    unhex(gcm_nonce, nonce);
    size_t aad_len = unhex(gcm_aad, aad), len = unhex(gcm_sealed, sealed);
    struct slice with = slice_of(aad, aad_len), all = slice_of(sealed, len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        memset(back, 0xee, sizeof back);
        assert_false(seal_decrypt(key, nonce, with, all, back));
        for (size_t i = 0; i + SEAL_TAG_BYTES < len; i++)
            assert_int_equal(back[i], 0);
        sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    aad[3] ^= 1;
    assert_false(seal_decrypt(key, nonce, with, all, back));
    aad[3] ^= 1;
    nonce[0] ^= 1;
    assert_false(seal_decrypt(key, nonce, with, all, back));
    nonce[0] ^= 1;
    key[31] ^= 1;
    assert_false(seal_decrypt(key, nonce, with, all, back));
    key[31] ^= 1;
    for (size_t short_len = 0; short_len < len; short_len++)
        assert_false(seal_decrypt(key, nonce, with, slice_of(sealed, short_len), back));
    assert_true(seal_decrypt(key, nonce, with, all, back));
}

/* AES-256 of the blocks 0 and 1 under the key of zeros. */
static void a_stream_has_its_keystream_at_every_place(void **state)
{
    uint8_t key[32] = { 0 }, whole[100] = { 0 }, parts[100] = { 0 }, far[40] = { 0 };
    (void)state;
    seal_stream(key, 0, whole, sizeof whole);
    assert_hex(whole, 32,
               "dc95c078a2408989ad48a21492842087"
               "530f8afbc74536b9a963b4f1c4cb738b");
    for (size_t at = 0, n = 1; at < sizeof parts; at += n, n = n % 7 + 1)
        seal_stream(key, at, parts + at, n < sizeof parts - at ? n : sizeof parts - at);
    assert_memory_equal(parts, whole, sizeof whole);
    seal_stream(key, UINT64_C(1) << 40, far, sizeof far);
    assert_memory_not_equal(far, whole, sizeof far);
    seal_stream(key, UINT64_C(1) << 40, far, sizeof far);
    for (size_t i = 0; i < sizeof far; i++)
        assert_int_equal(far[i], 0);
}

/* ---- key files ---- */

static char path[64];

static void write_file(const char *text, unsigned mode)
{
    snprintf(path, sizeof path, "/tmp/themis-keys-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static void a_key_file_has_keys_with_ids(void **state)
{
    struct keyring *r;
    struct error err = { 0 };
    (void)state;
    write_file("# keys\n\nk1 " HEX "\n  2026-02\t" BASE64 "\r\n", 0600);
    assert_int_equal(keyring_load(&r, path, "", &err), OK);
    assert_int_equal(keyring_count(r), 2);
    assert_string_equal(keyring_at(r, 0)->id, "k1");
    assert_string_equal(keyring_writer(r)->id, "2026-02");
    assert_memory_equal(keyring_at(r, 0)->bytes, keyring_at(r, 1)->bytes, 32);
    assert_memory_equal(keyring_at(r, 0)->check, keyring_at(r, 1)->check, 4);
    assert_ptr_equal(keyring_find(r, slice_str("k1")), keyring_at(r, 0));
    assert_null(keyring_find(r, slice_str("k")));
    keyring_free(r);
    assert_int_equal(keyring_load(&r, path, "k1", &err), OK);
    assert_string_equal(keyring_writer(r)->id, "k1");
    keyring_free(r);
    assert_int_equal(keyring_load(&r, path, "k3", &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "'k3'"));
    unlink(path);
    assert_null(keyring_writer(NULL));
    assert_null(keyring_find(NULL, slice_str("k1")));
}

static void assert_refused(const char *text, unsigned mode, const char *why)
{
    struct keyring *r;
    struct error err = { 0 };
    write_file(text, mode);
    assert_int_equal(keyring_load(&r, path, "", &err), ERR_INVALID);
    unlink(path);
    assert_null(r);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
    assert_null(strstr(err.text, "0203")); /* nothing of a key */
}

static void a_key_file_that_is_wrong_is_refused(void **state)
{
    struct keyring *r;
    struct error err = { 0 };
    (void)state;
    assert_refused("k " HEX "\n", 0640, "mode 640");
    assert_refused("k " HEX "\n", 0604, "mode 604");
    assert_refused("", 0600, "no key");
    assert_refused("# only words\n", 0600, "no key");
    assert_refused("k " HEX "0\n", 0600, "line 1");
    assert_refused("k " HEX "00\n", 0600, "line 1");
    assert_refused("a " HEX "\n\nb 0g" HEX "\n", 0600, "line 3");
    assert_refused("a " HEX "\na " HEX "\n", 0600, "'a' again");
    assert_refused("a/b " HEX "\n", 0600, "line 1");
    assert_refused(HEX "\n", 0600, "line 1");
    assert_refused("abcdefghijabcdefghijabcdefghij123 " HEX "\n", 0600, "line 1");
    assert_int_equal(keyring_load(&r, "/tmp", "", &err), ERR_INVALID);
    assert_int_equal(keyring_load(&r, "/tmp/there/is/none", "", &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "/tmp/there/is/none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcm_gives_the_known_answer),
        cmocka_unit_test(every_changed_bit_is_found),
        cmocka_unit_test(a_stream_has_its_keystream_at_every_place),
        cmocka_unit_test(a_key_file_has_keys_with_ids),
        cmocka_unit_test(a_key_file_that_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
