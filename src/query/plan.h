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

#include "base/arena.h"
#include "base/val.h"
#include "query/ast.h"

/* ---- expressions ---- */

enum expr_kind {
    EXPR_CONST,      /* val */
    EXPR_REG,        /* reg */
    EXPR_ATTR,       /* [object] name, hash */
    EXPR_INDEX,      /* [object or array, index] */
    EXPR_UNARY,      /* [value] op */
    EXPR_BINARY,     /* [left, right] op; AND and OR evaluate the right side when needed */
    EXPR_QUANTIFIED, /* [array, right, count?] op, quantifier */
    EXPR_TERNARY,    /* [condition, then?, else] */
    EXPR_RANGE,      /* [from, to] */
    EXPR_ARRAY,      /* [each] */
    EXPR_OBJECT,     /* [name, value, name, value, ...]; names are expressions */
    EXPR_EXPAND, /* [array, filter?, offset?, count?, projection?, tail?] op: levels; reg: CURRENT;
                      reg2: the element of the tail */
    EXPR_ARRAY_TEST, /* [array, filter?, number?] op: levels, quantifier; reg: CURRENT */
    EXPR_CALL,       /* [each argument] fn */
};

struct fn;

struct expr {
    uint8_t kind;       /* enum expr_kind */
    uint8_t op;         /* enum ast_op, or levels */
    uint8_t quantifier; /* enum ast_quantifier, or NO_QUANTIFIER */
    uint32_t count;     /* kids; an absent one is NULL */
    uint32_t reg, reg2;
    uint32_t hash; /* of name */
    struct expr **kids;
    struct slice name; /* EXPR_ATTR; name of the function */
    struct val val;
    const struct fn *fn;
};
/* SORTED_IN, of EXPR_BINARY: the array on the right is sorted bytewise. */
enum { NO_QUANTIFIER = 255, SORTED_IN = 1, NO_REG = UINT32_MAX };

/* ---- nodes ---- */

enum node_kind {
    NODE_SINGLETON,
    NODE_ENUM_LIST,       /* expr -> reg */
    NODE_ENUM_COLLECTION, /* collection -> reg, those that pass filters */
    NODE_INDEX,           /* collection, index; exprs: equal values; behind them expr: array of
                             values, or lower, upper -> reg */
    NODE_PRIMARY,         /* collection; exprs[0]: key, _id or array of them -> reg */
    NODE_VECTOR,          /* collection, index; exprs[0]: query vector; count -> reg, reg2: score */
    NODE_FILTER,          /* expr */
    NODE_CALC,            /* expr -> reg */
    NODE_SUBQUERY,        /* sub -> reg: array of its rows; null where the guard expr fails */
    NODE_CALL,            /* call, exprs: arguments -> reg; null where the guard expr fails */
    NODE_SORT,            /* exprs, descending; limit: only so many first rows are needed */
    NODE_LIMIT,           /* offset, count */
    NODE_COLLECT,         /* exprs: keys -> regs; aggregates; into */
    NODE_DISTINCT,        /* expr -> reg: first of equal values */
    NODE_INSERT,          /* exprs[0]: document -> reg OLD, reg2 NEW */
    NODE_UPDATE,          /* exprs[0]: key or NULL, exprs[1]: document */
    NODE_REPLACE,
    NODE_REMOVE, /* exprs[0]: key or document */
    NODE_UPSERT, /* sub finds; exprs[0]: insert, exprs[1]: update; reg OLD, reg2 NEW */
    NODE_RETURN, /* expr */
};

struct write_options {
    uint8_t overwrite; /* enum overwrite_mode */
    bool drop_nulls, replace_objects, check_rev, ignore_errors, is_replace;
};

struct attribute {
    struct slice name;
    uint32_t hash;
};

struct aggregate {
    uint8_t kind; /* row of the table in exec_collect */
    uint32_t reg;
    struct expr *expr;
};

enum { PROJECTION_MAX = 8 };

struct node {
    uint8_t kind;       /* enum node_kind */
    uint32_t id;        /* within the plan, from 1 */
    struct node *input; /* NULL for the first */
    uint32_t reg, reg2;
    struct expr *expr;
    struct expr **exprs;
    uint32_t expr_count;
    bool *descending;           /* NODE_SORT */
    struct expr *lower, *upper; /* NODE_INDEX */
    bool lower_included, upper_included;
    uint64_t collection, index;
    struct expr **filters; /* scans */
    uint32_t filter_count;
    bool projects; /* scans: only these attributes are used behind the filters */
    struct attribute *projection;
    uint32_t projection_count;
    int64_t offset, limit; /* limit -1 = all */
    bool counts_full;      /* NODE_LIMIT: rows beyond it are counted */
    struct node *sub;      /* last node of the inner pipeline */
    struct slice call;     /* "INFER" */
    uint32_t *regs;        /* NODE_COLLECT: of the keys */
    struct aggregate *aggregates;
    uint32_t aggregate_count;
    uint32_t into_reg; /* NO_REG */
    struct expr *into_expr;
    struct slice *keep_names; /* without into_expr: members of a group's element */
    uint32_t *keep_regs;
    uint32_t keep_count;
    struct write_options write;
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
};
/* text: for positions in messages. */
MUST_CHECK enum errc plan_make(const struct ast *query, struct slice text, struct val bind,
                               const struct planner_env *env, struct arena *arena,
                               struct plan **out, struct error *err);

#endif
