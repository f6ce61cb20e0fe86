/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/val_text.h"
#include "bench.h"

enum { DOCUMENTS_PER_COMMIT = 500, BLOCK_BYTES = 16 * KIB, BLOOM_BITS = 10 };

/* ---- the store ---- */

void bench_store_open(struct bench_store *s, const char *name)
{
    bench_store_open_with(s, name, (const char *const[]){ NULL });
}

void bench_store_open_with(struct bench_store *s, const char *name, const char *const *settings)
{
    struct error err;
    struct txn *t;
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s/%s", bench_dir(), name);
    settings_init(&s->settings);
    s->settings.block_cache_mb = BENCH_CACHE_MB;
    for (; *settings; settings++)
        bench_must(settings_set_pair(&s->settings, *settings, &err), &err, "setting");
    struct store_options opt = { .path = s->path, .settings = &s->settings };
    bench_must(store_open(&s->store, &opt, &err), &err, "opening the store");
    bench_must(txn_begin(&t, s->store, &(struct txn_options){ .is_read_only = true }, &err), &err,
               "beginning");
    s->db_id = catalog_database(txn_catalog(t), slice_str("_system"))->id;
    bool is_new = !catalog_collection(txn_catalog(t), s->db_id, slice_str("d"));
    txn_end(t);
    struct collection_options c = { .name = slice_str("d"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true,
                                    .key_options = val_null,
                                    .extra = val_null };
    uint64_t id;
    if (is_new)
        bench_must(store_create_collection(s->store, s->db_id, &c, &id, &err), &err,
                   "creating the collection");
}

void bench_store_close(struct bench_store *s)
{
    store_close(s->store);
    s->store = NULL;
}

void bench_key(char out[BENCH_KEY_BYTES + 1], uint64_t number)
{
    snprintf(out, BENCH_KEY_BYTES + 1, "k%07llu", (unsigned long long)number % 10000000);
}

struct val bench_document(uint64_t number, bool has_key, struct arena *arena)
{
    static const char *const cities[] = { "Lisbon", "Nairobi", "Osaka", "Lima", "Tromso" };
    struct error err;
    struct val v;
    char key[BENCH_KEY_BYTES + 1];
    bench_key(key, number);
    const char *own = has_key ? arena_printf(arena, "\"_key\":\"%s\",", key) : "";
    uint64_t mixed = number * 0x9e3779b97f4a7c15;
    struct slice text = slice_str(arena_printf(
        arena,
        "{%s\"name\":\"person %llu\",\"city\":\"%s\",\"age\":%u,\"score\":%.3f,"
        "\"active\":%s,\"tags\":[\"alpha\",\"beta\",\"t%u\"],"
        "\"address\":{\"street\":\"Long Street %u\",\"zip\":\"%05u\",\"country\":\"NA\"},"
        "\"note\":\"Entered by the load of the benchmark; long enough to look like text that "
        "somebody wrote about %llu.\"}",
        own, (unsigned long long)number, cities[mixed % ARRAY_LEN(cities)],
        (unsigned)(mixed >> 8) % 90, (double)(mixed >> 40) / 1000, mixed & 1 ? "true" : "false",
        (unsigned)(mixed >> 16) % 100, (unsigned)(mixed >> 24) % 300,
        (unsigned)(mixed >> 32) % 100000, (unsigned long long)mixed));
    bench_must(val_parse(text, arena, &v, &err), &err, "making a document");
    return v;
}

static void insert_some(struct bench_store *s, uint64_t from, uint64_t to, struct arena *arena)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    bench_must(
        txn_begin(&t, s->store, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
        &err, "beginning");
    const struct collection *c = catalog_collection(txn_catalog(t), s->db_id, slice_str("d"));
    for (uint64_t i = from; i < to; i++)
        bench_must(doc_insert(t, c, bench_document(i, true, arena), NULL, arena, &change, &err),
                   &err, "inserting");
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
}

void bench_store_fill(struct bench_store *s, uint64_t count)
{
    struct arena *arena = arena_new(0);
    struct arena_mark mark = arena_mark(arena);
    for (uint64_t i = 0; i < count; i += DOCUMENTS_PER_COMMIT) {
        uint64_t end = i + DOCUMENTS_PER_COMMIT < count ? i + DOCUMENTS_PER_COMMIT : count;
        insert_some(s, i, end, arena);
        arena_rewind(arena, mark);
    }
    arena_free(arena);
}

size_t bench_stored_document(struct bench_store *s, char *out, size_t max)
{
    struct error err;
    struct txn *t;
    struct val doc;
    char key[BENCH_KEY_BYTES + 1];
    struct arena *arena = arena_new(0);
    bench_key(key, 0);
    bench_must(txn_begin(&t, s->store, &(struct txn_options){ .is_read_only = true }, &err), &err,
               "beginning");
    const struct collection *c = catalog_collection(txn_catalog(t), s->db_id, slice_str("d"));
    bench_must(doc_get(t, c, slice_of(key, BENCH_KEY_BYTES), arena, &doc, &err), &err, "get");
    struct slice bytes = val_bytes(doc);
    assert(bytes.len <= max);
    memcpy(out, bytes.ptr, bytes.len);
    txn_end(t);
    arena_free(arena);
    return bytes.len;
}

/* ---- RocksDB ---- */

void bench_raw_must(const char *message, const char *what)
{
    if (message)
        bench_fail("%s: %s", what, message);
}

/* What the file of options does not bring back: cache and filter; hence the block size again. */
static void set_table(const struct bench_raw *r, rocksdb_options_t *options)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, r->cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, 5);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);
}

void bench_raw_open(struct bench_raw *r, const char *store_path)
{
    char *message = NULL, path[600];
    snprintf(path, sizeof path, "%s/rocks", store_path);
    memset(r, 0, sizeof *r);
    r->cache = rocksdb_cache_create_lru(BENCH_CACHE_MB * (size_t)MIB);
    rocksdb_env_t *env = rocksdb_create_default_env();
    rocksdb_load_latest_options(path, env, false, r->cache, &r->db_options, &r->family_count,
                                &r->family_names, &r->family_options, &message);
    rocksdb_env_destroy(env);
    bench_raw_must(message, "reading the store's options");
    for (size_t i = 0; i < r->family_count; i++)
        set_table(r, r->family_options[i]);
    r->families = mem_zalloc(r->family_count * sizeof *r->families);
    r->db = rocksdb_open_column_families(
        r->db_options, path, (int)r->family_count, (const char *const *)r->family_names,
        (const rocksdb_options_t *const *)r->family_options, r->families, &message);
    bench_raw_must(message, "opening RocksDB");
    for (size_t i = 0; i < r->family_count; i++)
        if (!strcmp(r->family_names[i], "doc"))
            r->doc = r->families[i];
    if (!r->doc)
        bench_fail("%s has no family 'doc'", path);
}

void bench_raw_close(struct bench_raw *r)
{
    for (size_t i = 0; i < r->family_count; i++)
        rocksdb_column_family_handle_destroy(r->families[i]);
    rocksdb_close(r->db);
    rocksdb_load_latest_options_destroy(r->db_options, r->family_names, r->family_options,
                                        r->family_count);
    rocksdb_cache_destroy(r->cache);
    mem_free(r->families);
}
