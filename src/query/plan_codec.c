/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a value: nodes and expressions are arrays of fixed places. The
 * decoder checks kinds, counts, registers and depth, because fragments come
 * from other nodes.
 */
#include "query/aggregate.h"
#include "query/fn.h"
#include "query/plan.h"

enum { DEPTH_MAX = 150 }; /* of nested values: stays below the limit of the format */

/* ---- out ---- */

struct out {
    struct arena *arena;
};

static struct val num(struct out *o, int64_t i)
{
    return val_new_int(o->arena, i);
}

static struct val reg(struct out *o, uint32_t r)
{
    return r == NO_REG ? val_null : num(o, r);
}

static struct val encode_expr(struct out *o, const struct expr *e);

static struct val encode_exprs(struct out *o, struct expr **e, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = encode_expr(o, e[i]);
    return val_new_array(o->arena, items, count);
}

static size_t count_exprs(const struct expr *e)
{
    size_t n = 1;

    for (uint32_t i = 0; e && i < e->count; i++)
        n += count_exprs(e->kids[i]);
    return n;
}

/* [kind, op, quantifier, reg, reg2, name, constant, number of kids], then the kids. */
static void add_expr(struct out *o, const struct expr *e, struct val *rows, size_t *at)
{
    if (!e) {
        rows[(*at)++] = val_null;
        return;
    }
    struct val items[] = {
        num(o, e->kind), num(o, e->op),    num(o, e->quantifier),
        reg(o, e->reg),  reg(o, e->reg2),  val_new_string(o->arena, e->name),
        e->val,          num(o, e->count),
    };
    rows[(*at)++] = val_new_array(o->arena, items, ARRAY_LEN(items));
    for (uint32_t i = 0; i < e->count; i++)
        add_expr(o, e->kids[i], rows, at);
}

/* Flat, because expressions nest deeper than values may. */
static struct val encode_expr(struct out *o, const struct expr *e)
{
    if (!e)
        return val_null;
    struct val *rows = arena_alloc(o->arena, count_exprs(e) * sizeof *rows);
    size_t count = 0;
    add_expr(o, e, rows, &count);
    return val_new_array(o->arena, rows, count);
}

static struct val encode_write(struct out *o, const struct write_options *w)
{
    struct val items[] = { num(o, w->overwrite),
                           val_new_bool(w->drop_nulls),
                           val_new_bool(w->replace_objects),
                           val_new_bool(w->check_rev),
                           val_new_bool(w->ignore_errors),
                           val_new_bool(w->is_replace) };

    return val_new_array(o->arena, items, ARRAY_LEN(items));
}

static struct val encode_flags(struct out *o, const bool *flags, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = val_new_bool(flags && flags[i]);
    return val_new_array(o->arena, items, count);
}

static struct val encode_regs(struct out *o, const uint32_t *regs, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = num(o, regs[i]);
    return val_new_array(o->arena, items, count);
}

static struct val encode_aggregates(struct out *o, const struct node *n)
{
    struct val *items = arena_alloc(o->arena, (n->aggregate_count + 1) * sizeof *items);

    for (size_t i = 0; i < n->aggregate_count; i++) {
        struct val row[] = { val_new_string(o->arena,
                                            slice_str(aggregate_name(n->aggregates[i].kind))),
                             num(o, n->aggregates[i].reg), encode_expr(o, n->aggregates[i].expr) };
        items[i] = val_new_array(o->arena, row, ARRAY_LEN(row));
    }
    return val_new_array(o->arena, items, n->aggregate_count);
}

static struct val encode_names(struct out *o, const struct slice *names, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = val_new_string(o->arena, names[i]);
    return val_new_array(o->arena, items, count);
}

static struct val encode_projection(struct out *o, const struct node *n)
{
    struct val *items = arena_alloc(o->arena, (n->projection_count + 1) * sizeof *items);

    for (size_t i = 0; i < n->projection_count; i++)
        items[i] = val_new_string(o->arena, n->projection[i].name);
    return val_new_array(o->arena, items, n->projection_count);
}

static struct val encode_pipeline(struct out *o, const struct node *last);

