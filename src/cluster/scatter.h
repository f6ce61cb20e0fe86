/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter -- a batch of rows spread over shards and gathered in order.
 *
 * Rows are grouped by domain; each group has a home, the shard that is best at
 * it. The coordinator keeps the queue and hands out 8 to 16 rows at a time to
 * whoever has room, so that nothing waits at a shard while another is idle. An
 * idle shard takes rows that wait for another's room, unless their domain is
 * pinned, as long as the accuracy given up by that stays under a limit.
 *
 * A row that fails goes once more to another shard and is an error entry after
 * that; so is everything that has no answer after 30 seconds. Each row ends
 * exactly once, in any order, and is given out in the order of the batch.
 *
 * Pure: the caller makes the calls, keeps the answers, and tells the time. One
 * thread at a time.
 */
#ifndef CLUSTER_SCATTER_H
#define CLUSTER_SCATTER_H

#include "base/error.h"

struct scatter;

enum {
    SCATTER_ROWS_MAX = 100000,
    SCATTER_SHARDS_MAX = 1024,
    SCATTER_GROUPS_MAX = 64,
    SCATTER_CHUNK_MAX = 64,
};

struct scatter_settings {
    unsigned chunk_min;    /* fewer are handed out only when there are no more; default 8 */
    unsigned chunk_max;    /* default 16, at most SCATTER_CHUNK_MAX */
    unsigned window;       /* rows that one shard has at a time; default 16 */
    unsigned window_alone; /* the same when the rows are such that no other may take: holding them
                              back would only make its steps smaller; default 64 */
    uint64_t deadline_us;  /* for the whole batch, from scatter_new; default 30 s */
    double give_up_mean;   /* accuracy that taking rows from their home may cost, as a mean over all
                             rows of the batch; default 0.15 */
};
struct scatter_settings scatter_defaults(void);

struct scatter_group {
    /* Of each shard for this group's domain, -1 to 1; NAN: it has no adapter for it, which counts
     * as 0 and excludes it when the group is pinned. Borrowed until scatter_new returns. */
    const double *accuracy;
    int home;       /* index of a shard, as the router chose; -1 = the most accurate, and among
                       equals the one with the fewest rows */
    bool is_pinned; /* only shards with an adapter, and nobody takes rows from the home */
};

struct scatter_options {
    struct scatter_settings settings;
    uint64_t now_us;
    size_t row_count;               /* at most SCATTER_ROWS_MAX */
    const uint16_t *groups_of_rows; /* index of a group for each row; borrowed during the call */
    const struct scatter_group *groups;
    size_t group_count; /* at most SCATTER_GROUPS_MAX */
    size_t shard_count; /* at most SCATTER_SHARDS_MAX; shards are numbers below it */
};

/* Totals. handed = answered + failures + expired + rows under way. */
struct scatter_stats {
    uint64_t handed;   /* rows in hand-outs, second attempts included */
    uint64_t chunks;   /* hand-outs */
    uint64_t stolen;   /* rows handed to another than their home */
    uint64_t answered; /* rows that have ended with an answer */
    uint64_t failures; /* attempts that failed */
    uint64_t retried;  /* rows queued once more */
    uint64_t failed;   /* rows that have ended as error entries */
    uint64_t late;     /* answers and failures that came after their row had moved on */
    uint64_t expired;  /* attempts cut off by the deadline */
    double given_up;   /* accuracy, summed over rows */
};

/* ERR_LIMIT or ERR_INVALID when the options are out of range. Returned to the caller, who frees it. */
MUST_CHECK enum errc scatter_new(struct scatter **out, const struct scatter_options *options,
                                 struct error *err);
void scatter_free(struct scatter *s);

/* What one shard is asked in one call. */
struct scatter_chunk {
    uint32_t call; /* to be named with each answer */
    unsigned count;
    uint32_t rows[SCATTER_CHUNK_MAX]; /* indexes into the batch */
};
/*
 * What this shard gets now; false: nothing, or not yet. Call it for every shard until
 * it is false, after anything has changed. Rows of a group that nobody may serve become error
 * entries.
 */
MUST_CHECK bool scatter_pull(struct scatter *s, unsigned shard, struct scatter_chunk *out);

/*
 * A row of a call has an answer. True: it counts, keep the answer. False: the row
 * has ended already or was given to somebody else; drop it.
 */
MUST_CHECK bool scatter_answer(struct scatter *s, uint32_t call, uint32_t row);
/*
 * A row has failed: it is queued once more for another shard when is_retryable and
 * this was its first attempt, else it ends as an error entry with code.
 */
void scatter_row_failed(struct scatter *s, uint32_t call, uint32_t row, enum errc code,
                        bool is_retryable);
/* The call has ended (broken, refused, too late): its rows without an answer have failed, as above. */
void scatter_call_failed(struct scatter *s, uint32_t call, enum errc code);

/*
 * The shard takes nothing more for now: its breaker does not let calls through, it is
 * suspected, it drains. What is under way there goes on; its domains get another
 * home. Rows that no other shard may serve become error entries, unless rows of
 * this batch are still under way at one that could.
 */
void scatter_shard_pause(struct scatter *s, unsigned shard);
void scatter_shard_resume(struct scatter *s, unsigned shard);

/* When the deadline has passed: all rows that have not ended become error entries, ERR_TIMEOUT. */
void scatter_expire(struct scatter *s, uint64_t now_us);
uint64_t scatter_deadline_us(const struct scatter *s);

struct scatter_result {
    uint32_t row;
    bool is_answer;
    enum errc code;    /* of an error entry */
    unsigned shard;    /* that answered, or failed last */
    unsigned attempts; /* 0: an error entry that never left */
};
/* The next row of the batch, in its order, if it has ended: for partial results. */
MUST_CHECK bool scatter_next(struct scatter *s, struct scatter_result *out);

bool scatter_is_done(const struct scatter *s); /* every row has ended */
const struct scatter_stats *scatter_stats(const struct scatter *s);

#endif
