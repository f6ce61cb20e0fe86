/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypted attributes: rows hold them sealed, readers get them clear, keys come and go. */
#include "fixture.h"

#include <sys/stat.h>

#include "base/key.h"
#include "store/change_feed.h"
#include "store/doc_private.h"
#include "store/encryption.h"
#include "store/sealed.h"

#define K1 "k1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define K2 "k2 202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\n"
#define K1_OTHER "k1 ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

static const char secret[] = "Geheimnis-4711";

static void write_keys(struct fixture *f, const char *text)
{
    if (!f->settings.encryption_key_file[0]) {
        snprintf(f->settings.encryption_key_file, sizeof f->settings.encryption_key_file,
                 "/tmp/themis-keys-XXXXXX");
        int fd = mkstemp(f->settings.encryption_key_file);
        assert_true(fd >= 0);
        close(fd);
    }
    FILE *out = fopen(f->settings.encryption_key_file, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    chmod(f->settings.encryption_key_file, 0600);
}

static void use_keys(struct fixture *f, const char *text)
{
    write_keys(f, text);
    OK_OR_FAIL(store_reload_keys(f->store, &f->err), &f->err);
}

static uint64_t make_encrypted(struct fixture *f, const char *name, const char *fields)
{
    uint64_t id = 0;
    struct collection_options opt = { .name = slice_str(name),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .encrypted_fields = json(f, fields) };
    OK_OR_FAIL(store_create_collection(f->store, f->db, &opt, &id, &f->err), &f->err);
    return id;
}

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, false);
    use_keys(f, K1);
    make_encrypted(f, "c", "[\"ssn\",\"address.street\"]");
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    struct fixture *f = *out;
    unlink(f->settings.encryption_key_file);
    fixture_release(f);
    free(f);
    return 0;
}

/* ---- what is there ---- */

static enum errc get(struct fixture *f, const char *key, const char *attribute, const char **out)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct val doc;
    enum errc rc = doc_get(t, in(f, t, "c"), slice_str(key), f->arena, &doc, &f->err);
    if (rc == OK)
        *out = text_of(f, val_get(doc, slice_str(attribute)));
    txn_end(t);
    return rc;
}

static void assert_reads(struct fixture *f, const char *key, const char *attribute,
                         const char *want)
{
    const char *text = NULL;
    OK_OR_FAIL(get(f, key, attribute, &text), &f->err);
    assert_string_equal(text, want);
}

static void assert_fails(struct fixture *f, const char *key, enum errc code, const char *why)
{
    const char *text;
    assert_int_equal(get(f, key, "ssn", &text), code);
    if (!strstr(f->err.text, why))
        fail_msg("%s", f->err.text);
}

/* The row as it is on disk, and its key. */
static struct slice raw(struct fixture *f, const char *key, struct buf *at)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    struct slice value;
    buf_init(at, 0);
    row_key(at, c, doc_slot(c, slice_str(key), slice_str("")), slice_str(key));
    OK_OR_FAIL(txn_get(t, KV_DOC, buf_slice(at), f->arena, &value, &f->err), &f->err);
    txn_end(t);
    return value;
}

static struct val raw_doc(struct fixture *f, const char *key)
{
    struct buf at;
    struct slice value = raw(f, key, &at);
    buf_release(&at);
    return (struct val){ (const uint8_t *)value.ptr };
}

