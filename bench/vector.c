/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearest neighbours: the store against FAISS alone, on the very graph that the
 * store made (read from its file); then what only the store does: several
 * segments, filters, writes beside, HTTP. Rates are per second of CPU time.
 *
 * BENCH_VECTORS sets the number of vectors (100000).
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/val_text.h"
#include "bench.h"
#include "bench_server.h"
#include "store/doc.h"
#include "store/faiss_shim.h"
#include "store/vector.h"
#include "store/vector_file.h"
#include "vector_data.h"

enum { EFFORT = 64, MEMORY_MB = 4096, HEAD_PART = 160, SEARCHES_PER_WRITE = 9 };

static const double recall_target = 0.95;

static struct vectors_bench {
    struct vector_data data;
    struct settings settings;
    char path[512];
    struct store *store;
    uint64_t collection_id, index_id, object_id;
    struct arena *arena;
    struct hnsw *graph; /* of FAISS alone; in rows */
    struct vector_rows *rows;
    uint32_t *numbers; /* of the graph's rows */
    _Atomic int64_t charge;
    size_t next;
    _Atomic size_t searches; /* while others write */
    atomic_bool is_writing;
    uint64_t writes;
} b;

/* ---- the store ---- */

static void open_store(void)
{
    struct error err;
    struct store_options opt = { .path = b.path, .settings = &b.settings };
    bench_must(store_open(&b.store, &opt, &err), &err, "opening the store");
}

static struct txn *begin(bool is_read_only)
{
    struct error err;
    struct txn *t;
    struct txn_options opt = { .is_read_only = is_read_only, .no_sync = true };
    bench_must(txn_begin(&t, b.store, &opt, &err), &err, "beginning");
    return t;
}

static const struct collection *collection_in(struct txn *t)
{
    return catalog_collection_by_id(txn_catalog(t), b.collection_id);
}

