/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files first, then everything by what it should be: each document makes
 * its index entries, which must be there with these bytes; when as many entries
 * are there as all documents make, none is too many. What is left are rows under
 * numbers that the catalog does not know.
 */
#include "store/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/key.h"
#include "store/catalog_private.h"
#include "store/change_log.h"
#include "store/counter.h"
#include "store/disk.h"
#include "store/encryption.h"
#include "store/garbage.h"
#include "store/index_private.h"
#include "store/prepared.h"
#include "store/sealed.h"
#include "store/store_private.h"

enum { SHOWN_MAX = 10, LINE_BYTES = 1024 };

struct check {
    const struct check_options *opt;
    struct kv *kv;
    struct catalog *catalog;
    struct collator *collator;
    struct keyring *keys;           /* owned; NULL: encrypted values are counted only */
    struct arena *arena;            /* of one row */
    struct encryption_usage *usage; /* owned; of one collection */
    char where[2 * LIMIT_NAME_BYTES + 8];
    uint64_t found, found_here; /* problems: in all, in this section */
};

static void say(struct check *k, bool is_problem, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void say(struct check *k, bool is_problem, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    k->opt->say(k->opt->ctx, is_problem, line);
}

static void problem(struct check *k, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void problem(struct check *k, const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list args;
    k->found++;
    if (++k->found_here > SHOWN_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    say(k, true, "%s: %s", k->where, text);
}

static void begin_section(struct check *k, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void begin_section(struct check *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(k->where, sizeof k->where, fmt, args);
    va_end(args);
    k->found_here = 0;
}

static void end_section(struct check *k, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void end_section(struct check *k, const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (k->found_here > SHOWN_MAX)
        say(k, true, "%s: and %" PRIu64 " more", k->where, k->found_here - SHOWN_MAX);
    say(k, false, "%s: %s%s", k->where, text, k->found_here ? "" : ", sound");
}

/* ---- files and log ---- */

static void on_bad_file(void *ctx, const char *file, const char *what)
{
    problem(ctx, "%s is damaged: %s", file, what);
}

static enum errc check_files(struct check *k, struct error *err)
{
    size_t files = 0;
    begin_section(k, "files");
    enum errc rc = kv_check_files(k->kv, on_bad_file, k, &files, err);
    if (rc == OK)
        end_section(k, "%zu tables", files);
    return rc;
}

/* Each record is a batch; numbers rise. The last must not be below the mark. */
static void check_log(struct check *k)
{
    struct kv_iter *it = NULL;
    struct error err;
    uint64_t records = 0, last = 0, mark = 0;
    bool has_mark = false;
    begin_section(k, "commit log");
    enum errc rc =
        kv_iter_new(&it, k->kv, NULL, KV_LOG, &(struct kv_scan){ .is_large = true }, &err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it), records++) {
        struct change_record commit;
        struct kv_record record;
        size_t at = 0;
        if (!change_record_decode(kv_iter_key(it), kv_iter_value(it), &commit)) {
            problem(k, "a record of %zu and %zu bytes is none", kv_iter_key(it).len,
                    kv_iter_value(it).len);
            continue;
        }
        last = commit.seq;
        while (kv_batch_next(commit.batch, &at, &record))
            ;
        if (at != commit.batch.len)
            problem(k, "commit %" PRIu64 " is damaged at byte %zu", last, at);
    }
    if (rc == OK)
        rc = kv_iter_check(it, &err);
    if (rc == OK)
        rc = disk_read_mark(k->opt->path, &mark, &has_mark, &err);
    if (rc != OK)
        problem(k, "%s", err.text);
    else if (has_mark && mark > last)
        problem(k, "acknowledged commits %" PRIu64 " to %" PRIu64 " are missing", last + 1, mark);
    kv_iter_free(it);
    end_section(k, "%" PRIu64 " commits kept, the last is %" PRIu64 ", acknowledged %s%" PRIu64,
                records, last, has_mark ? "" : "unknown, not ", mark);
}

static void check_prepared(struct check *k)
{
    struct kv_iter *it = NULL;
    struct error err;
    struct buf from, to;
    uint64_t count = 0;
    begin_section(k, "prepared transactions");
    buf_init(&from, 0);
    buf_init(&to, 0);
    prepared_key(&from, slice_str(""));
    prepared_key(&to, slice_str(""));
    key_prefix_end(&to);
    enum errc rc =
        kv_iter_new(&it, k->kv, NULL, KV_META,
                    &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, &err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it), count++) {
        struct prepared_record record;
        struct slice name = kv_iter_key(it);
        if (prepared_decode(&record, kv_iter_value(it), &err) == OK)
            prepared_record_release(&record);
        else
            problem(k, "'%.*s': %s", SLICE_ARG(name), err.text);
    }
    if (rc == OK)
        rc = kv_iter_check(it, &err);
    if (rc != OK)
        problem(k, "%s", err.text);
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    end_section(k, "%" PRIu64, count);
}

/* ---- documents ---- */

static bool has_text(struct val doc, const char *name, struct slice want)
{
    struct val v = val_get(doc, slice_str(name));
    return val_type(v) == VAL_STRING && slice_eq(val_string(v), want);
}

static bool has_right_id(struct check *k, const struct collection *c, const struct row *row)
{
    const char *id = arena_printf(k->arena, "%.*s/%.*s", SLICE_ARG(c->name), SLICE_ARG(row->key));
    return has_text(row->doc, "_id", slice_str(id)) || c->is_renamed;
}

static bool is_vertex(struct val v)
{
    struct slice collection, key;
    return val_type(v) == VAL_STRING && doc_split_id(val_string(v), &collection, &key);
}

/* False: nothing more can be said of it. */
static bool check_document(struct check *k, const struct collection *c, struct slice key,
                           struct slice value, struct row *row)
{
    struct error err;
    uint64_t rev;
    if (key.len <= ROW_KEY_HEAD) {
        problem(k, "a row without a document key");
        return false;
    }
    *row = (struct row){ .key = slice_of(key.ptr + ROW_KEY_HEAD, key.len - ROW_KEY_HEAD),
                         .slot = key_read_u16(key.ptr + 8) };
    if (val_validate(value, &row->doc, &err) != OK || val_type(row->doc) != VAL_OBJECT) {
        problem(k, "document '%.*s' is damaged", SLICE_ARG(row->key));
        return false;
    }
    struct val from = val_get(row->doc, slice_str("_from"));
    if (!has_text(row->doc, "_key", row->key) || !has_right_id(k, c, row) ||
        !rev_decode(val_string(val_get(row->doc, slice_str("_rev"))), &rev))
        problem(k, "document '%.*s' has other system attributes", SLICE_ARG(row->key));
    else if (c->type == COLLECTION_EDGE &&
             !(is_vertex(from) && is_vertex(val_get(row->doc, slice_str("_to")))))
        problem(k, "edge '%.*s' has no vertices", SLICE_ARG(row->key));
    else if (row->slot != doc_slot(c, row->key, val_string(from)))
        problem(k, "document '%.*s' is in slot %u, not in its own", SLICE_ARG(row->key), row->slot);
    return true;
}

/* ---- encrypted values ---- */

static void check_sealed(struct check *k, const struct collection *c, const struct row *row)
{
    struct error err;
    struct val clear;
    sealed_each(c, row->doc, encryption_count_value, k->usage);
    if (k->keys && sealed_open_with(k->keys, c, row->key, row->doc, k->arena, &clear, &err) != OK)
        problem(k, "%s", err.text);
}

static void say_usage(struct check *k)
{
    const struct encryption_usage *u = k->usage;
    for (size_t i = 0; i < u->key_count; i++)
        say(k, false, "%s: %" PRIu64 " values are encrypted with the key '%s'%s", k->where,
            u->keys[i].values, u->keys[i].key_id,
            k->keys ? "" : ", which was not given: they are not decrypted");
    if (u->clear)
        say(k, false, "%s: %" PRIu64 " values of encrypted attributes are in clear text", k->where,
            u->clear);
}

static enum errc open_keys(struct check *k, struct error *err)
{
    const struct settings *s = k->opt->settings;
    if (!s || !s->encryption_key_file[0])
        return OK;
    return keyring_load(&k->keys, s->encryption_key_file, s->encryption_key_id, err);
}

/* ---- index entries ---- */

/* Where the row of an edge is. */
static struct index_entry *primary_entry(struct check *k, const struct index_def *index,
                                         const struct row *row)
{
    struct index_entry *e = arena_alloc(k->arena, sizeof *e);
    struct buf key, value;
    buf_init(&key, 0);
    buf_init(&value, 0);
    key_add_u64(&key, index->object_id);
    buf_add_slice(&key, row->key);
    key_add_u16(&value, row->slot);
    *e = (struct index_entry){ arena_copy(k->arena, buf_slice(&key)),
                               arena_copy(k->arena, buf_slice(&value)) };
    buf_release(&key);
    buf_release(&value);
    return e;
}

static enum errc make_entries(struct check *k, const struct collection *c,
                              const struct index_def *index, const struct row *row,
                              struct index_entries *out, struct error *err)
{
    if (index->kind != INDEX_PRIMARY)
        return index_entries_make(out, c, index, k->collator, row, k->arena, err);
    *out = (struct index_entries){ 0 };
    if (c->type == COLLECTION_EDGE) {
        out->at = primary_entry(k, index, row);
        out->count = 1;
    }
    return OK;
}

static void check_entry(struct check *k, const struct index_def *index, const struct row *row,
                        const struct index_entry *e)
{
    struct slice there;
    struct error err;
    enum errc rc = kv_get(k->kv, NULL, KV_INDEX, e->key, k->arena, &there, &err);
    if (rc == ERR_NOT_FOUND)
        problem(k, "index %.*s has no entry for document '%.*s'", SLICE_ARG(index->name),
                SLICE_ARG(row->key));
    else if (rc != OK)
        problem(k, "index %.*s, document '%.*s': %s", SLICE_ARG(index->name), SLICE_ARG(row->key),
                err.text);
    else if (!slice_eq(there, e->value))
        problem(k, "index %.*s has another entry for document '%.*s'", SLICE_ARG(index->name),
                SLICE_ARG(row->key));
}

static bool is_current(const struct check *k, const struct index_def *index)
{
    return index->is_ready &&
           slice_is(index->collator_version, index_order_version(index, k->collator));
}

static void check_entries_of(struct check *k, const struct collection *c, const struct row *row,
                             uint64_t *made)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        struct index_entries entries;
        struct error err;
        if (!is_current(k, index))
            continue;
        if (make_entries(k, c, index, row, &entries, &err) != OK) {
            problem(k, "index %.*s cannot hold document '%.*s': %s", SLICE_ARG(index->name),
                    SLICE_ARG(row->key), err.text);
            continue;
        }
        made[i] += entries.count;
        for (size_t n = 0; n < entries.count; n++)
            check_entry(k, index, row, &entries.at[n]);
    }
}

/* ---- a collection ---- */

static enum errc scan_object(struct check *k, enum kv_family f, uint64_t object_id,
                             struct kv_iter **out, struct error *err)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, object_id);
    key_add_u64(&to, object_id + 1);
    enum errc rc = kv_iter_new(
        out, k->kv, NULL, f,
        &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to), .is_large = true }, err);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