static void put_raw(struct fixture *f, const char *key, struct slice value)
{
    struct buf at;
    (void)raw(f, key, &at);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(txn_put(t, KV_DOC, buf_slice(&at), value, &f->err), &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    buf_release(&at);
}

static bool holds(struct slice bytes, const char *text)
{
    return memmem(bytes.ptr, bytes.len, text, strlen(text)) != NULL;
}

/* Every byte of every family. */
static bool is_anywhere(struct fixture *f, const char *text)
{
    bool is_found = false;
    struct kv *kv = ((struct store *)f->store)->kv;
    for (int family = 0; family < KV_FAMILY_COUNT; family++) {
        struct kv_iter *it;
        OK_OR_FAIL(
            kv_iter_new(&it, kv, NULL, (enum kv_family)family, &(struct kv_scan){ 0 }, &f->err),
            &f->err);
        for (; kv_iter_valid(it); kv_iter_next(it))
            is_found |= holds(kv_iter_value(it), text) || holds(kv_iter_key(it), text);
        kv_iter_free(it);
    }
    return is_found;
}

static const char *usage(struct fixture *f, const char *name)
{
    struct encryption_usage *u = calloc(1, sizeof *u);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t id = in(f, t, name)->id;
    struct buf out;
    txn_end(t);
    OK_OR_FAIL(encryption_count(f->store, id, NULL, u, &f->err), &f->err);
    buf_init(&out, 0);
    buf_printf(&out, "%d documents, %d stale, %d clear", (int)u->documents, (int)u->stale,
               (int)u->clear);
    for (size_t i = 0; i < u->key_count; i++)
        buf_printf(&out, ", %s: %d", u->keys[i].key_id, (int)u->keys[i].values);
    const char *text = arena_copy(f->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    free(u);
    return text;
}

static enum errc rewrite(struct fixture *f, const char *name, uint64_t max, bool *is_done)
{
    struct encryption_progress p = { 0 };
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t id = in(f, t, name)->id;
    txn_end(t);
    enum errc rc = encryption_rewrite(f->store, id, max, NULL, &p, &f->err);
    *is_done = p.is_done;
    return rc;
}

static enum errc set_fields(struct fixture *f, const char *name, const char *fields)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t id = in(f, t, name)->id;
    txn_end(t);
    return store_set_encrypted_fields(f->store, id, json(f, fields), &f->err);
}

/* ---- tests ---- */

static void rows_are_sealed_and_documents_clear(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c",
             "{\"_key\":\"a\",\"ssn\":\"Geheimnis-4711\",\"n\":1,"
             "\"address\":{\"street\":{\"no\":\"Geheimnis-4711\"},\"zip\":\"Klartext-1\"}}");
    must_put(f, "c", "{\"_key\":\"b\",\"ssn\":null,\"address\":\"Geheimnis nicht\"}");
    assert_reads(f, "a", "ssn", "\"Geheimnis-4711\"");
    assert_reads(f, "a", "address",
                 "{\"street\":{\"no\":\"Geheimnis-4711\"},\"zip\":\"Klartext-1\"}");
    assert_reads(f, "b", "ssn", "null");
    struct val doc = raw_doc(f, "a");
    assert_true(val_is_sealed(val_get(doc, slice_str("ssn"))));
    assert_false(val_is_sealed(val_get(doc, slice_str("n"))));
    assert_true(val_is_sealed(val_get(val_get(doc, slice_str("address")), slice_str("street"))));
    assert_true(val_is_sealed(val_get(raw_doc(f, "b"), slice_str("ssn"))));
    assert_false(is_anywhere(f, secret));
    assert_true(is_anywhere(f, "Klartext-1")); /* the search finds what is there */
    assert_string_equal(usage(f, "c"), "2 documents, 0 stale, 0 clear, k1: 3");
}

static void each_write_has_a_nonce_of_its_own(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":1}");
    struct slice first = val_bytes(val_get(raw_doc(f, "a"), slice_str("ssn")));
    assert_int_equal(take(f, "c", "a"), OK);
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":1}");
    struct slice second = val_bytes(val_get(raw_doc(f, "a"), slice_str("ssn")));
    assert_int_equal(first.len, second.len);
    assert_int_equal(first.len, 5 + 2 + 2 + 4 + 12 + 1 + 16);
    assert_memory_not_equal(first.ptr + 13, second.ptr + 13, 12); /* nonce */
    assert_memory_not_equal(first.ptr + 25, second.ptr + 25, 17);
}

