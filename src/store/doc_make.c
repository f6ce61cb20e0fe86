/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored documents. Members beginning with the five system names are set here
 * and ignored in what clients send (except _key at insert and the ends of edges).
 */
#include "store/doc_private.h"

static bool is_system_name(struct slice name)
{
    static const char *const names[] = { "_key", "_id", "_rev", "_from", "_to" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_is(name, names[i]))
            return true;
    return false;
}

/* _from and _to are ordinary members outside edge collections. */
static bool is_skipped(const struct collection *c, struct slice name)
{
    if (name.len == 0 || name.ptr[0] != '_')
        return false;
    if (c->type != COLLECTION_EDGE && (slice_is(name, "_from") || slice_is(name, "_to")))
        return false;
    return is_system_name(name);
}

/* ---- merging ---- */

static void put_member(struct val_builder *b, struct slice name, struct val v,
                       const struct doc_options *opt);

static void put_without_nulls(struct val_builder *b, struct val object,
                              const struct doc_options *opt)
{
    val_open_object(b);
    for (size_t i = 0; i < val_count(object); i++)
        put_member(b, val_name_at(object, i), val_at(object, i), opt);
    val_close(b);
}

/* A member of the patch that has no counterpart. Depth is bounded by LIMIT_NESTING of values. */
static void put_member(struct val_builder *b, struct slice name, struct val v,
                       const struct doc_options *opt)
{
    if (opt->drop_nulls && val_is_null(v))
        return;
    val_put_name(b, name);
    if (opt->drop_nulls && val_type(v) == VAL_OBJECT)
        put_without_nulls(b, v, opt);
    else
        val_put(b, v);
}

static void put_merged(struct val_builder *b, struct val old, struct val patch,
                       const struct doc_options *opt);

static void put_changed(struct val_builder *b, struct slice name, struct val old, struct val patch,
                        const struct doc_options *opt)
{
    bool is_merge =
        !opt->replace_objects && val_type(old) == VAL_OBJECT && val_type(patch) == VAL_OBJECT;
    if (!is_merge) {
        put_member(b, name, patch, opt);
        return;
    }
    val_put_name(b, name);
    val_open_object(b);
    put_merged(b, old, patch, opt);
    val_close(b);
}

static void put_merged(struct val_builder *b, struct val old, struct val patch,
                       const struct doc_options *opt)
{
    struct val other;
    for (size_t i = 0; i < val_count(old); i++) {
        struct slice name = val_name_at(old, i);
        if (val_find(patch, name, &other)) {
            put_changed(b, name, val_at(old, i), other, opt);
        } else {
            val_put_name(b, name);
            val_put(b, val_at(old, i));
        }
    }
    for (size_t i = 0; i < val_count(patch); i++) {
        struct slice name = val_name_at(patch, i);
        if (!val_find(old, name, &other))
            put_member(b, name, val_at(patch, i), opt);
    }
}

/* The same at the top, where system attributes are passed over. */
static void put_merged_top(struct val_builder *b, const struct doc_make *m)
{
    struct val other;
    for (size_t i = 0; i < val_count(m->old); i++) {
        struct slice name = val_name_at(m->old, i);
        if (is_skipped(m->collection, name))
            continue;
        if (val_find(m->doc, name, &other)) {
            put_changed(b, name, val_at(m->old, i), other, m->opt);
        } else {
            val_put_name(b, name);
            val_put(b, val_at(m->old, i));
        }
    }
    for (size_t i = 0; i < val_count(m->doc); i++) {
        struct slice name = val_name_at(m->doc, i);
        if (!is_skipped(m->collection, name) && !val_find(m->old, name, &other))
            put_member(b, name, val_at(m->doc, i), m->opt);
    }
}

static void put_whole(struct val_builder *b, const struct doc_make *m)
{
    for (size_t i = 0; i < val_count(m->doc); i++) {
        struct slice name = val_name_at(m->doc, i);
        if (is_skipped(m->collection, name))
            continue;
        val_put_name(b, name);
        val_put(b, val_at(m->doc, i));
    }
}

