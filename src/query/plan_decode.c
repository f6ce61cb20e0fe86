/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An encoded plan, read back. Kinds, counts, registers and depth are checked,
 * because fragments come from other nodes.
 */
#include "query/aggregate.h"
#include "query/fn.h"
#include "query/plan.h"

enum { DEPTH_MAX = 150 }; /* of nested values: stays below the limit of the format */
enum { NODE_PLACES = 20, EXPR_PLACES = 8 };

struct in {
    struct arena *arena;
    uint32_t reg_count;
    bool is_bad;
    unsigned depth;
};

static int64_t get_num(struct in *in, struct val v, int64_t min, int64_t max)
{
    int64_t i = val_int(v);

    if (!val_is_int(v) || i < min || i > max) {
        in->is_bad = true;
        return min;
    }
    return i;
}

static uint32_t get_count(struct in *in, struct val array, size_t max)
{
    if (val_count(array) > max)
        in->is_bad = true;
    return in->is_bad ? 0 : (uint32_t)val_count(array);
}

static uint32_t get_reg(struct in *in, struct val v)
{
    if (val_is_null(v))
        return NO_REG;
    return (uint32_t)get_num(in, v, 0, (int64_t)in->reg_count - 1);
}

static struct expr *decode_expr(struct in *in, struct val v);
static struct expr *take_expr(struct in *in, struct val rows, size_t *at);

static struct expr **decode_exprs(struct in *in, struct val v, uint32_t *count)
{
    *count = (uint32_t)val_count(v);
    struct expr **e = arena_zalloc(in->arena, (*count + 1) * sizeof(*e));
    for (uint32_t i = 0; i < *count && !in->is_bad; i++)
        e[i] = decode_expr(in, val_at(v, i));
    return e;
}

/* Kids that must be there, by kind; the others may be absent. */
static bool kids_are_right(const struct expr *e)
{
    static const struct {
        int8_t count;   /* -1: any number */
        uint8_t needed; /* bit i: kid i must be there */
    } rules[] = {
        [EXPR_CONST] = { 0, 0 },      [EXPR_REG] = { 0, 0 },       [EXPR_ATTR] = { 1, 1 },
        [EXPR_INDEX] = { 2, 3 },      [EXPR_UNARY] = { 1, 1 },     [EXPR_BINARY] = { 2, 3 },
        [EXPR_QUANTIFIED] = { 3, 3 }, [EXPR_TERNARY] = { 3, 5 },   [EXPR_RANGE] = { 2, 3 },
        [EXPR_ARRAY] = { -1, 255 },   [EXPR_OBJECT] = { -1, 255 }, [EXPR_EXPAND] = { 6, 1 },
        [EXPR_ARRAY_TEST] = { 3, 1 }, [EXPR_CALL] = { -1, 255 },
    };

    if (rules[e->kind].count >= 0 && e->count != (uint32_t)rules[e->kind].count)
        return false;
    if (e->kind == EXPR_OBJECT && e->count % 2)
        return false;
    for (uint32_t i = 0; i < e->count; i++)
        if (!e->kids[i] && (rules[e->kind].count < 0 || rules[e->kind].needed >> i & 1))
            return false;
    return true;
}

static bool op_is_right(const struct expr *e)
{
    switch ((enum expr_kind)e->kind) {
    case EXPR_BINARY:
        return e->op <= AST_OP_MOD;
    case EXPR_QUANTIFIED:
        return e->op >= AST_OP_EQ && e->op <= AST_OP_NOT_IN && e->quantifier <= AST_Q_COUNT;
    case EXPR_UNARY:
        return e->op >= AST_OP_NOT && e->op <= AST_OP_MINUS;
    case EXPR_EXPAND:
        return e->reg != NO_REG && e->reg2 != NO_REG;
    case EXPR_ARRAY_TEST:
        return e->reg != NO_REG && (e->quantifier <= AST_Q_COUNT || e->quantifier == NO_QUANTIFIER);
    case EXPR_REG:
        return e->reg != NO_REG;
    case EXPR_CALL:
        return e->fn && (int)e->count >= e->fn->min_args &&
               (e->fn->max_args < 0 || (int)e->count <= e->fn->max_args);
    case EXPR_CONST:
    case EXPR_ATTR:
    case EXPR_INDEX:
    case EXPR_TERNARY:
    case EXPR_RANGE:
    case EXPR_ARRAY:
    case EXPR_OBJECT:
        return true;
    }
    return false;
}

