/* SPDX-License-Identifier: Apache-2.0 */
/* themis ask: an answer from the documents, streamed, with its sources. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>

enum { NEAREST_MAX = 3 }; /* of an answer without citations */

struct asked {
    struct cli *c;
    bool has_text;
    struct val done;
};

static bool on_event(void *ctx, struct val e)
{
    struct asked *a = ctx;
    struct slice type = val_string(val_get(e, slice_str("type")));

    if (slice_is(type, "done")) {
        a->done = e;
    } else if (slice_is(type, "text") && !a->c->is_json) {
        struct slice text = val_string(val_get(e, slice_str("text")));
        fwrite(text.ptr, 1, text.len, stdout);
        fflush(stdout);
        a->has_text = true;
    }
    return true;
}

static void print_quote(struct val citation)
{
    struct slice quote = val_string(val_get(citation, slice_str("quote")));
    enum { QUOTE_MAX = 160 };

    fputs("      \"", stdout);
    for (size_t i = 0; i < quote.len; i++) {
        if (i >= QUOTE_MAX && ((uint8_t)quote.ptr[i] & 0xC0) != 0x80) {
            fputs("...", stdout);
            break;
        }
        putchar((uint8_t)quote.ptr[i] < 0x20 ? ' ' : quote.ptr[i]);
    }
    fputs("\"\n", stdout);
}

static void print_source(struct val s)
{
    printf("  [%lld] %.*s (%.*s)\n", (long long)val_int(val_get(s, slice_str("number"))),
           SLICE_ARG(val_string(val_get(s, slice_str("title")))),
           SLICE_ARG(val_string(val_get(s, slice_str("path")))));
}

/* What the answer was made from. */
static void print_nearest(struct val done)
{
    struct val sources = val_get(done, slice_str("sources"));

    for (size_t i = 0; i < val_count(sources) && i < NEAREST_MAX; i++)
        print_source(val_at(sources, i));
}

/* Cited sources with the passages that support the answer. */
static void print_sources(struct val done)
{
    struct val sources = val_get(done, slice_str("sources"));
    struct val citations = val_get(done, slice_str("citations"));

    for (size_t i = 0; i < val_count(sources); i++) {
        struct val s = val_at(sources, i);
        int64_t number = val_int(val_get(s, slice_str("number")));
        bool is_shown = false;
        for (size_t k = 0; k < val_count(citations); k++) {
            struct val citation = val_at(citations, k);
            if (val_int(val_get(citation, slice_str("source"))) != number)
                continue;
            if (!is_shown)
                printf("  [%lld] %.*s (%.*s, bytes %lld-%lld)\n", (long long)number,
                       SLICE_ARG(val_string(val_get(s, slice_str("title")))),
                       SLICE_ARG(val_string(val_get(s, slice_str("path")))),
                       (long long)val_int(val_get(citation, slice_str("from"))),
                       (long long)val_int(val_get(citation, slice_str("to"))));
            is_shown = true;
            print_quote(citation);
        }
    }
}

static void print_done(struct asked *a)
{
    struct val citations = val_get(a->done, slice_str("citations"));
    bool is_answered = val_bool(val_get(a->done, slice_str("answered")));

    if (!is_answered) {
        printf("%sThe documents do not answer this.\n", a->has_text ? "\n\n" : "");
        return;
    }
    if (!a->has_text)
        printf("%.*s", SLICE_ARG(val_string(val_get(a->done, slice_str("answer")))));
    if (val_count(citations)) {
        printf("\n\nSources:\n");
        print_sources(a->done);
    } else {
        printf("\n\nNo passage supports this word for word. It was made from:\n");
        print_nearest(a->done);
    }
}

static int run(struct cli *c, int argc, char **argv)
{
    static const char *const names[] = { "question", "top_k", "model", "collection", "stream" };
    struct val top_k = cli_number_option(c, &argc, argv, "--top-k");
    const char *model = cli_option(&argc, argv, "--model");
    const char *collection = cli_option(&argc, argv, "--collection");
    struct asked a = { .c = c };

    cli_no_options(argc, argv);
    if (argc != 1)
        return cli_misuse_of(&command_ask);
    struct val values[] = { cli_text(c, argv[0]), top_k, model ? cli_text(c, model) : VAL_NONE,
                            collection ? cli_text(c, collection) : VAL_NONE, val_true };
    if (!cli_events(c, "/v1/ask", cli_object(c, names, values, ARRAY_LEN(names)), on_event, &a))
        return EXIT_FAILED;
    if (!a.done.at)
        return cli_fail("the answer ended early");
    if (c->is_json)
        cli_print_val(a.done, true);
    else
        print_done(&a);
    return EXIT_DONE;
}

static const struct command_option options[] = {
    { "--top-k", "N", "How many passages are looked at." },
    { "--model", "MODEL", "Which of the loaded models; the first of its kind unless given." },
    { "--collection", "NAME", "Collection of passages; chunks unless given." },
    { NULL, NULL, NULL },
};

const struct command command_ask = {
    .name = "ask",
    .arguments = "'QUESTION'",
    .help = "Answers a question from the imported documents, with citations.",
    .run = run,
    .options = options,
    .about = "The answer is streamed, then the passages that support it. When the documents do not "
             "say, the "
             "answer says that.",
};
