/* SPDX-License-Identifier: Apache-2.0 */
#include "query/plan_print.h"
#include "base/val_text.h"
#include "query/aggregate.h"
#include "store/catalog.h"

enum { CONST_BYTES = 120 };

enum level { LEVEL_ANY, LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_ADD, LEVEL_MUL, LEVEL_ATOM };

static const struct {
    const char *text;
    enum level level;
} ops[] = {
    [AST_OP_OR] = { "||", LEVEL_OR },          [AST_OP_AND] = { "&&", LEVEL_AND },
    [AST_OP_EQ] = { "==", LEVEL_COMPARE },     [AST_OP_NE] = { "!=", LEVEL_COMPARE },
    [AST_OP_LT] = { "<", LEVEL_COMPARE },      [AST_OP_LE] = { "<=", LEVEL_COMPARE },
    [AST_OP_GT] = { ">", LEVEL_COMPARE },      [AST_OP_GE] = { ">=", LEVEL_COMPARE },
    [AST_OP_IN] = { "in", LEVEL_COMPARE },     [AST_OP_NOT_IN] = { "not in", LEVEL_COMPARE },
    [AST_OP_LIKE] = { "like", LEVEL_COMPARE }, [AST_OP_NOT_LIKE] = { "not like", LEVEL_COMPARE },
    [AST_OP_MATCH] = { "=~", LEVEL_COMPARE },  [AST_OP_NOT_MATCH] = { "!~", LEVEL_COMPARE },
    [AST_OP_ADD] = { "+", LEVEL_ADD },         [AST_OP_SUB] = { "-", LEVEL_ADD },
    [AST_OP_MUL] = { "*", LEVEL_MUL },         [AST_OP_DIV] = { "/", LEVEL_MUL },
    [AST_OP_MOD] = { "%", LEVEL_MUL },         [AST_OP_NOT] = { "!", LEVEL_ATOM },
    [AST_OP_PLUS] = { "+", LEVEL_ATOM },       [AST_OP_MINUS] = { "-", LEVEL_ATOM },
};

static void print(const struct plan_printer *pp, const struct expr *e, enum level min,
                  struct buf *out);

void plan_print_reg(const struct plan_printer *pp, uint32_t reg, struct buf *out)
{
    for (uint32_t i = pp->plan->variable_count; i-- > 0;) {
        if (pp->plan->variables[i].reg == reg) {
            buf_add_slice(out, pp->plan->variables[i].name);
            return;
        }
    }
    buf_printf(out, "#%u", reg);
}

/* ---- expressions ---- */

static void print_const(struct val v, struct buf *out)
{
    struct buf text;

    buf_init(&text, 0);
    val_print(v, &text);
    struct slice s = buf_slice(&text);
    bool is_long = s.len > CONST_BYTES;
    if (is_long) {
        s.len = CONST_BYTES;
        while (s.len && (s.ptr[s.len] & 0xc0) == 0x80)
            s.len--;
    }
    buf_add_slice(out, s);
    buf_add_str(out, is_long ? " ..." : "");
    buf_release(&text);
}

static void print_list(const struct plan_printer *pp, const struct expr *e, const char *open,
                       const char *close, struct buf *out)
{
    buf_add_str(out, open);
    for (uint32_t i = 0; i < e->count; i++) {
        buf_add_str(out, i ? ", " : "");
        print(pp, e->kids[i], LEVEL_ANY, out);
    }
    buf_add_str(out, close);
}

static void print_object(const struct plan_printer *pp, const struct expr *e, struct buf *out)
{
    buf_add_str(out, "{ ");
    for (uint32_t i = 0; i + 1 < e->count; i += 2) {
        bool is_plain = e->kids[i]->kind == EXPR_CONST;
        buf_add_str(out, i ? ", " : "");
        buf_add_str(out, is_plain ? "" : "[");
        print(pp, e->kids[i], LEVEL_ANY, out);
        buf_add_str(out, is_plain ? " : " : "] : ");
        print(pp, e->kids[i + 1], LEVEL_ANY, out);
    }
    buf_add_str(out, " }");
}

