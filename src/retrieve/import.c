/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import runs over its sources with three cursors:
 *
 *        written      embedding        prepared
 *           v             v               v
 *   | done  |  done split |  split (some) |  waiting ...
 *
 * Preparing a source digests it, skips it when nothing has changed and splits
 * it. Chunks of neighbouring sources are embedded together, so that many small
 * documents cost as few engine steps as one large one. A document whose last
 * chunk has its vector is written at once and its memory given back.
 */
#include "base/hash.h"
#include "base/val_text.h"
#include "retrieve/chunk.h"
#include "retrieve/corpus.h"
#include "retrieve/gate.h"

enum { BATCH_CHUNKS = 32 }; /* of one call: about 6,000 tokens */

/* One source and what becomes of it. */
struct import_doc {
    struct rag_source source;
    struct corpus_doc doc;
    char digest[65];
    struct arena *arena; /* the chunk list; owned */
    struct chunk_list chunks;
    float *vectors; /* owned */
    size_t embedded;
    bool is_unchanged;
};

struct rag_import {
    const struct rag_env *env;
    struct arena *arena; /* options, sources */
    struct corpus corpus;
    struct slice model_name; /* as asked for */
    struct model_info info;
    struct corpus_model model;
    bool is_ready; /* model known, collections there */
    bool is_waiting;
    struct import_doc *docs;
    size_t count;
    size_t prepared, embedding, written; /* cursors into docs */
    size_t pending;                      /* chunks split and not embedded */
    struct rag_import_result result;
    struct gate gate;

    /* The call under way; filled by the model's thread, read after the gate. */
    float *batch_vectors;
    size_t batch_count;
    uint64_t batch_begin_us, batch_us;
    uint32_t batch_tokens, batch_truncated;
    struct error batch_err;
};

static enum errc cancelled(struct error *err)
{
    return fail(err, ERR_GONE, "the import was cancelled");
}

static uint64_t now_us(const struct rag_import *im)
{
    return env_mono_us(store_env(im->env->store));
}

/* ---- preparing ---- */

static enum errc count_tokens(void *ctx, struct slice text, size_t *tokens, struct error *err)
{
    struct rag_import *im = ctx;
    struct generator *g = im->env->generator;
    return g->count_tokens(g, im->model.name, text, tokens, err);
}

static struct slice file_name(struct slice path)
{
    size_t from = path.len;
    while (from > 0 && path.ptr[from - 1] != '/')
        from--;
    return slice_of(path.ptr + from, path.len - from);
}

static struct slice title_of(const struct rag_source *s)
{
    struct slice title = s->title;

    if (title.len == 0)
        title = chunk_title(s->text, s->format == RAG_MARKDOWN);
    return title.len > 0 ? title : file_name(s->path);
}

static enum errc check_source(const struct rag_source *s, struct error *err)
{
    size_t at;

    if (s->path.len == 0)
        return fail(err, ERR_INVALID, "a document to import needs a path");
    if (s->text.len > CHUNK_DOC_BYTES_MAX)
        return fail(err, ERR_TOO_LARGE, "'%.*s' has %zu bytes, the limit is %zu",
                    SLICE_ARG(s->path), s->text.len, CHUNK_DOC_BYTES_MAX);
    if (!utf8_check(s->text, &at))
        return fail(err, ERR_INVALID, "'%.*s' is not UTF-8 text (byte %zu)", SLICE_ARG(s->path),
                    at);
    if (!utf8_check(s->path, NULL) || !utf8_check(s->title, NULL))
        return fail(err, ERR_INVALID, "path and title must be UTF-8 text");
    return OK;
}

static enum errc make_ready(struct rag_import *im, struct error *err)
{
    enum errc rc = OK;
    struct generator *g = im->env->generator;

    if (im->is_ready)
        return OK;
    TRY(g->model(g, im->model_name, MODEL_EMBEDDING, &im->info, err));
    im->model = (struct corpus_model){ .name = slice_str(im->info.name),
                                       .file_bytes = im->info.file_bytes,
                                       .dimension = im->info.dimension };
    TRY(corpus_prepare(&im->corpus, &im->model, err));
    im->batch_vectors = mem_alloc(BATCH_CHUNKS * sizeof(float) * im->model.dimension);
    im->is_ready = true;
out:
    return rc;
}

static enum errc split(struct rag_import *im, struct import_doc *d, struct error *err)
{
    enum errc rc = OK;
    struct chunk_options opt = { .is_markdown = d->source.format == RAG_MARKDOWN,
                                 .title = d->doc.title,
                                 .window_tokens = im->info.context_tokens,
                                 .counter = { count_tokens, im } };

