/* SPDX-License-Identifier: Apache-2.0 */
#include "base/geo.h"
#include "fixture.h"

#include <math.h>
#include <pthread.h>

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, false);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

/* Keys of an iterator, joined by spaces. */
static const char *drain(struct fixture *f, struct index_iter *it)
{
    struct slice key;
    struct buf out;
    buf_init(&out, 0);
    while (index_iter_next(it, &key)) {
        if (out.len)
            buf_add_char(&out, ' ');
        buf_add_slice(&out, key);
    }
    OK_OR_FAIL(index_iter_check(it, &f->err), &f->err);
    index_iter_free(it);
    const char *text = arena_copy(f->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

static const char *scan(struct fixture *f, struct txn *t, uint64_t index,
                        const struct index_range *range)
{
    const struct collection *c = in(f, t, "c");
    struct index_iter *it = NULL;
    OK_OR_FAIL(index_scan(&it, t, c, collection_index(c, index), range, &f->err), &f->err);
    return drain(f, it);
}

/* In a transaction of its own: equal is a JSON array. */
static const char *find(struct fixture *f, uint64_t index, const char *equal)
{
    struct val list = json(f, equal), values[8];
    struct index_range range = { .equal = values, .equal_count = val_count(list) };
    for (size_t i = 0; i < range.equal_count; i++)
        values[i] = val_at(list, i);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const char *keys = scan(f, t, index, &range);
    txn_end(t);
    return keys;
}

static void an_index_follows_its_documents(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"old\",\"a\":{\"b\":5}}");
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a.b\"]}");
    must_put(f, "c", "{\"_key\":\"new\",\"a\":{\"b\":5.0}}");
    must_put(f, "c", "{\"_key\":\"none\"}");
    assert_non_null(strstr("old new old", find(f, x, "[5]")));
    assert_int_equal(strlen(find(f, x, "[5]")), 7);
    assert_string_equal(find(f, x, "[null]"), "none");
    assert_int_equal(take(f, "c", "old"), OK);
    assert_string_equal(find(f, x, "[5]"), "new");
    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("new"), json(f, "{\"a\":{\"b\":6}}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    struct val five = json(f, "5"), six = json(f, "6");
    struct index_range range = { .equal = &five, .equal_count = 1 };
    assert_string_equal(scan(f, t, x, &range), ""); /* own writes */
    range.equal = &six;
    assert_string_equal(scan(f, t, x, &range), "new");
    txn_end(t);
    assert_string_equal(find(f, x, "[5]"), "new");
}

static void ranges_have_bounds_in_aqls_order(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    static const char *const docs[] = {
        "{\"_key\":\"n\",\"a\":1}",           "{\"_key\":\"t\",\"a\":1,\"b\":true}",
        "{\"_key\":\"m\",\"a\":1,\"b\":-7}",  "{\"_key\":\"p\",\"a\":1,\"b\":3.5}",
        "{\"_key\":\"q\",\"a\":1,\"b\":100}", "{\"_key\":\"s\",\"a\":1,\"b\":\"x\"}",
        "{\"_key\":\"z\",\"a\":2,\"b\":3.5}",
    };
    for (size_t i = 0; i < ARRAY_LEN(docs); i++)
        must_put(f, "c", docs[i]);
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\",\"b\"]}");
    struct val one = json(f, "1");
    struct index_range range = { .equal = &one, .equal_count = 1 };
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_string_equal(scan(f, t, x, &range), "n t m p q s");
    range.lower = json(f, "3.5");
    assert_string_equal(scan(f, t, x, &range), "q s");
    range.lower_included = true;
    assert_string_equal(scan(f, t, x, &range), "p q s");
    range.upper = json(f, "100");
    assert_string_equal(scan(f, t, x, &range), "p");
    range.upper_included = true;
    assert_string_equal(scan(f, t, x, &range), "p q");
    range.is_reverse = true;
    assert_string_equal(scan(f, t, x, &range), "q p");
    range.lower = VAL_NONE;
    assert_string_equal(scan(f, t, x, &range), "q p m t n");
    range.lower = json(f, "\"zzz\"");
    assert_string_equal(scan(f, t, x, &range), ""); /* lower above upper */
    struct index_range all = { .equal_count = 0 };
    assert_string_equal(scan(f, t, x, &all), "n t m p q s z");
    txn_end(t);
}

