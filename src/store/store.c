/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a store: rocks/ (RocksDB), acknowledged (the mark of durable commits)
 * and vectors/ (segments of vector indexes). Opening checks in this order: lock,
 * write-ahead log, format version, mark against the last commit of the log; then
 * loads ids, garbage list and catalog.
 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/key.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_plan.h"
#include "store/change_private.h"
#include "store/salvage.h"
#include "store/sealed.h"
#include "store/store_private.h"
#include "store/vectors.h"

enum { PREPARED_WAIT_MS_DEFAULT = 10000 };
enum { SYSTEM_DATABASE_ID = 1 };

static const char format_key[] = "format", catalog_key[] = "catalog";

static struct memory_plan plan_of(const struct store *s)
{
    struct memory_plan plan;
    memory_plan_make(&plan, s->settings, machine_memory_bytes());
    return plan;
}

static enum errc open_kv(struct store *s, bool accept_loss, struct error *err)
{
    struct memory_plan plan = plan_of(s);
    s->cache_bytes = plan.cache;
    struct kv_options opt = { .cache_bytes = plan.cache, .memtable_bytes = plan.memtables };
    struct error why = { 0 };
    struct buf path;
    buf_init(&path, 0);
    if (s->path) {
        buf_printf(&path, "%s/rocks", s->path);
        opt.path = buf_cstr(&path);
    }
    enum errc rc = kv_open(&s->kv, &opt, &why);
    if (rc == ERR_CORRUPT)
        rc = salvage_open(&s->kv,
                          &(struct salvage_options){
                              .dir = s->path, .kv = opt, .accept_loss = accept_loss, .why = &why },
                          err);
    else if (rc != OK && err)
        *err = why;
    buf_release(&path);
    return rc;
}

/* ---- format and first start ---- */

enum errc store_check_format(struct kv *kv, struct arena *arena, bool *is_new, struct error *err)
{
    struct slice value = { NULL, 0 };
    enum errc rc = kv_get(kv, NULL, KV_META, slice_str(format_key), arena, &value, err);
    *is_new = rc == ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND)
        return OK;
    if (rc != OK)
        return rc;
    if (value.len != 8)
        return fail(err, ERR_CORRUPT, "the format version has %zu bytes instead of 8", value.len);
    uint64_t version = key_read_u64(value.ptr);
    if (version > FORMAT_VERSION)
        return fail(err, ERR_INVALID,
                    "the store has format %" PRIu64
                    ", this program reads up to %d: use a newer one",
                    version, FORMAT_VERSION);
    return OK;
}

static enum errc create(struct store *s, const char *locale, struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct kv_batch batch;
    struct slice catalog;
    struct buf version;
    struct database db = { .id = SYSTEM_DATABASE_ID, .name = slice_str("_system") };
    struct catalog first = {
        .version = 1, .locale = slice_str(locale), .databases = &db, .database_count = 1
    };
    kv_batch_init(&batch);
    buf_init(&version, 0);
    key_add_u64(&version, FORMAT_VERSION);
    TRY(catalog_encode(&first, arena, &catalog, err));
    kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                              .family = KV_META,
                                              .key = slice_str(format_key),
                                              .value = buf_slice(&version) });
    kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                              .family = KV_META,
                                              .key = slice_str(catalog_key),
                                              .value = catalog });
    TRY(kv_write(s->kv, &batch, true, err));
out:
    kv_batch_release(&batch);
    buf_release(&version);
    return rc;
}

/* What an older program wrote is read as it is; what this one writes an older one must not read. */
static enum errc raise_format(struct store *s, struct arena *arena, struct error *err)
{
    struct slice value = { NULL, 0 };
    struct kv_batch batch;
    struct buf version;
    enum errc rc = kv_get(s->kv, NULL, KV_META, slice_str(format_key), arena, &value, err);
    if (rc != OK || key_read_u64(value.ptr) == FORMAT_VERSION)
        return rc;
    kv_batch_init(&batch);
    buf_init(&version, 0);
    key_add_u64(&version, FORMAT_VERSION);
    kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                              .family = KV_META,
                                              .key = slice_str(format_key),
                                              .value = buf_slice(&version) });
    rc = kv_write(s->kv, &batch, true, err);
    kv_batch_release(&batch);
    buf_release(&version);
    return rc;
}

