/* SPDX-License-Identifier: Apache-2.0 */
#include "server/doc_call.h"
#include "server/server_access.h"

static enum errc read_overwrite(struct request *r, struct doc_options *opt, struct error *err)
{
    static const struct {
        const char *name;
        enum overwrite_mode mode;
    } modes[] = { { "conflict", OVERWRITE_CONFLICT },
                  { "ignore", OVERWRITE_IGNORE },
                  { "replace", OVERWRITE_REPLACE },
                  { "update", OVERWRITE_UPDATE } };
    struct slice text;
    bool is_on;
    enum errc rc = request_flag(r, "overwrite", false, &is_on, err);

    if (is_on)
        opt->overwrite = OVERWRITE_REPLACE;
    if (rc != OK || !request_word(r, "overwriteMode", &text))
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (slice_is(text, modes[i].name)) {
            opt->overwrite = modes[i].mode;
            return OK;
        }
    }
    return fail(err, ERR_INVALID, "overwriteMode must be conflict, ignore, replace or update");
}

struct slice doc_header_rev(struct request *r, const char *name)
{
    struct slice rev = exchange_header(r->x, name);

    if (rev.len >= 2 && rev.ptr[0] == '"' && rev.ptr[rev.len - 1] == '"')
        rev = slice_of(rev.ptr + 1, rev.len - 2);
    return rev;
}

enum errc doc_call_read(struct doc_call *d, struct error *err)
{
    enum errc rc = OK;
    struct request *r = d->r;
    struct doc_params *p = &d->p;
    bool keep_null, merge, ignore_revs, refill;

    *p = (struct doc_params){ 0 };
    TRY(request_flag(r, "returnNew", false, &p->return_new, err));
    TRY(request_flag(r, "returnOld", false, &p->return_old, err));
    TRY(request_flag(r, "silent", false, &p->is_silent, err));
    TRY(request_flag(r, "waitForSync", false, &p->wait_for_sync, err));
    TRY(request_flag(r, "keepNull", true, &keep_null, err));
    TRY(request_flag(r, "mergeObjects", true, &merge, err));
    TRY(request_flag(r, "ignoreRevs", true, &ignore_revs, err));
    TRY(request_flag(r, "refillIndexCaches", false, &refill,
                     err)); /* indexes have no cache to fill */
    TRY(read_overwrite(r, &p->opt, err));
    request_param(r, "versionAttribute", &p->version_attribute);
    p->opt.leaves_old = !p->return_old;
    p->opt.drop_nulls = !keep_null;
    p->opt.replace_objects = !merge;
    p->opt.check_rev = !ignore_revs;
    p->opt.if_rev = doc_header_rev(r, "if-match");
out:
    return rc;
}

enum errc doc_call_begin(struct doc_call *d, struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT,
                               .is_read_only = d->op == DOC_READ,
                               .must_sync = d->p.wait_for_sync };
    enum errc rc = request_begin(d->r, &opt, &d->t, err);

    if (rc == OK)
        rc = request_collection(d->r, d->t, d->r->params[0], &d->c, err);
    if (rc == OK && d->op != DOC_READ)
        rc = request_may_use(d->r, d->c->name, ACCESS_WRITE, err);
    if (rc == OK && d->op != DOC_READ && server_owns(d->c->name))
        rc = server_access_check(d->c->name, ACCESS_WRITE, err);
    return rc;
}

void doc_call_end(struct doc_call *d)
{
    request_end(d->r, d->t);
    d->t = NULL;
}

static enum errc write_once(struct doc_call *d,
                            enum errc (*step)(struct doc_call *d, void *ctx, struct error *err),
                            void *ctx, bool *is_conflict, struct error *err)
{
    enum errc rc = OK;

    *is_conflict = false;
    TRY(doc_call_begin(d, err));
    TRY(step(d, ctx, err));
    rc = request_commit(d->r, d->t, err);
    *is_conflict = rc == ERR_CONFLICT;
out:
    if (rc != OK)
        doc_call_end(d);
    return rc;
}

enum errc doc_call_write(struct doc_call *d,
                         enum errc (*step)(struct doc_call *d, void *ctx, struct error *err),
                         void *ctx, struct error *err)
{
    struct arena_mark mark = arena_mark(d->r->arena);
    bool is_conflict;

    for (int tries = 0;; tries++) {
        *err = (struct error){ 0 };
        enum errc rc = write_once(d, step, ctx, &is_conflict, err);
        if (rc == OK || !is_conflict || tries == DOC_COMMIT_TRIES)
            return rc;
        arena_rewind(d->r->arena, mark);
    }
}

/* ---- versionAttribute: an update that carries an older version is passed over ---- */

static bool is_passed_over(const struct doc_call *d, struct val now, struct val body)
{
    struct val old = val_get(now, d->p.version_attribute);
    struct val new = val_get(body, d->p.version_attribute);

    return val_type(old) == VAL_NUMBER && val_type(new) == VAL_NUMBER && val_double(old) >= 0 &&
           val_double(new) >= 0 && val_compare(old, new, NULL) >= 0;
}