static void sparse_indexes_leave_nulls_out(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c,
                            "{\"type\":\"persistent\",\"fields\":[\"a\"],\"unique\":true,"
                            "\"sparse\":true}");
    must_put(f, "c", "{\"_key\":\"1\"}");
    must_put(f, "c", "{\"_key\":\"2\",\"a\":null}");
    must_put(f, "c", "{\"_key\":\"3\",\"a\":false}");
    assert_string_equal(find(f, x, "[]"), "3");
}

static void unique_indexes_name_the_clash(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c,
                            "{\"type\":\"persistent\",\"fields\":[\"a\",\"b\"],"
                            "\"unique\":true,\"name\":\"ab\"}");
    must_put(f, "c", "{\"_key\":\"one\",\"a\":1,\"b\":2}");
    assert_int_equal(put(f, "c", "{\"_key\":\"two\",\"a\":1,\"b\":2.0}"), ERR_EXISTS);
    assert_int_equal(error_num(&f->err), 1210);
    assert_string_equal(f->err.text, "unique constraint violated - in index ab of type persistent "
                                     "over 'a, b'; conflicting key: one");
    assert_int_equal(count_of(f, "c"), 1);
    must_put(f, "c", "{\"_key\":\"two\",\"a\":1,\"b\":3}");
    /* a failed statement leaves the transaction usable and clean */
    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(doc_update(t, in(f, t, "c"), slice_str("two"), json(f, "{\"b\":2}"), NULL,
                                f->arena, &change, &f->err),
                     ERR_EXISTS);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("one"), json(f, "{\"b\":9}"), NULL, f->arena,
                          &change, &f->err),
               &f->err);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("two"), json(f, "{\"b\":2}"), NULL, f->arena,
                          &change, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_string_equal(find(f, x, "[1,2]"), "two");
    assert_string_equal(find(f, x, "[1,9]"), "one");
    assert_string_equal(find(f, x, "[1,3]"), "");
    must_put(f, "c", "{\"_key\":\"n\"}");
    assert_int_equal(put(f, "c", "{\"_key\":\"m\"}"), ERR_EXISTS); /* null is a value */
}

/* What the entries of an index say of their documents, as "key:field/stored". */
static const char *entries(struct fixture *f, uint64_t index)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    struct index_range all = { .equal_count = 0 };
    struct index_iter *it = NULL;
    struct index_values v;
    struct slice key;
    struct buf text;
    OK_OR_FAIL(index_scan(&it, t, c, collection_index(c, index), &all, &f->err), &f->err);
    buf_init(&text, 0);
    while (index_iter_next(it, &key)) {
        OK_OR_FAIL(index_iter_values(it, 1, f->arena, &v, &f->err), &f->err);
        buf_printf(&text, "%s%.*s:", text.len ? " " : "", SLICE_ARG(key));
        if (v.is_exact)
            val_print(v.fields[0], &text);
        buf_add_char(&text, '/');
        val_print(v.stored, &text);
    }
    index_iter_free(it);
    txn_end(t);
    const char *copy = arena_copy(f->arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

static void entries_hold_fields_and_stored_values(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"k1\",\"a\":1,\"u\":\"x\",\"s\":{\"t\":[1,null]}}");
    uint64_t plain = make_index(
        f, c,
        "{\"type\":\"persistent\",\"fields\":[\"a\",\"b\"],\"storedValues\":[\"s\",\"s.t\"]}");
    uint64_t unique = make_index(f, c,
                                 "{\"type\":\"persistent\",\"unique\":true,\"fields\":[\"u\"],"
                                 "\"storedValues\":[\"s\"]}");
    uint64_t bare = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    must_put(f, "c", "{\"_key\":\"k2\",\"a\":[2],\"u\":\"y\"}");
    assert_string_equal(entries(f, plain), "k1:1/[{\"t\":[1,null]},[1,null]] k2:/[null,null]");
    assert_string_equal(entries(f, unique), "k1:\"x\"/[{\"t\":[1,null]}] k2:\"y\"/[null]");
    assert_string_equal(entries(f, bare), "k1:1/null k2:/null");
    assert_string_equal(find(f, unique, "[\"y\"]"), "k2");
    assert_int_equal(put(f, "c", "{\"u\":\"y\"}"), ERR_EXISTS);
    assert_non_null(strstr(f->err.text, "conflicting key: k2"));

    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("k2"), json(f, "{\"s\":7}"), NULL, f->arena,
                          &change, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_string_equal(entries(f, unique), "k1:\"x\"/[{\"t\":[1,null]}] k2:\"y\"/[7]");
    assert_int_equal(put(f, "c", "{\"u\":\"y\"}"), ERR_EXISTS);
}

