/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of `themis import --collection`: JSONL, JSON arrays and CSV, a thousand to a request. */
#include "base/val_text.h"
#include "cli/csv.h"
#include "cli/import.h"
#include <stdio.h>

enum { BATCH_ROWS = 1000 };

/* Rows that wait to be sent. */
struct batch {
    struct import *im;
    const char *path;
    struct arena_mark mark; /* before the first of them */
    struct val rows[BATCH_ROWS];
    size_t count;
    size_t sent; /* of this file */
};

static bool ensure_collection(struct import *im)
{
    static const char *const names[] = { "name" };
    struct cli *c = im->c;
    struct val name = cli_text(c, im->collection), answer;
    const char *why;
    int status =
        cli_try(c, "POST", "/_api/collection", cli_object(c, names, &name, 1), &answer, &why);

    if (status == 409 || (status > 0 && status < 400)) /* it exists, or does now */
        return true;
    cli_fail("%s", why);
    return false;
}

/* Rows that the server refused are counted; the first of a file is shown. */
static void count_rows(struct batch *b, struct val answer)
{
    size_t failed = 0;

    for (size_t i = 0; i < val_count(answer); i++) {
        struct val one = val_at(answer, i);
        if (!val_bool(val_get(one, slice_str("error"))))
            continue;
        if (!failed++)
            cli_fail("%s row %zu: %.*s", b->path, b->sent + i + 1,
                     SLICE_ARG(val_string(val_get(one, slice_str("errorMessage")))));
    }
    b->im->bad_rows += (int64_t)failed;
    b->im->rows += (int64_t)(b->count - failed);
}

static bool send_rows(struct batch *b)
{
    struct cli *c = b->im->c;
    struct buf path;
    struct val answer;
    bool is_ok;

    if (b->count == 0)
        return true;
    buf_init(&path, 0);
    buf_add_str(&path, "/_api/document/");
    url_encode(slice_str(b->im->collection), &path);
    buf_add_str(&path, "?overwriteMode=replace");
    is_ok =
        cli_call(c, "POST", buf_cstr(&path), val_new_array(c->arena, b->rows, b->count), &answer);
    buf_release(&path);
    if (is_ok)
        count_rows(b, answer);
    b->sent += b->count;
    b->count = 0;
    arena_rewind(c->arena, b->mark);
    return is_ok;
}

/* The row lives in the arena of the shell until it has been sent. */
static bool add_row(struct batch *b, struct val row)
{
    b->rows[b->count++] = row;
    return b->count < BATCH_ROWS || send_rows(b);
}

static bool import_array(struct batch *b, struct slice text)
{
    struct error err = { 0 };
    struct val v;

    if (val_parse(text, b->im->c->arena, &v, &err) != OK) {
        import_skip(b->im, b->path, "%s", err.text);
        return true;
    }
    b->mark = arena_mark(b->im->c->arena); /* the array stays */
    if (val_type(v) == VAL_OBJECT)
        return add_row(b, v) && send_rows(b);
    for (size_t i = 0; i < val_count(v); i++)
        if (!add_row(b, val_at(v, i)))
            return false;
    return send_rows(b);
}

static bool import_lines(struct batch *b, struct slice text)
{
    struct import *im = b->im;
    struct arena *arena = im->c->arena;
    struct error err = { 0 };
    size_t line_number = 0;

    while (text.len) {
        struct arena_mark mark = arena_mark(arena);
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct slice line = slice_of(text.ptr, len);
        struct val row;
        text = slice_of(text.ptr + len + (end ? 1 : 0), text.len - len - (end ? 1 : 0));
        line_number++;
        while (line.len && strchr(" \t\r", line.ptr[line.len - 1]))
            line.len--;
        if (!line.len)
            continue;
        if (val_parse(line, arena, &row, &err) != OK) {
            cli_fail("%s line %zu: %s", b->path, line_number, err.text);
            im->bad_rows++;
            arena_rewind(arena, mark);
        } else if (!add_row(b, row)) {
            return false;
        }
    }
    return send_rows(b);
}

/* "12" and "-3.5e2" become numbers, "007" and "1 000" stay texts. */
static struct val csv_value(struct cli *c, struct slice field)
{
    struct val v;
    bool may_be_number =
        field.len > 0 && (field.ptr[0] == '-' || (field.ptr[0] >= '0' && field.ptr[0] <= '9'));

    if (may_be_number && val_parse(field, c->arena, &v, NULL) == OK && val_type(v) == VAL_NUMBER)
        return v;
    return val_new_string(c->arena, field);
}

static struct val csv_row(struct cli *c, const char *const *names, size_t name_count,
                          const struct slice *fields, size_t count)
{
    struct val *values = arena_alloc(c->arena, (name_count + 1) * sizeof *values);

    for (size_t i = 0; i < name_count; i++)
        values[i] = i < count && fields[i].len > 0 ? csv_value(c, fields[i]) : VAL_NONE;
    return cli_object(c, names, values, name_count);
}

static bool import_csv(struct batch *b, struct slice text)
{
    struct cli *c = b->im->c;
    struct slice fields[CSV_FIELDS_MAX];
    const char *names[CSV_FIELDS_MAX];
    size_t name_count, count;
    struct error err = { 0 };
    struct csv csv;

    if (!utf8_check(text, NULL)) {
        import_skip(b->im, b->path, "it is not UTF-8 text");
        return true;
    }
    csv_init(&csv, text, c->arena);
    if (csv_next(&csv, fields, &name_count, &err) != OK) {
        import_skip(b->im, b->path, "%s", err.text);
        return true;
    }
    for (size_t i = 0; i < name_count; i++)
        names[i] = arena_printf(c->arena, "%.*s", SLICE_ARG(fields[i]));
    b->mark = arena_mark(c->arena); /* the names stay */
    for (;;) {
        if (csv_next(&csv, fields, &count, &err) != OK) {
            import_skip(b->im, b->path, "%s; the rows before it are imported", err.text);
            break;
        }
        if (count == 0)
            break;
        if (!add_row(b, csv_row(c, names, name_count, fields, count)))
            return false;
    }
    return send_rows(b);
}

bool import_rows(struct import *im, const char *path, struct slice text, enum rows_format format)
{
    struct batch *b = mem_zalloc(sizeof *b);
    bool is_ok = ensure_collection(im);

    b->im = im;
    b->path = path;
    b->mark = arena_mark(im->c->arena);
    if (is_ok) {
        switch (format) {
        case ROWS_ARRAY:
            is_ok = import_array(b, text);
            break;
        case ROWS_LINES:
            is_ok = import_lines(b, text);
            break;
        case ROWS_CSV:
            is_ok = import_csv(b, text);
            break;
        }
    }
    mem_free(b);
    return is_ok;
}
