/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_private -- the state behind vectors.h, for the files that keep it.
 *
 * The lock protects the table of indexes, their fields and the writer's side of
 * every row set that a current version holds. It is held for short sections:
 * the committer takes it for each group. The background thread alone adds,
 * removes, opens and builds; the committer only appends and ends rows, or gives
 * an index up.
 */
#ifndef STORE_VECTOR_PRIVATE_H
#define STORE_VECTOR_PRIVATE_H

#include "store/vector_search.h"

struct hnsw;

enum vector_state {
    VECTOR_COLD,    /* nothing in memory: the rows are scanned */
    VECTOR_OPENING, /* commits are followed, the rest is being read */
    VECTOR_WARM,
};

/* Ends of row versions that came while a set was being made; the id is a copy. */
struct vector_kill {
    struct slice id;
    uint64_t seq;
};
struct vector_kills {
    struct vector_kill *at; /* owned, as the ids */
    size_t count, cap;
    struct arena *ids;
};

/* Texts without their vector. */
struct vector_lag {
    size_t pending;
    uint64_t age_ms; /* of the oldest */
};

struct vector_index {
    uint64_t object_id, collection_id, index_id;
    char *name; /* owned; "collection/index" */
    uint32_t dimension;
    enum vector_metric metric;
    uint32_t links;

    enum vector_state state;
    bool is_logging; /* kills are noted */
    bool is_dropped; /* no longer in the catalog */
    bool wants_merge;
    bool is_warned; /* of being too large */
    uint64_t retry_at_us;
    struct vector_version *current; /* reference; NULL unless warm */
    struct vector_rows *active;     /* reference; the head that grows; NULL when cold */
    struct vector_kills kills;
    uint64_t builds, rebuilds;

    /* of the thread that embeds texts */
    bool has_source;
    struct vector_lag lag;
    uint64_t embed_pause_us, embed_at_us;
    char embed_error[160];
};

/* One segment being made, by a thread of its own at idle priority. */
struct vector_build {
    struct vectors *vectors;
    struct vector_index *index;
    pthread_t thread;
    _Atomic bool is_cancelled, is_done;
    uint64_t seq;                  /* rows as of this commit */
    struct vector_version *source; /* reference */
    bool takes[VECTOR_SEGMENTS_MAX];
    size_t head_count;         /* of the heads of source that are taken: all but the last */
    struct vector_rows *base;  /* its graph is copied; one of the segments, or NULL */
    struct vector_rows *out;   /* reference */
    struct vector_pick *picks; /* owned; rows to add behind the base's */
    size_t pick_count;
    uint64_t started_us;
    enum errc rc;
    struct error err;
};

struct vectors {
    struct store *store;
    char *dir; /* owned; NULL in memory */
    int64_t budget_bytes;
    size_t head_rows;
    _Atomic int64_t bytes; /* of all row sets */
    struct commit_sink sink;

    pthread_mutex_t lock;
    pthread_cond_t work, settled;
    struct vector_index **indexes; /* owned; sorted by object id */
    size_t index_count;
    struct vector_version **trash; /* given up by the committer; freed by the thread */
    size_t trash_count;
    uint64_t staged_seq; /* newest commit applied */
    bool is_catalog_new, is_stopping, is_started, is_settled;
    struct vector_build *build; /* owned; the running one, or NULL */
    pthread_t thread;

    struct vector_embedder embedder;
    pthread_t embed_thread;
    pthread_cond_t notes;
    bool is_embedding, is_embed_stopping;
    bool is_note_staged, has_notes; /* by a group not published yet; since the last look */
    atomic_bool is_embed_cancelled;
};

/* ---- the table; lock held ---- */

struct vector_index *vectors_find(struct vectors *v, uint64_t object_id);
void vectors_add(struct vectors *v, struct vector_index *x);
void vectors_remove(struct vectors *v, const struct vector_index *x);
void vector_index_free(struct vector_index *x); /* out of the table; without the lock */

/* ---- versions ---- */

struct vector_version *vector_version_new(uint64_t min_seq);
void vector_version_add_segment(struct vector_version *version, struct vector_rows *rows);
void vector_version_add_head(struct vector_version *version, struct vector_rows *rows);
/* Writer. Ends the living version of the id, wherever it is. */
void vector_version_kill(struct vector_version *version, struct slice id, uint64_t seq);
/* Lock held. Keeps next; returns the version before it, to be unreferenced without the lock. */
struct vector_version *vector_index_publish(struct vector_index *x, struct vector_version *next);

/*
 * Replays the kills behind seq on a version that nobody else knows yet, most of
 * them without the lock, and returns with the lock held and none left.
 */
void vector_index_catch_up(struct vectors *v, struct vector_index *x,
                           struct vector_version *version, uint64_t seq);

/* A view that contains everything applied so far, or NULL when the store closes. */
struct view *vectors_wait_view(struct vectors *v, uint64_t staged_seq);

/* ---- what the background thread does ---- */

/* Adds and removes indexes as the catalog did, and files with them. */
void vectors_follow_catalog(struct vectors *v);

/* Brings a cold index into memory: files, then the rows that they lack. */
MUST_CHECK enum errc vector_open(struct vectors *v, struct vector_index *x, struct error *err);
/* Lock held. Back to cold; what was in memory goes to the trash. */
void vector_give_up(struct vectors *v, struct vector_index *x);

/* Lock held. Is there something to put into a new segment? */
bool vector_build_is_due(const struct vectors *v, const struct vector_index *x);
/* Returns with v->build set, or a reason. */
MUST_CHECK enum errc vector_build_start(struct vectors *v, struct vector_index *x,
                                        struct error *err);
/* After is_done, or to cancel it. */
void vector_build_finish(struct vectors *v);

/* Counts the texts of an index with a source that wait in the view of t. */
void vector_lag_of(struct txn *t, const struct index_def *index, struct vector_lag *out);

/* Files of segments, as the meta family knows them: "vector/" object id, number. */
MUST_CHECK enum errc vector_refs_change(struct vectors *v, uint64_t object_id,
                                        const uint64_t *removed, size_t removed_count,
                                        uint64_t added, struct error *err);
MUST_CHECK enum errc vector_refs_list(struct vectors *v, struct arena *arena, uint64_t **pairs,
                                      size_t *count, struct error *err);

#endif
