/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: exact offsets, full coverage, sizes, characters kept whole. */
#include "base/buf.h"
#include "base/val_text.h"
#include "retrieve/chunk.h"
#include "retrieve/sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0';
}

/* A token is a word of up to eight bytes; every text costs two more, as with BERT. */
static enum errc count_words(void *ctx, struct slice text, size_t *tokens, struct error *err)
{
    size_t n = 2, run = 0;

    (void)ctx;
    (void)err;
    for (size_t i = 0; i < text.len; i++) {
        bool is_word = !is_white(text.ptr[i]);
        run = is_word ? run + 1 : 0;
        n += run % 8 == 1;
    }
    *tokens = n;
    return OK;
}

static struct chunk_options options(bool is_markdown)
{
    return (struct chunk_options){ .is_markdown = is_markdown,
                                   .window_tokens = 256,
                                   .counter = { .count = count_words } };
}

static bool inside_character(struct slice text, size_t at)
{
    return at < text.len && ((unsigned char)text.ptr[at] & 0xC0) == 0x80;
}

/* What holds for every text. */
static struct chunk_list split_checked(struct slice text, const struct chunk_options *opt,
                                       struct arena *arena)
{
    struct chunk_list list;
    struct error err;
    size_t covered = text.len > 2 && slice_starts(text, "\xef\xbb\xbf") ? 3 : 0, tokens;

    assert_int_equal(chunk_split(&list, text, opt, arena, &err), OK);
    for (size_t i = 0; i < list.count; i++) {
        const struct chunk *c = &list.items[i];
        assert_true(c->from < c->to && c->to <= text.len);
        assert_false(inside_character(text, c->from));
        assert_false(inside_character(text, c->to));
        assert_false(is_white(text.ptr[c->from]));
        assert_false(is_white(text.ptr[c->to - 1]));
        for (size_t j = covered; j < c->from; j++)
            assert_true(is_white(text.ptr[j]));
        if (i > 0) {
            assert_true(c->from > list.items[i - 1].from);
            assert_true(c->to > list.items[i - 1].to);
        }
        covered = c->to;
        assert_int_equal(
            count_words(NULL, slice_of(text.ptr + c->from, c->to - c->from), &tokens, NULL), OK);
        assert_true(tokens <= c->tokens + 2);
        assert_true(c->tokens <= opt->window_tokens);
    }
    for (size_t j = covered; j < text.len; j++)
        assert_true(is_white(text.ptr[j]));
    return list;
}

static void text_without_words_gives_no_chunks(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(true);

    (void)state;
    assert_int_equal(split_checked(slice_of(NULL, 0), &opt, arena).count, 0);
    assert_int_equal(split_checked(slice_str(" \r\n\f\n\t"), &opt, arena).count, 0);
    arena_free(arena);
}

static void sections_get_the_headings_above_them(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(true);
    struct buf text;
    struct chunk_list list;

    (void)state;
    buf_init(&text, 0);
    buf_add_str(&text, "# Manual\n\nIntro.\n\n## Care\n\n### Water\n\n");
    for (int i = 0; i < 60; i++)
        buf_printf(&text, "Sentence number %d about water. ", i);
    buf_add_str(&text, "\n\n### Light\n\nShort.\n\n## Sale\n\nNo refunds.\n");
    opt.title = slice_str("Manual");
    list = split_checked(buf_slice(&text), &opt, arena);
    assert_int_equal(list.count, 4);
    assert_true(slice_is(list.items[0].heading, "Manual"));
    assert_true(slice_is(list.items[1].heading, "Manual > Care > Water"));
    assert_true(slice_is(list.items[2].heading, "Manual > Care"));
    assert_true(slice_starts(slice_of(text.ptr + list.items[2].from, 99), "### Light"));
    assert_true(slice_starts(slice_of(text.ptr + list.items[3].from, 7), "## Sale"));
    buf_release(&text);
    arena_free(arena);
}

