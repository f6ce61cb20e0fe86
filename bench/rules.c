/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a schema and computed values add to writes: documents of about 400 bytes are inserted into
 * a store in memory, in transactions of a hundred that are rolled back, so that nothing but the
 * writing of documents is measured. Per second of CPU time; theirs: the same without rules.
 */
#include "base/val_text.h"
#include "base/validator.h"
#include "bench.h"
#include "query/computed.h"
#include "store/doc.h"
#include "store/store.h"
#include <stdio.h>

enum { DOCS = 100 };

static const char rule[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,"
    "\"maxLength\":80},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"mail\":{\"type\":\"string\","
    "\"pattern\":\"^[^@]+@[^@]+$\"},\"active\":{\"type\":\"boolean\"},\"tags\":{\"type\":\"array\","
    "\"items\":{\"type\":\"string\"},\"maxItems\":10},\"address\":{\"type\":\"object\","
    "\"properties\":"
    "{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"},\"zip\":{\"type\":\"string\"}"
    "},"
    "\"required\":[\"city\"],\"additionalProperties\":false},\"state\":{\"enum\":[\"new\",\"old\","
    "\"gone\"]},"
    "\"text\":{\"type\":\"string\"}},\"required\":[\"name\",\"age\",\"mail\"],"
    "\"additionalProperties\":false}";

static const char computed[] =
    "[{\"name\":\"lower\",\"expression\":\"RETURN LOWER(@doc.name)\",\"overwrite\":true},"
    "{\"name\":\"adult\",\"expression\":\"RETURN @doc.age >= 18\",\"overwrite\":true}]";

static struct {
    struct settings settings;
    struct store *store;
    struct arena *arena, *scratch;
    struct val docs[DOCS];
    uint64_t plain;
} b;

struct side {
    uint64_t with;
    double ns; /* of one check, where that is measured */
};

static struct val parsed(const char *text)
{
    struct error err;
    struct val v;

    bench_must(val_parse(slice_str(text), b.arena, &v, &err), &err, "parsing");
    return v;
}

static uint64_t make(const char *name, struct val schema, struct val values)
{
    struct error err;
    uint64_t id;
    struct collection_options opt = { .name = slice_str(name),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .schema = schema,
                                      .computed = values };

    bench_must(store_create_collection(b.store, 1, &opt, &id, &err), &err, "creating");
    return id;
}

static void make_docs(void)
{
    for (unsigned i = 0; i < DOCS; i++)
        b.docs[i] = parsed(arena_printf(
            b.arena,
            "{\"name\":\"Person Number "
            "%u\",\"age\":%u,\"mail\":\"person%u@example.org\",\"active\":%s,"
            "\"tags\":[\"red\",\"green\",\"blue\"],\"address\":{\"street\":\"Long Street %u\","
            "\"city\":\"Town\",\"zip\":\"%05u\"},\"state\":\"old\",\"text\":\"%0160u\"}",
            i, i % 100, i, i % 2 ? "true" : "false", i, i * 17, i));
}

static double insert(uint64_t id, double seconds)
{
    double begin = bench_thread_seconds(), now = begin;
    uint64_t done = 0;
    struct doc_change change;
    struct error err;
    struct txn *t;

    for (; now - begin < seconds; now = bench_thread_seconds()) {
        bench_must(txn_begin(&t, b.store, &(struct txn_options){ 0 }, &err), &err, "beginning");
        const struct collection *c = catalog_collection_by_id(txn_catalog(t), id);
        for (size_t i = 0; i < DOCS; i++)
            bench_must(doc_insert(t, c, b.docs[i], NULL, b.scratch, &change, &err), &err, "insert");
        txn_end(t);
        arena_reset(b.scratch);
        done += DOCS;
    }
    return (double)done / (now - begin);
}

static double ours(void *ctx, double seconds)
{
    return insert(((struct side *)ctx)->with, seconds);
}

static double theirs(void *ctx, double seconds)
{
    (void)ctx;
    return insert(b.plain, seconds);
}

static double check_ns(void)
{
    struct error err;
    struct validator *s;
    size_t valid = 0, rounds = 2000;
    bool is_valid;

    bench_must(validator_new(&s, parsed(rule), &err), &err, "the schema");
    double begin = bench_thread_seconds();
    for (size_t k = 0; k < rounds; k++) {
        for (size_t i = 0; i < DOCS; i++) {
            bench_must(validator_check(s, b.docs[i], &is_valid, &err), &err, "checking");
            valid += is_valid;
        }
    }
    double ns = (bench_thread_seconds() - begin) / (double)(rounds * DOCS) * 1e9;
    if (valid != rounds * DOCS)
        bench_fail("the schema refuses the documents");
    validator_free(s);
    return ns;
}

static void add(void *ctx, struct bench_line *line)
{
    const struct side *s = ctx;

    if (s->ns > 0)
        bench_number(line, "check_ns", s->ns);
}

static void compare(const char *what, struct side *s)
{
    bench_compare(&(struct bench_pair){ .name = "rules",
                                        .what = what,
                                        .facts = "threads=1 bytes=400 rolled_back=1",
                                        .unit = "inserts/cpu_s",
                                        .opponent = "the same without rules",
                                        .target = 0.8,
                                        .seconds = 0.3,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .add = add,
                                        .ctx = s });
}

int main(void)
{
    struct error err;
    struct store_options opt = { .settings = &b.settings, .compute = &query_compute };

    settings_init(&b.settings);
    b.arena = arena_new(0);
    b.scratch = arena_new(0);
    bench_must(store_open(&b.store, &opt, &err), &err, "opening a store in memory");
    make_docs();
    b.plain = make("plain", val_null, val_null);
    struct val schema = parsed(arena_printf(b.arena, "{\"rule\":%s}", rule));
    compare("schema", &(struct side){ make("schema", schema, val_null), check_ns() });
    compare("computed", &(struct side){ make("computed", val_null, parsed(computed)), 0 });
    store_close(b.store);
    arena_free(b.scratch);
    arena_free(b.arena);
    return 0;
}