static void concurrent_equal_values_conflict(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"],\"unique\":true,\"name\":\"u\"}");
    struct txn *one = begin(f, ISOLATION_SNAPSHOT), *two = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(
        doc_insert(one, in(f, one, "c"), json(f, "{\"a\":1}"), NULL, f->arena, &change, &f->err),
        &f->err);
    OK_OR_FAIL(
        doc_insert(two, in(f, two, "c"), json(f, "{\"a\":1}"), NULL, f->arena, &change, &f->err),
        &f->err);
    OK_OR_FAIL(txn_commit(one, &f->err), &f->err);
    assert_int_equal(txn_commit(two, &f->err), ERR_CONFLICT);
    assert_non_null(strstr(f->err.text, "conflict in index 'u' of collection 'c'"));
    txn_end(one);
    txn_end(two);
}

static void arrays_are_expanded_without_duplicates(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"tags[*]\"]}");
    must_put(f, "c", "{\"_key\":\"1\",\"tags\":[\"a\",\"b\",\"a\"]}");
    must_put(f, "c", "{\"_key\":\"2\",\"tags\":[\"b\",null]}");
    must_put(f, "c", "{\"_key\":\"3\",\"tags\":\"b\"}");
    must_put(f, "c", "{\"_key\":\"4\",\"tags\":[]}");
    assert_string_equal(find(f, x, "[\"a\"]"), "1");
    assert_int_equal(strlen(find(f, x, "[\"b\"]")), 3);
    assert_string_equal(find(f, x, "[null]"), "2");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct index_range all = { .equal_count = 0 };
    assert_string_equal(scan(f, t, x, &all), "2 1"); /* each document once */
    txn_end(t);
    assert_int_equal(take(f, "c", "1"), OK);
    assert_string_equal(find(f, x, "[\"b\"]"), "2");
    uint64_t u = make_index(f, c,
                            "{\"type\":\"persistent\",\"fields\":[\"u[*]\"],\"unique\":true,"
                            "\"deduplicate\":false}");
    assert_int_equal(put(f, "c", "{\"u\":[1,1]}"), ERR_EXISTS);
    must_put(f, "c", "{\"_key\":\"5\",\"u\":[1,2]}");
    assert_string_equal(find(f, u, "[2]"), "5");
}

static void strings_are_found_in_the_order_of_people(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"s\"]}");
    must_put(f, "c", "{\"_key\":\"1\",\"s\":\"zebra\"}");
    must_put(f, "c", "{\"_key\":\"2\",\"s\":\"\\u00c4pfel\"}");
    must_put(f, "c", "{\"_key\":\"3\",\"s\":\"Apfel\"}");
    must_put(f, "c", "{\"_key\":\"4\",\"s\":\"apfel\"}");
    assert_string_equal(find(f, x, "[]"), "4 3 2 1");
    assert_string_equal(find(f, x, "[\"Apfel\"]"), "3");
}

static void edges_are_found_from_both_ends(void **out)
{
    struct fixture *f = *out;
    make_collection(f, "c", COLLECTION_EDGE);
    must_put(f, "c", "{\"_key\":\"1\",\"_from\":\"v/a\",\"_to\":\"v/b\"}");
    must_put(f, "c", "{\"_key\":\"2\",\"_from\":\"v/a\",\"_to\":\"v/c\"}");
    must_put(f, "c", "{\"_key\":\"3\",\"_from\":\"v/b\",\"_to\":\"v/a\"}");
    must_put(f, "c", "{\"_key\":\"4\",\"_from\":\"v/a\",\"_to\":\"v/a\"}");
    must_put(f, "c", "{\"_key\":\"5\",\"_from\":\"v/aa\",\"_to\":\"v/ab\"}");
    static const struct {
        enum edge_direction direction;
        const char *want;
    } cases[] = { { EDGE_OUTBOUND, "1 2 4" }, { EDGE_INBOUND, "3 4" }, { EDGE_ANY, "1 2 4 3" } };
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct index_iter *it = NULL;
        OK_OR_FAIL(
            index_scan_edges(&it, t, in(f, t, "c"), slice_str("v/a"), cases[i].direction, &f->err),
            &f->err);
        assert_string_equal(drain(f, it), cases[i].want);
    }
    txn_end(t);
    struct doc_change change;
    t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("1"), json(f, "{\"_from\":\"v/x\"}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    struct index_iter *it = NULL;
    OK_OR_FAIL(index_scan_edges(&it, t, in(f, t, "c"), slice_str("v/a"), EDGE_OUTBOUND, &f->err),
               &f->err);
    assert_string_equal(drain(f, it), "2 4");
    OK_OR_FAIL(index_scan_edges(&it, t, in(f, t, "c"), slice_str("v/b"), EDGE_INBOUND, &f->err),
               &f->err);
    assert_string_equal(drain(f, it), "1");
    txn_end(t);
}

