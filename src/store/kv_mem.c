/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A persistent treap per family: nodes never change once they are reachable,
 * a write copies the path from the root, a snapshot is a reference to the
 * roots. Priorities are hashes of the keys, so the shape depends on the
 * content only. A range delete is two splits and a merge.
 *
 * The state of the last synced write is one more set of roots, to which
 * kv_mem_crash() returns.
 */
#include "base/hash.h"
#include "store/kv_backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct node {
    _Atomic int refs;
    uint64_t priority;
    const struct node *left, *right; /* owned references */
    struct bytes *key, *value;       /* owned references */
};

/* Shared by all copies of a node. */
struct bytes {
    _Atomic int refs;
    size_t len;
    char ptr[];
};

struct roots {
    const struct node *at[KV_FAMILY_COUNT];
};

struct kv_mem {
    struct kv base;
    pthread_mutex_t lock; /* of the two sets of roots */
    struct roots current, synced;
};

struct kv_snapshot {
    struct roots roots;
};

enum { PATH_MAX_NODES = 256 }; /* expected depth of a million keys: 50 */

struct mem_iter {
    struct kv_iter base;
    const struct node *root; /* owned reference */
    struct slice from, to;   /* owned copies */
    bool is_reverse, has_end, is_deep;
    const struct node *path[PATH_MAX_NODES]; /* from the root to the current node */
    size_t depth;                            /* 0 = at the end */
};

/* ---- nodes ---- */

static struct bytes *bytes_new(struct slice s)
{
    struct bytes *b = mem_alloc(sizeof *b + s.len);
    b->refs = 1;
    b->len = s.len;
    if (s.len)
        memcpy(b->ptr, s.ptr, s.len);
    return b;
}

