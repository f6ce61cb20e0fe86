/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold of a grammar before anybody follows it: every rule is defined, some finite text
 * follows every rule, and no rule begins with itself, also not behind rules that may be empty (a
 * run would go round for ever).
 *
 * May a rule be empty, can it end: both say "in some choice, every element does". A choice counts
 * its elements that do not yet; a rule for which the claim becomes true is counted off where it is
 * used. That takes time linear in the grammar, whatever its order.
 */
#include "model/grammar_private.h"

struct spread {
    const struct grammar *g;
    uint32_t *missing; /* of each choice: elements that do not yet */
    uint32_t *owner;   /* of each choice: its rule */
    uint32_t *begin;   /* of each rule: its first use in uses */
    uint32_t *uses;    /* choices, sorted by the rule that they use */
    uint32_t *todo;    /* rules for which it became true */
    size_t todo_count;
    bool *is_true; /* of each rule */
};

static bool is_use(const struct elem *e)
{
    return e->type == ELEM_RULE || e->type == ELEM_REPEAT;
}

static void find_uses(struct spread *s)
{
    const struct grammar *g = s->g;
    size_t uses = 0;
    for (size_t r = 0; r < g->rule_count; r++)
        for (uint32_t i = 0; i < g->rules[r].count; i++)
            s->owner[g->rules[r].first + i] = (uint32_t)r;
    for (size_t i = 0; i < g->elem_count; i++) {
        if (is_use(&g->elems[i])) {
            s->begin[g->elems[i].a + 1]++;
            uses++;
        }
    }
    for (size_t r = 0; r < g->rule_count; r++)
        s->begin[r + 1] += s->begin[r];
    s->uses = mem_alloc((uses + 1) * sizeof *s->uses);
    uint32_t *next = mem_alloc((g->rule_count + 1) * sizeof *next);
    memcpy(next, s->begin, (g->rule_count + 1) * sizeof *next);
    for (size_t c = 0; c < g->choice_count; c++)
        for (const struct elem *e = &g->elems[g->choices[c]]; e->type != ELEM_END; e++)
            if (is_use(e))
                s->uses[next[e->a]++] = (uint32_t)c;
    mem_free(next);
}

static void found(struct spread *s, uint32_t rule)
{
    if (s->is_true[rule])
        return;
    s->is_true[rule] = true;
    s->todo[s->todo_count++] = rule;
}

/* missing was counted for every choice, in terms of elements that need their rule. */
static void spread(struct spread *s, bool (*needs_rule)(const struct elem *e))
{
    const struct grammar *g = s->g;
    memset(s->is_true, 0, g->rule_count * sizeof *s->is_true);
    for (size_t c = 0; c < g->choice_count; c++)
        if (s->missing[c] == 0)
            found(s, s->owner[c]);
    while (s->todo_count > 0) {
        uint32_t rule = s->todo[--s->todo_count];
        for (uint32_t i = s->begin[rule]; i < s->begin[rule + 1]; i++) {
            uint32_t c = s->uses[i];
            /* One use is one entry: a choice that uses the rule twice is here twice. */
            if (s->missing[c] == 0)
                continue;
            uint32_t needing = 0, entries = 0;
            for (const struct elem *e = &g->elems[g->choices[c]]; e->type != ELEM_END; e++) {
                entries += is_use(e) && e->a == rule;
                needing += is_use(e) && e->a == rule && needs_rule(e);
            }
            s->missing[c] -= needing;
            i += entries - 1; /* they are side by side */
            if (s->missing[c] == 0)
                found(s, s->owner[c]);
        }
    }
}

static bool needs_rule(const struct elem *e)
{
    return e->type == ELEM_RULE || (e->type == ELEM_REPEAT && e->b > 0);
}

static void count_missing(struct spread *s, bool characters_too)
{
    const struct grammar *g = s->g;
    for (size_t c = 0; c < g->choice_count; c++) {
        s->missing[c] = 0;
        for (const struct elem *e = &g->elems[g->choices[c]]; e->type != ELEM_END; e++) {
            bool is_impossible = e->type == ELEM_CLASS && e->b == 0;
            s->missing[c] += is_use(e) ? needs_rule(e) : characters_too || is_impossible;
        }
    }
}

