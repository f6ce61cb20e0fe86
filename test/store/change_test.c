/* SPDX-License-Identifier: Apache-2.0 */
/* The change log and what is read from it. */
#include "fixture.h"
#include "store/change_feed.h"

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

/* One line per change of user collections: "SEQ put c/k", ... from after on. */
static const char *read_all(struct fixture *f, uint64_t after)
{
    struct change_reader *r = NULL;
    struct change_commit commit;
    struct change change;
    struct buf out;
    bool has = true;
    buf_init(&out, 0);
    OK_OR_FAIL(change_reader_open(&r, f->store, after, &f->err), &f->err);
    uint64_t last = after;
    for (;;) {
        OK_OR_FAIL(change_reader_next(r, &commit, &has, &f->err), &f->err);
        if (!has)
            break;
        assert_int_equal(commit.seq, last + 1);
        last = commit.seq;
        for (;;) {
            OK_OR_FAIL(change_reader_change(r, &change, &has, &f->err), &f->err);
            if (!has)
                break;
            OK_OR_FAIL(change_reader_document(r, &change, &f->err), &f->err);
            buf_printf(&out, "%s ", change_kind_name(change.kind));
            if (change.collection)
                buf_printf(&out, "%.*s", SLICE_ARG(change.collection->name));
            else
                buf_printf(&out, "%.*s", SLICE_ARG(change.db->name));
            if (change.old_name.len)
                buf_printf(&out, " from %.*s", SLICE_ARG(change.old_name));
            if (change.index)
                buf_printf(&out, " %.*s", SLICE_ARG(change.index->name));
            if (change.kind == CHANGE_PUT)
                assert_true(
                    slice_eq(val_string(val_get(change.doc, slice_str("_key"))), change.key));
            buf_printf(&out, "%s%.*s\n", change.key.len ? "/" : "", SLICE_ARG(change.key));
        }
        if (commit.seq % 3 == 0)
            change_reader_rest(r);
    }
    assert_int_equal(last, change_limit(f->store));
    change_reader_close(r);
    const char *text = arena_copy(f->arena, slice_of(buf_cstr(&out), out.len + 1)).ptr;
    buf_release(&out);
    return text;
}

static void every_commit_comes_once_and_in_order(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    make_collection(f, "e", COLLECTION_EDGE);
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    must_put(f, "e", "{\"_key\":\"x\",\"_from\":\"c/a\",\"_to\":\"c/b\"}");
    uint64_t index =
        make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"n\"],\"name\":\"by_n\"}");
    OK_OR_FAIL(take(f, "c", "a"), &f->err);
    OK_OR_FAIL(store_rename_collection(f->store, f->db, c, slice_str("d"), &f->err), &f->err);
    must_put(f, "d", "{\"_key\":\"b\",\"n\":2}");
    OK_OR_FAIL(store_drop_index(f->store, c, index, &f->err), &f->err);
    OK_OR_FAIL(store_truncate_collection(f->store, c, &f->err), &f->err);
    must_put(f, "d", "{\"_key\":\"b\"}");
    OK_OR_FAIL(take(f, "e", "x"), &f->err);
    OK_OR_FAIL(store_drop_collection(f->store, f->db, c, &f->err), &f->err);
    static const char want[] = "createCollection c\n"
                               "createCollection e\n"
                               "put c/a\n"
                               "put e/x\n"
                               "createIndex c by_n\n"
                               "remove c/a\n"
                               "renameCollection d from c\n"
                               "put d/b\n"
                               "dropIndex d by_n\n"
                               "truncateCollection d\n"
                               "put d/b\n"
                               "remove e/x\n"
                               "dropCollection d\n";
    assert_string_equal(read_all(f, 0), want);
    const char *history = arena_copy(f->arena, slice_of(change_history(f->store), 17)).ptr;
    fixture_reopen(f);
    assert_string_equal(read_all(f, 0), want);
    assert_string_equal(read_all(f, 1), want + strlen("createCollection c\n"));
    assert_string_equal(change_history(f->store), history);
}

/* The row of an edge stands where its _from says: moving it is not removing it. */
static void an_edge_that_moves_is_put_and_not_removed(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "e", COLLECTION_EDGE);
    must_put(f, "e", "{\"_key\":\"x\",\"_from\":\"c/a\",\"_to\":\"c/b\"}");
    uint64_t before = change_limit(f->store);
    for (int i = 0; i < 8; i++) { /* in both orders of the slots */
        struct doc_change change;
        char text[64];
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        sprintf(text, "{\"_from\":\"c/from%d\"}", i);
        OK_OR_FAIL(doc_update(t, in(f, t, "e"), slice_str("x"), json(f, text), NULL, f->arena,
                              &change, &f->err),
                   &f->err);
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
    }
    assert_string_equal(read_all(f, before), "put e/x\nput e/x\nput e/x\nput e/x\n"
                                             "put e/x\nput e/x\nput e/x\nput e/x\n");
}

static void put_big(struct fixture *f, int count)
{
    char *text = malloc(100 * KIB + 100);
    size_t n = (size_t)sprintf(text, "{\"_key\":\"big\",\"t\":\"");
    for (size_t i = 0; i < 100 * KIB; i++)
        text[n + i] = (char)('a' + i * 7919 % 26);
    strcpy(text + n + 100 * KIB, "\"}");
    struct val doc = json(f, text);
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    free(text);
    for (int i = 0; i < count; i++) {
        struct doc_change change;
        struct arena *arena = arena_new(0);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        OK_OR_FAIL(doc_insert(t, in(f, t, "c"), doc, &opt, arena, &change, &f->err), &f->err);
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
        arena_free(arena);
    }
}

