/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source is known by the digest of the bytes that its text was made from: whoever has them still
 * need not make the text again to hear that nothing has changed.
 */
#include "retrieve/corpus.h"
#include "store/doc.h"
#include "store/txn.h"

static struct slice text_of(struct val doc, const char *name)
{
    return val_string(val_get(doc, slice_str(name)));
}

/* A model that cannot be compared is for the import to complain about, which then happens. */
static bool is_of_model(struct val doc, const struct model_info *model)
{
    uint64_t bytes = (uint64_t)val_int(val_get(doc, slice_str("model_bytes")));

    return (uint64_t)val_int(val_get(doc, slice_str("dimension"))) == model->dimension &&
           (!bytes || !model->file_bytes || bytes == model->file_bytes);
}

/* val_null when there is no such document. */
static enum errc read_doc(struct txn *t, const struct collection *documents, struct slice path,
                          struct arena *arena, struct val *out, struct error *err)
{
    struct error why;
    enum errc rc = doc_get(t, documents, corpus_key(path, arena), arena, out, &why);

    if (rc == ERR_NOT_FOUND) {
        *out = val_null;
        return OK;
    }
    if (rc != OK && err)
        *err = why;
    return rc;
}

enum errc rag_known(const struct rag_env *env, const struct rag_import_options *opt,
                    const struct rag_source *sources, size_t count, bool *known, struct error *err)
{
    struct corpus c = corpus_of(env, opt->db_id, opt->documents, opt->chunks);
    struct txn_options how = { .isolation = ISOLATION_SNAPSHOT, .is_read_only = true };
    struct generator *g = env->generator;
    struct arena *arena = arena_new(0);
    struct txn *t = NULL;
    struct model_info model;
    enum errc rc = OK;

    memset(known, 0, count * sizeof *known);
    TRY(g->model(g, opt->model, MODEL_EMBEDDING, &model, err));
    TRY(txn_begin(&t, c.store, &how, err));
    const struct collection *documents = catalog_collection(txn_catalog(t), c.db_id, c.documents);
    for (size_t i = 0; documents && i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val doc;
        TRY(read_doc(t, documents, sources[i].path, arena, &doc, err));
        known[i] = !val_is_null(doc) && sources[i].source_digest.len > 0 &&
                   slice_eq(text_of(doc, "source_digest"), sources[i].source_digest) &&
                   val_int(val_get(doc, slice_str("splitter"))) == CHUNK_VERSION &&
                   is_of_model(doc, &model);
        arena_rewind(arena, mark);
    }
out:
    txn_end(t);
    arena_free(arena);
    return rc;
}

enum errc corpus_note_source(const struct corpus *c, const struct corpus_doc *doc,
                             struct error *err)
{
    struct txn_options how = { .isolation = ISOLATION_SNAPSHOT };
    struct slice name = slice_str("source_digest");
    struct arena *arena = arena_new(0);
    struct doc_options opt = { 0 };
    struct doc_change change;
    struct txn *t = NULL;
    struct val old;
    enum errc rc = OK;

    TRY(txn_begin(&t, c->store, &how, err));
    const struct collection *documents = catalog_collection(txn_catalog(t), c->db_id, c->documents);
    if (!documents)
        goto out;
    TRY(read_doc(t, documents, doc->path, arena, &old, err));
    if (val_is_null(old) || slice_eq(text_of(old, "source_digest"), doc->source_digest))
        goto out;
    struct val digest = val_new_string(arena, doc->source_digest);
    TRY(doc_update(t, documents, doc->key, val_new_object(arena, &name, &digest, 1), &opt, arena,
                   &change, err));
    TRY(txn_commit(t, err));
out:
    txn_end(t);
    arena_free(arena);
    return rc == ERR_CONFLICT || rc == ERR_NOT_FOUND ? OK : rc; /* somebody else is at it */
}
