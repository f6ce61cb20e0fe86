/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, the catalog, recovery, sinks, faults. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "base/key.h"
#include "store/kv.h"

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, true);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

/* The closed store's engine, to look at or to spoil it. */
static struct kv *open_rocks(struct fixture *f)
{
    struct kv *kv = NULL;
    char path[100];
    snprintf(path, sizeof path, "%s/rocks", f->path);
    OK_OR_FAIL(
        kv_open(&kv, &(struct kv_options){ .path = path, .memtable_bytes = 8 * MIB }, &f->err),
        &f->err);
    return kv;
}

static size_t rows_in(struct fixture *f, struct kv *kv, enum kv_family family, const char *prefix)
{
    struct kv_iter *it = NULL;
    size_t n = 0;
    OK_OR_FAIL(
        kv_iter_new(&it, kv, NULL, family, &(struct kv_scan){ .from = slice_str(prefix) }, &f->err),
        &f->err);
    for (; kv_iter_valid(it) && slice_starts(kv_iter_key(it), prefix); kv_iter_next(it))
        n++;
    kv_iter_free(it);
    return n;
}

static enum errc try_open(struct fixture *f, bool accept_loss)
{
    struct store_options opt = { .path = f->path,
                                 .settings = &f->settings,
                                 .accept_loss = accept_loss };
    return store_open(&f->store, &opt, &f->err);
}

/* ---- opening ---- */

static void everything_is_there_after_reopening(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"],\"sparse\":true}");
    OK_OR_FAIL(store_set_collection(f->store, c,
                                    &(struct collection_change){ .wait_for_sync = true }, &f->err),
               &f->err);
    must_put(f, "c", "{\"_key\":\"k\",\"a\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t seq = txn_view_seq(t), version = catalog_version(txn_catalog(t));
    txn_end(t);
    fixture_reopen(f);
    t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(txn_view_seq(t), seq);
    assert_int_equal(catalog_version(txn_catalog(t)), version);
    const struct collection *col = in(f, t, "c");
    assert_true(col->wait_for_sync && col->allow_user_keys && !col->is_system);
    assert_int_equal(col->type, COLLECTION_DOCUMENT);
    assert_int_equal(col->index_count, 2);
    assert_true(collection_index(col, x)->is_sparse && collection_index(col, x)->is_ready);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 1);
}

static void ids_and_revisions_never_come_twice(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t last_id = 0;
    char last_rev[16] = "";
    for (int i = 0; i < 3; i++) {
        struct doc_change change;
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, "{}"), NULL, f->arena, &change, &f->err),
                   &f->err);
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
        uint64_t id = strtoull(change.key.ptr, NULL, 10);
        assert_true(id > last_id);
        assert_true(store_new_id(f->store) > id);
        last_id = id;
        assert_true(change.rev.len >= 10 && change.rev.len <= 11);
        assert_false(slice_is(change.rev, last_rev));
        snprintf(last_rev, sizeof last_rev, "%.*s", SLICE_ARG(change.rev));
        fixture_reopen(f);
    }
}

static void a_newer_format_is_refused(void **out)
{
    struct fixture *f = *out;
    store_close(f->store);
    f->store = NULL;
    struct kv *kv = open_rocks(f);
    struct kv_batch b;
    kv_batch_init(&b);
    kv_batch_add(&b, &(struct kv_record){ .op = KV_PUT,
                                          .family = KV_META,
                                          .key = slice_str("format"),
                                          .value = slice_of("\0\0\0\0\0\0\0\7", 8) });
    OK_OR_FAIL(kv_write(kv, &b, true, &f->err), &f->err);
    kv_batch_release(&b);
    kv_close(kv);
    assert_int_equal(try_open(f, false), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "format 7, this program reads up to 3"));
    assert_null(f->store);
}

static void a_store_in_use_is_busy(void **out)
{
    struct fixture *f = *out;
    struct store *mine = f->store;
    assert_int_equal(try_open(f, false), ERR_BUSY);
    f->store = mine;
}