static const char *quantifier_word(uint8_t quantifier)
{
    static const char *const words[] = { [AST_Q_ALL] = "all",
                                         [AST_Q_ANY] = "any",
                                         [AST_Q_NONE] = "none",
                                         [AST_Q_AT_LEAST] = "at least",
                                         [AST_Q_COUNT] = "" };

    return quantifier == NO_QUANTIFIER ? "any" : words[quantifier];
}

static void print_expand(const struct plan_printer *pp, const struct expr *e, struct buf *out)
{
    print(pp, e->kids[0], LEVEL_ATOM, out);
    buf_add_char(out, '[');
    for (unsigned i = 0; i < e->op; i++)
        buf_add_char(out, '*');
    if (e->kids[1]) {
        buf_add_str(out, " filter ");
        print(pp, e->kids[1], LEVEL_ANY, out);
    }
    if (e->kids[2] || e->kids[3])
        buf_add_str(out, " limit ...");
    if (e->kids[4]) {
        buf_add_str(out, " return ");
        print(pp, e->kids[4], LEVEL_ANY, out);
    }
    buf_add_char(out, ']');
    if (e->kids[5]) {
        buf_add_str(out, " -> ");
        print(pp, e->kids[5], LEVEL_ANY, out);
    }
}

static void print_test(const struct plan_printer *pp, const struct expr *e, struct buf *out)
{
    print(pp, e->kids[0], LEVEL_ATOM, out);
    buf_printf(out, "[? %s", quantifier_word(e->quantifier));
    if (e->kids[2])
        print(pp, e->kids[2], LEVEL_ATOM, out);
    if (e->kids[1]) {
        buf_add_str(out, " filter ");
        print(pp, e->kids[1], LEVEL_ANY, out);
    }
    buf_add_char(out, ']');
}

static void print_binary(const struct plan_printer *pp, const struct expr *e, enum level min,
                         struct buf *out)
{
    enum level level = ops[e->op].level;
    bool is_tight = level < min;

    buf_add_str(out, is_tight ? "(" : "");
    print(pp, e->kids[0], level, out);
    if (e->kind == EXPR_QUANTIFIED)
        buf_printf(out, " %s", quantifier_word(e->quantifier));
    buf_printf(out, " %s ", ops[e->op].text);
    print(pp, e->kids[1], (enum level)(level + 1), out);
    buf_add_str(out, is_tight ? ")" : "");
}

static void print_ternary(const struct plan_printer *pp, const struct expr *e, enum level min,
                          struct buf *out)
{
    buf_add_str(out, min > LEVEL_ANY ? "(" : "");
    print(pp, e->kids[0], LEVEL_OR, out);
    buf_add_str(out, " ? ");
    if (e->kids[1])
        print(pp, e->kids[1], LEVEL_OR, out);
    buf_add_str(out, e->kids[1] ? " : " : ": ");
    print(pp, e->kids[2], LEVEL_OR, out);
    buf_add_str(out, min > LEVEL_ANY ? ")" : "");
}

static void print_access(const struct plan_printer *pp, const struct expr *e, struct buf *out)
{
    print(pp, e->kids[0], LEVEL_ATOM, out);
    if (e->kind == EXPR_ATTR) {
        buf_printf(out, ".`%.*s`", SLICE_ARG(e->name));
        return;
    }
    buf_add_char(out, '[');
    print(pp, e->kids[1], LEVEL_ANY, out);
    buf_add_char(out, ']');
}

static void print(const struct plan_printer *pp, const struct expr *e, enum level min,
                  struct buf *out)
{
    switch ((enum expr_kind)e->kind) {
    case EXPR_CONST:
        print_const(e->val, out);
        return;
    case EXPR_REG:
        plan_print_reg(pp, e->reg, out);
        return;
    case EXPR_ATTR:
    case EXPR_INDEX:
        print_access(pp, e, out);
        return;
    case EXPR_UNARY:
        buf_add_str(out, ops[e->op].text);
        print(pp, e->kids[0], LEVEL_ATOM, out);
        return;
    case EXPR_BINARY:
    case EXPR_QUANTIFIED:
        print_binary(pp, e, min, out);
        return;
    case EXPR_TERNARY:
        print_ternary(pp, e, min, out);
        return;
    case EXPR_RANGE:
        print(pp, e->kids[0], LEVEL_ATOM, out);
        buf_add_str(out, "..");
        print(pp, e->kids[1], LEVEL_ATOM, out);
        return;
    case EXPR_ARRAY:
        print_list(pp, e, "[ ", " ]", out);
        return;
    case EXPR_OBJECT:
        print_object(pp, e, out);
        return;
    case EXPR_EXPAND:
        print_expand(pp, e, out);
        return;
    case EXPR_ARRAY_TEST:
        print_test(pp, e, out);
        return;
    case EXPR_CALL:
        buf_add_slice(out, e->name);
        print_list(pp, e, "(", ")", out);
        return;
    }
}

