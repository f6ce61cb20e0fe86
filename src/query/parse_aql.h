/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_aql -- what the grammar's actions use: one parse, and constructors of
 * nodes. Only the grammar and aql_parse include this.
 *
 * The first error sticks in rc; nodes made after it are thrown away with the
 * rest, so constructors never return NULL and actions need no checks.
 */
#ifndef QUERY_PARSE_AQL_H
#define QUERY_PARSE_AQL_H

#include "query/ast.h"
#include "query/lex.h"

enum { PARSE_AHEAD = 3 }; /* tokens that contextual keywords look at */
enum { LEX_FAILED = -1 };

struct parser {
    struct lexer lexer;
    struct arena *arena;
    struct token ahead[PARSE_AHEAD]; /* read, not yet given to the grammar */
    unsigned ahead_count;
    int last_kind;          /* of the token given last */
    unsigned given;         /* tokens so far */
    unsigned brackets;      /* open ones */
    struct error lex_error; /* of a token of kind LEX_FAILED among those ahead */
    struct ast *result;
    enum errc rc;
    struct error *err;
};

/* Children under construction; lives in the arena. */
struct ast_list {
    struct ast **items;
    uint32_t count, cap;
    uint32_t pos; /* of the first */
};

/* A reference: grows, while what follows goes into the tail of an expansion. */
struct reference {
    struct ast *node;
    bool grows;
};

/* FILTER, LIMIT and RETURN inside [* ]. */
struct inline_ops {
    struct ast *filter, *offset, *count, *projection;
};

/* The grammar's engine over all tokens. Sets result or rc. */
void parse_run(struct parser *p);

/* The next token as the grammar wants it: contextual keywords decided, brackets counted. */
void parse_next(struct parser *p, struct token *out);

void parse_fail(struct parser *p, int num, uint32_t pos, const char *fmt, ...) PRINTF_LIKE(4, 5);
void parse_syntax_error(struct parser *p, const struct token *t);

/* Memory of the engine's stack; NULL beyond its limit. */
void *parse_stack_grow(void *ptr, size_t bytes);

/* ---- nodes; absent children are NULL ---- */

struct ast *parse_node(struct parser *p, enum ast_kind kind, uint32_t pos, struct ast *const *kids,
                       uint32_t count);
#define NODE(kind, pos, ...)                                                                       \
    parse_node(p, kind, pos, (struct ast *[]){ __VA_ARGS__ },                                      \
               (uint32_t)(sizeof((struct ast *[]){ __VA_ARGS__ }) / sizeof(struct ast *)))

/* A node without children that carries the token's name or value. */
struct ast *parse_leaf(struct parser *p, enum ast_kind kind, const struct token *t);
struct ast *parse_named(struct parser *p, enum ast_kind kind, const struct token *t,
                        struct ast *kid);
struct ast *parse_list_node(struct parser *p, enum ast_kind kind, uint32_t pos,
                            const struct ast_list *list);
struct ast *parse_with_op(struct ast *n, int op);

struct ast_list *parse_list(struct parser *p);
struct ast_list *parse_append(struct parser *p, struct ast_list *list, struct ast *item);

/* ---- expressions ---- */

struct ast *parse_unary(struct parser *p, enum ast_op op, const struct token *t, struct ast *kid);
struct ast *parse_binary(struct parser *p, enum ast_op op, const struct token *t, struct ast *left,
                         struct ast *right);
struct ast *parse_quantified(struct parser *p, enum ast_op op, const struct token *t,
                             struct ast *left, struct ast *quantifier, struct ast *right);
struct ast *parse_call(struct parser *p, const struct token *name, struct ast_list *args);
/* A function's name so far; scope may be NULL. */
struct token parse_function(struct parser *p, const struct token *scope, const struct token *name);
struct ast *parse_infer(struct parser *p, const struct token *t, struct ast *model,
                        struct ast *prompt, struct ast *domain, struct ast *options);

/* access: ATTR, ATTR_BIND, INDEX or ARRAY_TEST without its first child, which becomes ref. */
struct reference parse_access(struct parser *p, struct reference ref, struct ast *access);
struct ast *parse_index(struct parser *p, const struct token *bracket, struct ast *index);
struct reference parse_expand(struct parser *p, struct reference ref, const struct token *bracket,
                              int levels, struct inline_ops ops);

/* ---- operations ---- */

struct ast *parse_for(struct parser *p, const struct token *t, struct ast_list *vars,
                      struct ast *source, struct ast *search, struct ast *options);

/* Of an edge collection without a direction of its own, until parse_path gives it one. */
enum { EDGE_AS_OPERATION = AST_ANY + 1 };

struct path_steps {
    enum ast_direction direction;
    struct ast *depth;
};

/* A traversal or path search; absent parts are NULL. */
struct path_parts {
    enum ast_kind kind;
    enum ast_direction direction;
    struct ast_list *vars;
    struct ast *depth, *start, *target;
    struct ast *graph, *prune, *options;
};
struct ast *parse_path(struct parser *p, const struct token *t, struct path_parts parts);

struct ast *parse_array_pattern(struct parser *p, const struct token *t, struct ast_list *items);
struct ast *parse_collect(struct parser *p, const struct token *t, struct ast_list *keys,
                          struct ast_list *aggregates, struct ast *into, struct ast *keep,
                          struct ast *count, struct ast *options);
struct ast *parse_window(struct parser *p, const struct token *t, struct ast *range,
                         struct ast *bounds, struct ast_list *aggregates);
struct ast *parse_sort_key(struct parser *p, struct ast *value, struct ast *direction);
/* kind: AST_QUERY or AST_SUBQUERY. */
struct ast *parse_query(struct parser *p, enum ast_kind kind, uint32_t pos, struct ast_list *ops);

#endif