static void take_kids(struct in *in, struct expr *e, int64_t count, struct val rows, size_t *at)
{
    if ((size_t)count > val_count(rows) - *at) {
        in->is_bad = true;
        return;
    }
    e->count = (uint32_t)count;
    e->kids = arena_zalloc(in->arena, ((size_t)count + 1) * sizeof(*e->kids));
    for (uint32_t i = 0; i < e->count && !in->is_bad; i++)
        e->kids[i] = take_expr(in, rows, at);
}

static struct expr *take_expr(struct in *in, struct val rows, size_t *at)
{
    if (*at >= val_count(rows) || in->depth >= LIMIT_AQL_NESTING) {
        in->is_bad = true;
        return NULL;
    }
    struct val v = val_at(rows, (*at)++);
    if (val_is_null(v))
        return NULL;
    struct expr *e = ARENA_NEW(in->arena, struct expr);
    if (val_count(v) != EXPR_PLACES) {
        in->is_bad = true;
        return NULL;
    }
    in->depth++;
    e->kind = (uint8_t)get_num(in, val_at(v, 0), 0, EXPR_CALL);
    e->op = (uint8_t)get_num(in, val_at(v, 1), 0, 255);
    e->quantifier = (uint8_t)get_num(in, val_at(v, 2), 0, 255);
    e->reg = get_reg(in, val_at(v, 3));
    e->reg2 = get_reg(in, val_at(v, 4));
    e->name = val_string(val_at(v, 5));
    e->hash = val_name_hash(e->name);
    e->val = val_at(v, 6);
    take_kids(in, e, get_num(in, val_at(v, 7), 0, UINT32_MAX), rows, at);
    if (e->kind == EXPR_CALL)
        e->fn = fn_find(e->name);
    if (in->is_bad || !kids_are_right(e) || !op_is_right(e))
        in->is_bad = true;
    in->depth--;
    return e;
}

static struct expr *decode_expr(struct in *in, struct val v)
{
    size_t at = 0;

    if (val_is_null(v))
        return NULL;
    struct expr *e = take_expr(in, v, &at);
    if (at != val_count(v))
        in->is_bad = true;
    return e;
}

static struct write_options *decode_write(struct in *in, struct val v)
{
    struct write_options *w = ARENA_NEW(in->arena, struct write_options);

    if (val_is_null(v))
        return NULL;
    w->overwrite = (uint8_t)get_num(in, val_at(v, 0), 0, 3);
    w->drop_nulls = val_bool(val_at(v, 1));
    w->replace_objects = val_bool(val_at(v, 2));
    w->check_rev = val_bool(val_at(v, 3));
    w->ignore_errors = val_bool(val_at(v, 4));
    w->is_replace = val_bool(val_at(v, 5));
    w->needs_old = val_bool(val_at(v, 6));
    w->needs_new = val_bool(val_at(v, 7));
    w->waits_for_sync = val_bool(val_at(v, 8));
    w->is_exclusive = val_bool(val_at(v, 9));
    w->reads_start = val_bool(val_at(v, 10));
    w->version_attribute = val_string(val_at(v, 11));
    return w;
}

static uint32_t *decode_regs(struct in *in, struct val v, size_t want)
{
    uint32_t *regs = arena_alloc(in->arena, (want + 1) * sizeof *regs);

    if (val_count(v) != want)
        in->is_bad = true;
    for (size_t i = 0; i < want; i++)
        regs[i] = (uint32_t)get_num(in, val_at(v, i), 0, (int64_t)in->reg_count - 1);
    return regs;
}

