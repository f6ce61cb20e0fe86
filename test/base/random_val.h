/* SPDX-License-Identifier: Apache-2.0 */
/* random_val -- values for tests of laws; a test prints the seed it starts from. */
#ifndef TEST_RANDOM_VAL_H
#define TEST_RANDOM_VAL_H

#include "../check.h"
#include "base/env.h"
#include "base/val.h"
#include "base/val_text.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t rnd_state;

/* THEMIS_SEED repeats a run. */
static inline void rnd_start(void)
{
    const char *given = getenv("THEMIS_SEED");

    rnd_state = given ? strtoull(given, NULL, 10) : env_random_u64(env_system());
    print_message("seed %llu\n", (unsigned long long)rnd_state);
}

static inline uint64_t rnd_bits(void)
{
    uint64_t z = rnd_state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint32_t rnd(uint32_t below)
{
    return (uint32_t)(rnd_bits() >> 33) % below;
}

/* Whole and near the borders of int64 and of exact doubles as often as anywhere. */
static inline double random_double(void)
{
    static const double odd[] = { 0.5,
                                  -0.5,
                                  0x1p53,
                                  0x1p53 + 2,
                                  0x1p62,
                                  0x1p63,
                                  -0x1p63,
                                  0x1p64,
                                  1e300,
                                  -1e300,
                                  5e-324,
                                  1.0 / 3,
                                  -0.0,
                                  3,
                                  -7,
                                  255.5,
                                  1e21,
                                  1.7976931348623157e308,
                                  9223372036854774784.0,
                                  9007199254740991.5 };
    double d;
    uint64_t bits = rnd_bits();

    switch (rnd(5)) {
    case 0:
        return odd[rnd(ARRAY_LEN(odd))];
    case 1:
        return ((double)rnd(2000) - 1000) / 8;
    case 2:
        return (double)(int64_t)(bits >> rnd(64));
    case 3:
        return 0x1p53 + (double)rnd(8) * 2 - 8;
    default:
        memcpy(&d, &bits, sizeof d);
        return d - d == 0 ? d : 7;
    }
}

static inline int64_t random_int(void)
{
    static const int64_t odd[] = { 0,
                                   1,
                                   -1,
                                   127,
                                   128,
                                   255,
                                   256,
                                   -128,
                                   -129,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX - 1,
                                   INT64_MAX - 511,
                                   INT64_MAX - 512,
                                   INT64_MIN + 1,
                                   (int64_t)1 << 62 };
    uint64_t bits = rnd_bits();

    switch (rnd(5)) {
    case 0:
        return odd[rnd(ARRAY_LEN(odd))];
    case 1:
        return (int64_t)rnd(1000) - 500;
    case 2:
        return ((int64_t)1 << 53) + (int64_t)rnd(8) - 4;
    case 3:
        return (int64_t)(bits >> rnd(64));
    default:
        return (int64_t)bits;
    }
}

/* Pieces that meet collation's corners: case, accents, marks apart, ignorable, other scripts. */
static inline size_t random_text(char *out)
{
    static const char *const pieces[] = {
        "a",
        "b",
        "A",
        "B",
        "z",
        "-",
        "_",
        " ",
        "1",
        "10",
        "\x01",
        "\x02",
        "\x7f",
        "ss",
        "co-op",
        "\xC3\xA4",
        "\xC3\x89",
        "e\xCC\x81",
        "\xCC\x81",
        "\xCC\xA3",
        "\xC3\x9F",
        "\xE6\x97\xA5",
        "\xED\x95\x9C",
        "\xE1\x84\x92",
        "\xF0\x9F\x98\x80",
        "\xD0\x90",
        "\xCE\xB1",
        "\xE2\x80\x8D",
        "\xEF\xBF\xBD",
        "\xE0\xB9\x80\xE0\xB8\x81",
        "I",
        "i",
        "\xC4\xB0",
        "\"",
        "\\",
        "\n",
    };
    size_t len = 0;

    for (uint32_t n = rnd(6); n; n--) {
        if (!rnd(30)) {
            out[len++] = 0;
            continue;
        }
        const char *piece = pieces[rnd(ARRAY_LEN(pieces))];
        memcpy(out + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static inline void random_put(struct val_builder *b, int depth)
{
    static const char *const names[] = { "a", "b", "c", "", "\xC3\xA4", "aa", "ab" };
    char text[64];
    uint32_t kind = rnd(depth > 3 ? 5 : 7), count;

    switch (kind) {
    case 0:
        val_put_null(b);
        break;
    case 1:
        val_put_bool(b, rnd(2));
        break;
    case 2:
        val_put_int(b, random_int());
        break;
    case 3:
        val_put_double(b, random_double());
        break;
    case 4:
        val_put_string(b, slice_of(text, random_text(text)));
        break;
    case 5:
        count = rnd(6);
        val_open_array(b);
        for (uint32_t i = 0; i < count; i++)
            random_put(b, depth + 1);
        val_close(b);
        break;
    default:
        count = rnd(5);
        val_open_object(b);
        for (uint32_t i = 0; i < count; i++) {
            val_put_name(b, slice_str(names[rnd(ARRAY_LEN(names))]));
            random_put(b, depth + 1);
        }
        for (int i = rnd(8) ? 20 : 0; i < 20; i++) { /* sometimes past the linear search */
            snprintf(text, sizeof text, "member%u", rnd(12));
            val_put_name(b, slice_str(text));
            val_put_int(b, i);
        }
        val_close(b);
    }
}

static inline struct val random_val(struct arena *arena)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    random_put(b, 0);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    val_builder_free(b);
    return v;
}

/* ---- helpers of the tests of values ---- */

static inline struct val parsed(struct arena *arena, const char *text)
{
    struct error err = { 0 };
    struct val v;

    if (val_parse(slice_str(text), arena, &v, &err) != OK)
        fail_msg("%s: %s", text, err.text);
    return v;
}

static inline const char *printed(struct arena *arena, struct val v)
{
    struct buf out;

    buf_init(&out, 0);
    val_print(v, &out);
    const char *text = arena_copy(arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

static inline int sign_of(int c)
{
    return (c > 0) - (c < 0);
}

#endif