/* Made by another program (Python's hmac and cryptography) after docs/formats.md. */
static void a_value_of_another_program_opens(void **out)
{
    static const uint8_t body[] = {
        0x01, 0x02, 0x6b, 0x31, 0x9a, 0x2f, 0x56, 0xe8, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4,
        0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xfa, 0x8f, 0x44, 0x2c, 0xdd, 0x5b,
        0xb9, 0xfa, 0xee, 0xaa, 0x93, 0x97, 0xa2, 0x43, 0xd2, 0xf8, 0x4e, 0xc5, 0xea,
        0xd6, 0x63, 0x78, 0x92, 0x13, 0x36, 0x92, 0x14, 0x83, 0x5c, 0x4c,
    };
    struct fixture *f = *out;
    struct collection c = { .id = 4711, .name = slice_str("people") };
    uint8_t *at;
    struct val sealed = val_new_sealed(f->arena, sizeof body, &at), doc, clear;
    memcpy(at, body, sizeof body);
    assert_int_equal(val_bytes(sealed).ptr[0], 0x06);
    struct slice street = slice_str("street"), address = slice_str("address");
    struct val inner = val_new_object(f->arena, &street, &sealed, 1);
    doc = val_new_object(f->arena, &address, &inner, 1);
    OK_OR_FAIL(sealed_set_fields(&c, json(f, "[\"address.street\"]"), f->arena, &f->err), &f->err);
    OK_OR_FAIL(sealed_open_with(encryption_keys(f->store), &c, slice_str("anna"), doc, f->arena,
                                &clear, &f->err),
               &f->err);
    assert_string_equal(text_of(f, clear), "{\"address\":{\"street\":\"Main Street 5\"}}");
}

static void a_value_opens_only_at_its_place(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":\"x\",\"address\":{\"street\":\"y\"}}");
    must_put(f, "c", "{\"_key\":\"b\",\"ssn\":\"z\",\"address\":{\"street\":\"w\"}}");
    struct val a = raw_doc(f, "a"), b = raw_doc(f, "b"), merged;
    struct slice name = slice_str("ssn");
    struct val from_a = val_get(a, name),
               street =
                   val_path(a, (struct slice[]){ slice_str("address"), slice_str("street") }, 2);
    /* of another document */
    merged = val_merge(f->arena, b, val_new_object(f->arena, &name, &from_a, 1));
    put_raw(f, "b", val_bytes(merged));
    assert_fails(f, "b", ERR_CORRUPT, "another place");
    /* of another attribute */
    merged = val_merge(f->arena, a, val_new_object(f->arena, &name, &street, 1));
    put_raw(f, "a", val_bytes(merged));
    assert_fails(f, "a", ERR_CORRUPT, "'ssn' of document 'c/a'");
    put_raw(f, "a", val_bytes(a));
    assert_reads(f, "a", "ssn", "\"x\"");
    /* the whole row of another document */
    put_raw(f, "b", val_bytes(a));
    assert_fails(f, "b", ERR_CORRUPT, "another place");
}

static void every_changed_byte_is_an_error(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":\"Geheimnis-4711\"}");
    struct val doc = raw_doc(f, "a");
    struct slice row = arena_copy(f->arena, val_bytes(doc));
    struct slice body = val_sealed_bytes(val_get(doc, slice_str("ssn")));
    size_t start = (size_t)(body.ptr - val_bytes(doc).ptr);
    for (size_t i = 0; i < body.len; i++) {
        const char *text = NULL;
        char *byte = (char *)row.ptr + start + i;
        *byte ^= 0x10;
        put_raw(f, "a", row);
        enum errc rc = get(f, "a", "ssn", &text);
        if (rc != ERR_CORRUPT && rc != ERR_IO) /* ERR_IO: the id of a key that there is not */
            fail_msg("byte %zu: %s", i, rc == OK ? text : f->err.text);
        *byte ^= 0x10;
    }
    put_raw(f, "a", row);
    assert_reads(f, "a", "ssn", "\"Geheimnis-4711\"");
}