static struct aggregate *decode_aggregates(struct in *in, struct val v, uint32_t *count)
{
    *count = (uint32_t)val_count(v);
    struct aggregate *a = arena_zalloc(in->arena, (*count + 1) * sizeof *a);
    for (uint32_t i = 0; i < *count; i++) {
        struct val row = val_at(v, i);
        int kind = aggregate_find(val_string(val_at(row, 0)));
        a[i].kind = (uint8_t)(kind < 0 ? 0 : kind);
        a[i].reg = get_reg(in, val_at(row, 1));
        a[i].expr = decode_expr(in, val_at(row, 2));
        if (kind < 0 || !a[i].expr || a[i].reg == NO_REG)
            in->is_bad = true;
    }
    return a;
}

static struct slice *decode_names(struct in *in, struct val v, uint32_t *count)
{
    *count = (uint32_t)val_count(v);
    struct slice *names = arena_alloc(in->arena, (*count + 1) * sizeof *names);
    for (uint32_t i = 0; i < *count; i++)
        names[i] = val_string(val_at(v, i));
    return names;
}

static struct collect *decode_collect(struct in *in, struct val v, uint32_t key_count)
{
    struct collect *c = ARENA_NEW(in->arena, struct collect);
    struct val names = val_at(v, 5);

    if (val_is_null(v))
        return NULL;
    c->regs = decode_regs(in, val_at(v, 0), key_count);
    c->aggregates = decode_aggregates(in, val_at(v, 1), &c->aggregate_count);
    c->count_reg = get_reg(in, val_at(v, 2));
    c->into_reg = get_reg(in, val_at(v, 3));
    c->into_expr = decode_expr(in, val_at(v, 4));
    c->keep_names = decode_names(in, names, &c->keep_count);
    for (uint32_t i = 0; i < c->keep_count; i++)
        for (uint32_t k = 0; k < i; k++)
            in->is_bad |= slice_eq(c->keep_names[k], c->keep_names[i]);
    c->keep_regs = decode_regs(in, val_at(v, 6), c->keep_count);
    c->is_sorted = val_bool(val_at(v, 7));
    return c;
}

static struct window *decode_window(struct in *in, struct val v)
{
    struct window *w = ARENA_NEW(in->arena, struct window);

    if (val_is_null(v))
        return NULL;
    w->preceding = get_num(in, val_at(v, 0), 0, WINDOW_ALL);
    w->following = get_num(in, val_at(v, 1), 0, WINDOW_ALL);
    w->lower = decode_expr(in, val_at(v, 2));
    w->upper = decode_expr(in, val_at(v, 3));
    w->is_date = val_bool(val_at(v, 4));
    w->aggregates = decode_aggregates(in, val_at(v, 5), &w->aggregate_count);
    return w;
}

static void decode_access(struct in *in, struct val v, struct access *a)
{
    a->index = (uint64_t)get_num(in, val_at(v, 0), 0, INT64_MAX);
    a->equal = decode_exprs(in, val_at(v, 1), &a->equal_count);
    a->in = decode_expr(in, val_at(v, 2));
    a->lower = decode_expr(in, val_at(v, 3));
    a->upper = decode_expr(in, val_at(v, 4));
    a->lower_included = val_bool(val_at(v, 5));
    a->upper_included = val_bool(val_at(v, 6));
    a->geo = (uint8_t)get_num(in, val_at(v, 7), 0, ACCESS_NEAR);
    a->near = (uint64_t)get_num(in, val_at(v, 8), 0, INT64_MAX);
    for (uint32_t i = 0; i < a->equal_count; i++)
        in->is_bad |= !a->equal[i];
    if (a->geo && (!a->index || a->equal_count != 1 || a->in || a->lower))
        in->is_bad = true;
    if ((!a->index && a->equal_count + (a->in != NULL) != 1) || (a->in && (a->lower || a->upper)))
        in->is_bad = true;
}

