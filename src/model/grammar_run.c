/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that follows a grammar has many readings. One reading is a stack: the element that comes
 * next, and under it where to go on when its rule has ended. Stacks share their lower parts: a
 * node is an element and the node under it, and equal nodes are one node.
 *
 * A state is the set of the nodes whose element is a character, sorted; whether the text may end
 * here; and the beginning of a character whose bytes are not all there. Equal sets are one state,
 * so what follows a state after a byte is looked up when it was needed before: in the middle of a
 * JSON string every step is one look into a table.
 *
 * A repetition counts in its node, so {0,1000} is one element. Everything has a limit (states,
 * nodes, steps): a grammar that remembers too much is given up, and with it its request only.
 */
#include "model/grammar_private.h"

#include <stdlib.h>

enum {
    NODES_MAX = 1 << 17,
    NODE_SLOTS = 1 << 18,
    STATES_MAX = 8192,
    STATE_SLOTS = 1 << 14,
    STATE_NODES_MAX = 4096, /* of one state */
    KEEP_STATES = 512,      /* more are forgotten by grammar_run_keep */
    KEEP_NODES = 1 << 14,
    WORK_MAX = 2 * 1000 * 1000, /* nodes and bytes looked at, between two grammar_run_keep */
    BOTTOM = 0,                 /* the node under all others: nothing is left */
    UNKNOWN = 0,                /* in a table of next states, which hold the state + 1 */
    NEXT_DEAD = -1,
};

struct node {
    uint32_t elem;  /* of the grammar */
    uint32_t count; /* how often a repetition was entered */
    uint32_t under;
    uint32_t seen; /* in this round of collecting */
};

struct state {
    uint32_t first, count; /* in members */
    uint32_t partial;      /* bits of a character so far */
    uint8_t remain;        /* bytes that it lacks */
    uint8_t low;           /* least value of its next byte, for two of the first bytes */
    uint8_t high;
    bool may_end;
    int16_t *next; /* owned; 256, or NULL */
};

struct grammar_run {
    struct grammar *g;
    struct node *nodes;
    size_t node_count, node_cap;
    uint32_t *node_table; /* of node_slots: node + 1 */
    size_t node_slots;
    struct state *states;
    size_t state_count, state_cap;
    uint16_t *state_table; /* STATE_SLOTS: state + 1 */
    uint32_t *members;     /* nodes of states */
    size_t member_count, member_cap;
    uint32_t *todo, *found; /* of collect */
    size_t todo_count, todo_cap, found_count, found_cap;
    uint32_t round;
    bool found_end;
    uint64_t work;
    bool is_over;
};

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t h = a * 0x9e3779b97f4a7c15u ^ b * 0xbf58476d1ce4e5b9u ^ c * 0x94d049bb133111ebu;
    h ^= h >> 29;
    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* ---- nodes ---- */

static void rebuild_node_table(struct grammar_run *run, size_t slots)
{
    mem_free(run->node_table);
    run->node_slots = slots;
    run->node_table = mem_zalloc(slots * sizeof *run->node_table);
    for (size_t i = 1; i < run->node_count; i++) {
        const struct node *n = &run->nodes[i];
        size_t slot = mix(n->elem, n->count, n->under) & (slots - 1);
        while (run->node_table[slot])
            slot = (slot + 1) & (slots - 1);
        run->node_table[slot] = (uint32_t)i + 1;
    }
}

static uint32_t node_of(struct grammar_run *run, uint32_t elem, uint32_t count, uint32_t under)
{
    if ((run->node_count + 1) * 2 > run->node_slots && run->node_slots < NODE_SLOTS)
        rebuild_node_table(run, run->node_slots * 2);
    size_t slot = mix(elem, count, under) & (run->node_slots - 1);
    for (; run->node_table[slot]; slot = (slot + 1) & (run->node_slots - 1)) {
        const struct node *n = &run->nodes[run->node_table[slot] - 1];
        if (n->elem == elem && n->count == count && n->under == under)
            return run->node_table[slot] - 1;
    }
    if (run->node_count == NODES_MAX) {
        run->is_over = true;
        return BOTTOM;
    }
    if (run->node_count == run->node_cap) {
        run->node_cap *= 2;
        run->nodes = mem_realloc(run->nodes, run->node_cap * sizeof *run->nodes);
    }
    run->nodes[run->node_count] = (struct node){ elem, count, under, 0 };
    run->node_table[slot] = (uint32_t)run->node_count + 1;
    return (uint32_t)run->node_count++;
}

