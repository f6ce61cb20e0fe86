/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes as the grammar's actions make them. Each node knows its depth, so that
 * no tree becomes deeper than what its readers may walk by recursion.
 */
#include "query/parse_aql.h"

/* ---- nodes and lists ---- */

static void deepen(struct parser *p, struct ast *n, const struct ast *kid)
{
    if (!kid || kid->depth < n->depth)
        return;
    if (kid->depth >= LIMIT_AQL_NESTING)
        parse_fail(p, 1524, n->pos, "too much nesting or too many objects");
    else
        n->depth = (uint16_t)((kid->depth + 1) & 0xfff);
}

struct ast *parse_node(struct parser *p, enum ast_kind kind, uint32_t pos, struct ast *const *kids,
                       uint32_t count)
{
    struct ast *n = ARENA_NEW(p->arena, struct ast);
    n->kind = (uint8_t)kind;
    n->pos = pos;
    n->depth = 1;
    n->count = count;
    if (count > 0) {
        n->kids = arena_alloc(p->arena, count * sizeof(struct ast *));
        memcpy(n->kids, kids, count * sizeof(struct ast *));
    }
    for (uint32_t i = 0; i < count; i++)
        deepen(p, n, kids[i]);
    return n;
}

struct ast *parse_leaf(struct parser *p, enum ast_kind kind, const struct token *t)
{
    struct ast *n = parse_node(p, kind, t->pos, NULL, 0);
    if (kind == AST_VALUE)
        n->val = t->val;
    else
        n->name = t->name;
    return n;
}

struct ast *parse_named(struct parser *p, enum ast_kind kind, const struct token *t,
                        struct ast *kid)
{
    struct ast *n = NODE(kind, t->pos, kid);
    n->name = t->name;
    return n;
}

struct ast *parse_with_op(struct ast *n, int op)
{
    n->op = (uint8_t)op;
    return n;
}

struct ast_list *parse_list(struct parser *p)
{
    return ARENA_NEW(p->arena, struct ast_list);
}

