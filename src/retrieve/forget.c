/* SPDX-License-Identifier: Apache-2.0 */
/* Removing documents: one by its path, or all of a folder that are no longer in it. */
#include "retrieve/corpus.h"
#include <stdlib.h>

enum { BATCH_DOCUMENTS = 64 }; /* of one transaction */

enum errc rag_forget(const struct rag_env *env, const struct rag_import_options *opt,
                     struct slice path, struct error *err)
{
    struct corpus c = corpus_of(env, opt->db_id, opt->documents, opt->chunks);
    enum errc rc = OK;
    size_t removed;

    TRY(corpus_remove(&c, &path, 1, &removed, err));
    if (removed == 0)
        rc = fail_num(err, 1202, "no document was imported from '%.*s'", SLICE_ARG(path));
out:
    return rc;
}

static int path_order(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = n > 0 ? memcmp(x->ptr, y->ptr, n) : 0;

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* Moves the paths that are not to be kept to the front; returns their number. */
static size_t leave_out_kept(const struct rag_prune_options *prune, struct slice *paths,
                             size_t count, struct arena *arena)
{
    struct slice *keep = arena_alloc(arena, (prune->keep_count + 1) * sizeof *keep);
    size_t kept = prune->keep_count, n = 0;

    if (kept > 0) {
        memcpy(keep, prune->keep, kept * sizeof *keep);
        qsort(keep, kept, sizeof *keep, path_order);
    }
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !bsearch(&paths[i], keep, kept, sizeof *keep, path_order))
            paths[n++] = paths[i];
    return n;
}

enum errc rag_prune(const struct rag_env *env, const struct rag_import_options *opt,
                    const struct rag_prune_options *prune, struct arena *arena,
                    struct slice **removed, size_t *count, struct error *err)
{
    struct corpus c = corpus_of(env, opt->db_id, opt->documents, opt->chunks);
    enum errc rc = OK;
    size_t gone, n = 0;

    *count = 0;
    if (prune->prefix.len == 0)
        return fail(err, ERR_INVALID, "the prefix of the paths to prune is empty");
    TRY(corpus_paths(&c, prune->prefix, arena, removed, &n, err));
    n = leave_out_kept(prune, *removed, n, arena);
    while (*count < n) {
        size_t most = n - *count < BATCH_DOCUMENTS ? n - *count : BATCH_DOCUMENTS;
        if (prune->cancel && atomic_load(prune->cancel))
            TRY(fail(err, ERR_GONE, "pruning was cancelled"));
        TRY(corpus_remove(&c, *removed + *count, most, &gone, err));
        *count += most;
    }
out:
    return rc;
}
