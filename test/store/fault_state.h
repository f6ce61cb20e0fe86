/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_state -- everything that a store holds as one text, without what differs from run to run
 * (ids, revisions, generated keys). Writing it down also proves that documents, counts and indexes
 * agree.
 */
#ifndef TEST_STORE_FAULT_STATE_H
#define TEST_STORE_FAULT_STATE_H

#include "fixture.h"
#include "store/backup.h"

/* Prepared transactions write here, so it cannot be read while there are any. */
#define HELD_COLLECTION "held"

static void describe_document(const struct collection *c, struct val doc, struct buf *out)
{
    buf_add_str(out, "   ");
    for (size_t i = 0; i < val_count(doc); i++) {
        struct slice name = val_name_at(doc, i);
        bool is_generated = c->keys_increment && (slice_is(name, "_key") || slice_is(name, "_id"));
        if (slice_is(name, "_rev") || is_generated)
            continue;
        buf_printf(out, " %.*s=", SLICE_ARG(name));
        val_print(val_at(doc, i), out);
    }
    buf_add_char(out, '\n');
}

/* The keys that the iterator gives; each belongs to a document. */
static size_t walk(struct fixture *f, struct txn *t, const struct collection *c,
                   struct index_iter *it, struct slice wanted, bool *is_found)
{
    size_t n = 0;
    struct slice key;
    struct val doc;
    *is_found = false;
    for (; index_iter_next(it, &key); n++) {
        OK_OR_FAIL(doc_get(t, c, key, f->arena, &doc, &f->err), &f->err);
        *is_found |= slice_eq(key, wanted);
    }
    OK_OR_FAIL(index_iter_check(it, &f->err), &f->err);
    index_iter_free(it);
    return n;
}

static void check_persistent(struct fixture *f, struct txn *t, const struct collection *c,
                             const struct index_def *x, struct val doc)
{
    struct val values[LIMIT_INDEX_FIELDS];
    struct index_iter *it = NULL;
    bool is_found;
    for (size_t i = 0; i < x->field_count; i++)
        values[i] = val_path(doc, x->fields[i].names, x->fields[i].count);
    struct index_range equal = { .equal = values, .equal_count = x->field_count };
    OK_OR_FAIL(index_scan(&it, t, c, x, &equal, &f->err), &f->err);
    walk(f, t, c, it, val_string(val_get(doc, slice_str("_key"))), &is_found);
    assert_true(is_found);
}

static void check_edge(struct fixture *f, struct txn *t, const struct collection *c, struct val doc)
{
    static const char *const ends[] = { "_from", "_to" };
    static const enum edge_direction ways[] = { EDGE_OUTBOUND, EDGE_INBOUND };
    for (int i = 0; i < 2; i++) {
        struct slice vertex = val_string(val_get(doc, slice_str(ends[i])));
        struct index_iter *it = NULL;
        bool is_found;
        OK_OR_FAIL(index_scan_edges(&it, t, c, vertex, ways[i], &f->err), &f->err);
        walk(f, t, c, it, val_string(val_get(doc, slice_str("_key"))), &is_found);
        assert_true(is_found);
    }
}

static size_t count_vectors(struct fixture *f, struct txn *t, const struct collection *c,
                            const struct index_def *x)
{
    enum { MANY = 100 };
    struct vector_hit hits[MANY];
    float zero[8] = { 0 };
    size_t n = 0;
    struct vector_request all = { .vector = zero, .dimension = x->dimension, .k = MANY };
    OK_OR_FAIL(vector_search(t, c, x, &all, f->arena, hits, &n, &f->err), &f->err);
    return n;
}

static size_t count_entries(struct fixture *f, struct txn *t, const struct collection *c,
                            const struct index_def *x)
{
    struct index_iter *it = NULL;
    bool is_found;
    if (x->kind == INDEX_VECTOR)
        return count_vectors(f, t, c, x);
    OK_OR_FAIL(index_scan(&it, t, c, x, &(struct index_range){ 0 }, &f->err), &f->err);
    return walk(f, t, c, it, slice_str(""), &is_found);
}