static void missing_and_wrong_keys_are_named(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    const char *text;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":1,\"n\":1}");
    must_put(f, "c", "{\"_key\":\"b\",\"n\":2}");
    use_keys(f, K2);
    assert_fails(f, "a", ERR_IO, "key 'k1', which is not in encryption_key_file");
    assert_reads(f, "b", "n", "2");
    use_keys(f, K1_OTHER);
    assert_fails(f, "a", ERR_CORRUPT, "another key under this id");
    use_keys(f, K2);
    /* what does not look at the value goes on */
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct doc_options blind = { .leaves_old = true };
    assert_int_equal(doc_update(t, in(f, t, "c"), slice_str("a"), json(f, "{\"n\":3}"), &blind,
                                f->arena, &change, &f->err),
                     ERR_IO); /* the rest of the document would be lost */
    OK_OR_FAIL(doc_replace(t, in(f, t, "c"), slice_str("a"), json(f, "{\"ssn\":5}"), &blind,
                           f->arena, &change, &f->err),
               &f->err);
    assert_true(val_is_null(change.old_doc));
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_reads(f, "a", "ssn", "5");
    use_keys(f, K1);
    assert_int_equal(get(f, "a", "ssn", &text), ERR_IO);
    assert_non_null(strstr(f->err.text, "'k2'"));
    t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_remove(t, in(f, t, "c"), slice_str("a"), &blind, f->arena, &change, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

static void iterators_open_or_leave_values(void **out)
{
    struct fixture *f = *out;
    struct doc_iter *it;
    struct val doc;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    assert_true(doc_iter_next(it, &doc));
    assert_int_equal(val_int(val_get(doc, slice_str("ssn"))), 1);
    doc_iter_free(it);
    use_keys(f, K2);
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    assert_false(doc_iter_next(it, &doc));
    assert_int_equal(doc_iter_check(it, &f->err), ERR_IO);
    assert_false(doc_iter_next(it, &doc));
    doc_iter_free(it);
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    doc_iter_leave_sealed(it);
    assert_true(doc_iter_next(it, &doc));
    assert_string_equal(text_of(f, val_get(doc, slice_str("ssn"))), "\"(encrypted)\"");
    assert_false(doc_iter_next(it, &doc));
    OK_OR_FAIL(doc_iter_check(it, &f->err), &f->err);
    doc_iter_free(it);
    txn_end(t);
}

static void a_patch_keeps_and_merges(void **out)
{
    struct fixture *f = *out;
    struct doc_change change;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":\"s\",\"address\":{\"street\":{\"a\":1},\"z\":1}}");
    use_keys(f, K1 K2);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str("a"),
                          json(f, "{\"address\":{\"street\":{\"b\":2}}}"), NULL, f->arena, &change,
                          &f->err),
               &f->err);
    assert_string_equal(text_of(f, val_get(change.new_doc, slice_str("address"))),
                        "{\"street\":{\"a\":1,\"b\":2},\"z\":1}");
    assert_string_equal(text_of(f, val_get(change.old_doc, slice_str("address"))),
                        "{\"street\":{\"a\":1},\"z\":1}");
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_reads(f, "a", "ssn", "\"s\"");
    /* all of it is written with the key of today */
    assert_string_equal(usage(f, "c"), "1 documents, 0 stale, 0 clear, k2: 2");
}

static void keys_are_rotated(void **out)
{
    struct fixture *f = *out;
    bool is_done;
    char text[100];
    for (int i = 0; i < 1200; i++) {
        snprintf(text, sizeof text, "{\"_key\":\"d%d\",\"ssn\":\"Geheimnis-%d\"}", i, i);
        must_put(f, "c", text);
    }
    struct slice rev = val_string(val_get(raw_doc(f, "d7"), slice_str("_rev")));
    rev = arena_copy(f->arena, rev);
    use_keys(f, K1 K2);
    must_put(f, "c", "{\"_key\":\"new\",\"ssn\":0}");
    assert_string_equal(usage(f, "c"), "1201 documents, 1200 stale, 0 clear, k1: 1200, k2: 1");
    OK_OR_FAIL(rewrite(f, "c", 700, &is_done), &f->err);
    assert_false(is_done);
    assert_non_null(strstr(usage(f, "c"), "500 stale"));
    OK_OR_FAIL(rewrite(f, "c", 700, &is_done), &f->err);
    assert_true(is_done);
    assert_string_equal(usage(f, "c"), "1201 documents, 0 stale, 0 clear, k2: 1201");
    use_keys(f, K2);
    assert_reads(f, "d7", "ssn", "\"Geheimnis-7\"");
    assert_true(slice_eq(val_string(val_get(raw_doc(f, "d7"), slice_str("_rev"))), rev));
}

static void a_pass_without_the_old_key_says_so(void **out)
{
    struct fixture *f = *out;
    bool is_done;
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":1}");
    use_keys(f, K2);
    assert_int_equal(rewrite(f, "c", 10, &is_done), ERR_IO);
    assert_false(is_done);
    assert_non_null(strstr(f->err.text, "'k1'"));
}