static void create(void)
{
    static const char text[] = "{\"type\":\"vector\",\"fields\":[\"v\"],\"name\":\"v\",\"params\":"
                               "{\"metric\":\"cosine\",\"dimension\":384,\"factory\":\"HNSW32\"}}";
    struct error err;
    struct val def;
    bool is_new;
    struct collection_options c = { .name = slice_str("c"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true,
                                    .key_options = val_null,
                                    .extra = val_null };
    struct txn *t = begin(true);
    uint64_t db = catalog_database(txn_catalog(t), slice_str("_system"))->id;
    txn_end(t);
    bench_must(store_create_collection(b.store, db, &c, &b.collection_id, &err), &err,
               "creating the collection");
    bench_must(val_parse(slice_str(text), b.arena, &def, &err), &err, "the definition");
    bench_must(store_create_index(b.store, b.collection_id, def, &b.index_id, &is_new, &err), &err,
               "creating the index");
    t = begin(true);
    b.object_id = collection_index(collection_in(t), b.index_id)->object_id;
    txn_end(t);
}

/* Puts document `number` with the vector of row `row`. */
static void put(struct txn *t, size_t number, const float *vector, struct arena *arena)
{
    struct error err;
    struct val doc;
    char key[16];
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    struct val_builder *v = val_builder_new(0);
    snprintf(key, sizeof key, "%zu", number);
    val_open_object(v);
    val_put_name(v, slice_str("_key"));
    val_put_string(v, slice_str(key));
    val_put_name(v, slice_str("n"));
    val_put_int(v, (int64_t)number);
    val_put_name(v, slice_str("v"));
    val_put_floats(v, vector, VECTOR_DIMENSION);
    val_close(v);
    bench_must(val_finish_in(v, arena, &doc, &err), &err, "a document");
    val_builder_free(v);
    bench_must(doc_insert(t, collection_in(t), doc, &over, arena, &change, &err), &err,
               "inserting");
}

static void commit(struct txn *t)
{
    struct error err;
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
}

/* In one commit, so that one segment is made of it. */
static void fill(size_t from, size_t to)
{
    struct arena *arena = arena_new(0);
    struct arena_mark mark = arena_mark(arena);
    struct txn *t = begin(false);
    for (; from < to; from++) {
        put(t, from, vector_data_row(&b.data, from), arena);
        arena_rewind(arena, mark);
    }
    commit(t);
    arena_free(arena);
}

static struct vector_figures figures(void)
{
    struct vector_figures out;
    struct txn *t = begin(true);
    vector_figures(b.store, collection_index(collection_in(t), b.index_id), &out);
    txn_end(t);
    return out;
}

static void print_figures(const char *what, double seconds, const struct bench_load *load)
{
    struct bench_line line;
    struct vector_figures f = figures();
    bench_begin(&line, "vector", what);
    bench_text(&line, "engine", vector_engine());
    bench_number(&line, "vectors", (double)(f.segment_rows + f.head_rows - f.dead_rows));
    bench_number(&line, "segments", (double)f.segments);
    bench_number(&line, "head_rows", (double)f.head_rows);
    bench_number(&line, "memory_mb", (double)f.bytes / MIB);
    bench_number(&line, "seconds", seconds);
    bench_end(&line, load);
}

/* ---- questions ---- */

struct passing {
    struct txn *txn;
    const struct collection *collection;
    struct arena *arena;
    unsigned step;
};

/* As the executor asks: reads the document, looks at an attribute. */
static bool passes(void *ctx, struct slice key)
{
    struct passing *p = ctx;
    struct error err;
    struct val doc;
    struct arena_mark mark = arena_mark(p->arena);
    bench_must(doc_get(p->txn, p->collection, key, p->arena, &doc, &err), &err, "reading");
    bool is_good = val_int(val_get(doc, slice_str("n"))) % p->step == 0;
    arena_rewind(p->arena, mark);
    return is_good;
}

static size_t ask_store(size_t question, size_t filter, uint32_t *numbers)
{
    struct error err;
    struct vector_hit hits[VECTOR_K];
    size_t count;
    static struct arena *scratch;
    scratch = scratch ? scratch : arena_new(0);
    struct arena_mark mark = arena_mark(b.arena);
    struct txn *t = begin(true);
    const struct collection *c = collection_in(t);
    struct passing p = { t, c, scratch, vector_filter_steps[filter] };
    struct vector_request request = { .vector = vector_data_question(&b.data, question),
                                      .dimension = VECTOR_DIMENSION,
                                      .k = VECTOR_K,
                                      .filter = filter ? passes : NULL,
                                      .ctx = &p };
    bench_must(
        vector_search(t, c, collection_index(c, b.index_id), &request, b.arena, hits, &count, &err),
        &err, "searching");
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = (uint32_t)strtoul(hits[i].key.ptr, NULL, 10);
    txn_end(t);
    arena_rewind(b.arena, mark);
    return count;
}

static size_t ask_faiss(size_t question, size_t filter, uint32_t *numbers)
{
    struct error err;
    int64_t rows[VECTOR_K];
    float distances[VECTOR_K];
    size_t count;
    struct hnsw_query q = { .vector = vector_data_question(&b.data, question),
                            .k = VECTOR_K,
                            .effort = (size_t)b.settings.vector_effort };
    (void)filter;
    bench_must(hnsw_search(b.graph, &q, rows, distances, &count, &err), &err, "FAISS");
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = b.numbers[rows[i]];
    return count;
}

/* Recall of all questions; *fewest: the least number of rows that came. */
static double recall(size_t (*ask)(size_t question, size_t filter, uint32_t *numbers),
                     size_t filter, size_t *fewest)
{
    size_t hits = 0;
    *fewest = VECTOR_K;
    for (size_t i = 0; i < VECTOR_QUESTIONS; i++) {
        uint32_t numbers[VECTOR_K];
        size_t count = ask(i, filter, numbers);
        hits += vector_data_hits(&b.data, i, filter, numbers, count);
        *fewest = count < *fewest ? count : *fewest;
    }
    return (double)hits / (VECTOR_QUESTIONS * VECTOR_K);
}

static double rate(size_t (*ask)(size_t question, size_t filter, uint32_t *numbers), size_t filter,
                   double seconds)
{
    double start = bench_thread_seconds(), end = start;
    size_t done = 0;
    while (end - start < seconds) {
        ask(b.next++ % VECTOR_QUESTIONS, filter, NULL);
        done++;
        end = bench_thread_seconds();
    }
    return (double)done / (end - start);
}

static double ours(void *ctx, double seconds)
{
    (void)ctx;
    return rate(ask_store, 0, seconds);
}

static double theirs(void *ctx, double seconds)
{
    (void)ctx;
    return rate(ask_faiss, 0, seconds);
}

/* ---- parts ---- */

static void put_recall(struct bench_line *line, double found, size_t fewest)
{
    bench_number(line, "recall", found);
    bench_number(line, "recall_target", recall_target);
    bench_text(line, "met", found >= recall_target ? "yes" : "no");
    bench_number(line, "k", VECTOR_K);
    bench_number(line, "fewest_rows", (double)fewest);
}

static void print_rates(const char *what, size_t filter)
{
    enum { ROUNDS = 5 };
    struct bench_line line;
    double rates[ROUNDS];
    size_t fewest;
    struct bench_load_mark mark = bench_load_begin();
    double found = recall(ask_store, filter, &fewest);
    for (size_t i = 0; i < ROUNDS; i++)
        rates[i] = rate(ask_store, filter, 0.5);
    struct bench_load load = bench_load_end(&mark);
    bench_begin(&line, "vector", what);
    bench_text(&line, "engine", vector_engine());
    bench_number(&line, "segments", (double)figures().segments);
    bench_number(&line, "effort", (double)b.settings.vector_effort);
    bench_number(&line, "passing", 1.0 / vector_filter_steps[filter]);
    put_recall(&line, found, fewest);
    bench_number(&line, "searches_per_cpu_s", bench_quantile(rates, ROUNDS, 0.5));
    bench_number(&line, "q1", bench_quantile(rates, ROUNDS, 0.25));
    bench_number(&line, "q3", bench_quantile(rates, ROUNDS, 0.75));
    bench_number(&line, "rounds", ROUNDS);
    bench_end(&line, &load);
    if (fewest < VECTOR_K)
        bench_fail("a search gave %zu rows instead of %d", fewest, VECTOR_K);
}

static void fill_in_parts(void)
{
    /* Each more than four times as large as what follows: merges leave them alone. */
    static const double parts[] = { 0.803, 0.963, 0.9932, 1 };
    size_t from = 0;
    double start = bench_seconds();
    struct bench_load_mark mark = bench_load_begin();
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t to = (size_t)(parts[i] * (double)b.data.count);
        fill(from, to);
        vector_settle(b.store);
        from = to;
    }
    struct bench_load load = bench_load_end(&mark);
    print_figures("build", bench_seconds() - start, &load);
    if (figures().segments != ARRAY_LEN(parts))
        bench_fail("there are %zu segments instead of %zu", figures().segments, ARRAY_LEN(parts));
}

