/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are compared with all their bytes, so nobody gets somebody else's grammar. Reading a
 * grammar happens outside the lock: two requests that bring the same new one at once both read it.
 */
#include "model/grammar_cache.h"

#include "base/metrics.h"
#include "model/schema.h"

#include <pthread.h>

static struct metric hits =
    METRIC_COUNTER("themis_grammar_cache_hits_total", "Grammars that were there already.");
static struct metric misses = METRIC_COUNTER("themis_grammar_cache_misses_total",
                                             "Grammars that were read from their text or schema.");

struct entry {
    enum gen_shape_kind kind;
    struct buf source;
    struct grammar *grammar; /* one reference is ours */
    size_t bytes;
    uint64_t used; /* when, in calls */
};

struct grammar_cache {
    pthread_mutex_t lock; /* over the following */
    struct entry entries[GRAMMAR_CACHE_COUNT];
    size_t count, bytes;
    uint64_t calls;
};

struct grammar_cache *grammar_cache_new(void)
{
    struct grammar_cache *cache = mem_zalloc(sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

static void drop(struct grammar_cache *cache, size_t i)
{
    struct entry *e = &cache->entries[i];
    cache->bytes -= e->bytes;
    buf_release(&e->source);
    grammar_unref(e->grammar);
    *e = cache->entries[--cache->count];
}

void grammar_cache_free(struct grammar_cache *cache)
{
    if (!cache)
        return;
    while (cache->count > 0)
        drop(cache, cache->count - 1);
    pthread_mutex_destroy(&cache->lock);
    mem_free(cache);
}

static struct slice source_of(const struct gen_shape *shape)
{
    switch (shape->kind) {
    case GEN_FREE:
        break;
    case GEN_JSON:
        return slice_of("", 0);
    case GEN_SCHEMA:
        return val_bytes(shape->schema);
    case GEN_GRAMMAR:
        return shape->grammar;
    }
    BUG("the shape has no grammar");
}

static enum errc make(const struct gen_shape *shape, struct grammar **out, struct error *err)
{
    struct buf text;
    enum errc rc = OK;
    buf_init(&text, GRAMMAR_BYTES_MAX);
    if (shape->kind == GEN_JSON)
        schema_any_object(&text);
    else if (shape->kind == GEN_SCHEMA)
        TRY(schema_grammar(shape->schema, &text, err));
    else
        buf_add_slice(&text, shape->grammar);
    if (text.is_overfull)
        TRY(fail(err, ERR_INVALID, "a grammar may have %d bytes", GRAMMAR_BYTES_MAX));
    rc = grammar_parse(out, buf_slice(&text), err);
out:
    buf_release(&text);
    return rc;
}

static struct grammar *find(struct grammar_cache *cache, const struct gen_shape *shape)
{
    struct slice source = source_of(shape);
    struct grammar *found = NULL;
    pthread_mutex_lock(&cache->lock);
    cache->calls++;
    for (size_t i = 0; i < cache->count && !found; i++) {
        struct entry *e = &cache->entries[i];
        if (e->kind == shape->kind && slice_eq(buf_slice(&e->source), source)) {
            e->used = cache->calls;
            found = grammar_ref(e->grammar);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static void drop_oldest(struct grammar_cache *cache)
{
    size_t oldest = 0;
    for (size_t i = 1; i < cache->count; i++) {
        if (cache->entries[i].used < cache->entries[oldest].used)
            oldest = i;
    }
    drop(cache, oldest);
}

static void add(struct grammar_cache *cache, const struct gen_shape *shape, struct grammar *g)
{
    struct slice source = source_of(shape);
    size_t bytes = source.len + grammar_bytes(g);
    if (bytes > GRAMMAR_CACHE_BYTES / 4)
        return;
    pthread_mutex_lock(&cache->lock);
    while (cache->count == GRAMMAR_CACHE_COUNT || cache->bytes + bytes > GRAMMAR_CACHE_BYTES)
        drop_oldest(cache);
    struct entry *e = &cache->entries[cache->count++];
    *e = (struct entry){
        .kind = shape->kind, .grammar = grammar_ref(g), .bytes = bytes, .used = cache->calls
    };
    buf_init(&e->source, 0);
    buf_add_slice(&e->source, source);
    cache->bytes += bytes;
    pthread_mutex_unlock(&cache->lock);
}

enum errc grammar_cache_get(struct grammar_cache *cache, const struct gen_shape *shape,
                            struct grammar **out, struct error *err)
{
    *out = find(cache, shape);
    metric_add(*out ? &hits : &misses, 1);
    if (*out)
        return OK;
    enum errc rc = make(shape, out, err);
    if (rc == OK)
        add(cache, shape, *out);
    return rc;
}
