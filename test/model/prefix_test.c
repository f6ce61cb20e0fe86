/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence tree against a model that counts real cells, as llama.cpp would. */
#include "model/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CELLS = 2000, IDS = 24, LEN = 400, STEPS = 20000 };

/* Cells of each sequence, and how many use each cell. */
struct pool {
    uint32_t cells[IDS][LEN];
    uint32_t len[IDS];
    uint16_t users[CELLS];
    uint32_t used;
};

static void pool_add(struct pool *p, int id)
{
    uint32_t c = 0;
    while (c < CELLS && p->users[c])
        c++;
    assert_true(c < CELLS); /* the promise of the table */
    p->users[c] = 1;
    p->used++;
    p->cells[id][p->len[id]++] = c;
}

static void pool_cut(struct pool *p, int id, uint32_t from)
{
    while (p->len[id] > from) {
        if (--p->users[p->cells[id][--p->len[id]]] == 0)
            p->used--;
    }
}

static void pool_fork(struct pool *p, int from, int to, uint32_t n)
{
    assert_int_equal(p->len[to], 0);
    assert_true(n <= p->len[from]);
    for (uint32_t i = 0; i < n; i++)
        p->users[p->cells[to][i] = p->cells[from][i]]++;
    p->len[to] = n;
}

struct world {
    struct prefix_table table;
    struct pool pool;
    int32_t tokens[IDS][LEN];
    uint32_t prompt[IDS];
};

static void close_in(struct world *w, int id)
{
    struct prefix_heir heir = prefix_close(&w->table, id);
    if (heir.id >= 0 && heir.n > 0)
        pool_fork(&w->pool, id, heir.id, heir.n);
    pool_cut(&w->pool, id, 0);
}

/* Prompts from few families, so that many share beginnings of several lengths. */
static void make_prompt(int32_t *out, uint32_t len)
{
    int32_t family = rand() % 3;
    uint32_t branch = (uint32_t)(rand() % 4) * 70;
    for (uint32_t i = 0; i < len; i++)
        out[i] = i < branch ? family : rand() % 50 + 10;
}

static void open_one(struct world *w)
{
    int32_t prompt[LEN];
    uint32_t len = 1 + (uint32_t)(rand() % 300);
    make_prompt(prompt, len);
    uint32_t reserved = len + (uint32_t)(rand() % (LEN - 300));
    struct prefix_open o = {
        .tokens = prompt, .known = len, .reserved = reserved, .salt = rand() % 2
    };
    o.parent = prefix_find(&w->table, o.salt, prompt, len - 1, &o.shared);
    int id = prefix_open(&w->table, &o);
    if (id < 0)
        return;
    memcpy(w->tokens[id], prompt, sizeof prompt);
    w->table.seqs[id].tokens = w->tokens[id];
    w->prompt[id] = len;
}

/* Forks or computes a few tokens of each running sequence. */
static void work(struct world *w)
{
    for (int id = 0; id < IDS; id++) {
        struct prefix_seq *s = &w->table.seqs[id];
        if (!s->is_running || rand() % 2)
            continue;
        if (!s->is_forked) {
            struct prefix_seq *from = &w->table.seqs[s->parent];
            assert_true(from->is_running);
            if (from->is_forked && from->computed >= s->shared) {
                pool_fork(&w->pool, s->parent, id, s->shared);
                s->computed = s->shared;
                s->is_forked = true;
            }
            continue;
        }
        for (int n = rand() % 40; n > 0 && s->computed < s->reserved; n--) {
            if (s->computed >= w->prompt[id])
                w->tokens[id][s->computed] = rand() % 50;
            pool_add(&w->pool, id);
            s->computed++;
            s->known = s->known < s->computed ? s->computed : s->known;
        }
    }
}

static void end_one(struct world *w)
{
    int id = rand() % IDS;
    if (w->table.seqs[id].is_running)
        close_in(w, id);
}

static void check(const struct world *w)
{
    uint32_t owned = 0, running = 0;
    for (int id = 0; id < IDS; id++) {
        const struct prefix_seq *s = &w->table.seqs[id];
        if (!s->is_running) {
            assert_int_equal(w->pool.len[id], 0);
            continue;
        }
        owned += s->reserved - s->shared;
        running++;
        assert_int_equal(s->computed, w->pool.len[id]);
        if (s->parent >= 0) {
            const struct prefix_seq *p = &w->table.seqs[s->parent];
            assert_true(p->is_running);
            assert_int_equal(p->salt, s->salt);
            assert_true(p->reserved >= s->shared);
            assert_memory_equal(p->tokens, s->tokens, s->shared * sizeof *s->tokens);
        }
    }
    assert_int_equal(owned, w->table.cells_reserved);
    assert_int_equal(running, w->table.running);
    assert_true(w->table.cells_reserved <= CELLS);
    assert_true(w->pool.used <= w->table.cells_reserved);
}

static void reservations_always_cover_the_cells_in_use(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 5; seed++) {
        struct world *w = calloc(1, sizeof *w);
        srand(seed);
        prefix_init(&w->table, IDS, CELLS);
        for (int i = 0; i < STEPS; i++) {
            switch (rand() % 4) {
            case 0:
                open_one(w);
                break;
            case 1:
                end_one(w);
                break;
            default:
                work(w);
            }
            check(w);
        }
        free(w);
    }
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    for (unsigned seed = 11; seed <= 15; seed++) {
        struct world *w = calloc(1, sizeof *w);
        srand(seed);
        prefix_init(&w->table, IDS, CELLS);
        for (int i = 0; i < 2000; i++) {
            open_one(w);
            work(w);
            end_one(w);
            if (i % 20)
                continue;
            for (int k = 0; k < 2000; k++)
                work(w); /* without new ones everybody comes to its end */
            for (int id = 0; id < IDS; id++) {
                const struct prefix_seq *s = &w->table.seqs[id];
                if (s->is_running)
                    assert_int_equal(s->computed, s->reserved);
            }
        }
        free(w);
    }
}

static void short_or_foreign_beginnings_are_not_shared(void **state)
{
    (void)state;
    struct prefix_table t;
    int32_t tokens[200] = { 0 };
    uint32_t len = 0;
    prefix_init(&t, IDS, CELLS);
    struct prefix_open o = {
        .tokens = tokens, .known = 100, .reserved = 150, .salt = 1, .parent = -1
    };
    int id = prefix_open(&t, &o);
    assert_int_equal(prefix_find(&t, 1, tokens, PREFIX_MIN - 1, &len), -1);
    assert_int_equal(prefix_find(&t, 2, tokens, 100, &len), -1);
    assert_int_equal(prefix_find(&t, 1, tokens, 150, &len), id);
    assert_int_equal(len, 100); /* what is known, not what may come */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reservations_always_cover_the_cells_in_use),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(short_or_foreign_beginnings_are_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
