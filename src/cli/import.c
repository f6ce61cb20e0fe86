/* SPDX-License-Identifier: Apache-2.0 */
/*
 * themis import: text and Markdown files and folders become documents and
 * chunks (POST /v1/import); JSONL and JSON arrays become rows of a collection.
 */
#include "base/val_text.h"
#include "cli/cli.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MAX = 32 * MIB,
    BATCH_DOCS = 16,
    BATCH_BYTES = 4 * MIB,
    DEPTH_MAX = 64,
    JSONL_ROWS = 1000,
    JSONL_MAX = 1 << 30
};

struct import {
    struct cli *c;
    const char *model, *collection;
    char **files;
    size_t file_count, file_cap;
    struct val docs[BATCH_DOCS];
    size_t doc_count, doc_bytes;
    struct arena_mark mark; /* before the first of docs */
    int64_t documents, unchanged, chunks, truncated, rows, skipped;
    size_t done;
    bool is_shown;
};

/* ---- finding files ---- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n >= m && !strcasecmp(name + n - m, suffix);
}

static bool is_markdown(const char *name)
{
    return ends_with(name, ".md") || ends_with(name, ".markdown");
}

static bool is_rows(const char *name)
{
    return ends_with(name, ".jsonl") || ends_with(name, ".ndjson") || ends_with(name, ".json");
}

static void add_file(struct import *im, const char *path)
{
    if (im->file_count == im->file_cap) {
        im->file_cap = im->file_cap ? im->file_cap * 2 : 64;
        im->files = mem_realloc(im->files, im->file_cap * sizeof(*im->files));
    }
    im->files[im->file_count++] = mem_strdup(path);
}

/* Links to files are followed, links to folders are not. */
static int find_files(struct import *im, const char *path, int depth)
{
    struct stat st;
    struct dirent **names;

    if (stat(path, &st))
        return cli_fail("cannot read %s: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode)) {
        add_file(im, path);
        return EXIT_DONE;
    }
    if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
        return EXIT_DONE;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        return cli_fail("cannot read %s: %s", path, strerror(errno));
    int code = EXIT_DONE;
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.') {
            char *child = arena_printf(im->c->arena, "%s/%s", path, name);
            struct stat own;
            bool is_dir_link = !lstat(child, &own) && S_ISLNK(own.st_mode) && !stat(child, &st) &&
                               S_ISDIR(st.st_mode);
            if (!is_dir_link && find_files(im, child, depth + 1) != EXIT_DONE)
                code = EXIT_FAILED;
        }
        free(names[i]);
    }
    free(names);
    return code;
}

/* ---- documents ---- */

static void show(struct import *im)
{
    if (im->is_shown)
        fprintf(stderr, "\rimporting: %zu of %zu files, %lld chunks ", im->done, im->file_count,
                (long long)im->chunks);
}

static bool send_docs(struct import *im)
{
    static const char *const names[] = { "documents", "model" };
    struct cli *c = im->c;
    struct val values[] = { val_new_array(c->arena, im->docs, im->doc_count),
                            im->model ? cli_text(c, im->model) : VAL_NONE };
    struct val answer;

    if (!im->doc_count)
        return true;
    if (!cli_call(c, "POST", "/v1/import", cli_object(c, names, values, ARRAY_LEN(names)), &answer))
        return false;
    im->documents += val_int(val_get(answer, slice_str("documents")));
    im->unchanged += val_int(val_get(answer, slice_str("unchanged")));
    im->chunks += val_int(val_get(answer, slice_str("chunks")));
    im->truncated += val_int(val_get(answer, slice_str("truncated")));
    im->doc_count = im->doc_bytes = 0;
    arena_rewind(c->arena, im->mark);
    show(im);
    return true;
}

static bool is_text(struct slice text)
{
    return utf8_check(text, NULL) && !memchr(text.len ? text.ptr : "", 0, text.len);
}

