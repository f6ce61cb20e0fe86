/* SPDX-License-Identifier: Apache-2.0 */
/* Digests, encodings, JSON, tokens: texts as something else and back. */
#include "base/env.h"
#include "base/hash.h"
#include "base/val_text.h"
#include "query/fn_support.h"
#include <stdio.h>

enum { TEXT_MAX = 64 * MIB };

/* len: bytes of a digest. */
static enum errc return_digest(struct fn_call *call, size_t len,
                               void (*hash)(const void *bytes, size_t len, uint8_t *out))
{
    struct slice s = fn_text_arg(call, 0);
    uint8_t out[64];
    char text[2 * sizeof out + 1];

    hash(s.ptr, s.len, out);
    hash_hex(out, len, text);
    return fn_return_text(call, slice_str(text));
}

static enum errc fn_md5(struct fn_call *call)
{
    return return_digest(call, 16, hash_md5);
}

static enum errc fn_sha1(struct fn_call *call)
{
    return return_digest(call, 20, hash_sha1);
}

static enum errc fn_sha256(struct fn_call *call)
{
    return return_digest(call, 32, hash_sha256);
}

static enum errc fn_sha512(struct fn_call *call)
{
    return return_digest(call, 64, hash_sha512);
}

/* Castagnoli's polynomial, reflected; upper case without leading zeros, as in ArangoDB. */
static enum errc fn_crc32(struct fn_call *call)
{
    enum { POLYNOMIAL = (int)0x82F63B78 };
    struct slice s = fn_text_arg(call, 0);
    uint32_t crc = UINT32_MAX;
    char text[9];

    for (size_t i = 0; i < s.len; i++) {
        crc ^= (uint8_t)s.ptr[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
    }
    snprintf(text, sizeof text, "%X", ~crc);
    return fn_return_text(call, slice_str(text));
}

/* FNV-1a. */
static enum errc fn_fnv64(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char text[17];

    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ (uint8_t)s.ptr[i]) * UINT64_C(0x100000001b3);
    snprintf(text, sizeof text, "%llX", (unsigned long long)hash);
    return fn_return_text(call, slice_str(text));
}

static enum errc fn_to_hex(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    char *text = arena_alloc(call->arena, 2 * s.len + 1);

    hash_hex((const uint8_t *)s.ptr, s.len, text);
    return fn_return_text(call, slice_of(text, 2 * s.len));
}

static enum errc fn_to_base64(struct fn_call *call)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    base64_encode(fn_text_arg(call, 0), false, &text);
    return fn_return_buf(call, &text);
}

static enum errc fn_encode_uri(struct fn_call *call)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()";
    struct slice s = fn_text_arg(call, 0);
    struct buf text;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] && strchr(plain, s.ptr[i]))
            buf_add_char(&text, s.ptr[i]);
        else
            buf_printf(&text, "%%%02X", (unsigned char)s.ptr[i]);
    }
    return fn_return_buf(call, &text);
}

static enum errc fn_json_stringify(struct fn_call *call)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    val_print(fn_arg(call, 0), &text);
    return fn_return_buf(call, &text);
}

static enum errc fn_json_parse(struct fn_call *call)
{
    struct error why = { 0 };
    struct val v;

    if (val_parse(val_string(call->args[0]), call->arena, &v, &why) == OK)
        return fn_return(call, v);
    fn_warn(call, 1542, why.text);
    return fn_return(call, val_null);
}

static enum errc fn_uuid(struct fn_call *call)
{
    uint8_t b[16];
    char hex[33], text[37];

    call->env->random(call->env->ctx, b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0F) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3F) | 0x80);
    hash_hex(b, sizeof b, hex);
    snprintf(text, sizeof text, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
    return fn_return_text(call, slice_str(text));
}

static enum errc fn_random_token(struct fn_call *call)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    int64_t length = fn_int_arg(call, 0);

    if (length < 0 || length > 65536)
        return fn_bad_arg(call, 0, "a length from 0 to 65536");
    char *text = arena_alloc(call->arena, (size_t)length + 1);
    for (int64_t i = 0; i < length; i++)
        text[i] = alphabet[env_random_u64(call->env) % (sizeof alphabet - 1)];
    return fn_return_text(call, slice_of(text, (size_t)length));
}

/* ---- addresses, code points, bytes ---- */

/* Four decimal numbers up to 255 without leading zeros. */
static bool parse_ipv4(struct slice s, uint32_t *out)
{
    size_t at = 0;

    *out = 0;
    for (int part = 0; part < 4; part++) {
        unsigned n = 0;
        if (part && (at >= s.len || s.ptr[at] != '.'))
            return false;
        at += part > 0;
        size_t from = at;
        for (; at < s.len && at < from + 3 && s.ptr[at] >= '0' && s.ptr[at] <= '9'; at++)
            n = n * 10 + (unsigned)(s.ptr[at] - '0');
        if (at == from || n > 255 || (at - from > 1 && s.ptr[from] == '0'))
            return false;
        *out = *out << 8 | n;
    }
    return at == s.len;
}

