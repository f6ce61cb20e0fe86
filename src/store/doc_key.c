/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/key.h"
#include "store/doc_private.h"

bool doc_key_is_legal(struct slice key)
{
    static const char others[] = "_-:.@()+,=;$!*'%";
    if (key.len == 0 || key.len > LIMIT_KEY_BYTES)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_plain && (c == 0 || !strchr(others, c)))
            return false;
    }
    return true;
}

bool doc_split_id(struct slice id, struct slice *collection, struct slice *key)
{
    const char *slash = id.len ? memchr(id.ptr, '/', id.len) : NULL;
    if (!slash)
        return false;
    size_t n = (size_t)(slash - id.ptr);
    struct slice name = slice_of(id.ptr, n), rest = slice_of(slash + 1, id.len - n - 1);
    if (!name_is_collection(name) || !doc_key_is_legal(rest))
        return false;
    *collection = name;
    *key = rest;
    return true;
}

bool doc_decode_rev(struct slice rev, uint64_t *ms, uint32_t *count)
{
    uint64_t v;
    if (!rev_decode(rev, &v))
        return false;
    *ms = v >> 22;
    *count = (uint32_t)(v >> 10) & 0xfff;
    return true;
}

uint16_t doc_slot(const struct collection *c, struct slice key, struct slice from)
{
    struct slice collection, place = key;
    if (c->type == COLLECTION_EDGE)
        (void)doc_split_id(from, &collection, &place);
    const char *colon = place.len ? memchr(place.ptr, ':', place.len) : NULL;
    if (colon && colon > place.ptr)
        place.len = (size_t)(colon - place.ptr);
    return hash_slot(place);
}

void row_key(struct buf *out, const struct collection *c, uint16_t slot, struct slice key)
{
    key_add_u64(out, c->object_id);
    key_add_u16(out, slot);
    buf_add_slice(out, key);
}

/* ---- new keys ---- */

static bool parse_decimal(struct slice text, int64_t *out)
{
    int64_t v = 0;
    if (text.len == 0 || text.len > 18)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        v = v * 10 + (text.ptr[i] - '0');
    }
    *out = v;
    return true;
}

static enum errc choose_given(struct txn *t, const struct collection *c, struct val given,
                              struct arena *arena, struct slice *out, struct error *err)
{
    int64_t number;
    if (val_type(given) != VAL_STRING || !doc_key_is_legal(val_string(given)))
        return fail_num(err, 1221, "illegal document key");
    if (!c->allow_user_keys)
        return fail_num(err, 1222, "collection '%.*s' does not allow keys chosen by the user",
                        SLICE_ARG(c->name));
    *out = arena_copy(arena, val_string(given));
    if (!c->keys_increment || !parse_decimal(*out, &number))
        return OK;
    txn_note_increment(t, c->id, number);
    return store_note_increment(t->store, c, number, err);
}

static struct slice new_uuid(struct txn *t, struct arena *arena)
{
    const struct env *env = t->store->env;
    uint64_t a = env_random_u64(env), b = env_random_u64(env);
    a = (a & ~UINT64_C(0xf000)) | 0x4000;               /* version 4 */
    b = (b & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63; /* variant 1 */
    return slice_str(
        arena_printf(arena, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
                     a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & UINT64_C(0xffffffffffff)));
}

static enum errc choose_increment(struct txn *t, const struct collection *c, struct arena *arena,
                                  struct slice *out, struct error *err)
{
    int64_t number;
    enum errc rc = store_next_increment(t->store, c, &number, err);
    if (rc != OK)
        return rc;
    txn_note_increment(t, c->id, number);
    *out = slice_str(arena_printf(arena, "%" PRId64, number));
    return OK;
}

enum errc key_choose(struct txn *t, const struct collection *c, struct val doc, struct arena *arena,
                     struct slice *out, struct error *err)
{
    struct val given;
    struct slice type = val_string(val_get(c->key_options, slice_str("type")));
    if (val_find(doc, slice_str("_key"), &given))
        return choose_given(t, c, given, arena, out, err);
    if (c->keys_increment)
        return choose_increment(t, c, arena, out, err);
    if (slice_is(type, "uuid"))
        *out = new_uuid(t, arena);
    else if (slice_is(type, "padded"))
        *out = slice_str(arena_printf(arena, "%016" PRIx64, ids_new(&t->store->ids)));
    else
        *out = slice_str(arena_printf(arena, "%" PRIu64, ids_new(&t->store->ids)));
    return OK;
}
