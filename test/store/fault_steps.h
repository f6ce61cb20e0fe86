/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_steps -- a life of a store in steps that build on each other, each of which may fail.
 */
#ifndef TEST_STORE_FAULT_STEPS_H
#define TEST_STORE_FAULT_STEPS_H

#include "fault_state.h"

#include "store/backup.h"

struct rig {
    struct fixture f;
    char root[48];     /* holds the directory "before" and the one that f works in */
    struct buf answer; /* what the step found */
    struct buf before, after, now;
    int fatals;
};

struct step {
    const char *name;
    /* Closing the store is part of it when it leaves f->store NULL. */
    enum errc (*run)(struct rig *r, struct error *err);
    bool opens;     /* the store is closed when it begins */
    bool has_parts; /* it writes several times */
};

/* ---- what a step is made of ---- */

static enum errc open_store(struct rig *r, struct error *err)
{
    struct store_options opt = { .path = r->f.path, .settings = &r->f.settings };
    return store_open(&r->f.store, &opt, err);
}

static enum errc close_after(struct rig *r, enum errc rc)
{
    store_close(r->f.store);
    r->f.store = NULL;
    return rc;
}

/* Looks the collection up in the newest catalog; 0 when it is not there. */
static uint64_t id_of(struct rig *r, const char *name)
{
    struct txn *t = begin(&r->f, ISOLATION_SNAPSHOT);
    const struct collection *c = catalog_collection(txn_catalog(t), r->f.db, slice_str(name));
    uint64_t id = c ? c->id : 0;
    txn_end(t);
    return id;
}

static enum errc create(struct rig *r, const char *name, enum collection_type type,
                        const char *key_options, struct error *err)
{
    struct collection_options opt = { .name = slice_str(name),
                                      .type = type,
                                      .allow_user_keys = true,
                                      .key_options = json(&r->f, key_options) };
    return store_create_collection(r->f.store, r->f.db, &opt, NULL, err);
}

static enum errc add_index(struct rig *r, const char *name, const char *def, struct error *err)
{
    uint64_t id;
    bool is_new;
    return store_create_index(r->f.store, id_of(r, name), json(&r->f, def), &id, &is_new, err);
}

struct edit {
    char op; /* i, r, u, d; o inserts over what is there */
    const char *collection, *key, *doc;
};

static enum errc apply(struct rig *r, struct txn *t, const struct edit *e, struct error *err)
{
    static const struct doc_options over = { .overwrite = OVERWRITE_UPDATE };
    struct fixture *f = &r->f;
    const struct collection *c = in(f, t, e->collection);
    struct val doc = e->doc ? json(f, e->doc) : val_null;
    struct slice key = slice_str(e->key ? e->key : "");
    struct doc_change change;
    switch (e->op) {
    case 'i':
        return doc_insert(t, c, doc, NULL, f->arena, &change, err);
    case 'o':
        return doc_insert(t, c, doc, &over, f->arena, &change, err);
    case 'r':
        return doc_replace(t, c, key, doc, NULL, f->arena, &change, err);
    case 'u':
        return doc_update(t, c, key, doc, NULL, f->arena, &change, err);
    case 'd':
        return doc_remove(t, c, key, NULL, f->arena, &change, err);
    default:
        BUG("no such edit: %c", e->op);
    }
}

/* The edits in one transaction. */
static enum errc edit(struct rig *r, const struct txn_options *opt, const struct edit *edits,
                      size_t count, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    TRY(txn_begin(&t, r->f.store, opt, err));
    for (size_t i = 0; i < count; i++)
        TRY(apply(r, t, &edits[i], err));
    rc = txn_commit(t, err);
out:
    txn_end(t);
    return rc;
}

#define EDIT(r, err, ...)                                                                          \
    edit(r, NULL, (const struct edit[]){ __VA_ARGS__ },                                            \
         ARRAY_LEN(((const struct edit[]){ __VA_ARGS__ })), err)

static enum errc read_index(struct rig *r, struct txn *t, const char *name,
                            const struct index_range *range, struct error *err)
{
    const struct collection *c = in(&r->f, t, name);
    struct index_iter *it = NULL;
    struct slice key;
    enum errc rc = index_scan(&it, t, c, &c->indexes[c->index_count - 1], range, err);
    if (rc != OK)
        return rc;
    while (index_iter_next(it, &key))
        buf_printf(&r->answer, " %.*s", SLICE_ARG(key));
    rc = index_iter_check(it, err);
    index_iter_free(it);
    return rc;
}

