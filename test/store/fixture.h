/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture -- what the tests of store share: temporary directories, a store
 * that can be opened again, documents from JSON text.
 */
#ifndef TEST_STORE_FIXTURE_H
#define TEST_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/collate.h"
#include "base/log.h"
#include "base/val_text.h"
#include "store/doc.h"
#include "store/index.h"
#include "store/store.h"
#include "store/txn.h"

#include <cmocka.h> /* last: it defines fail() */

#define UNUSED __attribute__((unused))

/* Fails the test with the error's own words. */
#define OK_OR_FAIL(call, err)                                                                      \
    do {                                                                                           \
        enum errc ok_or_fail_rc = (call);                                                          \
        if (ok_or_fail_rc != OK)                                                                   \
            fail_msg("%s: %s", errc_name(ok_or_fail_rc), (err)->text);                             \
    } while (0)

struct fixture {
    char path[64]; /* "" = in memory */
    struct store *store;
    struct arena *arena;
    struct settings settings;
    const struct compute *compute; /* or NULL */
    uint64_t db;
    struct error err;
};

UNUSED static void fixture_open(struct fixture *f)
{
    struct store_options opt = { .path = f->path[0] ? f->path : NULL,
                                 .settings = &f->settings,
                                 .compute = f->compute };
    OK_OR_FAIL(store_open(&f->store, &opt, &f->err), &f->err);
}

UNUSED static void fixture_remove(struct fixture *f)
{
    char command[100];
    if (!f->path[0])
        return;
    snprintf(command, sizeof command, "rm -rf %s", f->path);
    assert_int_equal(system(command), 0);
}

UNUSED static void fixture_init(struct fixture *f, bool on_disk)
{
    memset(f, 0, sizeof *f);
    log_set_level(LOG_ERROR);
    settings_init(&f->settings);
    f->settings.memtables_mb = 8;
    f->settings.block_cache_mb = 8;
    f->arena = arena_new(0);
    f->db = 1;
    if (on_disk) {
        snprintf(f->path, sizeof f->path, "/tmp/themis-store-XXXXXX");
        assert_non_null(mkdtemp(f->path));
    }
    fixture_open(f);
}

UNUSED static void fixture_reopen(struct fixture *f)
{
    store_close(f->store);
    f->store = NULL;
    fixture_open(f);
}

UNUSED static void fixture_release(struct fixture *f)
{
    store_close(f->store);
    fixture_remove(f);
    arena_free(f->arena);
}

UNUSED static struct val json(struct fixture *f, const char *text)
{
    struct val v;
    OK_OR_FAIL(val_parse(slice_str(text), f->arena, &v, &f->err), &f->err);
    return v;
}

UNUSED static const char *text_of(struct fixture *f, struct val v)
{
    struct buf out;
    buf_init(&out, 0);
    val_print(v, &out);
    const char *text = arena_copy(f->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

UNUSED static uint64_t make_collection(struct fixture *f, const char *name,
                                       enum collection_type type)
{
    uint64_t id = 0;
    struct collection_options opt = { .name = slice_str(name),
                                      .type = type,
                                      .allow_user_keys = true };
    OK_OR_FAIL(store_create_collection(f->store, f->db, &opt, &id, &f->err), &f->err);
    return id;
}

UNUSED static struct txn *begin(struct fixture *f, enum isolation isolation)
{
    struct txn *t = NULL;
    OK_OR_FAIL(txn_begin(&t, f->store, &(struct txn_options){ .isolation = isolation }, &f->err),
               &f->err);
    return t;
}

UNUSED static const struct collection *in(struct fixture *f, struct txn *t, const char *name)
{
    const struct collection *c = catalog_collection(txn_catalog(t), f->db, slice_str(name));
    assert_non_null(c);
    return c;
}

/* One transaction: inserts the JSON text, answers the code. */
UNUSED static enum errc put(struct fixture *f, const char *collection, const char *text)
{
    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    enum errc rc =
        doc_insert(t, in(f, t, collection), json(f, text), NULL, f->arena, &change, &f->err);
    if (rc == OK)
        rc = txn_commit(t, &f->err);
    txn_end(t);
    return rc;
}

UNUSED static void must_put(struct fixture *f, const char *collection, const char *text)
{
    OK_OR_FAIL(put(f, collection, text), &f->err);
}

UNUSED static enum errc take(struct fixture *f, const char *collection, const char *key)
{
    struct doc_change change;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    enum errc rc =
        doc_remove(t, in(f, t, collection), slice_str(key), NULL, f->arena, &change, &f->err);
    if (rc == OK)
        rc = txn_commit(t, &f->err);
    txn_end(t);
    return rc;
}

UNUSED static uint64_t count_of(struct fixture *f, const char *collection)
{
    uint64_t n = 0;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_count(t, in(f, t, collection), &n, &f->err), &f->err);
    txn_end(t);
    return n;
}

UNUSED static uint64_t make_index(struct fixture *f, uint64_t collection, const char *def)
{
    uint64_t id = 0;
    bool is_new = false;
    OK_OR_FAIL(store_create_index(f->store, collection, json(f, def), &id, &is_new, &f->err),
               &f->err);
    assert_true(is_new);
    return id;
}

#endif
