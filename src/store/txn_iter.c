/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A merge of the view and the transaction's own writes at the time the iterator
 * was made. Own writes hide equal keys of the view.
 *
 * A serializable transaction records the part of the range that was really
 * walked, when the iterator is freed or at commit.
 */
#include "store/txn_private.h"

enum place { PLACE_END, PLACE_BASE, PLACE_OWN };

struct txn_iter {
    struct txn *txn;
    struct kv_iter *base; /* owned */
    struct write_cursor own;
    enum kv_family family;
    struct slice from, to; /* owned copies */
    bool is_reverse;
    enum place place;
    struct txn_iter *next, **link; /* list of the transaction */
};

static struct slice slice_dup(struct slice s)
{
    return slice_of(mem_strndup(s), s.len);
}

/* The own write under the cursor, or NULL outside the range. */
static const struct write_entry *own_entry(const struct txn_iter *it)
{
    const struct write_entry *e = it->own.entry;
    if (!e)
        return NULL;
    struct slice key = write_entry_key(e);
    if (it->is_reverse)
        return slice_cmp(key, it->from) >= 0 ? e : NULL;
    return it->to.len == 0 || slice_cmp(key, it->to) < 0 ? e : NULL;
}

/* Chooses what comes first; passes over what own writes deleted. */
static void settle(struct txn_iter *it)
{
    for (;;) {
        const struct write_entry *e = own_entry(it);
        bool has_base = kv_iter_valid(it->base);
        int c = has_base && e ? slice_cmp(write_entry_key(e), kv_iter_key(it->base)) : 0;
        if (it->is_reverse)
            c = -c;
        if (!e || (has_base && c > 0)) {
            it->place = has_base ? PLACE_BASE : PLACE_END;
            return;
        }
        if (has_base && c == 0)
            kv_iter_next(it->base); /* hidden */
        if (!e->is_delete) {
            it->place = PLACE_OWN;
            return;
        }
        write_cursor_step(&it->own, it->is_reverse);
    }
}

static void link_iter(struct txn_iter *it)
{
    it->next = it->txn->iters;
    it->link = &it->txn->iters;
    if (it->next)
        it->next->link = &it->next;
    it->txn->iters = it;
}

enum errc txn_iter_new(struct txn_iter **out, struct txn *t, enum kv_family f,
                       const struct kv_scan *scan, struct error *err)
{
    struct kv_iter *base = NULL;
    *out = NULL;
    enum errc rc =
        prepared_wait_range(t->store->prepared, t->view->seq, f, scan->from, scan->to, err);
    if (rc == OK)
        rc = kv_iter_new(&base, t->store->kv, t->view->snapshot, f, scan, err);
    if (rc != OK)
        return rc;
    struct txn_iter *it = mem_zalloc(sizeof *it);
    it->txn = t;
    it->base = base;
    it->family = f;
    it->from = slice_dup(scan->from);
    it->to = slice_dup(scan->to);
    it->is_reverse = scan->is_reverse;
    link_iter(it);
    write_cursor_init(&it->own, t->writes, f, t->sees_until);
    if (write_set_has_family(t->writes, f))
        write_cursor_seek(&it->own, it->is_reverse ? it->to : it->from, it->is_reverse,
                          it->to.len == 0);
    settle(it);
    *out = it;
    return OK;
}

bool txn_iter_valid(const struct txn_iter *it)
{
    return it->place != PLACE_END;
}

struct slice txn_iter_key(const struct txn_iter *it)
{
    return it->place == PLACE_OWN ? write_entry_key(it->own.entry) : kv_iter_key(it->base);
}

struct slice txn_iter_value(const struct txn_iter *it)
{
    return it->place == PLACE_OWN ? it->own.entry->value : kv_iter_value(it->base);
}

void txn_iter_next(struct txn_iter *it)
{
    if (it->place == PLACE_OWN)
        write_cursor_step(&it->own, it->is_reverse);
    else if (it->place == PLACE_BASE)
        kv_iter_next(it->base);
    settle(it);
}

enum errc txn_iter_check(const struct txn_iter *it, struct error *err)
{
    return kv_iter_check(it->base, err);
}

/* What was walked: all of it at the end, else up to the current key included. */
static void record(struct txn_iter *it)
{
    struct slice from = it->from, to = it->to;
    struct buf edge;
    buf_init(&edge, 0);
    if (txn_iter_valid(it)) {
        buf_add_slice(&edge, txn_iter_key(it));
        if (it->is_reverse) {
            from = buf_slice(&edge);
        } else {
            buf_add_char(&edge, 0);
            to = buf_slice(&edge);
        }
    }
    txn_read_range(it->txn, it->family, from, to);
    buf_release(&edge);
}

void txn_iters_record(struct txn *t)
{
    for (struct txn_iter *it = t->iters; it; it = it->next)
        txn_read_range(t, it->family, it->from, it->to);
}

void txn_iter_free(struct txn_iter *it)
{
    if (!it)
        return;
    if (!it->txn->is_over)
        record(it);
    *it->link = it->next;
    if (it->next)
        it->next->link = it->link;
    kv_iter_free(it->base);
    mem_free((char *)it->from.ptr);
    mem_free((char *)it->to.ptr);
    mem_free(it);
}