/* Reads all documents; made counts the entries that they need in each index. */
static enum errc check_documents(struct check *k, const struct collection *c, uint64_t *documents,
                                 uint64_t *made, struct error *err)
{
    struct kv_iter *it = NULL;
    enum errc rc = scan_object(k, KV_DOC, c->object_id, &it, err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it), ++*documents) {
        struct arena_mark mark = arena_mark(k->arena);
        struct row row;
        if (check_document(k, c, kv_iter_key(it), kv_iter_value(it), &row)) {
            check_entries_of(k, c, &row, made);
            check_sealed(k, c, &row);
        }
        arena_rewind(k->arena, mark);
    }
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    return rc;
}

static void check_index_size(struct check *k, const struct index_def *index, uint64_t made)
{
    struct kv_iter *it = NULL;
    struct error err;
    uint64_t entries = 0;
    enum errc rc = scan_object(k, KV_INDEX, index->object_id, &it, &err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it))
        entries++;
    if (rc == OK)
        rc = kv_iter_check(it, &err);
    kv_iter_free(it);
    if (rc != OK)
        problem(k, "index %.*s: %s", SLICE_ARG(index->name), err.text);
    else if (entries != made)
        problem(k, "index %.*s has %" PRIu64 " entries, its documents make %" PRIu64,
                SLICE_ARG(index->name), entries, made);
}

