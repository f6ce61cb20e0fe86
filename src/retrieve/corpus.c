/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   documents/K    {_key, path, title, digest, source_digest, bytes, chunks, imported,
 *                   splitter, model, model_bytes, dimension, attributes}
 *   chunks/K:n     {_key, doc, n, title, path, heading, from, to, text, embedding}
 *
 * The stored number of chunks tells which keys an older version has left, so a
 * replacement needs no scan. Every write reads the document in its own
 * transaction: of two imports of one path the loser sees the winner's document
 * when it tries again.
 */
#include "retrieve/corpus.h"

#include "base/hash.h"
#include "base/val.h"
#include "store/doc.h"
#include "store/index.h"
#include "store/txn.h"
#include <stdio.h>
#include <time.h>

enum {
    WRITE_TRIES = 50, /* each lost try means that somebody else has written this document */
    KEY_PATH_BYTES = 120,
};

#define FIELD_EMBEDDING "embedding"

struct corpus corpus_of(const struct rag_env *env, uint64_t db_id, struct slice documents,
                        struct slice chunks)
{
    return (struct corpus){ .store = env->store,
                            .db_id = db_id,
                            .documents = documents.len ? documents : slice_str("documents"),
                            .chunks = chunks.len ? chunks : slice_str("chunks") };
}

static bool is_key_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
}

struct slice corpus_key(struct slice path, struct arena *arena)
{
    uint8_t digest[32];
    char hex[17], *key;
    size_t n = path.len < KEY_PATH_BYTES ? path.len : KEY_PATH_BYTES;
    const char *tail = path.ptr + (path.len - n);

    hash_sha256(path.ptr, path.len, digest);
    hash_hex(digest, 8, hex);
    key = arena_alloc(arena, n + sizeof hex + 1);
    for (size_t i = 0; i < n; i++)
        key[i] = is_key_char(tail[i]) ? tail[i] : '_';
    key[n] = '-';
    memcpy(key + n + 1, hex, sizeof hex);
    return slice_of(key, n + 1 + sizeof hex - 1);
}

static struct slice chunk_key(struct slice doc_key, size_t n, struct arena *arena)
{
    return slice_str(arena_printf(arena, "%.*s:%zu", SLICE_ARG(doc_key), n));
}

/* ---- collections ---- */

static enum errc begin(const struct corpus *c, bool is_read_only, struct txn **out,
                       struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT, .is_read_only = is_read_only };
    return txn_begin(out, c->store, &opt, err);
}

static enum errc find_collection(const struct corpus *c, struct txn *t, struct slice name,
                                 const struct collection **out, struct error *err)
{
    *out = catalog_collection(txn_catalog(t), c->db_id, name);
    if (*out)
        return OK;
    return fail_num(err, 1203, "collection '%.*s' not found: import documents first",
                    SLICE_ARG(name));
}

static const struct index_def *vector_index(const struct collection *c)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        if (index->kind == INDEX_VECTOR && index->metric == VECTOR_COSINE &&
            index->field_count == 1 && slice_is(index->fields[0].text, FIELD_EMBEDDING))
            return index;
    }
    return NULL;
}

static enum errc create_collection(const struct corpus *c, struct slice name, struct error *err)
{
    struct collection_options opt = { .name = name,
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .key_options = val_null,
                                      .extra = val_null };
    uint64_t id;
    struct error why;
    enum errc rc = store_create_collection(c->store, c->db_id, &opt, &id, &why);

    if (rc == ERR_EXISTS)
        return OK; /* another import was faster */
    if (rc != OK && err)
        *err = why;
    return rc;
}

static void put_text(struct val_builder *b, const char *name, struct slice text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, text);
}

static void put_int(struct val_builder *b, const char *name, int64_t i)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, i);
}

static enum errc create_index(const struct corpus *c, uint64_t collection_id, uint32_t dimension,
                              struct error *err)
{
    enum errc rc = OK;
    struct val_builder *b = val_builder_new(0);
    struct val def;
    uint64_t id;
    bool is_new;