void plan_print_expr(const struct plan_printer *pp, const struct expr *e, struct buf *out)
{
    print(pp, e, LEVEL_ANY, out);
}

/* ---- nodes ---- */

static void print_exprs(const struct plan_printer *pp, struct expr *const *list, uint32_t count,
                        const char *between, struct buf *out)
{
    for (uint32_t i = 0; i < count; i++) {
        buf_add_str(out, i ? between : "");
        print(pp, list[i], count > 1 ? LEVEL_AND : LEVEL_ANY, out);
    }
}

static const struct collection *collection_of(const struct plan_printer *pp, const struct node *n)
{
    return catalog_collection_by_id(pp->catalog, n->collection);
}

static void print_collection(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    const struct collection *c = collection_of(pp, n);

    if (c)
        buf_add_slice(out, c->name);
    else
        buf_printf(out, "%llu", (unsigned long long)n->collection);
}

static void print_projections(const struct scan *s, struct buf *out)
{
    if (!s->projects)
        return;
    buf_add_str(out, s->projection_count ? ", projections: " : ", no attributes");
    for (uint32_t i = 0; i < s->projection_count; i++) {
        buf_add_str(out, i ? ", " : "");
        for (uint32_t k = 0; k < s->projections[i].count; k++)
            buf_printf(out, "%s`%.*s`", k ? "." : "", SLICE_ARG(s->projections[i].names[k]));
    }
}

static void print_index(const struct plan_printer *pp, const struct node *n, uint64_t id,
                        struct buf *out)
{
    const struct collection *c = collection_of(pp, n);
    const struct index_def *index = c ? collection_index(c, id) : NULL;

    if (index)
        buf_printf(out, "%s index `%.*s`", index->type, SLICE_ARG(index->name));
}

static void print_join(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    uint32_t keys = n->expr_count / 2;

    buf_add_str(out, "hash join on ");
    for (uint32_t i = 0; i < keys; i++) {
        buf_add_str(out, i ? ", " : "");
        print(pp, n->exprs[i], LEVEL_COMPARE, out);
        buf_add_str(out, " == ");
        print(pp, n->exprs[keys + i], LEVEL_COMPARE, out);
    }
}

static void print_scan(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    const struct scan *s = n->scan;

    buf_add_str(out, "FOR ");
    plan_print_reg(pp, n->reg, out);
    buf_add_str(out, " IN ");
    print_collection(pp, n, out);
    buf_add_str(out, "   /* ");
    if (n->kind == NODE_ENUM_COLLECTION)
        buf_add_str(out, "full collection scan");
    if (n->kind == NODE_HASH_JOIN)
        print_join(pp, n, out);
    for (uint32_t i = 0; i < s->access_count; i++) {
        static const char *const geo[] = { "", "within a distance, ", "meeting a shape, ",
                                           "the nearest, " };
        buf_add_str(out, i ? ", " : s->is_reverse ? "reverse scan of " : "");
        buf_add_str(out, geo[s->accesses[i].geo]);
        print_index(pp, n, s->accesses[i].index, out);
    }
    if (n->kind == NODE_VECTOR)
        print_index(pp, n, n->index, out);
    buf_add_str(out, s->is_covering ? ", index only" : "");
    print_projections(s, out);
    if (s->skip)
        buf_printf(out, ", skipping %llu", (unsigned long long)s->skip);
    buf_add_str(out, " */");
    if (!s->filter_count)
        return;
    buf_add_str(out, "   FILTER ");
    print_exprs(pp, s->filters, s->filter_count, " && ", out);
}

