/* SPDX-License-Identifier: Apache-2.0 */
#include "retrieve/passage.h"

struct collector {
    struct passages *out;
    size_t max;
    const struct corpus_hit *hits;
    size_t hit;
    struct slice label, header;
    size_t paragraph;
};

static bool is_markdown(struct slice path)
{
    static const char *const ends[] = { ".md", ".markdown" };

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        if (path.len > n && memcmp(path.ptr + path.len - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

/* "|---|:--:|" */
static bool is_rule(struct slice row)
{
    for (size_t i = 0; i < row.len; i++)
        if (!memchr("|-: \t+=", row.ptr[i], 7))
            return false;
    return true;
}

/* The last part of "Title > Section". */
static struct slice last_part(struct slice heading)
{
    for (size_t i = heading.len; i >= 3; i--)
        if (memcmp(heading.ptr + i - 3, " > ", 3) == 0)
            return slice_of(heading.ptr + i, heading.len - i);
    return heading;
}

/* "4.2 Terrain" without its number, which a small model takes for a fact. */
static struct slice without_number(struct slice heading)
{
    size_t i = 0;

    while (i < heading.len &&
           ((heading.ptr[i] >= '0' && heading.ptr[i] <= '9') || heading.ptr[i] == '.'))
        i++;
    if (i == 0 || i + 1 >= heading.len || heading.ptr[i] != ' ')
        return heading;
    return slice_of(heading.ptr + i + 1, heading.len - i - 1);
}

static void add(struct collector *c, struct span at)
{
    struct slice text = c->hits[c->hit].hit.text;

    if (c->out->count == c->max)
        return;
    c->out->items[c->out->count++] = (struct passage){
        .hit = c->hit,
        .at = at,
        .text = slice_of(text.ptr + at.from, at.to - at.from),
        .label = c->label,
        .header = c->header,
        .paragraph = c->paragraph,
    };
}

static void add_sentences(struct collector *c, const struct block *b)
{
    struct slice text = c->hits[c->hit].hit.text;
    struct slice block = slice_of(text.ptr + b->at.from, b->at.to - b->at.from);
    size_t at = 0, first = c->out->count;
    struct span s;

    while (c->out->count < c->max && sentence_next(block, &at, &s)) {
        if (c->out->count > first)
            c->out->items[c->out->count - 1].has_next = true;
        add(c, (struct span){ s.from + b->at.from, s.to + b->at.from });
    }
}

static void add_row(struct collector *c, const struct block *b)
{
    struct slice text = c->hits[c->hit].hit.text;
    struct slice row = slice_of(text.ptr + b->at.from, b->at.to - b->at.from);

    if (is_rule(row))
        return;
    add(c, b->at);
    if (c->header.len == 0 && row.ptr[0] == '|')
        c->header = row;
}

static void add_hit(struct collector *c)
{
    const struct corpus_hit *h = &c->hits[c->hit];
    struct block_scan scan;
    struct block b;

    c->label = without_number(last_part(h->heading.len ? h->heading : h->hit.title));
    c->header = slice_of(NULL, 0);
    block_scan_init(&scan, h->hit.text, is_markdown(h->hit.path));
    while (block_next(&scan, &b)) {
        c->paragraph++;
        if (b.kind != BLOCK_ROW || b.has_gap)
            c->header = slice_of(NULL, 0);
        if (b.kind == BLOCK_HEADING)
            c->label =
                without_number(slice_of(h->hit.text.ptr + b.title.from, b.title.to - b.title.from));
        else if (b.kind == BLOCK_ROW)
            add_row(c, &b);
        else
            add_sentences(c, &b);
    }
}

struct passages passages_of(const struct corpus_hit *hits, size_t hit_count, size_t max,
                            struct arena *arena)
{
    struct passages out = { .items = arena_alloc(arena, (max + 1) * sizeof *out.items) };
    struct collector c = { .out = &out, .max = max, .hits = hits };

    for (c.hit = 0; c.hit < hit_count; c.hit++)
        add_hit(&c);
    return out;
}