static enum errc read_edges(struct rig *r, struct txn *t, const char *vertex,
                            enum edge_direction way, struct error *err)
{
    struct index_iter *it = NULL;
    struct slice key;
    enum errc rc = index_scan_edges(&it, t, in(&r->f, t, "e"), slice_str(vertex), way, err);
    if (rc != OK)
        return rc;
    while (index_iter_next(it, &key))
        buf_printf(&r->answer, " %.*s", SLICE_ARG(key));
    rc = index_iter_check(it, err);
    index_iter_free(it);
    return rc;
}

static enum errc read_all(struct rig *r, struct txn *t, const char *name, struct error *err)
{
    struct doc_iter *it = NULL;
    struct val doc;
    enum errc rc = doc_iter_new(&it, t, in(&r->f, t, name), err);
    if (rc != OK)
        return rc;
    while (doc_iter_next(it, &doc))
        val_print(val_get(doc, slice_str("n")), &r->answer);
    rc = doc_iter_check(it, err);
    doc_iter_free(it);
    return rc;
}

static enum errc read_near(struct rig *r, struct txn *t, struct error *err)
{
    static const float query[2] = { 1, 0 };
    const struct collection *c = in(&r->f, t, "v");
    struct vector_hit hits[2];
    size_t n = 0;
    struct vector_request nearest = { .vector = query, .dimension = 2, .k = 2 };
    enum errc rc = vector_search(t, c, &c->indexes[1], &nearest, r->f.arena, hits, &n, err);
    for (size_t i = 0; rc == OK && i < n; i++)
        buf_printf(&r->answer, " %.*s", SLICE_ARG(hits[i].key));
    return rc;
}

/* ---- steps ---- */

static enum errc creates_a_database(struct rig *r, struct error *err)
{
    return store_create_database(r->f.store, slice_str("other"), err);
}

static enum errc creates_a_collection(struct rig *r, struct error *err)
{
    return create(r, "c", COLLECTION_DOCUMENT, "null", err);
}

static enum errc creates_an_edge_collection(struct rig *r, struct error *err)
{
    return create(r, "e", COLLECTION_EDGE, "null", err);
}

static enum errc creates_a_counting_collection(struct rig *r, struct error *err)
{
    return create(r, "a", COLLECTION_DOCUMENT, "{\"type\":\"autoincrement\"}", err);
}

static enum errc creates_a_collection_for_vectors(struct rig *r, struct error *err)
{
    return create(r, "v", COLLECTION_DOCUMENT, "null", err);
}

static enum errc inserts_documents(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'i', "c", NULL, "{\"_key\":\"p\",\"n\":1,\"s\":\"x\"}" },
                { 'i', "c", NULL, "{\"_key\":\"q\",\"n\":2}" },
                { 'i', "c", NULL, "{\"_key\":\"s\",\"n\":3,\"s\":\"y\"}" });
}

static enum errc inserts_an_edge(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'i', "e", NULL, "{\"_key\":\"pq\",\"_from\":\"c/p\",\"_to\":\"c/q\"}" });
}

static enum errc inserts_a_counted_document(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'i', "a", NULL, "{\"n\":1}" });
}

static enum errc inserts_vectors(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'i', "v", NULL, "{\"_key\":\"x\",\"v\":[1,0]}" },
                { 'i', "v", NULL, "{\"_key\":\"y\",\"v\":[0,1]}" });
}

static enum errc builds_a_unique_index(struct rig *r, struct error *err)
{
    return add_index(r, "c", "{\"type\":\"persistent\",\"fields\":[\"n\"],\"unique\":true}", err);
}

static enum errc builds_an_index(struct rig *r, struct error *err)
{
    return add_index(r, "c", "{\"type\":\"persistent\",\"fields\":[\"s\",\"n\"]}", err);
}

static enum errc builds_a_vector_index(struct rig *r, struct error *err)
{
    return add_index(r, "v",
                     "{\"type\":\"vector\",\"fields\":[\"v\"],"
                     "\"params\":{\"metric\":\"cosine\",\"dimension\":2}}",
                     err);
}

static enum errc inserts_below_indexes(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'i', "c", NULL, "{\"_key\":\"t\",\"n\":4}" });
}