static void assert_gone(struct fixture *f, uint64_t after, const char *why)
{
    struct change_reader *r = NULL;
    struct change_commit commit;
    bool has;
    enum errc rc = change_reader_open(&r, f->store, after, &f->err);
    if (rc == OK)
        rc = change_reader_next(r, &commit, &has, &f->err);
    change_reader_close(r);
    assert_int_equal(rc, ERR_GONE);
    assert_int_equal(error_num(&f->err), 1415);
    assert_non_null(strstr(f->err.text, why));
    assert_non_null(strstr(f->err.text, "/_api/changes/snapshot"));
}

static void who_comes_too_late_is_told(void **out)
{
    struct fixture *f = *out;
    struct change_range range;
    struct change_reader *slow = NULL;
    struct change_commit commit;
    bool has = false;
    f->settings.change_log_mb = 1;
    fixture_reopen(f);
    make_collection(f, "c", COLLECTION_DOCUMENT);
    make_collection(f, "old", COLLECTION_DOCUMENT);
    OK_OR_FAIL(change_reader_open(&slow, f->store, 0, &f->err), &f->err);
    put_big(f, 40);
    assert_gone(f, 0, "not kept any more");
    OK_OR_FAIL(change_range(f->store, &range, &f->err), &f->err);
    assert_in_range(range.last - range.first, 8, 20);
    assert_true(range.first_us && range.first_us <= range.last_us);
    assert_non_null(strstr(read_all(f, range.first - 1), "put c/big\n"));
    assert_gone(f, range.first - 2, "not kept any more");
    assert_gone(f, range.last + 1, "is not in this store");
    assert_int_equal(change_reader_next(slow, &commit, &has, &f->err), ERR_GONE);
    change_reader_close(slow);
    fixture_reopen(f);
    assert_non_null(strstr(read_all(f, range.first - 1), "put c/big\n"));
    assert_gone(f, 0, "not kept any more");
}

static void age_ends_what_is_kept(void **out)
{
    struct fixture *f = *out;
    struct change_range range;
    f->settings.change_log_max_age_s = 1;
    fixture_reopen(f);
    make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{}");
    usleep(1200 * 1000);
    must_put(f, "c", "{}");
    must_put(f, "c", "{}");
    OK_OR_FAIL(change_range(f->store, &range, &f->err), &f->err);
    assert_int_equal(range.first, range.last - 1);
    assert_gone(f, 0, "not kept any more");
    usleep(1200 * 1000);
    must_put(f, "c", "{}");
    fixture_reopen(f); /* the last one stays, or the store would not know its end */
    must_put(f, "c", "{}");
    assert_int_equal(count_of(f, "c"), 5);
}

static void a_log_that_was_off_has_no_past(void **out)
{
    struct fixture *f = *out;
    struct change_reader *r = NULL;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"a\"}");
    uint64_t before = change_limit(f->store);
    f->settings.change_log = false;
    fixture_reopen(f);
    must_put(f, "c", "{\"_key\":\"b\"}");
    assert_int_equal(change_limit(f->store), before + 1);
    assert_int_equal(change_reader_open(&r, f->store, before, &f->err), ERR_INVALID);
    f->settings.change_log = true;
    fixture_reopen(f);
    must_put(f, "c", "{\"_key\":\"d\"}");
    assert_gone(f, 0, "not kept any more");
    assert_gone(f, before, "not kept any more");
    assert_string_equal(read_all(f, before + 1), "put c/d\n");
}

/* Without sync a crash may take commits back: until they are durable nobody is shown them. */
static void only_durable_commits_are_shown(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    struct txn *t = NULL;
    make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t before = change_limit(f->store);
    OK_OR_FAIL(txn_begin(&t, f->store, &(struct txn_options){ .no_sync = true }, &f->err), &f->err);
    OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, "{}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(change_limit(f->store), before);
    for (int i = 0; i < 300 && change_limit(f->store) == before; i++)
        usleep(10 * 1000);
    assert_int_equal(change_limit(f->store), before + 1);
}

static void an_accepted_loss_begins_another_history(void **out)
{
    struct fixture *f = *out;
    const char *history = arena_copy(f->arena, slice_of(change_history(f->store), 17)).ptr;
    store_close(f->store);
    struct store_options opt = { .path = f->path, .settings = &f->settings, .accept_loss = true };
    OK_OR_FAIL(store_open(&f->store, &opt, &f->err), &f->err);
    assert_int_equal(strlen(history), 16);
    assert_string_not_equal(change_history(f->store), history);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_commit_comes_once_and_in_order),
        TEST(an_edge_that_moves_is_put_and_not_removed),
        TEST(who_comes_too_late_is_told),
        TEST(age_ends_what_is_kept),
        TEST(a_log_that_was_off_has_no_past),
        TEST(only_durable_commits_are_shown),
        TEST(an_accepted_loss_begins_another_history),
    };
    return cmocka_run_group_tests_name("change", tests, NULL, NULL);
}
