/* SPDX-License-Identifier: Apache-2.0 */
/* themis model add: the digest of each file is sent along, so that the node sees what got lost. */
#include "base/manifest.h"
#include "cli/model.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 * KIB };

struct adding {
    struct cli *c;
    const struct model_add_options *opt;
    size_t added, refused;
    bool is_many;
};

struct upload {
    int file;
    char piece[PIECE_BYTES];
    uint64_t sent, size;
    bool is_shown;
};

static struct slice next_piece(void *ctx)
{
    struct upload *u = ctx;
    ssize_t n = read(u->file, u->piece, sizeof u->piece);

    n = n < 0 ? 0 : n; /* then it is shorter than announced by its digest, and refused */
    u->sent += (uint64_t)n;
    if (u->is_shown)
        fprintf(stderr, "\ruploading: %3.0f %%%s", 100.0 * (double)u->sent / (double)u->size,
                n ? "" : "\n");
    return slice_of(u->piece, (size_t)n);
}

static bool ends_with_gguf(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcmp(path + n - 5, ".gguf");
}

/* NAME from "path/NAME.gguf". */
static struct slice base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice name = slice_str(slash ? slash + 1 : path);

    if (ends_with_gguf(path))
        name.len -= 5;
    return name;
}

static void refuse(struct adding *a, const char *path, const char *why)
{
    a->refused++;
    cli_fail("%s: %s", path, why);
}

static void send_file(struct adding *a, const char *path, const char *sha256, struct upload *u)
{
    struct error err = { 0 };
    struct http_reply reply;
    struct buf url;

    buf_init(&url, 0);
    buf_add_str(&url, "/v1/models/");
    url_encode(a->opt->name ? slice_str(a->opt->name) : base_name(path), &url);
    buf_printf(&url, "?sha256=%s", sha256);
    if (a->opt->quantize) {
        buf_add_str(&url, "&quantize=");
        url_encode(slice_str(a->opt->quantize), &url);
    }
    struct http_call call = { .method = "PUT",
                              .path = buf_cstr(&url),
                              .content_type = "application/octet-stream",
                              .next_piece = next_piece,
                              .body_ctx = u };
    if (http_client_call(a->c->client, &call, &reply, &err) != OK) {
        refuse(a, path, err.text);
    } else {
        struct slice body = buf_slice(&reply.body);
        if (reply.status >= 400)
            refuse(a, path, cli_error_text(a->c, reply.status, body));
        else
            printf("%.*s\n", SLICE_ARG(body)), a->added++;
        http_reply_release(&reply);
    }
    buf_release(&url);
}

static void add_file(struct adding *a, const char *path)
{
    static struct upload u;
    struct manifest_file sum;
    struct error err = { 0 };
    struct stat st;

    u = (struct upload){ .file = open(path, O_RDONLY | O_CLOEXEC),
                         .is_shown = isatty(STDERR_FILENO) };
    if (u.file < 0) {
        refuse(a, path, strerror(errno));
        return;
    }
    if (fstat(u.file, &st) || !S_ISREG(st.st_mode)) {
        refuse(a, path, "is not a file");
    } else if (manifest_hash(u.file, path, &sum, &err) != OK || lseek(u.file, 0, SEEK_SET)) {
        refuse(a, path, err.text);
    } else {
        u.size = sum.bytes ? sum.bytes : 1;
        send_file(a, path, sum.sha256, &u);
    }
    close(u.file);
}

static int is_model(const struct dirent *d)
{
    return d->d_name[0] != '.' && ends_with_gguf(d->d_name);
}

/* Not the folders in it. */
static void add_folder(struct adding *a, const char *path)
{
    struct dirent **list;
    char file[4096];
    int n = scandir(path, &list, is_model, alphasort);

    if (n < 0) {
        refuse(a, path, strerror(errno));
        return;
    }
    if (n == 0)
        refuse(a, path, "has no file that ends in .gguf");
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        add_file(a, file);
        free(list[i]);
    }
    free(list);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int model_add(struct cli *c, int count, char **paths, const struct model_add_options *opt)
{
    struct adding a = { .c = c, .opt = opt, .is_many = count > 1 };

    for (int i = 0; i < count; i++) {
        if (is_folder(paths[i]) && opt->name)
            return cli_misuse("--name is for one added file, %s is a folder", paths[i]);
        a.is_many |= is_folder(paths[i]);
    }
    for (int i = 0; i < count; i++) {
        if (is_folder(paths[i]))
            add_folder(&a, paths[i]);
        else
            add_file(&a, paths[i]);
    }
    if (a.is_many)
        printf("%zu added, %zu refused\n", a.added, a.refused);
    return a.refused ? EXIT_FAILED : EXIT_DONE;
}