static void decode_projection(struct in *in, struct val v, struct projection *p)
{
    struct val names = val_at(v, 1);

    p->reg = (uint32_t)get_num(in, val_at(v, 0), 0, (int64_t)in->reg_count - 1);
    p->count = (uint32_t)val_count(names);
    p->names = arena_alloc(in->arena, (p->count + 1) * sizeof *p->names);
    p->hashes = arena_alloc(in->arena, (p->count + 1) * sizeof *p->hashes);
    for (uint32_t i = 0; i < p->count; i++) {
        p->names[i] = val_string(val_at(names, i));
        p->hashes[i] = val_name_hash(p->names[i]);
    }
    p->source = (uint8_t)get_num(in, val_at(v, 2), 0, SOURCE_NONE);
    p->source_skip = (uint8_t)get_num(in, val_at(v, 3), 0, p->count);
}

static struct scan *decode_scan(struct in *in, struct val v)
{
    struct scan *s = ARENA_NEW(in->arena, struct scan);
    struct val accesses = val_at(v, 0), projections = val_at(v, 5);

    if (val_is_null(v))
        return NULL;
    s->access_count = get_count(in, accesses, ACCESSES_MAX);
    s->projection_count = get_count(in, projections, PROJECTIONS_MAX);
    s->accesses = arena_zalloc(in->arena, (s->access_count + 1) * sizeof *s->accesses);
    s->projections = arena_zalloc(in->arena, (s->projection_count + 1) * sizeof *s->projections);
    for (uint32_t i = 0; i < s->access_count; i++)
        decode_access(in, val_at(accesses, i), &s->accesses[i]);
    for (uint32_t i = 0; i < s->projection_count; i++)
        decode_projection(in, val_at(projections, i), &s->projections[i]);
    s->is_reverse = val_bool(val_at(v, 1));
    s->filters = decode_exprs(in, val_at(v, 2), &s->filter_count);
    s->projects = val_bool(val_at(v, 3));
    s->is_covering = val_bool(val_at(v, 4));
    if (val_count(v) > 6)
        s->skip = (uint64_t)get_num(in, val_at(v, 6), 0, INT64_MAX);
    for (uint32_t i = 0; i < s->filter_count; i++)
        in->is_bad |= !s->filters[i];
    if (s->is_covering && (!s->projects || s->access_count != 1 || !s->accesses[0].index))
        in->is_bad = true;
    return s;
}

static struct walk *decode_walk(struct in *in, struct val v)
{
    struct walk *w = ARENA_NEW(in->arena, struct walk);
    struct val edges = val_at(v, 7);

    if (val_is_null(v))
        return NULL;
    w->kind = (uint8_t)get_num(in, val_at(v, 0), 0, WALK_K_PATHS);
    w->order = (uint8_t)get_num(in, val_at(v, 1), 0, WALK_WEIGHTED);
    w->unique_vertices = (uint8_t)get_num(in, val_at(v, 2), 0, WALK_UNIQUE_GLOBAL);
    w->has_unique_edges = val_bool(val_at(v, 3));
    w->is_weighted = val_bool(val_at(v, 4));
    w->min = (uint32_t)get_num(in, val_at(v, 5), 0, INT32_MAX);
    w->max = (uint32_t)get_num(in, val_at(v, 6), 0, INT32_MAX);
    w->edge_count = get_count(in, edges, WALK_EDGES_MAX);
    w->edges = arena_alloc(in->arena, (w->edge_count + 1) * sizeof *w->edges);
    for (uint32_t i = 0; i < w->edge_count; i++) {
        struct val row = val_at(edges, i);
        w->edges[i].collection = (uint64_t)get_num(in, val_at(row, 0), 0, INT64_MAX);
        w->edges[i].direction = (uint8_t)get_num(in, val_at(row, 1), 0, AST_ANY);
    }
    w->vertex_collections = decode_names(in, val_at(v, 8), &w->vertex_collection_count);
    w->weight_attribute = val_string(val_at(v, 9));
    w->default_weight = val_double(val_at(v, 10));
    w->prune = decode_expr(in, val_at(v, 11));
    w->prune_reg = get_reg(in, val_at(v, 12));
    w->path_reg = get_reg(in, val_at(v, 13));
    if (w->default_weight < 0 || w->min > w->max)
        in->is_bad = true;
    return w;
}