/* ---- definitions ---- */

static void bad_definitions_are_refused(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT), id;
    bool is_new;
    static const struct {
        const char *def;
        int num;
    } cases[] = {
        { "[]", 10 },
        { "{}", 10 },
        { "{\"type\":\"nonsense\",\"fields\":[\"a\"]}", 10 },
        { "{\"type\":\"mdi\",\"fields\":[\"a\"]}", 9 },
        { "{\"type\":\"inverted\",\"fields\":[\"a\"]}", 9 },
        { "{\"type\":\"ttl\",\"fields\":[\"a\"]}", 10 },
        { "{\"type\":\"ttl\",\"fields\":[\"a\"],\"expireAfter\":-1}", 10 },
        { "{\"type\":\"primary\",\"fields\":[\"_key\"]}", 10 },
        { "{\"type\":\"persistent\"}", 10 },
        { "{\"type\":\"persistent\",\"fields\":[]}", 10 },
        { "{\"type\":\"persistent\",\"fields\":[1]}", 10 },
        { "{\"type\":\"persistent\",\"fields\":[\"a\",\"a\"]}", 1232 },
        { "{\"type\":\"persistent\",\"fields\":[\"a..b\"]}", 1220 },
        { "{\"type\":\"persistent\",\"fields\":[\"a[*].b\"]}", 9 },
        { "{\"type\":\"persistent\",\"fields\":[\"a[*]\",\"b[*]\"]}", 10 },
        { "{\"type\":\"persistent\",\"fields\":[\"a\"],\"unique\":1}", 10 },
        { "{\"type\":\"persistent\",\"fields\":[\"a\"],\"name\":\"1 2\"}", 1208 },
        { "{\"type\":\"geo\",\"fields\":[\"a\",\"b\",\"c\"]}", 10 },
        { "{\"type\":\"geo\",\"fields\":[\"a\",\"b\"],\"geoJson\":true}", 10 },
        { "{\"type\":\"geo\",\"fields\":[\"a[*]\"]}", 10 },
        { "{\"type\":\"geo\",\"fields\":[\"a\"],\"unique\":true}", 10 },
        { "{\"type\":\"fulltext\",\"fields\":[\"a\",\"b\"]}", 10 },
        { "{\"type\":\"fulltext\",\"fields\":[\"a\"],\"minLength\":0}", 10 },
        { "{\"type\":\"vector\",\"fields\":[\"a\"]}", 10 },
        { "{\"type\":\"vector\",\"fields\":[\"a\"],\"params\":{\"metric\":\"x\",\"dimension\":3}}",
          10 },
        { "{\"type\":\"vector\",\"fields\":[\"a\"],\"params\":{\"metric\":\"l2\",\"dimension\":0}}",
          10 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_not_equal(
            store_create_index(f->store, c, json(f, cases[i].def), &id, &is_new, &f->err), OK);
        if (error_num(&f->err) != cases[i].num)
            fail_msg("%s: %d %s", cases[i].def, error_num(&f->err), f->err.text);
    }
    assert_int_equal(store_create_index(f->store, 999, json(f, "{}"), &id, &is_new, &f->err),
                     ERR_NOT_FOUND);
}