/* ---- system attributes ---- */

static void put_string(struct val_builder *b, const char *name, struct slice text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, text);
}

static enum errc find_end(const struct doc_make *m, const char *name, struct slice *out,
                          struct error *err)
{
    struct val v;
    struct slice collection, key;
    if (!val_find(m->doc, slice_str(name), &v))
        v = m->old.at ? val_get(m->old, slice_str(name)) : val_null;
    if (val_type(v) != VAL_STRING || !doc_split_id(val_string(v), &collection, &key))
        return fail_num(err, 1233, "edge attribute missing or invalid: '%s' must be a document id",
                        name);
    *out = val_string(v);
    return OK;
}

enum { ID_BYTES = LIMIT_NAME_BYTES + 1 + LIMIT_KEY_BYTES };

static struct slice make_id(char *out, struct slice name, struct slice key)
{
    memcpy(out, name.ptr, name.len);
    out[name.len] = '/';
    memcpy(out + name.len + 1, key.ptr, key.len);
    return slice_of(out, name.len + 1 + key.len);
}

struct val doc_present(const struct collection *c, struct val doc, struct arena *arena)
{
    struct slice key = val_string(val_get(doc, slice_str("_key")));
    struct slice id = val_string(val_get(doc, slice_str("_id")));
    size_t count = val_count(doc);
    char text[ID_BYTES];

    if (!c->is_renamed ||
        (id.len == c->name.len + 1 + key.len && memcmp(id.ptr, c->name.ptr, c->name.len) == 0))
        return doc;
    struct slice *names = arena_alloc(arena, count * sizeof *names);
    struct val *values = arena_alloc(arena, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        names[i] = val_name_at(doc, i);
        values[i] = slice_is(names[i], "_id") ? val_new_string(arena, make_id(text, c->name, key))
                                              : val_at(doc, i);
    }
    return val_new_object(arena, names, values, count);
}

static void put_system(struct txn *t, struct val_builder *b, const struct doc_make *m)
{
    char rev[REV_TEXT_BYTES], id[ID_BYTES];
    size_t len = rev_encode(ids_new_rev(&t->store->ids), rev);
    put_string(b, "_key", m->key);
    put_string(b, "_id", make_id(id, m->collection->name, m->key));
    put_string(b, "_rev", slice_of(rev, len));
}

enum errc doc_check_limits(struct val doc, struct error *err)
{
    if (!val_is_within(doc, LIMIT_NESTING))
        return fail_num(err, 1524, "the document is nested deeper than %d levels", LIMIT_NESTING);
    if (val_size(doc) > LIMIT_DOC_BYTES)
        return fail_num(err, 1216, "document too large: %zu bytes, the limit is %d", val_size(doc),
                        LIMIT_DOC_BYTES);
    return OK;
}

enum errc doc_make(struct txn *t, const struct doc_make *m, struct row *out, struct error *err)
{
    enum errc rc = OK;
    struct slice from = { NULL, 0 }, to = { NULL, 0 };
    bool is_edge = m->collection->type == COLLECTION_EDGE;
    struct val_builder *b = txn_builder(t);
    if (is_edge) {
        TRY(find_end(m, "_from", &from, err));
        TRY(find_end(m, "_to", &to, err));
    }
    val_open_object(b);
    put_system(t, b, m);
    if (is_edge) {
        put_string(b, "_from", from);
        put_string(b, "_to", to);
    }
    if (m->old.at)
        put_merged_top(b, m);
    else
        put_whole(b, m);
    val_close(b);
    TRY(val_finish_in(b, m->arena, &out->clear, err));
    out->key = m->key;
    out->slot = doc_slot(m->collection, m->key, from);
    rc = doc_check_limits(out->clear, err);
out:
    return rc;
}