static void check_count(struct check *k, const struct collection *c, uint64_t documents)
{
    struct error err;
    int64_t count = 0;
    if (counter_read(k->kv, NULL, COUNTER_DOCUMENTS, c->object_id, &count, &err) != OK)
        problem(k, "%s", err.text);
    else if (count < 0 || (uint64_t)count != documents)
        problem(k, "%" PRIu64 " documents are there, %" PRId64 " are counted", documents, count);
}

static void check_collection(struct check *k, const struct database *db, const struct collection *c)
{
    struct error err;
    uint64_t documents = 0;
    uint64_t *made = mem_zalloc((c->index_count + 1) * sizeof *made);
    *k->usage = (struct encryption_usage){ 0 };
    begin_section(k, "%.*s/%.*s", SLICE_ARG(db->name), SLICE_ARG(c->name));
    enum errc rc = check_documents(k, c, &documents, made, &err);
    if (rc == OK)
        check_count(k, c, documents);
    else
        problem(k, "reading ended behind %" PRIu64 " documents: %s", documents, err.text);
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        if (!is_current(k, index))
            say(k, false, "%s: index %.*s is not ready and is built at the next start", k->where,
                SLICE_ARG(index->name));
        else if (rc == OK)
            check_index_size(k, index, made[i]);
    }
    say_usage(k);
    end_section(k, "%" PRIu64 " documents, %zu indexes", documents, c->index_count);
    mem_free(made);
}