static enum errc fn_is_ipv4(struct fn_call *call)
{
    uint32_t address;

    return fn_return_bool(call, fn_is(call, 0, VAL_STRING) &&
                                    parse_ipv4(val_string(call->args[0]), &address));
}

static enum errc fn_ipv4_to_number(struct fn_call *call)
{
    uint32_t address;

    if (!fn_is(call, 0, VAL_STRING) || !parse_ipv4(val_string(call->args[0]), &address))
        return fn_bad_arg(call, 0, "an IPv4 address such as \"127.0.0.1\"");
    return fn_return_int(call, address);
}

static enum errc fn_ipv4_from_number(struct fn_call *call)
{
    double n = fn_number_arg(call, 0);
    char text[16];

    if (!fn_is(call, 0, VAL_NUMBER) || !(n >= 0 && n <= UINT32_MAX))
        return fn_bad_arg(call, 0, "a number from 0 to 4294967295");
    uint32_t a = (uint32_t)n;
    snprintf(text, sizeof text, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
    return fn_return_text(call, slice_str(text));
}

static enum errc fn_to_char(struct fn_call *call)
{
    double n = fn_number_arg(call, 0);
    char t[4];

    if (!fn_is(call, 0, VAL_NUMBER) || !(n >= 0 && n <= 0x10FFFF) || (n >= 0xD800 && n < 0xE000))
        return fn_bad_arg(call, 0, "a code point from 0 to 1114111, no surrogate");
    uint32_t c = (uint32_t)n;
    if (c < 0x80) {
        t[0] = (char)c;
        return fn_return_text(call, slice_of(t, 1));
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    t[0] = (char)((0xF0 << (3 - more) & 0xFF) | c >> 6 * more);
    for (int i = 1; i <= more; i++)
        t[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3F));
    return fn_return_text(call, slice_of(t, (size_t)more + 1));
}

static bool starts_char(struct slice s, size_t at)
{
    return at >= s.len || ((uint8_t)s.ptr[at] & 0xC0) != 0x80;
}

static enum errc fn_substring_bytes(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    int64_t size = (int64_t)s.len, from = fn_int_arg(call, 1), count = size;

    from = from < 0 ? (from + size < 0 ? 0 : from + size) : from > size ? size : from;
    if (!val_is_null(fn_arg(call, 2)))
        count = fn_int_arg(call, 2);
    count = count < 0 ? 0 : count > size - from ? size - from : count;
    if (!starts_char(s, (size_t)from) || !starts_char(s, (size_t)(from + count)))
        return fn_bad_arg(call, starts_char(s, (size_t)from) ? 2 : 1,
                          "a place between two characters");
    return fn_return_text(call, slice_of(s.ptr + from, (size_t)count));
}

const struct fn fn_encode[] = {
    { "MD5", 1, 1, "", FN_PURE, fn_md5, "MD5, hexadecimal." },
    { "SHA1", 1, 1, "", FN_PURE, fn_sha1, "SHA-1, hexadecimal." },
    { "SHA256", 1, 1, "", FN_PURE, fn_sha256, "SHA-256, hexadecimal." },
    { "TO_HEX", 1, 1, "", FN_PURE, fn_to_hex, "Bytes as hexadecimal." },
    { "TO_BASE64", 1, 1, "", FN_PURE, fn_to_base64, "Bytes as base64." },
    { "ENCODE_URI_COMPONENT", 1, 1, "", FN_PURE, fn_encode_uri, "Escaped for a URL." },
    { "JSON_STRINGIFY", 1, 1, "", FN_PURE, fn_json_stringify, "As JSON text." },
    { "JSON_PARSE", 1, 1, "s.", FN_PURE, fn_json_parse, "The value of a JSON text." },
    { "UUID", 0, 0, "", 0, fn_uuid, "A random UUID." },
    { "RANDOM_TOKEN", 1, 1, "", 0, fn_random_token, "Random letters and digits." },
    { "SHA512", 1, 1, "", FN_PURE, fn_sha512, "SHA-512, hexadecimal." },
    { "CRC32", 1, 1, "", FN_PURE, fn_crc32, "CRC-32C, hexadecimal." },
    { "FNV64", 1, 1, "", FN_PURE, fn_fnv64, "FNV-1a of 64 bits, hexadecimal." },
    { "IS_IPV4", 1, 1, "", FN_PURE, fn_is_ipv4, "Is it an IPv4 address as text?" },
    { "IPV4_TO_NUMBER", 1, 1, "", FN_PURE, fn_ipv4_to_number, "The address as a number." },
    { "IPV4_FROM_NUMBER", 1, 1, "", FN_PURE, fn_ipv4_from_number, "The address of a number." },
    { "TO_CHAR", 1, 1, "", FN_PURE, fn_to_char, "The character of a code point." },
    { "SUBSTRING_BYTES", 2, 3, "", FN_PURE, fn_substring_bytes,
      "A part of the text, counted in bytes of UTF-8." },
    { 0 },
};