/* "v, e, p", as far as they are used. */
static void print_step(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    const uint32_t regs[] = { n->reg, n->reg2, n->walk->path_reg };
    bool is_first = true;

    buf_add_str(out, "FOR ");
    for (size_t i = 0; i < ARRAY_LEN(regs); i++) {
        if (regs[i] == NO_REG)
            continue;
        buf_add_str(out, is_first ? "" : ", ");
        plan_print_reg(pp, regs[i], out);
        is_first = false;
    }
    buf_add_str(out, is_first ? "- IN " : " IN ");
}

static void print_edges(const struct plan_printer *pp, const struct walk *w, struct buf *out)
{
    static const char *const words[] = {
        [AST_OUTBOUND] = "OUTBOUND", [AST_INBOUND] = "INBOUND", [AST_ANY] = "ANY"
    };

    for (uint32_t i = 0; i < w->edge_count; i++) {
        const struct collection *c = catalog_collection_by_id(pp->catalog, w->edges[i].collection);
        buf_printf(out, "%s%s ", i ? ", " : "", words[w->edges[i].direction]);
        if (c)
            buf_add_slice(out, c->name);
    }
}

static void print_walk(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    static const char *const kinds[] = { [WALK_TRAVERSE] = "",
                                         [WALK_SHORTEST_PATH] = "SHORTEST_PATH ",
                                         [WALK_ALL_SHORTEST_PATHS] = "ALL_SHORTEST_PATHS ",
                                         [WALK_K_SHORTEST_PATHS] = "K_SHORTEST_PATHS ",
                                         [WALK_K_PATHS] = "K_PATHS " };
    static const char *const orders[] = {
        [WALK_DFS] = "depth first", [WALK_BFS] = "breadth first", [WALK_WEIGHTED] = "by weight"
    };
    const struct walk *w = n->walk;

    print_step(pp, n, out);
    if (w->kind == WALK_TRAVERSE || w->kind == WALK_K_PATHS)
        buf_printf(out, "%u..%u ", w->min, w->max);
    buf_add_str(out, kinds[w->kind]);
    print_exprs(pp, n->exprs, n->expr_count, " TO ", out);
    buf_add_str(out, " ");
    print_edges(pp, w, out);
    if (w->prune || n->sub) {
        buf_add_str(out, " PRUNE ");
        print(pp, w->prune ? w->prune : n->sub->expr, LEVEL_ANY, out);
    }
    if (w->kind == WALK_TRAVERSE)
        buf_printf(out, "   /* %s */", orders[w->order]);
}

static void print_sort(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    buf_add_str(out, "SORT ");
    for (uint32_t i = 0; i < n->expr_count; i++) {
        buf_add_str(out, i ? ", " : "");
        print(pp, n->exprs[i], LEVEL_ANY, out);
        buf_add_str(out, n->descending[i] ? " DESC" : " ASC");
    }
    if (n->limit >= 0)
        buf_printf(out, "   /* heap of %lld rows */", (long long)n->limit);
}

static void print_assign(const struct plan_printer *pp, uint32_t reg, struct buf *out)
{
    plan_print_reg(pp, reg, out);
    buf_add_str(out, " = ");
}

static void print_aggregates(const struct plan_printer *pp, const struct aggregate *list,
                             uint32_t count, struct buf *out)
{
    for (uint32_t i = 0; i < count; i++) {
        buf_add_str(out, i ? ", " : " AGGREGATE ");
        print_assign(pp, list[i].reg, out);
        buf_printf(out, "%s(", aggregate_name(list[i].kind));
        print(pp, list[i].expr, LEVEL_ANY, out);
        buf_add_char(out, ')');
    }
}

static void print_rows_bound(int64_t rows, struct buf *out)
{
    if (rows == WINDOW_ALL)
        buf_add_str(out, "\"unbounded\"");
    else
        buf_printf(out, "%lld", (long long)rows);
}

static void print_window(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    const struct window *w = n->window;

    buf_add_str(out, "WINDOW ");
    if (n->expr) {
        plan_print_reg(pp, n->reg, out);
        buf_add_str(out, " FROM ");
        print(pp, w->lower, LEVEL_ANY, out);
        buf_add_str(out, " TO ");
        print(pp, w->upper, LEVEL_ANY, out);
    } else {
        buf_add_str(out, "{ preceding: ");
        print_rows_bound(w->preceding, out);
        buf_add_str(out, ", following: ");
        print_rows_bound(w->following, out);
        buf_add_str(out, " }");
    }
    print_aggregates(pp, w->aggregates, w->aggregate_count, out);
}

