/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_json -- changes, collections and documents as JSON text on their way to a client, in pieces:
 * a transaction of any size needs little memory.
 */
#ifndef SERVER_CHANGE_JSON_H
#define SERVER_CHANGE_JSON_H

#include "server/request.h"
#include "store/change_feed.h"

enum { CHANGE_NAMES_MAX = 100, CHANGE_PIECE_BYTES = 64 * KIB };

/* Which changes a client gets: of one database, of these collections, of what its user may read. */
struct change_filter {
    uint64_t db_id;
    struct slice names[CHANGE_NAMES_MAX];
    size_t count; /* 0 = all */
    /* The last collection that was asked for. */
    uint64_t known_id, known_version;
    bool known;
};
/* "a,b" in the request's arena. */
MUST_CHECK enum errc change_filter_names(struct change_filter *f, struct request *r,
                                         struct slice list, struct error *err);
/* The request's database and "collections"; ERR_FORBIDDEN where the user may not read one. */
MUST_CHECK enum errc change_filter_read(struct change_filter *f, struct request *r,
                                        struct error *err);
bool change_filter_takes(struct change_filter *f, struct request *r, const struct change *change);

/* Text on its way. */
struct change_text {
    struct request *r;
    struct buf out;             /* owned */
    struct val_builder *values; /* owned */
    uint64_t bytes;             /* of all that went through */
    bool is_gone;               /* the client takes no more */
};
void change_text_init(struct change_text *t, struct request *r);
void change_text_release(struct change_text *t);
/* Sends what is there when it is enough (CHANGE_PIECE_BYTES), or is_last. */
void change_text_flush(struct change_text *t, bool is_last);

void change_put_history(struct change_text *t); /* "history":"..." */
void change_put_time(struct change_text *t, const char *name, uint64_t time_us);
/* {type, collection, ...} */
void change_put(struct change_text *t, const struct change *change);
/* Members "properties": {...},"indexes": [...] */
void change_put_collection(struct change_text *t, const struct collection *c, bool has_indexes);

#endif
