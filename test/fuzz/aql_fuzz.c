/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are answered by a tree or an error with a text. A tree keeps the
 * rules of its kinds, and what it prints gives an equal tree, which prints the
 * same again.
 */
#include "../query/ast_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ast *parse(struct arena *arena, struct slice text)
{
    struct error err = { 0 };
    struct ast *query = NULL;
    enum errc rc = aql_parse(text, arena, &query, &err);
    if (rc != OK && (err.code != rc || err.text[0] == 0))
        BUG("an error without a text");
    if (rc == OK && ast_broken_rule(query))
        BUG("a tree that breaks the rule of %s", ast_broken_rule(query));
    return rc == OK ? query : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new(64 * MIB);
    struct buf once, twice;
    buf_init(&once, 0);
    buf_init(&twice, 0);

    const struct ast *query = parse(arena, slice_of(data, size));
    if (query) {
        ast_print(query, &once);
        const struct ast *again = parse(arena, buf_slice(&once));
        if (!again || !ast_equal(query, again))
            BUG("printed as %s", buf_cstr(&once));
        ast_print(again, &twice);
        if (!slice_eq(buf_slice(&once), buf_slice(&twice)))
            BUG("printed as %s and as %s", buf_cstr(&once), buf_cstr(&twice));
    }

    buf_release(&once);
    buf_release(&twice);
    arena_free(arena);
    return 0;
}