static void neighbours_in_a_paragraph_overlap(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(false);
    struct buf text;
    struct chunk_list list;

    (void)state;
    buf_init(&text, 0);
    for (int i = 0; i < 200; i++)
        buf_printf(&text, "This is sentence %d of one long paragraph.\n", i);
    list = split_checked(buf_slice(&text), &opt, arena);
    assert_in_range(list.count, 9, 14);
    for (size_t i = 1; i < list.count; i++) {
        assert_true(list.items[i].from < list.items[i - 1].to);
        assert_true(slice_starts(slice_of(text.ptr + list.items[i].from, 8), "This is "));
        assert_true(list.items[i].tokens <= 184);
    }
    buf_release(&text);
    arena_free(arena);
}

static void paragraphs_are_kept_whole_when_they_fit(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(false);
    struct buf text;
    struct chunk_list list;

    (void)state;
    buf_init(&text, 0);
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < 10; i++)
            buf_printf(&text, "Paragraph %d says thing %d here. ", p, i);
        buf_add_str(&text, "\r\n\r\n");
    }
    list = split_checked(buf_slice(&text), &opt, arena);
    for (size_t i = 0; i < list.count; i++)
        assert_true(slice_starts(slice_of(text.ptr + list.items[i].from, 99), "Paragraph "));
    for (size_t i = 1; i < list.count; i++)
        assert_true(list.items[i].from >= list.items[i - 1].to);
    buf_release(&text);
    arena_free(arena);
}

static void one_line_of_a_megabyte_is_cut(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(false);
    struct buf text;

    (void)state;
    buf_init(&text, 0);
    for (int i = 0; i < 400000; i++) /* no white space, three bytes a character */
        buf_add_str(&text, "\xe4\xb8\xad");
    assert_true(split_checked(buf_slice(&text), &opt, arena).count > 500);
    buf_clear(&text);
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, "word ");
    assert_true(split_checked(buf_slice(&text), &opt, arena).count > 500);
    buf_release(&text);
    arena_free(arena);
}

static void a_document_over_the_limit_is_refused(void **state)
{
    struct arena *arena = arena_new(0);
    struct chunk_options opt = options(false);
    struct chunk_list list;
    struct error err;

    (void)state;
    assert_int_equal(chunk_split(&list, slice_of("x", CHUNK_DOC_BYTES_MAX + 1), &opt, arena, &err),
                     ERR_TOO_LARGE);
    arena_free(arena);
}

static void code_keeps_its_lines(void **state)
{
    static const char text[] =
        "# T\n\nBefore.\n\n```sh\n# not a heading\nmake\n\n- x\n```\n\n# U\n\nAfter.\n";
    struct block_scan scan;
    struct block b;
    int code = 0, headings = 0;

    (void)state;
    block_scan_init(&scan, slice_str(text), true);
    while (block_next(&scan, &b)) {
        code += b.kind == BLOCK_CODE;
        headings += b.kind == BLOCK_HEADING;
    }
    assert_int_equal(code, 5);
    assert_int_equal(headings, 2);
}

static void plain_text_headings_are_found(void **state)
{
    static const char text[] =
        "GUIDE TO THINGS\nThe office\n\n1. SUBJECT\n\nText here. More\ntext.\n\n"
        "2.3 Some part\n\n- one\n  goes on\n- two\n\nNOTES\n=====\nx\n";
    static const char *const titles[] = { "GUIDE TO THINGS", "1. SUBJECT", "2.3 Some part",
                                          "NOTES" };
    static const unsigned levels[] = { 1, 2, 3, 1 };
    struct block_scan scan;
    struct block b;
    size_t n = 0, items = 0;

    (void)state;
    block_scan_init(&scan, slice_str(text), false);
    while (block_next(&scan, &b)) {
        items += b.kind == BLOCK_ITEM;
        if (b.kind != BLOCK_HEADING)
            continue;
        assert_true(n < 4);
        assert_true(slice_is(slice_of(text + b.title.from, b.title.to - b.title.from), titles[n]));
        assert_int_equal(b.level, levels[n]);
        n++;
    }
    assert_int_equal(n, 4);
    assert_int_equal(items, 2);
    assert_true(slice_is(chunk_title(slice_str(text), false), "GUIDE TO THINGS"));
    assert_true(slice_is(chunk_title(slice_str("\n# A b #\n"), true), "A b"));
    assert_int_equal(chunk_title(slice_str("just text"), true).len, 0);
}

