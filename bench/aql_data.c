/* SPDX-License-Identifier: Apache-2.0 */
#include "aql_data.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/val_text.h"
#include "bench.h"

enum { DOCUMENTS_PER_COMMIT = 1000, DOCUMENTS_LEAST = 10000 };

uint64_t aql_docs(void)
{
    const char *asked = getenv("BENCH_DOCS");
    uint64_t count = asked && *asked ? strtoull(asked, NULL, 10) : 1000000;
    if (count < DOCUMENTS_LEAST || count > 10000000)
        bench_fail("BENCH_DOCS must be from %d to 10000000", DOCUMENTS_LEAST);
    return count;
}

uint64_t aql_vertices(void)
{
    return aql_docs() / AQL_EDGES_PER_VERTEX;
}

uint64_t aql_mixed(uint64_t number)
{
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void aql_key(uint64_t number, struct buf *out)
{
    buf_printf(out, "k%07llu", (unsigned long long)number);
}

const char *aql_city(unsigned i)
{
    static const char *const names[AQL_CITIES] = { "Lisbon", "Nairobi", "Osaka", "Lima", "Tromso" };
    return names[i % AQL_CITIES];
}

/* ---- documents ---- */

static void add_members(uint64_t number, struct buf *out)
{
    uint64_t mixed = aql_mixed(number);
    buf_printf(out,
               "\"n\":%llu,\"name\":\"person %llu\",\"city\":\"%s\",\"age\":%u,\"score\":%.6f,"
               "\"group\":%u,\"active\":%s,\"tags\":[\"alpha\",\"beta\",\"t%u\"],"
               "\"address\":{\"street\":\"Long Street %u\",\"zip\":\"%05u\",\"country\":\"NA\"},"
               "\"note\":\"Entered by the load of the benchmark; long enough to look like text "
               "that somebody wrote about %llu.\"",
               (unsigned long long)number, (unsigned long long)number,
               aql_city((unsigned)(mixed % AQL_CITIES)), (unsigned)(mixed >> 8) % AQL_AGES,
               (double)(mixed >> 11) * 1000 / 0x1p53, (unsigned)(mixed >> 20) % AQL_GROUPS,
               mixed & 1 << 4 ? "true" : "false", (unsigned)(mixed >> 16) % 100,
               (unsigned)(mixed >> 24) % 300, (unsigned)(mixed >> 32) % 100000,
               (unsigned long long)mixed);
}

void aql_body(uint64_t number, struct buf *out)
{
    buf_add_char(out, '{');
    add_members(number, out);
    buf_add_char(out, '}');
}

static void add_joined_members(uint64_t number, struct buf *out)
{
    buf_printf(out, "\"code\":%llu,\"kind\":\"kind %llu\",\"weight\":%llu",
               (unsigned long long)number, (unsigned long long)number % 10,
               (unsigned long long)number % 7);
}

static void add_vertex_members(uint64_t number, struct buf *out)
{
    buf_printf(out, "\"name\":\"vertex %llu\"", (unsigned long long)number);
}

static void add_document(uint64_t number, void (*members)(uint64_t number, struct buf *out),
                         struct buf *out)
{
    buf_add_str(out, "{\"_key\":\"");
    aql_key(number, out);
    buf_add_str(out, "\",");
    members(number, out);
    buf_add_char(out, '}');
}

/* No text of these rows has a backslash, tab or newline. */
static void add_line(uint64_t number, void (*members)(uint64_t number, struct buf *out),
                     struct buf *out)
{
    aql_key(number, out);
    buf_add_str(out, "\t{");
    members(number, out);
    buf_add_str(out, "}\n");
}

static void person(uint64_t number, struct buf *out)
{
    add_document(number, add_members, out);
}

static void person_line(uint64_t number, struct buf *out)
{
    add_line(number, add_members, out);
}

static void joined(uint64_t number, struct buf *out)
{
    add_document(number, add_joined_members, out);
}

static void joined_line(uint64_t number, struct buf *out)
{
    add_line(number, add_joined_members, out);
}

static void vertex(uint64_t number, struct buf *out)
{
    add_document(number, add_vertex_members, out);
}

static void vertex_line(uint64_t number, struct buf *out)
{
    add_line(number, add_vertex_members, out);
}

/* A third of the way round at most: three steps do not come back. */
static void edge_ends(uint64_t number, uint64_t *from, uint64_t *to)
{
    uint64_t vertices = aql_vertices();
    *from = number / AQL_EDGES_PER_VERTEX;
    *to = (*from + 1 + aql_mixed(number) % (vertices / 3 - 1)) % vertices;
}

static void edge(uint64_t number, struct buf *out)
{
    uint64_t from, to;
    edge_ends(number, &from, &to);
    buf_add_str(out, "{\"_from\":\"v/");
    aql_key(from, out);
    buf_add_str(out, "\",\"_to\":\"v/");
    aql_key(to, out);
    buf_add_str(out, "\"}");
}

static void edge_line(uint64_t number, struct buf *out)
{
    uint64_t from, to;
    edge_ends(number, &from, &to);
    aql_key(from, out);
    buf_add_char(out, '\t');
    aql_key(to, out);
    buf_add_char(out, '\n');
}

const struct aql_table *aql_table(unsigned which)
{
    static struct aql_table tables[AQL_TABLES] = {
        [AQL_DOCUMENTS] = { .name = "d",
                            .document = person,
                            .copy_line = person_line,
                            .indexes = { "[\"name\"]", "[\"score\"]", "[\"group\"]" },
                            .create = "CREATE TABLE d (key text PRIMARY KEY, doc jsonb NOT NULL)",
                            .create_indexes = "CREATE INDEX ON d ((doc->>'name'));"
                                              "CREATE INDEX ON d (((doc->>'score')::float8));"
                                              "CREATE INDEX ON d (((doc->>'group')::int))" },
        [AQL_JOINED] = { .name = "g",
                         .count = AQL_GROUPS,
                         .document = joined,
                         .copy_line = joined_line,
                         .create = "CREATE TABLE g (key text PRIMARY KEY, doc jsonb NOT NULL)" },
        [AQL_EMPTY] = { .name = "b",
                        .create =
                            "CREATE TABLE b (key bigserial PRIMARY KEY, doc jsonb NOT NULL)" },
        [AQL_VERTICES] = { .name = "v",
                           .document = vertex,
                           .copy_line = vertex_line,
                           .create = "CREATE TABLE v (key text PRIMARY KEY, doc jsonb NOT NULL)" },
        [AQL_EDGES] = { .name = "e",
                        .is_edge = true,
                        .document = edge,
                        .copy_line = edge_line,
                        .create = "CREATE TABLE e (src text NOT NULL, dst text NOT NULL)",
                        .create_indexes = "CREATE INDEX ON e (src, dst); CREATE INDEX ON e (dst, "
                                          "src)" },
    };
    tables[AQL_DOCUMENTS].count = tables[AQL_EDGES].count = aql_docs();
    tables[AQL_VERTICES].count = aql_vertices();
    return &tables[which];
}

/* ---- the store ---- */

static void insert_some(struct bench_store *s, const struct aql_table *table, uint64_t from,
                        uint64_t to, struct arena *arena)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    struct val doc;
    struct buf text;
    buf_init(&text, 0);
    bench_must(
        txn_begin(&t, s->store, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
        &err, "beginning");
    const struct collection *c =
        catalog_collection(txn_catalog(t), s->db_id, slice_str(table->name));
    for (uint64_t i = from; i < to; i++) {
        buf_clear(&text);
        table->document(i, &text);
        bench_must(val_parse(buf_slice(&text), arena, &doc, &err), &err, "making a document");
        bench_must(doc_insert(t, c, doc, NULL, arena, &change, &err), &err, "inserting");
    }
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
    buf_release(&text);
}

static void create_indexes(struct bench_store *s, const struct aql_table *table, uint64_t id)
{
    struct arena *arena = arena_new(0);
    struct error err;
    struct val def;
    uint64_t index;
    bool is_new;
    for (size_t i = 0; i < ARRAY_LEN(table->indexes) && table->indexes[i]; i++) {
        const char *text =
            arena_printf(arena, "{\"type\":\"persistent\",\"fields\":%s}", table->indexes[i]);
        bench_must(val_parse(slice_str(text), arena, &def, &err), &err, "making an index");
        bench_must(store_create_index(s->store, id, def, &index, &is_new, &err), &err,
                   "making an index");
    }
    arena_free(arena);
}

static uint64_t create_collection(struct bench_store *s, const struct aql_table *table)
{
    struct error err;
    uint64_t id = 0;
    struct collection_options c = { .name = slice_str(table->name),
                                    .type = table->is_edge ? COLLECTION_EDGE : COLLECTION_DOCUMENT,
                                    .allow_user_keys = true,
                                    .key_options = val_null,
                                    .extra = val_null };
    struct txn *t;
    bench_must(txn_begin(&t, s->store, &(struct txn_options){ .is_read_only = true }, &err), &err,
               "beginning");
    const struct collection *there =
        catalog_collection(txn_catalog(t), s->db_id, slice_str(table->name));
    id = there ? there->id : 0;
    txn_end(t);
    if (!id)
        bench_must(store_create_collection(s->store, s->db_id, &c, &id, &err), &err,
                   "creating a collection");
    return id;
}

static void fill(struct bench_store *s, const struct aql_table *table)
{
    uint64_t id = create_collection(s, table);
    struct arena *arena = arena_new(0);
    struct arena_mark mark = arena_mark(arena);
    for (uint64_t i = 0; i < table->count; i += DOCUMENTS_PER_COMMIT) {
        uint64_t end =
            i + DOCUMENTS_PER_COMMIT < table->count ? i + DOCUMENTS_PER_COMMIT : table->count;
        insert_some(s, table, i, end, arena);
        arena_rewind(arena, mark);
    }
    arena_free(arena);
    create_indexes(s, table, id);
}

/* As background work would leave the files when it has caught up. */
static void compact(const struct bench_store *s)
{
    struct bench_raw raw;
    bench_raw_open(&raw, s->path);
    for (size_t i = 0; i < raw.family_count; i++)
        rocksdb_compact_range_cf(raw.db, raw.families[i], NULL, 0, NULL, 0);
    bench_raw_close(&raw);
}

void aql_fill_store(struct bench_store *s, const char *name, const unsigned *which, size_t count)
{
    bench_store_open(s, name);
    for (size_t i = 0; i < count; i++)
        fill(s, aql_table(which[i]));
    bench_store_close(s);
    compact(s);
}
