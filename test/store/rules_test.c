/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas and computed values of collections, with a language of expressions that is small enough to
 * be understood here: "NAME" gives the member of that name, "!NUMBER" warns with that number and
 * gives null, "-NUMBER" fails with it, "?" counts how often it was asked, "x" does not compile.
 */
#include "fixture.h"

#include "store/compute.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- the language ---- */

static atomic_int programs, runs;

static enum errc compile(struct slice text, const struct collator *collator, const struct env *env,
                         void **program, struct error *err)
{
    (void)collator, (void)env;
    if (slice_is(text, "x"))
        return fail_num(err, 10, "x does not compile");
    *program = mem_strndup(text);
    atomic_fetch_add(&programs, 1);
    return OK;
}

static enum errc run(const void *program, const struct compute_call *call, struct val *out,
                     struct error *err)
{
    const char *text = program;

    atomic_fetch_add(&runs, 1);
    *out = val_null;
    if (*text == '!')
        call->warn(call->ctx, atoi(text + 1), "be warned");
    else if (*text == '-')
        return fail_num(err, atoi(text + 1), "it failed");
    else
        *out = val_get(call->doc, slice_str(text));
    return OK;
}

static void release(void *program)
{
    mem_free(program);
    atomic_fetch_sub(&programs, 1);
}

static const struct compute language = { compile, run, release };

/* ---- collections and documents ---- */

static int start_at(void **state, bool on_disk)
{
    struct fixture *f = mem_zalloc(sizeof *f);

    fixture_init(f, on_disk);
    store_close(f->store);
    f->compute = &language;
    fixture_open(f);
    atomic_store(&runs, 0);
    *state = f;
    return 0;
}

static int start(void **state)
{
    return start_at(state, false);
}

static int start_on_disk(void **state)
{
    return start_at(state, true);
}

static int end(void **state)
{
    struct fixture *f = *state;

    fixture_release(f);
    assert_int_equal(programs, 0);
    mem_free(f);
    return 0;
}

static uint64_t make(struct fixture *f, const char *name, const char *schema, const char *computed)
{
    struct collection_options opt = { .name = slice_str(name),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .schema = schema ? json(f, schema) : val_null,
                                      .computed = computed ? json(f, computed) : val_null };
    uint64_t id;

    OK_OR_FAIL(store_create_collection(f->store, f->db, &opt, &id, &f->err), &f->err);
    return id;
}

static enum errc set(struct fixture *f, uint64_t id, const char *schema, const char *computed)
{
    struct collection_change to = { .schema = schema ? json(f, schema) : VAL_NONE,
                                    .computed = computed ? json(f, computed) : VAL_NONE };

    f->err = (struct error){ 0 };
    return store_set_collection(f->store, id, &to, &f->err);
}

enum op { INSERT, UPDATE, REPLACE, OVER_UPDATE, OVER_REPLACE };

static enum errc put_in(struct fixture *f, struct txn *t, uint64_t id, enum op op, const char *key,
                        const char *text, struct val *out)
{
    const struct collection *c = catalog_collection_by_id(txn_catalog(t), id);
    struct doc_options opt = { .overwrite = op == OVER_UPDATE    ? OVERWRITE_UPDATE
                                            : op == OVER_REPLACE ? OVERWRITE_REPLACE
                                                                 : OVERWRITE_CONFLICT };
    struct doc_change change = { .new_doc = val_null };
    struct val doc = json(f, text);
    enum errc rc;

    f->err = (struct error){ 0 };
    if (op == UPDATE)
        rc = doc_update(t, c, slice_str(key), doc, &opt, f->arena, &change, &f->err);
    else if (op == REPLACE)
        rc = doc_replace(t, c, slice_str(key), doc, &opt, f->arena, &change, &f->err);
    else
        rc = doc_insert(t, c, doc, &opt, f->arena, &change, &f->err);
    if (out)
        *out = change.new_doc;
    return rc;
}

/* One write in a transaction of its own; its errorNum, 0 when it was taken. */
static int try_put(struct fixture *f, uint64_t id, enum op op, const char *key, const char *text,
                   struct val *out)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);

    enum errc rc = put_in(f, t, id, op, key, text, out);
    if (rc == OK)
        rc = txn_commit(t, &f->err);
    txn_end(t);
    return rc == OK ? 0 : error_num(&f->err);
}