static void print_collect(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    const struct collect *c = n->collect;

    buf_add_str(out, "COLLECT");
    for (uint32_t i = 0; i < n->expr_count; i++) {
        buf_add_str(out, i ? ", " : " ");
        print_assign(pp, c->regs[i], out);
        print(pp, n->exprs[i], LEVEL_ANY, out);
    }
    print_aggregates(pp, c->aggregates, c->aggregate_count, out);
    if (c->into_reg != NO_REG) {
        buf_add_str(out, " INTO ");
        plan_print_reg(pp, c->into_reg, out);
    }
    if (c->count_reg != NO_REG) {
        buf_add_str(out, " WITH COUNT INTO ");
        plan_print_reg(pp, c->count_reg, out);
    }
    buf_add_str(out, c->is_sorted ? "   /* sorted */" : "   /* hash */");
}

static void print_let(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    buf_add_str(out, "LET ");
    print_assign(pp, n->reg, out);
}

static void print_write(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    static const char *const words[] = { [NODE_INSERT] = "INSERT ",
                                         [NODE_UPDATE] = "UPDATE ",
                                         [NODE_REPLACE] = "REPLACE ",
                                         [NODE_REMOVE] = "REMOVE ",
                                         [NODE_UPSERT] = "UPSERT ... " };

    buf_add_str(out, words[n->kind]);
    for (uint32_t i = 0; i < n->expr_count; i++) {
        if (!n->exprs[i])
            continue;
        buf_add_str(out, i && n->exprs[0] ? " WITH " : "");
        print(pp, n->exprs[i], LEVEL_ANY, out);
    }
    buf_add_str(out, n->expr_count ? " IN " : "IN ");
    print_collection(pp, n, out);
}

static void print_word(const struct plan_printer *pp, const char *word, const struct expr *e,
                       struct buf *out)
{
    buf_add_str(out, word);
    print(pp, e, LEVEL_ANY, out);
}

void plan_print_node(const struct plan_printer *pp, const struct node *n, struct buf *out)
{
    switch ((enum node_kind)n->kind) {
    case NODE_SINGLETON:
        buf_add_str(out, "ROOT");
        return;
    case NODE_ENUM_LIST:
        buf_add_str(out, "FOR ");
        plan_print_reg(pp, n->reg, out);
        print_word(pp, " IN ", n->expr, out);
        return;
    case NODE_ENUM_COLLECTION:
    case NODE_INDEX:
    case NODE_HASH_JOIN:
    case NODE_VECTOR:
        print_scan(pp, n, out);
        return;
    case NODE_TRAVERSE:
    case NODE_PATHS:
        print_walk(pp, n, out);
        return;
    case NODE_FILTER:
        print_word(pp, "FILTER ", n->expr, out);
        return;
    case NODE_CALC:
        print_let(pp, n, out);
        print(pp, n->expr, LEVEL_ANY, out);
        return;
    case NODE_SUBQUERY:
        print_let(pp, n, out);
        buf_add_str(out, "...   /* subquery */");
        return;
    case NODE_CALL:
        print_let(pp, n, out);
        buf_printf(out, "%.*s(", SLICE_ARG(n->call));
        print_exprs(pp, n->exprs, n->expr_count, ", ", out);
        buf_add_str(out, ")   /* model call */");
        return;
    case NODE_SORT:
        print_sort(pp, n, out);
        return;
    case NODE_LIMIT:
        buf_printf(out, "LIMIT %lld, %lld", (long long)n->offset, (long long)n->limit);
        return;
    case NODE_COLLECT:
        print_collect(pp, n, out);
        return;
    case NODE_WINDOW:
        print_window(pp, n, out);
        return;
    case NODE_DISTINCT:
        print_word(pp, "DISTINCT ", n->expr, out);
        return;
    case NODE_INSERT:
    case NODE_UPDATE:
    case NODE_REPLACE:
    case NODE_REMOVE:
    case NODE_UPSERT:
        print_write(pp, n, out);
        return;
    case NODE_RETURN:
        print_word(pp, "RETURN ", n->expr, out);
        return;
    }
}
