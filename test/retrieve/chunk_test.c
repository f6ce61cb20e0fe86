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

/* Of each test. */
static struct arena *arena;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(0);
    buf_init(&text, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&text);
    arena_free(arena);
    return 0;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0';
}

/* A token is a word of up to eight bytes; every text costs two more, as with BERT. */
static enum errc count_words(void *ctx, struct slice of, size_t *tokens, struct error *err)
{
    size_t n = 2, run = 0;

    (void)ctx;
    (void)err;
    for (size_t i = 0; i < of.len; i++) {
        bool is_word = !is_white(of.ptr[i]);
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

static bool inside_character(struct slice of, size_t at)
{
    return at < of.len && ((unsigned char)of.ptr[at] & 0xC0) == 0x80;
}

/* What holds for every text. */
static struct chunk_list split_checked(struct slice of, const struct chunk_options *opt)
{
    struct chunk_list list;
    struct error err;
    size_t covered = of.len > 2 && slice_starts(of, "\xef\xbb\xbf") ? 3 : 0, tokens;

    assert_int_equal(chunk_split(&list, of, opt, arena, &err), OK);
    for (size_t i = 0; i < list.count; i++) {
        const struct chunk *c = &list.items[i];
        assert_true(c->from < c->to && c->to <= of.len);
        assert_false(inside_character(of, c->from));
        assert_false(inside_character(of, c->to));
        assert_false(is_white(of.ptr[c->from]));
        assert_false(is_white(of.ptr[c->to - 1]));
        for (size_t j = covered; j < c->from; j++)
            assert_true(is_white(of.ptr[j]));
        if (i > 0) {
            assert_true(c->from > list.items[i - 1].from);
            assert_true(c->to > list.items[i - 1].to);
        }
        covered = c->to;
        assert_int_equal(
            count_words(NULL, slice_of(of.ptr + c->from, c->to - c->from), &tokens, NULL), OK);
        assert_true(tokens <= c->tokens + 2);
        assert_true(c->tokens <= opt->window_tokens);
    }
    for (size_t j = covered; j < of.len; j++)
        assert_true(is_white(of.ptr[j]));
    return list;
}

static void text_without_words_gives_no_chunks(void **state)
{
    struct chunk_options opt = options(true);

    (void)state;
    assert_int_equal(split_checked(slice_of(NULL, 0), &opt).count, 0);
    assert_int_equal(split_checked(slice_str(" \r\n\f\n\t"), &opt).count, 0);
}

static void sections_get_the_headings_above_them(void **state)
{
    struct chunk_options opt = options(true);
    struct chunk_list list;

    (void)state;
    buf_add_str(&text, "# Manual\n\nIntro.\n\n## Care\n\n### Water\n\n");
    for (int i = 0; i < 60; i++)
        buf_printf(&text, "Sentence number %d about water. ", i);
    buf_add_str(&text, "\n\n### Light\n\nShort.\n\n## Sale\n\nNo refunds.\n");
    opt.title = slice_str("Manual");
    list = split_checked(buf_slice(&text), &opt);
    assert_int_equal(list.count, 4);
    assert_true(slice_is(list.items[0].heading, "Manual"));
    assert_true(slice_is(list.items[1].heading, "Manual > Care > Water"));
    assert_true(slice_is(list.items[2].heading, "Manual > Care"));
    assert_true(slice_starts(slice_of(text.ptr + list.items[2].from, 99), "### Light"));
    assert_true(slice_starts(slice_of(text.ptr + list.items[3].from, 7), "## Sale"));
}

static void neighbours_in_a_paragraph_overlap(void **state)
{
    struct chunk_options opt = options(false);
    struct chunk_list list;

    (void)state;
    for (int i = 0; i < 200; i++)
        buf_printf(&text, "This is sentence %d of one long paragraph.\n", i);
    list = split_checked(buf_slice(&text), &opt);
    assert_in_range(list.count, 9, 14);
    for (size_t i = 1; i < list.count; i++) {
        assert_true(list.items[i].from < list.items[i - 1].to);
        assert_true(slice_starts(slice_of(text.ptr + list.items[i].from, 8), "This is "));
        assert_true(list.items[i].tokens <= 184);
    }
}

static void paragraphs_are_kept_whole_when_they_fit(void **state)
{
    struct chunk_options opt = options(false);
    struct chunk_list list;

    (void)state;
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < 10; i++)
            buf_printf(&text, "Paragraph %d says thing %d here. ", p, i);
        buf_add_str(&text, "\r\n\r\n");
    }
    list = split_checked(buf_slice(&text), &opt);
    for (size_t i = 0; i < list.count; i++)
        assert_true(slice_starts(slice_of(text.ptr + list.items[i].from, 99), "Paragraph "));
    for (size_t i = 1; i < list.count; i++)
        assert_true(list.items[i].from >= list.items[i - 1].to);
}

