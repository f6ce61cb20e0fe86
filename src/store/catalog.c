/* SPDX-License-Identifier: Apache-2.0 */
#include "store/catalog.h"

#include <stdatomic.h>

#include "base/val_text.h"
#include "base/words.h"
#include "store/catalog_private.h"
#include "store/rules.h"

uint64_t catalog_version(const struct catalog *c)
{
    return c->version;
}

struct catalog *catalog_ref(struct catalog *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void catalog_unref(struct catalog *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        for (size_t i = 0; i < c->database_count; i++)
            for (size_t j = 0; j < c->databases[i].collection_count; j++)
                rules_free(c->databases[i].collections[j].rules);
        arena_free(c->arena);
        mem_free(c);
    }
}

size_t catalog_database_count(const struct catalog *c)
{
    return c->database_count;
}

const struct database *catalog_database_at(const struct catalog *c, size_t i)
{
    return &c->databases[i];
}

const struct database *catalog_database(const struct catalog *c, struct slice name)
{
    for (size_t i = 0; i < c->database_count; i++)
        if (slice_eq(c->databases[i].name, name))
            return &c->databases[i];
    return NULL;
}

const struct database *catalog_database_by_id(const struct catalog *c, uint64_t id)
{
    for (size_t i = 0; i < c->database_count; i++)
        if (c->databases[i].id == id)
            return &c->databases[i];
    return NULL;
}

static bool parse_id(struct slice text, uint64_t *out)
{
    uint64_t id = 0;
    if (text.len == 0 || text.len > 20)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(text.ptr[i] - '0');
        if (digit > 9 || id > (UINT64_MAX - digit) / 10)
            return false;
        id = id * 10 + digit;
    }
    *out = id;
    return true;
}

