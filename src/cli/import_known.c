/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of files, and asking the server for those that it knows. */
#include "base/hash.h"
#include "cli/import.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* To be raised when a kind of file is turned into another text than before. */
#define CONVERTER "themis import 1"

static bool add_file(struct sha256 *sum, int file)
{
    char bytes[16 * KIB];
    struct stat st;
    ssize_t n;

    if (fstat(file, &st) || !S_ISREG(st.st_mode) || st.st_size > IMPORT_FILE_MAX)
        return false;
    while ((n = read(file, bytes, sizeof bytes)) > 0)
        sha256_add(sum, bytes, (size_t)n);
    return n == 0;
}

void import_digest_of(const struct import *im, const char *path, struct import_digest *out)
{
    struct sha256 *sum = sha256_new();
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t digest[32];

    sha256_add(sum, CONVERTER, sizeof CONVERTER);
    if (im->charset)
        sha256_add(sum, im->charset, strlen(im->charset) + 1);
    bool is_ok = file >= 0 && add_file(sum, file);
    sha256_finish(sum, digest);
    hash_hex(digest, sizeof digest, out->hex);
    if (!is_ok)
        out->hex[0] = 0;
    if (file >= 0)
        close(file);
}

/* The answer names them in the order of those that have a digest. */
static void read_known(struct val list, const struct import_digest *digests, size_t count,
                       bool *known)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        known[i] = digests[i].hex[0] && val_truth(val_at(list, n++));
}

bool import_ask_known(struct import *im, char *const *paths, const struct import_digest *digests,
                      size_t count, bool *known)
{
    static const char *const names[] = { "documents", "model" };
    static const char *const fields[] = { "path", "source_digest" };
    struct cli *c = im->c;
    struct arena_mark mark = arena_mark(c->arena);
    struct val docs[IMPORT_WINDOW], answer = val_null;
    size_t n = 0;
    bool is_ok = true;

    for (size_t i = 0; i < count; i++) {
        struct val values[] = { cli_text(c, paths[i]), cli_text(c, digests[i].hex) };
        if (digests[i].hex[0])
            docs[n++] = cli_object(c, fields, values, ARRAY_LEN(fields));
    }
    struct val values[] = { val_new_array(c->arena, docs, n),
                            im->model ? cli_text(c, im->model) : VAL_NONE };
    if (n)
        is_ok = cli_call(c, "POST", "/v1/import/known",
                         cli_object(c, names, values, ARRAY_LEN(names)), &answer);
    read_known(val_get(answer, slice_str("known")), digests, count, known);
    arena_rewind(c->arena, mark);
    return is_ok;
}
