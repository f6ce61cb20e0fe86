/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_store -- a store with documents, and RocksDB without a store around it:
 * opened on a copy of the store's files, with the options the store wrote.
 */
#ifndef BENCH_BENCH_STORE_H
#define BENCH_BENCH_STORE_H

#include <rocksdb/c.h>

#include "base/settings.h"
#include "store/doc.h"
#include "store/store.h"

enum { BENCH_CACHE_MB = 512, BENCH_KEY_BYTES = 8 };

/* A store in bench_dir()/name with the empty collection "d" of _system, or the one that is there. */
struct bench_store {
    char path[512];
    struct settings settings;
    struct store *store;
    uint64_t db_id;
};
void bench_store_open(struct bench_store *s, const char *name);
/* The same with settings "name=value", ended by NULL, besides the usual ones. */
void bench_store_open_with(struct bench_store *s, const char *name, const char *const *settings);
void bench_store_close(struct bench_store *s);

/* The number's key: BENCH_KEY_BYTES letters and digits, terminated. */
void bench_key(char out[BENCH_KEY_BYTES + 1], uint64_t number);
/* A document of nine attributes, about 400 bytes as stored; without _key on request. Lives in arena. */
struct val bench_document(uint64_t number, bool has_key, struct arena *arena);
/* Inserts documents 0 .. count-1. */
void bench_store_fill(struct bench_store *s, uint64_t count);
/* The bytes that the store keeps for document 0, which is there. Returns their number. */
size_t bench_stored_document(struct bench_store *s, char *out, size_t max);

struct bench_raw {
    rocksdb_t *db;
    rocksdb_cache_t *cache;
    rocksdb_options_t *db_options;
    rocksdb_options_t **family_options;
    char **family_names;
    size_t family_count;
    rocksdb_column_family_handle_t **families;
    rocksdb_column_family_handle_t *doc; /* the one with the documents */
};
/* path: of a store that is closed, or of a copy. */
void bench_raw_open(struct bench_raw *r, const char *store_path);
void bench_raw_close(struct bench_raw *r);
/* Ends the program when a call of RocksDB left a message. */
void bench_raw_must(const char *message, const char *what);

#endif