static void lost_commits_are_noticed(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"a\"}");
    must_put(f, "c", "{\"_key\":\"b\"}");
    store_close(f->store);
    f->store = NULL;
    struct kv *kv = open_rocks(f); /* take the last commit out of the log */
    struct kv_iter *it = NULL;
    OK_OR_FAIL(kv_iter_new(&it, kv, NULL, KV_LOG, &(struct kv_scan){ .is_reverse = true }, &f->err),
               &f->err);
    struct kv_batch b;
    kv_batch_init(&b);
    kv_batch_add(&b,
                 &(struct kv_record){ .op = KV_DELETE, .family = KV_LOG, .key = kv_iter_key(it) });
    kv_iter_free(it);
    OK_OR_FAIL(kv_write(kv, &b, true, &f->err), &f->err);
    kv_batch_release(&b);
    kv_close(kv);
    assert_int_equal(try_open(f, false), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "lost acknowledged commits 3 to 3"));
    OK_OR_FAIL(try_open(f, true), &f->err);
    must_put(f, "c", "{\"_key\":\"c\"}");
    fixture_reopen(f); /* and the mark is right again */
}

/* ---- catalog ---- */

static enum errc create(struct fixture *f, uint64_t db, const char *name)
{
    struct collection_options opt = { .name = slice_str(name), .type = COLLECTION_DOCUMENT };
    return store_create_collection(f->store, db, &opt, NULL, &f->err);
}

static void names_are_checked(void **out)
{
    struct fixture *f = *out;
    static const char *const bad[] = { "",      "1a",    ".a",   " a",       "a ", "a/b",
                                       "a\x01", "a\x7f", "\xc3", "a\xcc\x88" /* not composed */ };
    static const char *const good[] = { "a b", "\xc3\xa4", "\xf0\x9f\x98\x80", "-a" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(create(f, f->db, bad[i]), ERR_INVALID);
        assert_int_equal(error_num(&f->err), 1208);
        assert_int_equal(store_create_database(f->store, slice_str(bad[i]), &f->err), ERR_INVALID);
        assert_int_equal(error_num(&f->err), 1229);
    }
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        OK_OR_FAIL(create(f, f->db, good[i]), &f->err);
        OK_OR_FAIL(store_create_database(f->store, slice_str(good[i]), &f->err), &f->err);
    }
    assert_int_equal(store_create_database(f->store, slice_str("_a"), &f->err), ERR_INVALID);
    OK_OR_FAIL(create(f, f->db, "_a-B9"), &f->err);
    assert_int_equal(create(f, f->db, "_a-B9"), ERR_EXISTS);
    assert_int_equal(error_num(&f->err), 1207);
    assert_int_equal(create(f, 4711, "c"), ERR_NOT_FOUND);
    assert_int_equal(error_num(&f->err), 1228);
    struct collection_options opt = { .name = slice_str("x"), .type = (enum collection_type)1 };
    assert_int_equal(store_create_collection(f->store, f->db, &opt, NULL, &f->err), ERR_INVALID);
    assert_int_equal(error_num(&f->err), 1218);
}

static void databases_come_and_go_with_their_collections(void **out)
{
    struct fixture *f = *out;
    OK_OR_FAIL(store_create_database(f->store, slice_str("other"), &f->err), &f->err);
    assert_int_equal(store_create_database(f->store, slice_str("other"), &f->err), ERR_EXISTS);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(catalog_database_count(txn_catalog(t)), 2);
    uint64_t db = catalog_database(txn_catalog(t), slice_str("other"))->id;
    txn_end(t);
    uint64_t system = f->db;
    f->db = db;
    uint64_t id = make_collection(f, "c", COLLECTION_EDGE);
    must_put(f, "c", "{\"_from\":\"v/a\",\"_to\":\"v/b\"}");
    t = begin(f, ISOLATION_SNAPSHOT);
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    assert_ptr_equal(catalog_collection(txn_catalog(t), db, slice_str(text)), in(f, t, "c"));
    assert_null(catalog_collection(txn_catalog(t), system, slice_str(text)));
    txn_end(t);
    f->db = system;
    OK_OR_FAIL(store_drop_database(f->store, slice_str("other"), &f->err), &f->err);
    assert_int_equal(store_drop_database(f->store, slice_str("other"), &f->err), ERR_NOT_FOUND);
    assert_int_equal(store_drop_database(f->store, slice_str("_system"), &f->err), ERR_FORBIDDEN);
    store_close(f->store);
    struct kv *kv = open_rocks(f);
    assert_int_equal(rows_in(f, kv, KV_DOC, ""), 0);
    assert_int_equal(rows_in(f, kv, KV_INDEX, ""), 0);
    assert_int_equal(rows_in(f, kv, KV_META, "garbage/"), 0);
    kv_close(kv);
    fixture_open(f);
}

