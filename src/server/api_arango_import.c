/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /_api/import: many documents in one transaction, in three forms: an
 * object a line, an array of objects, or a line of attribute names followed by
 * lines of values. A document that fails is counted and passed over, unless
 * complete=true: then nothing is stored.
 */
#include "base/val_text.h"
#include "server/doc_call.h"
#include "server/reply.h"
#include "server/router.h"

enum import_form { IMPORT_LINES, IMPORT_ARRAY, IMPORT_TABLE };

enum { DETAILS_MAX = 1000, OFFENDER_BYTES = 200 };

struct import_job {
    struct doc_call call;
    enum import_form form;
    struct slice from_prefix, to_prefix;
    bool overwrites, replaces_prefix, is_complete, wants_details, ignores_missing;
    int64_t created, errors, empty, updated, ignored;
    struct val details[DETAILS_MAX]; /* sentences, in the request's arena */
    size_t detail_count;
    struct error first; /* what ended a complete import */
};

/* ---- parameters ---- */

static enum errc read_form(struct request *r, enum import_form *out, struct error *err)
{
    struct slice type, body = request_body(r);

    *out = IMPORT_TABLE;
    if (!request_word(r, "type", &type))
        return OK;
    if (slice_is(type, "documents"))
        *out = IMPORT_LINES;
    else if (slice_is(type, "array") || slice_is(type, "list"))
        *out = IMPORT_ARRAY;
    else if (slice_is(type, "auto"))
        *out = body.len && body.ptr[0] == '[' ? IMPORT_ARRAY : IMPORT_LINES;
    else
        return fail(err, ERR_INVALID, "type must be documents, array, list or auto (got '%.*s')",
                    SLICE_ARG(type));
    return OK;
}

static enum errc read_duplicate(struct request *r, enum overwrite_mode *out, struct error *err)
{
    static const struct {
        const char *name;
        enum overwrite_mode mode;
    } modes[] = { { "error", OVERWRITE_CONFLICT },
                  { "update", OVERWRITE_UPDATE },
                  { "replace", OVERWRITE_REPLACE },
                  { "ignore", OVERWRITE_IGNORE } };
    struct slice text;

    *out = OVERWRITE_CONFLICT;
    if (!request_word(r, "onDuplicate", &text))
        return OK;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (slice_is(text, modes[i].name)) {
            *out = modes[i].mode;
            return OK;
        }
    }
    return fail(err, ERR_INVALID, "onDuplicate must be error, update, replace or ignore");
}

/* arangoimport's prefixes end without the slash. */
static struct slice read_prefix(struct request *r, const char *name)
{
    struct slice prefix = slice_of(NULL, 0);

    request_param(r, name, &prefix);
    while (prefix.len && prefix.ptr[prefix.len - 1] == '/')
        prefix.len--;
    return prefix;
}

static enum errc read_job(struct import_job *job, struct error *err)
{
    enum errc rc = OK;
    struct request *r = job->call.r;
    struct doc_params *p = &job->call.p;

    if (!request_param(r, "collection", &r->params[0]) || !r->params[0].len)
        return fail_num(err, 1204, "the parameter collection is required");
    TRY(read_form(r, &job->form, err));
    TRY(read_duplicate(r, &p->opt.overwrite, err));
    TRY(request_flag(r, "overwrite", false, &job->overwrites, err));
    TRY(request_flag(r, "complete", false, &job->is_complete, err));
    TRY(request_flag(r, "details", false, &job->wants_details, err));
    TRY(request_flag(r, "waitForSync", false, &p->wait_for_sync, err));
    TRY(request_flag(r, "ignoreMissing", false, &job->ignores_missing, err));
    TRY(request_flag(r, "overwriteCollectionPrefix", false, &job->replaces_prefix, err));
    job->from_prefix = read_prefix(r, "fromPrefix");
    job->to_prefix = read_prefix(r, "toPrefix");
out:
    return rc;
}

/* ---- one document ---- */

/* Counts a failure and keeps its sentence; ends a complete import. */
static enum errc reject(struct import_job *job, size_t position, struct slice offender,
                        const struct error *why, struct error *err)
{
    struct arena *arena = job->call.r->arena;
    struct error full = *why;
    size_t shown = offender.len < OFFENDER_BYTES ? offender.len : OFFENDER_BYTES;

    wrap(&full, "at position %zu", position);
    job->errors++;
    if (job->is_complete) {
        *err = full;
        return full.code;
    }
    if (job->wants_details && job->detail_count < DETAILS_MAX) {
        const char *text =
            arena_printf(arena, "%s, offending document: %.*s%s", full.text, (int)shown,
                         shown ? offender.ptr : "", shown < offender.len ? "..." : "");
        job->details[job->detail_count++] = text_clean(arena, slice_str(text));
    }
    return OK;
}