static void merge_all(void)
{
    double start = bench_seconds();
    struct bench_load_mark mark = bench_load_begin();
    struct txn *t = begin(true);
    vector_merge(b.store, collection_index(collection_in(t), b.index_id));
    vector_settle(b.store);
    txn_end(t);
    struct bench_load load = bench_load_end(&mark);
    print_figures("merge", bench_seconds() - start, &load);
    if (figures().segments != 1)
        bench_fail("there are %zu segments after a merge of all", figures().segments);
}

static void load_graph(void)
{
    char dir[600];
    struct error err;
    struct dirent *e;
    struct vector_file f = {
        .dir = dir, .object_id = b.object_id, .metric = VECTOR_COSINE, .dimension = VECTOR_DIMENSION
    };
    snprintf(dir, sizeof dir, "%s/vectors", b.path);
    DIR *d = opendir(dir);
    while (d && (e = readdir(d)))
        if (strstr(e->d_name, ".seg"))
            f.number = strtoull(e->d_name + 17, NULL, 16);
    closedir(d);
    bench_must(vector_file_read(&f, INT64_MAX, &b.charge, &b.rows, &err), &err,
               "reading the segment");
    b.graph = b.rows->graph;
    b.numbers = mem_alloc(vector_rows_count(b.rows) * sizeof *b.numbers);
    for (size_t i = 0; i < vector_rows_count(b.rows); i++) {
        struct slice id = vector_entry_id(vector_rows_entry(b.rows, i));
        char key[16];
        snprintf(key, sizeof key, "%.*s", (int)id.len - 2, id.ptr + 2);
        b.numbers[i] = (uint32_t)strtoul(key, NULL, 10);
    }
}

