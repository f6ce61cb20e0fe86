/* SPDX-License-Identifier: Apache-2.0 */
/* The rules in their order, and what a query may say about them. */
#include "query/planner.h"
#include "query/query.h"

/*
 * Constants first, since the others look for them; conditions move before indexes are
 * chosen; projections are last, since every other rule adds uses.
 */
static const struct rule *const tables[] = { rules_fold,      rules_subquery, rules_filter,
                                             rules_count,     rules_index,    rules_sort,
                                             rules_geo,       rules_join,     rules_graph,
                                             rules_projection };

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

/* "-name" and "-all" switch off, "name", "+name" and "+all" on; the last one counts. */
static bool is_on(const struct planner *p, const struct rule *r)
{
    bool on = true;

    for (size_t i = 0; i < val_count(p->env->rules); i++) {
        struct slice text = val_string(val_at(p->env->rules, i));
        bool is_off = slice_starts(text, "-");
        if (is_off || slice_starts(text, "+"))
            text = slice_of(text.ptr + 1, text.len - 1);
        if (slice_is(text, r->name) || slice_is(text, "all"))
            on = !is_off;
    }
    return on;
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
