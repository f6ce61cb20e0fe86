/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup -- a consistent copy of the store while it goes on, in a folder that
 * can be checked by itself (base/manifest, docs/formats.md). Restoring is
 * copying data/ to where a node will start.
 */
#ifndef STORE_BACKUP_H
#define STORE_BACKUP_H

#include "base/manifest.h"
#include "store/store.h"

/* The backup that an incremental one goes on from. */
struct backup_parent {
    const char *id;
    const char *digest; /* SHA-256 of its manifest.json */
    struct val about;   /* what its manifest says of it */
};

struct backup_options {
    const char *dir;                    /* the folder: must not exist; its parent must */
    const char *id, *program;           /* are noted in the manifest */
    const struct backup_parent *parent; /* NULL = a full one */
};

/*
 * Makes the folder. It holds at least every commit acknowledged before the call: a full one the whole
 * store, an incremental one the commits since its parent, of the same history (ERR_INVALID) and all
 * still in the change log (ERR_GONE). What a crash leaves is dir.part.
 * One call per dir at a time; blocks for as long as it takes to read what is copied.
 */
MUST_CHECK enum errc store_backup(struct store *s, const struct backup_options *opt,
                                  struct arena *arena, struct manifest *out, struct error *err);

/* Removes dir.part, unless a running process is making it. ERR_BUSY then. */
MUST_CHECK enum errc store_backup_forget(const char *part, struct error *err);

#endif