static void random_texts_keep_the_promises(void **state)
{
    static const char *const bits[] = {
        "a",
        " ",
        "\n",
        "\r\n",
        "\f",
        ". ",
        "\n\n",
        "# ",
        "## H\n",
        "- ",
        "1. ",
        "```\n",
        "| x | y\n",
        "word ",
        "\xc3\xa4",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "===\n",
        "    ",
        "Dr. ",
        "3.5 ",
        "A long sentence of several words, and more. ",
        "SOME TITLE\n\n",
        "\t",
        "---\n",
        "\xef\xbb\xbf",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    };
    struct buf text;

    (void)state;
    buf_init(&text, 0);
    srand(7);
    for (int round = 0; round < 400; round++) {
        struct arena *arena = arena_new(0);
        struct chunk_options opt = options(round % 2);
        int pieces = rand() % 1500;
        opt.window_tokens = round % 3 ? 256 : 40;
        opt.title = slice_str(round % 5 ? "Title" : "");
        buf_clear(&text);
        for (int i = 0; i < pieces; i++)
            buf_add_str(&text, bits[(size_t)rand() % ARRAY_LEN(bits)]);
        split_checked(buf_slice(&text), &opt, arena);
        arena_free(arena);
    }
    buf_release(&text);
}

static void assert_sentences(const char *text, const char *const *expected)
{
    struct span s;
    size_t at = 0;

    while (sentence_next(slice_str(text), &at, &s)) {
        assert_non_null(*expected);
        assert_true(slice_is(slice_of(text + s.from, s.to - s.from), *expected));
        expected++;
    }
    assert_null(*expected);
}

static void sentences_end_where_they_should(void **state)
{
    (void)state;
    assert_sentences(
        "Dr. Smith paid 3.5 crowns. He left!  \"Why?\" she asked. See no. 5, e.g. J. Doe.",
        (const char *const[]){ "Dr. Smith paid 3.5 crowns.", "He left!", "\"Why?\" she asked.",
                               "See no. 5, e.g. J. Doe.", NULL });
    assert_sentences("1. First thing. Second\nline of it.\n- an item\n- another\n\nEnd",
                     (const char *const[]){ "1. First thing.", "Second\nline of it.", "- an item",
                                            "- another", "End", NULL });
    assert_sentences("The answer is no. It ends in section 6. If so, stop.",
                     (const char *const[]){ "The answer is no.", "It ends in section 6.",
                                            "If so, stop.", NULL });
    assert_sentences(
        "\xe4\xb8\xad\xe3\x80\x82\xe6\x96\x87\xe3\x80\x82",
        (const char *const[]){ "\xe4\xb8\xad\xe3\x80\x82", "\xe6\x96\x87\xe3\x80\x82", NULL });
    assert_sentences("  \n ", (const char *const[]){ NULL });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_words_gives_no_chunks),
        cmocka_unit_test(sections_get_the_headings_above_them),
        cmocka_unit_test(neighbours_in_a_paragraph_overlap),
        cmocka_unit_test(paragraphs_are_kept_whole_when_they_fit),
        cmocka_unit_test(one_line_of_a_megabyte_is_cut),
        cmocka_unit_test(a_document_over_the_limit_is_refused),
        cmocka_unit_test(code_keeps_its_lines),
        cmocka_unit_test(plain_text_headings_are_found),
        cmocka_unit_test(random_texts_keep_the_promises),
        cmocka_unit_test(sentences_end_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
