/* SPDX-License-Identifier: Apache-2.0 */
/*
 * themis import: files and folders of text, Markdown, HTML, PDF and CSV become
 * documents and chunks (POST /v1/import); with --collection the rows of JSONL, JSON
 * arrays and CSV become documents of a collection. A file that cannot be read does not
 * stop the others and is listed at the end.
 */
#include "cli/import.h"
#include "base/env.h"
#include "base/val_text.h"
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, ROWS_FILE_MAX = 1 << 30 };

/* ---- lists ---- */

void path_list_add(struct path_list *list, const char *path)
{
    if (list->count == list->cap) {
        list->cap = list->cap ? list->cap * 2 : 64;
        list->items = mem_realloc(list->items, list->cap * sizeof(*list->items));
    }
    list->items[list->count++] = mem_strdup(path);
}

void path_list_release(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->items[i]);
    mem_free(list->items);
    *list = (struct path_list){ 0 };
}

/* Names of files and what programs complain of are any bytes. */
static void make_utf8(char *text)
{
    for (size_t at; !utf8_check(slice_str(text), &at);)
        text[at] = '?';
}

void import_skip(struct import *im, const char *path, const char *fmt, ...)
{
    char reason[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    make_utf8(reason);
    path_list_add(&im->bad, path);
    path_list_add(&im->reasons, reason);
    make_utf8(im->bad.items[im->bad.count - 1]);
}

void import_show(const struct import *im)
{
    if (im->is_shown)
        fprintf(stderr, "\rimporting: %zu of %zu files, %lld chunks ", im->done, im->files.count,
                (long long)im->chunks);
}

/* ---- finding files ---- */

/*
 * Links to files are kept aside, links to folders are not followed. False: a folder could not be
 * read.
 */
static bool find_files(struct import *im, const char *path, int depth)
{
    struct stat st;
    struct dirent **names;
    bool is_ok = true;

    if (stat(path, &st)) {
        int why = errno;
        import_skip(im, path, "%s", strerror(why));
        /* a link to nowhere is a file, a missing argument not */
        return depth > 0 && (why == ENOENT || why == ELOOP);
    }
    if (S_ISREG(st.st_mode))
        path_list_add(&im->files, path);
    if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
        return true;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        import_skip(im, path, "%s", strerror(errno));
        return false;
    }
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.') {
            char *child = arena_printf(im->c->arena, "%s/%s", path, name);
            bool is_link = !lstat(child, &st) && S_ISLNK(st.st_mode) && !stat(child, &st);
            if (is_link && S_ISREG(st.st_mode))
                path_list_add(&im->links, child);
            else if (!is_link && !find_files(im, child, depth + 1))
                is_ok = false;
        }
        free(names[i]);
    }
    free(names);
    return is_ok;
}

struct file_id {
    dev_t device;
    ino_t number;
    const char *path;
};