enum errc store_load_catalog(struct kv *kv, struct arena *arena, struct catalog **out,
                             struct error *err)
{
    struct slice value = { NULL, 0 };
    enum errc rc = kv_get(kv, NULL, KV_META, slice_str(catalog_key), arena, &value, err);
    *out = NULL;
    if (rc == OK)
        return catalog_decode(out, value, err);
    if (rc != ERR_NOT_FOUND)
        return rc;
    fail(err, ERR_CORRUPT, "the store has no catalog");
    return ERR_CORRUPT;
}

/* ---- opening ---- */

static enum errc open_collator(struct store *s, const struct catalog *catalog, const char *asked,
                               struct error *err)
{
    char locale[64];
    snprintf(locale, sizeof locale, "%.*s", SLICE_ARG(catalog->locale));
    if (asked && strcmp(asked, locale) != 0)
        log_warn("store", "the store keeps its collation %s; %s was asked for", locale, asked);
    return collator_open(&s->collator, locale, err);
}

static enum errc open_committer(struct store *s, struct catalog *catalog, uint64_t last_seq,
                                struct error *err)
{
    uint64_t window = plan_of(s).window;
    struct prepared_limits limits = { .max_bytes = (size_t)window,
                                      .wait_ms = s->settings ? s->settings->prepared_wait_ms
                                                             : PREPARED_WAIT_MS_DEFAULT };
    enum errc rc = prepared_table_open(&s->prepared, s->kv, s->env, &limits, err);
    if (rc != OK)
        return rc;
    struct commit_parts parts = { .kv = s->kv,
                                  .ids = &s->ids,
                                  .disk = s->disk,
                                  .garbage = s->garbage,
                                  .prepared = s->prepared,
                                  .log = s->log,
                                  .last_seq = last_seq,
                                  .window_bytes = (size_t)window };
    return committer_new(&s->committer, &parts, catalog, err);
}

static enum errc open_log(struct store *s, uint64_t last_seq, struct error *err)
{
    struct change_log_options opt = { .kv = s->kv, .env = s->env, .last_seq = last_seq };
    if (s->settings) {
        opt.is_off = !s->settings->change_log;
        opt.keep_bytes = (uint64_t)s->settings->change_log_mb * MIB;
        opt.keep_us = (uint64_t)s->settings->change_log_max_age_s * 1000000;
    }
    return change_log_open(&s->log, &opt, err);
}

static enum errc open_parts(struct store *s, const struct store_options *opt, struct arena *arena,
                            struct error *err)
{
    enum errc rc = OK;
    bool is_new;
    uint64_t last_seq;
    struct catalog *catalog = NULL;
    uint64_t floor = plan_of(s).memtables + FREE_SPACE_MARGIN;
    TRY(sealed_load_keys(s, err));
    TRY(open_kv(s, opt->accept_loss, err));
    TRY(store_check_format(s->kv, arena, &is_new, err));
    if (is_new)
        TRY(create(s, opt->locale ? opt->locale : "und", arena, err));
    TRY(change_log_last(s->kv, &last_seq, err));
    s->disk = disk_new(s->path, floor);
    TRY(disk_check_mark(s->disk, last_seq, opt->accept_loss, err));
    TRY(ids_open(&s->ids, s->kv, s->env, opt->node, err));
    TRY(garbage_open(&s->garbage, s->kv, err));
    TRY(open_log(s, last_seq, err));
    TRY(raise_format(s, arena, err));
    TRY(store_load_catalog(s->kv, arena, &catalog, err));
    TRY(open_collator(s, catalog, opt->locale, err));
    TRY(open_committer(s, catalog, last_seq, err));
    TRY(changes_open(&s->changes, s, opt->accept_loss, err));
    s->vectors = vectors_new(s);
    TRY(store_repair_indexes(s, err));
    rc = vectors_start(s->vectors, err);
out:
    catalog_unref(catalog);
    return rc;
}

