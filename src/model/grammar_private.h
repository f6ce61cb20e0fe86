/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_private -- the form of a grammar that its reader makes and its runs follow.
 *
 * A rule is a choice between sequences; a sequence is elements up to ELEM_END. Groups and repeated
 * items are rules without a name.
 */
#ifndef MODEL_GRAMMAR_PRIVATE_H
#define MODEL_GRAMMAR_PRIVATE_H

#include "model/grammar.h"

#include <stdatomic.h>

enum elem_type {
    ELEM_END,    /* of a sequence */
    ELEM_CHAR,   /* a: the character */
    ELEM_CLASS,  /* ranges [a, a + b) */
    ELEM_NOT,    /* none of ranges [a, a + b) */
    ELEM_RULE,   /* a: the rule */
    ELEM_REPEAT, /* rule a, b to c times */
};

enum { REPEAT_FOREVER = UINT32_MAX, CODE_POINT_MAX = 0x10ffff };

struct elem {
    enum elem_type type;
    uint32_t a, b, c;
};

struct char_range {
    uint32_t from, to;
};

struct rule {
    uint32_t first, count; /* of its choices */
    char *name;            /* owned; NULL of a group */
    uint32_t line;         /* of its definition, or of its first use; from 1 */
    bool is_defined;
    bool may_be_empty;
    bool can_end; /* some finite text follows it */
};

struct grammar {
    atomic_uint refs;
    struct elem *elems; /* owned */
    size_t elem_count, elem_cap;
    struct char_range *ranges; /* owned */
    size_t range_count, range_cap;
    uint32_t *choices; /* owned; first elements of sequences */
    size_t choice_count, choice_cap;
    struct rule *rules; /* owned */
    size_t rule_count, rule_cap;
    uint32_t root;
};

/* Is the character at this element? */
static inline bool elem_has(const struct grammar *g, const struct elem *e, uint32_t c)
{
    if (e->type == ELEM_CHAR)
        return e->a == c;
    for (uint32_t i = 0; i < e->b; i++) {
        if (c >= g->ranges[e->a + i].from && c <= g->ranges[e->a + i].to)
            return e->type == ELEM_CLASS;
    }
    return e->type == ELEM_NOT;
}

/* Fills may_be_empty and can_end, and refuses what no run could follow. */
MUST_CHECK enum errc grammar_check(struct grammar *g, struct error *err);

#endif
