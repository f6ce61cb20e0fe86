/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is planned and run over a small store in memory, directly and
 * through the codec: rows, or an error with a text. Writes are rolled back.
 */
#include "base/log.h"
#include "base/val_text.h"
#include "query/query.h"
#include "store/doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct settings settings;

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

static const struct batch_call infer = { "INFER", 2, 3, 8, echo, NULL };
static const struct batch_call embed = { "EMBED", 2, 2, 8, echo, NULL };

static void must(enum errc rc, const struct error *err)
{
    if (rc != OK)
        BUG("%s", err->text);
}

static void add_documents(struct store *s, uint64_t id)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct txn *txn = NULL;
    struct val docs;
    struct doc_change change;

    must(txn_begin(&txn, s, &(struct txn_options){ 0 }, &err), &err);
    must(val_parse(slice_str("[{\"_key\":\"a\",\"n\":1,\"v\":[1,0]},{\"_key\":\"b\",\"n\":\"x\","
                             "\"t\":[1,2]},{\"_key\":\"c\",\"n\":null,\"o\":{\"p\":1}}]"),
                   arena, &docs, &err),
         &err);
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

static struct store *the_store(void)
{
    static struct store *s;
    struct error err = { 0 };
    struct store_options opt = { .settings = &settings };
    uint64_t id;

    if (s)
        return s;
    log_set_level(LOG_ERROR);
    settings_init(&settings);
    must(store_open(&s, &opt, &err), &err);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "c", "d", "u" };
        struct collection_options c = { .name = slice_str(names[i]),
                                        .type = COLLECTION_DOCUMENT,
                                        .allow_user_keys = true };
        must(store_create_collection(s, 1, &c, &id, &err), &err);
        add_index(s, id, "{\"type\":\"persistent\",\"fields\":[\"n\",\"t\"]}");
        add_index(s, id,
                  "{\"type\":\"vector\",\"sparse\":true,\"fields\":[\"v\"],"
                  "\"params\":{\"metric\":\"cosine\",\"dimension\":2}}");
        add_documents(s, id);
    }
    return s;
}

static void run(struct slice text, struct txn *txn, bool through_codec)
{
    struct query_env env = { .store = the_store(),
                             .calls = { &infer, &embed },
                             .env = env_system() };
    struct query_options opt = { .db_id = 1,
                                 .txn = txn,
                                 .memory_limit = 8 * MIB,
                                 .max_runtime_ms = 100,
                                 .through_codec = through_codec };
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct query *q = NULL;
    enum query_state state;
    struct val explained;
    enum errc rc = query_new(&q, &env, text, val_null, &opt, &err);

    if (rc == OK)
        must(query_explain(q, arena, &explained, &err), &err);
    if (rc == OK)
        rc = query_run(q, &state, &err);
    if (rc != OK && !err.text[0])
        BUG("an error without a text");
    if (rc == ERR_CORRUPT)
        BUG("%s", err.text);
    if (rc == OK && state != QUERY_DONE)
        BUG("nobody is there to wait for");
    for (size_t i = 0; rc == OK && i < query_row_count(q); i++)
        (void)val_size(query_row(q, i));
    query_free(q);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int codec = 0; codec < 2; codec++) {
        struct txn *txn = NULL;
        struct error err = { 0 };
        must(txn_begin(&txn, the_store(), &(struct txn_options){ 0 }, &err), &err);
        run(slice_of(data, size), txn, codec);
        txn_end(txn);
    }
    return 0;
}