static bool has_exprs(const struct node *n, uint32_t count, uint32_t first)
{
    if (n->expr_count != count)
        return false;
    for (uint32_t i = first; i < count; i++)
        if (!n->exprs[i])
            return false;
    return true;
}

static bool is_write(const struct node *n, uint32_t exprs)
{
    return n->write && has_exprs(n, exprs, exprs ? exprs - 1 : 0) && n->reg != NO_REG &&
           n->reg2 != NO_REG;
}

static bool may_wait(const struct node *last)
{
    for (const struct node *n = last; n; n = n->input)
        if (n->kind == NODE_CALL || may_wait(n->sub))
            return true;
    return false;
}

static bool node_is_right(const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case NODE_ENUM_LIST:
    case NODE_CALC:
    case NODE_DISTINCT:
        return n->expr && n->reg != NO_REG;
    case NODE_FILTER:
    case NODE_RETURN:
        return n->expr != NULL;
    case NODE_ENUM_COLLECTION:
        return n->scan && n->reg != NO_REG;
    case NODE_INDEX:
        return n->scan && n->scan->access_count && n->reg != NO_REG;
    case NODE_HASH_JOIN:
        return n->scan && n->reg != NO_REG && n->expr_count >= 2 && n->expr_count % 2 == 0 &&
               has_exprs(n, n->expr_count, 0);
    case NODE_VECTOR:
        return n->scan && n->reg != NO_REG && n->reg2 != NO_REG &&
               has_exprs(n, n->expr_count == 2 ? 2 : 1, 0) && n->limit >= 0;
    case NODE_TRAVERSE:
        return n->walk && n->walk->kind == WALK_TRAVERSE && has_exprs(n, 1, 0) &&
               (!n->sub || (n->sub->kind == NODE_RETURN && !n->walk->prune && !may_wait(n->sub)));
    case NODE_PATHS:
        return n->walk && n->walk->kind != WALK_TRAVERSE && has_exprs(n, 2, 0);
    case NODE_SUBQUERY:
        return n->sub && n->reg != NO_REG && n->sub->kind != NODE_SINGLETON;
    case NODE_CALL:
        return n->call.len && n->reg != NO_REG && has_exprs(n, n->expr_count, 0);
    case NODE_INSERT:
    case NODE_REMOVE:
        return is_write(n, 1);
    case NODE_UPDATE:
    case NODE_REPLACE:
        return is_write(n, 2);
    case NODE_UPSERT:
        return is_write(n, 0) && n->sub && n->sub->kind == NODE_RETURN;
    case NODE_SORT:
        return has_exprs(n, n->expr_count, 0);
    case NODE_COLLECT:
        return n->collect && has_exprs(n, n->expr_count, 0);
    case NODE_WINDOW: /* by range or not at all */
        return n->window && (n->expr != NULL) == (n->window->lower != NULL) &&
               (n->expr != NULL) == (n->window->upper != NULL) && (!n->expr || n->reg != NO_REG);
    case NODE_SINGLETON:
    case NODE_LIMIT:
        return true;
    }
    return false;
}

static struct node *decode_pipeline(struct in *in, struct val v);

static struct node *decode_node(struct in *in, struct val v)
{
    struct node *n = ARENA_NEW(in->arena, struct node);