static bool add_document(struct import *im, const char *path, struct slice text)
{
    static const char *const names[] = { "path", "text", "format" };
    struct cli *c = im->c;

    if (!is_text(text)) {
        fprintf(stderr, "%sskipped %s: it is not UTF-8 text\n", im->is_shown ? "\r" : "", path);
        im->skipped++;
        return true;
    }
    if (!im->doc_count)
        im->mark = arena_mark(c->arena);
    struct val values[] = { cli_text(c, path), val_new_string(c->arena, text),
                            cli_text(c, is_markdown(path) ? "markdown" : "text") };
    im->docs[im->doc_count++] = cli_object(c, names, values, ARRAY_LEN(names));
    im->doc_bytes += text.len;
    return im->doc_count < BATCH_DOCS && im->doc_bytes < BATCH_BYTES ? true : send_docs(im);
}

/* ---- rows ---- */

static bool ensure_collection(struct import *im)
{
    static const char *const names[] = { "name" };
    struct cli *c = im->c;
    struct http_reply reply;
    struct error err = { 0 };
    struct buf body;
    struct val name = cli_text(c, im->collection);

    buf_init(&body, 0);
    val_print(cli_object(c, names, &name, 1), &body);
    struct http_call call = { .method = "POST",
                              .path = cli_db_path(c, "/_api/collection"),
                              .content_type = "application/json",
                              .body = buf_slice(&body) };
    enum errc rc = http_client_call(c->client, &call, &reply, &err);
    buf_release(&body);
    if (rc != OK) {
        cli_fail("%s", err.text);
        return false;
    }
    bool is_ok = reply.status < 400 || reply.status == 409; /* it exists */
    if (!is_ok)
        cli_fail("%s", cli_error_text(c, reply.status, buf_slice(&reply.body)));
    http_reply_release(&reply);
    return is_ok;
}

static bool send_rows(struct import *im, const struct val *rows, size_t count)
{
    struct buf path;
    struct val answer;
    size_t failed = 0;

    buf_init(&path, 0);
    buf_add_str(&path, "/_api/document/");
    url_encode(slice_str(im->collection), &path);
    buf_add_str(&path, "?overwriteMode=replace");
    bool is_ok =
        cli_call(im->c, "POST", buf_cstr(&path), val_new_array(im->c->arena, rows, count), &answer);
    buf_release(&path);
    for (size_t i = 0; is_ok && i < val_count(answer); i++) {
        struct val one = val_at(answer, i);
        if (!val_bool(val_get(one, slice_str("error"))))
            continue;
        if (!failed++)
            cli_fail("row %zu: %.*s", (size_t)im->rows + i + 1,
                     SLICE_ARG(val_string(val_get(one, slice_str("errorMessage")))));
    }
    im->skipped += (int64_t)failed;
    im->rows += (int64_t)(count - failed);
    return is_ok;
}

static bool import_array(struct import *im, const char *path, struct slice text)
{
    struct error err = { 0 };
    struct val v, rows[JSONL_ROWS];
    size_t n = 0;

    if (val_parse(text, im->c->arena, &v, &err) != OK) {
        cli_fail("%s: %s", path, err.text);
        return false;
    }
    if (val_type(v) == VAL_OBJECT)
        return send_rows(im, &v, 1);
    for (size_t i = 0; i < val_count(v); i++) {
        rows[n++] = val_at(v, i);
        if ((n == JSONL_ROWS || i + 1 == val_count(v)) && !send_rows(im, rows, n))
            return false;
        n = n == JSONL_ROWS ? 0 : n;
    }
    return true;
}

