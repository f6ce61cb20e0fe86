/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in memory, chance from a seed (SEED=n), and queries that must give
 * equal rows however they are run: without rules, through the codec, with small
 * batches and sorts that go to disk.
 */
#ifndef TEST_QUERY_RANDOM_WORLD_H
#define TEST_QUERY_RANDOM_WORLD_H

#include "base/log.h"
#include "base/val_text.h"
#include "query/query.h"
#include "query/spill.h"
#include "store/doc.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

#define UNUSED __attribute__((unused))

struct world {
    struct settings settings;
    struct store *store;
    struct txn *txn;
    struct spill_space spill;
    uint64_t seed;
};

UNUSED static unsigned chance(struct world *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

enum way { PLAIN, CODEC, NO_RULES, SMALL_BATCHES, WAYS };

/* The rows as one JSON text. */
UNUSED static void run(struct world *w, const char *text, enum way way, struct buf *out)
{
    struct query_env env = { .store = w->store,
                             .env = env_system(),
                             .spill = way == SMALL_BATCHES ? &w->spill : NULL };
    struct arena *arena = arena_new(0);
    struct val off = val_new_string(arena, slice_str("-all"));
    struct query_options opt = { .db_id = 1,
                                 .txn = w->txn,
                                 .through_codec = way == CODEC,
                                 .batch_rows = way == SMALL_BATCHES ? 3 : 0 };
    struct query *q = NULL;
    struct error err = { 0 };
    enum query_state state;

    buf_clear(out);
    if (way == NO_RULES)
        opt.rules = val_new_array(arena, &off, 1);
    if (query_new(&q, &env, slice_str(text), val_null, &opt, &err) != OK ||
        query_run(q, &state, &err) != OK)
        fail_msg("%s: %s", text, err.text);
    for (size_t i = 0; i < query_row_count(q); i++) {
        val_print(query_row(q, i), out);
        buf_add_char(out, ' ');
    }
    query_free(q);
    arena_free(arena);
}

UNUSED static void must_equal(struct world *w, const char *a, const char *b)
{
    struct buf one, two;

    buf_init(&one, 0);
    buf_init(&two, 0);
    run(w, a, PLAIN, &one);
    for (int way = 0; way < WAYS; way++) {
        run(w, b, (enum way)way, &two);
        if (!slice_eq(buf_slice(&one), buf_slice(&two)))
            fail_msg("%s\n  gives %s\n%s\n  gives %s", a, buf_cstr(&one), b, buf_cstr(&two));
    }
    buf_release(&one);
    buf_release(&two);
}

UNUSED static void add_index(struct world *w, uint64_t collection, const char *def)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct val v;
    uint64_t id;
    bool is_new;

    assert_int_equal(val_parse(slice_str(def), arena, &v, &err), OK);
    assert_int_equal(store_create_index(w->store, collection, v, &id, &is_new, &err), OK);
    arena_free(arena);
}

UNUSED static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    struct store_options opt = { .settings = &w->settings };
    struct error err = { 0 };

    log_set_level(LOG_ERROR);
    settings_init(&w->settings);
    w->seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;
    assert_int_equal(store_open(&w->store, &opt, &err), OK);
    char dir[] = "/tmp/themis-random-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(spill_space_open(&w->spill, dir, &err), OK);
    w->spill.memory_bytes = 16 * KIB;
    w->spill.max_bytes = 64 * MIB;
    *state = w;
    return 0;
}

UNUSED static int teardown(void **state)
{
    struct world *w = *state;

    txn_end(w->txn);
    store_close(w->store);
    assert_int_equal(rmdir(w->spill.dir), 0);
    mem_free(w);
    return 0;
}

#endif
