/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encryption -- which keys the values of a collection are encrypted with, and writing documents
 * again with the key of today: how a key becomes unused, and how what was stored before an
 * attribute was encrypted becomes so.
 */
#ifndef STORE_ENCRYPTION_H
#define STORE_ENCRYPTION_H

#include "base/keyring.h"
#include "store/store.h"

/* Keys of the key file, valid until the store is closed; NULL without one. */
const struct keyring *encryption_keys(const struct store *s);

struct encryption_use {
    char key_id[KEY_ID_MAX + 1];
    uint64_t values;
};
struct encryption_usage {
    uint64_t documents;
    uint64_t clear; /* values of encrypted attributes that were written before they were */
    uint64_t stale; /* documents that encryption_rewrite would write */
    struct encryption_use keys[KEYS_MAX];
    size_t key_count;
    uint64_t others; /* values of still more keys */
};

/* For sealed_each: ctx is a usage; "" counts as clear. */
void encryption_count_value(void *ctx, struct slice key_id);

/* Asked now and then: true ends the work with ERR_GONE. */
struct encryption_watch {
    bool (*should_stop)(void *ctx);
    void *ctx;
};

/* Reads all documents of the collection, decrypts none. Adds to *usage. */
MUST_CHECK enum errc encryption_count(struct store *s, uint64_t collection_id,
                                      const struct encryption_watch *watch,
                                      struct encryption_usage *usage, struct error *err);

struct encryption_progress {
    uint64_t scanned, rewritten;
    uint64_t conflicts; /* batches that somebody else's writes refused */
    bool is_done;       /* no document of the collection was left out */
};

/*
 * Writes each document again that is not encrypted as a new one would be: at most max of them, in
 * small transactions, with its _rev. When none is left, attributes that were encrypted in former times
 * are forgotten and the old bytes leave the tables by compaction. Adds to *progress. Errors as of
 * reading and writing such a document.
 */
MUST_CHECK enum errc encryption_rewrite(struct store *s, uint64_t collection_id, uint64_t max,
                                        const struct encryption_watch *watch,
                                        struct encryption_progress *progress, struct error *err);

#endif
