/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for people: a line for each node, then its indexes, rules and warnings. */
#include "base/val_text.h"
#include "cli/query.h"
#include <stdio.h>

enum { DEPTH_MAX = 40, TYPE_WIDTH = 28 };

/* "IndexNode" -> "Index" */
static struct slice kind_of(struct val node)
{
    struct slice type = val_string(val_get(node, slice_str("type")));

    if (type.len > 4 && !memcmp(type.ptr + type.len - 4, "Node", 4))
        type.len -= 4;
    return type;
}

static void print_nodes(struct val nodes, int depth)
{
    for (size_t i = 0; i < val_count(nodes); i++) {
        struct val n = val_at(nodes, i);
        struct slice kind = kind_of(n);
        int used = 2 * depth + (int)kind.len;
        printf("%4lld  %*s%.*s%*s %10.0f   %.*s\n", (long long)val_int(val_get(n, slice_str("id"))),
               2 * depth, "", SLICE_ARG(kind), used < TYPE_WIDTH ? TYPE_WIDTH - used : 0, "",
               val_double(val_get(n, slice_str("estimatedNrItems"))),
               SLICE_ARG(val_string(val_get(n, slice_str("text")))));
        if (depth < DEPTH_MAX)
            print_nodes(val_get(val_get(n, slice_str("subquery")), slice_str("nodes")), depth + 1);
    }
}

/* "a, b" of strings; other values as JSON. */
static void print_list(struct val list)
{
    struct buf text;

    buf_init(&text, 0);
    for (size_t i = 0; i < val_count(list); i++) {
        struct val one = val_at(list, i);
        buf_add_str(&text, i ? ", " : "");
        if (val_type(one) == VAL_STRING)
            buf_add_slice(&text, val_string(one));
        else
            val_print(one, &text);
    }
    fwrite(text.ptr, 1, text.len, stdout);
    buf_release(&text);
}

/* What is looked up: "equal to 1, above 5". */
static void print_bounds(struct val index)
{
    static const char *const names[] = { "in", "from", "above", "to", "below" };
    struct val equal = val_get(index, slice_str("equal"));

    if (val_count(equal)) {
        fputs(", equal to ", stdout);
        print_list(equal);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct val v = val_get(index, slice_str(names[i]));
        if (!val_is_null(v))
            printf(", %s %.*s", names[i], SLICE_ARG(val_string(v)));
    }
}

static void print_indexes(struct val nodes, int depth, bool *has_head)
{
    for (size_t i = 0; i < val_count(nodes); i++) {
        struct val n = val_at(nodes, i), list = val_get(n, slice_str("indexes"));
        for (size_t k = 0; k < val_count(list); k++) {
            struct val index = val_at(list, k);
            printf("%s  node %lld: %.*s.%.*s, %.*s%s%s on ", *has_head ? "" : "\nIndexes\n",
                   (long long)val_int(val_get(n, slice_str("id"))),
                   SLICE_ARG(val_string(val_get(index, slice_str("collection")))),
                   SLICE_ARG(val_string(val_get(index, slice_str("name")))),
                   SLICE_ARG(val_string(val_get(index, slice_str("type")))),
                   val_bool(val_get(index, slice_str("unique"))) ? ", unique" : "",
                   val_bool(val_get(index, slice_str("sparse"))) ? ", sparse" : "");
            print_list(val_get(index, slice_str("fields")));
            print_bounds(index);
            putchar('\n');
            *has_head = true;
        }
        if (depth < DEPTH_MAX)
            print_indexes(val_get(val_get(n, slice_str("subquery")), slice_str("nodes")), depth + 1,
                          has_head);
    }
}

void plan_text_print(struct val answer)
{
    struct val plan = val_get(answer, slice_str("plan"));
    struct val nodes = val_get(plan, slice_str("nodes"));
    struct val rules = val_get(plan, slice_str("rules"));
    struct val warnings = val_get(answer, slice_str("warnings"));
    bool has_head = false;

    printf("%4s  %-*s %10s   %s\n", "id", TYPE_WIDTH, "node", "rows", "plan");
    print_nodes(nodes, 0);
    print_indexes(nodes, 0, &has_head);
    printf("\nRules     ");
    if (val_count(rules))
        print_list(rules);
    else
        fputs("none applied", stdout);
    printf("\nEstimate  %.0f rows, cost %.0f\n",
           val_double(val_get(plan, slice_str("estimatedNrItems"))),
           val_double(val_get(plan, slice_str("estimatedCost"))));
    for (size_t i = 0; i < val_count(warnings); i++)
        printf("Warning   %lld: %.*s\n",
               (long long)val_int(val_get(val_at(warnings, i), slice_str("code"))),
               SLICE_ARG(val_string(val_get(val_at(warnings, i), slice_str("message")))));
}
