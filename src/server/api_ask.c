/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/ask: an answer from the documents, with citations; /v1/search: the
 * passages alone; /v1/import: texts become documents and chunks.
 */
#include "base/val_text.h"
#include "server/ask_flow.h"
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"

enum { IMPORT_DOCS_MAX = 1000, SOURCE_DIGEST_MAX = 128 };

static void wake(void *ctx)
{
    request_wake(ctx);
}

/* May the user write to the collection, or make it when it is missing? Empty: its usual name. */
static enum errc may_write(struct request *r, struct slice name, const char *usual,
                           struct error *err)
{
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    const struct database *db;

    name = name.len ? name : slice_str(usual);
    enum errc rc = request_may_use(r, name, ACCESS_WRITE, err);
    if (rc != OK)
        return rc;
    rc = txn_begin(&t, r->ctx->store, &opt, err);
    if (rc == OK)
        rc = request_database(r, txn_catalog(t), &db, err);
    if (rc == OK && !catalog_collection(txn_catalog(t), db->id, name))
        rc = request_may_change(r, err);
    txn_end(t);
    return rc;
}

static enum errc may_write_both(struct request *r, const struct rag_import_options *opt,
                                struct error *err)
{
    enum errc rc = may_write(r, opt->documents, "documents", err);
    return rc == OK ? may_write(r, opt->chunks, "chunks", err) : rc;
}

/* ---- ask ---- */

struct ask {
    struct request *r;
    bool is_streaming, is_search, has_begun;
};

static void send_event(struct ask *k, struct slice json)
{
    if (!k->has_begun)
        exchange_start_events(k->r->x, NULL, 0);
    k->has_begun = true;
    exchange_event(k->r->x, json);
}

static void send_value(struct ask *k, struct val v)
{
    struct buf text;

    buf_init(&text, 0);
    val_print(v, &text);
    send_event(k, buf_slice(&text));
    buf_release(&text);
}

static void end_events(struct ask *k)
{
    exchange_event(k->r->x, slice_str("[DONE]"));
    exchange_finish(k->r->x);
    request_done(k->r);
}

static void on_text(void *ctx, struct slice text)
{
    struct buf event;

    buf_init(&event, 0);
    buf_add_str(&event, "{\"type\":\"text\",\"text\":");
    val_print_string(text, &event);
    buf_add_char(&event, '}');
    send_event(ctx, buf_slice(&event));
    buf_release(&event);
}

static void on_done(void *ctx, const struct rag_answer *answer)
{
    struct ask *k = ctx;
    struct reply a;

    reply_begin(&a, k->r);
    if (!k->is_streaming) {
        ask_put_answer(&a, answer, k->is_search);
        reply_send_bare(&a, 200);
        return;
    }
    reply_str(&a, "type", "done");
    ask_put_answer(&a, answer, k->is_search);
    send_value(k, reply_finish(&a));
    end_events(k);
}

static void on_failed(void *ctx, const struct error *err)
{
    struct ask *k = ctx;

    if (!k->has_begun) {
        request_fail(k->r, err);
        return;
    }
    send_value(k, error_body(k->r->arena, API_OPENAI, err));
    end_events(k);
}

static enum errc read_ask(struct val body, struct rag_ask_options *opt, struct ask *k,
                          struct error *err)
{
    bool is_streaming;
    enum errc rc = OK;

    TRY(ask_read_options(body, "stream", opt, err));
    TRY(body_bool(body, "stream", &is_streaming, err));
    k->is_streaming = is_streaming && !k->is_search;
out:
    return rc;
}

static void ask(struct request *r, bool is_search)
{
    static const struct ask_shape whole = { NULL, on_done, on_failed };
    static const struct ask_shape streamed = { on_text, on_done, on_failed };
    struct error err = { 0 };
    struct ask *k = ARENA_NEW(r->arena, struct ask);
    struct rag_ask_options opt = { .search_only = is_search };
    struct val body;
    enum errc rc = OK;

    k->r = r;
    k->is_search = is_search;
    TRY(request_object(r, &body, &err));
    TRY(read_ask(body, &opt, k, &err));
    TRY(request_database_id(r, &opt.db_id, &err));
    ask_flow_start(r, &opt, k->is_streaming ? &streamed : &whole, k);
    return;
out:
    request_fail(r, &err);
}

static void post_ask(struct request *r)
{
    ask(r, false);
}

static void post_search(struct request *r)
{
    ask(r, true);
}

/* ---- import ---- */

static enum errc read_source_digest(struct val v, struct rag_source *s, struct error *err)
{
    enum errc rc = OK;

    TRY(body_text(v, "source_digest", &s->source_digest, err));
    if (s->source_digest.len > SOURCE_DIGEST_MAX)
        rc = fail(err, ERR_INVALID, "'source_digest' is longer than %d bytes", SOURCE_DIGEST_MAX);
out:
    return rc;
}