static enum errc inserts_over(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'o', "c", NULL, "{\"_key\":\"t\",\"n\":5}" });
}

static enum errc updates(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'u', "c", "p", "{\"n\":10}" });
}

static enum errc replaces(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'r', "c", "q", "{\"n\":20,\"s\":\"z\"}" });
}

static enum errc removes(struct rig *r, struct error *err)
{
    return EDIT(r, err, { 'd', "c", "t", NULL });
}

/* Reads and writes several collections; serializable, so that reads count. */
static enum errc runs_a_long_transaction(struct rig *r, struct error *err)
{
    static const struct edit edits[] = {
        { 'i', "c", NULL, "{\"_key\":\"u\",\"n\":30}" },
        { 'u', "c", "p", "{\"n\":11}" },
        { 'd', "c", "s", NULL },
        { 'i', "e", NULL, "{\"_key\":\"up\",\"_from\":\"c/u\",\"_to\":\"c/p\"}" },
        { 'r', "e", "pq", "{\"_from\":\"c/q\",\"_to\":\"c/q\"}" },
        { 'r', "v", "y", "{\"v\":[1,1]}" },
    };
    enum errc rc = OK;
    struct txn *t = NULL;
    uint64_t n;
    TRY(txn_begin(&t, r->f.store, &(struct txn_options){ .isolation = ISOLATION_SERIALIZABLE },
                  err));
    for (size_t i = 0; i < ARRAY_LEN(edits); i++)
        TRY(apply(r, t, &edits[i], err));
    TRY(doc_count(t, in(&r->f, t, "c"), &n, err));
    buf_printf(&r->answer, "%u", (unsigned)n);
    TRY(read_all(r, t, "c", err));
    TRY(read_index(r, t, "c", &(struct index_range){ .is_reverse = true }, err));
    TRY(read_edges(r, t, "c/q", EDGE_ANY, err));
    TRY(read_near(r, t, err));
    rc = txn_commit(t, err);
out:
    txn_end(t);
    return rc;
}

static enum errc reads(struct rig *r, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct val doc = val_null, z = json(&r->f, "\"z\"");
    uint64_t n;
    TRY(txn_begin(&t, r->f.store, &(struct txn_options){ .is_read_only = true }, err));
    TRY(doc_get(t, in(&r->f, t, "e"), slice_str("up"), r->f.arena, &doc, err));
    val_print(val_get(doc, slice_str("_from")), &r->answer);
    TRY(doc_count(t, in(&r->f, t, "c"), &n, err));
    buf_printf(&r->answer, "%u", (unsigned)n);
    TRY(read_all(r, t, "c", err));
    TRY(read_index(r, t, "c", &(struct index_range){ .equal = &z, .equal_count = 1 }, err));
    TRY(read_index(r, t, "c", &(struct index_range){ .is_reverse = true }, err));
    TRY(read_edges(r, t, "c/p", EDGE_INBOUND, err));
    TRY(read_edges(r, t, "c/q", EDGE_ANY, err));
    rc = read_near(r, t, err);
out:
    txn_end(t);
    return rc;
}

static enum errc inserts_unsynced_and_closes(struct rig *r, struct error *err)
{
    static const struct edit edits[] = { { 'i', "c", NULL, "{\"_key\":\"w\",\"n\":40}" } };
    return close_after(r, edit(r, &(struct txn_options){ .no_sync = true }, edits, 1, err));
}

static enum errc changes_a_collection(struct rig *r, struct error *err)
{
    return store_set_collection(r->f.store, id_of(r, "a"),
                                &(struct collection_change){ .wait_for_sync = true }, err);
}

/* Into a folder that describe_store knows of. */
static enum errc backs_up(struct rig *r, struct error *err)
{
    struct manifest m;
    struct backup_options opt = { .dir = backup_path(&r->f), .id = "id", .program = "test" };
    return store_backup(r->f.store, &opt, r->f.arena, &m, err);
}

static enum errc backs_up_the_rest(struct rig *r, struct error *err)
{
    char digest[65];
    struct manifest full, m;
    struct backup_parent parent = { .id = "id", .digest = digest };
    struct backup_options opt = {
        .dir = increment_path(&r->f), .id = "more", .program = "test", .parent = &parent
    };
    enum errc rc = OK;
    TRY(manifest_read(backup_path(&r->f), r->f.arena, &full, err));
    TRY(manifest_digest(backup_path(&r->f), digest, err));
    parent.about = full.about;
    rc = store_backup(r->f.store, &opt, r->f.arena, &m, err);
out:
    return rc;
}

