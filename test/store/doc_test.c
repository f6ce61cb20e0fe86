/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, false);
    make_collection(f, "c", COLLECTION_DOCUMENT);
    make_collection(f, "e", COLLECTION_EDGE);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

static const char *body(struct fixture *f, struct val doc)
{
    /* without system attributes */
    struct val_builder *b = val_builder_new(0);
    struct val v;
    val_open_object(b);
    for (size_t i = 0; i < val_count(doc); i++) {
        struct slice name = val_name_at(doc, i);
        if (slice_is(name, "_id") || slice_is(name, "_rev"))
            continue;
        val_put_name(b, name);
        val_put(b, val_at(doc, i));
    }
    val_close(b);
    OK_OR_FAIL(val_finish_in(b, f->arena, &v, &f->err), &f->err);
    val_builder_free(b);
    return text_of(f, v);
}

static void a_document_comes_back_with_its_system_attributes(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct val got;
    OK_OR_FAIL(
        doc_insert(t, in(f, t, "c"),
                   json(f, "{\"a\":1,\"_key\":\"k\",\"_rev\":\"x\",\"_id\":\"y\",\"b\":[1.5]}"),
                   NULL, f->arena, &change, &f->err),
        &f->err);
    assert_true(slice_is(change.id, "c/k"));
    assert_true(val_is_null(change.old_doc));
    assert_int_equal(change.old_rev.len, 0);
    uint64_t ms;
    uint32_t count;
    assert_true(doc_decode_rev(change.rev, &ms, &count));
    assert_in_range(env_wall_us(env_system()) / 1000 - ms, 0, 5000);
    assert_false(doc_decode_rev(slice_str("x y"), &ms, &count));
    OK_OR_FAIL(doc_get(t, in(f, t, "c"), slice_str("k"), f->arena, &got, &f->err), &f->err);
    assert_string_equal(body(f, got), "{\"_key\":\"k\",\"a\":1,\"b\":[1.5]}");
    assert_true(slice_is(val_name_at(got, 0), "_key"));
    assert_true(slice_is(val_name_at(got, 1), "_id"));
    assert_true(slice_is(val_name_at(got, 2), "_rev"));
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_get(t, in(f, t, "c"), slice_str("k"), f->arena, &got, &f->err), &f->err);
    assert_string_equal(body(f, got), "{\"_key\":\"k\",\"a\":1,\"b\":[1.5]}");
    txn_end(t);
}

