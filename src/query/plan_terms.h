/* SPDX-License-Identifier: Apache-2.0 */
/* plan_terms -- comparisons of a document's attributes, taken out of conditions for indexes. */
#ifndef QUERY_PLAN_TERMS_H
#define QUERY_PLAN_TERMS_H

#include "query/planner.h"

enum { TERMS_MAX = 64, TERM_DEPTH_MAX = 8 };

/* An attribute path of a register; names from the outside in. */
struct attr_path {
    struct slice names[TERM_DEPTH_MAX];
    size_t depth;
    bool is_expanded; /* an element of the array there */
};

/* path OP value, value without the scan's own row. */
struct term {
    struct attr_path path;
    enum ast_op op; /* AST_OP_EQ, AST_OP_LT to AST_OP_GE, AST_OP_IN; AST_OP_NE: to null only */
    struct expr *value;
};

struct terms {
    struct term items[TERMS_MAX];
    size_t count;
};

bool attr_path_read(const struct expr *e, uint32_t reg, struct attr_path *out);
bool attr_path_is(const struct attr_path *path, const struct field_path *field);

/* Adds the comparisons that the condition is an AND of. */
void terms_add(struct terms *terms, const struct expr *e, uint32_t reg);

/* Persistent, and a document has one entry at most: without [*]. */
bool index_is_plain(const struct index_def *index);
/* An entry for every document that the terms can hold for: a sparse index lacks those with null. */
bool terms_reach(const struct terms *terms, const struct index_def *index);
/*
 * Fields bound by equality or IN, doubled, plus one for a range behind them; 0: the
 * index is of no use.
 */
unsigned terms_score(const struct terms *terms, const struct index_def *index);
/* What the terms say of the index's fields, for one that has a score. */
void terms_access(const struct terms *terms, struct planner *p, const struct index_def *index,
                  struct access *out);
/* The same for the primary index; false: no term names a key. */
bool terms_primary(const struct terms *terms, struct planner *p, struct access *out);
/* The condition says nothing but what the access looks up: it holds for whatever that finds. */
bool access_implies(const struct access *a, const struct index_def *index, const struct expr *e,
                    uint32_t reg);

#endif