    d->arena = arena_new(0);
    TRY(chunk_split(&d->chunks, d->source.text, &opt, d->arena, err));
    d->doc.chunks = d->chunks.items;
    d->doc.chunk_count = d->chunks.count;
    d->vectors = mem_alloc((d->chunks.count + 1) * sizeof(float) * im->model.dimension);
    d->doc.vectors = d->vectors;
    im->pending += d->chunks.count;
out:
    return rc;
}

static enum errc prepare(struct rag_import *im, struct import_doc *d, struct error *err)
{
    enum errc rc = OK;
    uint8_t digest[32];

    TRY(check_source(&d->source, err));
    TRY(make_ready(im, err));
    hash_sha256(d->source.text.ptr, d->source.text.len, digest);
    hash_hex(digest, sizeof digest, d->digest);
    d->doc = (struct corpus_doc){ .key = corpus_key(d->source.path, im->arena),
                                  .path = d->source.path,
                                  .title = title_of(&d->source),
                                  .text = d->source.text,
                                  .digest = slice_str(d->digest),
                                  .source_digest = d->source.source_digest,
                                  .attributes = d->source.attributes };
    TRY(corpus_is_unchanged(&im->corpus, &d->doc, &d->is_unchanged, err));
    if (!d->is_unchanged)
        TRY(split(im, d, err));
    else if (d->source.source_digest.len)
        TRY(corpus_note_source(&im->corpus, &d->doc, err));
    im->result.unchanged += d->is_unchanged;
out:
    return rc;
}

/* ---- embedding ---- */

static void on_embedded(void *ctx, const struct embed_result *r)
{
    struct rag_import *im = ctx;

    im->batch_us = now_us(im) - im->batch_begin_us;
    im->batch_err.code = OK;
    if (r->err) {
        im->batch_err = *r->err;
    } else if (r->count != im->batch_count || r->dimension != im->model.dimension) {
        (void)fail(&im->batch_err, ERR_INTERNAL, "model '%s' answered %zu vectors of %u numbers",
                   im->info.name, r->count, r->dimension);
    } else {
        memcpy(im->batch_vectors, r->vectors, r->count * r->dimension * sizeof(float));
        im->batch_tokens = r->tokens;
        im->batch_truncated = 0;
        for (size_t i = 0; r->truncated && i < r->count; i++)
            im->batch_truncated += r->truncated[i];
    }
    gate_open(&im->gate);
}

/* Text of a chunk as the model sees it: context, line end, text. */
static struct slice chunk_input(const struct import_doc *d, size_t n, struct arena *arena)
{
    const struct chunk *c = &d->chunks.items[n];
    struct slice body = slice_of(d->source.text.ptr + c->from, c->to - c->from);

    if (c->heading.len == 0)
        return body;
    return slice_str(arena_printf(arena, "%.*s\n%.*s", SLICE_ARG(c->heading), SLICE_ARG(body)));
}

/* The next chunks without a vector, over the borders of documents. */
static size_t fill_batch(const struct rag_import *im, struct slice *texts, struct arena *arena)
{
    size_t n = 0;

    for (size_t i = im->embedding; i < im->prepared && n < BATCH_CHUNKS; i++) {
        const struct import_doc *d = &im->docs[i];
        for (size_t j = d->embedded; j < d->chunks.count && n < BATCH_CHUNKS; j++)
            texts[n++] = chunk_input(d, j, arena);
    }
    return n;
}

static enum errc start_batch(struct rag_import *im, struct error *err)
{
    enum errc rc = OK;
    struct generator *g = im->env->generator;
    struct arena *arena = arena_new(0);
    struct slice texts[BATCH_CHUNKS];
    struct embed_request req = { .model = im->model.name,
                                 .texts = texts,
                                 .cancel = im->gate.wake.cancel,
                                 .on_done = on_embedded,
                                 .ctx = im };

    req.count = im->batch_count = fill_batch(im, texts, arena);
    im->batch_begin_us = now_us(im);
    gate_arm(&im->gate);
    TRY(g->embed(g, &req, err));
out:
    arena_free(arena);
    return rc;
}

static enum errc take_batch(struct rag_import *im, struct error *err)
{
    size_t taken = 0, dimension = im->model.dimension;