static struct bytes *bytes_ref(struct bytes *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

static void bytes_unref(struct bytes *b)
{
    if (atomic_fetch_sub(&b->refs, 1) == 1)
        mem_free(b);
}

static struct slice bytes_slice(const struct bytes *b)
{
    return slice_of(b->ptr, b->len);
}

static const struct node *node_ref(const struct node *n)
{
    if (n)
        atomic_fetch_add(&((struct node *)n)->refs, 1);
    return n;
}

static void node_unref(const struct node *n)
{
    while (n && atomic_fetch_sub(&((struct node *)n)->refs, 1) == 1) {
        const struct node *right = n->right;
        node_unref(n->left);
        bytes_unref(n->key);
        bytes_unref(n->value);
        mem_free((void *)n);
        n = right;
    }
}

/* Keeps left and right; shares key and value of the model. */
static const struct node *node_like(const struct node *model, const struct node *left,
                                    const struct node *right)
{
    struct node *n = mem_zalloc(sizeof *n);
    n->refs = 1;
    n->priority = model->priority;
    n->left = left;
    n->right = right;
    n->key = bytes_ref(model->key);
    n->value = bytes_ref(model->value);
    return n;
}

static const struct node *node_new(struct slice key, struct slice value)
{
    struct node *n = mem_zalloc(sizeof *n);
    n->refs = 1;
    n->priority = hash_xxh3(key.ptr, key.len);
    n->key = bytes_new(key);
    n->value = bytes_new(value);
    return n;
}

/* Parts of n below the key, and at or above it. Borrows n, returns references. */
static void split(const struct node *n, struct slice key, const struct node **low,
                  const struct node **high)
{
    const struct node *middle;
    if (!n) {
        *low = *high = NULL;
    } else if (slice_cmp(bytes_slice(n->key), key) < 0) {
        split(n->right, key, &middle, high);
        *low = node_like(n, node_ref(n->left), middle);
    } else {
        split(n->left, key, low, &middle);
        *high = node_like(n, middle, node_ref(n->right));
    }
}

/* All keys of a are below those of b. Borrows both, returns a reference. */
static const struct node *merge(const struct node *a, const struct node *b)
{
    if (!a || !b)
        return node_ref(a ? a : b);
    if (a->priority >= b->priority)
        return node_like(a, node_ref(a->left), merge(a->right, b));
    return node_like(b, merge(a, b->left), node_ref(b->right));
}

static const struct node *merge_keep(const struct node *a, const struct node *b)
{
    const struct node *all = merge(a, b);
    node_unref(a);
    node_unref(b);
    return all;
}

/* Replaces [from, to) by middle (kept, may be NULL). has_to false: to the end. */
static void replace_range(const struct node **root, struct slice from, bool has_to, struct slice to,
                          const struct node *middle)
{
    const struct node *low, *rest, *gone, *high = NULL;
    split(*root, from, &low, &rest);
    if (has_to) {
        split(rest, to, &gone, &high);
        node_unref(gone);
    }
    node_unref(rest);
    node_unref(*root);
    *root = merge_keep(merge_keep(low, middle), high);
}

/* One key: the range up to the key with a zero byte behind it. */
static void replace_key(const struct node **root, struct slice key, const struct node *middle)
{
    char small[256];
    char *after = key.len < sizeof small ? small : mem_alloc(key.len + 1);
    if (key.len)
        memcpy(after, key.ptr, key.len);
    after[key.len] = 0;
    replace_range(root, key, true, slice_of(after, key.len + 1), middle);
    if (after != small)
        mem_free(after);
}

static const struct node *find(const struct node *n, struct slice key)
{
    while (n) {
        int c = slice_cmp(key, bytes_slice(n->key));
        if (c == 0)
            return n;
        n = c < 0 ? n->left : n->right;
    }
    return NULL;
}

/* ---- roots ---- */

static void roots_assign(struct roots *to, const struct roots *from)
{
    struct roots old = *to;
    for (size_t i = 0; i < KV_FAMILY_COUNT; i++)
        to->at[i] = node_ref(from->at[i]);
    for (size_t i = 0; i < KV_FAMILY_COUNT; i++)
        node_unref(old.at[i]);
}

static void roots_release(struct roots *r)
{
    roots_assign(r, &(struct roots){ { NULL } });
}

static struct kv_mem *mem_of(struct kv *kv)
{
    return (struct kv_mem *)kv;
}

static const struct node *root_ref(struct kv_mem *m, const struct kv_snapshot *snapshot,
                                   enum kv_family f)
{
    if (snapshot)
        return node_ref(snapshot->roots.at[f]);
    pthread_mutex_lock(&m->lock);
    const struct node *root = node_ref(m->current.at[f]);
    pthread_mutex_unlock(&m->lock);
    return root;
}

static void apply(struct roots *roots, const struct kv_record *r)
{
    const struct node **root = &roots->at[r->family];
    switch (r->op) {
    case KV_PUT:
        replace_key(root, r->key, node_new(r->key, r->value));
        break;
    case KV_DELETE:
        replace_key(root, r->key, NULL);
        break;
    case KV_DELETE_RANGE:
        if (slice_cmp(r->key, r->value) < 0)
            replace_range(root, r->key, true, r->value, NULL);
        break;
    }
}

static enum errc mem_write(struct kv *kv, const struct kv_batch *batch, bool is_synced,
                           struct error *err)
{
    struct kv_mem *m = mem_of(kv);
    struct kv_record r;
    struct slice bytes = buf_slice(&batch->bytes);
    size_t at = 0;
    while (kv_batch_next(bytes, &at, &r))
        ;
    if (at != bytes.len)
        return fail(err, ERR_CORRUPT, "a batch is damaged at byte %zu", at);
    pthread_mutex_lock(&m->lock);
    for (at = 0; kv_batch_next(bytes, &at, &r);)
        apply(&m->current, &r);
    if (is_synced)
        roots_assign(&m->synced, &m->current);
    pthread_mutex_unlock(&m->lock);
    return OK;
}

static struct kv_snapshot *mem_snapshot_new(struct kv *kv)
{
    struct kv_snapshot *s = mem_zalloc(sizeof *s);
    pthread_mutex_lock(&mem_of(kv)->lock);
    roots_assign(&s->roots, &mem_of(kv)->current);
    pthread_mutex_unlock(&mem_of(kv)->lock);
    return s;
}

static void mem_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot)
{
    (void)kv;
    roots_release(&snapshot->roots);
    mem_free(snapshot);
}