/* What is on top when the element of a node is done: a node that ends its sequence is left out. */
static uint32_t node_behind(struct grammar_run *run, uint32_t elem, uint32_t under)
{
    return run->g->elems[elem + 1].type == ELEM_END ? under : node_of(run, elem + 1, 0, under);
}

/* ---- collecting: from nodes to the nodes with a character on top ---- */

static void want(struct grammar_run *run, uint32_t node)
{
    if (run->nodes[node].seen == run->round)
        return;
    run->nodes[node].seen = run->round;
    if (run->todo_count == run->todo_cap) {
        run->todo_cap *= 2;
        run->todo = mem_realloc(run->todo, run->todo_cap * sizeof *run->todo);
    }
    run->todo[run->todo_count++] = node;
}

static void want_rule(struct grammar_run *run, uint32_t rule, uint32_t under)
{
    const struct grammar *g = run->g;
    const struct rule *r = &g->rules[rule];
    for (uint32_t i = 0; i < r->count && !run->is_over; i++) {
        uint32_t elem = g->choices[r->first + i];
        want(run, g->elems[elem].type == ELEM_END ? under : node_of(run, elem, 0, under));
    }
    run->work += r->count;
}

static void want_repeat(struct grammar_run *run, uint32_t node)
{
    struct node n = run->nodes[node];
    const struct elem *e = &run->g->elems[n.elem];
    bool is_enough = n.count >= e->b || run->g->rules[e->a].may_be_empty;
    if (is_enough)
        want(run, node_behind(run, n.elem, n.under));
    if (n.count < e->c) {
        uint32_t count = e->c == REPEAT_FOREVER && n.count >= e->b ? n.count : n.count + 1;
        want_rule(run, e->a, node_of(run, n.elem, count, n.under));
    }
}

static void begin_round(struct grammar_run *run)
{
    run->round++;
    run->todo_count = run->found_count = 0;
    run->found_end = false;
}

static void collect(struct grammar_run *run)
{
    while (run->todo_count > 0 && !run->is_over) {
        uint32_t node = run->todo[--run->todo_count];
        struct node n = run->nodes[node];
        run->work++;
        if (node == BOTTOM) {
            run->found_end = true;
            continue;
        }
        switch (run->g->elems[n.elem].type) {
        case ELEM_CHAR:
        case ELEM_CLASS:
        case ELEM_NOT:
            if (run->found_count == run->found_cap) {
                run->found_cap *= 2;
                run->found = mem_realloc(run->found, run->found_cap * sizeof *run->found);
            }
            run->found[run->found_count++] = node;
            run->is_over |= run->found_count > STATE_NODES_MAX;
            break;
        case ELEM_RULE:
            want_rule(run, run->g->elems[n.elem].a, node_behind(run, n.elem, n.under));
            break;
        case ELEM_REPEAT:
            want_repeat(run, node);
            break;
        case ELEM_END:
            BUG("a node at the end of a sequence");
        }
        run->is_over |= run->work > WORK_MAX;
    }
}

/* ---- states ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool is_same_state(const struct grammar_run *run, const struct state *a,
                          const struct state *b, const uint32_t *nodes)
{
    return a->count == b->count && a->partial == b->partial && a->remain == b->remain &&
           a->low == b->low && a->high == b->high && a->may_end == b->may_end &&
           memcmp(run->members + a->first, nodes, a->count * sizeof *nodes) == 0;
}

/* The state of these nodes, which are sorted; wanted has the rest. */
static int state_of(struct grammar_run *run, const struct state *wanted, const uint32_t *nodes)
{
    uint32_t h = mix(wanted->count, wanted->partial, wanted->remain);
    for (uint32_t i = 0; i < wanted->count; i++)
        h = mix(h, nodes[i], i);
    size_t slot = h & (STATE_SLOTS - 1);
    for (; run->state_table[slot]; slot = (slot + 1) & (STATE_SLOTS - 1)) {
        int id = run->state_table[slot] - 1;
        if (is_same_state(run, &run->states[id], wanted, nodes))
            return id;
    }
    if (run->state_count == STATES_MAX) {
        run->is_over = true;
        return GRAMMAR_DEAD;
    }
    if (run->state_count == run->state_cap) {
        run->state_cap *= 2;
        run->states = mem_realloc(run->states, run->state_cap * sizeof *run->states);
    }
    while (run->member_count + wanted->count > run->member_cap) {
        run->member_cap *= 2;
        run->members = mem_realloc(run->members, run->member_cap * sizeof *run->members);
    }
    memcpy(run->members + run->member_count, nodes, wanted->count * sizeof *nodes);
    struct state *s = &run->states[run->state_count];
    *s = *wanted;
    s->first = (uint32_t)run->member_count;
    s->next = NULL;
    run->member_count += wanted->count;
    run->state_table[slot] = (uint16_t)(run->state_count + 1);
    return (int)run->state_count++;
}

