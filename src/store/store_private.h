/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_private -- the parts of an open store; for the files of store.
 */
#ifndef STORE_STORE_PRIVATE_H
#define STORE_STORE_PRIVATE_H

#include <pthread.h>

#include "base/collate.h"
#include "store/catalog_private.h"
#include "store/commit.h"

enum { FORMAT_VERSION = 3, LOG_KEEP_BYTES = 64 * MIB, FREE_SPACE_MARGIN = 64 * MIB };

/* Next autoincrement keys, in memory; the committer keeps what was used. */
struct increment {
    uint64_t collection_id;
    int64_t last;
};

struct store {
    const struct settings *settings; /* borrowed; NULL = defaults */
    const struct env *env;
    const struct compute *compute; /* borrowed; NULL: no computed values */
    bool (*should_stop)(void *ctx);
    void *stop_ctx;
    char *path;                     /* owned; NULL in memory */
    struct collator *collator;      /* owned; NULL = binary */
    _Atomic(struct key_set *) keys; /* owned; NULL = no key file */
    struct kv *kv;                  /* owned, as the following */
    uint64_t cache_bytes;           /* block cache */
    struct ids ids;
    struct disk *disk;
    struct garbage *garbage;
    struct prepared_table *prepared;
    struct change_log *log;
    struct changes *changes;
    struct committer *committer;
    struct vectors *vectors;
    pthread_mutex_t ddl;   /* one catalog change at a time */
    pthread_mutex_t build; /* one index build at a time; taken before ddl */
    pthread_mutex_t increment_lock;
    struct increment *increments; /* owned */
    size_t increment_count;
};

/* ERR_INVALID for a newer format. *is_new: nothing was ever written. */
MUST_CHECK enum errc store_check_format(struct kv *kv, struct arena *arena, bool *is_new,
                                        struct error *err);
/* The catalog on disk, returned to the caller. */
MUST_CHECK enum errc store_load_catalog(struct kv *kv, struct arena *arena, struct catalog **out,
                                        struct error *err);

/* The next key of a collection with keyOptions.type autoincrement. */
MUST_CHECK enum errc store_next_increment(struct store *s, const struct collection *c, int64_t *out,
                                          struct error *err);
/* A client chose this key. */
MUST_CHECK enum errc store_note_increment(struct store *s, const struct collection *c,
                                          int64_t value, struct error *err);

/* Indexes that are not ready or were built with another collator: built again, before use. */
MUST_CHECK enum errc store_repair_indexes(struct store *s, struct error *err);

#endif
