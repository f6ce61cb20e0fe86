/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as a table: columns are the members of the first rows, cut to fit. */
#include "base/val_text.h"
#include "cli/cli.h"
#include <stdio.h>

enum { COLUMNS_MAX = 24, WIDTH_MAX = 40, ROWS_MEASURED = 200 };

struct column {
    struct slice name;
    size_t width; /* characters */
};

static void cell_text(struct val v, struct buf *out)
{
    buf_clear(out);
    if (val_type(v) == VAL_STRING)
        buf_add_slice(out, val_string(v));
    else if (!val_is_null(v))
        val_print(v, out);
    for (size_t i = 0; i < out->len; i++)
        if ((uint8_t)out->ptr[i] < 0x20)
            out->ptr[i] = ' ';
}

static size_t add_columns(struct val row, struct column *columns, size_t count)
{
    for (size_t i = 0; i < val_count(row); i++) {
        struct slice name = val_name_at(row, i);
        size_t k = 0;
        while (k < count && !slice_eq(columns[k].name, name))
            k++;
        if (k == count && count < COLUMNS_MAX)
            columns[count++] = (struct column){ name, utf8_count(name) };
    }
    return count;
}

/* Text cut to the width, or padded: both count characters. */
static void print_cell(struct slice text, size_t width, bool is_last)
{
    size_t shown = 0, bytes = 0, all = utf8_count(text);
    bool is_cut = all > width;

    while (bytes < text.len && shown < width - (is_cut ? 1 : 0)) {
        bytes++;
        while (bytes < text.len && ((uint8_t)text.ptr[bytes] & 0xC0) == 0x80)
            bytes++;
        shown++;
    }
    fwrite(text.ptr, 1, bytes, stdout);
    if (is_cut)
        fputs("\xE2\x80\xA6", stdout), shown++;
    if (!is_last)
        printf("%*s  ", (int)(width - shown), "");
}

static void print_table(struct val rows, struct column *columns, size_t count)
{
    struct buf text;

    buf_init(&text, 0);
    for (size_t i = 0; i < val_count(rows) && i < ROWS_MEASURED; i++) {
        for (size_t k = 0; k < count; k++) {
            cell_text(val_get(val_at(rows, i), columns[k].name), &text);
            size_t n = utf8_count(buf_slice(&text));
            n = n > WIDTH_MAX ? WIDTH_MAX : n;
            columns[k].width = n > columns[k].width ? n : columns[k].width;
        }
    }
    for (size_t k = 0; k < count; k++)
        print_cell(columns[k].name, columns[k].width, k + 1 == count);
    putchar('\n');
    for (size_t k = 0; k < count; k++) {
        for (size_t n = 0; n < columns[k].width; n++)
            putchar('-');
        fputs(k + 1 == count ? "\n" : "  ", stdout);
    }
    for (size_t i = 0; i < val_count(rows); i++) {
        for (size_t k = 0; k < count; k++) {
            cell_text(val_get(val_at(rows, i), columns[k].name), &text);
            print_cell(buf_slice(&text), columns[k].width, k + 1 == count);
        }
        putchar('\n');
    }
    buf_release(&text);
}

void cli_print_rows(struct cli *c, struct val rows)
{
    struct column columns[COLUMNS_MAX];
    size_t count = 0;
    bool all_objects = val_count(rows) > 0;

    for (size_t i = 0; i < val_count(rows); i++)
        all_objects &= val_type(val_at(rows, i)) == VAL_OBJECT;
    if (c->is_json || !all_objects) {
        for (size_t i = 0; i < val_count(rows); i++)
            cli_print_val(val_at(rows, i), false);
        return;
    }
    for (size_t i = 0; i < val_count(rows) && i < ROWS_MEASURED; i++)
        count = add_columns(val_at(rows, i), columns, count);
    print_table(rows, columns, count);
}