static void an_equal_index_is_found_again(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT), id;
    bool is_new = true;
    uint64_t x = make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"],\"name\":\"n\"}");
    OK_OR_FAIL(store_create_index(f->store, c, json(f, "{\"type\":\"hash\",\"fields\":[\"a\"]}"),
                                  &id, &is_new, &f->err),
               &f->err);
    assert_false(is_new);
    assert_int_equal(id, x);
    assert_int_equal(
        store_create_index(f->store, c,
                           json(f, "{\"type\":\"persistent\",\"fields\":[\"b\"],\"name\":\"n\"}"),
                           &id, &is_new, &f->err),
        ERR_EXISTS);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *col = in(f, t, "c");
    char handle[40];
    snprintf(handle, sizeof handle, "c/%llu", (unsigned long long)x);
    assert_ptr_equal(collection_index_named(col, slice_str(handle)), collection_index(col, x));
    assert_ptr_equal(collection_index_named(col, slice_str("n")), collection_index(col, x));
    assert_null(collection_index_named(col, slice_str("d/1")));
    assert_string_equal(text_of(f, collection_index(col, x)->def),
                        "{\"type\":\"persistent\",\"name\":\"n\",\"fields\":[\"a\"],"
                        "\"unique\":false,\"sparse\":false,\"deduplicate\":true}");
    txn_end(t);
    OK_OR_FAIL(store_drop_index(f->store, c, x, &f->err), &f->err);
    assert_int_equal(store_drop_index(f->store, c, x, &f->err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&f->err), 1212);
    assert_int_equal(store_drop_index(f->store, c, 0, &f->err), ERR_FORBIDDEN);
}

static void a_failed_build_leaves_no_index(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT), id;
    bool is_new;
    must_put(f, "c", "{\"_key\":\"1\",\"a\":1}");
    must_put(f, "c", "{\"_key\":\"2\",\"a\":1}");
    assert_int_equal(
        store_create_index(f->store, c,
                           json(f, "{\"type\":\"persistent\",\"fields\":[\"a\"],\"unique\":true}"),
                           &id, &is_new, &f->err),
        ERR_EXISTS);
    assert_int_equal(error_num(&f->err), 1210);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(in(f, t, "c")->index_count, 1);
    txn_end(t);
    must_put(f, "c", "{\"_key\":\"3\",\"a\":1}");
}

/* As many entries as documents, and each document stands under its value, once. */
static void index_must_agree(struct fixture *f, uint64_t index, const char *field)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    const struct index_def *x = collection_index(c, index);
    struct index_iter *it = NULL;
    struct doc_iter *docs = NULL;
    struct slice key;
    struct val doc;
    uint64_t entries = 0, documents = 0, counted;
    OK_OR_FAIL(index_scan(&it, t, c, x, &(struct index_range){ 0 }, &f->err), &f->err);
    while (index_iter_next(it, &key))
        entries++;
    OK_OR_FAIL(index_iter_check(it, &f->err), &f->err);
    index_iter_free(it);
    OK_OR_FAIL(doc_iter_new(&docs, t, c, &f->err), &f->err);
    while (doc_iter_next(docs, &doc)) {
        struct val value = val_get(doc, slice_str(field));
        struct index_range range = { .equal = &value, .equal_count = 1 };
        int found = 0;
        documents++;
        OK_OR_FAIL(index_scan(&it, t, c, x, &range, &f->err), &f->err);
        while (index_iter_next(it, &key))
            found += slice_eq(key, val_string(val_get(doc, slice_str("_key"))));
        index_iter_free(it);
        assert_int_equal(found, 1);
    }
    doc_iter_free(docs);
    OK_OR_FAIL(doc_count(t, c, &counted, &f->err), &f->err);
    assert_int_equal(entries, documents);
    assert_int_equal(counted, documents);
    txn_end(t);
}

/* Each document is in the geo index once, at the cells of its place or nowhere. */
static void places_must_agree(struct fixture *f, uint64_t index)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    const struct index_def *x = collection_index(c, index);
    struct geo_cap everywhere = { { 0, 0, 1 }, M_PI };
    struct index_iter *it = NULL;
    struct geo_shape shape;
    struct slice key;
    struct val doc;
    uint64_t all = 0, placed = 0, expected = 0, counted;
    for (int with_nowhere = 0; with_nowhere < 2; with_nowhere++) {
        OK_OR_FAIL(index_scan_geo(&it, t, c, x, everywhere, with_nowhere, &f->err), &f->err);
        while (index_iter_next(it, &key))
            ++*(with_nowhere ? &all : &placed);
        OK_OR_FAIL(index_iter_check(it, &f->err), &f->err);
        index_iter_free(it);
    }
    struct doc_iter *docs = NULL;
    OK_OR_FAIL(doc_iter_new(&docs, t, c, &f->err), &f->err);
    while (doc_iter_next(docs, &doc))
        expected += index_geo_shape(x, doc, f->arena, &shape);
    doc_iter_free(docs);
    OK_OR_FAIL(doc_count(t, c, &counted, &f->err), &f->err);
    assert_int_equal(all, counted);
    assert_int_equal(placed, expected);
    assert_true(placed > 0 && placed < all);
    txn_end(t);
}