static enum errc read_source(struct val v, struct rag_source *s, struct error *err)
{
    static const char *const known[] = { "path",   "title",      "text",
                                         "format", "attributes", "source_digest" };
    struct slice format;
    enum errc rc = OK;

    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "each document must be an object {path, text}");
    TRY(body_check_names(v, known, ARRAY_LEN(known), err));
    TRY(body_text(v, "path", &s->path, err));
    TRY(body_text(v, "title", &s->title, err));
    TRY(body_text(v, "text", &s->text, err));
    TRY(body_text(v, "format", &format, err));
    TRY(read_source_digest(v, s, err));
    if (!s->path.len)
        return fail(err, ERR_INVALID, "each document needs a 'path', which identifies it");
    if (format.len && !slice_is(format, "text") && !slice_is(format, "markdown"))
        return fail(err, ERR_INVALID, "'format' must be text or markdown");
    s->format = slice_is(format, "markdown") ? RAG_MARKDOWN : RAG_TEXT;
    s->attributes = val_get(v, slice_str("attributes"));
    if (!val_is_null(s->attributes) && val_type(s->attributes) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'attributes' must be an object");
out:
    return rc;
}

static void step_import(struct request *r)
{
    struct rag_import *import = r->state;
    struct error err = { 0 };
    struct rag_import_result result;
    enum rag_state state;
    struct reply a;

    if (rag_import_step(import, &state, &result, &err) != OK) {
        rag_import_free(import);
        request_fail(r, &err);
        return;
    }
    if (state == RAG_WAIT) {
        request_park(r, step_import);
        return;
    }
    rag_import_free(import);
    reply_begin(&a, r);
    reply_int(&a, "documents", result.documents);
    reply_int(&a, "unchanged", result.unchanged);
    reply_int(&a, "chunks", result.chunks);
    reply_int(&a, "truncated", result.truncated);
    reply_int(&a, "tokens", result.tokens);
    reply_open(&a, "timings");
    reply_double(&a, "embed_ms", (double)result.embed_us / 1000);
    reply_close(&a);
    reply_send_bare(&a, 200);
}

static enum errc read_import(struct request *r, struct rag_import_options *opt,
                             enum errc (*read)(struct val v, struct rag_source *s,
                                               struct error *err),
                             struct rag_source **sources, size_t *count, struct error *err)
{
    static const char *const known[] = { "documents", "model", "documents_collection",
                                         "chunks_collection" };
    struct val body, list;
    enum errc rc = OK;

    TRY(request_object(r, &body, err));
    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(body_text(body, "model", &opt->model, err));
    TRY(body_text(body, "documents_collection", &opt->documents, err));
    TRY(body_text(body, "chunks_collection", &opt->chunks, err));
    list = val_get(body, slice_str("documents"));
    *count = val_count(list);
    if (val_type(list) != VAL_ARRAY || !*count || *count > IMPORT_DOCS_MAX)
        TRY(fail(err, ERR_INVALID, "'documents' must be an array of 1 to %d documents",
                 IMPORT_DOCS_MAX));
    *sources = arena_zalloc(r->arena, *count * sizeof **sources);
    for (size_t i = 0; i < *count; i++)
        TRY(read(val_at(list, i), &(*sources)[i], err));
    TRY(may_write_both(r, opt, err));
    TRY(request_database_id(r, &opt->db_id, err));
out:
    return rc;
}

static void post_import(struct request *r)
{
    struct error err = { 0 };
    struct rag_import *import;
    struct rag_import_options opt = { 0 };
    struct rag_wake waker = { wake, r, exchange_cancel_flag(r->x) };
    struct rag_source *sources;
    size_t count;
    enum errc rc = OK;

    TRY(read_import(r, &opt, read_source, &sources, &count, &err));
    TRY(rag_import_start(&import, &r->ctx->rag, &opt, sources, count, waker, &err));
    r->state = import;
out:
    if (rc == OK)
        step_import(r);
    else
        request_fail(r, &err);
}

static enum errc read_known(struct val v, struct rag_source *s, struct error *err)
{
    static const char *const known[] = { "path", "source_digest" };
    enum errc rc = OK;

    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "each document must be an object {path, source_digest}");
    TRY(body_check_names(v, known, ARRAY_LEN(known), err));
    TRY(body_text(v, "path", &s->path, err));
    TRY(read_source_digest(v, s, err));
    if (!s->path.len || !s->source_digest.len)
        rc = fail(err, ERR_INVALID, "each document needs a 'path' and a 'source_digest'");
out:
    return rc;
}