static struct val encode_node(struct out *o, const struct node *n)
{
    struct val items[] = {
        /* 0 */ num(o, n->kind),
        num(o, n->id),
        reg(o, n->reg),
        reg(o, n->reg2),
        encode_expr(o, n->expr),
        /* 5 */ encode_exprs(o, n->exprs, n->expr_count),
        encode_flags(o, n->descending, n->descending ? n->expr_count : 0),
        encode_expr(o, n->lower),
        encode_expr(o, n->upper),
        val_new_bool(n->lower_included),
        /* 10 */ val_new_bool(n->upper_included),
        num(o, (int64_t)n->collection),
        num(o, (int64_t)n->index),
        encode_exprs(o, n->filters, n->filter_count),
        num(o, n->offset),
        /* 15 */ num(o, n->limit),
        val_new_bool(n->counts_full),
        n->sub ? encode_pipeline(o, n->sub) : val_null,
        val_new_string(o->arena, n->call),
        encode_regs(o, n->regs, n->regs ? n->expr_count : 0),
        /* 20 */ encode_aggregates(o, n),
        reg(o, n->into_reg),
        encode_expr(o, n->into_expr),
        encode_names(o, n->keep_names, n->keep_count),
        encode_regs(o, n->keep_regs, n->keep_count),
        /* 25 */ encode_write(o, &n->write),
        val_new_bool(n->projects),
        encode_projection(o, n),
    };
    return val_new_array(o->arena, items, ARRAY_LEN(items));
}
enum { NODE_PLACES = 28 };

/* First node first. */
static struct val encode_pipeline(struct out *o, const struct node *last)
{
    size_t count = 0;

    for (const struct node *n = last; n; n = n->input)
        count++;
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);
    size_t i = count;
    for (const struct node *n = last; n; n = n->input)
        items[--i] = encode_node(o, n);
    return val_new_array(o->arena, items, count);
}

enum errc plan_encode(const struct plan *p, struct arena *arena, struct val *out, struct error *err)
{
    struct out o = { arena };
    struct slice names[] = { slice_str("registers"), slice_str("nodes"), slice_str("isWrite"),
                             slice_str("hasCalls"), slice_str("root") };
    struct val values[] = { num(&o, p->reg_count), num(&o, p->node_count),
                            val_new_bool(p->is_write), val_new_bool(p->has_calls),
                            encode_pipeline(&o, p->root) };

    *out = val_new_object(arena, names, values, ARRAY_LEN(names));
    return arena_check(arena, err);
}