static void one_line_of_a_megabyte_is_cut(void **state)
{
    struct chunk_options opt = options(false);

    (void)state;
    for (int i = 0; i < 400000; i++) /* no white space, three bytes a character */
        buf_add_str(&text, "\xe4\xb8\xad");
    assert_true(split_checked(buf_slice(&text), &opt).count > 500);
    buf_clear(&text);
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, "word ");
    assert_true(split_checked(buf_slice(&text), &opt).count > 500);
}

static void a_document_over_the_limit_is_refused(void **state)
{
    struct chunk_options opt = options(false);
    struct chunk_list list;
    struct error err;

    (void)state;
    assert_int_equal(chunk_split(&list, slice_of("x", CHUNK_DOC_BYTES_MAX + 1), &opt, arena, &err),
                     ERR_TOO_LARGE);
}

static void code_keeps_its_lines(void **state)
{
    static const char page[] =
        "# T\n\nBefore.\n\n```sh\n# not a heading\nmake\n\n- x\n```\n\n# U\n\nAfter.\n";
    struct block_scan scan;
    struct block b;
    int code = 0, headings = 0;

    (void)state;
    block_scan_init(&scan, slice_str(page), true);
    while (block_next(&scan, &b)) {
        code += b.kind == BLOCK_CODE;
        headings += b.kind == BLOCK_HEADING;
    }
    assert_int_equal(code, 5);
    assert_int_equal(headings, 2);
}

static void plain_text_headings_are_found(void **state)
{
    static const char page[] =
        "GUIDE TO THINGS\nThe office\n\n1. SUBJECT\n\nText here. More\ntext.\n\n"
        "2.3 Some part\n\n- one\n  goes on\n- two\n\nNOTES\n=====\nx\n";
    static const char *const titles[] = { "GUIDE TO THINGS", "1. SUBJECT", "2.3 Some part",
                                          "NOTES" };
    static const unsigned levels[] = { 1, 2, 3, 1 };
    struct block_scan scan;
    struct block b;
    size_t n = 0, items = 0;

    (void)state;
    block_scan_init(&scan, slice_str(page), false);
    while (block_next(&scan, &b)) {
        items += b.kind == BLOCK_ITEM;
        if (b.kind != BLOCK_HEADING)
            continue;
        assert_true(n < 4);
        assert_true(slice_is(slice_of(page + b.title.from, b.title.to - b.title.from), titles[n]));
        assert_int_equal(b.level, levels[n]);
        n++;
    }
    assert_int_equal(n, 4);
    assert_int_equal(items, 2);
    assert_true(slice_is(chunk_title(slice_str(page), false), "GUIDE TO THINGS"));
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
    (void)state;
    srand(7);
    for (int round = 0; round < 400; round++) {
        struct arena_mark mark = arena_mark(arena);
        struct chunk_options opt = options(round % 2);
        int pieces = rand() % 1500;
        opt.window_tokens = round % 3 ? 256 : 40;
        opt.title = slice_str(round % 5 ? "Title" : "");
        buf_clear(&text);
        for (int i = 0; i < pieces; i++)
            buf_add_str(&text, bits[(size_t)rand() % ARRAY_LEN(bits)]);
        split_checked(buf_slice(&text), &opt);
        arena_rewind(arena, mark);
    }
}

static void assert_sentences(const char *of, const char *const *expected)
{
    struct span s;
    size_t at = 0;

    while (sentence_next(slice_str(of), &at, &s)) {
        assert_non_null(*expected);
        assert_true(slice_is(slice_of(of + s.from, s.to - s.from), *expected));
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

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_without_words_gives_no_chunks),
        TEST(sections_get_the_headings_above_them),
        TEST(neighbours_in_a_paragraph_overlap),
        TEST(paragraphs_are_kept_whole_when_they_fit),
        TEST(one_line_of_a_megabyte_is_cut),
        TEST(a_document_over_the_limit_is_refused),
        TEST(code_keeps_its_lines),
        TEST(plain_text_headings_are_found),
        TEST(random_texts_keep_the_promises),
        TEST(sentences_end_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
