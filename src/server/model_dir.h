/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_dir -- the directory of models that were added to the node: NAME.gguf
 * each, and .NAME.part while one arrives. Who writes a part holds a lock on it,
 * so one without a lock was left by a crash and may be taken over.
 *
 * Calls block on I/O. A part belongs to one thread at a time.
 */
#ifndef SERVER_MODEL_DIR_H
#define SERVER_MODEL_DIR_H

#include "base/error.h"

enum { MODEL_PATH_BYTES = 1400 };

struct model_part {
    bool is_open, is_kept;
    int fd;
    char dir[MODEL_PATH_BYTES], part[MODEL_PATH_BYTES], path[MODEL_PATH_BYTES];
};

/* Creates the directory when missing. ERR_BUSY: another upload of the name is under way. */
MUST_CHECK enum errc model_part_open(struct model_part *p, const char *dir, const char *name,
                                     struct error *err);
MUST_CHECK enum errc model_part_write(struct model_part *p, struct slice bytes, struct error *err);
/* All bytes are there: makes them durable. They can be read at p->part. */
MUST_CHECK enum errc model_part_sync(struct model_part *p, struct error *err);
/* The file gets its name, durably, in place of an older one. */
MUST_CHECK enum errc model_part_keep(struct model_part *p, struct error *err);
/* Removes the part unless it was kept. A zeroed part is allowed. */
void model_part_close(struct model_part *p);

/*
 * Removes what crashes left, then calls fn for each model in order of names, until it answers an
 * error, which is returned. A missing directory is empty.
 */
MUST_CHECK enum errc model_dir_walk(const char *dir,
                                    enum errc (*fn)(void *ctx, const char *name, const char *path,
                                                    struct error *err),
                                    void *ctx, struct error *err);

#endif