/* ---- in ---- */

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
    if (val_count(v) != 8) {
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

static void decode_write(struct in *in, struct val v, struct write_options *w)
{
    w->overwrite = (uint8_t)get_num(in, val_at(v, 0), 0, 3);
    w->drop_nulls = val_bool(val_at(v, 1));
    w->replace_objects = val_bool(val_at(v, 2));
    w->check_rev = val_bool(val_at(v, 3));
    w->ignore_errors = val_bool(val_at(v, 4));
    w->is_replace = val_bool(val_at(v, 5));
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

static void decode_collect(struct in *in, struct val v, struct node *n)
{
    struct val aggregates = val_at(v, 20), names = val_at(v, 23);

    n->aggregate_count = (uint32_t)val_count(aggregates);
    n->aggregates = arena_zalloc(in->arena, (n->aggregate_count + 1) * sizeof *n->aggregates);
    for (uint32_t i = 0; i < n->aggregate_count; i++) {
        struct val row = val_at(aggregates, i);
        int kind = aggregate_find(val_string(val_at(row, 0)));
        n->aggregates[i].kind = (uint8_t)(kind < 0 ? 0 : kind);
        n->aggregates[i].reg = get_reg(in, val_at(row, 1));
        n->aggregates[i].expr = decode_expr(in, val_at(row, 2));
        if (kind < 0 || !n->aggregates[i].expr || n->aggregates[i].reg == NO_REG)
            in->is_bad = true;
    }
    n->into_reg = get_reg(in, val_at(v, 21));
    n->into_expr = decode_expr(in, val_at(v, 22));
    n->keep_count = (uint32_t)val_count(names);
    n->keep_names = arena_alloc(in->arena, (n->keep_count + 1) * sizeof *n->keep_names);
    for (uint32_t i = 0; i < n->keep_count; i++)
        n->keep_names[i] = val_string(val_at(names, i));
    n->keep_regs = decode_regs(in, val_at(v, 24), n->keep_count);
}

static void decode_projection(struct in *in, struct val names, struct node *n)
{
    if (val_count(names) > PROJECTION_MAX) {
        in->is_bad = true;
        return;
    }
    n->projection_count = (uint32_t)val_count(names);
    n->projection = arena_alloc(in->arena, (n->projection_count + 1) * sizeof *n->projection);
    for (uint32_t i = 0; i < n->projection_count; i++) {
        struct slice name = val_string(val_at(names, i));
        for (uint32_t k = 0; k < i; k++)
            in->is_bad |= slice_eq(n->projection[k].name, name);
        n->projection[i] = (struct attribute){ name, val_name_hash(name) };
    }
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
    case NODE_INDEX:
        return n->reg != NO_REG;
    case NODE_PRIMARY:
        return n->reg != NO_REG && n->expr_count == 1 && n->exprs[0];
    case NODE_VECTOR:
        return n->reg != NO_REG && n->reg2 != NO_REG && n->expr_count == 1 && n->exprs[0];
    case NODE_SUBQUERY:
        return n->sub && n->reg != NO_REG && n->sub->kind != NODE_SINGLETON;
    case NODE_CALL:
        return n->call.len && n->reg != NO_REG;
    case NODE_INSERT:
    case NODE_REMOVE:
        return n->expr_count == 1 && n->exprs[0] && n->reg != NO_REG && n->reg2 != NO_REG;
    case NODE_UPDATE:
    case NODE_REPLACE:
        return n->expr_count == 2 && n->exprs[1] && n->reg != NO_REG && n->reg2 != NO_REG;
    case NODE_SINGLETON:
    case NODE_SORT:
    case NODE_LIMIT:
    case NODE_COLLECT:
        return true;
    case NODE_UPSERT:
        return n->sub && n->sub->kind == NODE_RETURN && n->expr_count == 2 && n->exprs[0] &&
               n->exprs[1] && n->reg != NO_REG && n->reg2 != NO_REG;
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
    if (n->kind == NODE_SORT) {
        n->descending = arena_zalloc(in->arena, n->expr_count + 1);
        for (uint32_t i = 0; i < n->expr_count; i++)
            n->descending[i] = val_bool(val_at(val_at(v, 6), i));
    }
    n->lower = decode_expr(in, val_at(v, 7));
    n->upper = decode_expr(in, val_at(v, 8));
    n->lower_included = val_bool(val_at(v, 9));
    n->upper_included = val_bool(val_at(v, 10));
    n->collection = (uint64_t)get_num(in, val_at(v, 11), 0, INT64_MAX);
    n->index = (uint64_t)get_num(in, val_at(v, 12), 0, INT64_MAX);
    n->filters = decode_exprs(in, val_at(v, 13), &n->filter_count);
    n->offset = get_num(in, val_at(v, 14), 0, INT64_MAX);
    n->limit = get_num(in, val_at(v, 15), -1, INT64_MAX);
    n->counts_full = val_bool(val_at(v, 16));
    n->sub = val_is_null(val_at(v, 17)) ? NULL : decode_pipeline(in, val_at(v, 17));
    n->call = val_string(val_at(v, 18));
    n->regs = decode_regs(in, val_at(v, 19), n->kind == NODE_COLLECT ? n->expr_count : 0);
    decode_collect(in, v, n);
    decode_write(in, val_at(v, 25), &n->write);
    n->projects = val_bool(val_at(v, 26));
    decode_projection(in, val_at(v, 27), n);
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

enum errc plan_decode(struct val encoded, struct arena *arena, struct plan **out, struct error *err)
{
    struct plan *p = ARENA_NEW(arena, struct plan);
    struct in in = { .arena = arena };

    p->reg_count = (uint32_t)get_num(&in, val_get(encoded, slice_str("registers")), 0, 100000);
    p->node_count = (uint32_t)get_num(&in, val_get(encoded, slice_str("nodes")), 1, 100000);
    in.reg_count = p->reg_count;
    p->is_write = val_bool(val_get(encoded, slice_str("isWrite")));
    p->has_calls = val_bool(val_get(encoded, slice_str("hasCalls")));
    p->root = in.is_bad ? NULL : decode_pipeline(&in, val_get(encoded, slice_str("root")));
    if (in.is_bad || !p->root)
        return fail(err, ERR_CORRUPT, "the encoded plan is damaged");
    *out = p;
    return OK;
}