static enum errc check_version(struct doc_call *d, struct slice key, struct val body,
                               struct doc_change *change, bool *is_over, struct error *err)
{
    struct arena *arena = d->r->arena;
    struct error why = { 0 };
    struct val now = val_null;

    *is_over = false;
    if (d->op == DOC_INSERT && d->p.opt.overwrite != OVERWRITE_REPLACE &&
        d->p.opt.overwrite != OVERWRITE_UPDATE)
        return OK;
    if (!key.len)
        key = val_string(val_get(body, slice_str("_key")));
    enum errc rc = key.len ? doc_get(d->t, d->c, key, arena, &now, &why) : ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND) /* the write itself says so, or inserts */
        return OK;
    if (rc != OK) {
        *err = why;
        return rc;
    }
    *is_over = is_passed_over(d, now, body);
    if (*is_over)
        *change = (struct doc_change){ .key = val_string(val_get(now, slice_str("_key"))),
                                       .id = val_string(val_get(now, slice_str("_id"))),
                                       .rev = val_string(val_get(now, slice_str("_rev"))),
                                       .old_rev = val_string(val_get(now, slice_str("_rev"))),
                                       .old_doc = now,
                                       .new_doc = now,
                                       .is_ignored = true };
    return OK;
}

/* An element of an array may name the revision that it means to remove. */
static enum errc remove_element(struct doc_call *d, struct slice key, struct val body,
                                struct doc_change *change, struct error *err)
{
    struct doc_options opt = d->p.opt;
    struct slice rev = val_string(val_get(body, slice_str("_rev")));

    if (opt.check_rev && !opt.if_rev.len)
        opt.if_rev = rev;
    return doc_remove(d->t, d->c, key, &opt, d->r->arena, change, err);
}

enum errc doc_call_apply(struct doc_call *d, struct slice key, struct val body,
                         struct doc_change *change, struct error *err)
{
    struct arena *arena = d->r->arena;
    bool is_over = false;
    enum errc rc = OK;

    if (d->p.version_attribute.len)
        rc = check_version(d, key, body, change, &is_over, err);
    if (rc != OK || is_over)
        return rc;
    switch (d->op) {
    case DOC_INSERT:
        return doc_insert(d->t, d->c, body, &d->p.opt, arena, change, err);
    case DOC_UPDATE:
        return doc_update(d->t, d->c, key, body, &d->p.opt, arena, change, err);
    case DOC_REPLACE:
        return doc_replace(d->t, d->c, key, body, &d->p.opt, arena, change, err);
    case DOC_REMOVE:
        return remove_element(d, key, body, change, err);
    case DOC_READ:
        break;
    }
    BUG("document operation %d does not write", d->op);
}

/* ---- what happened ---- */

struct val doc_call_body(const struct doc_call *d, const struct doc_change *ch)
{
    struct slice names[6];
    struct val values[6];
    size_t n = 0;
    struct arena *arena = d->r->arena;
    bool is_passed = d->op == DOC_INSERT && ch->is_ignored;

    names[n] = slice_str("_id"), values[n++] = val_new_string(arena, ch->id);
    names[n] = slice_str("_key"), values[n++] = val_new_string(arena, ch->key);
    names[n] = slice_str("_rev"), values[n++] = val_new_string(arena, ch->rev);
    if (ch->old_rev.len && d->op != DOC_REMOVE)
        names[n] = slice_str("_oldRev"), values[n++] = val_new_string(arena, ch->old_rev);
    if (d->p.return_old && !val_is_null(ch->old_doc) && !is_passed)
        names[n] = slice_str("old"), values[n++] = ch->old_doc;
    if (d->p.return_new && d->op != DOC_REMOVE && !is_passed)
        names[n] = slice_str("new"), values[n++] = ch->new_doc;
    return val_new_object(arena, names, values, n);
}

int doc_call_status(const struct doc_call *d)
{
    if (!d->p.wait_for_sync && !d->c->wait_for_sync)
        return 202;
    return d->op == DOC_REMOVE ? 200 : 201;
}

struct val doc_call_error(struct arena *arena, const struct error *err)
{
    struct slice names[] = { slice_str("error"), slice_str("errorNum"), slice_str("errorMessage") };
    struct val values[] = { val_true, val_new_int(arena, error_num(err)),
                            text_clean(arena, slice_str(err->text)) };

    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

bool doc_error_is_fatal(enum errc rc)
{
    return rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_LIMIT || rc == ERR_INTERNAL;
}

enum errc doc_element_key(const struct collection *c, struct val v, struct slice *key,
                          struct error *err)
{
    struct slice text = val_string(val_type(v) == VAL_STRING ? v : val_get(v, slice_str("_key")));
    struct slice collection;

    if (!text.len)
        text = val_string(val_get(v, slice_str("_id")));
    if (!text.len)
        return fail_num(err, 1221, "the document names no _key");
    *key = text;
    if (!memchr(text.ptr, '/', text.len))
        return OK;
    if (!doc_split_id(text, &collection, key) || !slice_eq(collection, c->name))
        return fail_num(err, 1205, "'%.*s' is not a document of collection '%.*s'", SLICE_ARG(text),
                        SLICE_ARG(c->name));
    return OK;
}