static void attributes_come_and_go(void **out)
{
    struct fixture *f = *out;
    bool is_done, is_new;
    uint64_t id, c = make_collection(f, "plain", COLLECTION_DOCUMENT);
    must_put(f, "plain", "{\"_key\":\"a\",\"x\":{\"y\":\"Geheimnis-4711\"},\"n\":1}");
    struct txn *old = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(set_fields(f, "plain", "[\"x.y\"]"), &f->err);
    /* a writer with the old catalog does not come through */
    struct doc_change change;
    OK_OR_FAIL(doc_insert(old, in(f, old, "plain"), json(f, "{\"x\":{\"y\":\"spät\"}}"), NULL,
                          f->arena, &change, &f->err),
               &f->err);
    assert_int_equal(txn_commit(old, &f->err), ERR_CONFLICT);
    txn_end(old);
    assert_string_equal(usage(f, "plain"), "1 documents, 1 stale, 1 clear");
    OK_OR_FAIL(rewrite(f, "plain", 10, &is_done), &f->err);
    assert_true(is_done);
    assert_string_equal(usage(f, "plain"), "1 documents, 0 stale, 0 clear, k1: 1");
    /* and back: until it is rewritten, no index may look at it */
    OK_OR_FAIL(set_fields(f, "plain", "[]"), &f->err);
    assert_string_equal(usage(f, "plain"), "1 documents, 1 stale, 0 clear, k1: 1");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct val doc;
    OK_OR_FAIL(doc_get(t, in(f, t, "plain"), slice_str("a"), f->arena, &doc, &f->err), &f->err);
    assert_string_equal(text_of(f, val_get(doc, slice_str("x"))), "{\"y\":\"Geheimnis-4711\"}");
    txn_end(t);
    struct val def = json(f, "{\"type\":\"persistent\",\"fields\":[\"x.y\"]}");
    assert_int_equal(store_create_index(f->store, c, def, &id, &is_new, &f->err), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "was encrypted"));
    OK_OR_FAIL(rewrite(f, "plain", 10, &is_done), &f->err);
    assert_true(is_done);
    OK_OR_FAIL(store_create_index(f->store, c, def, &id, &is_new, &f->err), &f->err);
    assert_int_equal(set_fields(f, "plain", "[\"x\"]"), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "index"));
}

static void indexes_over_them_are_refused(void **out)
{
    static const char *const defs[] = {
        "{\"type\":\"persistent\",\"fields\":[\"ssn\"]}",
        "{\"type\":\"persistent\",\"fields\":[\"n\",\"ssn\"]}",
        "{\"type\":\"persistent\",\"fields\":[\"n\"],\"storedValues\":[\"ssn\"]}",
        "{\"type\":\"persistent\",\"fields\":[\"address\"]}",
        "{\"type\":\"persistent\",\"fields\":[\"address.street.no\"]}",
        "{\"type\":\"persistent\",\"fields\":[\"ssn[*]\"]}",
        "{\"type\":\"ttl\",\"fields\":[\"ssn\"],\"expireAfter\":1}",
        "{\"type\":\"geo\",\"fields\":[\"address.street\"]}",
        "{\"type\":\"fulltext\",\"fields\":[\"address\"]}",
        "{\"type\":\"vector\",\"fields\":[\"ssn\"],\"params\":{\"metric\":\"l2\",\"dimension\":2}}",
        "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":{\"metric\":\"l2\",\"dimension\":2,"
        "\"source\":[\"ssn\"]}}",
    };
    struct fixture *f = *out;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t id, c = in(f, t, "c")->id;
    bool is_new;
    txn_end(t);
    for (size_t i = 0; i < ARRAY_LEN(defs); i++) {
        if (store_create_index(f->store, c, json(f, defs[i]), &id, &is_new, &f->err) == OK)
            fail_msg("%s", defs[i]);
        if (f->err.code != ERR_INVALID || !strstr(f->err.text, "is encrypted"))
            fail_msg("%s: %s", defs[i], f->err.text);
    }
    make_index(f, c, "{\"type\":\"persistent\",\"fields\":[\"address.zip\"]}");
}

static void fields_that_cannot_be_are_refused(void **out)
{
    static const char *const wrong[] = {
        "\"ssn\"",         "[1]",           "[\"_key\"]",
        "[\"_from\"]",     "[\"a\",\"a\"]", "[\"a\",\"a.b\"]",
        "[\"a.b\",\"a\"]", "[\"a[*]\"]",    "[\"\"]",
        "[\"a..b\"]",      "{\"a\":1}",     "true",
    };
    struct fixture *f = *out;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (set_fields(f, "c", wrong[i]) != ERR_INVALID)
            fail_msg("%s", wrong[i]);
    assert_int_equal(put(f, "c", "{\"address\":[{\"street\":\"Geheimnis-4711\"}]}"), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "array"));
    assert_false(is_anywhere(f, secret));
    must_put(f, "c", "{\"address\":[]}");
    must_put(f, "c", "{\"address\":5}");
}