    if (im->batch_err.code != OK) {
        if (err)
            *err = im->batch_err;
        return im->batch_err.code;
    }
    im->result.embed_us += im->batch_us;
    while (taken < im->batch_count) {
        struct import_doc *d = &im->docs[im->embedding];
        size_t n = d->chunks.count - d->embedded;
        if (n > im->batch_count - taken)
            n = im->batch_count - taken;
        if (n > 0)
            memcpy(d->vectors + d->embedded * dimension, im->batch_vectors + taken * dimension,
                   n * dimension * sizeof(float));
        d->embedded += n;
        taken += n;
        if (d->embedded == d->chunks.count)
            im->embedding++;
    }
    im->pending -= taken;
    im->batch_count = 0;
    im->result.tokens += im->batch_tokens;
    im->result.truncated += im->batch_truncated;
    return OK;
}

/* ---- writing ---- */

static void doc_release(struct import_doc *d)
{
    arena_free(d->arena);
    mem_free(d->vectors);
    d->arena = NULL;
    d->vectors = NULL;
    d->chunks = (struct chunk_list){ 0 };
    d->embedded = 0;
}

static enum errc write_ready(struct rag_import *im, struct error *err)
{
    enum errc rc = OK;

    for (; im->written < im->prepared; im->written++) {
        struct import_doc *d = &im->docs[im->written];
        if (d->embedded < d->chunks.count)
            break;
        if (gate_is_cancelled(&im->gate))
            return cancelled(err);
        if (!d->is_unchanged) {
            TRY(corpus_write(&im->corpus, &d->doc, &im->model, err));
            im->result.documents++;
            im->result.chunks += (uint32_t)d->chunks.count;
        }
        doc_release(d);
        if (im->embedding <= im->written) /* nothing in it to embed */
            im->embedding = im->written + 1;
    }
out:
    if (rc != OK)
        wrap(err, "'%.*s'", SLICE_ARG(im->docs[im->written].source.path));
    return rc;
}

/* ---- the machine ---- */

enum errc rag_import_start(struct rag_import **out, const struct rag_env *env,
                           const struct rag_import_options *opt, const struct rag_source *sources,
                           size_t count, struct rag_wake wake, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct rag_import *im = mem_zalloc(sizeof *im);

    (void)err;
    im->env = env;
    im->arena = arena;
    im->corpus = corpus_of(env, opt->db_id, arena_copy(arena, opt->documents),
                           arena_copy(arena, opt->chunks));
    im->model_name = arena_copy(arena, opt->model);
    im->gate.wake = wake;
    im->count = count;
    im->docs = arena_zalloc(arena, (count + 1) * sizeof *im->docs);
    for (size_t i = 0; i < count; i++) {
        const struct rag_source *s = &sources[i];
        im->docs[i].source = (struct rag_source){
            .path = arena_copy(arena, s->path),
            .title = arena_copy(arena, s->title),
            .text = arena_copy(arena, s->text),
            .format = s->format,
            .attributes = val_is_null(s->attributes) ? val_null : val_copy(arena, s->attributes),
            .source_digest = arena_copy(arena, s->source_digest),
        };
    }
    *out = im;
    return OK;
}

enum errc rag_import_step(struct rag_import *im, enum rag_state *state,
                          struct rag_import_result *result, struct error *err)
{
    enum errc rc = OK;

    if (im->is_waiting) {
        im->is_waiting = false;
        TRY(take_batch(im, err));
    }
    for (;;) {
        if (gate_is_cancelled(&im->gate))
            TRY(cancelled(err));
        TRY(write_ready(im, err));
        while (im->pending < BATCH_CHUNKS && im->prepared < im->count) {
            TRY(prepare(im, &im->docs[im->prepared], err));
            im->prepared++;
            if (gate_is_cancelled(&im->gate))
                TRY(cancelled(err));
        }
        if (im->pending == 0) {
            TRY(write_ready(im, err));
            break;
        }
        TRY(start_batch(im, err));
        im->is_waiting = true;
        *state = RAG_WAIT;
        if (gate_wait(&im->gate))
            return OK;
        im->is_waiting = false;
        TRY(take_batch(im, err));
    }
    *state = RAG_DONE;
    *result = im->result;
out:
    return rc;
}

void rag_import_free(struct rag_import *im)
{
    if (!im)
        return;
    if (im->is_waiting)
        BUG("import freed while it waits");
    for (size_t i = 0; i < im->count; i++)
        doc_release(&im->docs[i]);
    mem_free(im->batch_vectors);
    arena_free(im->arena);
    mem_free(im);
}