static void expect(struct fixture *f, uint64_t id, enum op op, const char *key, const char *text,
                   int num)
{
    int got = try_put(f, id, op, key, text, NULL);

    if (got != num)
        fail_msg("%s: %d instead of %d: %s", text, got, num, f->err.text);
}

/* The document without what the store adds, as text. */
static const char *shown(struct fixture *f, struct val doc)
{
    struct slice names[20];
    struct val values[20];
    size_t n = 0;

    for (size_t i = 0; i < val_count(doc); i++) {
        if (val_name_at(doc, i).ptr[0] == '_')
            continue;
        names[n] = val_name_at(doc, i);
        values[n++] = val_at(doc, i);
    }
    return text_of(f, val_new_object(f->arena, names, values, n));
}

static void expect_doc(struct fixture *f, uint64_t id, enum op op, const char *key,
                       const char *text, const char *want)
{
    struct val doc;
    int num = try_put(f, id, op, key, text, &doc);

    if (num)
        fail_msg("%s: %d %s", text, num, f->err.text);
    assert_string_equal(shown(f, doc), want);
}

/* ---- schemas ---- */

static const char number_rule[] = "{\"properties\":{\"n\":{\"type\":\"number\"}}}";

static const char *schema(struct fixture *f, const char *level)
{
    return arena_printf(f->arena, "{\"rule\":%s,\"level\":\"%s\",\"message\":\"n is a number\"}",
                        number_rule, level);
}

static void a_level_says_which_writes_are_checked(void **state)
{
    /* errorNum of: insert, update and replace of a bad document by a bad one, of a good one by a bad */
    static const struct {
        const char *level;
        int insert, bad_to_bad, good_to_bad;
    } levels[] = { { "none", 0, 0, 0 },
                   { "new", 1620, 0, 0 },
                   { "moderate", 1620, 0, 1620 },
                   { "strict", 1620, 1620, 1620 } };
    static const enum op changes[] = { UPDATE, REPLACE, OVER_UPDATE, OVER_REPLACE };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        uint64_t id = make(f, levels[i].level, NULL, NULL);
        for (size_t k = 0; k < ARRAY_LEN(changes); k++) {
            assert_int_equal(set(f, id, "null", NULL), OK);
            const char *bad = arena_printf(f->arena, "bad%zu", k);
            const char *good = arena_printf(f->arena, "good%zu", k);
            expect(f, id, INSERT, NULL,
                   arena_printf(f->arena, "{\"_key\":\"%s\",\"n\":\"x\"}", bad), 0);
            expect(f, id, INSERT, NULL, arena_printf(f->arena, "{\"_key\":\"%s\",\"n\":1}", good),
                   0);
            assert_int_equal(set(f, id, schema(f, levels[i].level), NULL), OK);
            expect(f, id, INSERT, NULL, "{\"n\":\"x\"}", levels[i].insert);
            expect(f, id, INSERT, NULL, "{\"n\":2}", 0);
            expect(f, id, changes[k], bad,
                   arena_printf(f->arena, "{\"_key\":\"%s\",\"n\":\"y\"}", bad),
                   levels[i].bad_to_bad);
            expect(f, id, changes[k], good,
                   arena_printf(f->arena, "{\"_key\":\"%s\",\"n\":\"y\"}", good),
                   levels[i].good_to_bad);
            expect(f, id, changes[k], bad, arena_printf(f->arena, "{\"_key\":\"%s\",\"n\":3}", bad),
                   0);
        }
    }
}

static void the_message_is_the_collections_own(void **state)
{
    struct fixture *f = *state;
    uint64_t own = make(f, "own", schema(f, "strict"), NULL);
    uint64_t plain = make(f, "plain", "{\"rule\":{\"required\":[\"a\"]}}", NULL);

    expect(f, own, INSERT, NULL, "{\"n\":\"x\"}", 1620);
    assert_string_equal(f->err.text, "n is a number");
    assert_int_equal(error_http(&f->err), 400);
    expect(f, plain, INSERT, NULL, "{}", 1620);
    assert_string_equal(f->err.text, "schema validation failed");
}

