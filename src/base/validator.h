/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validator -- JSON Schema over values: compiled once, then values are checked against it in place.
 *
 * It is draft 4 as ArangoDB has it. Members _key, _id, _rev, _from and _to are passed over wherever
 * they stand, unknown keywords and formats say nothing, $ref leads to places of the same schema
 * only. "integer" is a number that is stored as one. Any thread may check; nobody changes it.
 */
#ifndef BASE_VALIDATOR_H
#define BASE_VALIDATOR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/val.h"

enum {
    VALIDATOR_BYTES_MAX = MIB,          /* of a rule */
    VALIDATOR_NODES_MAX = 10000,        /* schemas in it */
    VALIDATOR_PATTERNS_MAX = 1000,      /* regular expressions in it */
    VALIDATOR_CHAIN_MAX = 100,          /* schemas for one value: allOf in anyOf in $ref ... */
    VALIDATOR_DEPTH_MAX = 2000,         /* the same, with the value's own depth */
    VALIDATOR_STEPS_MAX = 20 * 1000000, /* comparisons for one value, about a second */
};

struct validator;

/* Copies the rule. Returned to the caller. 1621 says what is wrong, and where in the rule. */
MUST_CHECK enum errc validator_new(struct validator **out, struct val rule, struct error *err);
void validator_free(struct validator *s);
/* The rule as it was given; lives as long as the schema. */
struct val validator_rule(const struct validator *s);

/* 1620: no answer within VALIDATOR_STEPS_MAX and VALIDATOR_DEPTH_MAX. */
MUST_CHECK enum errc validator_check(const struct validator *s, struct val v, bool *is_valid,
                                     struct error *err);

/* ---- the property of a collection: a rule, and what to do with it ---- */

enum validator_level { VALIDATOR_NONE, VALIDATOR_NEW, VALIDATOR_MODERATE, VALIDATOR_STRICT };

struct validator_def {
    struct val rule; /* an object; not looked at */
    enum validator_level level;
    struct slice message; /* for people whose document is refused */
};

/* {rule, level, message, type}. Borrows from def. 1621. */
MUST_CHECK enum errc validator_def_read(struct validator_def *out, struct val def,
                                        struct error *err);
/* As ArangoDB shows it. Lives in arena. */
struct val validator_def_show(const struct validator_def *def, struct arena *arena);

#endif