static void without_a_key_nothing_is_written_in_clear_text(void **out)
{
    struct fixture *f = *out;
    unlink(f->settings.encryption_key_file);
    f->settings.encryption_key_file[0] = 0;
    struct fixture bare;
    fixture_init(&bare, false);
    struct collection_options opt = { .name = slice_str("c"),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .encrypted_fields = json(&bare, "[\"ssn\"]") };
    assert_int_equal(store_create_collection(bare.store, 1, &opt, NULL, &bare.err), ERR_INVALID);
    assert_non_null(strstr(bare.err.text, "encryption_key_file"));
    fixture_release(&bare);
}

static void the_feed_gives_clear_text(void **out)
{
    struct fixture *f = *out;
    struct change_reader *r;
    struct change_commit commit;
    struct change change;
    bool has;
    uint64_t after = change_limit(f->store);
    must_put(f, "c", "{\"_key\":\"a\",\"ssn\":\"Geheimnis-4711\"}");
    OK_OR_FAIL(change_reader_open(&r, f->store, after, &f->err), &f->err);
    OK_OR_FAIL(change_reader_next(r, &commit, &has, &f->err), &f->err);
    assert_true(has);
    OK_OR_FAIL(change_reader_change(r, &change, &has, &f->err), &f->err);
    assert_true(has);
    OK_OR_FAIL(change_reader_document(r, &change, &f->err), &f->err);
    assert_string_equal(text_of(f, val_get(change.doc, slice_str("ssn"))), "\"Geheimnis-4711\"");
    use_keys(f, K2);
    assert_int_equal(change_reader_document(r, &change, &f->err), ERR_IO);
    assert_non_null(strstr(f->err.text, "'k1'"));
    change_reader_close(r);
}

static void a_store_on_disk_opens_without_its_keys(void **out)
{
    (void)out;
    struct fixture f;
    char id[] = "k1";
    fixture_init(&f, true);
    use_keys(&f, K1);
    make_encrypted(&f, "c", "[\"ssn\"]");
    must_put(&f, "c", "{\"_key\":\"a\",\"ssn\":\"Geheimnis-4711\",\"n\":1}");
    char path[sizeof f.settings.encryption_key_file];
    strcpy(path, f.settings.encryption_key_file);
    f.settings.encryption_key_file[0] = 0;
    fixture_reopen(&f);
    assert_fails(&f, "a", ERR_IO, id);
    assert_int_equal(put(&f, "c", "{\"ssn\":1}"), ERR_IO);
    assert_non_null(strstr(f.err.text, "the node has no key"));
    must_put(&f, "c", "{\"n\":2}");
    strcpy(f.settings.encryption_key_file, path);
    fixture_reopen(&f);
    assert_reads(&f, "a", "ssn", "\"Geheimnis-4711\"");
    chmod(path, 0644);
    store_close(f.store);
    f.store = NULL;
    struct store_options opt = { .path = f.path, .settings = &f.settings };
    assert_int_equal(store_open(&f.store, &opt, &f.err), ERR_INVALID);
    assert_non_null(strstr(f.err.text, "mode 644"));
    unlink(path);
    fixture_release(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_sealed_and_documents_clear),
        TEST(each_write_has_a_nonce_of_its_own),
        TEST(a_value_of_another_program_opens),
        TEST(a_value_opens_only_at_its_place),
        TEST(every_changed_byte_is_an_error),
        TEST(missing_and_wrong_keys_are_named),
        TEST(iterators_open_or_leave_values),
        TEST(a_patch_keeps_and_merges),
        TEST(keys_are_rotated),
        TEST(a_pass_without_the_old_key_says_so),
        TEST(attributes_come_and_go),
        TEST(indexes_over_them_are_refused),
        TEST(fields_that_cannot_be_are_refused),
        TEST(without_a_key_nothing_is_written_in_clear_text),
        TEST(the_feed_gives_clear_text),
        cmocka_unit_test(a_store_on_disk_opens_without_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