    val_open_object(b);
    put_text(b, "type", slice_str("vector"));
    put_text(b, "name", slice_str(FIELD_EMBEDDING));
    val_put_name(b, slice_str("fields"));
    val_open_array(b);
    val_put_string(b, slice_str(FIELD_EMBEDDING));
    val_close(b);
    val_put_name(b, slice_str("params"));
    val_open_object(b);
    put_text(b, "metric", slice_str("cosine"));
    put_int(b, "dimension", dimension);
    put_int(b, "nLists", 1);
    val_close(b);
    val_close(b);
    TRY(val_finish(b, &def, err));
    TRY(store_create_index(c->store, collection_id, def, &id, &is_new, err));
out:
    val_builder_free(b);
    return rc;
}

static enum errc wrong_model(const struct corpus *c, struct slice old_name, uint64_t old_dimension,
                             const struct corpus_model *model, struct error *err)
{
    return fail(err, ERR_INVALID,
                "collection '%.*s' holds vectors of %llu numbers by model '%.*s', not of %u by "
                "'%.*s': import into other collections, or drop these and import again",
                SLICE_ARG(c->chunks), (unsigned long long)old_dimension, SLICE_ARG(old_name),
                model->dimension, SLICE_ARG(model->name));
}

/* Compares with the model of any stored document. */
static enum errc check_model(const struct corpus *c, struct txn *t,
                             const struct collection *documents, const struct corpus_model *model,
                             struct error *err)
{
    enum errc rc = OK;
    struct doc_iter *it = NULL;
    struct val doc;

    TRY(doc_iter_new(&it, t, documents, err));
    if (doc_iter_next(it, &doc)) {
        uint64_t bytes = (uint64_t)val_int(val_get(doc, slice_str("model_bytes")));
        uint64_t dimension = (uint64_t)val_int(val_get(doc, slice_str("dimension")));
        bool is_other = dimension != 0 && dimension != model->dimension;
        is_other |= bytes != 0 && model->file_bytes != 0 && bytes != model->file_bytes;
        if (is_other)
            TRY(wrong_model(c, val_string(val_get(doc, slice_str("model"))), dimension, model,
                            err));
    } else {
        TRY(doc_iter_check(it, err));
    }
out:
    doc_iter_free(it);
    return rc;
}

/* What is missing, and whether what is there fits the model. */
static enum errc inspect(const struct corpus *c, const struct corpus_model *model,
                         bool *has_documents, uint64_t *chunks_id, bool *has_index,
                         struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *documents, *chunks;
    const struct index_def *index;

    *has_index = false;
    *chunks_id = 0;
    TRY(begin(c, true, &t, err));
    documents = catalog_collection(txn_catalog(t), c->db_id, c->documents);
    chunks = catalog_collection(txn_catalog(t), c->db_id, c->chunks);
    *has_documents = documents != NULL;
    if (documents)
        TRY(check_model(c, t, documents, model, err));
    if (chunks) {
        *chunks_id = chunks->id;
        index = vector_index(chunks);
        *has_index = index != NULL;
        if (index && index->dimension != model->dimension)
            TRY(wrong_model(c, slice_str("?"), index->dimension, model, err));
    }
out:
    txn_end(t);
    return rc;
}

enum errc corpus_prepare(const struct corpus *c, const struct corpus_model *model,
                         struct error *err)
{
    enum errc rc = OK;
    bool has_documents, has_index;
    uint64_t chunks_id;

    TRY(inspect(c, model, &has_documents, &chunks_id, &has_index, err));
    if (has_documents && has_index)
        return OK;
    if (!has_documents)
        TRY(create_collection(c, c->documents, err));
    if (chunks_id == 0) {
        TRY(create_collection(c, c->chunks, err));
        TRY(inspect(c, model, &has_documents, &chunks_id, &has_index, err));
    }
    if (!has_index)
        TRY(create_index(c, chunks_id, model->dimension, err));
out:
    return rc;
}

/* ---- documents ---- */

/* val_null when the document or its collection does not exist. */
static enum errc read_doc(struct txn *t, const struct collection *documents, struct slice key,
                          struct arena *arena, struct val *out, struct error *err)
{
    struct error why;
    enum errc rc;

