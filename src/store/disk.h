/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk -- two guards around the files: free space, asked at most every 100 ms,
 * and the mark of acknowledged commits, which tells after a crash whether the
 * log lost any of them.
 */
#ifndef STORE_DISK_H
#define STORE_DISK_H

#include "base/error.h"

struct disk;

/* dir NULL: no disk, everything passes. floor_bytes must stay free. */
struct disk *disk_new(const char *dir, uint64_t floor_bytes);
void disk_free(struct disk *d);

/* ERR_LIMIT with both numbers when too little space is left. Any thread. */
MUST_CHECK enum errc disk_check_space(struct disk *d, struct error *err);

/*
 * Notes that commits up to seq are durable and acknowledged. The mark is written without sync and
 * at most every 100 ms: what is noted in between is due later. Committer only.
 */
void disk_mark(struct disk *d, uint64_t seq);
uint64_t disk_durable(const struct disk *d);     /* the last one noted. Any thread */
uint64_t disk_mark_due_us(const struct disk *d); /* monotonic; 0 = nothing is due */
void disk_mark_now(struct disk *d);

/* The mark in dir, of a store that need not be open. *is_known: it is there and whole. */
MUST_CHECK enum errc disk_read_mark(const char *dir, uint64_t *seq, bool *is_known,
                                    struct error *err);

/* Writes a mark into another folder, for a copy of the store that holds this commit. */
MUST_CHECK enum errc disk_put_mark(const char *dir, uint64_t seq, struct error *err);

/*
 * Refuses (ERR_CORRUPT) when the newest commit found is below the mark: says
 * which are gone. accept_loss takes the loss and resets the mark.
 */
MUST_CHECK enum errc disk_check_mark(struct disk *d, uint64_t found_seq, bool accept_loss,
                                     struct error *err);

#endif
