/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of `themis import`, in batches to POST /v1/import. */
#include "cli/import.h"
#include <stdio.h>

static void count(struct import *im, struct val answer)
{
    im->documents += val_int(val_get(answer, slice_str("documents")));
    im->unchanged += val_int(val_get(answer, slice_str("unchanged")));
    im->chunks += val_int(val_get(answer, slice_str("chunks")));
    im->truncated += val_int(val_get(answer, slice_str("truncated")));
    im->embed_ms +=
        val_double(val_get(val_get(answer, slice_str("timings")), slice_str("embed_ms")));
}

/* The status that answers documents [from, to); 0 when there was no answer. */
static int post(struct import *im, size_t from, size_t to, const char **why)
{
    static const char *const names[] = { "documents", "model" };
    struct cli *c = im->c;
    struct val docs[IMPORT_BATCH_DOCS], answer;
    int status;

    for (size_t i = from; i < to; i++)
        docs[i - from] = im->docs[i].body;
    struct val values[] = { val_new_array(c->arena, docs, to - from),
                            im->model ? cli_text(c, im->model) : VAL_NONE };
    status = cli_try(c, "POST", "/v1/import", cli_object(c, names, values, ARRAY_LEN(names)),
                     &answer, why);
    if (status > 0 && status < 400)
        count(im, answer);
    return status;
}

/* Answers that are about a document and not about the server. */
static bool is_refusal(int status)
{
    return status == 400 || status == 413 || status == 422;
}

/* A refused batch is sent again one by one, so that only the document is left out that is bad. */
static bool post_one_by_one(struct import *im)
{
    const char *why;

    for (size_t i = 0; i < im->doc_count; i++) {
        int status = post(im, i, i + 1, &why);
        if (is_refusal(status)) {
            import_skip(im, im->docs[i].path, "%s", why);
        } else if (status == 0 || status >= 400) {
            cli_fail("%s", why);
            return false;
        }
    }
    return true;
}

bool import_send_documents(struct import *im)
{
    const char *why;
    int status;
    bool is_ok = true;

    if (!im->doc_count)
        return true;
    status = post(im, 0, im->doc_count, &why);
    if (is_refusal(status)) {
        is_ok = post_one_by_one(im);
    } else if (status == 0 || status >= 400) {
        cli_fail("%s", why);
        is_ok = false;
    }
    im->doc_count = im->doc_bytes = 0;
    arena_rewind(im->c->arena, im->mark);
    import_show(im);
    return is_ok;
}

/* Where the text comes from, when it is not the bytes of the file: offsets count what was made. */
static struct val attributes(struct cli *c, const char *format, const char *charset)
{
    static const char *const names[] = { "source_format", "source_charset" };
    const struct val values[] = { format ? cli_text(c, format) : VAL_NONE,
                                  charset ? cli_text(c, charset) : VAL_NONE };

    return format || charset ? cli_object(c, names, values, ARRAY_LEN(names)) : VAL_NONE;
}

bool import_add_document(struct import *im, const char *path, const struct document *doc,
                         const char *charset, const struct import_digest *digest)
{
    static const char *const names[] = { "path",   "title",      "text",
                                         "format", "attributes", "source_digest" };
    struct cli *c = im->c;

    if (!im->doc_count)
        im->mark = arena_mark(c->arena);
    struct val values[] = { cli_text(c, path),
                            doc->title.len ? val_new_string(c->arena, doc->title) : VAL_NONE,
                            val_new_string(c->arena, doc->body),
                            cli_text(c, doc->format),
                            attributes(c, doc->source, charset),
                            digest ? cli_text(c, digest->hex) : VAL_NONE };
    im->docs[im->doc_count++] =
        (struct import_doc){ path, cli_object(c, names, values, ARRAY_LEN(names)) };
    im->doc_bytes += doc->body.len;
    return im->doc_count < IMPORT_BATCH_DOCS && im->doc_bytes < IMPORT_BATCH_BYTES
               ? true
               : import_send_documents(im);
}
