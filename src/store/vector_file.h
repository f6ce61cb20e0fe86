/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_file -- one segment as a file (docs/formats.md): written beside and
 * renamed when it is durable, checked whole before anything of it is used.
 * For the files of store. Calls block on I/O.
 */
#ifndef STORE_VECTOR_FILE_H
#define STORE_VECTOR_FILE_H

#include "base/error.h"
#include "store/vector_rows.h"

struct vector_file {
    const char *dir;
    uint64_t object_id, number; /* of the index's rows; of the file */
    uint32_t metric, dimension;
};

/* Durable when it returns; a failure leaves nothing behind. */
MUST_CHECK enum errc vector_file_write(const struct vector_file *f, const struct vector_rows *rows,
                                       struct error *err);

/*
 * Returns the segment to the caller, all rows alive. Missing: ERR_NOT_FOUND;
 * damaged or of another index or version: ERR_CORRUPT; more than max_bytes of
 * memory: ERR_LIMIT.
 */
MUST_CHECK enum errc vector_file_read(const struct vector_file *f, int64_t max_bytes,
                                      _Atomic int64_t *charge, struct vector_rows **out,
                                      struct error *err);

void vector_file_remove(const struct vector_file *f);

/* Removes files of segments that is_kept does not know, and unfinished ones. */
void vector_files_tidy(const char *dir,
                       bool (*is_kept)(void *ctx, uint64_t object_id, uint64_t number), void *ctx);

#endif