/* ---- rows of nothing ---- */

static bool is_known_object(struct check *k, uint64_t object_id)
{
    const struct index_def *index;
    struct slice value;
    struct error err;
    struct buf key;
    if (catalog_by_object(k->catalog, object_id, &index))
        return true;
    buf_init(&key, 0);
    garbage_key(&key, object_id);
    enum errc rc = kv_get(k->kv, NULL, KV_META, buf_slice(&key), k->arena, &value, &err);
    buf_release(&key);
    return rc == OK;
}

/* Goes from object to object, not from row to row. */
static void check_objects(struct check *k, enum kv_family f, const char *what)
{
    struct kv_iter *it = NULL;
    struct error err;
    struct buf next;
    buf_init(&next, 0);
    enum errc rc = kv_iter_new(&it, k->kv, NULL, f, &(struct kv_scan){ 0 }, &err);
    while (rc == OK && kv_iter_valid(it)) {
        struct slice key = kv_iter_key(it);
        uint64_t object_id = key.len >= 8 ? key_read_u64(key.ptr) : 0;
        if (key.len < 8 || !is_known_object(k, object_id))
            problem(k, "%s of object %" PRIu64 ", which is in no collection", what, object_id);
        buf_clear(&next);
        key_add_u64(&next, object_id + 1);
        kv_iter_seek(it, buf_slice(&next));
    }
    if (rc == OK)
        rc = kv_iter_check(it, &err);
    if (rc != OK)
        problem(k, "%s: %s", what, err.text);
    kv_iter_free(it);
    buf_release(&next);
}

/* ---- all of it ---- */

static void check_collections(struct check *k)
{
    for (size_t i = 0; i < k->catalog->database_count; i++) {
        const struct database *db = &k->catalog->databases[i];
        for (size_t j = 0; j < db->collection_count; j++)
            check_collection(k, db, &db->collections[j]);
    }
    begin_section(k, "rows outside of collections");
    check_objects(k, KV_DOC, "documents");
    check_objects(k, KV_INDEX, "index entries");
    end_section(k, "looked for");
}

/* A damaged log is a problem of its own; what is in front of the damage is looked at. */
static enum errc open_kv(struct check *k, struct error *err)
{
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s/rocks", k->opt->path);
    struct kv_options opt = { .path = buf_cstr(&path), .is_read_only = true };
    struct error why;
    enum errc rc = kv_open(&k->kv, &opt, &why);
    if (rc == ERR_CORRUPT) {
        opt.cuts_log = true;
        rc = kv_open(&k->kv, &opt, &why);
        begin_section(k, "write-ahead log");
        if (rc == OK)
            problem(k, "damaged; what follows the damage is not looked at");
    }
    buf_release(&path);
    if (rc != OK && err)
        *err = why;
    return rc;
}

enum errc store_check(const struct check_options *opt, uint64_t *problems, struct error *err)
{
    struct check k = { .opt = opt, .arena = arena_new(0) };
    struct arena *arena = arena_new(0);
    enum errc rc = OK;
    char locale[64];
    bool is_new;
    k.usage = mem_zalloc(sizeof *k.usage);
    TRY(open_keys(&k, err));
    TRY(open_kv(&k, err));
    TRY(check_files(&k, err));
    TRY(store_check_format(k.kv, arena, &is_new, err));
    TRY(store_load_catalog(k.kv, arena, &k.catalog, err));
    snprintf(locale, sizeof locale, "%.*s", SLICE_ARG(k.catalog->locale));
    TRY(collator_open(&k.collator, locale, err));
    check_log(&k);
    check_prepared(&k);
    check_collections(&k);
out:
    *problems = k.found;
    collator_close(k.collator);
    catalog_unref(k.catalog);
    kv_close(k.kv);
    keyring_free(k.keys);
    mem_free(k.usage);
    arena_free(arena);
    arena_free(k.arena);
    return rc;
}