static enum errc renames_a_collection(struct rig *r, struct error *err)
{
    return store_rename_collection(r->f.store, r->f.db, id_of(r, "a"), slice_str("b"), err);
}

static enum errc creates_a_collection_to_hold(struct rig *r, struct error *err)
{
    return create(r, HELD_COLLECTION, COLLECTION_DOCUMENT, "null", err);
}

static enum errc prepare(struct rig *r, const char *name, const char *doc, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    TRY(txn_begin(&t, r->f.store, NULL, err));
    TRY(apply(r, t, &(struct edit){ 'i', HELD_COLLECTION, NULL, doc }, err));
    rc = txn_prepare(t, slice_str(name), err);
out:
    txn_end(t);
    return rc;
}

static enum errc prepares(struct rig *r, struct error *err)
{
    return prepare(r, "one", "{\"_key\":\"one\",\"n\":1}", err);
}

static enum errc prepares_another(struct rig *r, struct error *err)
{
    return prepare(r, "two", "{\"_key\":\"two\",\"n\":2}", err);
}

static enum errc commits_what_was_prepared(struct rig *r, struct error *err)
{
    return txn_resolve(r->f.store, slice_str("one"), true, NULL, err);
}

static enum errc drops_what_was_prepared(struct rig *r, struct error *err)
{
    return txn_resolve(r->f.store, slice_str("two"), false, NULL, err);
}

static enum errc drops_an_index(struct rig *r, struct error *err)
{
    struct txn *t = begin(&r->f, ISOLATION_SNAPSHOT);
    uint64_t index = in(&r->f, t, "v")->indexes[1].id;
    txn_end(t);
    return close_after(r, store_drop_index(r->f.store, id_of(r, "v"), index, err));
}

static enum errc truncates(struct rig *r, struct error *err)
{
    return close_after(r, store_truncate_collection(r->f.store, id_of(r, "v"), err));
}

static enum errc drops_a_collection(struct rig *r, struct error *err)
{
    return close_after(r, store_drop_collection(r->f.store, r->f.db, id_of(r, "e"), err));
}

static enum errc drops_a_database(struct rig *r, struct error *err)
{
    return close_after(r, store_drop_database(r->f.store, slice_str("other"), err));
}

static enum errc creates_a_database_again(struct rig *r, struct error *err)
{
    return store_create_database(r->f.store, slice_str("again"), err);
}

#define STEP(f)                                                                                    \
    {                                                                                              \
        .name = #f, .run = f                                                                       \
    }
#define PARTS(f)                                                                                   \
    {                                                                                              \
        .name = #f, .run = f, .has_parts = true                                                    \
    }

static const struct step life[] = {
    { "opens_a_new_store", open_store, .opens = true, .has_parts = true },
    STEP(creates_a_database),
    STEP(creates_a_collection),
    STEP(creates_an_edge_collection),
    STEP(creates_a_counting_collection),
    STEP(creates_a_collection_for_vectors),
    STEP(inserts_documents),
    STEP(inserts_an_edge),
    STEP(inserts_a_counted_document),
    STEP(inserts_vectors),
    PARTS(builds_a_unique_index),
    STEP(builds_an_index),
    STEP(builds_a_vector_index),
    STEP(inserts_below_indexes),
    STEP(inserts_over),
    STEP(updates),
    STEP(replaces),
    STEP(removes),
    STEP(runs_a_long_transaction),
    STEP(reads),
    STEP(inserts_unsynced_and_closes),
    STEP(changes_a_collection),
    STEP(renames_a_collection),
    STEP(creates_a_collection_to_hold),
    STEP(prepares),
    STEP(prepares_another),
    { "opens_with_prepared_transactions", open_store, .opens = true },
    STEP(commits_what_was_prepared),
    STEP(drops_what_was_prepared),
    STEP(drops_an_index),
    PARTS(truncates),
    STEP(drops_a_collection),
    STEP(drops_a_database),
    STEP(backs_up),
    STEP(creates_a_database_again),
    STEP(backs_up_the_rest),
};

#endif