    *out = val_null;
    if (!documents)
        return OK;
    rc = doc_get(t, documents, key, arena, out, &why);
    if (rc == ERR_NOT_FOUND) {
        *out = val_null;
        return OK;
    }
    if (rc != OK && err)
        *err = why;
    return rc;
}

enum errc corpus_is_unchanged(const struct corpus *c, const struct corpus_doc *doc, bool *out,
                              struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct arena *arena = arena_new(0);
    struct val old;

    TRY(begin(c, true, &t, err));
    TRY(read_doc(t, catalog_collection(txn_catalog(t), c->db_id, c->documents), doc->key, arena,
                 &old, err));
    *out = !val_is_null(old) &&
           slice_eq(val_string(val_get(old, slice_str("digest"))), doc->digest) &&
           slice_eq(val_string(val_get(old, slice_str("title"))), doc->title) &&
           val_int(val_get(old, slice_str("splitter"))) == CHUNK_VERSION &&
           val_equal(val_get(old, slice_str("attributes")), doc->attributes);
out:
    txn_end(t);
    arena_free(arena);
    return rc;
}

static void put_time(struct val_builder *b, const char *name, uint64_t wall_us)
{
    time_t seconds = (time_t)(wall_us / 1000000);
    struct tm tm;
    char text[64];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    put_text(b, name, slice_str(text));
}

static enum errc put_document(struct txn *t, const struct collection *documents,
                              const struct corpus *c, const struct corpus_doc *doc,
                              const struct corpus_model *model, struct arena *arena,
                              struct error *err)
{
    enum errc rc = OK;
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    struct val_builder *b = val_builder_new(LIMIT_DOC_BYTES);
    struct doc_change change;
    struct val v;

    val_open_object(b);
    put_text(b, "_key", doc->key);
    put_text(b, "path", doc->path);
    put_text(b, "title", doc->title);
    put_text(b, "digest", doc->digest);
    if (doc->source_digest.len)
        put_text(b, "source_digest", doc->source_digest);
    put_int(b, "bytes", (int64_t)doc->text.len);
    put_int(b, "chunks", (int64_t)doc->chunk_count);
    put_time(b, "imported", env_wall_us(store_env(c->store)));
    put_int(b, "splitter", CHUNK_VERSION);
    put_text(b, "model", model->name);
    put_int(b, "model_bytes", (int64_t)model->file_bytes);
    put_int(b, "dimension", model->dimension);
    if (!val_is_null(doc->attributes)) {
        val_put_name(b, slice_str("attributes"));
        val_put(b, doc->attributes);
    }
    val_close(b);
    TRY(val_finish(b, &v, err));
    TRY(doc_insert(t, documents, v, &opt, arena, &change, err));
out:
    val_builder_free(b);
    return rc;
}

static enum errc put_chunk(struct txn *t, const struct collection *chunks,
                           const struct corpus_doc *doc, size_t n, uint32_t dimension,
                           struct val_builder *b, struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    const struct chunk *chunk = &doc->chunks[n];
    struct doc_change change;
    struct val v;

    val_builder_reset(b);
    val_open_object(b);
    put_text(b, "_key", chunk_key(doc->key, n, arena));
    put_text(b, "doc", doc->key);
    put_int(b, "n", (int64_t)n);
    put_text(b, "title", doc->title);
    put_text(b, "path", doc->path);
    put_text(b, "heading", chunk->heading);
    put_int(b, "from", (int64_t)chunk->from);
    put_int(b, "to", (int64_t)chunk->to);
    put_text(b, "text", slice_of(doc->text.ptr + chunk->from, chunk->to - chunk->from));
    val_put_name(b, slice_str(FIELD_EMBEDDING));
    val_put_floats(b, doc->vectors + n * dimension, dimension);
    val_close(b);
    TRY(val_finish(b, &v, err));
    TRY(doc_insert(t, chunks, v, &opt, arena, &change, err));
out:
    return rc;
}