enum errc store_open(struct store **out, const struct store_options *opt, struct error *err)
{
    struct store *s = mem_zalloc(sizeof *s);
    struct arena *arena = arena_new(0);
    s->settings = opt->settings;
    s->env = opt->env ? opt->env : env_system();
    s->compute = opt->compute;
    s->should_stop = opt->should_stop;
    s->stop_ctx = opt->ctx;
    s->path = opt->path ? mem_strdup(opt->path) : NULL;
    pthread_mutex_init(&s->ddl, NULL);
    pthread_mutex_init(&s->build, NULL);
    pthread_mutex_init(&s->increment_lock, NULL);
    enum errc rc = open_parts(s, opt, arena, err);
    arena_free(arena);
    if (rc != OK) {
        store_close(s);
        *out = NULL;
        return rc;
    }
    committer_on_fatal(s->committer, NULL, NULL); /* until here the caller is told */
    *out = s;
    return OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    vectors_stop(s->vectors);
    committer_free(s->committer);
    vectors_free(s->vectors);
    changes_close(s->changes);
    change_log_close(s->log);
    prepared_table_free(s->prepared);
    garbage_close(s->garbage);
    disk_free(s->disk);
    kv_close(s->kv);
    collator_close(s->collator);
    sealed_free_keys(s);
    pthread_mutex_destroy(&s->ddl);
    pthread_mutex_destroy(&s->build);
    pthread_mutex_destroy(&s->increment_lock);
    mem_free(s->increments);
    mem_free(s->path);
    mem_free(s);
}

/* ---- small answers ---- */

enum errc store_check_writable(struct store *s, struct error *err)
{
    return committer_check(s->committer, err);
}

void store_stats(struct store *s, struct store_stats *out)
{
    struct commit_stats c;
    struct slice all = { NULL, 0 };
    committer_stats(s->committer, &c);
    *out = (struct store_stats){ .commits = c.commits,
                                 .conflicts = c.conflicts,
                                 .groups = c.groups,
                                 .views = c.views,
                                 .window_bytes = c.window_bytes,
                                 .last_seq = c.last_seq };
    for (int f = 0; f < KV_FAMILY_COUNT; f++)
        out->disk_bytes += kv_range_bytes(s->kv, (enum kv_family)f, all, all);
}

enum errc store_reload_keys(struct store *s, struct error *err)
{
    return sealed_load_keys(s, err);
}

const struct collator *store_collator(const struct store *s)
{
    return s->collator;
}

const struct env *store_env(const struct store *s)
{
    return s->env;
}

void store_add_sink(struct store *s, struct commit_sink *sink)
{
    committer_add_sink(s->committer, sink);
}

void store_on_fatal(struct store *s, void (*fn)(void *ctx, const struct error *err), void *ctx)
{
    committer_on_fatal(s->committer, fn, ctx);
}

uint64_t store_new_id(struct store *s)
{
    return ids_new(&s->ids);
}

/* ---- autoincrement ---- */

/* The row of the collection, read when first used. Lock held. */
static enum errc find_increment(struct store *s, uint64_t collection_id, struct increment **out,
                                struct error *err)
{
    int64_t last;
    for (size_t i = 0; i < s->increment_count; i++) {
        if (s->increments[i].collection_id == collection_id) {
            *out = &s->increments[i];
            return OK;
        }
    }
    enum errc rc = counter_read(s->kv, NULL, COUNTER_INCREMENT, collection_id, &last, err);
    if (rc != OK)
        return rc;
    size_t n = s->increment_count++;
    s->increments = mem_realloc(s->increments, (n + 1) * sizeof *s->increments);
    s->increments[n] = (struct increment){ collection_id, last };
    *out = &s->increments[n];
    return OK;
}

static int64_t option(const struct collection *c, const char *name, int64_t otherwise)
{
    struct val v = val_get(c->key_options, slice_str(name));
    return val_type(v) == VAL_NUMBER && val_int(v) >= 0 ? val_int(v) : otherwise;
}

enum errc store_next_increment(struct store *s, const struct collection *c, int64_t *out,
                               struct error *err)
{
    int64_t step = option(c, "increment", 1), offset = option(c, "offset", 0);
    struct increment *i;
    if (step < 1)
        step = 1;
    pthread_mutex_lock(&s->increment_lock);
    enum errc rc = find_increment(s, c->id, &i, err);
    if (rc == OK) { /* the smallest offset + n * step above the last */
        int64_t n = i->last < offset ? 0 : (i->last - offset) / step + 1;
        i->last = offset + n * step;
        if (i->last == 0)
            i->last = step;
        *out = i->last;
    }
    pthread_mutex_unlock(&s->increment_lock);
    return rc;
}

enum errc store_note_increment(struct store *s, const struct collection *c, int64_t value,
                               struct error *err)
{
    struct increment *i;
    pthread_mutex_lock(&s->increment_lock);
    enum errc rc = find_increment(s, c->id, &i, err);
    if (rc == OK && value > i->last)
        i->last = value;
    pthread_mutex_unlock(&s->increment_lock);
    return rc;
}