static void find_properties(struct grammar *g)
{
    struct spread s = { .g = g };
    s.missing = mem_alloc((g->choice_count + 1) * sizeof *s.missing);
    s.owner = mem_alloc((g->choice_count + 1) * sizeof *s.owner);
    s.begin = mem_zalloc((g->rule_count + 2) * sizeof *s.begin);
    s.todo = mem_alloc((g->rule_count + 1) * sizeof *s.todo);
    s.is_true = mem_alloc((g->rule_count + 1) * sizeof *s.is_true);
    find_uses(&s);
    count_missing(&s, true);
    spread(&s, needs_rule);
    for (size_t r = 0; r < g->rule_count; r++)
        g->rules[r].may_be_empty = s.is_true[r];
    count_missing(&s, false);
    spread(&s, needs_rule);
    for (size_t r = 0; r < g->rule_count; r++)
        g->rules[r].can_end = s.is_true[r];
    mem_free(s.missing);
    mem_free(s.owner);
    mem_free(s.begin);
    mem_free(s.uses);
    mem_free(s.todo);
    mem_free(s.is_true);
}

/* ---- rules that begin with themselves ---- */

static bool may_be_empty(const struct grammar *g, const struct elem *e)
{
    return is_use(e) && (g->rules[e->a].may_be_empty || (e->type == ELEM_REPEAT && e->b == 0));
}

struct place {
    uint32_t rule, choice; /* choice counts within the rule */
    const struct elem *at;
};

/* The next rule with which this one may begin. Moves the place on. */
static bool next_beginning(const struct grammar *g, struct place *p, uint32_t *out)
{
    const struct rule *r = &g->rules[p->rule];
    while (p->choice < r->count) {
        if (!p->at)
            p->at = &g->elems[g->choices[r->first + p->choice]];
        if (!is_use(p->at)) { /* a character, or the end */
            p->at = NULL;
            p->choice++;
            continue;
        }
        *out = p->at->a;
        if (may_be_empty(g, p->at)) {
            p->at++;
        } else {
            p->at = NULL;
            p->choice++;
        }
        return true;
    }
    return false;
}

/* A rule on the way that is reached again; UINT32_MAX when there is none. */
static uint32_t find_circle(const struct grammar *g)
{
    enum { NEW, ON_WAY, DONE };
    uint8_t *mark = mem_zalloc(g->rule_count + 1);
    struct place *way = mem_alloc((g->rule_count + 1) * sizeof *way);
    uint32_t circle = UINT32_MAX;
    for (uint32_t r = 0; r < g->rule_count && circle == UINT32_MAX; r++) {
        size_t len = 0;
        if (mark[r] == NEW) {
            mark[r] = ON_WAY;
            way[len++] = (struct place){ .rule = r };
        }
        while (len > 0 && circle == UINT32_MAX) {
            uint32_t next;
            if (!next_beginning(g, &way[len - 1], &next)) {
                mark[way[--len].rule] = DONE;
            } else if (mark[next] == ON_WAY) {
                circle = next;
            } else if (mark[next] == NEW) {
                mark[next] = ON_WAY;
                way[len++] = (struct place){ .rule = next };
            }
        }
    }
    mem_free(mark);
    mem_free(way);
    return circle;
}

static enum errc refuse(const struct rule *r, const char *what, struct error *err)
{
    if (!r->name)
        return fail(err, ERR_INVALID, "grammar, line %u: the group or repeated item %s", r->line,
                    what);
    return fail(err, ERR_INVALID, "grammar, line %u: the rule '%.64s' %s", r->line, r->name, what);
}

enum errc grammar_check(struct grammar *g, struct error *err)
{
    for (size_t r = 0; r < g->rule_count; r++) {
        if (!g->rules[r].is_defined)
            return refuse(&g->rules[r], "is not defined", err);
    }
    find_properties(g);
    uint32_t circle = find_circle(g);
    if (circle != UINT32_MAX)
        return refuse(&g->rules[circle], "begins with itself", err);
    for (size_t r = 0; r < g->rule_count; r++) {
        if (!g->rules[r].can_end)
            return refuse(&g->rules[r], "can never end", err);
    }
    return OK;
}
