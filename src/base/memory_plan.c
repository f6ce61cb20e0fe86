/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With a budget, memtables and window come first, as they are set; what is left is divided: a half
 * for models, a quarter for queries, an eighth each for vectors and the block cache. Parts that are
 * set by name are taken out before, and the others share the rest in the same proportion. Without a
 * budget each part has its own limit.
 */
#include "base/memory_plan.h"

#include <inttypes.h>

enum { CACHE_MIB = 256, MEMTABLES_MIB = 256, WINDOW_MIB = 256 };
enum { PART_CACHE, PART_QUERIES, PART_VECTORS, PART_MODELS, PART_COUNT };

struct part {
    uint64_t set;    /* by its setting; 0 = not */
    uint64_t share;  /* of what a budget leaves, in eighths */
    uint64_t alone;  /* without a budget */
    uint64_t *bytes; /* where it goes */
};

static uint64_t of(int64_t mib)
{
    return (uint64_t)mib * MIB;
}

static void divide(struct part *parts, uint64_t rest)
{
    uint64_t shares = 0;
    for (int i = 0; i < PART_COUNT; i++) {
        shares += parts[i].set ? 0 : parts[i].share;
        rest -= parts[i].set < rest ? parts[i].set : rest;
    }
    for (int i = 0; i < PART_COUNT; i++)
        *parts[i].bytes = parts[i].set ? parts[i].set : rest / shares * parts[i].share;
}

void memory_plan_make(struct memory_plan *out, const struct settings *s, uint64_t machine_bytes)
{
    struct settings defaults;
    if (!s) {
        settings_init(&defaults);
        s = &defaults;
    }
    *out = (struct memory_plan){ .machine = machine_bytes,
                                 .budget = of(s->memory_budget_mb),
                                 .memtables = of(s->memtables_mb),
                                 .window = of(s->window_mb) };
    struct part parts[PART_COUNT] = {
        [PART_CACHE] = { of(s->block_cache_mb), 1, of(CACHE_MIB), &out->cache },
        [PART_QUERIES] = { of(s->query_total_mb), 2, machine_bytes / 8, &out->queries },
        [PART_VECTORS] = { of(s->vector_memory_mb), 1, machine_bytes / 8, &out->vectors },
        [PART_MODELS] = { of(s->model_memory_mb), 4, machine_bytes / 2, &out->models },
    };
    if (out->budget) {
        uint64_t fixed = out->memtables + out->window;
        divide(parts, out->budget > fixed ? out->budget - fixed : 0);
        return;
    }
    for (int i = 0; i < PART_COUNT; i++)
        *parts[i].bytes = parts[i].set ? parts[i].set : parts[i].alone;
}

uint64_t memory_plan_sum(const struct memory_plan *p)
{
    return p->cache + p->memtables + p->window + p->queries + p->vectors + p->models;
}

void memory_plan_print(const struct memory_plan *p, struct buf *out)
{
    const struct {
        const char *name, *setting;
        uint64_t bytes;
    } lines[] = {
        { "models", "model_memory_mb", p->models },
        { "queries", "query_total_mb", p->queries },
        { "vector indexes", "vector_memory_mb", p->vectors },
        { "block cache", "block_cache_mb", p->cache },
        { "memtables", "memtables_mb", p->memtables },
        { "conflict window", "window_mb", p->window },
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        buf_printf(out, "%s%s %" PRIu64 " MiB (%s)", i ? ", " : "", lines[i].name,
                   lines[i].bytes / MIB, lines[i].setting);
}

enum errc memory_plan_check(const struct memory_plan *p, bool *is_over, struct error *err)
{
    uint64_t sum = memory_plan_sum(p), least = 16 * (uint64_t)MIB;
    *is_over = sum > p->machine;
    if (!p->budget)
        return OK;
    bool is_starved =
        p->cache < least || p->queries < least || p->vectors < least || p->models < least;
    if (sum <= p->budget && !is_starved)
        return OK;
    return fail(err, ERR_INVALID,
                "memory_budget_mb=%" PRIu64 " is too small: memtables_mb, window_mb and the parts "
                "that are set leave less than 16 MiB for one of models, queries, vector indexes "
                "and block cache",
                p->budget / MIB);
}
