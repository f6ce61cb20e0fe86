/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planner -- state shared by the files that turn a tree into a plan. The tree
 * becomes nodes one to one; the rules then change the plan.
 */
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

/* OPTIONS of a FOR. */
struct scan_hint {
    struct val indexes; /* names in order of preference */
    bool is_forced, is_disabled;
    uint32_t max_projections;
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
    size_t known_cap;                  /* of plan->variables: all that were ever declared */
    size_t scope_start;                /* first variable of the pipeline that is being made */
    size_t loop_start;                 /* first variable of its first loop, or SIZE_MAX */
    uint32_t current_reg, element_reg; /* NO_REG outside */
    const struct outer *outer;         /* pipelines around the one that is being made */
    struct expr *guard; /* what is lifted out runs for rows where it holds; or NULL */
    uint64_t *written;  /* collections; room for PLAN_COLLECTIONS_MAX, or NULL */
    size_t written_count;
    struct known_score scores[8];
    size_t score_count;
    const struct scan_hint **hints; /* by register of the scan */
    size_t hint_cap;
};

/* ---- messages ---- */

/* fail_num with "... at position LINE:COLUMN". */
enum errc plan_fail(struct planner *p, const struct ast *at, int num, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
enum errc plan_not_implemented(struct planner *p, const struct ast *at, const char *what);

/* ---- registers, nodes, variables ---- */

uint32_t plan_reg(struct planner *p);
struct node *plan_node(struct planner *p, enum node_kind kind);
/* A node that is linked to no other yet. */
struct node *plan_loose_node(struct planner *p, enum node_kind kind);
/* ERR 1511 when the name is taken in this scope. */
enum errc plan_declare(struct planner *p, const struct ast *var, uint32_t *reg);
/* The same for a register that is there. */
enum errc plan_declare_new(struct planner *p, const struct ast *var, uint32_t reg);
void plan_declare_as(struct planner *p, struct slice name, uint32_t reg);
/* For explain only: how a register is called. */
void plan_name_reg(struct planner *p, struct slice name, uint32_t reg);
struct slice plan_reg_name(const struct planner *p, uint32_t reg);
const struct variable *plan_variable(const struct planner *p, struct slice name);

/* ---- expressions ---- */

enum errc plan_expr(struct planner *p, const struct ast *n, struct expr **out);
/* Must be known at planning: literals and bind values. */
enum errc plan_constant(struct planner *p, const struct ast *n, struct val *out);
bool plan_is_constant(const struct expr *e);
struct expr *plan_new_expr(struct planner *p, enum expr_kind kind, uint32_t count);
struct expr *plan_reg_expr(struct planner *p, uint32_t reg);
struct expr *plan_const_expr(struct planner *p, struct val v);
struct expr *plan_attr_expr(struct planner *p, struct expr *object, struct slice name);
struct expr *plan_binary_expr(struct planner *p, enum ast_op op, struct expr *a, struct expr *b);
struct expr *plan_not_expr(struct planner *p, struct expr *e);
struct expr *plan_call_expr(struct planner *p, const char *fn, struct expr *arg);
bool plan_uses_reg(const struct expr *e, uint32_t reg);
/* Sorts a long constant array behind IN, so that it is searched by halves; false: it is none. */
bool plan_sort_in(struct planner *p, struct expr *e);
/* Room for count pointers, NULL. */
struct expr **plan_expr_list(struct planner *p, uint32_t count);
/* The text of a bind parameter that names an attribute. */
enum errc plan_attr_binds(struct planner *p, const struct ast *n, struct expr **out);

/* Subqueries, calls that answer later, [* ...] with either inside, branches around them. */
bool plan_lifts(const struct planner *p, const struct ast *n);
enum errc plan_lift_subquery(struct planner *p, const struct ast *n, struct expr **out);
enum errc plan_lift_call(struct planner *p, const struct ast *n, const struct batch_call *call,
                         struct expr **out);
const struct batch_call *plan_find_call(const struct planner *p, struct slice name);
enum errc plan_lift_expand(struct planner *p, const struct ast *n, struct expr **out);
enum errc plan_lift_array_test(struct planner *p, const struct ast *n, struct expr **out);
enum errc plan_lift_ternary(struct planner *p, const struct ast *n, struct expr **out);
enum errc plan_lift_logic(struct planner *p, const struct ast *n, struct expr **out);
/* All documents of a collection, as an array. */
enum errc plan_lift_collection(struct planner *p, const struct ast *n, struct expr **out);

/* A value parameter or the text of a name; 1551, 1553. */
enum errc plan_bind_value(struct planner *p, const struct ast *n, struct val *out);
/* AST_NAME, AST_BIND_COLLECTION or AST_BIND as a collection; 1203. */
enum errc plan_collection(struct planner *p, const struct ast *n, const struct collection **out);
/* The name is no variable but that of a collection. */
bool plan_names_collection(const struct planner *p, const struct ast *n);

/* ---- operations ---- */

/* A pipeline of its own: what begins and ends between these two is in *out. */
struct inner {
    struct node *last;
    struct outer outer;
    struct expr *guard;
    size_t scope, scores, scope_start, loop_start;
};
void plan_enter(struct planner *p, struct inner *in);
struct node *plan_leave(struct planner *p, const struct inner *in);
/* The operations of a subquery. */
enum errc plan_operations(struct planner *p, const struct ast *query);

enum errc plan_collect(struct planner *p, const struct ast *n);
/* Traversals and path searches. */
enum errc plan_graph(struct planner *p, const struct ast *n);
/* Of a list of AST_ASSIGN: their functions and arguments, not yet their registers. */
enum errc plan_aggregates(struct planner *p, const struct ast *list, struct aggregate **out);
enum errc plan_window(struct planner *p, const struct ast *n);
/* INSERT, UPDATE, REPLACE, REMOVE, UPSERT. */
enum errc plan_write(struct planner *p, const struct ast *n);
/* 1579 when the query wrote the collection before. */
enum errc plan_check_access(struct planner *p, const struct ast *at, const struct collection *c);
/* An OPTIONS object; an empty one when absent. Unknown names are warned of. */
enum errc plan_options(struct planner *p, const struct ast *options, const char *const *allowed,
                       size_t count, struct val *out);
/* FOR ... SORT APPROX_NEAR_x ... LIMIT; *is_one false when the pattern is not there. */
enum errc plan_vector(struct planner *p, const struct ast *query, size_t at, size_t *used,
                      bool *is_one);
enum errc plan_limit_values(struct planner *p, const struct ast *n, int64_t *offset,
                            int64_t *count);

/* ---- scans ---- */

/* Reads documents of a collection into its register. */
bool plan_is_scan(const struct node *n);
struct node *plan_scan(struct planner *p, enum node_kind kind, const struct collection *c);
void plan_add_filter(struct planner *p, struct node *scan, struct expr *e);
void plan_set_hint(struct planner *p, const struct node *scan, const struct scan_hint *hint);
const struct scan_hint *plan_hint(const struct planner *p, const struct node *scan);

/* ---- walks ---- */

/* Every expression of the node itself; one that is shared is met more than once. */
typedef void (*expr_visitor)(struct expr **e, void *ctx);
void node_each_expr(struct node *n, expr_visitor visit, void *ctx);
/* Registers that the node sets. */
typedef void (*reg_visitor)(uint32_t reg, void *ctx);
void node_each_reg(const struct node *n, reg_visitor visit, void *ctx);
/* Registers that the node reads whole and outside expressions: INTO without a value. */
void node_each_kept(const struct node *n, reg_visitor visit, void *ctx);
/* How often the register is read in the pipeline and the inner ones. */
uint32_t plan_reg_uses(struct node *last, uint32_t reg);
/* Who reads from reads to: nodes from last to end (not included), and inner pipelines. */
void plan_rename_reg(struct node *last, const struct node *end, uint32_t from, uint32_t to);
/* Read by an expression of the node or of its inner pipeline. */
bool node_uses_reg(struct node *n, uint32_t reg);

/* The same value wherever it is asked, and no failure of its own. */
bool plan_is_steady(const struct expr *e);
/* Something is written in the pipeline or in an inner one. */
bool plan_writes(const struct node *last);
/* What stands before the node gives one row. */
bool plan_has_one_row(const struct node *n);
/* The index holds all that the query uses of the scan's documents. */
bool plan_covers(struct planner *p, struct node *scan, const struct index_def *index);

/* ---- rules ---- */

/*
 * Changes one pipeline, which ends with *last; returns whether it did. Errors go to
 * p->err. Inner pipelines have been changed before.
 */
struct rule {
    const char *name;
    enum errc (*apply)(struct planner *p, struct node **last, bool *changed);
    const char *help;
};
/* Tables, each ended by a row without name; plan_rules.c lists them in their order. */
extern const struct rule rules_fold[], rules_count[], rules_subquery[], rules_filter[],
    rules_index[], rules_sort[], rules_geo[], rules_join[], rules_graph[], rules_limit[],
    rules_projection[];

enum errc plan_apply_rules(struct planner *p);
/* The i-th rule over all tables, NULL behind the last. */
const struct rule *plan_rule(size_t i);
/* Registers that sorts and writes must keep; once the rules are done. */
void plan_find_live(struct planner *p);

#endif