static const struct collection *find_by_name(const struct database *db, struct slice name)
{
    size_t low = 0, high = db->collection_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = slice_cmp(db->collections[middle].name, name);
        if (c == 0)
            return &db->collections[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct collection *catalog_collection(const struct catalog *c, uint64_t db_id,
                                            struct slice name)
{
    const struct database *db = catalog_database_by_id(c, db_id);
    const struct collection *found = db ? find_by_name(db, name) : NULL;
    uint64_t id;
    if (db && !found && parse_id(name, &id)) {
        found = catalog_collection_by_id(c, id);
        if (found && found->db_id != db_id)
            found = NULL;
    }
    return found;
}

const struct collection *catalog_collection_by_id(const struct catalog *c, uint64_t id)
{
    for (size_t i = 0; i < c->database_count; i++) {
        const struct database *db = &c->databases[i];
        for (size_t j = 0; j < db->collection_count; j++)
            if (db->collections[j].id == id)
                return &db->collections[j];
    }
    return NULL;
}

const struct index_def *collection_index(const struct collection *c, uint64_t index_id)
{
    for (size_t i = 0; i < c->index_count; i++)
        if (c->indexes[i].id == index_id)
            return &c->indexes[i];
    return NULL;
}

const struct index_def *collection_index_named(const struct collection *c, struct slice handle)
{
    uint64_t id;
    const char *slash = handle.len ? memchr(handle.ptr, '/', handle.len) : NULL;
    if (slash) {
        size_t n = (size_t)(slash - handle.ptr);
        if (!slice_eq(slice_of(handle.ptr, n), c->name))
            return NULL;
        handle = slice_of(slash + 1, handle.len - n - 1);
    }
    if (parse_id(handle, &id))
        return collection_index(c, id);
    for (size_t i = 0; i < c->index_count; i++)
        if (slice_eq(c->indexes[i].name, handle))
            return &c->indexes[i];
    return NULL;
}

const struct collection *catalog_by_object(const struct catalog *c, uint64_t object_id,
                                           const struct index_def **index)
{
    *index = NULL;
    for (size_t i = 0; i < c->database_count; i++) {
        for (size_t j = 0; j < c->databases[i].collection_count; j++) {
            const struct collection *at = &c->databases[i].collections[j];
            if (at->object_id == object_id)
                return at;
            for (size_t k = 0; k < at->index_count; k++) {
                if (at->indexes[k].object_id == object_id) {
                    *index = &at->indexes[k];
                    return at;
                }
            }
        }
    }
    return NULL;
}

/* ---- names ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool all_name_bytes(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* ArangoDB's extended names: any text, composed, that neither a path nor an _id trips over. */
static bool is_free_name(struct slice name, size_t max)
{
    if (!name.len || name.len > max || strchr(" .0123456789", name.ptr[0]) ||
        name.ptr[name.len - 1] == ' ' || !utf8_check(name, NULL) || !text_is_composed(name))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((uint8_t)name.ptr[i] < 0x20 || name.ptr[i] == 0x7F || name.ptr[i] == '/')
            return false;
    return true;
}

bool name_is_database(struct slice name)
{
    return is_free_name(name, 128) && name.ptr[0] != '_' && !memchr(name.ptr, ':', name.len);
}

bool name_is_collection(struct slice name)
{
    return is_free_name(name, LIMIT_NAME_BYTES);
}

bool name_is_index(struct slice name)
{
    return name.len >= 1 && name.len <= LIMIT_NAME_BYTES &&
           (is_letter(name.ptr[0]) || name.ptr[0] == '_') && all_name_bytes(name);
}

/* ---- clone ---- */

struct catalog *catalog_clone(const struct catalog *c, struct arena *arena)
{
    struct catalog *clone = ARENA_NEW(arena, struct catalog);
    clone->version = c->version;
    clone->locale = c->locale;
    for (size_t i = 0; i < c->database_count; i++) {
        struct database db = c->databases[i];
        const struct collection *old = db.collections;
        size_t count = db.collection_count;
        db.collections = NULL;
        db.collection_count = 0;
        clone_add_database(clone, arena, &db);
        struct database *copy = &clone->databases[i];
        struct collection *collections = arena_alloc(arena, (count + 1) * sizeof *collections);
        for (size_t j = 0; j < count; j++) {
            collections[j] = old[j];
            size_t bytes = old[j].index_count * sizeof *old[j].indexes;
            struct index_def *indexes = arena_alloc(arena, bytes);
            memcpy(indexes, old[j].indexes, bytes);
            collections[j].indexes = indexes;
        }
        copy->collections = collections;
        copy->collection_count = count;
    }
    return clone;
}

struct database *clone_database(struct catalog *clone, uint64_t id)
{
    return (struct database *)catalog_database_by_id(clone, id);
}

struct collection *clone_collection(struct catalog *clone, uint64_t id, struct database **database)
{
    struct collection *c = (struct collection *)catalog_collection_by_id(clone, id);
    if (c && database)
        *database = clone_database(clone, c->db_id);
    return c;
}

struct index_def *clone_index(struct collection *c, uint64_t id)
{
    return (struct index_def *)collection_index(c, id);
}

/* A copy of the array with one more element at position at. */
static void *array_insert(struct arena *arena, const void *items, size_t count, size_t size,
                          size_t at, const void *item)
{
    char *out = arena_alloc(arena, (count + 1) * size);
    if (at)
        memcpy(out, items, at * size);
    memcpy(out + at * size, item, size);
    if (count > at)
        memcpy(out + (at + 1) * size, (const char *)items + at * size, (count - at) * size);
    return out;
}

static void array_remove(void *items, size_t *count, size_t size, const void *item)
{
    size_t at = (size_t)((const char *)item - (char *)items) / size;
    memmove((char *)items + at * size, (char *)items + (at + 1) * size, (*count - at - 1) * size);
    --*count;
}

void clone_add_database(struct catalog *clone, struct arena *arena, const struct database *db)
{
    size_t n = clone->database_count++;
    clone->databases = array_insert(arena, clone->databases, n, sizeof *db, n, db);
}

void clone_add_collection(struct database *db, struct arena *arena, const struct collection *c)
{
    size_t at = 0, n = db->collection_count++;
    while (at < n && slice_cmp(db->collections[at].name, c->name) < 0)
        at++;
    db->collections = array_insert(arena, db->collections, n, sizeof *c, at, c);
}

void clone_add_index(struct collection *c, struct arena *arena, const struct index_def *index)
{
    size_t n = c->index_count++;
    c->indexes = array_insert(arena, c->indexes, n, sizeof *index, n, index);
}

void clone_remove_database(struct catalog *clone, struct database *db)
{
    array_remove(clone->databases, &clone->database_count, sizeof *db, db);
}

void clone_remove_collection(struct database *db, struct collection *c)
{
    array_remove((void *)db->collections, &db->collection_count, sizeof *c, c);
}

void clone_remove_index(struct collection *c, struct index_def *index)
{
    array_remove((void *)c->indexes, &c->index_count, sizeof *index, index);
}
