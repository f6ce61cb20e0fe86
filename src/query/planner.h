/* SPDX-License-Identifier: Apache-2.0 */
/* planner -- state shared by the files that turn a tree into a plan. */
#ifndef QUERY_PLANNER_H
#define QUERY_PLANNER_H

#include "query/expr.h"
#include "query/plan.h"
#include "store/catalog.h"

enum { PLAN_REGS_MAX = 4000, PLAN_NODES_MAX = 4000, PLAN_COLLECTIONS_MAX = 256 };

struct variable {
    struct slice name;
    uint32_t reg;
};

/* A vector score that a node delivers: the same call further down reads its register. */
struct known_score {
    const struct ast *call;
    uint32_t reg;
};

struct outer {
    const struct node *last;
    const struct outer *up;
};

struct planner {
    struct arena *arena;
    struct slice text;
    struct val bind;
    bool *bind_used;
    const struct planner_env *env;
    struct error *err;
    struct plan *plan;
    struct node *last; /* of the pipeline that is being made */
    struct variable *variables;
    size_t variable_count, variable_cap;
    size_t scope_start;                /* first variable of the pipeline that is being made */
    uint32_t current_reg, element_reg; /* NO_REG outside */
    bool in_inline;                    /* inside [* ...], UPSERT: nothing can be lifted out */
    const struct outer *outer;         /* pipelines around the one that is being made */
    struct expr *guard; /* what is lifted out runs for rows where it holds; or NULL */
    uint64_t written[PLAN_COLLECTIONS_MAX];
    size_t written_count;
    struct known_score scores[8];
    size_t score_count;
};

/* fail_num with "... at position LINE:COLUMN". */
enum errc plan_fail(struct planner *p, const struct ast *at, int num, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
enum errc plan_not_implemented(struct planner *p, const struct ast *at, const char *what);

uint32_t plan_reg(struct planner *p);
struct node *plan_node(struct planner *p, enum node_kind kind);
/* ERR 1511 when the name is taken in this scope. */
enum errc plan_declare(struct planner *p, const struct ast *var, uint32_t *reg);
void plan_declare_as(struct planner *p, struct slice name, uint32_t reg);
const struct variable *plan_variable(const struct planner *p, struct slice name);

enum errc plan_expr(struct planner *p, const struct ast *n, struct expr **out);
/* Must be known at planning: literals and bind values. */
enum errc plan_constant(struct planner *p, const struct ast *n, struct val *out);
struct expr *plan_reg_expr(struct planner *p, uint32_t reg);
struct expr *plan_const_expr(struct planner *p, struct val v);
struct expr *plan_attr_expr(struct planner *p, struct expr *object, struct slice name);
bool plan_uses_reg(const struct expr *e, uint32_t reg);

/* A value parameter or the text of a name; 1551, 1553. */
enum errc plan_bind_value(struct planner *p, const struct ast *n, struct val *out);
/* AST_NAME, AST_BIND_COLLECTION or AST_BIND as a collection; 1203. */
enum errc plan_collection(struct planner *p, const struct ast *n, const struct collection **out);

/* A pipeline of its own: subqueries. */
enum errc plan_subquery(struct planner *p, const struct ast *query, struct node **out);

/* COLLECT. */
enum errc plan_collect(struct planner *p, const struct ast *n);
/* INSERT, UPDATE, REPLACE, REMOVE, UPSERT. */
enum errc plan_write(struct planner *p, const struct ast *n);
/* 1579 when the query wrote the collection before. */
enum errc plan_check_access(struct planner *p, const struct ast *at, const struct collection *c);
/* An OPTIONS object of these names; an empty one when absent. */
enum errc plan_options(struct planner *p, const struct ast *options, const char *const *allowed,
                       size_t count, struct val *out);
bool plan_is_scan(const struct node *n);
void plan_add_filter(struct planner *p, struct node *scan, struct expr *e);
/* What scans need not copy and sorts need not keep; after planning. */
void plan_trim(struct planner *p);
/* Chooses how a scan finds its rows, once its filters are known. */
void plan_choose_access(struct planner *p, struct node *scan);
/* FOR ... SORT APPROX_NEAR_x ... LIMIT; *is_one false when the pattern is not there. */
enum errc plan_vector(struct planner *p, const struct ast *query, size_t at, size_t *used,
                      bool *is_one);
enum errc plan_filter(struct planner *p, const struct ast *condition);
enum errc plan_limit_values(struct planner *p, const struct ast *n, int64_t *offset,
                            int64_t *count);

#endif