/* Chunks [from, to) of a document; those that are gone already do not matter. */
static enum errc remove_chunks(struct txn *t, const struct collection *chunks, struct slice doc_key,
                               size_t from, size_t to, struct arena *arena, struct error *err)
{
    struct doc_options opt = { 0 };
    struct doc_change change;
    struct error why;

    for (size_t n = from; n < to; n++) {
        struct arena_mark mark = arena_mark(arena);
        enum errc rc =
            doc_remove(t, chunks, chunk_key(doc_key, n, arena), &opt, arena, &change, &why);
        arena_rewind(arena, mark);
        if (rc != OK && rc != ERR_NOT_FOUND) {
            if (err)
                *err = why;
            return rc;
        }
    }
    return OK;
}

static enum errc write_once(const struct corpus *c, const struct corpus_doc *doc,
                            const struct corpus_model *model, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct arena *arena = arena_new(0);
    struct val_builder *b = val_builder_new(LIMIT_DOC_BYTES);
    const struct collection *documents, *chunks;
    struct val old;

    TRY(begin(c, false, &t, err));
    TRY(find_collection(c, t, c->documents, &documents, err));
    TRY(find_collection(c, t, c->chunks, &chunks, err));
    TRY(read_doc(t, documents, doc->key, arena, &old, err));
    TRY(remove_chunks(t, chunks, doc->key, doc->chunk_count,
                      (size_t)val_int(val_get(old, slice_str("chunks"))), arena, err));
    for (size_t n = 0; n < doc->chunk_count; n++) {
        struct arena_mark mark = arena_mark(arena);
        TRY(put_chunk(t, chunks, doc, n, model->dimension, b, arena, err));
        arena_rewind(arena, mark);
    }
    TRY(put_document(t, documents, c, doc, model, arena, err));
    TRY(txn_commit(t, err));
out:
    txn_end(t);
    val_builder_free(b);
    arena_free(arena);
    return rc;
}

enum errc corpus_write(const struct corpus *c, const struct corpus_doc *doc,
                       const struct corpus_model *model, struct error *err)
{
    enum errc rc = ERR_CONFLICT;

    for (int i = 0; i < WRITE_TRIES && rc == ERR_CONFLICT; i++)
        rc = write_once(c, doc, model, err);
    return rc;
}

/* The document of that path with its chunks, if it is there. */
static enum errc remove_document(struct txn *t, const struct collection *documents,
                                 const struct collection *chunks, struct slice path,
                                 struct arena *arena, size_t *removed, struct error *err)
{
    enum errc rc = OK;
    struct doc_options opt = { 0 };
    struct doc_change change;
    struct slice key = corpus_key(path, arena);
    struct val doc;

    TRY(read_doc(t, documents, key, arena, &doc, err));
    if (val_is_null(doc))
        return OK;
    TRY(remove_chunks(t, chunks, key, 0, (size_t)val_int(val_get(doc, slice_str("chunks"))), arena,
                      err));
    TRY(doc_remove(t, documents, key, &opt, arena, &change, err));
    ++*removed;
out:
    return rc;
}

static enum errc remove_once(const struct corpus *c, const struct slice *paths, size_t count,
                             size_t *removed, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct arena *arena = arena_new(0);
    const struct collection *documents, *chunks;

    *removed = 0;
    TRY(begin(c, false, &t, err));
    TRY(find_collection(c, t, c->documents, &documents, err));
    TRY(find_collection(c, t, c->chunks, &chunks, err));
    for (size_t i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        TRY(remove_document(t, documents, chunks, paths[i], arena, removed, err));
        arena_rewind(arena, mark);
    }
    TRY(txn_commit(t, err));
out:
    txn_end(t);
    arena_free(arena);
    return rc;
}

enum errc corpus_remove(const struct corpus *c, const struct slice *paths, size_t count,
                        size_t *removed, struct error *err)
{
    enum errc rc = ERR_CONFLICT;

    for (int i = 0; i < WRITE_TRIES && rc == ERR_CONFLICT; i++)
        rc = remove_once(c, paths, count, removed, err);
    return rc;
}

