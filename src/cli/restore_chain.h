/* SPDX-License-Identifier: Apache-2.0 */
/* restore_chain -- which backups lead to the one that is restored, checked, and the point wanted. */
#ifndef CLI_RESTORE_CHAIN_H
#define CLI_RESTORE_CHAIN_H

#include "base/manifest.h"
#include "cli/cli.h"

enum { CHAIN_MAX = 10000 };

struct chain_link {
    const char *dir;
    struct manifest manifest;
};

/* The full backup first; the increments behind it. */
struct chain {
    struct chain_link *links;
    size_t count;
};

/*
 * Reads and checks the backup in dir with all before it, which are beside it under their ids.
 * ERR_CORRUPT says which one is damaged, missing or not the one that was gone on from.
 */
MUST_CHECK enum errc chain_read(struct chain *out, const char *dir, struct arena *arena,
                                struct error *err);

/* A commit number or "2026-01-31T09:30:00Z", with or without a fraction. Not given: zeroes. */
struct restore_point {
    uint64_t seq, time_us;
};
bool restore_point_parse(const char *text, struct restore_point *out);

#endif