static void against_faiss(void)
{
    static const int efforts[] = { 32, 64, 128 };
    load_graph();
    for (size_t i = 0; i < ARRAY_LEN(efforts); i++) {
        char facts[200];
        size_t fewest;
        b.settings.vector_effort = efforts[i];
        snprintf(facts, sizeof facts,
                 "engine=\"%s\" vectors=%zu dimension=%d k=%d effort=%d recall=%.4f "
                 "faiss_recall=%.4f",
                 vector_engine(), b.data.count, VECTOR_DIMENSION, VECTOR_K, efforts[i],
                 recall(ask_store, 0, &fewest), recall(ask_faiss, 0, &fewest));
        bench_compare(&(struct bench_pair){ .name = "vector",
                                            .what = "search",
                                            .facts = facts,
                                            .unit = "searches/cpu_s",
                                            .opponent = "FAISS alone, same graph and effort",
                                            .target = 0.9,
                                            .seconds = 0.5,
                                            .ours = ours,
                                            .theirs = theirs });
    }
    b.settings.vector_effort = EFFORT;
    vector_rows_unref(b.rows);
    mem_free(b.numbers);
}

/* ---- writes beside ---- */

/* A row moves a little, so that the truth stays. */
static void move_a_row(struct arena *arena)
{
    float moved[VECTOR_DIMENSION];
    size_t number = (size_t)b.writes++ * 7919 % b.data.count;
    memcpy(moved, vector_data_row(&b.data, number), sizeof moved);
    moved[b.writes % VECTOR_DIMENSION] += 1e-4f;
    struct txn *t = begin(false);
    put(t, number, moved, arena);
    commit(t);
}

/* A thread that commits one write for nine searches, as they come. */
static void *write_beside(void *ctx)
{
    struct arena *arena = arena_new(0);
    struct arena_mark mark = arena_mark(arena);
    uint64_t before = b.writes;
    (void)ctx;
    while (atomic_load(&b.is_writing)) {
        if ((b.writes - before) * SEARCHES_PER_WRITE >= atomic_load(&b.searches)) {
            bench_sleep(0.0002);
            continue;
        }
        move_a_row(arena);
        arena_rewind(arena, mark);
    }
    arena_free(arena);
    return NULL;
}

/* Searches per second of the clock: what writers hold up is part of it. */
static double search_for(void *ctx, double seconds)
{
    double start = bench_seconds(), end = start;
    size_t done = 0;
    (void)ctx;
    while (end - start < seconds) {
        ask_store(b.next++ % VECTOR_QUESTIONS, 0, NULL);
        atomic_fetch_add(&b.searches, 1);
        done++;
        end = bench_seconds();
    }
    return (double)done / (end - start);
}

static double search_beside_writes(void *ctx, double seconds)
{
    pthread_t writer;
    atomic_store(&b.searches, 0);
    atomic_store(&b.is_writing, true);
    if (pthread_create(&writer, NULL, write_beside, NULL))
        bench_fail("there is no thread for the writes");
    double rate = search_for(ctx, seconds);
    atomic_store(&b.is_writing, false);
    pthread_join(writer, NULL);
    return rate;
}

static void beside_writes(void)
{
    struct bench_line line;
    size_t fewest;
    char facts[80];
    snprintf(facts, sizeof facts, "engine=\"%s\" writes_per_search=1/%d threads=2", vector_engine(),
             SEARCHES_PER_WRITE);
    bench_compare(&(struct bench_pair){ .name = "vector",
                                        .what = "beside_writes",
                                        .facts = facts,
                                        .unit = "searches/s",
                                        .opponent = "the same searches without writes",
                                        .ours = search_beside_writes,
                                        .theirs = search_for });
    struct bench_load_mark mark = bench_load_begin();
    double found = recall(ask_store, 0, &fewest);
    struct bench_load load = bench_load_end(&mark);
    struct vector_figures f = figures();
    bench_begin(&line, "vector", "after_writes");
    bench_text(&line, "engine", vector_engine());
    bench_number(&line, "writes", (double)b.writes);
    put_recall(&line, found, fewest);
    bench_number(&line, "segments", (double)f.segments);
    bench_number(&line, "head_rows", (double)f.head_rows);
    bench_number(&line, "dead_rows", (double)f.dead_rows);
    bench_end(&line, &load);
    if (fewest < VECTOR_K)
        bench_fail("a search gave %zu rows instead of %d", fewest, VECTOR_K);
}

/* ---- over HTTP ---- */

