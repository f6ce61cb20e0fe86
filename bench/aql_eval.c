/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FILTER d.a > 1 && d.b.c == 2 RETURN d.d over rows in memory, one thread: the planned
 * expressions against the same written in C with the value format's own functions. Per
 * second of CPU time. The rate itself has an aim too: 20 million rows.
 */
#include <stdio.h>

#include "aql.h"
#include "base/collate.h"
#include "base/val_text.h"
#include "query/query_private.h"
#include "store/store.h"

enum { ROWS = 4096 };

struct eval {
    struct arena *arena;
    struct val rows[ROWS];
    const struct expr *filter, *projection;
    struct val *registers;
    uint32_t reg;
    struct expr_env env;
    uint32_t hashes[4]; /* of a, b, c, d */
    size_t kept;        /* keeps the compiler from dropping the work */
};

static void ours_once(struct eval *e)
{
    struct error err;
    struct val v;
    bool passes;

    for (size_t i = 0; i < ROWS; i++) {
        e->registers[e->reg] = e->rows[i];
        if (expr_test(e->filter, e->registers, e->arena, &e->env, &passes, &err) != OK)
            bench_fail("filter: %s", err.text);
        if (!passes)
            continue;
        if (expr_eval(e->projection, e->registers, e->arena, &e->env, &v, &err) != OK)
            bench_fail("projection: %s", err.text);
        e->kept += *v.at;
    }
}

static struct val member(struct val v, const char *name, uint32_t hash)
{
    struct val out;

    return val_find_hashed(v, slice_of(name, 1), hash, &out) ? out : val_null;
}

static void theirs_once(struct eval *e)
{
    struct val one = val_new_int(e->arena, 1), two = val_new_int(e->arena, 2);

    for (size_t i = 0; i < ROWS; i++) {
        struct val d = e->rows[i];
        if (val_compare(member(d, "a", e->hashes[0]), one, NULL) <= 0 ||
            !val_equal(member(member(d, "b", e->hashes[1]), "c", e->hashes[2]), two))
            continue;
        e->kept += *member(d, "d", e->hashes[3]).at;
    }
}

static double run(struct eval *e, double seconds, void (*once)(struct eval *))
{
    double begin = bench_thread_seconds(), now = begin;
    uint64_t done = 0;
    struct arena_mark mark = arena_mark(e->arena);

    for (; now - begin < seconds; now = bench_thread_seconds()) {
        once(e);
        arena_rewind(e->arena, mark);
        done += ROWS;
    }
    return (double)done / (now - begin);
}

static double ours(void *ctx, double seconds)
{
    return run(ctx, seconds, ours_once);
}

static double theirs(void *ctx, double seconds)
{
    return run(ctx, seconds, theirs_once);
}

/* Half of the rows pass the first condition, half of those the second. */
static void make_rows(struct eval *e)
{
    struct error err;

    for (unsigned i = 0; i < ROWS; i++) {
        unsigned mixed = i * 2654435761u >> 16;
        const char *text = arena_printf(
            e->arena, "{\"_key\":\"%u\",\"a\":%u,\"b\":{\"c\":%u,\"x\":\"y\"},\"d\":\"text %u\"}",
            i, mixed % 4, 2 + mixed / 4 % 2, i);
        bench_must(val_parse(slice_str(text), e->arena, &e->rows[i], &err), &err, "parsing");
    }
    for (unsigned i = 0; i < 4; i++)
        e->hashes[i] = val_name_hash(slice_of(&"abcd"[i], 1));
}

static void find_expressions(struct eval *e, const struct plan *p)
{
    for (const struct node *n = p->root; n; n = n->input) {
        if (n->kind == NODE_RETURN)
            e->projection = n->expr;
        else if (n->kind == NODE_FILTER)
            e->filter = n->expr;
        else if (n->kind == NODE_ENUM_LIST)
            e->reg = n->reg;
    }
    if (!e->projection || !e->filter)
        bench_fail("the plan has no FILTER and RETURN of its own");
    e->registers = arena_zalloc(e->arena, (p->reg_count + 1) * sizeof *e->registers);
}

void aql_eval(void)
{
    struct eval e = { .arena = arena_new(0) };
    struct settings settings;
    struct store_options store_opt = { .settings = &settings };
    struct query_env env = { .env = env_system() };
    struct query_options opt = { .db_id = 1 };
    struct query *q;
    struct error err;

    settings_init(&settings);
    bench_must(store_open(&env.store, &store_opt, &err), &err, "opening a store in memory");
    bench_must(query_new(&q, &env, slice_str("FOR d IN [] FILTER d.a > 1 && d.b.c == 2 RETURN d.d"),
                         val_null, &opt, &err),
               &err, "planning");
    make_rows(&e);
    find_expressions(&e, query_plan(q));
    e.env = (struct expr_env){ .collator = store_collator(env.store), .env = env.env };
    bench_compare(&(struct bench_pair){ .name = "aql",
                                        .what = "eval",
                                        .facts = "threads=1 rows_in_memory=4096 passing=1/4",
                                        .unit = "rows/cpu_s",
                                        .opponent = "the same in C over the same values",
                                        .target = 0.6,
                                        .seconds = 0.3,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .ctx = &e });
    query_free(q);
    store_close(env.store);
    arena_free(e.arena);
}