static int compare_files(const void *a, const void *b)
{
    const struct file_id *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Of links to one file the first by name is taken, in every run. */
static int compare_links(const void *a, const void *b)
{
    const struct file_id *x = a, *y = b;
    int order = compare_files(a, b);

    return order ? order : strcmp(x->path, y->path);
}

static struct file_id *identify(struct cli *c, const struct path_list *list)
{
    struct file_id *out = arena_alloc(c->arena, (list->count + 1) * sizeof *out);
    struct stat st;

    for (size_t i = 0; i < list->count; i++) {
        if (stat(list->items[i], &st)) /* gone meanwhile: said when it is read */
            st = (struct stat){ 0 };
        out[i] = (struct file_id){ st.st_dev, st.st_ino, list->items[i] };
    }
    return out;
}

/* One path for each file: a link is another name of a file that is read anyway, or its only one. */
static void take_links(struct import *im)
{
    struct file_id *files = identify(im->c, &im->files), *links = identify(im->c, &im->links);
    size_t count = im->files.count;

    qsort(files, count, sizeof *files, compare_files);
    qsort(links, im->links.count, sizeof *links, compare_links);
    for (size_t i = 0; i < im->links.count; i++) {
        bool is_known = (i > 0 && !compare_files(&links[i - 1], &links[i])) ||
                        bsearch(&links[i], files, count, sizeof *files, compare_files);
        if (is_known)
            im->linked++;
        else
            path_list_add(&im->files, links[i].path);
    }
}

/* ---- one file ---- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n >= m && !strcasecmp(name + n - m, suffix);
}

/* Rows when a collection takes them; JSON is always rows. */
static bool rows_format(const struct import *im, const char *name, enum rows_format *out)
{
    if (ends_with(name, ".json"))
        *out = ROWS_ARRAY;
    else if (ends_with(name, ".jsonl") || ends_with(name, ".ndjson"))
        *out = ROWS_LINES;
    else if (im->collection && document_kind(name, slice_of(NULL, 0)) == DOCUMENT_CSV)
        *out = ROWS_CSV;
    else
        return false;
    return true;
}

/* The text is of those bytes only if they were the same all the time. */
static bool is_still(const struct import *im, const char *path, const struct import_digest *digest)
{
    struct import_digest now;

    import_digest_of(im, path, &now);
    return digest->hex[0] && strcmp(digest->hex, now.hex) == 0;
}

static bool import_document(struct import *im, const char *path, struct source *s,
                            const struct import_digest *digest)
{
    enum document_kind kind = document_kind(s->name, buf_slice(&s->bytes));
    struct document doc = { 0 };
    struct error err = { 0 };
    enum errc rc = OK;
    bool is_ok = true;

    if (document_is_plain(kind))
        TRY(source_decode(s, im->charset, IMPORT_FILE_MAX, &err));
    TRY(document_read(s, kind, &doc, &err));
    is_ok =
        import_add_document(im, path, &doc, s->charset, is_still(im, path, digest) ? digest : NULL);
out:
    if (rc != OK)
        import_skip(im, path, "%s", err.text);
    buf_release(&doc.text);
    return is_ok;
}

static bool import_table(struct import *im, const char *path, struct source *s,
                         enum rows_format format)
{
    struct error err = { 0 };

    if (source_decode(s, im->charset, ROWS_FILE_MAX, &err) == OK)
        return import_rows(im, path, buf_slice(&s->bytes), format);
    import_skip(im, path, "%s", err.text);
    return true;
}

/* False: the server cannot be used. */
static bool import_file(struct import *im, const char *path, const struct import_digest *digest)
{
    enum rows_format rows = ROWS_LINES;
    struct source s = { .file = -1 };
    struct error err = { 0 };
    enum errc rc = OK;
    bool has_rows, is_ok = true;

    if (!utf8_check(slice_str(path), NULL))
        TRY(fail(&err, ERR_INVALID, "its name is not UTF-8"));
    TRY(source_open(&s, path, &err));
    has_rows = rows_format(im, s.name, &rows);
    if (has_rows && !im->collection)
        TRY(fail(&err, ERR_INVALID, "it holds rows: name their collection with --collection"));
    TRY(source_read(&s, has_rows ? ROWS_FILE_MAX : IMPORT_FILE_MAX, &err));
    is_ok = has_rows ? import_table(im, path, &s, rows) : import_document(im, path, &s, digest);
out:
    if (rc != OK)
        import_skip(im, path, "%s", err.text);
    source_release(&s);
    return is_ok;
}

/* ---- pruning ---- */

static bool prune(struct import *im, const char *folder)
{
    static const char *const names[] = { "prefix", "keep" };
    struct cli *c = im->c;
    const char *slash = ends_with(folder, "/") ? "" : "/";
    const char *prefix = arena_printf(c->arena, "%s%s", folder, slash);
    struct val *keep = arena_alloc(c->arena, (im->files.count + 1) * sizeof *keep);
    size_t n = 0;
    struct val answer;

    for (size_t i = 0; i < im->files.count; i++) /* also those that could not be read: they exist */
        if (!strncmp(im->files.items[i], prefix, strlen(prefix)) &&
            utf8_check(slice_str(im->files.items[i]), NULL))
            keep[n++] = cli_text(c, im->files.items[i]);
    struct val values[] = { cli_text(c, prefix), val_new_array(c->arena, keep, n) };
    if (!cli_call(c, "POST", "/v1/import/prune", cli_object(c, names, values, ARRAY_LEN(names)),
                  &answer))
        return false;
    im->removed += val_int(val_get(answer, slice_str("removed")));
    return true;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* ---- the end ---- */

static struct val failures(const struct import *im)
{
    static const char *const names[] = { "path", "reason" };
    struct cli *c = im->c;
    struct val *list = arena_alloc(c->arena, (im->bad.count + 1) * sizeof *list);

    for (size_t i = 0; i < im->bad.count; i++) {
        struct val values[] = { cli_text(c, im->bad.items[i]), cli_text(c, im->reasons.items[i]) };
        list[i] = cli_object(c, names, values, ARRAY_LEN(names));
    }
    return val_new_array(c->arena, list, im->bad.count);
}

static void print_json(const struct import *im)
{
    static const char *const names[] = { "documents", "unchanged", "chunks",        "truncated",
                                         "rows",      "bad_rows",  "removed",       "linked",
                                         "skipped",   "seconds",   "embed_seconds", "failed" };
    const int64_t numbers[] = { im->documents, im->unchanged, im->chunks,
                                im->truncated, im->rows,      im->bad_rows,
                                im->removed,   im->linked,    (int64_t)im->bad.count };
    struct val values[ARRAY_LEN(names)];
    size_t n = ARRAY_LEN(numbers);

    for (size_t i = 0; i < n; i++)
        values[i] = val_new_int(im->c->arena, numbers[i]);
    values[n++] = val_new_double(im->c->arena, im->seconds);
    values[n++] = val_new_double(im->c->arena, im->embed_ms / 1000);
    values[n] = failures(im);
    cli_print_val(cli_object(im->c, names, values, ARRAY_LEN(names)), false);
}

static void print_summary(const struct import *im)
{
    printf("%lld documents imported in %lld chunks, %lld unchanged", (long long)im->documents,
           (long long)im->chunks, (long long)im->unchanged);
    if (im->truncated)
        printf(", %lld chunks longer than the model's window", (long long)im->truncated);
    if (im->rows || im->bad_rows)
        printf(", %lld rows", (long long)im->rows);
    if (im->bad_rows)
        printf(", %lld bad rows", (long long)im->bad_rows);
    if (im->removed)
        printf(", %lld removed", (long long)im->removed);
    if (im->linked)
        printf(", %lld links to them", (long long)im->linked);
    if (im->bad.count)
        printf(", %zu skipped", im->bad.count);
    printf("; %.1f s", im->seconds);
    if (im->chunks && im->seconds > 0)
        printf(", %.1f chunks/s, %.0f %% of the time for embedding",
               (double)im->chunks / im->seconds, im->embed_ms / im->seconds / 10);
    putchar('\n');
    fflush(stdout);
    for (size_t i = 0; i < im->bad.count; i++)
        fprintf(stderr, "skipped %s: %s\n", im->bad.items[i], im->reasons.items[i]);
}

/* ---- the command ---- */

static bool may_be_rows(struct import *im, const char *path)
{
    enum rows_format format;
    size_t len = strlen(path) - (ends_with(path, ".gz") ? 3 : 0);

    return rows_format(im, arena_copy(im->c->arena, slice_of(path, len)).ptr, &format);
}

/* Files whose bytes have been imported are not read any further: that is what takes time. */
static bool import_window(struct import *im, char *const *paths, size_t count)
{
    struct import_digest digests[IMPORT_WINDOW] = { 0 };
    bool known[IMPORT_WINDOW];

    for (size_t i = 0; i < count; i++)
        if (utf8_check(slice_str(paths[i]), NULL) && !may_be_rows(im, paths[i]))
            import_digest_of(im, paths[i], &digests[i]);
    if (!import_ask_known(im, paths, digests, count, known))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (known[i])
            im->unchanged++;
        else if (!import_file(im, paths[i], &digests[i]))
            return false;
        im->done++;
        import_show(im);
    }
    return true;
}

static bool import_all(struct import *im)
{
    char *const *paths = im->files.items;

    for (size_t i = 0, n; i < im->files.count; i += n) {
        n = im->files.count - i < IMPORT_WINDOW ? im->files.count - i : IMPORT_WINDOW;
        if (!import_window(im, paths + i, n) || !import_send_documents(im))
            return false;
    }
    return true;
}

/* Of the folders among the arguments, unless something in them could not be seen. */
static bool prune_all(struct import *im, int argc, char **argv, bool is_complete)
{
    if (!is_complete) {
        cli_fail("nothing was pruned, because not every folder could be read");
        return false;
    }
    for (int i = 0; i < argc; i++)
        if (is_folder(argv[i]) && !prune(im, argv[i]))
            return false;
    return true;
}

static int run(struct cli *c, int argc, char **argv)
{
    struct import *im = arena_zalloc(c->arena, sizeof *im);
    bool is_pruning = cli_flag(&argc, argv, "--prune"), is_complete = true, is_ok;
    struct error err = { 0 };

    im->c = c;
    im->begin_ms = env_mono_ms(env_system());
    im->model = cli_option(&argc, argv, "--model");
    im->collection = cli_option(&argc, argv, "--collection");
    im->charset = cli_option(&argc, argv, "--charset");
    im->is_shown = isatty(STDERR_FILENO) && !c->is_json;
    cli_no_options(argc, argv);
    if (!argc)
        return cli_misuse_of(&command_import);
    if (im->charset && source_check_charset(im->charset, &err) != OK)
        return cli_misuse("%s", err.text);
    for (int i = 0; i < argc; i++) {
        size_t len = strlen(argv[i]); /* "docs/" and "docs" name the same documents */
        while (len > 1 && argv[i][len - 1] == '/')
            argv[i][--len] = 0;
        is_complete &= find_files(im, argv[i], 0);
    }
    take_links(im);
    is_ok = import_all(im) && (!is_pruning || prune_all(im, argc, argv, is_complete));
    im->seconds = (double)(env_mono_ms(env_system()) - im->begin_ms) / 1000;
    if (im->is_shown)
        fputc('\n', stderr);
    if (c->is_json)
        print_json(im);
    else
        print_summary(im);
    /* nothing but bad files is a failure, some bad ones among good ones are not */
    if (im->bad.count > 0 && !im->documents && !im->unchanged && !im->rows)
        is_ok = false;
    path_list_release(&im->files);
    path_list_release(&im->links);
    path_list_release(&im->bad);
    path_list_release(&im->reasons);
    return is_ok && is_complete ? EXIT_DONE : EXIT_FAILED;
}

static const struct command_option options[] = {
    { "--prune", NULL, "Forgets documents below the folders whose files are gone." },
    { "--collection", "NAME", "Where the rows of CSV and JSON files go." },
    { "--charset", "NAME", "Encoding of the files that are not UTF-8, such as ISO-8859-1." },
    { "--model", "MODEL", "Which embedding model." },
    { NULL, NULL, NULL },
};

const struct command command_import = {
    .name = "import",
    .arguments = "FILE|FOLDER...",
    .help = "Brings text, Markdown, HTML, PDF, CSV, JSON lines into the node.",
    .run = run,
    .options = options,
    .about = "Texts are split by their structure, embedded and stored in the collections documents "
             "and chunks; "
             "a file that has not changed is not read again.",
};