/* Writers change everything while the index is built; afterwards it must agree. */
enum { WRITERS = 3, BUILD_DOCS = 3000 };

struct writer {
    struct fixture *f;
    int number;
    _Atomic bool *stop;
};

/* Removes, changes or makes again; values of a are places only in part. */
static enum errc write_one(struct txn *t, const struct collection *c, uint64_t key, uint64_t seed,
                           struct arena *arena, struct error *err)
{
    struct doc_change change;
    char text[96];
    int a = (int)(seed >> 50) % 200;
    struct slice name = slice_str(arena_printf(arena, "%d", (int)key));
    struct val doc;
    int kind = (int)(seed >> 12) % 3;
    if (kind == 0)
        return doc_remove(t, c, name, NULL, arena, &change, err);
    if (kind == 1)
        snprintf(text, sizeof text, "{\"a\":%d}", a);
    else
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"a\":%d,\"b\":%d,\"c\":1}", (int)key, a,
                 (int)key);
    enum errc rc = val_parse(slice_str(text), arena, &doc, err);
    if (rc != OK)
        return rc;
    return kind == 1 ? doc_update(t, c, name, doc, NULL, arena, &change, err)
                     : doc_insert(t, c, doc, NULL, arena, &change, err);
}

static void *write_on(void *arg)
{
    struct writer *w = arg;
    uint64_t seed = (uint64_t)w->number + 99;
    while (!*w->stop) {
        struct arena *arena = arena_new(0);
        struct error err;
        struct txn *t = NULL;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (txn_begin(&t, w->f->store, NULL, &err) != OK)
            return (void *)1;
        const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
        enum errc rc = write_one(t, c, (seed >> 33) % BUILD_DOCS, seed, arena, &err);
        if (rc == OK)
            rc = txn_commit(t, &err);
        txn_end(t);
        arena_free(arena);
        if (rc != OK && rc != ERR_CONFLICT && rc != ERR_NOT_FOUND && rc != ERR_EXISTS)
            return (void *)1;
    }
    return NULL;
}

