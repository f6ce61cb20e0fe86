/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cursor -- finished queries whose rows are fetched batch by batch, by id and
 * for a limited time. Any thread.
 */
#ifndef SERVER_CURSOR_H
#define SERVER_CURSOR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/val.h"
#include "query/query.h"

struct cursors;

struct cursors *cursors_new(size_t max, uint64_t node);
void cursors_free(struct cursors *c);

struct cursor_options {
    size_t batch_size;
    uint64_t ttl_ms;
    bool has_count;
    bool allow_retry;
    uint64_t now_ms;
    struct slice user; /* copied */
    struct val plan;   /* with profile 2: shown in extra; lives in the request, not kept */
    uint64_t db_id;
};

/* A cursor as its user names it: in another database or for another user it does not exist. */
struct cursor_name {
    uint64_t id;
    uint64_t db_id;
    struct slice user;
};

/*
 * Keeps the query (also on failure). The first batch is made by cursors_next. Ids
 * are not to be guessed: the node's number and 48 bits of chance. ERR_LIMIT when there are too many cursors.
 */
MUST_CHECK enum errc cursors_add(struct cursors *c, struct query *q,
                                 const struct cursor_options *opt, uint64_t *id, struct error *err);

/*
 * The next batch as the body of ArangoDB's answer: {result, hasMore, id, count,
 * cached, nextBatchId, error, code}. Busy in another request: 1601. Unknown: 1600.
 * batch_id 0 = the next one; the last one again with allow_retry. The cursor is gone
 * after its last batch, unless it allows retry.
 */
MUST_CHECK enum errc cursors_next(struct cursors *c, const struct cursor_name *name,
                                  uint64_t batch_id, uint64_t now_ms, struct arena *arena,
                                  struct val *body, struct error *err);
MUST_CHECK enum errc cursors_remove(struct cursors *c, const struct cursor_name *name,
                                    struct error *err);
void cursors_expire(struct cursors *c, uint64_t now_ms);
size_t cursors_count(struct cursors *c);

/* A whole answer when everything fits the first batch. */
struct val query_answer(struct query *q, struct arena *arena, size_t from, size_t count,
                        const struct cursor_options *opt, uint64_t id, uint64_t batch_id,
                        bool has_more);
/* [{code, message}], in arena. */
struct val query_warnings(const struct query *q, struct arena *arena);

#endif
