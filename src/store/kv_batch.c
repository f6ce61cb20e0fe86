/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record:
 *
 *   u8 operation << 4 | family, varint key length, [varint value length,]
 *   key bytes, [value bytes]
 *
 * A delete has no value. Varints are LEB128, at most 5 bytes.
 */
#include "store/kv.h"

void kv_batch_init(struct kv_batch *b)
{
    buf_init(&b->bytes, 0);
    b->count = 0;
}

void kv_batch_release(struct kv_batch *b)
{
    if (!b)
        return;
    buf_release(&b->bytes);
    b->count = 0;
}

void kv_batch_clear(struct kv_batch *b)
{
    buf_clear(&b->bytes);
    b->count = 0;
}

static size_t put_varint(char *out, uint32_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (char)(v | 0x80);
    out[n++] = (char)v;
    return n;
}

void kv_batch_add(struct kv_batch *b, const struct kv_record *r)
{
    char head[11];
    size_t n = 1;
    head[0] = (char)((unsigned)r->op << 4 | (unsigned)r->family);
    assert(r->key.len <= UINT32_MAX && r->value.len <= UINT32_MAX);
    n += put_varint(head + n, (uint32_t)r->key.len);
    if (r->op != KV_DELETE)
        n += put_varint(head + n, (uint32_t)r->value.len);
    buf_add(&b->bytes, head, n);
    buf_add_slice(&b->bytes, r->key);
    if (r->op != KV_DELETE)
        buf_add_slice(&b->bytes, r->value);
    b->count++;
}

void kv_batch_append(struct kv_batch *b, struct slice encoded)
{
    struct kv_record r;
    size_t at = 0;
    while (kv_batch_next(encoded, &at, &r))
        b->count++;
    assert(at == encoded.len);
    buf_add_slice(&b->bytes, encoded);
}

static bool get_varint(struct slice in, size_t *at, size_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < in.len && shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)in.ptr[(*at)++];
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = (size_t)v;
            return v <= UINT32_MAX;
        }
    }
    return false;
}

static bool get_slice(struct slice in, size_t *at, size_t len, struct slice *out)
{
    if (len > in.len - *at)
        return false;
    *out = slice_of(in.ptr + *at, len);
    *at += len;
    return true;
}

bool kv_batch_next(struct slice encoded, size_t *at, struct kv_record *out)
{
    size_t i = *at, key_len = 0, value_len = 0;
    if (i >= encoded.len)
        return false;
    unsigned op = (uint8_t)encoded.ptr[i] >> 4, family = (uint8_t)encoded.ptr[i] & 15;
    i++;
    if (op > KV_DELETE_RANGE || family >= KV_FAMILY_COUNT || !get_varint(encoded, &i, &key_len))
        return false;
    if (op != KV_DELETE && !get_varint(encoded, &i, &value_len))
        return false;
    *out = (struct kv_record){ .op = (enum kv_op)op, .family = (enum kv_family)family };
    if (!get_slice(encoded, &i, key_len, &out->key) ||
        !get_slice(encoded, &i, value_len, &out->value))
        return false;
    *at = i;
    return true;
}