static void a_build_loses_no_concurrent_write(void **out)
{
    struct fixture *f = *out;
    uint64_t id = make_collection(f, "c", COLLECTION_DOCUMENT);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct doc_change change;
    for (int i = 0; i < BUILD_DOCS; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"a\":%d,\"b\":%d,\"c\":1}", i, i % 100, i);
        OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, text), NULL, f->arena, &change, &f->err),
                   &f->err);
    }
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    _Atomic bool stop = false;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ f, i, &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &writers[i]), 0);
    }
    uint64_t plain = make_index(f, id, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    uint64_t unique =
        make_index(f, id, "{\"type\":\"persistent\",\"fields\":[\"b\"],\"unique\":true}");
    uint64_t places = make_index(f, id, "{\"type\":\"geo\",\"fields\":[\"a\",\"c\"]}");
    stop = true;
    for (int i = 0; i < WRITERS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    index_must_agree(f, plain, "a");
    index_must_agree(f, unique, "b");
    places_must_agree(f, places);
}

/* Documents change at random, also by statements that fail and marks that are undone. */
static void random_changes_keep_every_index_exact(void **out)
{
    struct fixture *f = *out;
    uint64_t id = make_collection(f, "c", COLLECTION_DOCUMENT), seed = 11;
    uint64_t plain = make_index(f, id, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    uint64_t unique = make_index(f, id,
                                 "{\"type\":\"persistent\",\"fields\":[\"b\"],"
                                 "\"unique\":true}");
    int clashes = 0;
    for (int round = 0; round < 60; round++) {
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        size_t mark = 0;
        for (int step = 0; step < 20; step++) {
            struct doc_change change;
            char key[16], text[64];
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned r = (unsigned)(seed >> 33);
            snprintf(key, sizeof key, "%u", r % 40);
            snprintf(text, sizeof text, "{\"_key\":\"%u\",\"a\":%u,\"b\":%u}", r % 40, r / 40 % 5,
                     r / 200 % 60);
            const struct collection *c = in(f, t, "c");
            enum errc rc = OK;
            if (r / 12000 % 4 == 0)
                rc = doc_remove(t, c, slice_str(key), NULL, f->arena, &change, &f->err);
            else if (r / 12000 % 4 == 1)
                rc = doc_insert(t, c, json(f, text),
                                &(struct doc_options){ .overwrite = OVERWRITE_REPLACE }, f->arena,
                                &change, &f->err);
            else
                rc = doc_update(t, c, slice_str(key), json(f, text), NULL, f->arena, &change,
                                &f->err);
            assert_true(rc == OK || rc == ERR_NOT_FOUND || rc == ERR_EXISTS);
            clashes += rc == ERR_EXISTS;
            if (step == 9)
                mark = txn_mark(t);
        }
        if (round % 3 == 0)
            txn_rewind(t, mark);
        if (round % 5 != 0)
            OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
    }
    assert_true(clashes > 10 && count_of(f, "c") > 5);
    index_must_agree(f, plain, "a");
    index_must_agree(f, unique, "b");
}

static void an_unfinished_or_outdated_index_is_built_again_at_open(void **out)
{
    struct fixture f;
    (void)out;
    fixture_init(&f, true);
    uint64_t c = make_collection(&f, "c", COLLECTION_DOCUMENT);
    must_put(&f, "c", "{\"_key\":\"1\",\"a\":\"x\"}");
    uint64_t x = make_index(&f, c, "{\"type\":\"persistent\",\"fields\":[\"a\"]}");
    /* pretend that ICU changed: write another version into the stored catalog */
    struct slice bytes;
    struct txn *t = begin(&f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(txn_get(t, KV_META, slice_str("catalog"), f.arena, &bytes, &f.err), &f.err);
    const char *version = collator_version(store_collator(f.store));
    char *at = memmem(bytes.ptr, bytes.len, version, strlen(version));
    assert_non_null(at);
    at[0] ^= 1;
    OK_OR_FAIL(txn_put(t, KV_META, slice_str("catalog"), bytes, &f.err), &f.err);
    OK_OR_FAIL(txn_commit(t, &f.err), &f.err);
    uint64_t old_object = collection_index(in(&f, t, "c"), x)->object_id;
    txn_end(t);
    fixture_reopen(&f);
    assert_string_equal(find(&f, x, "[\"x\"]"), "1");
    t = begin(&f, ISOLATION_SNAPSHOT);
    assert_int_not_equal(collection_index(in(&f, t, "c"), x)->object_id, old_object);
    assert_true(collection_index(in(&f, t, "c"), x)->is_ready);
    txn_end(t);
    fixture_release(&f);
}

/* ---- vectors ---- */

static float random_float(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*seed >> 40) / (1 << 23) - 1.0);
}

static void kernels_agree_with_a_plain_loop(void **out)
{
    (void)out;
    static const char *const names[] = { "sse2", "avx2", "avx512" };
    enum { MAX = 131 };
    float a[MAX + 1], b[MAX + 1];
    uint64_t seed = 5;
    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        if (!vector_use_kernel(names[k]))
            continue;
        for (size_t n = 0; n <= MAX; n++) {
            double dot = 0, l2 = 0;
            for (size_t i = 0; i <= n; i++) {
                a[i] = random_float(&seed);
                b[i] = random_float(&seed);
            }
            for (size_t i = 1; i <= n; i++) {
                dot += (double)a[i] * (double)b[i];
                l2 += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
            }
            assert_true(fabs((double)vector_dot(a + 1, b + 1, n) - dot) < 1e-4);
            assert_true(fabs((double)vector_l2_squared(a + 1, b + 1, n) - l2) < 1e-4);
        }
    }
    assert_true(vector_use_kernel(NULL));
    assert_false(vector_use_kernel("mmx"));
}