static enum errc mem_get(struct kv *kv, const struct kv_snapshot *snapshot, enum kv_family f,
                         struct slice key, struct arena *arena, struct slice *value,
                         struct error *err)
{
    (void)err;
    const struct node *root = root_ref(mem_of(kv), snapshot, f);
    const struct node *n = find(root, key);
    if (n)
        *value = arena_copy(arena, bytes_slice(n->value));
    node_unref(root);
    return n ? OK : ERR_NOT_FOUND;
}

/* ---- iterator ---- */

static struct mem_iter *iter_of(const struct kv_iter *it)
{
    return (struct mem_iter *)it;
}

static void path_push(struct mem_iter *it, const struct node *n)
{
    if (it->depth < PATH_MAX_NODES)
        it->path[it->depth++] = n;
    else
        it->is_deep = true;
}

static const struct node *iter_node(const struct mem_iter *it)
{
    return it->path[it->depth - 1];
}

/* Ends the iteration when the current node is outside the scan. */
static void iter_clip(struct mem_iter *it)
{
    if (!it->depth)
        return;
    struct slice key = bytes_slice(iter_node(it)->key);
    if (slice_cmp(key, it->from) < 0 || (it->has_end && slice_cmp(key, it->to) >= 0))
        it->depth = 0;
}

/* First key at or above, or with is_below the last key below; all: no bound. */
static void iter_descend(struct mem_iter *it, struct slice key, bool is_below, bool all)
{
    size_t best = 0;
    it->depth = 0;
    for (const struct node *n = it->root; n && !it->is_deep;) {
        path_push(it, n);
        bool is_right = all || slice_cmp(bytes_slice(n->key), key) < 0;
        if (is_right == is_below)
            best = it->depth;
        n = is_right ? n->right : n->left;
    }
    it->depth = it->is_deep ? 0 : best;
}

/* Moves to the neighbour in order; path_* stay a path from the root. */
static void iter_step(struct mem_iter *it, bool forward)
{
    const struct node *n = iter_node(it);
    const struct node *child = forward ? n->right : n->left;
    if (child) {
        for (n = child; n && !it->is_deep; n = forward ? n->left : n->right)
            path_push(it, n);
        if (it->is_deep)
            it->depth = 0;
        return;
    }
    for (it->depth--; it->depth; it->depth--) {
        const struct node *parent = iter_node(it);
        if ((forward ? parent->left : parent->right) == n)
            return;
        n = parent;
    }
}

static bool mem_iter_valid(const struct kv_iter *it)
{
    return iter_of(it)->depth > 0;
}

static struct slice mem_iter_key(const struct kv_iter *it)
{
    return bytes_slice(iter_node(iter_of(it))->key);
}

static struct slice mem_iter_value(const struct kv_iter *it)
{
    return bytes_slice(iter_node(iter_of(it))->value);
}

static void mem_iter_next(struct kv_iter *base)
{
    struct mem_iter *it = iter_of(base);
    if (it->depth)
        iter_step(it, !it->is_reverse);
    iter_clip(it);
}

static void mem_iter_seek(struct kv_iter *base, struct slice key)
{
    struct mem_iter *it = iter_of(base);
    if (it->is_reverse)
        iter_descend(it, key, true, false);
    else
        iter_descend(it, slice_cmp(key, it->from) < 0 ? it->from : key, false, false);
    iter_clip(it);
}

