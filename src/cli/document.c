/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PDF goes through Poppler's pdftotext, HTML and CSV through `themis convert`: this
 * program again, started anew, so that the process that parses knows no password.
 */
#include "cli/document.h"

#include "base/val_text.h"
#include "cli/child.h"
#include "cli/import.h"
#include <strings.h>
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

    if (slice_starts(out->body, "%!PS"))
        return fail(err, ERR_INVALID, "it is PostScript, a program that draws, not text");
    if (memchr(out->body.len ? out->body.ptr : "", 0, out->body.len))
        return fail(err, ERR_INVALID, "it is not text (byte 0)");
    if (!utf8_check(out->body, &at))
        return fail(err, ERR_INVALID, "it is not UTF-8 text (byte %zu); --charset names another",
                    at);
    if (!utf8_check(out->title, NULL))
        return fail(err, ERR_INVALID, "its title is not UTF-8 text");
    if (out->source && is_blank(out->body))
        return fail(err, ERR_INVALID, "there is no text in it%s",
                    strcmp(out->source, "pdf") == 0 ? "; it may be pictures of pages" : "");
    return OK;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n >= m && !strcasecmp(name + n - m, suffix);
}

enum document_kind document_kind(const char *name, struct slice bytes)
{
    static const struct {
        const char *suffix;
        enum document_kind kind;
    } kinds[] = {
        { ".md", DOCUMENT_MARKDOWN }, { ".markdown", DOCUMENT_MARKDOWN },
        { ".html", DOCUMENT_HTML },   { ".htm", DOCUMENT_HTML },
        { ".xhtml", DOCUMENT_HTML },  { ".pdf", DOCUMENT_PDF },
        { ".csv", DOCUMENT_CSV },     { ".tsv", DOCUMENT_CSV },
    };

    if (slice_starts(bytes, "%PDF-"))
        return DOCUMENT_PDF;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (ends_with(name, kinds[i].suffix))
            return kinds[i].kind;
    return DOCUMENT_TEXT;
}

bool document_is_plain(enum document_kind kind)
{
    return kind == DOCUMENT_TEXT || kind == DOCUMENT_MARKDOWN || kind == DOCUMENT_CSV;
}

enum errc document_read(const struct source *s, enum document_kind kind, struct document *out,
                        struct error *err)
{
    enum errc rc = OK;
    int file = s->file;

    *out = (struct document){ .format = "markdown", .body = buf_slice(&s->bytes) };
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
