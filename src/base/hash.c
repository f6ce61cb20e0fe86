/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "base/buf.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#define XXH_INLINE_ALL /* names are hashed for each field of each row */
#include <xxhash.h>

uint64_t hash_xxh3(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}

uint16_t hash_slot(struct slice placement_key)
{
    return (uint16_t)(hash_xxh3(placement_key.ptr, placement_key.len) >> 52);
}

static void digest(const EVP_MD *md, const void *bytes, size_t len, uint8_t *out)
{
    unsigned n;

    if (!EVP_Digest(bytes, len, out, &n, md, NULL))
        BUG("digest failed");
}

void hash_sha256(const void *bytes, size_t len, uint8_t out[32])
{
    digest(EVP_sha256(), bytes, len, out);
}

void hash_md5(const void *bytes, size_t len, uint8_t out[16])
{
    digest(EVP_md5(), bytes, len, out);
}

void hash_sha1(const void *bytes, size_t len, uint8_t out[20])
{
    digest(EVP_sha1(), bytes, len, out);
}

void hash_sha512(const void *bytes, size_t len, uint8_t out[64])
{
    digest(EVP_sha512(), bytes, len, out);
}

void hash_hmac_sha256(struct slice key, struct slice bytes, uint8_t out[32])
{
    unsigned n = 32;
    static const char empty[1];

    if (!HMAC(EVP_sha256(), key.len ? key.ptr : empty, (int)key.len,
              (const unsigned char *)(bytes.len ? bytes.ptr : empty), bytes.len, out, &n))
        BUG("HMAC failed");
}

void hash_scrypt(struct slice password, struct slice salt, unsigned log_n, uint8_t out[32])
{
    enum { BLOCK = 8, PARALLEL = 1 }; /* r and p */
    uint64_t max_bytes = (UINT64_C(128) * BLOCK << log_n) + MIB;

    if (!EVP_PBE_scrypt(password.len ? password.ptr : "", password.len,
                        (const unsigned char *)salt.ptr, salt.len, UINT64_C(1) << log_n, BLOCK,
                        PARALLEL, max_bytes, out, 32))
        BUG("scrypt failed");
}

void hash_hex(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = 0;
}

bool hash_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

struct sha256 {
    EVP_MD_CTX *ctx;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *s = mem_alloc(sizeof *s);

    s->ctx = EVP_MD_CTX_new();
    if (!s->ctx || !EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL))
        BUG("SHA-256 is not available");
    return s;
}

void sha256_add(struct sha256 *s, const void *bytes, size_t len)
{
    if (!EVP_DigestUpdate(s->ctx, bytes, len))
        BUG("digest failed");
}

void sha256_finish(struct sha256 *s, uint8_t out[32])
{
    unsigned n;

    if (!EVP_DigestFinal_ex(s->ctx, out, &n))
        BUG("digest failed");
    EVP_MD_CTX_free(s->ctx);
    mem_free(s);
}

/* ---- base64 ---- */

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char urlsafe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64_encode(struct slice in, bool is_url, struct buf *out)
{
    const char *alphabet = is_url ? urlsafe : plain;

    for (size_t i = 0; i < in.len; i += 3) {
        size_t n = in.len - i < 3 ? in.len - i : 3;
        uint32_t v = (uint32_t)(uint8_t)in.ptr[i] << 16;
        if (n > 1)
            v |= (uint32_t)(uint8_t)in.ptr[i + 1] << 8;
        if (n > 2)
            v |= (uint8_t)in.ptr[i + 2];
        for (size_t k = 0; k < 4; k++) {
            if (k <= n)
                buf_add_char(out, alphabet[v >> (18 - 6 * k) & 63]);
            else if (!is_url)
                buf_add_char(out, '=');
        }
    }
}

/* Value of a digit, -1 when it is none. */
static int base64_digit(char c, bool is_url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (is_url ? '-' : '+'))
        return 62;
    return c == (is_url ? '_' : '/') ? 63 : -1;
}

static bool decode_digits(struct slice in, bool is_url, struct buf *out)
{
    uint32_t v = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < in.len; i++) {
        int digit = base64_digit(in.ptr[i], is_url);
        if (digit < 0)
            return false;
        v = v << 6 | (uint32_t)digit;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_add_char(out, (char)(v >> bits));
        }
    }
    return !(v & ((1u << bits) - 1)); /* bits that encode nothing are zero */
}

long base64_decode(struct slice in, bool is_url, struct buf *out)
{
    size_t start = out->len;

    if (!is_url && in.len % 4)
        return -1;
    for (int pad = 0; !is_url && pad < 2 && in.len && in.ptr[in.len - 1] == '='; pad++)
        in.len--;
    if (in.len % 4 == 1)
        return -1;
    if (!decode_digits(in, is_url, out) || out->is_overfull) {
        out->len = start;
        return -1;
    }
    return (long)(out->len - start);
}