static void describe_indexes(struct fixture *f, struct txn *t, const struct collection *c,
                             uint64_t documents, struct buf *out)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *x = &c->indexes[i];
        buf_printf(out, "    index %s%s", x->type, x->is_ready ? "" : " not ready");
        for (size_t j = 0; j < x->field_count; j++)
            buf_printf(out, " %.*s", SLICE_ARG(x->fields[j].text));
        buf_add_char(out, '\n');
        bool has_entries = x->kind == INDEX_PERSISTENT || x->kind == INDEX_VECTOR;
        if (has_entries && x->is_ready)
            assert_int_equal(count_entries(f, t, c, x), documents);
    }
}

static void describe_collection(struct fixture *f, struct txn *t, const struct collection *c,
                                bool has_prepared, struct buf *out)
{
    struct doc_iter *it = NULL;
    struct val doc, checked;
    uint64_t walked = 0, counted = 0;
    buf_printf(out, "  collection %.*s type %d%s\n", SLICE_ARG(c->name), (int)c->type,
               c->wait_for_sync ? " waits for sync" : "");
    if (has_prepared && slice_is(c->name, HELD_COLLECTION))
        return;
    OK_OR_FAIL(doc_iter_new(&it, t, c, &f->err), &f->err);
    for (; doc_iter_next(it, &doc); walked++) {
        OK_OR_FAIL(val_validate(val_bytes(doc), &checked, &f->err), &f->err);
        describe_document(c, doc, out);
        for (size_t i = 0; i < c->index_count; i++)
            if (c->indexes[i].kind == INDEX_PERSISTENT && c->indexes[i].is_ready)
                check_persistent(f, t, c, &c->indexes[i], doc);
        if (c->type == COLLECTION_EDGE)
            check_edge(f, t, c, doc);
    }
    OK_OR_FAIL(doc_iter_check(it, &f->err), &f->err);
    doc_iter_free(it);
    OK_OR_FAIL(doc_count(t, c, &counted, &f->err), &f->err);
    assert_int_equal(counted, walked);
    describe_indexes(f, t, c, walked, out);
}

static const char *backup_path(struct fixture *f)
{
    return arena_printf(f->arena, "%s/backup", f->path);
}

static const char *increment_path(struct fixture *f)
{
    return arena_printf(f->arena, "%s/increment", f->path);
}

static void describe_store(struct fixture *f, struct buf *out)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct catalog *catalog = txn_catalog(t);
    struct prepared_info prepared[4];
    size_t prepared_count = txn_prepared(f->store, prepared, ARRAY_LEN(prepared));
    buf_clear(out);
    for (size_t i = 0; i < prepared_count; i++)
        buf_printf(out, "prepared %.*s\n", (int)prepared[i].name_len, prepared[i].name);
    for (size_t i = 0; i < catalog_database_count(catalog); i++) {
        const struct database *db = catalog_database_at(catalog, i);
        buf_printf(out, "database %.*s\n", SLICE_ARG(db->name));
        for (size_t j = 0; j < db->collection_count; j++)
            describe_collection(f, t, &db->collections[j], prepared_count > 0, out);
    }
    if (access(backup_path(f), F_OK) == 0)
        buf_add_str(out, "a backup\n");
    if (access(arena_printf(f->arena, "%s.part", backup_path(f)), F_OK) == 0)
        buf_add_str(out, "a part of a backup\n");
    if (access(increment_path(f), F_OK) == 0)
        buf_add_str(out, "an increment\n");
    if (access(arena_printf(f->arena, "%s.part", increment_path(f)), F_OK) == 0)
        buf_add_str(out, "a part of an increment\n");
    buf_cstr(out);
    txn_end(t);
}

#endif
