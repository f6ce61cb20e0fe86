/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash -- the two hashes fixed for ever, with golden vectors in the tests:
 * XXH3-64 for slots and value keys, SHA-256 for digests. Hides libxxhash and
 * libcrypto.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

uint64_t hash_xxh3(const void *bytes, size_t len);
void hash_sha256(const void *bytes, size_t len, uint8_t out[32]);
void hash_md5(const void *bytes, size_t len, uint8_t out[16]);
void hash_sha1(const void *bytes, size_t len, uint8_t out[20]);
void hash_sha512(const void *bytes, size_t len, uint8_t out[64]);
void hash_hmac_sha256(struct slice key, struct slice bytes, uint8_t out[32]);
/* Lower-case hexadecimal with terminator: out has 2 * len + 1 bytes. */
void hash_hex(const uint8_t *bytes, size_t len, char *out);
/* Password hashing; takes 128 * 8 << log_n bytes and tens of milliseconds at log_n 14. */
void hash_scrypt(struct slice password, struct slice salt, unsigned log_n, uint8_t out[32]);
bool hash_equal(const void *a, const void *b, size_t len); /* constant time */

/* Running SHA-256 of a stream. */
struct sha256;
struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *s, const void *bytes, size_t len);
void sha256_finish(struct sha256 *s, uint8_t out[32]); /* frees it */

/* Slot of placement: fixed for ever (4,096 slots). */
enum { SLOT_COUNT = 4096 };
uint16_t hash_slot(struct slice placement_key);

/* RFC 4648 base64 (url: the URL alphabet without padding). Decode returns -1 when broken. */
struct buf;
void base64_encode(struct slice in, bool is_url, struct buf *out);
long base64_decode(struct slice in, bool is_url, struct buf *out);

#endif
