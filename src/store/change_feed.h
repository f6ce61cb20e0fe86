/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_feed -- the commits of a store in order, as changes of documents and of the catalog. Reads
 * the change log; hides how rows and catalogs are stored.
 *
 * A position is the number of the last commit that was read, together with the history that the
 * numbers belong to. Only durable commits are shown: no crash takes one back.
 */
#ifndef STORE_CHANGE_FEED_H
#define STORE_CHANGE_FEED_H

#include "store/store.h"

/* Names the line of commits: another one after a restored backup or an accepted loss. */
const char *change_history(const struct store *s);
/* The last commit that may be read: every one that was acknowledged as durable. Any thread. */
uint64_t change_limit(const struct store *s);

/*
 * fn runs when the limit may have risen, on the thread that wrote the group: it must not wait. Commits
 * without sync become durable later, without a call: look now and then. Set once; outlives the store.
 */
struct change_listener {
    void (*fn)(void *ctx);
    void *ctx;
};
void change_listen(struct store *s, const struct change_listener *listener);

struct change_range {
    uint64_t first, last;       /* commits that are kept; first 0 = none */
    uint64_t first_us, last_us; /* when they were made; 0 = not known */
    uint64_t bytes;             /* on disk, about */
    bool is_on;
};
MUST_CHECK enum errc change_range(struct store *s, struct change_range *out, struct error *err);

enum change_kind {
    CHANGE_PUT,    /* a document is there now with this content */
    CHANGE_REMOVE, /* it is not there any more */
    CHANGE_CREATE_DATABASE,
    CHANGE_DROP_DATABASE,
    CHANGE_CREATE_COLLECTION,
    CHANGE_DROP_COLLECTION,
    CHANGE_RENAME_COLLECTION, /* old_name is what it was */
    CHANGE_SET_COLLECTION,    /* its properties */
    CHANGE_TRUNCATE_COLLECTION,
    CHANGE_CREATE_INDEX, /* ready for use */
    CHANGE_DROP_INDEX,
};
const char *change_kind_name(enum change_kind kind); /* "put", "createIndex", ... */

/* Valid until the reader is asked again. */
struct change {
    enum change_kind kind;
    const struct database *db;
    const struct collection *collection; /* NULL: of a database */
    const struct index_def *index;
    struct slice key, old_name;
    struct val doc; /* CHANGE_PUT: after change_reader_document */
};

struct change_commit {
    uint64_t seq, time_us;
    size_t bytes; /* of its record */
};

/*
 * Belongs to one thread at a time. after: the position to go on from. ERR_GONE with errorNum 1415
 * when commits behind it are not kept any more, or it is of another history; ERR_INVALID while the
 * log is off.
 */
struct change_reader;
MUST_CHECK enum errc change_reader_open(struct change_reader **out, struct store *s, uint64_t after,
                                        struct error *err);
void change_reader_close(struct change_reader *r); /* NULL is allowed */

/* The next commit; *has = false: there is none yet. ERR_GONE as above: it came too late. */
MUST_CHECK enum errc change_reader_next(struct change_reader *r, struct change_commit *out,
                                        bool *has, struct error *err);
/* The changes of that commit, those of the catalog first; *has = false: no more. ERR_GONE likewise. */
MUST_CHECK enum errc change_reader_change(struct change_reader *r, struct change *out, bool *has,
                                          struct error *err);
/* Fills change->doc of the change that was read last; decrypting it can fail. */
MUST_CHECK enum errc change_reader_document(struct change_reader *r, struct change *change,
                                            struct error *err);
uint64_t change_reader_position(const struct change_reader *r);
/* Before a pause, also between the changes of a commit: nothing of the store is held meanwhile. */
void change_reader_rest(struct change_reader *r);

#endif