static void post_known(struct request *r)
{
    struct error err = { 0 };
    struct rag_import_options opt = { 0 };
    struct rag_source *sources;
    struct reply a;
    size_t count;
    bool *known;
    enum errc rc = OK;

    TRY(read_import(r, &opt, read_known, &sources, &count, &err));
    known = arena_zalloc(r->arena, count * sizeof *known);
    TRY(rag_known(&r->ctx->rag, &opt, sources, count, known, &err));
    reply_begin(&a, r);
    reply_list(&a, "known");
    for (size_t i = 0; i < count; i++)
        reply_bool(&a, NULL, known[i]);
    reply_close(&a);
    reply_send_bare(&a, 200);
    return;
out:
    request_fail(r, &err);
}

/* Names of the collections, from the parameters of the URL. */
static void read_collections(struct request *r, struct rag_import_options *opt)
{
    if (!request_param(r, "documents_collection", &opt->documents))
        opt->documents = slice_of(NULL, 0);
    if (!request_param(r, "chunks_collection", &opt->chunks))
        opt->chunks = slice_of(NULL, 0);
}

static void delete_document(struct request *r)
{
    struct error err = { 0 };
    struct rag_import_options opt = { 0 };
    struct slice path;
    struct reply a;
    enum errc rc;

    read_collections(r, &opt);
    rc = may_write_both(r, &opt, &err);
    if (rc == OK)
        rc = request_database_id(r, &opt.db_id, &err);
    if (rc == OK && (!request_param(r, "path", &path) || !path.len))
        rc = fail(&err, ERR_INVALID, "the parameter path says which document to forget");
    if (rc == OK)
        rc = rag_forget(&r->ctx->rag, &opt, path, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "forgotten", true);
    reply_send_bare(&a, 200);
}

static enum errc read_prune(struct request *r, struct rag_import_options *opt,
                            struct rag_prune_options *prune, struct error *err)
{
    static const char *const known[] = { "prefix", "keep", "documents_collection",
                                         "chunks_collection" };
    struct val body, list;
    struct slice *keep;
    enum errc rc = OK;

    TRY(request_object(r, &body, err));
    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(body_text(body, "prefix", &prune->prefix, err));
    TRY(body_text(body, "documents_collection", &opt->documents, err));
    TRY(body_text(body, "chunks_collection", &opt->chunks, err));
    list = val_get(body, slice_str("keep"));
    if (val_type(list) != VAL_ARRAY) /* an absent list must not remove everything */
        return fail(err, ERR_INVALID, "'keep' must be the array of the paths to keep");
    keep = arena_alloc(r->arena, (val_count(list) + 1) * sizeof *keep);
    for (size_t i = 0; i < val_count(list); i++) {
        if (val_type(val_at(list, i)) != VAL_STRING)
            return fail(err, ERR_INVALID, "'keep' must be an array of strings");
        keep[i] = val_string(val_at(list, i));
    }
    prune->keep = keep;
    prune->keep_count = val_count(list);
    TRY(may_write_both(r, opt, err));
    TRY(request_database_id(r, &opt->db_id, err));
out:
    return rc;
}

static void post_prune(struct request *r)
{
    struct error err = { 0 };
    struct rag_import_options opt = { 0 };
    struct rag_prune_options prune = { .cancel = exchange_cancel_flag(r->x) };
    struct slice *removed;
    size_t count;
    struct reply a;
    enum errc rc = OK;

    TRY(read_prune(r, &opt, &prune, &err));
    TRY(rag_prune(&r->ctx->rag, &opt, &prune, r->arena, &removed, &count, &err));
    reply_begin(&a, r);
    reply_int(&a, "removed", (int64_t)count);
    reply_list(&a, "paths");
    for (size_t i = 0; i < count; i++)
        val_put_string(a.b, removed[i]);
    reply_close(&a);
    reply_send_bare(&a, 200);
    return;
out:
    request_fail(r, &err);
}

const struct route api_ask_routes[] = {
    { METHOD_POST, "/v1/ask", ROLE_USER, ON_POOL, MIB, post_ask,
      "Answers a question from the documents, with citations." },
    { METHOD_POST, "/v1/search", ROLE_USER, ON_POOL, MIB, post_search, "The nearest passages." },
    { METHOD_POST, "/v1/import", ROLE_USER, ON_POOL, BODY_MAX, post_import,
      "Splits, embeds and stores texts." },
    { METHOD_POST, "/v1/import/known", ROLE_USER, ON_POOL, BODY_MAX, post_known,
      "Which documents were imported from the same bytes." },
    { METHOD_DELETE, "/v1/import?path&documents_collection&chunks_collection", ROLE_USER, ON_POOL,
      0, delete_document, "Forgets a document and its chunks." },
    { METHOD_POST, "/v1/import/prune", ROLE_USER, ON_POOL, BODY_MAX, post_prune,
      "Forgets the documents below a prefix that are not in a list." },
    { 0 },
};
