/* SPDX-License-Identifier: Apache-2.0 */
/* The rules in their order, and what a query may say about them. */
#include "query/planner.h"
#include "query/query.h"

/*
 * Constants first, since the others look for them; conditions move before indexes are
 * chosen; projections are last, since every other rule adds uses.
 */
static const struct rule *const tables[] = { rules_fold,  rules_subquery,  rules_filter,
                                             rules_count, rules_index,     rules_sort,
                                             rules_geo,   rules_join,      rules_graph,
                                             rules_limit, rules_projection };

const struct rule *plan_rule(size_t i)
{
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const struct rule *r = tables[t]; r->name; r++)
            if (!i--)
                return r;
    return NULL;
}

const char *query_rule(size_t i, const char **help)
{
    const struct rule *r = plan_rule(i);

    *help = r ? r->help : NULL;
    return r ? r->name : NULL;
}

/* "-name" and "-all" switch off, "name", "+name" and "+all" on. */
static struct slice asked_rule(struct val wish, bool *is_off)
{
    struct slice text = val_string(wish);

    *is_off = slice_starts(text, "-");
    if (*is_off || slice_starts(text, "+"))
        text = slice_of(text.ptr + 1, text.len - 1);
    return text;
}

/* The last wish counts. */
static bool is_on(const struct planner *p, const struct rule *r)
{
    bool on = true, is_off;

    for (size_t i = 0; i < val_count(p->env->rules); i++) {
        struct slice name = asked_rule(val_at(p->env->rules, i), &is_off);
        if (slice_is(name, r->name) || slice_is(name, "all"))
            on = !is_off;
    }
    return on;
}

static bool is_known(struct slice name)
{
    const struct rule *r;

    for (size_t i = 0; (r = plan_rule(i)); i++)
        if (slice_is(name, r->name))
            return true;
    return slice_is(name, "all");
}

/* ArangoDB has rules that are not here: a query that names one runs all the same. */
static void warn_of_unknown(const struct planner *p)
{
    bool is_off;

    for (size_t i = 0; p->env->warn && i < val_count(p->env->rules); i++) {
        struct slice name = asked_rule(val_at(p->env->rules, i), &is_off);
        if (!is_known(name))
            p->env->warn(
                p->env->warn_ctx, 1575,
                arena_printf(p->arena, "there is no optimizer rule '%.*s'", SLICE_ARG(name)));
    }
}

static enum errc apply(struct planner *p, const struct rule *r, struct node **last, bool *changed)
{
    bool has_changed = false;

    for (struct node *n = *last; n; n = n->input) {
        if (!n->sub)
            continue;
        enum errc rc = apply(p, r, &n->sub, changed);
        if (rc != OK)
            return rc;
    }
    enum errc rc = r->apply(p, last, &has_changed);
    *changed = *changed || has_changed;
    return rc;
}

enum errc plan_apply_rules(struct planner *p)
{
    const struct rule *r;

    warn_of_unknown(p);
    for (size_t i = 0; (r = plan_rule(i)); i++) {
        bool changed = false;
        enum errc rc = is_on(p, r) ? apply(p, r, &p->plan->root, &changed) : OK;
        if (rc != OK)
            return rc;
        if (changed)
            p->plan->rules |= (uint64_t)1 << i;
    }
    return OK;
}