static void truncation_keeps_old_views_and_leaves_no_rows(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    must_put(f, "c", "{\"_key\":\"k\",\"a\":1}");
    struct txn *old = begin(f, ISOLATION_SNAPSHOT), *late = begin(f, ISOLATION_SNAPSHOT);
    struct doc_change change;
    struct val doc;
    OK_OR_FAIL(doc_insert(late, in(f, late, "c"), json(f, "{}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(store_truncate_collection(f->store, c, &f->err), &f->err);
    assert_int_equal(count_of(f, "c"), 0);
    OK_OR_FAIL(doc_get(old, in(f, old, "c"), slice_str("k"), f->arena, &doc, &f->err), &f->err);
    assert_int_equal(txn_commit(late, &f->err), ERR_CONFLICT); /* it would be lost */
    assert_non_null(strstr(f->err.text, "collection 'c' was truncated, dropped"));
    txn_end(late);
    txn_end(old);
    must_put(f, "c", "{\"_key\":\"n\",\"a\":1}");
    assert_int_equal(count_of(f, "c"), 1);
    store_close(f->store);
    struct kv *kv = open_rocks(f);
    assert_int_equal(rows_in(f, kv, KV_DOC, ""), 1);
    assert_int_equal(rows_in(f, kv, KV_INDEX, ""), 1);
    assert_int_equal(rows_in(f, kv, KV_META, "garbage/"), 0);
    assert_int_equal(rows_in(f, kv, KV_META, "count/"), 1);
    kv_close(kv);
    fixture_open(f);
    assert_int_equal(store_truncate_collection(f->store, 4711, &f->err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&f->err), 1203);
}

static const char *id_of(struct fixture *f, struct val doc)
{
    return arena_copy(f->arena, val_string(val_get(doc, slice_str("_id")))).ptr;
}

static void renaming_changes_every_id_at_once_and_rows_when_they_are_written(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t edges = make_collection(f, "e", COLLECTION_EDGE);
    make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    must_put(f, "c", "{\"_key\":\"k\",\"a\":1}");
    must_put(f, "c", "{\"_key\":\"l\",\"a\":2,\"b\":{\"_id\":\"kept\"}}");
    must_put(f, "e", "{\"_key\":\"x\",\"_from\":\"c/k\",\"_to\":\"c/l\"}");
    struct txn *old = begin(f, ISOLATION_SNAPSHOT), *late = begin(f, ISOLATION_SNAPSHOT);
    struct doc_change change;
    struct val doc;
    OK_OR_FAIL(doc_insert(late, in(f, late, "c"), json(f, "{}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(store_rename_collection(f->store, f->db, c, slice_str("new-c"), &f->err), &f->err);
    OK_OR_FAIL(store_rename_collection(f->store, f->db, edges, slice_str("d"), &f->err), &f->err);
    assert_int_equal(txn_commit(late, &f->err), ERR_CONFLICT); /* its _id would be the old one */
    txn_end(late);
    OK_OR_FAIL(doc_get(old, in(f, old, "c"), slice_str("k"), f->arena, &doc, &f->err), &f->err);
    assert_string_equal(id_of(f, doc), "c/k");
    txn_end(old);

    fixture_reopen(f);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct doc_iter *it = NULL;
    assert_null(catalog_collection(txn_catalog(t), f->db, slice_str("c")));
    assert_int_equal(in(f, t, "new-c")->id, c);
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "new-c"), &f->err), &f->err);
    assert_true(doc_iter_next(it, &doc));
    assert_true(doc_iter_next(it, &doc));
    const char *id = id_of(f, doc);
    assert_true(!strcmp(id, "new-c/k") || !strcmp(id, "new-c/l"));
    assert_false(doc_iter_next(it, &doc));
    doc_iter_free(it);
    OK_OR_FAIL(doc_update(t, in(f, t, "new-c"), slice_str("l"), json(f, "{\"a\":3}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    assert_true(slice_is(change.id, "new-c/l"));
    assert_string_equal(id_of(f, change.old_doc), "new-c/l");
    assert_string_equal(id_of(f, change.new_doc), "new-c/l");
    assert_string_equal(id_of(f, val_get(change.new_doc, slice_str("b"))), "kept");
    OK_OR_FAIL(doc_get(t, in(f, t, "d"), slice_str("x"), f->arena, &doc, &f->err), &f->err);
    assert_string_equal(id_of(f, doc), "d/x");
    assert_true(slice_is(val_string(val_get(doc, slice_str("_from"))), "c/k"));
    txn_end(t);
}

static void a_collection_takes_only_a_legal_and_free_name(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    make_collection(f, "taken", COLLECTION_DOCUMENT);
    static const struct {
        const char *name;
        int num;
    } cases[] = { { "taken", 1207 }, { "a/b", 1208 }, { "", 1208 } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_not_equal(
            store_rename_collection(f->store, f->db, c, slice_str(cases[i].name), &f->err), OK);
        assert_int_equal(error_num(&f->err), cases[i].num);
    }
    assert_int_equal(store_rename_collection(f->store, f->db, c, slice_str("c"), &f->err), OK);
    assert_int_not_equal(store_rename_collection(f->store, f->db, 4711, slice_str("d"), &f->err),
                         OK);
    assert_int_equal(error_num(&f->err), 1203);
}

static void garbage_that_was_not_deleted_goes_at_the_next_start(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"k\"}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t object = in(f, t, "c")->object_id;
    txn_end(t);
    OK_OR_FAIL(store_drop_collection(f->store, f->db, c, &f->err), &f->err);
    store_close(f->store);
    f->store = NULL;
    struct kv *kv = open_rocks(f); /* put a row and its garbage record back */
    struct buf key, row;
    struct kv_batch b;
    kv_batch_init(&b);
    buf_init(&key, 0);
    buf_init(&row, 0);
    buf_add_str(&key, "garbage/");
    key_add_u64(&key, object);
    key_add_u64(&row, object);
    kv_batch_add(&b,
                 &(struct kv_record){ .op = KV_PUT, .family = KV_META, .key = buf_slice(&key) });
    kv_batch_add(&b, &(struct kv_record){ .op = KV_PUT, .family = KV_DOC, .key = buf_slice(&row) });
    OK_OR_FAIL(kv_write(kv, &b, true, &f->err), &f->err);
    kv_close(kv);
    fixture_reopen(f);
    store_close(f->store);
    kv = open_rocks(f);
    assert_int_equal(rows_in(f, kv, KV_DOC, ""), 0);
    assert_int_equal(rows_in(f, kv, KV_META, "garbage/"), 0);
    kv_close(kv);
    kv_batch_release(&b);
    buf_release(&key);
    buf_release(&row);
    fixture_open(f);
}

/* ---- sinks ---- */

struct replica {
    struct fixture *f;
    struct kv *kv;
    struct kv_batch batch;
    uint64_t staged, published, compared;
};

static enum errc stage(void *ctx, uint64_t seq, struct slice batch, struct error *err)
{
    struct replica *r = ctx;
    assert_int_equal(seq, r->staged + 1);
    r->staged = seq;
    kv_batch_clear(&r->batch);
    kv_batch_append(&r->batch, batch);
    return kv_write(r->kv, &r->batch, true, err);
}

static void published(void *ctx, uint64_t seq)
{
    struct replica *r = ctx;
    assert_int_equal(seq, r->staged);
    r->published = seq;
}

static bool is_local(struct slice key)
{
    return slice_is(key, "ids") || slice_is(key, "format") || slice_is(key, "synced") ||
           slice_starts(key, "catalog@");
}

/* The replica has exactly what the newest view shows. */
static void compare(struct fixture *f, struct replica *r)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (int family = KV_META; family <= KV_INDEX; family++) {
        struct txn_iter *mine = NULL;
        struct kv_iter *its = NULL;
        struct kv_scan all = { .from = { NULL, 0 } };
        OK_OR_FAIL(txn_iter_new(&mine, t, (enum kv_family)family, &all, &f->err), &f->err);
        OK_OR_FAIL(kv_iter_new(&its, r->kv, NULL, (enum kv_family)family, &all, &f->err), &f->err);
        for (; txn_iter_valid(mine); txn_iter_next(mine)) {
            if (family == KV_META && is_local(txn_iter_key(mine)))
                continue;
            assert_true(kv_iter_valid(its));
            assert_true(slice_eq(kv_iter_key(its), txn_iter_key(mine)));
            assert_true(slice_eq(kv_iter_value(its), txn_iter_value(mine)));
            kv_iter_next(its);
        }
        assert_false(kv_iter_valid(its));
        txn_iter_free(mine);
        kv_iter_free(its);
    }
    assert_int_equal(txn_view_seq(t), r->staged);
    txn_end(t);
    r->compared++;
}

static void a_replica_fed_by_a_sink_is_equal(void **out)
{
    (void)out;
    struct fixture f;
    struct replica r = { .f = &f };
    fixture_init(&f, false);
    OK_OR_FAIL(kv_open(&r.kv, &(struct kv_options){ 0 }, &f.err), &f.err);
    kv_batch_init(&r.batch);
    struct commit_sink sink = { .stage = stage, .published = published, .ctx = &r };
    store_add_sink(f.store, &sink);
    uint64_t c = make_collection(&f, "c", COLLECTION_DOCUMENT);
    compare(&f, &r);
    make_collection(&f, "e", COLLECTION_EDGE);
    make_index(&f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"],\"unique\":true}");
    for (int i = 0; i < 30; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"a\":%d}", i, i);
        must_put(&f, "c", text);
        if (i % 3 == 0) {
            snprintf(text, sizeof text, "%d", i);
            assert_int_equal(take(&f, "c", text), OK);
        }
        compare(&f, &r);
    }
    must_put(&f, "e", "{\"_from\":\"c/1\",\"_to\":\"c/2\"}");
    compare(&f, &r);
    assert_int_equal(r.compared, 32);
    fixture_release(&f);
    kv_close(r.kv);
    kv_batch_release(&r.batch);
}

/* A sink that keeps a commit from being published for a while. */
struct slow_sink {
    struct fixture *f;
    atomic_bool is_slow;
    _Atomic uint64_t staged;
};

static enum errc stage_slowly(void *ctx, uint64_t seq, struct slice batch, struct error *err)
{
    struct slow_sink *s = ctx;
    (void)batch, (void)err;
    atomic_store(&s->staged, seq);
    if (atomic_exchange(&s->is_slow, false))
        usleep(50 * 1000);
    return OK;
}

static enum errc replace_a(struct fixture *f, struct txn *t, struct arena *arena, struct error *err)
{
    struct doc_change change;
    struct val doc;
    OK_OR_FAIL(val_parse(slice_str("{\"n\":1}"), arena, &doc, err), err);
    enum errc rc = doc_replace(t, in(f, t, "c"), slice_str("a"), doc, NULL, arena, &change, err);
    return rc == OK ? txn_commit(t, err) : rc;
}

static void *win(void *arg)
{
    struct slow_sink *s = arg;
    struct error err = { 0 };
    struct arena *arena = arena_new(0);
    struct txn *t = begin(s->f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(replace_a(s->f, t, arena, &err), &err);
    txn_end(t);
    arena_free(arena);
    return NULL;
}

/* The winner is written, but nobody can read it yet: trying again too early would lose again. */
static void who_lost_finds_the_winner_in_the_next_view(void **out)
{
    (void)out;
    struct fixture f;
    struct slow_sink s = { .f = &f };
    struct commit_sink sink = { .stage = stage_slowly, .ctx = &s };
    pthread_t winner;
    fixture_init(&f, false);
    store_add_sink(f.store, &sink);
    make_collection(&f, "c", COLLECTION_DOCUMENT);
    must_put(&f, "c", "{\"_key\":\"a\"}");
    for (int i = 0; i < 5; i++) {
        uint64_t before = atomic_load(&s.staged);
        atomic_store(&s.is_slow, true);
        assert_int_equal(pthread_create(&winner, NULL, win, &s), 0);
        while (atomic_load(&s.staged) == before)
            usleep(100);
        struct txn *t = begin(&f, ISOLATION_SNAPSHOT);
        assert_int_equal(txn_view_seq(t), before); /* it is not published */
        assert_int_equal(replace_a(&f, t, f.arena, &f.err), ERR_CONFLICT);
        txn_end(t);
        t = begin(&f, ISOLATION_SNAPSHOT);
        assert_int_equal(txn_view_seq(t), before + 1);
        OK_OR_FAIL(replace_a(&f, t, f.arena, &f.err), &f.err);
        txn_end(t);
        pthread_join(winner, NULL);
    }
    fixture_release(&f);
}

/* ---- faults ---- */

static void note_fatal(void *ctx, const struct error *err)
{
    (void)err;
    ++*(int *)ctx;
}

static void a_failed_sync_stops_the_store(void **out)
{
    struct fixture *f = *out;
    int fatal = 0;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    store_on_fatal(f->store, note_fatal, &fatal);
    fault_arm("kv.sync", 1);
    assert_int_equal(put(f, "c", "{\"_key\":\"a\"}"), ERR_IO);
    assert_non_null(strstr(f->err.text, "the outcome of the commit is unknown"));
    fault_disarm();
    assert_int_equal(count_of(f, "c"), 0); /* never published */
    assert_int_equal(put(f, "c", "{\"_key\":\"b\"}"), ERR_IO);
    assert_int_equal(store_check_writable(f->store, &f->err), ERR_IO);
    fixture_reopen(f);
    assert_int_equal(fatal, 1);
    assert_in_range(count_of(f, "c"), 0, 1);
    must_put(f, "c", "{\"_key\":\"c\"}");
}

static void a_full_disk_lets_only_removes_pass(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"a\"}");
    usleep(120 * 1000); /* the answer of the last question is old */
    fault_arm("store.space", 1);
    assert_int_equal(put(f, "c", "{\"_key\":\"b\"}"), ERR_LIMIT);
    assert_non_null(strstr(f->err.text, "the disk is full"));
    assert_int_equal(store_check_writable(f->store, &f->err), ERR_LIMIT);
    assert_int_equal(take(f, "c", "a"), OK);
    OK_OR_FAIL(store_truncate_collection(f->store, c, &f->err), &f->err);
    fault_disarm();
    usleep(120 * 1000);
    OK_OR_FAIL(store_check_writable(f->store, &f->err), &f->err);
    must_put(f, "c", "{\"_key\":\"b\"}");
}

static void a_commit_that_a_full_disk_refuses_is_known_not_to_be_done(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    fault_arm("kv.full", 1);
    assert_int_equal(put(f, "c", "{\"_key\":\"a\"}"), ERR_LIMIT);
    fault_disarm();
    assert_non_null(strstr(f->err.text, "nothing of the commit was written"));
    assert_null(strstr(f->err.text, "unknown"));
    OK_OR_FAIL(store_check_writable(f->store, &f->err), &f->err);
    must_put(f, "c", "{\"_key\":\"b\"}");
    assert_int_equal(count_of(f, "c"), 1);
    fixture_reopen(f);
    assert_int_equal(count_of(f, "c"), 1);
}

static void a_crash_loses_only_what_was_not_synced(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    struct txn *t = NULL;
    struct doc_change change;
    struct txn_options opt = { .no_sync = true };
    OK_OR_FAIL(txn_begin(&t, f->store, &opt, &f->err), &f->err);
    OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, "{}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 1); /* visible at once */
    fixture_reopen(f);
    assert_int_equal(count_of(f, "c"), 1);
}

static void the_log_is_trimmed(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    char *text = malloc(1 * MIB + 100);
    size_t n = (size_t)sprintf(text, "{\"_key\":\"big\",\"t\":\"");
    memset(text + n, 'x', 1 * MIB);
    strcpy(text + n + 1 * MIB, "\"}");
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    struct val doc = json(f, text);
    free(text);
    for (int i = 0; i < 100; i++) {
        struct arena *arena = arena_new(0);
        struct doc_change change;
        struct txn *t = NULL;
        OK_OR_FAIL(txn_begin(&t, f->store, &(struct txn_options){ .no_sync = true }, &f->err),
                   &f->err);
        OK_OR_FAIL(doc_insert(t, in(f, t, "c"), doc, &opt, arena, &change, &f->err), &f->err);
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
        arena_free(arena);
    }
    store_close(f->store);
    struct kv *kv = open_rocks(f);
    assert_in_range(rows_in(f, kv, KV_LOG, ""), 60, 80);
    kv_close(kv);
    fixture_open(f);
    assert_int_equal(count_of(f, "c"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everything_is_there_after_reopening),
        TEST(ids_and_revisions_never_come_twice),
        TEST(a_newer_format_is_refused),
        TEST(a_store_in_use_is_busy),
        TEST(lost_commits_are_noticed),
        TEST(names_are_checked),
        TEST(databases_come_and_go_with_their_collections),
        TEST(truncation_keeps_old_views_and_leaves_no_rows),
        TEST(renaming_changes_every_id_at_once_and_rows_when_they_are_written),
        TEST(a_collection_takes_only_a_legal_and_free_name),
        TEST(garbage_that_was_not_deleted_goes_at_the_next_start),
        cmocka_unit_test(a_replica_fed_by_a_sink_is_equal),
        cmocka_unit_test(who_lost_finds_the_winner_in_the_next_view),
        TEST(a_failed_sync_stops_the_store),
        TEST(a_full_disk_lets_only_removes_pass),
        TEST(a_commit_that_a_full_disk_refuses_is_known_not_to_be_done),
        TEST(a_crash_loses_only_what_was_not_synced),
        TEST(the_log_is_trimmed),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