/* "name" -> "prefix/name"; an id with its own collection stays unless prefixes replace it. */
static struct val with_prefix(const struct import_job *job, struct val v, struct slice prefix)
{
    struct arena *arena = job->call.r->arena;
    struct slice text = val_string(v);
    const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;

    if (val_type(v) != VAL_STRING || !prefix.len || (slash && !job->replaces_prefix))
        return v;
    if (slash)
        text = slice_of(slash + 1, (size_t)(text.ptr + text.len - slash - 1));
    return val_new_string(
        arena, slice_str(arena_printf(arena, "%.*s/%.*s", SLICE_ARG(prefix), SLICE_ARG(text))));
}

static struct val add_prefixes(const struct import_job *job, struct val doc)
{
    const struct {
        struct slice name, prefix;
    } ends[] = { { slice_str("_from"), job->from_prefix }, { slice_str("_to"), job->to_prefix } };
    struct slice names[2];
    struct val values[2], v;
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (!ends[i].prefix.len || !val_find(doc, ends[i].name, &v))
            continue;
        names[n] = ends[i].name;
        values[n++] = with_prefix(job, v, ends[i].prefix);
    }
    if (!n)
        return doc;
    struct arena *arena = job->call.r->arena;
    return val_merge(arena, doc, val_new_object(arena, names, values, n));
}

static enum errc store_one(struct import_job *job, size_t position, struct val doc,
                           struct slice offender, struct error *err)
{
    struct doc_call *d = &job->call;
    struct doc_change change;
    struct error why = { 0 };
    size_t mark = txn_mark(d->t);
    enum errc rc = val_type(doc) == VAL_OBJECT
                       ? doc_call_apply(d, slice_of(NULL, 0), add_prefixes(job, doc), &change, &why)
                       : fail_num(&why, 1227, "%s is not a document", val_type_name(val_type(doc)));

    if (rc == OK) {
        job->ignored += change.is_ignored;
        job->updated += !change.is_ignored && change.old_rev.len;
        job->created += !change.is_ignored && !change.old_rev.len;
        return arena_check(d->r->arena, err);
    }
    txn_rewind(d->t, mark);
    if (doc_error_is_fatal(rc)) {
        *err = why;
        return rc;
    }
    return reject(job, position, offender, &why, err);
}

/* ---- the three forms ---- */

