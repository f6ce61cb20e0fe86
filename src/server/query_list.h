/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_list -- queries that run, to be looked at and ended, and the slow ones among those that
 * ended. Any thread.
 */
#ifndef SERVER_QUERY_LIST_H
#define SERVER_QUERY_LIST_H

#include "query/query.h"
#include "server/reply.h"

struct query_list;

struct query_list *query_list_new(void);
void query_list_free(struct query_list *l); /* when no query is left; NULL is allowed */

/* Returns its id. Copies the text and the bind values, as far as they are kept. */
uint64_t query_list_add(struct query_list *l, const struct request *r, const struct query *q);
void query_list_end(struct query_list *l, uint64_t id, bool has_failed);

/* Whose queries are shown, or may be ended: of one database and user, or of all of them. */
struct query_scope {
    uint64_t db_id; /* 0 = of every database */
    struct slice user;
    bool is_any_user;
};

/* An array for an answer. */
void query_list_put(struct query_list *l, const struct query_scope *scope, bool is_slow,
                    struct reply *a);
void query_list_clear_slow(struct query_list *l, const struct query_scope *scope);

/* Its run ends with 1500; ERR_NOT_FOUND, errorNum 1591, when no such query runs. */
MUST_CHECK enum errc query_list_kill(struct query_list *l, const struct query_scope *scope,
                                     uint64_t id, struct error *err);

struct query_tracking {
    bool is_enabled, tracks_slow, tracks_bind;
    int64_t slow_max, text_bytes_max;
    double slow_s;
};
void query_list_tracking(struct query_list *l, struct query_tracking *out);
/* Values out of range: ERR_INVALID. */
MUST_CHECK enum errc query_list_track(struct query_list *l, const struct query_tracking *t,
                                      struct error *err);

#endif