static const char *search(struct fixture *f, struct txn *t, uint64_t index, const float *query,
                          uint32_t dimension, size_t k, bool (*filter)(void *, struct slice),
                          float *first)
{
    struct vector_hit hits[20];
    size_t count;
    struct buf out;
    const struct collection *c = in(f, t, "c");
    struct vector_request request = {
        .vector = query, .dimension = dimension, .k = k, .filter = filter
    };
    OK_OR_FAIL(
        vector_search(t, c, collection_index(c, index), &request, f->arena, hits, &count, &f->err),
        &f->err);
    buf_init(&out, 0);
    for (size_t i = 0; i < count; i++)
        buf_printf(&out, "%s%.*s", i ? " " : "", SLICE_ARG(hits[i].key));
    if (count && first)
        *first = hits[0].score;
    const char *text = arena_copy(f->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

static bool not_b(void *ctx, struct slice key)
{
    (void)ctx;
    return !slice_is(key, "b");
}

static void the_nearest_are_found_in_every_metric(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t cosine = make_index(f, c,
                                 "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":"
                                 "{\"metric\":\"cosine\",\"dimension\":2,\"nLists\":9}}");
    uint64_t l2 = make_index(f, c,
                             "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":"
                             "{\"metric\":\"l2\",\"dimension\":2}}");
    uint64_t inner = make_index(f, c,
                                "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":"
                                "{\"metric\":\"innerProduct\",\"dimension\":2}}");
    must_put(f, "c", "{\"_key\":\"a\",\"v\":[1,0]}");
    must_put(f, "c", "{\"_key\":\"b\",\"v\":[3,3]}");
    must_put(f, "c", "{\"_key\":\"d\",\"v\":[0,2.5]}");
    must_put(f, "c", "{\"_key\":\"z\",\"v\":[0,0]}");
    const float query[] = { 1, 1 };
    float score = 0;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_string_equal(search(f, t, cosine, query, 2, 3, NULL, &score), "b a d");
    assert_true(fabsf(score - 1) < 1e-6f);
    assert_string_equal(search(f, t, l2, query, 2, 10, NULL, &score), "a z d b");
    assert_true(fabsf(score - 1) < 1e-6f);
    assert_string_equal(search(f, t, inner, query, 2, 2, NULL, &score), "b d");
    assert_true(fabsf(score - 6) < 1e-6f);
    assert_string_equal(search(f, t, inner, query, 2, 1, not_b, NULL), "d");
    struct doc_change change;
    OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, "{\"_key\":\"own\",\"v\":[9,9]}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(doc_remove(t, in(f, t, "c"), slice_str("b"), NULL, f->arena, &change, &f->err),
               &f->err);
    assert_string_equal(search(f, t, inner, query, 2, 2, NULL, NULL), "own d");
    txn_end(t);
}

static void vectors_of_the_wrong_kind_are_refused(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t x = make_index(f, c,
                            "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":"
                            "{\"metric\":\"l2\",\"dimension\":3},\"sparse\":true}");
    assert_int_equal(put(f, "c", "{\"v\":[1,2]}"), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "has dimension 3, the document's vector has 2"));
    assert_int_equal(put(f, "c", "{\"v\":[1,2,\"x\"]}"), ERR_INVALID);
    assert_int_equal(put(f, "c", "{\"v\":7}"), ERR_INVALID);
    must_put(f, "c", "{}"); /* sparse */
    make_index(f, c,
               "{\"type\":\"vector\",\"fields\":[\"w\"],\"params\":"
               "{\"metric\":\"l2\",\"dimension\":3},\"sparse\":true}");
    uint64_t id;
    bool is_new;
    assert_int_equal(
        store_create_index(f->store, c,
                           json(f, "{\"type\":\"vector\",\"fields\":[\"w\"],\"params\":"
                                   "{\"metric\":\"l2\",\"dimension\":3}}"),
                           &id, &is_new, &f->err),
        ERR_INVALID); /* not sparse: the document without w */
    struct vector_hit hit;
    size_t count;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *col = in(f, t, "c");
    struct vector_request request = { .vector = &hit.score, .dimension = 1, .k = 1 };
    assert_int_equal(
        vector_search(t, col, collection_index(col, x), &request, f->arena, &hit, &count, &f->err),
        ERR_INVALID);
    assert_int_equal(
        vector_search(t, col, collection_index(col, 0), &request, f->arena, &hit, &count, &f->err),
        ERR_INVALID);
    assert_int_equal(error_num(&f->err), 1554);
    txn_end(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_index_follows_its_documents),
        TEST(ranges_have_bounds_in_aqls_order),
        TEST(sparse_indexes_leave_nulls_out),
        TEST(unique_indexes_name_the_clash),
        TEST(entries_hold_fields_and_stored_values),
        TEST(concurrent_equal_values_conflict),
        TEST(arrays_are_expanded_without_duplicates),
        TEST(strings_are_found_in_the_order_of_people),
        TEST(edges_are_found_from_both_ends),
        TEST(bad_definitions_are_refused),
        TEST(an_equal_index_is_found_again),
        TEST(a_failed_build_leaves_no_index),
        TEST(a_build_loses_no_concurrent_write),
        TEST(random_changes_keep_every_index_exact),
        cmocka_unit_test(an_unfinished_or_outdated_index_is_built_again_at_open),
        cmocka_unit_test(kernels_agree_with_a_plain_loop),
        TEST(the_nearest_are_found_in_every_metric),
        TEST(vectors_of_the_wrong_kind_are_refused),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
