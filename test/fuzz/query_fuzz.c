/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is planned and run over a small store in memory, directly and
 * through the codec: rows, or an error with a text. Writes are rolled back.
 */
#include "small_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(struct slice text, struct txn *txn, bool through_codec)
{
    struct query_env env = { .store = small_store(),
                             .calls = { &small_infer, &small_embed },
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
        must(txn_begin(&txn, small_store(), &(struct txn_options){ 0 }, &err), &err);
        run(slice_of(data, size), txn, codec);
        txn_end(txn);
    }
    return 0;
}
