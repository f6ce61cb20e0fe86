/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_log -- commits as files: what an incremental backup holds, and putting them behind those of a
 * restored one. Bytes in docs/formats.md.
 */
#ifndef STORE_BACKUP_LOG_H
#define STORE_BACKUP_LOG_H

#include "base/arena.h"
#include "store/kv.h"

/*
 * Writes the records after `after` up to `last` into files in dir, which is there, durable on
 * return. ERR_GONE (1415) when one of them is not kept any more.
 */
MUST_CHECK enum errc backup_log_write(struct kv *kv, const char *dir, uint64_t after, uint64_t last,
                                      struct error *err);

struct replay_options {
    const char *path;        /* a store that nobody has open */
    const char *const *dirs; /* of files of commits, in order */
    size_t dir_count;
    uint64_t until_seq; /* the last commit that is taken; 0 = all */
    uint64_t until_us;  /* commits of a later time are not taken; 0 = all */
    uint64_t ids[2];    /* limits of ids, at least as high as any in the files */
};

struct replay_result {
    uint64_t before, last; /* commit numbers */
    uint64_t last_us;
};

/*
 * ERR_CORRUPT: a file is damaged or commits are missing between two; ERR_INVALID: the store is
 * behind the point already, or the files end before it. The store is then of no use.
 */
MUST_CHECK enum errc backup_log_replay(const struct replay_options *opt, struct replay_result *out,
                                       struct error *err);

#endif
