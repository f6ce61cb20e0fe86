/* SPDX-License-Identifier: Apache-2.0 */
/*
 * small_store -- for fuzz targets that run queries: three collections and one of edges in memory,
 * with indexes, and models that answer at once. Nothing is ever committed to it.
 */
#ifndef TEST_FUZZ_SMALL_STORE_H
#define TEST_FUZZ_SMALL_STORE_H

#include "base/log.h"
#include "base/val_text.h"
#include "query/query.h"
#include "store/doc.h"

/* Answers at once with its second argument. */
static enum errc echo(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    (void)call;
    (void)err;
    for (size_t i = 0; i < b->count; i++)
        buf_add_slice(&b->rows[i].result, val_bytes(b->rows[i].args[1]));
    b->done(b);
    return OK;
}

static const struct batch_call small_infer = {
    .name = "INFER", .min_args = 2, .max_args = 3, .max_rows = 8, .start = echo
};
static const struct batch_call small_embed = {
    .name = "EMBED", .min_args = 2, .max_args = 2, .max_rows = 8, .start = echo
};

static void must(enum errc rc, const struct error *err)
{
    if (rc != OK)
        BUG("%s", err->text);
}

static void add_documents(struct store *s, uint64_t id, const char *text)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct txn *txn = NULL;
    struct val docs;
    struct doc_change change;

    must(txn_begin(&txn, s, &(struct txn_options){ 0 }, &err), &err);
    must(val_parse(slice_str(text), arena, &docs, &err), &err);
    for (size_t i = 0; i < val_count(docs); i++)
        must(doc_insert(txn, catalog_collection_by_id(txn_catalog(txn), id), val_at(docs, i),
                        &(struct doc_options){ 0 }, arena, &change, &err),
             &err);
    must(txn_commit(txn, &err), &err);
    txn_end(txn);
    arena_free(arena);
}

static void add_index(struct store *s, uint64_t id, const char *text)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct val def;
    uint64_t index;
    bool is_new;

    must(val_parse(slice_str(text), arena, &def, &err), &err);
    must(store_create_index(s, id, def, &index, &is_new, &err), &err);
    arena_free(arena);
}

static uint64_t add_collection(struct store *s, const char *name, enum collection_type type)
{
    struct collection_options c = { .name = slice_str(name),
                                    .type = type,
                                    .allow_user_keys = true };
    struct error err = { 0 };
    uint64_t id;

    must(store_create_collection(s, 1, &c, &id, &err), &err);
    return id;
}

/* "c", "d" and "u" hold the same documents; "e" has edges between those of "c". */
static struct store *small_store(void)
{
    static const char *const names[] = { "c", "d", "u" };
    static struct settings settings;
    static struct store *s;
    struct error err = { 0 };
    struct store_options opt = { .settings = &settings };

    if (s)
        return s;
    log_set_level(LOG_ERROR);
    settings_init(&settings);
    must(store_open(&s, &opt, &err), &err);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint64_t id = add_collection(s, names[i], COLLECTION_DOCUMENT);
        add_index(s, id, "{\"type\":\"persistent\",\"fields\":[\"n\",\"t\"]}");
        add_index(s, id, "{\"type\":\"persistent\",\"fields\":[\"t[*]\",\"n\"]}");
        add_index(s, id, "{\"type\":\"persistent\",\"fields\":[\"o.p\"],\"sparse\":true}");
        add_index(s, id,
                  "{\"type\":\"vector\",\"sparse\":true,\"fields\":[\"v\"],"
                  "\"params\":{\"metric\":\"cosine\",\"dimension\":2}}");
        add_documents(s, id,
                      "[{\"_key\":\"a\",\"n\":1,\"v\":[1,0]},{\"_key\":\"b\",\"n\":\"x\","
                      "\"t\":[1,2]},{\"_key\":\"c\",\"n\":null,\"o\":{\"p\":1}}]");
    }
    add_documents(s, add_collection(s, "e", COLLECTION_EDGE),
                  "[{\"_key\":\"ab\",\"_from\":\"c/a\",\"_to\":\"c/b\",\"n\":1},"
                  "{\"_key\":\"bc\",\"_from\":\"c/b\",\"_to\":\"c/c\",\"n\":2}]");
    return s;
}

#endif
