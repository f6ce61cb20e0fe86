/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal -- symmetric encryption: values with AES-256-GCM, temporary files with AES-256-CTR. Hides
 * libcrypto. Any thread; nothing here waits.
 */
#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/base.h"

enum { SEAL_KEY_BYTES = 32, SEAL_NONCE_BYTES = 12, SEAL_TAG_BYTES = 16 };

/*
 * Encrypts text and vouches for it and for aad. out gets text.len bytes and SEAL_TAG_BYTES more.
 * A nonce must never come twice with one key.
 */
void seal_encrypt(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                  struct slice aad, struct slice text, uint8_t *out);

/*
 * The text of what seal_encrypt gave, in out: sealed.len - SEAL_TAG_BYTES bytes. False: it was made
 * with another key, nonce or aad, or a bit of it has changed; then out is zeroed.
 */
MUST_CHECK bool seal_decrypt(const uint8_t key[SEAL_KEY_BYTES],
                             const uint8_t nonce[SEAL_NONCE_BYTES], struct slice aad,
                             struct slice sealed, uint8_t *out);

/*
 * Encrypts or decrypts, in place, the bytes that stand at that place of a stream. No place is
 * written twice with one key; changes are not noticed.
 */
void seal_stream(const uint8_t key[SEAL_KEY_BYTES], uint64_t at, void *bytes, size_t len);

/* Zeroes what the compiler may not leave out. */
void seal_wipe(void *bytes, size_t len);

#endif
