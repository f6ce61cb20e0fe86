/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries that read every document, in this process, against an iterator over the
 * same rows in a copy of the same files that only looks at each value's ends. One
 * thread each, per second of CPU time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "aql.h"
#include "aql_data.h"
#include "query/query.h"

struct raw {
    struct bench_store store;
    struct bench_raw raw;
    rocksdb_readoptions_t *read;
    struct query_env env;
    const char *text;
    size_t seen; /* keeps the compiler from dropping the reads */
};

static void ours_once(struct raw *r)
{
    struct query_options opt = { .db_id = r->store.db_id };
    struct query *q;
    enum query_state state;
    struct error err;
    bench_must(query_new(&q, &r->env, slice_str(r->text), val_null, &opt, &err), &err, "planning");
    bench_must(query_run(q, &state, &err), &err, "running");
    uint64_t rows = query_stats(q)->scanned_full;
    if (rows != aql_docs())
        bench_fail("'%s' read %llu documents", r->text, (unsigned long long)rows);
    r->seen += query_row_count(q);
    query_free(q);
}

static void theirs_once(struct raw *r)
{
    uint64_t rows = 0;
    size_t len;
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(r->raw.db, r->read, r->raw.doc);
    for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        const char *value = rocksdb_iter_value(it, &len);
        r->seen += (size_t)value[0] + (size_t)value[len - 1];
        rows++;
    }
    rocksdb_iter_destroy(it);
    if (rows != aql_docs())
        bench_fail("RocksDB has %llu documents", (unsigned long long)rows);
}

static double run(struct raw *r, double seconds, void (*once)(struct raw *))
{
    double begin = bench_thread_seconds(), now = begin;
    uint64_t done = 0;
    for (; now - begin < seconds; now = bench_thread_seconds()) {
        once(r);
        done += aql_docs();
    }
    return (double)done / (now - begin);
}

static double ours(void *ctx, double seconds)
{
    return run(ctx, seconds, ours_once);
}

static double theirs(void *ctx, double seconds)
{
    return run(ctx, seconds, theirs_once);
}

static void prepare(struct raw *r)
{
    static const unsigned tables[] = { AQL_DOCUMENTS };
    char copy[600], command[1200];
    aql_fill_store(&r->store, "raw", tables, ARRAY_LEN(tables));
    snprintf(copy, sizeof copy, "%s/raw-copy", bench_dir());
    snprintf(command, sizeof command, "cp -r '%s' '%s'", r->store.path, copy);
    if (system(command) != 0)
        bench_fail("'%s' failed", command);
    bench_store_open(&r->store, "raw");
    bench_raw_open(&r->raw, copy);
    r->read = rocksdb_readoptions_create();
    r->env = (struct query_env){ .store = r->store.store, .env = env_system() };
}

void aql_raw(void)
{
    static struct raw r;
    static const struct {
        const char *what, *text;
    } rows[] = {
        { "raw_scan", "FOR d IN d FILTER d.age == 42 && d.city == 'Lima' RETURN d._key" },
        { "raw_group", "FOR d IN d COLLECT city = d.city AGGREGATE a = AVG(d.age), m = "
                       "MAX(d.score) RETURN {city, a, m}" },
    };
    char facts[128];
    prepare(&r);
    snprintf(facts, sizeof facts, "threads=1 documents=%llu cache_mb=%d",
             (unsigned long long)aql_docs(), BENCH_CACHE_MB);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        r.text = rows[i].text;
        bench_compare(&(struct bench_pair){ .name = "aql",
                                            .what = rows[i].what,
                                            .facts = facts,
                                            .unit = "rows/cpu_s",
                                            .opponent = "rocksdb_iter_next over the same rows",
                                            .target = 0.6,
                                            .ours = ours,
                                            .theirs = theirs,
                                            .ctx = &r });
    }
    rocksdb_readoptions_destroy(r.read);
    bench_raw_close(&r.raw);
    bench_store_close(&r.store);
}