static void a_refused_document_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", schema(f, "strict"), NULL), count;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);

    assert_int_equal(put_in(f, t, id, INSERT, NULL, "{\"_key\":\"a\",\"n\":1}", NULL), OK);
    assert_int_equal(put_in(f, t, id, INSERT, NULL, "{\"_key\":\"b\",\"n\":\"x\"}", NULL),
                     ERR_INVALID);
    assert_int_equal(put_in(f, t, id, UPDATE, "a", "{\"n\":\"x\"}", NULL), ERR_INVALID);
    OK_OR_FAIL(doc_count(t, catalog_collection_by_id(txn_catalog(t), id), &count, &f->err),
               &f->err);
    assert_int_equal(count, 1);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    expect(f, id, INSERT, NULL, "{\"_key\":\"b\",\"n\":2}", 0);
}

static void what_is_no_schema_makes_no_collection(void **state)
{
    static const char *const bad[] = { "1",
                                       "[]",
                                       "{\"rule\":1}",
                                       "{\"rule\":{\"type\":\"x\"}}",
                                       "{\"rule\":{},\"level\":\"x\"}",
                                       "{\"level\":\"new\"}" };
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL, NULL);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct collection_options opt = { .name = slice_str("new"),
                                          .type = COLLECTION_DOCUMENT,
                                          .schema = json(f, bad[i]) };
        assert_int_equal(store_create_collection(f->store, f->db, &opt, NULL, &f->err),
                         ERR_INVALID);
        assert_int_equal(error_num(&f->err), 1621);
        assert_int_equal(set(f, id, bad[i], NULL), ERR_INVALID);
        assert_int_equal(error_num(&f->err), 1621);
    }
    expect(f, id, INSERT, NULL, "{\"n\":\"x\"}", 0);
}

/* Who began before does not commit what the schema would refuse. */
static void a_new_schema_stops_writers_that_began_before(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL, NULL);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);

    assert_int_equal(put_in(f, t, id, INSERT, NULL, "{\"n\":\"x\"}", NULL), OK);
    assert_int_equal(set(f, id, schema(f, "strict"), NULL), OK);
    assert_int_equal(txn_commit(t, &f->err), ERR_CONFLICT);
    txn_end(t);
    /* the same schema again is no change */
    t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(put_in(f, t, id, INSERT, NULL, "{\"n\":1}", NULL), OK);
    assert_int_equal(set(f, id, schema(f, "strict"), NULL), OK);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

static void rules_are_there_after_a_start(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", schema(f, "strict"),
                       "[{\"name\":\"copy\",\"expression\":\"n\",\"overwrite\":true}]");

    expect_doc(f, id, INSERT, NULL, "{\"n\":1}", "{\"n\":1,\"copy\":1}");
    fixture_reopen(f);
    assert_int_equal(programs, 0);
    expect_doc(f, id, INSERT, NULL, "{\"n\":2}", "{\"n\":2,\"copy\":2}");
    expect(f, id, INSERT, NULL, "{\"n\":\"x\"}", 1620);
    assert_int_equal(set(f, id, "{}", "[]"), OK);
    expect_doc(f, id, INSERT, NULL, "{\"n\":\"x\"}", "{\"n\":\"x\"}");
}

/* ---- computed values ---- */

