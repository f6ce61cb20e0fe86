/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many entries a lookup will meet, for the choice between indexes. Guesses look
 * at few entries of the view; the transaction's own writes and its read set have no
 * part in them.
 */
#include "base/key.h"
#include "store/index.h"
#include "store/index_private.h"

static const double share_assumed = 0.25;
enum { COUNTED_MAX = 128, PREFIXES_MAX = 16, PER_PREFIX_MAX = 16, ID_BYTES = 8 };

static enum errc open_range(struct txn *t, struct buf *from, struct buf *to, struct kv_iter **it)
{
    struct kv_scan scan = { .from = buf_slice(from), .to = buf_slice(to) };

    return kv_iter_new(it, t->store->kv, t->view->snapshot, KV_INDEX, &scan, NULL);
}

static uint64_t bytes_between(struct txn *t, struct buf *from, struct buf *to)
{
    return kv_range_bytes(t->store->kv, KV_INDEX, buf_slice(from), buf_slice(to));
}

/*
 * A range with more entries than are counted: its share of the index's bytes in files,
 * or a quarter of the documents while there are none.
 */
static double share_of(struct txn *t, const struct index_def *index, struct buf *from,
                       struct buf *to, double all)
{
    struct buf first, end;
    double rows = COUNTED_MAX;

    buf_init(&first, 0);
    buf_init(&end, 0);
    key_add_u64(&first, index->object_id);
    key_add_u64(&end, index->object_id + 1);
    double whole = (double)bytes_between(t, &first, &end);
    double part = (double)bytes_between(t, from, to);
    double share = whole > 0 ? part / whole : share_assumed;
    if (all * share > rows)
        rows = all * share;
    buf_release(&first);
    buf_release(&end);
    return rows < all ? rows : all;
}

double index_guess_range(struct txn *t, const struct index_def *index,
                         const struct index_range *range, double all)
{
    struct kv_iter *it = NULL;
    struct buf from, to;
    double rows = 0;

    buf_init(&from, 0);
    buf_init(&to, 0);
    index_bounds(t, index, range, &from, &to);
    if (slice_cmp(buf_slice(&from), buf_slice(&to)) < 0 && open_range(t, &from, &to, &it) == OK) {
        for (; rows < COUNTED_MAX && kv_iter_valid(it); kv_iter_next(it))
            rows++;
        if (kv_iter_valid(it))
            rows = share_of(t, index, &from, &to, all);
    }
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rows;
}

/* Bytes of the first fields of an entry; 0 when they cannot be read. */
static size_t prefix_bytes(struct slice key, size_t fields)
{
    struct slice rest = slice_of(key.ptr + ID_BYTES, key.len - ID_BYTES);

    for (size_t i = 0; i < fields; i++)
        if (key_read_val(&rest, false, NULL, NULL, NULL) != OK)
            return 0;
    return (size_t)(rest.ptr - key.ptr);
}

static bool begins_with(struct slice key, struct slice prefix)
{
    return key.len >= prefix.len && memcmp(key.ptr, prefix.ptr, prefix.len) == 0;
}

/* Moves behind the entries with the same first fields; returns how many there are, or the most. */
static double count_prefix(struct kv_iter *it, struct buf *prefix)
{
    double rows = 0;

    while (kv_iter_valid(it) && begins_with(kv_iter_key(it), buf_slice(prefix))) {
        if (++rows < PER_PREFIX_MAX) {
            kv_iter_next(it);
            continue;
        }
        if (key_prefix_end(prefix))
            kv_iter_seek(it, buf_slice(prefix));
        break;
    }
    return rows;
}

double index_guess_equal(struct txn *t, const struct index_def *index, size_t fields, double all)
{
    struct kv_iter *it = NULL;
    struct buf from, to, prefix;
    double rows = 0, prefixes = 0;

    if (index->is_unique && fields == index->field_count)
        return all < 1 ? all : 1;
    buf_init(&from, 0);
    buf_init(&to, 0);
    buf_init(&prefix, 0);
    key_add_u64(&from, index->object_id);
    key_add_u64(&to, index->object_id + 1);
    if (open_range(t, &from, &to, &it) == OK) {
        for (; prefixes < PREFIXES_MAX && kv_iter_valid(it); prefixes++) {
            size_t len = prefix_bytes(kv_iter_key(it), fields);
            if (!len)
                break;
            buf_clear(&prefix);
            buf_add_slice(&prefix, slice_of(kv_iter_key(it).ptr, len));
            rows += count_prefix(it, &prefix);
        }
    }
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    buf_release(&prefix);
    return prefixes > 0 ? rows / prefixes : all / 2;
}