/* Collects into *paths, which grows by doubling. */
static enum errc gather_paths(struct txn *t, const struct collection *documents,
                              struct slice prefix, struct arena *arena, struct slice **paths,
                              size_t *count, struct error *err)
{
    enum errc rc = OK;
    struct doc_iter *it = NULL;
    size_t cap = 0;
    struct val doc;

    TRY(doc_iter_new(&it, t, documents, err));
    while (doc_iter_next(it, &doc)) {
        struct slice path = val_string(val_get(doc, slice_str("path")));
        if (path.len < prefix.len || !slice_eq(slice_of(path.ptr, prefix.len), prefix))
            continue;
        if (*count == cap) {
            struct slice *old = *paths;
            cap = cap ? cap * 2 : 64;
            *paths = arena_alloc(arena, cap * sizeof **paths);
            if (*count > 0)
                memcpy(*paths, old, *count * sizeof **paths);
        }
        (*paths)[(*count)++] = arena_copy(arena, path);
    }
    TRY(doc_iter_check(it, err));
out:
    doc_iter_free(it);
    return rc;
}

enum errc corpus_paths(const struct corpus *c, struct slice prefix, struct arena *arena,
                       struct slice **paths, size_t *count, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *documents;

    *paths = NULL;
    *count = 0;
    TRY(begin(c, true, &t, err));
    documents = catalog_collection(txn_catalog(t), c->db_id, c->documents);
    if (documents)
        TRY(gather_paths(t, documents, prefix, arena, paths, count, err));
out:
    txn_end(t);
    return rc;
}

/* ---- search ---- */

static uint64_t get_offset(struct val doc, const char *name)
{
    int64_t i = val_int(val_get(doc, slice_str(name)));
    return i > 0 ? (uint64_t)i : 0;
}

static void read_hit(struct val doc, struct vector_hit hit, struct corpus_hit *out)
{
    out->heading = val_string(val_get(doc, slice_str("heading")));
    out->rank = (double)hit.score;
    out->hit = (struct rag_source_hit){ .key = hit.key,
                                        .title = val_string(val_get(doc, slice_str("title"))),
                                        .path = val_string(val_get(doc, slice_str("path"))),
                                        .text = val_string(val_get(doc, slice_str("text"))),
                                        .from = get_offset(doc, "from"),
                                        .to = get_offset(doc, "to"),
                                        .score = hit.score };
}

struct slice corpus_hit_text(const struct corpus_hit *h, struct arena *arena)
{
    return slice_str(
        arena_printf(arena, "%.*s\n%.*s", SLICE_ARG(h->heading), SLICE_ARG(h->hit.text)));
}

static enum errc find_index(const struct corpus *c, const struct collection *chunks,
                            uint32_t dimension, const struct index_def **out, struct error *err)
{
    *out = vector_index(chunks);
    if (!*out)
        return fail(err, ERR_INVALID,
                    "collection '%.*s' has no vector index on '" FIELD_EMBEDDING
                    "': import documents into it first",
                    SLICE_ARG(c->chunks));
    if ((*out)->dimension != dimension)
        return fail(err, ERR_INVALID,
                    "collection '%.*s' holds vectors of %u numbers, the embedding model makes %u: "
                    "use the model of the import",
                    SLICE_ARG(c->chunks), (*out)->dimension, dimension);
    return OK;
}

enum errc corpus_search(const struct corpus *c, const float *vector, uint32_t dimension, size_t k,
                        struct arena *arena, struct corpus_hit **hits, size_t *count,
                        struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *chunks;
    const struct index_def *index;
    struct vector_hit *found = arena_alloc(arena, k * sizeof *found);
    size_t n = 0;
    struct val doc;

    *hits = arena_alloc(arena, k * sizeof **hits);
    *count = 0;
    TRY(begin(c, true, &t, err));
    TRY(find_collection(c, t, c->chunks, &chunks, err));
    TRY(find_index(c, chunks, dimension, &index, err));
    TRY(vector_search(t, chunks, index,
                      &(struct vector_request){ .vector = vector, .dimension = dimension, .k = k },
                      arena, found, &n, err));
    for (size_t i = 0; i < n; i++) {
        TRY(read_doc(t, chunks, found[i].key, arena, &doc, err));
        if (val_type(val_get(doc, slice_str("text"))) == VAL_STRING)
            read_hit(doc, found[i], &(*hits)[(*count)++]);
    }
out:
    txn_end(t);
    return rc;
}