static void values_are_computed_when_they_should(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(
        f, "c", NULL,
        "[{\"name\":\"i\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":[\"insert\"]},"
        "{\"name\":\"u\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":[\"update\"]},"
        "{\"name\":\"r\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":[\"replace\"]}]");

    expect_doc(f, id, INSERT, NULL, "{\"_key\":\"a\",\"n\":1}", "{\"n\":1,\"i\":1}");
    expect_doc(f, id, UPDATE, "a", "{\"n\":2}", "{\"n\":2,\"i\":1,\"u\":2}");
    expect_doc(f, id, REPLACE, "a", "{\"n\":3}", "{\"n\":3,\"r\":3}");
    expect_doc(f, id, OVER_UPDATE, NULL, "{\"_key\":\"a\",\"n\":4}", "{\"n\":4,\"r\":3,\"u\":4}");
    expect_doc(f, id, OVER_REPLACE, NULL, "{\"_key\":\"a\",\"n\":5}", "{\"n\":5,\"r\":5}");
}

static void overwrite_says_who_comes_first(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL,
                       "[{\"name\":\"o\",\"expression\":\"n\",\"overwrite\":true},"
                       "{\"name\":\"k\",\"expression\":\"n\",\"overwrite\":false}]");

    expect_doc(f, id, INSERT, NULL, "{\"_key\":\"a\",\"o\":7,\"k\":7,\"n\":1}",
               "{\"k\":7,\"n\":1,\"o\":1}");
    expect_doc(f, id, UPDATE, "a", "{\"n\":2}", "{\"k\":7,\"n\":2,\"o\":2}");
    expect_doc(f, id, REPLACE, "a", "{\"n\":3}", "{\"n\":3,\"o\":3,\"k\":3}");
    expect_doc(f, id, UPDATE, "a", "{\"n\":4,\"k\":null}", "{\"n\":4,\"k\":null,\"o\":4}");
}

static void keep_null_says_whether_null_is_a_value(void **state)
{
    struct fixture *f = *state;
    uint64_t id =
        make(f, "c", NULL,
             "[{\"name\":\"keep\",\"expression\":\"n\",\"overwrite\":true},"
             "{\"name\":\"drop\",\"expression\":\"n\",\"overwrite\":true,\"keepNull\":false},"
             "{\"name\":\"stay\",\"expression\":\"n\",\"overwrite\":false,\"keepNull\":false}]");

    expect_doc(f, id, INSERT, NULL, "{\"drop\":1,\"stay\":1}", "{\"stay\":1,\"keep\":null}");
    expect_doc(f, id, INSERT, NULL, "{\"n\":2}", "{\"n\":2,\"keep\":2,\"drop\":2,\"stay\":2}");
}

static void values_do_not_see_each_other(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL,
                       "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true},"
                       "{\"name\":\"b\",\"expression\":\"a\",\"overwrite\":true}]");

    expect_doc(f, id, INSERT, NULL, "{\"_key\":\"k\",\"n\":1}", "{\"n\":1,\"a\":1,\"b\":null}");
    expect_doc(f, id, UPDATE, "k", "{\"n\":2}", "{\"n\":2,\"a\":2,\"b\":1}");
}

static void expressions_see_what_the_store_adds(void **state)
{
    struct fixture *f = *state;
    uint64_t id =
        make(f, "c", NULL, "[{\"name\":\"id\",\"expression\":\"_id\",\"overwrite\":true}]");

    expect_doc(f, id, INSERT, NULL, "{\"_key\":\"k\"}", "{\"id\":\"c/k\"}");
}

static void the_schema_sees_computed_values(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(
        f, "c", "{\"rule\":{\"required\":[\"v\"],\"additionalProperties\":{\"type\":\"number\"}}}",
        "[{\"name\":\"v\",\"expression\":\"n\",\"overwrite\":true,\"keepNull\":false}]");

    expect(f, id, INSERT, NULL, "{\"n\":1}", 0);
    expect(f, id, INSERT, NULL, "{\"v\":1}", 1620); /* computed away */
}

static void warnings_are_errors_when_asked_for(void **state)
{
    struct fixture *f = *state;
    uint64_t mild =
        make(f, "mild", NULL, "[{\"name\":\"v\",\"expression\":\"!1562\",\"overwrite\":true}]");
    uint64_t hard = make(
        f, "hard", NULL,
        "[{\"name\":\"v\",\"expression\":\"!1562\",\"overwrite\":true,\"failOnWarning\":true}]");
    uint64_t bad =
        make(f, "bad", NULL, "[{\"name\":\"v\",\"expression\":\"-1593\",\"overwrite\":true}]");

    expect_doc(f, mild, INSERT, NULL, "{}", "{\"v\":null}");
    expect(f, hard, INSERT, NULL, "{}", 1562);
    assert_non_null(strstr(f->err.text, "attribute 'v' of collection 'hard': be warned"));
    expect(f, bad, INSERT, NULL, "{}", 1593);
    assert_non_null(strstr(f->err.text, "attribute 'v' of collection 'bad': it failed"));
}

static void definitions_are_checked(void **state)
{
    static const char *const bad[] = {
        "1",
        "{\"name\":\"a\"}",
        "[1]",
        "[{\"expression\":\"n\",\"overwrite\":true}]",
        "[{\"name\":\"\",\"expression\":\"n\",\"overwrite\":true}]",
        "[{\"name\":\"_key\",\"expression\":\"n\",\"overwrite\":true}]",
        "[{\"name\":\"_from\",\"expression\":\"n\",\"overwrite\":true}]",
        "[{\"name\":\"a\",\"expression\":\"n\"}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":1}]",
        "[{\"name\":\"a\",\"overwrite\":true}]",
        "[{\"name\":\"a\",\"expression\":1,\"overwrite\":true}]",
        "[{\"name\":\"a\",\"expression\":\"x\",\"overwrite\":true}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":\"insert\"}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":[]}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"computeOn\":[\"remove\"]}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"keepNull\":1}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"failOnWarning\":\"yes\"}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true,\"override\":true}]",
        "[{\"name\":\"a\",\"expression\":\"n\",\"overwrite\":true},{\"name\":\"a\",\"expression\":"
        "\"n\",\"overwrite\":true}]",
    };
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL, NULL);
    struct buf many;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (set(f, id, NULL, bad[i]) != ERR_INVALID)
            fail_msg("%s was accepted", bad[i]);
        assert_int_equal(error_num(&f->err), 10);
    }
    buf_init(&many, 0);
    for (int i = 0; i < 101; i++)
        buf_printf(&many, "%c{\"name\":\"a%d\",\"expression\":\"n\",\"overwrite\":true}",
                   i ? ',' : '[', i);
    buf_add_char(&many, ']');
    assert_int_equal(set(f, id, NULL, buf_cstr(&many)), ERR_INVALID);
    buf_release(&many);
    assert_int_equal(programs, 0);
}