static int finish_round(struct grammar_run *run)
{
    collect(run);
    if (run->is_over || (run->found_count == 0 && !run->found_end))
        return GRAMMAR_DEAD;
    qsort(run->found, run->found_count, sizeof *run->found, by_number);
    return state_of(
        run, &(struct state){ .count = (uint32_t)run->found_count, .may_end = run->found_end },
        run->found);
}

/* ---- bytes and characters ---- */

static int step_char(struct grammar_run *run, const struct state *s, uint32_t c)
{
    begin_round(run);
    for (uint32_t i = 0; i < s->count && !run->is_over; i++) {
        struct node n = run->nodes[run->members[s->first + i]];
        run->work++;
        if (elem_has(run->g, &run->g->elems[n.elem], c))
            want(run, node_behind(run, n.elem, n.under));
    }
    return finish_round(run);
}

/* Could a character from low to high be at this element? */
static bool elem_meets(const struct grammar *g, const struct elem *e, uint32_t low, uint32_t high)
{
    if (e->type == ELEM_CHAR)
        return e->a >= low && e->a <= high;
    if (e->type == ELEM_NOT) {
        for (uint32_t i = 0; i < e->b; i++) {
            if (g->ranges[e->a + i].from <= low && g->ranges[e->a + i].to >= high)
                return false;
        }
        return true;
    }
    for (uint32_t i = 0; i < e->b; i++) {
        if (g->ranges[e->a + i].from <= high && g->ranges[e->a + i].to >= low)
            return true;
    }
    return false;
}

/* partial has remain bytes to come; of its nodes those stay that can have such a character. */
static int step_partial(struct grammar_run *run, struct state s, struct state wanted)
{
    unsigned shift = wanted.remain * 6u;
    uint32_t low = wanted.partial << shift, high = low | ((1u << shift) - 1);
    if (wanted.low) { /* the next byte is not just any */
        high = low | ((wanted.high & 0x3fu) << (shift - 6)) | ((1u << (shift - 6)) - 1);
        low |= (wanted.low & 0x3fu) << (shift - 6);
    }
    begin_round(run);
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t node = run->members[s.first + i];
        run->work++;
        if (elem_meets(run->g, &run->g->elems[run->nodes[node].elem], low, high)) {
            if (run->found_count == run->found_cap) {
                run->found_cap *= 2;
                run->found = mem_realloc(run->found, run->found_cap * sizeof *run->found);
            }
            run->found[run->found_count++] = node;
        }
    }
    if (run->found_count == 0)
        return GRAMMAR_DEAD;
    wanted.count = (uint32_t)run->found_count;
    return state_of(run, &wanted, run->found);
}

static int step(struct grammar_run *run, struct state s, uint8_t b)
{
    struct state next = { .remain = 0 };
    if (s.remain > 0) {
        uint8_t low = s.low ? s.low : 0x80, high = s.low ? s.high : 0xbf;
        if (b < low || b > high)
            return GRAMMAR_DEAD;
        next.partial = s.partial << 6 | (b & 0x3f);
        next.remain = (uint8_t)(s.remain - 1);
        return next.remain ? step_partial(run, s, next) : step_char(run, &s, next.partial);
    }
    if (b < 0x80)
        return step_char(run, &s, b);
    if (b < 0xc2 || b > 0xf4)
        return GRAMMAR_DEAD;
    next.remain = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    next.partial = b & (0x3fu >> next.remain);
    if (b == 0xe0 || b == 0xf0) { /* not longer than needed */
        next.low = b == 0xe0 ? 0xa0 : 0x90;
        next.high = 0xbf;
    } else if (b == 0xed || b == 0xf4) { /* no surrogates; not beyond the last character */
        next.low = 0x80;
        next.high = b == 0xed ? 0x9f : 0x8f;
    }
    return step_partial(run, s, next);
}

