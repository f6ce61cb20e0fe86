/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trail -- the conflict window: keys written by recent commits, in commit order.
 * A transaction looks every key committed since its view up in its own read set.
 *
 * Whoever has the committer's turn appends and forgets; any thread may check.
 */
#ifndef STORE_TRAIL_H
#define STORE_TRAIL_H

#include "base/buf.h"
#include "store/kv.h"

struct read_set;
struct read_set *read_set_new(void);
void read_set_free(struct read_set *r);
void read_set_add_key(struct read_set *r, enum kv_family f, struct slice key);
/* [from, to); empty to = end of the family. */
void read_set_add_range(struct read_set *r, enum kv_family f, struct slice from, struct slice to);
/* Sorts and joins the ranges: before the first check, after the last addition. */
void read_set_seal(struct read_set *r);
size_t read_set_bytes(const struct read_set *r);
/* A key that was added, or one within a range; by hash, so that it may say yes too often. Sealed. */
bool read_set_holds(const struct read_set *r, enum kv_family f, struct slice key);
/* For records of prepared transactions (docs/formats.md). Sealed. */
void read_set_encode(const struct read_set *r, struct buf *out);
/* Takes the set from the front of *in; false on bad bytes. */
MUST_CHECK bool read_set_decode(struct read_set **out, struct slice *in);

struct trail;
struct trail *trail_new(void);
void trail_free(struct trail *t);

/* Committer only. */
void trail_add(struct trail *t, enum kv_family f, struct slice key);
uint64_t trail_end(const struct trail *t); /* position behind the newest key */

enum trail_result { TRAIL_CLEAR, TRAIL_CONFLICT, TRAIL_FORGOTTEN };

/*
 * Checks the keys from *position on and moves *position behind them. On a
 * conflict *key gets family byte and key. FORGOTTEN: the window no longer
 * reaches back to *position.
 */
enum trail_result trail_check(struct trail *t, uint64_t *position, const struct read_set *r,
                              struct buf *key);

/* Forgets what no view needs (below position) and, beyond max_bytes, the oldest. Committer only. */
void trail_forget(struct trail *t, uint64_t position, size_t max_bytes);
size_t trail_bytes(const struct trail *t);

#endif
