/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan -- a query as data: nodes in pipelines, expressions over registers.
 * Collections and indexes are named by id, variables by register, so that a
 * plan can be encoded, sent and decoded (plan_encode, plan_decode).
 *
 * A plan lives in one arena and does not change after planning.
 */
#ifndef QUERY_PLAN_H
#define QUERY_PLAN_H

#include "query/plan_parts.h"

enum node_kind {
    NODE_SINGLETON,
    NODE_ENUM_LIST,       /* expr -> reg */
    NODE_ENUM_COLLECTION, /* collection, scan -> reg */
    NODE_INDEX,           /* collection, scan with accesses -> reg */
    NODE_HASH_JOIN,       /* collection, scan -> reg; exprs: keys of the document, then as many
                             values that they must equal */
    NODE_VECTOR,          /* collection, scan, index; exprs[0]: query vector, exprs[1]: options if
                             given; an access knows what can pass; limit -> reg, reg2: score */
    NODE_TRAVERSE,        /* exprs[0]: start; walk -> reg vertex, reg2 edge, path; or NO_REG */
    NODE_PATHS,           /* exprs: start, target; walk -> the same */
    NODE_FILTER,          /* expr */
    NODE_CALC,            /* expr -> reg */
    NODE_SUBQUERY,        /* sub -> reg: array of its rows; null where the guard expr fails */
    NODE_CALL,            /* call, exprs: arguments -> reg; null where the guard expr fails */
    NODE_SORT,            /* exprs, descending; limit: only so many first rows are needed; live */
    NODE_LIMIT,           /* offset, limit */
    NODE_COLLECT,         /* exprs: keys -> collect */
    NODE_WINDOW,   /* window; by range: expr, its value, by which the rows are sorted; live */
    NODE_DISTINCT, /* expr -> reg: first of equal values */
    NODE_INSERT,   /* exprs[0]: document; write -> reg OLD, reg2 NEW; live, as all writes */
    NODE_UPDATE,   /* exprs[0]: key or NULL, exprs[1]: document */
    NODE_REPLACE,
    NODE_REMOVE, /* exprs[0]: key or document */
    NODE_UPSERT, /* sub: [OLD or null, document to insert or to change it by] */
    NODE_RETURN, /* expr */
};

struct node {
    uint8_t kind;       /* enum node_kind */
    uint32_t id;        /* within the plan, from 1 */
    struct node *input; /* NULL for the first */
    uint32_t reg, reg2;
    struct expr *expr;
    struct expr **exprs;
    uint32_t expr_count;
    uint64_t collection, index;
    int64_t offset, limit; /* limit -1 = all */
    bool counts_full;      /* NODE_LIMIT: rows beyond it are counted */
    bool *descending;      /* NODE_SORT */
    struct node *sub;      /* last node of the inner pipeline */
    struct slice call;     /* "INFER" */
    uint32_t *live;        /* registers of this pipeline that a row must still have behind it */
    uint32_t live_count;
    struct scan *scan;
    struct walk *walk;
    struct collect *collect;
    struct window *window;
    struct write_options *write;
};

struct plan_variable {
    uint32_t reg;
    struct slice name;
};

struct plan {
    struct node *root; /* last node of the main pipeline */
    uint32_t reg_count, node_count;
    bool is_write;
    bool has_calls;
    struct plan_variable *variables;
    uint32_t variable_count;
    uint64_t rules; /* bits: rows of the rule tables that changed it */
};

const char *node_kind_name(enum node_kind kind); /* ArangoDB's: "EnumerateCollectionNode" */

/* The plan as one value, and back. Decoding trusts nothing: ERR_CORRUPT. */
MUST_CHECK enum errc plan_encode(const struct plan *p, struct arena *arena, struct val *out,
                                 struct error *err);
MUST_CHECK enum errc plan_decode(struct val encoded, struct arena *arena, struct plan **out,
                                 struct error *err);

/* ---- making one ---- */

struct txn;
struct batch_call;
struct planner_env {
    struct txn *txn; /* its catalog resolves names */
    uint64_t db_id;
    const struct batch_call *const *calls;
    const struct collator *collator;
    const struct env *env;
    bool full_count;
    struct val rules; /* array of names, "-name" switches a rule off, "-all" every one; or null */
    void (*warn)(void *ctx, int num, const char *text); /* may be NULL */
    void *warn_ctx;
};
/* text: for positions in messages. */
MUST_CHECK enum errc plan_make(const struct ast *query, struct slice text, struct val bind,
                               const struct planner_env *env, struct arena *arena,
                               struct plan **out, struct error *err);

#endif