int grammar_run_next(struct grammar_run *run, int state, uint8_t byte)
{
    if (state < 0 || run->is_over)
        return GRAMMAR_DEAD;
    struct state *s = &run->states[state];
    if (!s->next)
        s->next = mem_zalloc(256 * sizeof *s->next);
    if (s->next[byte] != UNKNOWN)
        return s->next[byte] == NEXT_DEAD ? GRAMMAR_DEAD : s->next[byte] - 1;
    int next = step(run, *s, byte);
    if (run->is_over)
        return GRAMMAR_DEAD;
    run->states[state].next[byte] = (int16_t)(next == GRAMMAR_DEAD ? NEXT_DEAD : next + 1);
    return next;
}

int grammar_run_text(struct grammar_run *run, int state, struct slice text)
{
    for (size_t i = 0; i < text.len && state != GRAMMAR_DEAD; i++)
        state = grammar_run_next(run, state, (uint8_t)text.ptr[i]);
    return state;
}

/* ---- life ---- */

struct grammar_run *grammar_run_new(struct grammar *g)
{
    struct grammar_run *run = mem_zalloc(sizeof *run);
    run->g = grammar_ref(g);
    run->node_cap = 64;
    run->nodes = mem_zalloc(run->node_cap * sizeof *run->nodes);
    run->node_count = 1; /* BOTTOM */
    run->state_cap = 16;
    run->states = mem_zalloc(run->state_cap * sizeof *run->states);
    run->state_table = mem_zalloc(STATE_SLOTS * sizeof *run->state_table);
    run->member_cap = 64;
    run->members = mem_zalloc(run->member_cap * sizeof *run->members);
    run->todo_cap = run->found_cap = 64;
    run->todo = mem_alloc(run->todo_cap * sizeof *run->todo);
    run->found = mem_alloc(run->found_cap * sizeof *run->found);
    rebuild_node_table(run, 256);
    return run;
}

static void free_next(struct grammar_run *run)
{
    for (size_t i = 0; i < run->state_count; i++)
        mem_free(run->states[i].next);
}

void grammar_run_free(struct grammar_run *run)
{
    if (!run)
        return;
    free_next(run);
    grammar_unref(run->g);
    mem_free(run->nodes);
    mem_free(run->node_table);
    mem_free(run->states);
    mem_free(run->state_table);
    mem_free(run->members);
    mem_free(run->todo);
    mem_free(run->found);
    mem_free(run);
}

int grammar_run_begin(struct grammar_run *run)
{
    begin_round(run);
    want_rule(run, run->g->root, BOTTOM);
    return finish_round(run);
}

bool grammar_run_may_end(const struct grammar_run *run, int state)
{
    return state >= 0 && run->states[state].may_end;
}

bool grammar_run_must_end(const struct grammar_run *run, int state)
{
    return state >= 0 && run->states[state].may_end && run->states[state].count == 0;
}

bool grammar_run_is_over(const struct grammar_run *run)
{
    return run->is_over;
}

/* Nodes that nobody stands on any more are dropped. A node is younger than the one under it. */
static void drop_nodes(struct grammar_run *run, uint32_t *nodes, size_t count)
{
    uint32_t *moved = mem_zalloc(run->node_count * sizeof *moved);
    size_t kept = 1;
    for (size_t i = 0; i < count; i++)
        moved[nodes[i]] = 1;
    for (size_t i = run->node_count; i-- > 1;) {
        if (moved[i])
            moved[run->nodes[i].under] = 1;
    }
    moved[BOTTOM] = BOTTOM;
    for (size_t i = 1; i < run->node_count; i++) {
        if (!moved[i])
            continue;
        struct node n = run->nodes[i];
        moved[i] = (uint32_t)kept;
        n.under = moved[n.under];
        n.seen = 0;
        run->nodes[kept++] = n;
    }
    run->node_count = kept;
    run->nodes[BOTTOM].seen = 0;
    run->round = 0;
    for (size_t i = 0; i < count; i++)
        nodes[i] = moved[nodes[i]];
    mem_free(moved);
    rebuild_node_table(run, run->node_slots);
}

int grammar_run_keep(struct grammar_run *run, int state)
{
    run->work = 0;
    if (state < 0 || run->is_over ||
        (run->state_count < KEEP_STATES && run->node_count < KEEP_NODES))
        return state;
    struct state s = run->states[state];
    uint32_t *nodes = mem_alloc((s.count + 1) * sizeof *nodes);
    memcpy(nodes, run->members + s.first, s.count * sizeof *nodes);
    free_next(run);
    drop_nodes(run, nodes, s.count); /* keeps their order */
    run->state_count = run->member_count = 0;
    memset(run->state_table, 0, STATE_SLOTS * sizeof *run->state_table);
    state = state_of(run, &s, nodes);
    mem_free(nodes);
    return state;
}