static void a_definition_is_kept_as_it_is_shown(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", NULL, "[{\"overwrite\":false,\"expression\":\"n\",\"name\":\"a\"}]");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);

    assert_string_equal(
        text_of(f, catalog_collection_by_id(txn_catalog(t), id)->computed),
        "[{\"name\":\"a\",\"expression\":\"n\",\"computeOn\":[\"insert\",\"update\",\"replace\"],"
        "\"overwrite\":false,\"failOnWarning\":false,\"keepNull\":true}]");
    txn_end(t);
}

/* ---- several writers ---- */

struct writer {
    struct store *store;
    uint64_t id;
    int failures;
};

static void *write_some(void *ctx)
{
    struct writer *w = ctx;
    struct fixture f = { .store = w->store, .arena = arena_new(0) };

    for (int i = 0; i < 50; i++) {
        struct val doc;
        w->failures += try_put(&f, w->id, INSERT, NULL, "{\"n\":1}", &doc) != 0;
        w->failures += !val_equal(val_get(doc, slice_str("copy")), val_get(doc, slice_str("n")));
    }
    arena_free(f.arena);
    return NULL;
}

static void writers_share_what_is_compiled(void **state)
{
    struct fixture *f = *state;
    uint64_t id = make(f, "c", schema(f, "strict"),
                       "[{\"name\":\"copy\",\"expression\":\"n\",\"overwrite\":true}]");
    struct writer writers[4];
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        writers[i] = (struct writer){ f->store, id, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, write_some, &writers[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(writers[i].failures, 0);
    }
    assert_int_equal(programs, 1);
    assert_true(runs >= 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_level_says_which_writes_are_checked, start, end),
        cmocka_unit_test_setup_teardown(the_message_is_the_collections_own, start, end),
        cmocka_unit_test_setup_teardown(a_refused_document_leaves_nothing_behind, start, end),
        cmocka_unit_test_setup_teardown(what_is_no_schema_makes_no_collection, start, end),
        cmocka_unit_test_setup_teardown(a_new_schema_stops_writers_that_began_before, start, end),
        cmocka_unit_test_setup_teardown(rules_are_there_after_a_start, start_on_disk, end),
        cmocka_unit_test_setup_teardown(values_are_computed_when_they_should, start, end),
        cmocka_unit_test_setup_teardown(overwrite_says_who_comes_first, start, end),
        cmocka_unit_test_setup_teardown(keep_null_says_whether_null_is_a_value, start, end),
        cmocka_unit_test_setup_teardown(values_do_not_see_each_other, start, end),
        cmocka_unit_test_setup_teardown(expressions_see_what_the_store_adds, start, end),
        cmocka_unit_test_setup_teardown(the_schema_sees_computed_values, start, end),
        cmocka_unit_test_setup_teardown(warnings_are_errors_when_asked_for, start, end),
        cmocka_unit_test_setup_teardown(definitions_are_checked, start, end),
        cmocka_unit_test_setup_teardown(a_definition_is_kept_as_it_is_shown, start, end),
        cmocka_unit_test_setup_teardown(writers_share_what_is_compiled, start, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