struct ast_list *parse_append(struct parser *p, struct ast_list *list, struct ast *item)
{
    if (list->count == list->cap) {
        uint32_t cap = list->cap ? 2 * list->cap : 4;
        struct ast **items = arena_alloc(p->arena, cap * sizeof *items);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    if (list->count == 0 && item)
        list->pos = item->pos;
    list->items[list->count++] = item;
    return list;
}

struct ast *parse_list_node(struct parser *p, enum ast_kind kind, uint32_t pos,
                            const struct ast_list *list)
{
    return parse_node(p, kind, pos, list->items, list->count);
}

/* ---- operators ---- */

/* -5 is a number, not an operation: what reads trees meets constants as such. */
static struct val signed_number(struct parser *p, enum ast_op op, struct val v)
{
    if (op == AST_OP_PLUS)
        return v;
    if (val_is_int(v) && val_int(v) != INT64_MIN)
        return val_new_int(p->arena, -val_int(v));
    if (val_double(v) == 0x1p63) /* as an integer it exists only with its sign */
        return val_new_int(p->arena, INT64_MIN);
    return val_new_double(p->arena, -val_double(v));
}

struct ast *parse_unary(struct parser *p, enum ast_op op, const struct token *t, struct ast *kid)
{
    if (op != AST_OP_NOT && kid->kind == AST_VALUE && val_type(kid->val) == VAL_NUMBER) {
        struct ast *n = parse_node(p, AST_VALUE, t->pos, NULL, 0);
        n->val = signed_number(p, op, kid->val);
        return n;
    }
    return parse_with_op(NODE(AST_UNARY, t->pos, kid), op);
}

struct ast *parse_binary(struct parser *p, enum ast_op op, const struct token *t, struct ast *left,
                         struct ast *right)
{
    return parse_with_op(NODE(AST_BINARY, t->pos, left, right), op);
}

struct ast *parse_quantified(struct parser *p, enum ast_op op, const struct token *t,
                             struct ast *left, struct ast *quantifier, struct ast *right)
{
    return parse_with_op(NODE(AST_QUANTIFIED, t->pos, left, right, quantifier), op);
}

/* ---- calls ---- */

struct token parse_function(struct parser *p, const struct token *scope, const struct token *name)
{
    struct token t = *name;
    if (lex_word_class(name->name) == WORD_NONE) /* possible only between ticks */
        parse_fail(p, 1501, name->pos, "syntax error, bad name of a function");
    if (scope) {
        t.pos = scope->pos;
        t.len = name->pos + name->len - scope->pos;
        t.name = slice_str(
            arena_printf(p->arena, "%.*s::%.*s", SLICE_ARG(scope->name), SLICE_ARG(name->name)));
    }
    return t;
}

static struct ast *call(struct parser *p, uint32_t pos, struct slice name, struct ast **args,
                        uint32_t count)
{
    struct ast *n = parse_node(p, AST_CALL, pos, args, count);
    struct slice upper = arena_copy(p->arena, name);
    char *c = (char *)upper.ptr; /* our own copy */
    for (size_t i = 0; i < upper.len; i++)
        if (c[i] >= 'a' && c[i] <= 'z')
            c[i] = (char)(c[i] - 'a' + 'A');
    n->name = upper;
    return n;
}

struct ast *parse_call(struct parser *p, const struct token *name, struct ast_list *args)
{
    return call(p, name->pos, name->name, args->items, args->count);
}

/* DOMAIN d becomes the member domain of the options, before one that they may have. */
static struct ast *with_domain(struct parser *p, struct ast *domain, struct ast *options)
{
    struct ast *field = NODE(AST_FIELD, domain->pos, domain);
    field->name = slice_str("domain");
    if (!options)
        return NODE(AST_OBJECT, domain->pos, field);
    if (options->kind != AST_OBJECT) {
        struct ast *args[] = { options, NODE(AST_OBJECT, domain->pos, field) };
        return call(p, domain->pos, slice_str("MERGE"), args, 2);
    }
    struct ast_list *fields = parse_append(p, parse_list(p), field);
    for (uint32_t i = 0; i < options->count; i++)
        parse_append(p, fields, options->kids[i]);
    return parse_list_node(p, AST_OBJECT, options->pos, fields);
}

struct ast *parse_infer(struct parser *p, const struct token *t, struct ast *model,
                        struct ast *prompt, struct ast *domain, struct ast *options)
{
    if (domain)
        options = with_domain(p, domain, options);
    struct ast *args[] = { model, prompt, options };
    return call(p, t->pos, t->name, args, options ? 3 : 2);
}

/* ---- accessors ---- */

static void set_object(struct parser *p, struct ast *access, struct ast *object)
{
    access->kids[0] = object;
    deepen(p, access, object);
}

enum { EXPAND_TAIL = 5 };

/*
 * Puts an access behind an expansion: a[*].b[*] + .c goes into the tail of the
 * innermost expansion. All expansions on the way become deeper by it.
 */
static void grow_tail(struct parser *p, struct ast *expand, struct ast *access)
{
    struct ast *path[LIMIT_AQL_NESTING];
    size_t n = 0;
    struct ast *at = expand;
    for (;;) {
        path[n++] = at;
        struct ast *tail = at->kids[EXPAND_TAIL];
        if (!tail || tail->kind != AST_EXPAND || n == LIMIT_AQL_NESTING)
            break;
        at = tail;
    }
    struct ast *object = at->kids[EXPAND_TAIL];
    if (!object)
        object = parse_node(p, AST_ELEMENT, access->pos, NULL, 0);
    set_object(p, access, object);
    at->kids[EXPAND_TAIL] = access;
    while (n-- > 0)
        deepen(p, path[n], path[n]->kids[EXPAND_TAIL]);
}

struct reference parse_access(struct parser *p, struct reference ref, struct ast *access)
{
    bool is_flattening = access->kind == AST_ARRAY_TEST && access->op > 1;
    if (ref.grows && !is_flattening) {
        grow_tail(p, ref.node, access);
        return ref;
    }
    set_object(p, access, ref.node);
    return (struct reference){ access, false };
}

/* ["name"] is .name, unless it may be a position: "0" and "-1" are those in an array. */
struct ast *parse_index(struct parser *p, const struct token *bracket, struct ast *index)
{
    if (index->kind == AST_VALUE && val_type(index->val) == VAL_STRING) {
        struct slice name = val_string(index->val);
        bool may_be_number =
            name.len > 0 && (name.ptr[0] == '-' || (name.ptr[0] >= '0' && name.ptr[0] <= '9'));
        if (!may_be_number) {
            struct token t = { .pos = bracket->pos, .name = arena_copy(p->arena, name) };
            return parse_named(p, AST_ATTR, &t, NULL);
        }
    }
    return NODE(AST_INDEX, bracket->pos, NULL, index);
}

struct reference parse_expand(struct parser *p, struct reference ref, const struct token *bracket,
                              int levels, struct inline_ops ops)
{
    struct ast *n = parse_with_op(NODE(AST_EXPAND, bracket->pos, NULL, ops.filter, ops.offset,
                                       ops.count, ops.projection, NULL),
                                  levels);
    if (ref.grows && levels == 1) {
        grow_tail(p, ref.node, n);
        return ref;
    }
    set_object(p, n, ref.node);
    return (struct reference){ n, true };
}

/* ---- operations ---- */

struct ast *parse_for(struct parser *p, const struct token *t, struct ast_list *vars,
                      struct ast *source, struct ast *search, struct ast *options)
{
    if (vars->count != 1)
        parse_fail(p, 1501, vars->items[1]->pos,
                   "syntax error, only a traversal or path search has more than one variable");
    return NODE(AST_FOR, t->pos, vars->items[0], source, search, options);
}

static void check_path_vars(struct parser *p, enum ast_kind kind, const struct ast_list *vars)
{
    uint32_t max = kind == AST_TRAVERSE ? 3 : kind == AST_SHORTEST_PATH ? 2 : 1;
    if (vars->items[0]->kind != AST_VAR)
        parse_fail(p, 1501, vars->items[0]->pos,
                   "syntax error, a traversal or path search cannot destructure");
    else if (vars->count > max)
        parse_fail(p, 1501, vars->items[max]->pos, "syntax error, at most %u variable%s here", max,
                   max > 1 ? "s" : "");
}

struct ast *parse_path(struct parser *p, const struct token *t, struct path_parts parts)
{
    const struct ast_list *vars = parts.vars;
    struct ast *graph = parts.graph, *n;
    check_path_vars(p, parts.kind, vars);
    for (uint32_t i = 0; graph->kind == AST_EDGES && i < graph->count; i++)
        if (graph->kids[i]->op == EDGE_AS_OPERATION)
            graph->kids[i]->op = (uint8_t)parts.direction;

