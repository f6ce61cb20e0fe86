/* SPDX-License-Identifier: Apache-2.0 */
#include "server/change_json.h"

#include "base/val_text.h"
#include "server/collection_reply.h"
#include <inttypes.h>
#include <time.h>

/* ---- which ---- */

enum errc change_filter_names(struct change_filter *f, struct request *r, struct slice list,
                              struct error *err)
{
    while (list.len) {
        const char *comma = memchr(list.ptr, ',', list.len);
        struct slice name = slice_of(list.ptr, comma ? (size_t)(comma - list.ptr) : list.len);
        if (!name.len)
            return fail(err, ERR_INVALID, "collections must be names with commas between them");
        if (f->count == CHANGE_NAMES_MAX)
            return fail(err, ERR_INVALID, "collections takes at most %d names", CHANGE_NAMES_MAX);
        f->names[f->count++] = arena_copy(r->arena, name);
        size_t used = name.len + (comma ? 1 : 0);
        list = slice_of(list.ptr + used, list.len - used);
    }
    return OK;
}

enum errc change_filter_read(struct change_filter *f, struct request *r, struct error *err)
{
    struct slice names;
    enum errc rc = request_database_id(r, &f->db_id, err);

    if (rc == OK && request_word(r, "collections", &names))
        rc = change_filter_names(f, r, names, err);
    for (size_t i = 0; rc == OK && i < f->count; i++)
        rc = request_may_use(r, f->names[i], ACCESS_READ, err);
    return rc;
}

static bool is_asked_for(const struct change_filter *f, struct slice name)
{
    for (size_t i = 0; i < f->count; i++)
        if (slice_eq(f->names[i], name))
            return true;
    return f->count == 0;
}

static bool may_read(struct request *r, const struct change *change)
{
    struct error ignored;
    struct access_rights *access = request_access(r);

    return !access ||
           access->allow(access, change->db, change->collection, ACCESS_READ, &ignored) == OK;
}

static bool takes_collection(struct change_filter *f, struct request *r,
                             const struct change *change)
{
    bool is_wanted = is_asked_for(f, change->collection->name) ||
                     (change->old_name.len && is_asked_for(f, change->old_name));

    return is_wanted && may_read(r, change);
}

bool change_filter_takes(struct change_filter *f, struct request *r, const struct change *change)
{
    bool is_row = change->kind == CHANGE_PUT || change->kind == CHANGE_REMOVE;
    uint64_t version = r->account ? user_version(r->account) : 0;

    if (!change->db || change->db->id != f->db_id)
        return false;
    if (!change->collection)
        return change->kind == CHANGE_DROP_DATABASE;
    if (is_row && f->known_id == change->collection->id && f->known_version == version)
        return f->known;
    f->known = takes_collection(f, r, change);
    f->known_id = is_row ? change->collection->id : 0;
    f->known_version = version;
    return f->known;
}

/* ---- text ---- */

void change_text_init(struct change_text *t, struct request *r)
{
    *t = (struct change_text){ .r = r, .values = val_builder_new(0) };
    buf_init(&t->out, 0);
}

void change_text_release(struct change_text *t)
{
    buf_release(&t->out);
    val_builder_free(t->values);
}

void change_text_flush(struct change_text *t, bool is_last)
{
    if (t->out.len < CHANGE_PIECE_BYTES && !is_last)
        return;
    t->bytes += t->out.len;
    t->is_gone = t->is_gone || (t->out.len && !exchange_write(t->r->x, buf_slice(&t->out)));
    buf_clear(&t->out);
    if (t->out.cap > 4 * CHANGE_PIECE_BYTES) { /* of a large document */
        buf_release(&t->out);
        buf_init(&t->out, 0);
    }
}

static void put_text(struct change_text *t, const char *name, struct slice text)
{
    buf_printf(&t->out, "\"%s\":", name);
    val_print_string(text, &t->out);
}

void change_put_history(struct change_text *t)
{
    put_text(t, "history", slice_str(change_history(t->r->ctx->store)));
}

void change_put_time(struct change_text *t, const char *name, uint64_t time_us)
{
    char text[32];
    struct tm tm;
    time_t seconds = (time_t)(time_us / 1000000);

    if (!time_us) {
        buf_printf(&t->out, "\"%s\":null", name);
        return;
    }
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(&t->out, "\"%s\":\"%s.%06uZ\"", name, text, (unsigned)(time_us % 1000000));
}

static void put_properties(struct change_text *t, const struct collection *c)
{
    struct reply a = { t->r, t->values };
    struct error err = { 0 };
    struct val v;

    val_builder_reset(t->values);
    val_open_object(t->values);
    collection_put_basic(&a, c);
    collection_put_properties(&a, c);
    val_close(t->values);
    if (val_finish(t->values, &v, &err) == OK)
        val_print(v, &t->out);
    else
        buf_add_str(&t->out, "null");
}

static bool is_made_by_users(const struct index_def *index)
{
    return index->kind != INDEX_PRIMARY && index->kind != INDEX_EDGE;
}

/* The definition as it can be sent to make it again, and its id. */
static void put_index(struct change_text *t, const struct collection *c,
                      const struct index_def *index)
{
    buf_printf(&t->out, "{\"id\":\"%.*s/%" PRIu64 "\",\"definition\":", SLICE_ARG(c->name),
               index->id);
    val_print(index->def, &t->out);
    buf_add_char(&t->out, '}');
}

void change_put_collection(struct change_text *t, const struct collection *c, bool has_indexes)
{
    bool is_first = true;

    buf_add_str(&t->out, "\"properties\":");
    put_properties(t, c);
    if (!has_indexes)
        return;
    buf_add_str(&t->out, ",\"indexes\":[");
    for (size_t i = 0; i < c->index_count; i++) {
        if (!is_made_by_users(&c->indexes[i]) || !c->indexes[i].is_ready)
            continue;
        buf_add_str(&t->out, is_first ? "" : ",");
        put_index(t, c, &c->indexes[i]);
        is_first = false;
    }
    buf_add_char(&t->out, ']');
}

void change_put(struct change_text *t, const struct change *change)
{
    put_text(t, "type", slice_str(change_kind_name(change->kind)));
    if (!change->collection) /* of the database */
        return;
    buf_add_char(&t->out, ',');
    put_text(t, "collection", change->collection->name);
    switch (change->kind) {
    case CHANGE_PUT:
        buf_add_char(&t->out, ',');
        put_text(t, "key", change->key);
        buf_add_str(&t->out, ",\"document\":");
        val_print(change->doc, &t->out);
        break;
    case CHANGE_REMOVE:
        buf_add_char(&t->out, ',');
        put_text(t, "key", change->key);
        break;
    case CHANGE_RENAME_COLLECTION:
        buf_add_char(&t->out, ',');
        put_text(t, "oldName", change->old_name);
        break;
    case CHANGE_CREATE_COLLECTION:
    case CHANGE_SET_COLLECTION:
        buf_add_char(&t->out, ',');
        change_put_collection(t, change->collection, false);
        break;
    case CHANGE_CREATE_INDEX:
    case CHANGE_DROP_INDEX:
        buf_add_str(&t->out, ",\"index\":");
        put_index(t, change->collection, change->index);
        break;
    case CHANGE_CREATE_DATABASE:
    case CHANGE_DROP_DATABASE:
    case CHANGE_DROP_COLLECTION:
    case CHANGE_TRUNCATE_COLLECTION:
        break;
    }
}