static void make_request(struct buf *out, size_t question, unsigned step)
{
    struct buf body;
    char filter[40] = "";
    if (step > 1)
        snprintf(filter, sizeof filter, "FILTER d.n %% %u == 0 ", step);
    buf_init(&body, 0);
    buf_printf(&body,
               "{\"query\":\"FOR d IN c %sLET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT %d "
               "RETURN {k: d._key, s}\",\"bindVars\":{\"q\":[",
               filter, VECTOR_K);
    for (size_t i = 0; i < VECTOR_DIMENSION; i++)
        buf_printf(&body, "%s%.6f", i ? "," : "",
                   (double)vector_data_question(&b.data, question)[i]);
    buf_add_str(&body, "]}}");
    bench_http_post(out, "/_api/cursor", buf_cstr(&body));
    buf_release(&body);
}

/* Requests with all questions, as slices of bytes. */
static void make_requests(struct buf *bytes, struct slice *requests, unsigned step)
{
    size_t ends[VECTOR_QUESTIONS];
    for (size_t i = 0; i < VECTOR_QUESTIONS; i++) {
        make_request(bytes, i, step);
        ends[i] = bytes->len;
    }
    for (size_t i = 0; i < VECTOR_QUESTIONS; i++) {
        size_t from = i ? ends[i - 1] : 0;
        requests[i] = slice_of(bytes->ptr + from, ends[i] - from);
    }
}

static void print_http(const struct bench_server *server, unsigned connections, unsigned step)
{
    enum { ROUNDS = 3, SECONDS = 2 };
    struct slice requests[VECTOR_QUESTIONS];
    struct bench_line line;
    struct bench_http_result got;
    struct buf bytes;
    double rates[ROUNDS], p50 = 0, p99 = 0;
    buf_init(&bytes, 0);
    make_requests(&bytes, requests, step);
    struct bench_http_load load = { .port = server->port,
                                    .connections = connections,
                                    .requests = requests,
                                    .request_count = VECTOR_QUESTIONS,
                                    .seconds = SECONDS };
    bench_http_run(&load, &got); /* until the index is in memory */
    struct bench_load_mark mark = bench_load_begin();
    for (size_t i = 0; i < ROUNDS; i++) {
        bench_http_run(&load, &got);
        rates[i] = got.per_second;
        p50 += got.p50_us / ROUNDS;
        p99 = got.p99_us > p99 ? got.p99_us : p99;
    }
    struct bench_load during = bench_load_end(&mark);
    bench_begin(&line, "vector", "http");
    bench_text(&line, "engine", vector_engine());
    bench_number(&line, "connections", connections);
    bench_number(&line, "passing", 1.0 / step);
    bench_number(&line, "queries_per_s", bench_quantile(rates, ROUNDS, 0.5));
    bench_number(&line, "q1", bench_quantile(rates, ROUNDS, 0.25));
    bench_number(&line, "q3", bench_quantile(rates, ROUNDS, 0.75));
    bench_number(&line, "p50_us", p50);
    bench_number(&line, "p99_us", p99);
    bench_number(&line, "rounds", ROUNDS);
    bench_end(&line, &during);
    buf_release(&bytes);
}

static void over_http(void)
{
    struct bench_server server;
    store_close(b.store);
    bench_server_start(&server, b.path,
                       (const char *const[]){ "--set", "vector_memory_mb=4096", NULL });
    print_http(&server, 1, 1);
    print_http(&server, 8, 1);
    print_http(&server, 8, 10);
    bench_server_stop(&server);
}

int main(void)
{
    const char *asked = getenv("BENCH_VECTORS");
    size_t count = asked ? strtoul(asked, NULL, 10) : 100000;
    if (count < 20000)
        bench_fail("BENCH_VECTORS must be at least 20000");
    log_set_level(LOG_ERROR);
    settings_init(&b.settings);
    b.settings.vector_memory_mb = MEMORY_MB;
    b.settings.vector_head_rows = (int)(count / HEAD_PART);
    b.settings.vector_effort = EFFORT;
    b.arena = arena_new(0);
    snprintf(b.path, sizeof b.path, "%s/vector", bench_dir());
    vector_data_make(&b.data, count);
    open_store();
    create();
    fill_in_parts();
    print_rates("search", 0);
    merge_all();
    against_faiss();
    for (size_t i = 1; i < VECTOR_FILTERS; i++)
        print_rates("filter", i);
    beside_writes();
    over_http();
    vector_data_release(&b.data);
    arena_free(b.arena);
    return 0;
}
