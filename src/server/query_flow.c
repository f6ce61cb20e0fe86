/* SPDX-License-Identifier: Apache-2.0 */
#include "server/query_flow.h"
#include "server/query_list.h"

struct query_flow {
    struct query *query;
    const struct query_shape *shape;
    void *ctx;
    uint64_t id; /* in the list */
};

static void wake(void *ctx)
{
    request_wake(ctx);
}

enum errc query_flow_options(struct request *r, struct query_options *out, struct error *err)
{
    const struct settings *set = r->ctx->settings;

    *out = (struct query_options){
        .isolation = ISOLATION_SNAPSHOT,
        .access = request_access(r),
        .user = set->auth ? r->user : (struct slice){ 0 },
        .memory_limit = (uint64_t)set->query_memory_mb * MIB,
        .max_runtime_ms = (uint64_t)set->query_max_runtime_ms,
        .payer = request_payer(r),
        .cancel = exchange_cancel_flag(r->x),
        .wake = wake,
        .wake_ctx = r,
    };
    return request_database_id(r, &out->db_id, err);
}

static void step(struct request *r)
{
    struct query_flow *f = r->state;
    struct error err = { 0 };
    enum query_state state;

    if (query_run(f->query, &state, &err) != OK) {
        query_list_end(r->ctx->queries, f->id, true);
        query_free(f->query);
        f->shape->failed(f->ctx, &err);
    } else if (state == QUERY_WAIT) {
        request_park(r, step);
    } else {
        query_list_end(r->ctx->queries, f->id, false);
        f->shape->done(f->ctx, f->query);
    }
}

void query_flow_start(struct request *r, struct query *q, const struct query_shape *shape,
                      void *ctx)
{
    struct query_flow *f = ARENA_NEW(r->arena, struct query_flow);

    *f = (struct query_flow){ q, shape, ctx, query_list_add(r->ctx->queries, r, q) };
    r->state = f;
    step(r);
}
