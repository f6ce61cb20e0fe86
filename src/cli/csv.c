/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/csv.h"

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static char choose_separator(struct slice text)
{
    static const char candidates[] = { ',', ';', '\t' };
    size_t counts[ARRAY_LEN(candidates)] = { 0 }, best = 0;

    for (size_t i = 0; i < text.len && !is_line_end(text.ptr[i]); i++)
        for (size_t k = 0; k < ARRAY_LEN(candidates); k++)
            counts[k] += text.ptr[i] == candidates[k];
    for (size_t k = 1; k < ARRAY_LEN(candidates); k++)
        if (counts[k] > counts[best])
            best = k;
    return candidates[best];
}

void csv_init(struct csv *csv, struct slice text, struct arena *arena)
{
    if (slice_starts(text, "\xef\xbb\xbf")) /* byte order mark */
        text = slice_of(text.ptr + 3, text.len - 3);
    *csv = (struct csv){
        .text = text, .next_line = 1, .separator = choose_separator(text), .arena = arena
    };
}

/* Moves behind one line end, of one or two characters. */
static void skip_line_end(struct csv *csv)
{
    struct slice text = csv->text;
    bool is_two =
        text.ptr[csv->at] == '\r' && csv->at + 1 < text.len && text.ptr[csv->at + 1] == '\n';

    csv->at += is_two ? 2 : 1;
    csv->next_line++;
}

/* Behind the opening quote. */
static enum errc read_quoted(struct csv *csv, struct slice *out, struct error *err)
{
    struct slice text = csv->text;
    size_t from = csv->at, doubled = 0, n = 0;
    char *plain;

    for (;; csv->at++) {
        if (csv->at >= text.len)
            return fail(err, ERR_INVALID, "a quote in the row of line %zu never ends", csv->line);
        csv->next_line += text.ptr[csv->at] == '\n';
        if (text.ptr[csv->at] != '"')
            continue;
        if (csv->at + 1 >= text.len || text.ptr[csv->at + 1] != '"')
            break;
        doubled++;
        csv->at++;
    }
    *out = slice_of(text.ptr + from, csv->at - from);
    csv->at++;
    if (doubled == 0)
        return OK;
    plain = arena_alloc(csv->arena, out->len);
    for (size_t i = 0; i < out->len; i++) {
        plain[n++] = out->ptr[i];
        i += out->ptr[i] == '"';
    }
    *out = slice_of(plain, n);
    return OK;
}

static bool ends_field(const struct csv *csv)
{
    return csv->at >= csv->text.len || csv->text.ptr[csv->at] == csv->separator ||
           is_line_end(csv->text.ptr[csv->at]);
}

static enum errc read_field(struct csv *csv, struct slice *out, struct error *err)
{
    enum errc rc = OK;
    size_t from = csv->at;

    if (csv->at < csv->text.len && csv->text.ptr[csv->at] == '"') {
        csv->at++;
        TRY(read_quoted(csv, out, err));
        while (!ends_field(csv)) /* what wrongly follows the closing quote */
            csv->at++;
    } else {
        while (!ends_field(csv))
            csv->at++;
        *out = slice_of(csv->text.ptr + from, csv->at - from);
    }
out:
    return rc;
}

enum errc csv_next(struct csv *csv, struct slice *fields, size_t *count, struct error *err)
{
    enum errc rc = OK;

    *count = 0;
    while (csv->at < csv->text.len && is_line_end(csv->text.ptr[csv->at]))
        skip_line_end(csv);
    csv->line = csv->next_line;
    while (csv->at < csv->text.len) {
        if (*count == CSV_FIELDS_MAX)
            return fail(err, ERR_INVALID, "line %zu has more than %d fields", csv->line,
                        CSV_FIELDS_MAX);
        TRY(read_field(csv, &fields[(*count)++], err));
        if (csv->at >= csv->text.len)
            break;
        if (is_line_end(csv->text.ptr[csv->at])) {
            skip_line_end(csv);
            break;
        }
        csv->at++;                      /* the separator */
        if (csv->at == csv->text.len) { /* and an empty last field */
            if (*count < CSV_FIELDS_MAX)
                fields[(*count)++] = slice_of(NULL, 0);
            break;
        }
    }
out:
    return rc;
}

/* One line, white space at its ends left out. */
static void add_flat(struct buf *out, struct slice text)
{
    while (text.len > 0 && (uint8_t)text.ptr[text.len - 1] <= ' ')
        text.len--;
    while (text.len > 0 && (uint8_t)text.ptr[0] <= ' ')
        text = slice_of(text.ptr + 1, text.len - 1);
    for (size_t i = 0; i < text.len; i++)
        buf_add_char(out, (uint8_t)text.ptr[i] < ' ' ? ' ' : text.ptr[i]);
}

static void add_row(struct buf *out, const struct slice *names, size_t name_count,
                    const struct slice *fields, size_t count)
{
    bool is_first = true;

    for (size_t i = 0; i < count; i++) {
        size_t before = out->len;
        buf_add_str(out, is_first ? "- " : "; ");
        if (i < name_count && names[i].len > 0) {
            add_flat(out, names[i]);
            buf_add_str(out, ": ");
        }
        size_t value = out->len;
        add_flat(out, fields[i]);
        if (out->len == value)
            out->len = before; /* an empty field says nothing */
        else
            is_first = false;
    }
    if (!is_first)
        buf_add_char(out, '\n');
}

enum errc csv_to_markdown(struct slice text, struct buf *out, struct error *err)
{
    enum errc rc = OK;
    struct arena *arena = arena_new(0), *row_arena = arena_new(0);
    struct slice *names = arena_alloc(arena, CSV_FIELDS_MAX * sizeof *names);
    struct slice *fields = arena_alloc(arena, CSV_FIELDS_MAX * sizeof *fields);
    size_t name_count, count;
    struct csv csv;

    csv_init(&csv, text, arena);
    TRY(csv_next(&csv, names, &name_count, err));
    csv.arena = row_arena;
    for (;;) {
        struct arena_mark mark = arena_mark(row_arena);
        TRY(csv_next(&csv, fields, &count, err));
        if (count == 0)
            break;
        add_row(out, names, name_count, fields, count);
        arena_rewind(row_arena, mark);
    }
out:
    arena_free(arena);
    arena_free(row_arena);
    return rc;
}
