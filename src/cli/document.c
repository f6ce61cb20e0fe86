/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PDF goes through Poppler's pdftotext, HTML and CSV through `themis convert`: this
 * program again, started anew, so that the process that parses knows no password.
 */
#include "cli/document.h"

#include "base/val_text.h"
#include "cli/child.h"
#include "cli/import.h"
#include <unistd.h>

static const struct child_limits limits = {
    .cpu_s = 30, .wall_s = 60, .memory_bytes = (size_t)1024 * MIB, .output_bytes = IMPORT_FILE_MAX
};

static const char *const pdf_to_text[] = { "pdftotext", "-q", "-enc", "UTF-8", "-", "-", NULL };
static const char *const html_to_text[] = { "/proc/self/exe", "convert", "html", NULL };
static const char *const csv_to_text[] = { "/proc/self/exe", "convert", "csv", NULL };

/* out->body is what the program makes of the file. */
static enum errc convert(int file, const char *const *argv, const char *source,
                         struct document *out, struct error *err)
{
    enum errc rc = OK;

    if (lseek(file, 0, SEEK_SET) != 0)
        return fail(err, ERR_IO, "it cannot be read twice");
    out->source = source;
    TRY(child_run(argv, file, &limits, &out->text, err));
    out->body = buf_slice(&out->text);
out:
    return rc;
}

/* The first line of what was made of a page is its title. */
static void split_title(struct document *out)
{
    const char *end = memchr(out->body.len ? out->body.ptr : "", '\n', out->body.len);

    if (!end)
        return;
    out->title = slice_of(out->body.ptr, (size_t)(end - out->body.ptr));
    out->body = slice_of(end + 1, out->body.len - out->title.len - 1);
}

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((uint8_t)text.ptr[i] > ' ')
            return false;
    return true;
}

/* What reaches the server is text, whoever made it. */
static enum errc check_text(const struct document *out, struct error *err)
{
    size_t at;

    if (!utf8_check(out->body, &at))
        return fail(err, ERR_INVALID, "it is not UTF-8 text (byte %zu)", at);
    if (!utf8_check(out->title, NULL))
        return fail(err, ERR_INVALID, "its title is not UTF-8 text");
    if (memchr(out->body.len ? out->body.ptr : "", 0, out->body.len))
        return fail(err, ERR_INVALID, "it is not text");
    if (out->source && is_blank(out->body))
        return fail(err, ERR_INVALID, "there is no text in it%s",
                    strcmp(out->source, "pdf") == 0 ? "; it may be pictures of pages" : "");
    return OK;
}

enum errc document_read(int file, enum document_kind kind, struct slice bytes, struct document *out,
                        struct error *err)
{
    enum errc rc = OK;

    if (slice_starts(bytes, "%PDF-"))
        kind = DOCUMENT_PDF;
    *out = (struct document){ .format = "markdown", .body = bytes };
    buf_init(&out->text, 0);
    switch (kind) {
    case DOCUMENT_TEXT:
        out->format = "text";
        break;
    case DOCUMENT_MARKDOWN:
        break;
    case DOCUMENT_PDF:
        out->format = "text";
        TRY(convert(file, pdf_to_text, "pdf", out, err));
        break;
    case DOCUMENT_HTML:
        TRY(convert(file, html_to_text, "html", out, err));
        split_title(out);
        break;
    case DOCUMENT_CSV:
        TRY(convert(file, csv_to_text, "csv", out, err));
        break;
    }
    TRY(check_text(out, err));
out:
    return rc;
}
