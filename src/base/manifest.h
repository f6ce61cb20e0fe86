/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest -- a folder that can be checked: manifest.json lists each file with
 * its size and SHA-256 (docs/formats.md). For backups and what else leaves the
 * node as files.
 *
 * Calls block on I/O. Links and special files are refused.
 */
#ifndef BASE_MANIFEST_H
#define BASE_MANIFEST_H

#include "base/arena.h"
#include "base/val.h"

struct manifest_file {
    const char *path; /* within the folder, without "." and ".." */
    uint64_t bytes;
    char sha256[65];
};

struct manifest {
    struct val about; /* what the maker says of it: an object */
    struct manifest_file *files;
    size_t count;
    uint64_t bytes; /* of all files */
};

/* Hashes what is in the folder and writes manifest.json, durable on return. */
MUST_CHECK enum errc manifest_make(const char *dir, struct val about, struct arena *arena,
                                   struct manifest *out, struct error *err);
/* ERR_NOT_FOUND without one; ERR_CORRUPT when it is not a manifest. Everything lives in arena. */
MUST_CHECK enum errc manifest_read(const char *dir, struct arena *arena, struct manifest *out,
                                   struct error *err);
/* ERR_CORRUPT names the first file that is missing, unknown or not as it was. */
MUST_CHECK enum errc manifest_check(const char *dir, const struct manifest *m, struct error *err);

/* The SHA-256 of manifest.json itself, so that another folder can name exactly this one. */
MUST_CHECK enum errc manifest_digest(const char *dir, char out[65], struct error *err);
/* Reads an open file to its end: size and digest. path is for the message. */
MUST_CHECK enum errc manifest_hash(int fd, const char *path, struct manifest_file *out,
                                   struct error *err);

/* Removes a folder with all that is in it; ERR_NOT_FOUND when it is not there. */
MUST_CHECK enum errc folder_remove(const char *dir, struct error *err);
/* Makes a folder's entries durable. */
MUST_CHECK enum errc folder_sync(const char *dir, struct error *err);

#endif
