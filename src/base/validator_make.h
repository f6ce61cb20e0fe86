/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validator_make -- a rule on its way to nodes, for the files that make them.
 */
#ifndef BASE_VALIDATOR_MAKE_H
#define BASE_VALIDATOR_MAKE_H

#include "base/validator_private.h"

/* A node with where it stands in the rule. */
struct made {
    struct validator_node node; /* first */
    const char *path;
    struct made *next; /* in the order of making */
};

struct maker {
    struct validator *schema;
    struct error *err;
    struct made *first, *last;
    struct made **table; /* by place of the rule, open addressing */
    size_t table_size, count;
    uint32_t pattern_cap;
    /* of the schema in hand */
    struct made *now;
    struct val properties, required;
    bool has_minimum, has_maximum, asks_minimum, asks_maximum;
};

/* Fills in the root and everything it leads to. */
MUST_CHECK enum errc validator_make(struct maker *m);

/* 1621, with the place of the schema in hand. */
enum errc validator_refuse(struct maker *m, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The node of a schema that stands at KEYWORD/name of the one in hand; made later. */
MUST_CHECK enum errc validator_node_for(struct maker *m, const char *keyword, struct slice name,
                                        struct val rule, const struct validator_node **out);

/* Reads the keywords of the schema in hand. */
MUST_CHECK enum errc validator_take_keywords(struct maker *m);

#endif