    struct ast *first = vars->items[0];
    struct ast *second = vars->count > 1 ? vars->items[1] : NULL;
    struct ast *third = vars->count > 2 ? vars->items[2] : NULL;
    if (parts.kind == AST_TRAVERSE)
        n = NODE(AST_TRAVERSE, t->pos, first, second, third, parts.depth, parts.start, graph,
                 parts.prune, parts.options);
    else if (parts.kind == AST_SHORTEST_PATH)
        n = NODE(AST_SHORTEST_PATH, t->pos, first, second, parts.start, parts.target, graph,
                 parts.options);
    else if (parts.kind == AST_K_PATHS)
        n = NODE(AST_K_PATHS, t->pos, first, parts.depth, parts.start, parts.target, graph,
                 parts.options);
    else
        n = NODE(parts.kind, t->pos, first, parts.start, parts.target, graph, parts.options);
    return parse_with_op(n, parts.direction);
}

struct ast *parse_array_pattern(struct parser *p, const struct token *t, struct ast_list *items)
{
    uint32_t count = items->count; /* what is skipped at the end needs no mention */
    while (count > 0 && !items->items[count - 1])
        count--;
    if (count == 0)
        parse_fail(p, 1501, t->pos, "syntax error, no variable to assign to");
    return parse_node(p, AST_ARRAY_PATTERN, t->pos, items->items, count);
}

struct ast *parse_collect(struct parser *p, const struct token *t, struct ast_list *keys,
                          struct ast_list *aggregates, struct ast *into, struct ast *keep,
                          struct ast *count, struct ast *options)
{
    if (keep && !into)
        parse_fail(p, 1501, keep->pos, "syntax error, use of 'KEEP' without 'INTO'");
    if (!keys)
        keys = parse_list(p);
    if (!aggregates)
        aggregates = parse_list(p);
    return NODE(AST_COLLECT, t->pos, parse_list_node(p, AST_LIST, t->pos, keys),
                parse_list_node(p, AST_LIST, t->pos, aggregates), into, keep, count, options);
}

struct ast *parse_window(struct parser *p, const struct token *t, struct ast *range,
                         struct ast *bounds, struct ast_list *aggregates)
{
    bool has_preceding = false, has_following = false;
    for (uint32_t i = 0; i < bounds->count; i++) {
        const struct ast *field = bounds->kids[i];
        bool is_named = field->kind == AST_FIELD;
        bool *has = is_named && slice_is(field->name, "preceding")   ? &has_preceding
                    : is_named && slice_is(field->name, "following") ? &has_following
                                                                     : NULL;
        if (!has || *has)
            parse_fail(p, 1501, field->pos,
                       "syntax error, WINDOW bounds are 'preceding' and 'following', each once");
        else
            *has = true;
    }
    if (bounds->count == 0)
        parse_fail(p, 1501, bounds->pos,
                   "syntax error, WINDOW bounds need 'preceding' or 'following'");
    return NODE(AST_WINDOW, t->pos, range, bounds,
                parse_list_node(p, AST_LIST, t->pos, aggregates));
}

static bool is_word(struct slice text, const char *upper)
{
    size_t i = 0;
    for (; i < text.len && upper[i]; i++)
        if ((text.ptr[i] & ~32) != upper[i])
            return false;
    return i == text.len && !upper[i];
}

struct ast *parse_sort_key(struct parser *p, struct ast *value, struct ast *direction)
{
    enum ast_order order = AST_ASC;
    if (direction && direction->kind == AST_VALUE) {
        struct val v = direction->val;
        bool is_text = val_type(v) == VAL_STRING, is_bool = val_type(v) == VAL_BOOL;
        bool is_asc = is_text ? is_word(val_string(v), "ASC") : is_bool && val_bool(v);
        bool is_desc = is_text ? is_word(val_string(v), "DESC") : is_bool && !val_bool(v);
        if (!is_asc && !is_desc)
            parse_fail(p, 1501, direction->pos, "syntax error, a sort direction is ASC or DESC");
        order = is_desc ? AST_DESC : AST_ASC;
        direction = NULL;
    }
    return parse_with_op(NODE(AST_SORT_KEY, value->pos, value, direction), order);
}

static bool is_loop(const struct ast *op)
{
    return op->kind == AST_FOR || op->kind == AST_TRAVERSE || op->kind == AST_SHORTEST_PATH ||
           op->kind == AST_ALL_SHORTEST_PATHS || op->kind == AST_K_SHORTEST_PATHS ||
           op->kind == AST_K_PATHS;
}

struct ast *parse_query(struct parser *p, enum ast_kind kind, uint32_t pos, struct ast_list *ops)
{
    const struct ast *last = ops->items[ops->count - 1];
    bool has_loop = false;
    for (uint32_t i = 0; i < ops->count; i++)
        has_loop = has_loop || is_loop(ops->items[i]);
    if (!has_loop && last->kind == AST_RETURN && last->flags & AST_IS_DISTINCT)
        parse_fail(p, 1501, last->pos, "cannot use DISTINCT modifier on top-level query element");
    return parse_list_node(p, kind, pos, ops);
}
