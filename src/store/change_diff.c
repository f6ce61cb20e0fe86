/* SPDX-License-Identifier: Apache-2.0 */
/* Two catalogs become the steps that lead from one to the other; things are the same by their ids. */
#include "store/change_private.h"

struct diff {
    struct arena *arena;
    struct change *list;
    size_t count, cap;
};

static void add(struct diff *d, struct change change)
{
    if (d->count == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 8;
        struct change *more = arena_alloc(d->arena, cap * sizeof *more);
        if (d->count)
            memcpy(more, d->list, d->count * sizeof *more);
        d->list = more;
        d->cap = cap;
    }
    d->list[d->count++] = change;
}

static const struct collection *find_collection(const struct database *db, uint64_t id)
{
    for (size_t i = 0; i < db->collection_count; i++)
        if (db->collections[i].id == id)
            return &db->collections[i];
    return NULL;
}

/* One that is being built is not there for anybody. */
static const struct index_def *find_index(const struct collection *c, uint64_t id)
{
    const struct index_def *index = c ? collection_index(c, id) : NULL;
    return index && index->is_ready ? index : NULL;
}

static bool is_own(const struct index_def *index)
{
    return index->kind != INDEX_PRIMARY && index->kind != INDEX_EDGE;
}

static void diff_indexes(struct diff *d, const struct database *db, const struct collection *before,
                         const struct collection *after)
{
    for (size_t i = 0; before && i < before->index_count; i++) {
        const struct index_def *index = &before->indexes[i];
        if (is_own(index) && index->is_ready && !collection_index(after, index->id))
            add(d, (struct change){
                       .kind = CHANGE_DROP_INDEX, .db = db, .collection = after, .index = index });
    }
    for (size_t i = 0; i < after->index_count; i++) {
        const struct index_def *index = &after->indexes[i];
        if (is_own(index) && index->is_ready && !find_index(before, index->id))
            add(d,
                (struct change){
                    .kind = CHANGE_CREATE_INDEX, .db = db, .collection = after, .index = index });
    }
}

/* null and missing are not the same in a schema */
static bool same_bytes(struct val a, struct val b)
{
    return slice_eq(val_bytes(a), val_bytes(b));
}

static bool encrypt_same(const struct collection *a, const struct collection *b)
{
    for (size_t i = 0; i < a->encrypted_count && i < b->encrypted_count; i++)
        if (!slice_eq(a->sealed[i].text, b->sealed[i].text))
            return false;
    return a->encrypted_count == b->encrypted_count;
}

static void diff_collection(struct diff *d, const struct database *db,
                            const struct collection *before, const struct collection *after)
{
    struct change change = { .db = db, .collection = after };
    if (!before) {
        change.kind = CHANGE_CREATE_COLLECTION;
        add(d, change);
    } else {
        if (!slice_eq(before->name, after->name)) {
            change.kind = CHANGE_RENAME_COLLECTION;
            change.old_name = before->name;
            add(d, change);
        }
        if (before->object_id != after->object_id) {
            change.kind = CHANGE_TRUNCATE_COLLECTION;
            add(d, change);
        }
        if (before->wait_for_sync != after->wait_for_sync || !encrypt_same(before, after) ||
            !val_equal(before->extra, after->extra) || !same_bytes(before->schema, after->schema) ||
            !same_bytes(before->computed, after->computed)) {
            change.kind = CHANGE_SET_COLLECTION;
            add(d, change);
        }
    }
    diff_indexes(d, db, before, after);
}

static void diff_database(struct diff *d, const struct database *before,
                          const struct database *after)
{
    for (size_t i = 0; before && i < before->collection_count; i++) {
        const struct collection *c = &before->collections[i];
        if (!find_collection(after, c->id))
            add(d, (struct change){ .kind = CHANGE_DROP_COLLECTION, .db = after, .collection = c });
    }
    for (size_t i = 0; i < after->collection_count; i++) {
        const struct collection *c = &after->collections[i];
        diff_collection(d, after, before ? find_collection(before, c->id) : NULL, c);
    }
}

size_t change_diff(const struct catalog *before, const struct catalog *after, struct arena *arena,
                   struct change **out)
{
    struct diff d = { .arena = arena };
    for (size_t i = 0; i < before->database_count; i++) {
        const struct database *db = &before->databases[i];
        if (!catalog_database_by_id(after, db->id))
            add(&d, (struct change){ .kind = CHANGE_DROP_DATABASE, .db = db });
    }
    for (size_t i = 0; i < after->database_count; i++) {
        const struct database *db = &after->databases[i];
        const struct database *old = catalog_database_by_id(before, db->id);
        if (!old)
            add(&d, (struct change){ .kind = CHANGE_CREATE_DATABASE, .db = db });
        diff_database(&d, old, db);
    }
    *out = d.list;
    return d.count;
}

const char *change_kind_name(enum change_kind kind)
{
    switch (kind) {
    case CHANGE_PUT:
        return "put";
    case CHANGE_REMOVE:
        return "remove";
    case CHANGE_CREATE_DATABASE:
        return "createDatabase";
    case CHANGE_DROP_DATABASE:
        return "dropDatabase";
    case CHANGE_CREATE_COLLECTION:
        return "createCollection";
    case CHANGE_DROP_COLLECTION:
        return "dropCollection";
    case CHANGE_RENAME_COLLECTION:
        return "renameCollection";
    case CHANGE_SET_COLLECTION:
        return "setCollection";
    case CHANGE_TRUNCATE_COLLECTION:
        return "truncateCollection";
    case CHANGE_CREATE_INDEX:
        return "createIndex";
    case CHANGE_DROP_INDEX:
        return "dropIndex";
    }
    BUG("change kind %d", (int)kind);
}
