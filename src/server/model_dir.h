/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_dir -- the directory of models that were added to the node: NAME.gguf
 * each, read-only, beside it NAME.gguf.sha256 (as sha256sum writes and checks it),
 * and .NAME.part while one arrives. Who writes a part holds a lock on it,
 * so one without a lock was left by a crash and may be taken over.
 *
 * Calls block on I/O. A part belongs to one thread at a time.
 */
#ifndef SERVER_MODEL_DIR_H
#define SERVER_MODEL_DIR_H

#include "base/error.h"

enum { MODEL_PATH_BYTES = 1400, MODEL_NAME_BYTES = 64 };

struct model_part {
    bool is_open, is_kept;
    int fd;
    char dir[MODEL_PATH_BYTES], part[MODEL_PATH_BYTES], path[MODEL_PATH_BYTES];
};

/* Creates the directory when missing. ERR_BUSY: another upload of the name is under way. */
MUST_CHECK enum errc model_part_open(struct model_part *p, const char *dir, const char *name,
                                     struct error *err);
MUST_CHECK enum errc model_part_write(struct model_part *p, struct slice bytes, struct error *err);
/* All bytes are there: makes them durable and read-only. They can be read at p->part. */
MUST_CHECK enum errc model_part_sync(struct model_part *p, struct error *err);
/* The file gets its name and digest, durably, in place of an older one. */
MUST_CHECK enum errc model_part_keep(struct model_part *p, const char *sha256, struct error *err);
/*
 * An empty part for what is made of the bytes of p, which has its lock; model_part_swap puts it in the
 * place of p. Both are closed by their owner until then.
 */
MUST_CHECK enum errc model_part_derive(struct model_part *out, const struct model_part *p,
                                       struct error *err);
void model_part_swap(struct model_part *p, struct model_part *derived);
/* Removes the part unless it was kept. A zeroed part is allowed. */
void model_part_close(struct model_part *p);

/*
 * The file of a model that a request names: ERR_INVALID unless the name is one of a file (no path),
 * ERR_NOT_FOUND without a file, ERR_FORBIDDEN when a link leads out of dir.
 */
MUST_CHECK enum errc model_dir_find(const char *dir, struct slice name, char path[MODEL_PATH_BYTES],
                                    struct error *err);
/* The digest that is kept beside the file at path; "" when there is none. */
MUST_CHECK enum errc model_digest_read(const char *path, char sha256[65], struct error *err);
/* Keeps it, durably. */
MUST_CHECK enum errc model_digest_write(const char *path, const char *sha256, struct error *err);
/* Removes the file and its digest, durably. */
MUST_CHECK enum errc model_dir_remove(const char *dir, const char *path, struct error *err);

/* Removes parts that crashes left. */
void model_dir_clean(const char *dir);
/*
 * Calls fn for each model in order of names, until it answers an
 * error, which is returned. A missing directory is empty.
 */
MUST_CHECK enum errc model_dir_walk(const char *dir,
                                    enum errc (*fn)(void *ctx, const char *name, const char *path,
                                                    struct error *err),
                                    void *ctx, struct error *err);

#endif
