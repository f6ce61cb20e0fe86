/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ast_rules -- the list of children in ast.h, as a check of a tree: how many
 * each kind has, which may be absent, whether it has a name, and the depth.
 */
#ifndef TEST_QUERY_AST_RULES_H
#define TEST_QUERY_AST_RULES_H

#include "query/ast.h"

enum { EACH = -1 };

struct ast_rule {
    int count;         /* EACH = any number */
    unsigned optional; /* bit i: child i may be absent; ~0u: any */
    bool has_name;
};

static const struct ast_rule ast_rules[] = {
    [AST_QUERY] = { EACH, 0, false },
    [AST_SUBQUERY] = { EACH, 0, false },
    [AST_WITH] = { EACH, 0, false },
    [AST_FOR] = { 4, 1 << 2 | 1 << 3, false },
    [AST_TRAVERSE] = { 8, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7, false },
    [AST_SHORTEST_PATH] = { 6, 1 << 1 | 1 << 5, false },
    [AST_ALL_SHORTEST_PATHS] = { 5, 1 << 4, false },
    [AST_K_SHORTEST_PATHS] = { 5, 1 << 4, false },
    [AST_K_PATHS] = { 6, 1 << 1 | 1 << 5, false },
    [AST_FILTER] = { 1, 0, false },
    [AST_SORT] = { EACH, 0, false },
    [AST_LIMIT] = { 2, 1 << 0, false },
    [AST_LET] = { 2, 0, false },
    [AST_COLLECT] = { 6, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5, false },
    [AST_WINDOW] = { 3, 1 << 0, false },
    [AST_RETURN] = { 1, 0, false },
    [AST_INSERT] = { 3, 1 << 2, false },
    [AST_UPDATE] = { 4, 1 << 0 | 1 << 3, false },
    [AST_REPLACE] = { 4, 1 << 0 | 1 << 3, false },
    [AST_REMOVE] = { 3, 1 << 2, false },
    [AST_UPSERT] = { 5, 1 << 4, false },
    [AST_LIST] = { EACH, 0, false },
    [AST_VAR] = { 0, 0, true },
    [AST_ARRAY_PATTERN] = { EACH, ~0u, false },
    [AST_OBJECT_PATTERN] = { EACH, 0, false },
    [AST_FIELD_PATTERN] = { 1, 0, true },
    [AST_ASSIGN] = { 2, 0, false },
    [AST_INTO] = { 2, 1 << 1, false },
    [AST_SORT_KEY] = { 2, 1 << 1, false },
    [AST_PRUNE] = { 2, 1 << 0, false },
    [AST_GRAPH] = { 1, 0, false },
    [AST_EDGES] = { EACH, 0, false },
    [AST_EDGE_COLLECTION] = { 1, 0, false },
    [AST_QUANTIFIER] = { 1, 1 << 0, false },
    [AST_VALUE] = { 0, 0, false },
    [AST_NAME] = { 0, 0, true },
    [AST_BIND] = { 0, 0, true },
    [AST_BIND_COLLECTION] = { 0, 0, true },
    [AST_ATTR] = { 1, 0, true },
    [AST_ATTR_BIND] = { 1, 0, true },
    [AST_INDEX] = { 2, 0, false },
    [AST_EXPAND] = { 6, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5, false },
    [AST_ELEMENT] = { 0, 0, false },
    [AST_ARRAY_TEST] = { 3, 1 << 1 | 1 << 2, false },
    [AST_CALL] = { EACH, 0, true },
    [AST_UNARY] = { 1, 0, false },
    [AST_BINARY] = { 2, 0, false },
    [AST_QUANTIFIED] = { 3, 0, false },
    [AST_TERNARY] = { 3, 1 << 1, false },
    [AST_RANGE] = { 2, 0, false },
    [AST_ARRAY] = { EACH, 0, false },
    [AST_OBJECT] = { EACH, 0, false },
    [AST_FIELD] = { 1, 0, true },
    [AST_FIELD_BIND] = { 1, 0, true },
    [AST_FIELD_COMPUTED] = { 2, 0, false },
};

/* NULL when the tree keeps the rules, else the kind of a node that breaks one. */
static inline const char *ast_broken_rule(const struct ast *n)
{
    const struct ast_rule *rule = &ast_rules[n->kind];
    const char *kind = ast_kind_name(ast_kind(n));
    unsigned depth = 0;
    if (rule->count != EACH && n->count != (uint32_t)rule->count)
        return kind;
    /* Between quotes an attribute may be empty. */
    if (!rule->has_name && n->name.len > 0)
        return kind;
    if (rule->has_name && n->name.len == 0 && n->kind != AST_ATTR && n->kind != AST_FIELD &&
        n->kind != AST_FIELD_PATTERN && n->kind != AST_NAME)
        return kind;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct ast *kid = n->kids[i];
        bool may_be_absent = rule->optional == ~0u || (i < 32 && rule->optional >> i & 1);
        if (!kid && !may_be_absent)
            return kind;
        const char *broken = kid ? ast_broken_rule(kid) : NULL;
        if (broken)
            return broken;
        if (kid && kid->depth > depth)
            depth = kid->depth;
    }
    bool is_access = n->kind == AST_ATTR || n->kind == AST_ATTR_BIND || n->kind == AST_INDEX;
    bool has_object = !is_access || n->kids[0] != NULL;
    return n->depth == depth + 1 && n->depth <= LIMIT_AQL_NESTING && has_object ? NULL : kind;
}

#endif
