/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog -- databases, collections and indexes as one immutable, versioned,
 * reference-counted value. A transaction sees the catalog of its view.
 *
 * Pointers into a catalog are valid while a reference (or the transaction) is
 * held. Lookups from any thread.
 */
#ifndef STORE_CATALOG_H
#define STORE_CATALOG_H

#include "base/base.h"
#include "base/error.h"
#include "base/val.h"

enum collection_type { COLLECTION_DOCUMENT = 2, COLLECTION_EDGE = 3 }; /* ArangoDB's numbers */

enum index_kind {
    INDEX_PRIMARY,
    INDEX_EDGE,
    INDEX_PERSISTENT,
    INDEX_VECTOR,
    INDEX_GEO,
    INDEX_FULLTEXT
};

/* What documents must obey, compiled; hidden from everybody but the writes. */
struct rules;

enum vector_metric { VECTOR_COSINE, VECTOR_L2, VECTOR_INNER_PRODUCT };

/* Attribute path of one indexed field: names, and whether the last is expanded as [*]. */
struct field_path {
    struct slice text; /* "a.b" or "tags[*]" */
    const struct slice *names;
    size_t count;
    bool is_expanded; /* [*] */
};

struct index_def {
    uint64_t id;        /* shown as collection/id */
    uint64_t object_id; /* prefix of its keys */
    struct slice name;
    enum index_kind kind;
    const char *type; /* as asked for: "persistent", "hash", "geo", ... */
    const struct field_path *fields;
    size_t field_count;
    const struct field_path *stored; /* storedValues */
    size_t stored_count;
    bool is_unique, is_sparse, deduplicate;
    bool is_ready;       /* false while it is being built */
    bool is_geo_json;    /* INDEX_GEO: GeoJSON and [longitude, latitude] */
    uint32_t min_length; /* INDEX_FULLTEXT: characters of a word */
    bool expires;        /* "ttl": documents go when their value is so many seconds old */
    double expire_after_s;
    enum vector_metric metric; /* INDEX_VECTOR */
    uint32_t dimension;
    uint32_t links, probes; /* of a graph's row; how thorough a search is, at least */
    const struct field_path
        *source; /* texts that vectors are made from; none: documents have them */
    size_t source_count;
    struct slice model;            /* that makes them; empty = any */
    struct slice collator_version; /* of the sort keys in it */
    struct val def;                /* the definition, for answers */
};

struct collection {
    uint64_t id;        /* stable, globally unique */
    uint64_t object_id; /* prefix of its rows; changes at truncate */
    uint64_t db_id;
    struct slice name;
    enum collection_type type;
    bool is_system; /* name begins with _ */
    bool wait_for_sync;
    bool allow_user_keys;
    bool keys_increment; /* keyOptions.type autoincrement */
    bool is_renamed;     /* rows may hold an _id with an older name, which reads correct */
    /* Encrypted attributes, then those that were and may still be so in rows; names only. */
    const struct field_path *sealed;
    size_t encrypted_count, sealed_count;
    struct val key_options;
    struct val extra;
    struct val schema;               /* {message, level, type, rule}, or null */
    struct val computed;             /* computedValues: array, or null */
    struct rules *rules;             /* of both; NULL without. The catalog's */
    const struct index_def *indexes; /* [0] is primary; edge collections have [1] = edge */
    size_t index_count;
};

struct database {
    uint64_t id;
    struct slice name;
    const struct collection *collections; /* sorted by name */
    size_t collection_count;
};

struct catalog;

uint64_t catalog_version(const struct catalog *c);
struct catalog *catalog_ref(struct catalog *c);
void catalog_unref(struct catalog *c);

size_t catalog_database_count(const struct catalog *c);
const struct database *catalog_database_at(const struct catalog *c, size_t i);
const struct database *catalog_database(const struct catalog *c, struct slice name); /* or NULL */
const struct database *catalog_database_by_id(const struct catalog *c, uint64_t id);
/* By name or by decimal id. */
const struct collection *catalog_collection(const struct catalog *c, uint64_t db_id,
                                            struct slice name);
const struct collection *catalog_collection_by_id(const struct catalog *c, uint64_t id);
const struct index_def *collection_index(const struct collection *c, uint64_t index_id);
/* By decimal id, "collection/id", or name. */
const struct index_def *collection_index_named(const struct collection *c, struct slice handle);

#endif
