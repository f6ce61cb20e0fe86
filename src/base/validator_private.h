/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validator_private -- a compiled schema, for the files that make and use it.
 *
 * Each schema of the rule is a node; nodes point at each other, in circles where $ref does. What
 * is said of members is one list, sorted by the hash of the name: whether it must be there, and
 * what it must be.
 */
#ifndef BASE_VALIDATOR_PRIVATE_H
#define BASE_VALIDATOR_PRIVATE_H

#include "base/text_match.h"
#include "base/validator.h"

enum validator_types {
    VALIDATOR_TYPE_NULL = 1,
    VALIDATOR_TYPE_BOOLEAN = 2,
    VALIDATOR_TYPE_INTEGER = 4,
    VALIDATOR_TYPE_NUMBER = 8,
    VALIDATOR_TYPE_STRING = 16,
    VALIDATOR_TYPE_ARRAY = 32,
    VALIDATOR_TYPE_OBJECT = 64,
};

enum validator_format {
    FORMAT_NONE,
    FORMAT_DATE_TIME,
    FORMAT_EMAIL,
    FORMAT_HOSTNAME,
    FORMAT_IPV4,
    FORMAT_IPV6,
    FORMAT_URI,
};

struct validator_node;

struct validator_list {
    const struct validator_node **items;
    uint32_t count;
};

struct validator_member {
    struct slice name;
    uint32_t hash;
    bool is_required, is_declared;     /* declared: in properties */
    const struct validator_node *node; /* NULL: anything */
};

struct validator_pattern {
    struct pattern *pattern;
    const struct validator_node *node;
};

/* When the member is there, so must be these, or the whole object must be like that. */
struct validator_dependency {
    struct slice name;
    const struct validator_node *node;
    const struct slice *names;
    uint32_t name_count;
};

struct validator_value {
    uint64_t hash;
    struct val val;
};

struct validator_node {
    struct val rule;
    uint8_t types;    /* 0: any */
    uint8_t looks_at; /* types of which it asks more than what they are */
    uint8_t format;
    bool excludes_minimum, excludes_maximum;
    bool has_unique_items;
    bool is_closed_array, is_closed_object; /* additionalItems, additionalProperties: false */
    bool refuses_objects;                   /* it requires what is passed over */
    bool has_member_limits, has_length_limits, has_item_limits;
    bool is_on_way; /* of the search for circles */
    uint32_t chain; /* schemas for one value from here on; 0: not known yet */

    const struct validator_value *enums; /* sorted by hash; NULL without enum */
    uint32_t enum_count;
    struct validator_list all_of, any_of, one_of;
    const struct validator_node *not_this;

    struct val minimum, maximum, multiple_of;
    uint64_t min_length, max_length;
    struct pattern *pattern;

    struct validator_list items; /* by position */
    const struct validator_node *each_item, *more_items;
    uint64_t min_items, max_items;

    const struct validator_member *members; /* sorted by hash */
    uint32_t member_count;
    const struct validator_pattern *patterns;
    uint32_t pattern_count;
    const struct validator_node *more_members;
    const struct validator_dependency *dependencies;
    uint32_t dependency_count;
    uint64_t min_members, max_members;
};

struct validator {
    struct arena *arena; /* owned; nodes and the rule */
    struct val rule;
    const struct validator_node *root;
    struct pattern **patterns; /* owned; in the arena */
    uint32_t pattern_count;
};

/* _key, _id, _rev, _from, _to. */
bool validator_passes_over(struct slice name);

/* Equal as JSON is: null is not missing. Numbers by their value. */
bool validator_same(struct val a, struct val b);

enum validator_format validator_format_named(struct slice name); /* FORMAT_NONE when unknown */
bool validator_format_holds(enum validator_format format, struct slice text);

#endif