static void bad_documents_are_refused_with_arangodbs_numbers(void **out)
{
    struct fixture *f = *out;
    static const struct {
        const char *collection, *text;
        int num;
    } cases[] = {
        { "c", "[]", 1227 },
        { "c", "1", 1227 },
        { "c", "{\"_key\":1}", 1221 },
        { "c", "{\"_key\":\"\"}", 1221 },
        { "c", "{\"_key\":\"a/b\"}", 1221 },
        { "c", "{\"_key\":\"\\u00e4\"}", 1221 },
        { "e", "{}", 1233 },
        { "e", "{\"_from\":\"c/a\"}", 1233 },
        { "e", "{\"_from\":\"c/a\",\"_to\":\"b\"}", 1233 },
        { "e", "{\"_from\":\"c/a\",\"_to\":7}", 1233 },
        { "e", "{\"_from\":\"/a\",\"_to\":\"c/b\"}", 1233 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_not_equal(put(f, cases[i].collection, cases[i].text), OK);
        assert_int_equal(error_num(&f->err), cases[i].num);
    }
    must_put(f, "c", "{\"_key\":\"k\"}");
    assert_int_equal(put(f, "c", "{\"_key\":\"k\"}"), ERR_EXISTS);
    assert_string_equal(f->err.text,
                        "unique constraint violated - in index primary of type primary "
                        "over '_key'; conflicting key: k");
    assert_int_equal(take(f, "c", "none"), ERR_NOT_FOUND);
    assert_string_equal(f->err.text, "document not found: 'c/none'");
    assert_int_equal(count_of(f, "c"), 1);
}

/* old, patch, options -> new */
static void updates_merge_as_arangodb_does(void **out)
{
    struct fixture *f = *out;
    static const struct {
        const char *old, *patch;
        struct doc_options opt;
        const char *want;
    } cases[] = {
        { "{\"_key\":\"1\",\"a\":1,\"b\":2}",
          "{\"b\":3,\"c\":4}",
          { 0 },
          "{\"_key\":\"1\",\"a\":1,\"b\":3,\"c\":4}" },
        { "{\"_key\":\"2\",\"a\":1}",
          "{\"a\":null,\"_key\":\"x\",\"_id\":1}",
          { 0 },
          "{\"_key\":\"2\",\"a\":null}" },
        { "{\"_key\":\"3\",\"a\":1,\"b\":null}",
          "{\"a\":null}",
          { .drop_nulls = true },
          "{\"_key\":\"3\",\"b\":null}" },
        { "{\"_key\":\"4\",\"o\":{\"a\":1,\"p\":{\"x\":1}}}",
          "{\"o\":{\"b\":2,\"p\":{\"y\":2}}}",
          { 0 },
          "{\"_key\":\"4\",\"o\":{\"a\":1,\"p\":{\"x\":1,\"y\":2},\"b\":2}}" },
        { "{\"_key\":\"5\",\"o\":{\"a\":1}}",
          "{\"o\":{\"b\":2}}",
          { .replace_objects = true },
          "{\"_key\":\"5\",\"o\":{\"b\":2}}" },
        { "{\"_key\":\"6\",\"o\":{\"a\":1}}",
          "{\"o\":{\"a\":null,\"n\":{\"z\":null}}}",
          { .drop_nulls = true },
          "{\"_key\":\"6\",\"o\":{\"n\":{}}}" },
        { "{\"_key\":\"7\",\"o\":[1]}",
          "{\"o\":{\"a\":1}}",
          { 0 },
          "{\"_key\":\"7\",\"o\":{\"a\":1}}" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char key[2] = { (char)('1' + i), 0 };
        struct doc_change change;
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        const struct collection *c = in(f, t, "c");
        OK_OR_FAIL(doc_insert(t, c, json(f, cases[i].old), NULL, f->arena, &change, &f->err),
                   &f->err);
        struct slice rev = change.rev;
        OK_OR_FAIL(doc_update(t, c, slice_str(key), json(f, cases[i].patch), &cases[i].opt,
                              f->arena, &change, &f->err),
                   &f->err);
        assert_string_equal(body(f, change.new_doc), cases[i].want);
        assert_true(slice_eq(change.old_rev, rev));
        assert_false(slice_eq(change.rev, rev));
        txn_end(t);
    }
}

static void replace_keeps_only_the_new_members(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    must_put(f, "c", "{\"_key\":\"k\",\"a\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_replace(t, in(f, t, "c"), slice_str("k"), json(f, "{\"b\":2}"), NULL, f->arena,
                           &change, &f->err),
               &f->err);
    assert_string_equal(body(f, change.new_doc), "{\"_key\":\"k\",\"b\":2}");
    assert_string_equal(body(f, change.old_doc), "{\"_key\":\"k\",\"a\":1}");
    txn_end(t);
}

static void overwrite_modes(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    must_put(f, "c", "{\"_key\":\"k\",\"a\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    struct val doc = json(f, "{\"_key\":\"k\",\"b\":2}");
    OK_OR_FAIL(doc_insert(t, c, doc, &(struct doc_options){ .overwrite = OVERWRITE_IGNORE },
                          f->arena, &change, &f->err),
               &f->err);
    assert_true(change.is_ignored);
    assert_string_equal(body(f, change.old_doc), "{\"_key\":\"k\",\"a\":1}");
    OK_OR_FAIL(doc_insert(t, c, doc, &(struct doc_options){ .overwrite = OVERWRITE_UPDATE },
                          f->arena, &change, &f->err),
               &f->err);
    assert_string_equal(body(f, change.new_doc), "{\"_key\":\"k\",\"a\":1,\"b\":2}");
    OK_OR_FAIL(doc_insert(t, c, doc, &(struct doc_options){ .overwrite = OVERWRITE_REPLACE },
                          f->arena, &change, &f->err),
               &f->err);
    assert_string_equal(body(f, change.new_doc), "{\"_key\":\"k\",\"b\":2}");
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 1);
}

static void revisions_are_checked_on_request(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    must_put(f, "c", "{\"_key\":\"k\"}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    struct doc_options match = { .if_rev = slice_str("wrong") };
    assert_int_equal(doc_remove(t, c, slice_str("k"), &match, f->arena, &change, &f->err),
                     ERR_PRECONDITION);
    assert_int_equal(error_num(&f->err), 1200);
    assert_int_equal(error_http(&f->err), 412);
    struct val patch = json(f, "{\"_rev\":\"wrong\"}");
    OK_OR_FAIL(doc_update(t, c, slice_str("k"), patch, NULL, f->arena, &change, &f->err), &f->err);
    assert_int_equal(doc_update(t, c, slice_str("k"), patch,
                                &(struct doc_options){ .check_rev = true }, f->arena, &change,
                                &f->err),
                     ERR_PRECONDITION);
    match.if_rev = change.rev;
    OK_OR_FAIL(doc_remove(t, c, slice_str("k"), &match, f->arena, &change, &f->err), &f->err);
    txn_end(t);
}

static void counts_include_own_writes_and_forget_undone_ones(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    uint64_t n;
    must_put(f, "c", "{\"_key\":\"a\"}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    OK_OR_FAIL(doc_insert(t, c, json(f, "{\"_key\":\"b\"}"), NULL, f->arena, &change, &f->err),
               &f->err);
    size_t mark = txn_mark(t);
    OK_OR_FAIL(doc_insert(t, c, json(f, "{\"_key\":\"d\"}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(doc_remove(t, c, slice_str("a"), NULL, f->arena, &change, &f->err), &f->err);
    OK_OR_FAIL(doc_remove(t, c, slice_str("b"), NULL, f->arena, &change, &f->err), &f->err);
    OK_OR_FAIL(doc_count(t, c, &n, &f->err), &f->err);
    assert_int_equal(n, 1);
    txn_rewind(t, mark);
    OK_OR_FAIL(doc_count(t, c, &n, &f->err), &f->err);
    assert_int_equal(n, 2);
    struct val got;
    assert_int_equal(doc_get(t, c, slice_str("d"), f->arena, &got, &f->err), ERR_NOT_FOUND);
    OK_OR_FAIL(doc_get(t, c, slice_str("b"), f->arena, &got, &f->err), &f->err);
    assert_int_equal(count_of(f, "c"), 1);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 2);
}

static void an_iteration_sees_the_state_at_its_start(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    struct doc_iter *it = NULL;
    struct val doc;
    for (int i = 0; i < 20; i++) {
        char text[32];
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"n\":0}", i);
        must_put(f, "c", text);
    }
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    OK_OR_FAIL(doc_insert(t, c, json(f, "{\"_key\":\"own\"}"), NULL, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(doc_remove(t, c, slice_str("3"), NULL, f->arena, &change, &f->err), &f->err);
    OK_OR_FAIL(doc_iter_new(&it, t, c, &f->err), &f->err);
    int n = 0;
    while (doc_iter_next(it, &doc)) { /* writes while reading: neither seen nor endless */
        assert_int_equal(val_int(val_get(doc, slice_str("n"))), 0);
        struct slice key = arena_copy(f->arena, val_string(val_get(doc, slice_str("_key"))));
        OK_OR_FAIL(doc_update(t, c, key, json(f, "{\"n\":1}"), NULL, f->arena, &change, &f->err),
                   &f->err);
        OK_OR_FAIL(doc_insert(t, c, json(f, "{}"), NULL, f->arena, &change, &f->err), &f->err);
        n++;
    }
    OK_OR_FAIL(doc_iter_check(it, &f->err), &f->err);
    doc_iter_free(it);
    assert_int_equal(n, 20);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 40);
}

static void edges_move_with_their_start(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    struct val got;
    must_put(f, "e", "{\"_key\":\"k\",\"_from\":\"c/a\",\"_to\":\"c/b\",\"w\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_update(t, in(f, t, "e"), slice_str("k"), json(f, "{\"_from\":\"c/zz\"}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    assert_string_equal(body(f, change.new_doc),
                        "{\"_key\":\"k\",\"_from\":\"c/zz\",\"_to\":\"c/b\",\"w\":1}");
    assert_int_not_equal(doc_update(t, in(f, t, "e"), slice_str("k"), json(f, "{\"_to\":null}"),
                                    NULL, f->arena, &change, &f->err),
                         OK);
    assert_int_equal(error_num(&f->err), 1233);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_get(t, in(f, t, "e"), slice_str("k"), f->arena, &got, &f->err), &f->err);
    assert_true(slice_is(val_string(val_get(got, slice_str("_from"))), "c/zz"));
    txn_end(t);
    assert_int_equal(count_of(f, "e"), 1);
    assert_int_equal(take(f, "e", "k"), OK);
    assert_int_equal(count_of(f, "e"), 0);
}

static void slots_follow_the_placement_rule(void **out)
{
    (void)out;
    struct collection docs = { .type = COLLECTION_DOCUMENT }, edges = { .type = COLLECTION_EDGE };
    struct slice none = { NULL, 0 };
    uint16_t slot = doc_slot(&docs, slice_str("doc"), none);
    assert_int_equal(doc_slot(&docs, slice_str("doc:17"), none), slot);
    assert_int_equal(doc_slot(&edges, slice_str("e1"), slice_str("c/doc")), slot);
    assert_int_equal(doc_slot(&edges, slice_str("e2"), slice_str("c/doc:3")), slot);
    assert_true(slot < 4096);
}

static void key_generators(void **out)
{
    struct fixture *f = *out;
    static const struct {
        const char *name, *options;
        size_t len; /* of a key; 0 = any */
    } cases[] = {
        { "t", "{\"type\":\"traditional\"}", 0 },
        { "p", "{\"type\":\"padded\"}", 16 },
        { "u", "{\"type\":\"uuid\"}", 36 },
    };
    struct doc_change change;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct collection_options opt = { .name = slice_str(cases[i].name),
                                          .type = COLLECTION_DOCUMENT,
                                          .allow_user_keys = true,
                                          .key_options = json(f, cases[i].options) };
        OK_OR_FAIL(store_create_collection(f->store, f->db, &opt, NULL, &f->err), &f->err);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        OK_OR_FAIL(
            doc_insert(t, in(f, t, cases[i].name), json(f, "{}"), NULL, f->arena, &change, &f->err),
            &f->err);
        assert_true(doc_key_is_legal(change.key));
        assert_true(!cases[i].len || change.key.len == cases[i].len);
        txn_end(t);
    }
    struct collection_options opt = {
        .name = slice_str("n"),
        .type = COLLECTION_DOCUMENT,
        .allow_user_keys = true,
        .key_options = json(f, "{\"type\":\"autoincrement\",\"increment\":10,\"offset\":3}")
    };
    OK_OR_FAIL(store_create_collection(f->store, f->db, &opt, NULL, &f->err), &f->err);
    static const char *const want[] = { "3", "13", "103" };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        OK_OR_FAIL(doc_insert(t, in(f, t, "n"), json(f, "{}"), NULL, f->arena, &change, &f->err),
                   &f->err);
        assert_true(slice_is(change.key, want[i]));
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
        if (i == 1)
            must_put(f, "n", "{\"_key\":\"99\"}");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_document_comes_back_with_its_system_attributes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bad_documents_are_refused_with_arangodbs_numbers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(updates_merge_as_arangodb_does, setup, teardown),
        cmocka_unit_test_setup_teardown(replace_keeps_only_the_new_members, setup, teardown),
        cmocka_unit_test_setup_teardown(overwrite_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(revisions_are_checked_on_request, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_include_own_writes_and_forget_undone_ones, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_iteration_sees_the_state_at_its_start, setup, teardown),
        cmocka_unit_test_setup_teardown(edges_move_with_their_start, setup, teardown),
        cmocka_unit_test(slots_follow_the_placement_rule),
        cmocka_unit_test_setup_teardown(key_generators, setup, teardown),
    };
    return cmocka_run_group_tests_name("doc", tests, NULL, NULL);
}