static struct slice trim(struct slice s)
{
    while (s.len && strchr(" \t\r", s.ptr[0]))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len && strchr(" \t\r", s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static bool next_line(struct slice *rest, struct slice *line)
{
    if (!rest->len)
        return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    size_t skip = end ? len + 1 : len;
    *line = trim(slice_of(rest->ptr, len));
    *rest = slice_of(rest->ptr + skip, rest->len - skip);
    return true;
}

static enum errc import_array(struct import_job *job, struct slice body, struct error *err)
{
    struct val all;
    enum errc rc = val_parse(body, job->call.r->arena, &all, err);

    if (rc == OK && val_type(all) != VAL_ARRAY)
        rc = fail(err, ERR_INVALID, "the body must be an array of documents");
    for (size_t i = 0; rc == OK && i < val_count(all); i++) {
        struct val doc = val_at(all, i);
        struct buf text;
        buf_init(&text, 0);
        if (job->wants_details)
            val_print(doc, &text);
        rc = store_one(job, i + 1, doc, buf_slice(&text), err);
        buf_release(&text);
    }
    return rc;
}

/* A value of one line; a broken one counts as a failed document. */
static enum errc parse_line(struct import_job *job, size_t position, struct slice line,
                            struct val *out, bool *is_good, struct error *err)
{
    struct error why = { 0 };

    *is_good = val_parse(line, job->call.r->arena, out, &why) == OK;
    return *is_good ? OK : reject(job, position, line, &why, err);
}

static enum errc import_lines(struct import_job *job, struct slice body, struct error *err)
{
    enum errc rc = OK;
    struct slice line;
    struct val doc;
    bool is_good;

    for (size_t i = 1; rc == OK && next_line(&body, &line); i++) {
        if (!line.len) {
            job->empty++;
            continue;
        }
        rc = parse_line(job, i, line, &doc, &is_good, err);
        if (rc == OK && is_good)
            rc = store_one(job, i, doc, line, err);
    }
    return rc;
}

static enum errc read_names(struct import_job *job, struct slice *body, struct slice **names,
                            size_t *count, struct error *err)
{
    struct slice line = slice_of(NULL, 0);
    struct val head = val_null;

    while (!line.len && next_line(body, &line))
        job->empty += !line.len;
    if (!line.len)
        return OK;
    enum errc rc = val_parse(line, job->call.r->arena, &head, err);
    if (rc != OK)
        return rc;
    *count = val_count(head);
    *names = arena_alloc(job->call.r->arena, (*count + 1) * sizeof **names);
    for (size_t i = 0; i < *count; i++) {
        (*names)[i] = val_string(val_at(head, i));
        for (size_t k = 0; k <= i; k++)
            if (!(*names)[i].len || (k < i && slice_eq((*names)[k], (*names)[i])))
                return fail(err, ERR_INVALID,
                            "the first line names an attribute twice or not at all");
    }
    if (val_type(head) != VAL_ARRAY || !*count)
        return fail(err, ERR_INVALID, "the first line must be an array of attribute names");
    return OK;
}

static enum errc check_row(const struct import_job *job, struct val row, size_t names,
                           struct error *err)
{
    if (val_type(row) != VAL_ARRAY)
        return fail(err, ERR_INVALID, "the line is not an array of values");
    if (val_count(row) > names || (val_count(row) < names && !job->ignores_missing))
        return fail(err, ERR_INVALID, "the line has %zu values for %zu attributes", val_count(row),
                    names);
    return OK;
}

static enum errc import_table(struct import_job *job, struct slice body, struct error *err)
{
    struct arena *arena = job->call.r->arena;
    struct slice *names = NULL, line;
    size_t count = 0;
    struct val row;
    bool is_good;
    enum errc rc = read_names(job, &body, &names, &count, err);
    struct val *values = arena_alloc(arena, (count + 1) * sizeof *values);

    for (size_t i = 2; rc == OK && next_line(&body, &line); i++) {
        struct error why = { 0 };
        if (!line.len) {
            job->empty++;
            continue;
        }
        rc = parse_line(job, i, line, &row, &is_good, err);
        if (rc != OK || !is_good)
            continue;
        if (check_row(job, row, count, &why) != OK) {
            rc = reject(job, i, line, &why, err);
            continue;
        }
        for (size_t k = 0; k < val_count(row); k++)
            values[k] = val_at(row, k);
        rc = store_one(job, i, val_new_object(arena, names, values, val_count(row)), line, err);
    }
    return rc;
}

/* ---- the transaction ---- */

/* A try begins with what the parameters say, and with no counts. */
struct import_try {
    struct import_job *job, fresh;
};

static void start_over(struct import_try *t)
{
    struct doc_call call = t->job->call;

    *t->job = t->fresh;
    t->job->call = call;
}

static enum errc import_step(struct doc_call *d, void *ctx, struct error *err)
{
    struct import_try *t = ctx;
    struct import_job *job = t->job;
    struct slice body = request_body(d->r);
    enum errc rc = OK;

    start_over(t);
    if (job->overwrites) /* in the same transaction: a failed import loses nothing */
        rc = doc_remove_all(d->t, d->c, err);
    if (rc != OK)
        return rc;
    switch (job->form) {
    case IMPORT_LINES:
        return import_lines(job, body, err);
    case IMPORT_ARRAY:
        return import_array(job, body, err);
    case IMPORT_TABLE:
        return import_table(job, body, err);
    }
    BUG("unknown form of import %d", job->form);
}

static void answer(struct import_job *job)
{
    struct reply a;

    reply_begin(&a, job->call.r);
    reply_int(&a, "created", job->created);
    reply_int(&a, "errors", job->errors);
    reply_int(&a, "empty", job->empty);
    reply_int(&a, "updated", job->updated);
    reply_int(&a, "ignored", job->ignored);
    if (job->wants_details) {
        reply_list(&a, "details");
        for (size_t i = 0; i < job->detail_count; i++)
            reply_val(&a, NULL, job->details[i]);
        reply_close(&a);
    }
    reply_send(&a, 201);
}

static void post_import(struct request *r)
{
    struct error err = { 0 };
    struct import_job *job = ARENA_NEW(r->arena, struct import_job);

    job->call = (struct doc_call){ .r = r, .op = DOC_INSERT };
    enum errc rc = read_job(job, &err);
    struct import_try *t = ARENA_NEW(r->arena, struct import_try);
    *t = (struct import_try){ job, *job };
    if (rc == OK)
        rc = doc_call_write(&job->call, import_step, t, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    doc_call_end(&job->call);
    answer(job);
}

const struct route api_arango_import_routes[] = {
    { METHOD_POST,
      "/_api/import?collection&type&onDuplicate&overwrite&complete&details&waitForSync"
      "&fromPrefix&toPrefix&overwriteCollectionPrefix&ignoreMissing",
      ROLE_USER, ON_POOL_TRX, BODY_MAX, post_import, "Inserts many documents." },
    { 0 },
};
