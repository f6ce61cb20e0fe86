/* SPDX-License-Identifier: Apache-2.0 */
#include "base/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>

enum { BLOCK_BYTES = 16, PIECE_MAX = 1 << 30 };

/* Looked up once: by name it would take longer than a short value. */
static EVP_CIPHER *gcm, *ctr;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fetch(void)
{
    gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    ctr = EVP_CIPHER_fetch(NULL, "AES-256-CTR", NULL);
    if (!gcm || !ctr)
        BUG("AES-256 is not available");
}

static EVP_CIPHER_CTX *context(void)
{
    pthread_once(&once, fetch);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (!ctx)
        BUG("no memory for a cipher");
    return ctx;
}

static void must(int is_ok)
{
    if (!is_ok)
        BUG("AES-256 failed");
}

static const uint8_t *bytes_of(struct slice s)
{
    static const uint8_t none[1];
    return s.len ? (const uint8_t *)s.ptr : none;
}

void seal_encrypt(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                  struct slice aad, struct slice text, uint8_t *out)
{
    EVP_CIPHER_CTX *ctx = context();
    int n = 0;

    assert(aad.len < PIECE_MAX && text.len < PIECE_MAX);
    must(EVP_EncryptInit_ex2(ctx, gcm, key, nonce, NULL));
    must(EVP_EncryptUpdate(ctx, NULL, &n, bytes_of(aad), (int)aad.len));
    must(EVP_EncryptUpdate(ctx, out, &n, bytes_of(text), (int)text.len));
    must(EVP_EncryptFinal_ex(ctx, out + n, &n));
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, out + text.len));
    EVP_CIPHER_CTX_free(ctx);
}

bool seal_decrypt(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                  struct slice aad, struct slice sealed, uint8_t *out)
{
    if (sealed.len < SEAL_TAG_BYTES || sealed.len >= PIECE_MAX || aad.len >= PIECE_MAX)
        return false;
    struct slice text = slice_of(sealed.ptr, sealed.len - SEAL_TAG_BYTES);
    EVP_CIPHER_CTX *ctx = context();
    int n = 0;

    must(EVP_DecryptInit_ex2(ctx, gcm, key, nonce, NULL));
    must(EVP_DecryptUpdate(ctx, NULL, &n, bytes_of(aad), (int)aad.len));
    must(EVP_DecryptUpdate(ctx, out, &n, bytes_of(text), (int)text.len));
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG_BYTES,
                             (void *)(sealed.ptr + text.len)));
    bool is_right = EVP_DecryptFinal_ex(ctx, out + n, &n) > 0;
    EVP_CIPHER_CTX_free(ctx);
    if (!is_right)
        seal_wipe(out, text.len);
    return is_right;
}

void seal_stream(const uint8_t key[SEAL_KEY_BYTES], uint64_t at, void *bytes, size_t len)
{
    uint8_t block[BLOCK_BYTES] = { 0 }, skipped[BLOCK_BYTES] = { 0 };
    uint64_t number = at / BLOCK_BYTES;
    EVP_CIPHER_CTX *ctx = context();
    int n = 0;

    for (int i = 0; i < 8; i++)
        block[BLOCK_BYTES - 1 - i] = (uint8_t)(number >> 8 * i);
    must(EVP_EncryptInit_ex2(ctx, ctr, key, block, NULL));
    must(EVP_EncryptUpdate(ctx, skipped, &n, skipped, (int)(at % BLOCK_BYTES)));
    for (uint8_t *p = bytes; len;) {
        int piece = len < PIECE_MAX ? (int)len : PIECE_MAX;
        must(EVP_EncryptUpdate(ctx, p, &n, p, piece));
        p += piece;
        len -= (size_t)piece;
    }
    EVP_CIPHER_CTX_free(ctx);
}

void seal_wipe(void *bytes, size_t len)
{
    OPENSSL_cleanse(bytes, len);
}