    if (val_count(v) != NODE_PLACES) {
        in->is_bad = true;
        return n;
    }
    n->kind = (uint8_t)get_num(in, val_at(v, 0), 0, NODE_RETURN);
    n->id = (uint32_t)get_num(in, val_at(v, 1), 0, UINT32_MAX);
    n->reg = get_reg(in, val_at(v, 2));
    n->reg2 = get_reg(in, val_at(v, 3));
    n->expr = decode_expr(in, val_at(v, 4));
    n->exprs = decode_exprs(in, val_at(v, 5), &n->expr_count);
    n->collection = (uint64_t)get_num(in, val_at(v, 6), 0, INT64_MAX);
    n->index = (uint64_t)get_num(in, val_at(v, 7), 0, INT64_MAX);
    n->offset = get_num(in, val_at(v, 8), 0, INT64_MAX);
    n->limit = get_num(in, val_at(v, 9), -1, INT64_MAX);
    n->counts_full = val_bool(val_at(v, 10));
    n->descending = arena_zalloc(in->arena, n->expr_count + 1);
    for (uint32_t i = 0; i < n->expr_count; i++)
        n->descending[i] = val_bool(val_at(val_at(v, 11), i));
    n->sub = val_is_null(val_at(v, 12)) ? NULL : decode_pipeline(in, val_at(v, 12));
    n->call = val_string(val_at(v, 13));
    n->live_count = (uint32_t)val_count(val_at(v, 14));
    n->live = decode_regs(in, val_at(v, 14), n->live_count);
    n->scan = decode_scan(in, val_at(v, 15));
    n->collect = decode_collect(in, val_at(v, 16), n->expr_count);
    n->write = decode_write(in, val_at(v, 17));
    n->walk = decode_walk(in, val_at(v, 18));
    n->window = decode_window(in, val_at(v, 19));
    if (!node_is_right(n))
        in->is_bad = true;
    return n;
}

static struct node *decode_pipeline(struct in *in, struct val v)
{
    struct node *last = NULL;

    if (++in->depth > DEPTH_MAX)
        in->is_bad = true;
    for (size_t i = 0; i < val_count(v) && !in->is_bad; i++) {
        struct node *n = decode_node(in, val_at(v, i));
        n->input = last;
        if ((n->kind == NODE_SINGLETON) != (i == 0))
            in->is_bad = true;
        last = n;
    }
    in->depth--;
    return last;
}

static void decode_variables(struct in *in, struct val v, struct plan *p)
{
    p->variable_count = (uint32_t)val_count(v);
    p->variables = arena_alloc(in->arena, (p->variable_count + 1) * sizeof *p->variables);
    for (uint32_t i = 0; i < p->variable_count; i++) {
        struct val row = val_at(v, i);
        uint32_t reg = (uint32_t)get_num(in, val_at(row, 0), 0, (int64_t)in->reg_count - 1);
        p->variables[i] = (struct plan_variable){ reg, val_string(val_at(row, 1)) };
    }
}

enum errc plan_decode(struct val encoded, struct arena *arena, struct plan **out, struct error *err)
{
    struct plan *p = ARENA_NEW(arena, struct plan);
    struct in in = { .arena = arena };

    p->reg_count = (uint32_t)get_num(&in, val_get(encoded, slice_str("registers")), 0, 100000);
    p->node_count = (uint32_t)get_num(&in, val_get(encoded, slice_str("nodes")), 1, 100000);
    in.reg_count = p->reg_count;
    p->is_write = val_bool(val_get(encoded, slice_str("isWrite")));
    p->has_calls = val_bool(val_get(encoded, slice_str("hasCalls")));
    decode_variables(&in, val_get(encoded, slice_str("variables")), p);
    p->rules = (uint64_t)get_num(&in, val_get(encoded, slice_str("rules")), 0, INT64_MAX);
    p->root = in.is_bad ? NULL : decode_pipeline(&in, val_get(encoded, slice_str("root")));
    if (in.is_bad || !p->root)
        return fail(err, ERR_CORRUPT, "the encoded plan is damaged");
    *out = p;
    return OK;
}