static bool import_lines(struct import *im, const char *path, struct slice text)
{
    struct cli *c = im->c;
    struct error err = { 0 };
    struct val rows[JSONL_ROWS];
    size_t n = 0, line_number = 0;

    while (text.len) {
        struct arena_mark mark = arena_mark(c->arena);
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct slice line = slice_of(text.ptr, len);
        text = slice_of(text.ptr + len + (end ? 1 : 0), text.len - len - (end ? 1 : 0));
        line_number++;
        while (line.len && strchr(" \t\r", line.ptr[line.len - 1]))
            line.len--;
        if (line.len && val_parse(line, c->arena, &rows[n], &err) != OK) {
            cli_fail("%s line %zu: %s", path, line_number, err.text);
            im->skipped++;
            arena_rewind(c->arena, mark);
            continue;
        }
        n += line.len > 0;
        if (n == JSONL_ROWS) {
            if (!send_rows(im, rows, n))
                return false;
            n = 0;
        }
    }
    return !n || send_rows(im, rows, n);
}

/* ---- the command ---- */

static bool import_file(struct import *im, const char *path)
{
    struct buf text;
    bool is_ok;

    if (!cli_read_file(path, is_rows(path) ? JSONL_MAX : FILE_MAX, &text)) {
        im->skipped++;
        return true; /* one bad file does not stop the others */
    }
    if (!is_rows(path)) {
        is_ok = add_document(im, path, buf_slice(&text));
    } else if (!im->collection) {
        cli_fail("%s holds rows: name their collection with --collection", path);
        is_ok = false;
    } else {
        is_ok = ensure_collection(im) &&
                (ends_with(path, ".json") ? import_array(im, path, buf_slice(&text))
                                          : import_lines(im, path, buf_slice(&text)));
    }
    buf_release(&text);
    return is_ok;
}

static void print_summary(const struct import *im)
{
    static const char *const names[] = { "documents", "unchanged", "chunks",
                                         "truncated", "rows",      "skipped" };
    int64_t numbers[] = { im->documents, im->unchanged, im->chunks,
                          im->truncated, im->rows,      im->skipped };
    struct val values[ARRAY_LEN(numbers)];

    if (im->c->is_json) {
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
            values[i] = val_new_int(im->c->arena, numbers[i]);
        cli_print_val(cli_object(im->c, names, values, ARRAY_LEN(names)), false);
        return;
    }
    printf("%lld documents imported in %lld chunks, %lld unchanged", (long long)im->documents,
           (long long)im->chunks, (long long)im->unchanged);
    if (im->truncated)
        printf(", %lld chunks longer than the model's window", (long long)im->truncated);
    if (im->rows)
        printf(", %lld rows", (long long)im->rows);
    if (im->skipped)
        printf(", %lld skipped", (long long)im->skipped);
    putchar('\n');
}

static int run(struct cli *c, int argc, char **argv)
{
    struct import *im = arena_zalloc(c->arena, sizeof *im);
    int code = EXIT_DONE;

    im->c = c;
    im->model = cli_option(&argc, argv, "--model");
    im->collection = cli_option(&argc, argv, "--collection");
    im->is_shown = isatty(STDERR_FILENO) && !c->is_json;
    cli_no_options(argc, argv);
    if (!argc)
        return cli_misuse("usage: themis import FILE|FOLDER... [--collection NAME]");
    for (int i = 0; i < argc; i++) {
        size_t len = strlen(argv[i]); /* "docs/" and "docs" name the same documents */
        while (len > 1 && argv[i][len - 1] == '/')
            argv[i][--len] = 0;
        if (find_files(im, argv[i], 0) != EXIT_DONE)
            code = EXIT_FAILED;
    }
    for (size_t i = 0; i < im->file_count && code == EXIT_DONE; i++) {
        if (!import_file(im, im->files[i]))
            code = EXIT_FAILED;
        im->done = i + 1;
        show(im);
    }
    if (code == EXIT_DONE && !send_docs(im))
        code = EXIT_FAILED;
    if (im->is_shown)
        fputc('\n', stderr);
    for (size_t i = 0; i < im->file_count; i++)
        mem_free(im->files[i]);
    mem_free(im->files);
    if (code == EXIT_DONE || im->documents || im->rows)
        print_summary(im);
    return code;
}

const struct command command_import = { "import", "FILE|FOLDER... [--collection NAME] [--model M]",
                                        "Brings text, Markdown, JSONL into the node.", run };
