/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any value, given as JSON text, is refused as a plan or is one: what it encodes to decodes to the
 * same, and it runs over the small store to rows, or an error with a text. Fragments of plans will
 * come from other nodes.
 */
#include "query/exec.h"
#include "small_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct plan *decode(struct val v, struct arena *arena)
{
    struct error err = { 0 };
    struct plan *plan = NULL;
    enum errc rc = plan_decode(v, arena, &plan, &err);

    if (rc != OK && (err.code != rc || !err.text[0]))
        BUG("an error without a text");
    return rc == OK ? plan : NULL;
}

static void check_codec(const struct plan *plan, struct arena *arena)
{
    struct error err = { 0 };
    struct val once, twice;

    must(plan_encode(plan, arena, &once, &err), &err);
    must(val_validate(val_bytes(once), &once, &err), &err);
    const struct plan *again = decode(once, arena);
    if (!again)
        BUG("a plan that was encoded is refused");
    must(plan_encode(again, arena, &twice, &err), &err);
    if (!slice_eq(val_bytes(once), val_bytes(twice)))
        BUG("a plan is encoded in two ways");
}

static void ignore_warning(void *ctx, int num, const char *text)
{
    (void)ctx, (void)num, (void)text;
}

static void answered(struct call_batch *b)
{
    (void)b;
}

static void run(const struct plan *plan)
{
    static const struct batch_call *const calls[] = { &small_infer, &small_embed, NULL };
    struct query_stats stats = { 0 };
    struct exec x = { .plan = plan,
                      .calls = calls,
                      .stats = &stats,
                      .rows_max = LIMIT_ROWS_PER_BATCH,
                      .deadline_us = env_mono_us(env_system()) + 100000,
                      .call_done = answered };
    struct row_list rows = { 0 };
    struct error err = { 0 };
    enum exec_status status = EXEC_WAIT;
    enum errc rc = OK;

    must(txn_begin(&x.txn, small_store(), NULL, &err), &err);
    x.arena = arena_new(8 * MIB);
    x.scratch = arena_child(x.arena);
    x.env = (struct expr_env){ .txn = x.txn,
                               .db_id = 1,
                               .collator = store_collator(small_store()),
                               .env = env_system(),
                               .warn = ignore_warning };
    exec_init(&x);
    while (rc == OK && status == EXEC_WAIT)
        rc = exec_run(&x, &rows, &status, &err);
    if (rc != OK && (err.code != rc || !err.text[0]))
        BUG("an error without a text");
    for (size_t i = 0; rc == OK && i < rows.count; i++)
        (void)val_size(rows.items[i]);
    exec_release(&x);
    txn_end(x.txn);
    arena_free(x.scratch);
    arena_free(x.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new(64 * MIB);
    struct val v;

    if (val_parse(slice_of(data, size), arena, &v, NULL) == OK) {
        const struct plan *plan = decode(v, arena);
        if (plan) {
            check_codec(plan, arena);
            run(plan);
        }
    }
    arena_free(arena);
    return 0;
}