static enum errc mem_iter_check(const struct kv_iter *it, struct error *err)
{
    return iter_of(it)->is_deep ? fail(err, ERR_INTERNAL, "kv_mem: the tree is too deep") : OK;
}

static void mem_iter_free(struct kv_iter *base)
{
    struct mem_iter *it = iter_of(base);
    node_unref(it->root);
    mem_free((char *)it->from.ptr);
    mem_free((char *)it->to.ptr);
    mem_free(it);
}

static const struct kv_iter_ops mem_iter_ops = {
    .valid = mem_iter_valid,
    .key = mem_iter_key,
    .value = mem_iter_value,
    .next = mem_iter_next,
    .seek = mem_iter_seek,
    .check = mem_iter_check,
    .free = mem_iter_free,
};

static struct slice slice_dup(struct slice s)
{
    return slice_of(mem_strndup(s), s.len);
}

static enum errc mem_iter_new(struct kv_iter **out, struct kv *kv,
                              const struct kv_snapshot *snapshot, enum kv_family f,
                              const struct kv_scan *scan, struct error *err)
{
    (void)err;
    struct mem_iter *it = mem_zalloc(sizeof *it);
    it->base.ops = &mem_iter_ops;
    it->root = root_ref(mem_of(kv), snapshot, f);
    it->from = slice_dup(scan->from);
    it->to = slice_dup(scan->to);
    it->has_end = scan->to.len > 0;
    it->is_reverse = scan->is_reverse;
    if (it->is_reverse)
        iter_descend(it, it->to, true, !it->has_end);
    else
        iter_descend(it, it->from, false, false);
    iter_clip(it);
    *out = &it->base;
    return OK;
}

/* ---- the rest ---- */

static uint64_t mem_range_bytes(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    struct kv_iter *it = NULL;
    uint64_t bytes = 0;
    if (mem_iter_new(&it, kv, NULL, f, &(struct kv_scan){ .from = from, .to = to }, NULL) != OK)
        return 0;
    for (; mem_iter_valid(it); mem_iter_next(it))
        bytes += mem_iter_key(it).len + mem_iter_value(it).len;
    mem_iter_free(it);
    return bytes;
}

static void mem_drop_files(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    (void)kv, (void)f, (void)from, (void)to; /* no files */
}

static void mem_compact(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    (void)kv, (void)f, (void)from, (void)to;
}

static enum errc mem_check_files(struct kv *kv,
                                 void (*report)(void *ctx, const char *file, const char *what),
                                 void *ctx, size_t *files, struct error *err)
{
    (void)kv, (void)report, (void)ctx, (void)err;
    *files = 0;
    return OK;
}

static void mem_close(struct kv *kv)
{
    struct kv_mem *m = mem_of(kv);
    roots_release(&m->current);
    roots_release(&m->synced);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

static const struct kv_ops mem_ops = {
    .close = mem_close,
    .write = mem_write,
    .snapshot_new = mem_snapshot_new,
    .snapshot_free = mem_snapshot_free,
    .get = mem_get,
    .iter_new = mem_iter_new,
    .range_bytes = mem_range_bytes,
    .drop_files = mem_drop_files,
    .compact = mem_compact,
    .check_files = mem_check_files,
};

enum errc kv_mem_open(struct kv **out, struct error *err)
{
    struct kv_mem *m = mem_zalloc(sizeof *m);
    (void)err;
    m->base.ops = &mem_ops;
    pthread_mutex_init(&m->lock, NULL);
    *out = &m->base;
    return OK;
}

void kv_mem_crash(struct kv *kv)
{
    struct kv_mem *m = mem_of(kv);
    if (kv->ops != &mem_ops)
        BUG("kv_mem_crash on a store on disk");
    pthread_mutex_lock(&m->lock);
    roots_assign(&m->current, &m->synced);
    pthread_mutex_unlock(&m->lock);
}
