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

/*
 * Makes the folder dir, which must not exist; its parent must. It holds at
 * least every commit acknowledged before the call. id and program are noted in
 * the manifest. What a crash leaves is dir.part. One call per dir at a time; blocks
 * for as long as it takes to read the store.
 */
MUST_CHECK enum errc store_backup(struct store *s, const char *dir, const char *id,
                                  const char *program, struct arena *arena, struct manifest *out,
                                  struct error *err);

/* Removes dir.part, unless a running process is making it. ERR_BUSY then. */
MUST_CHECK enum errc store_backup_forget(const char *part, struct error *err);

#endif
