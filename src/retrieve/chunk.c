/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks are cut into atoms (a heading, a sentence, a row, a line of code);
 * atoms are gathered until the next one would not fit.
 *
 *   # A            atoms:  [# A] [s1] [s2] | [s3] [s4]
 *   s1 s2.                  `---- chunk ----'
 *                                     overlap: s2 again when s3 goes on
 *   s3 s4.                            in the same paragraph
 *
 * Only the atoms of the chunk being gathered are held, so memory grows with
 * the number of chunks and not with their making. A heading closes the chunk
 * unless that is still very small and the heading is not further out; small
 * sibling sections therefore share a chunk whose context is their parent.
 */
#include "retrieve/chunk.h"

#include "base/buf.h"
#include "retrieve/sentence.h"

enum {
    TARGET_TOKENS = 180,
    OVERLAP_TOKENS = 40,
    OVERLAP_ATOMS = 2,
    SECTION_TOKENS_MIN = 60, /* a section below this is joined with the next */
    LIMIT_TOKENS_MIN = 16,   /* whatever the headings take */
    ATOMS_MAX = 256,
    ATOM_BYTES_MAX = 2048, /* counted in one call; longer sentences are cut first */
    HEADING_LEVELS = 8,
    HEADING_BYTES_MAX = 120,
    TITLE_BLOCKS = 20, /* where the title is looked for */
};

struct atom {
    struct span at;
    size_t tokens;
    unsigned heading; /* its level; 0 = not a heading */
    bool starts_paragraph;
    bool is_repeated; /* overlap: already in the chunk before */
};

struct splitter {
    struct slice text;
    const struct chunk_options *opt;
    struct arena *arena;
    size_t special_tokens; /* what the counter adds to every text */
    size_t target;
    struct slice path[HEADING_LEVELS]; /* of the open section; empty levels are skipped */
    unsigned level;                    /* of its heading; 0 before the first */

    /* The chunk being gathered. */
    struct atom atoms[ATOMS_MAX];
    size_t atom_count;
    size_t tokens;
    struct slice context;
    size_t context_tokens;
    unsigned first_level; /* of the heading it began under */

    struct chunk *items; /* grows; copied into the arena at the end */
    size_t count, cap;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0';
}

static enum errc count_tokens(const struct splitter *s, struct slice text, size_t *tokens,
                              struct error *err)
{
    enum errc rc = s->opt->counter.count(s->opt->counter.ctx, text, tokens, err);
    if (rc == OK)
        *tokens -= *tokens < s->special_tokens ? *tokens : s->special_tokens;
    return rc;
}

/* ---- context ---- */

static struct slice clip(struct slice text, size_t max)
{
    return text.len > max ? slice_of(text.ptr, utf8_floor(text, max)) : text;
}

/* Joins the title and the headings above `level`, outermost first, leaving out the first `skip`. */
static void join_path(const struct splitter *s, unsigned level, unsigned skip, struct buf *out)
{
    struct slice title = clip(s->opt->title, HEADING_BYTES_MAX);

    buf_clear(out);
    for (unsigned i = 0; i <= level && i <= HEADING_LEVELS; i++) {
        struct slice part = i == 0 ? title : s->path[i - 1];
        if (part.len == 0 || (i > 0 && slice_eq(part, title)) || (skip > 0 && skip--))
            continue;
        if (out->len > 0)
            buf_add_str(out, " > ");
        buf_add_slice(out, part);
    }
}

/* Called when the first atom of a chunk is known. Drops outer headings that take too much room. */
static enum errc begin_chunk(struct splitter *s, const struct atom *first, struct error *err)
{
    enum errc rc = OK;
    unsigned level = first->heading ? first->heading - 1 : s->level;
    struct buf path;

    buf_init(&path, 0);
    for (unsigned skip = 0; skip <= HEADING_LEVELS + 1; skip++) {
        join_path(s, level, skip, &path);
        s->context_tokens = 0;
        if (path.len > 0)
            TRY(count_tokens(s, buf_slice(&path), &s->context_tokens, err));
        if (s->context_tokens <= s->target / 3)
            break;
    }
    s->context = arena_copy(s->arena, buf_slice(&path));
    s->first_level = first->heading ? first->heading : s->level;
out:
    buf_release(&path);
    return rc;
}

static void set_heading(struct splitter *s, struct slice title, unsigned level)
{
    for (unsigned i = level; i < HEADING_LEVELS; i++)
        s->path[i] = slice_of(NULL, 0);
    s->path[level - 1] = clip(title, HEADING_BYTES_MAX);
    s->level = level;
}

/* ---- closing ---- */

static size_t limit_of(const struct splitter *s)
{
    size_t room = s->target > s->context_tokens ? s->target - s->context_tokens : 0;
    return room < LIMIT_TOKENS_MIN ? LIMIT_TOKENS_MIN : room;
}

static void emit(struct splitter *s, size_t atoms)
{
    struct chunk *c;
    size_t tokens = s->context_tokens + s->special_tokens;
    bool is_new = false;

    for (size_t i = 0; i < atoms; i++) {
        tokens += s->atoms[i].tokens;
        is_new |= !s->atoms[i].is_repeated;
    }
    if (!is_new)
        return;
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->items = mem_realloc(s->items, s->cap * sizeof *s->items);
    }
    c = &s->items[s->count++];
    *c = (struct chunk){ .from = s->atoms[0].at.from,
                         .to = s->atoms[atoms - 1].at.to,
                         .heading = s->context,
                         .tokens = (uint32_t)tokens };
}

/* Forgets the first n atoms. */
static void drop_atoms(struct splitter *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->tokens -= s->atoms[i].tokens;
    s->atom_count -= n;
    memmove(s->atoms, s->atoms + n, s->atom_count * sizeof *s->atoms);
}

/* First atom that may open the next chunk: the last heading, whose path is the open one. */
static size_t open_section_at(const struct splitter *s)
{
    for (size_t i = s->atom_count; i > 0; i--)
        if (s->atoms[i - 1].heading)
            return i - 1;
    return 0;
}

/* Where the headings begin that have nothing below them yet. */
static size_t bare_headings_at(const struct splitter *s)
{
    size_t i = s->atom_count;

    while (i > 0 && s->atoms[i - 1].heading)
        i--;
    return i;
}

/* The last paragraph start that leaves a chunk of at least 3/5 of the limit before it; 0 = none. */
static size_t paragraph_cut(const struct splitter *s)
{
    size_t first = open_section_at(s), tokens = 0, cut = 0;

    for (size_t i = 0; i < s->atom_count; i++) {
        bool is_start = s->atoms[i].starts_paragraph || s->atoms[i].heading;
        bool has_body = i > 0 && !s->atoms[i - 1].heading;
        if (i >= first && is_start && has_body && tokens * 5 >= limit_of(s) * 3)
            cut = i;
        tokens += s->atoms[i].tokens;
    }
    return cut;
}

static size_t overlap_begin(const struct splitter *s)
{
    size_t most = s->opt->overlap_tokens ? s->opt->overlap_tokens : OVERLAP_TOKENS;
    size_t i = s->atom_count, tokens = 0, first = open_section_at(s);

    while (i > 1 && i - 1 > first && s->atom_count - i < OVERLAP_ATOMS) {
        tokens += s->atoms[i - 1].tokens;
        if (tokens > most || tokens * 4 > limit_of(s))
            break;
        i--;
    }
    return i;
}

/* The chunk is full: emits it and keeps what the next one begins with. */
static enum errc close_full(struct splitter *s, bool next_starts_paragraph, struct error *err)
{
    size_t bare = bare_headings_at(s);
    size_t cut = next_starts_paragraph ? s->atom_count : paragraph_cut(s);

    if (bare > 0 && bare < s->atom_count)
        cut = bare; /* a heading goes with what follows it */

    if (cut > 0) {
        emit(s, cut);
        drop_atoms(s, cut);
    } else {
        emit(s, s->atom_count);
        drop_atoms(s, overlap_begin(s));
        for (size_t i = 0; i < s->atom_count; i++)
            s->atoms[i].is_repeated = true;
    }
    return s->atom_count > 0 ? begin_chunk(s, &s->atoms[0], err) : OK;
}

static void close_all(struct splitter *s)
{
    if (s->atom_count > 0)
        emit(s, s->atom_count);
    s->atom_count = 0;
    s->tokens = 0;
}

/* ---- atoms ---- */

static enum errc add_counted(struct splitter *s, struct atom atom, struct error *err)
{
    enum errc rc = OK;

    while (s->atom_count > 0 &&
           (s->tokens + atom.tokens > limit_of(s) || s->atom_count == ATOMS_MAX)) {
        if (s->atoms[s->atom_count - 1].is_repeated)
            drop_atoms(s, s->atom_count); /* nothing but overlap, and it does not fit */
        else
            TRY(close_full(s, atom.starts_paragraph, err));
    }
    if (s->atom_count == 0)
        TRY(begin_chunk(s, &atom, err));
    s->atoms[s->atom_count++] = atom;
    s->tokens += atom.tokens;
out:
    return rc;
}

/* A place to cut [from, from + most): behind the last white space, else before a character. */
static size_t cut_at(struct slice text, struct span at, size_t most)
{
    size_t to = utf8_floor(text, at.from + most), i;

    for (i = to; i > at.from + most / 2; i--)
        if (is_space(text.ptr[i - 1]))
            return i;
    while (to <= at.from) /* a character is up to four bytes */
        to = utf8_floor(text, at.from + ++most);
    return to < at.to ? to : at.to;
}

/* Room that one atom may take in the chunk that it will be part of. */
static size_t atom_limit(const struct splitter *s)
{
    size_t room = s->target - s->target / 3;
    return room < LIMIT_TOKENS_MIN ? LIMIT_TOKENS_MIN : room;
}

/* Adds text that may be longer than an atom, in pieces. */
static enum errc add_text(struct splitter *s, struct span at, struct atom like, struct error *err)
{
    enum errc rc = OK;

    while (at.from < at.to) {
        struct atom atom = like;
        size_t most = at.to - at.from;

        atom.at = at;
        for (;;) {
            if (most > ATOM_BYTES_MAX)
                most = ATOM_BYTES_MAX;
            if (most < at.to - at.from)
                atom.at.to = cut_at(s->text, at, most);
            TRY(count_tokens(s, slice_of(s->text.ptr + atom.at.from, atom.at.to - atom.at.from),
                             &atom.tokens, err));
            if (atom.tokens <= atom_limit(s) || atom.at.to - atom.at.from <= 4)
                break;
            most = (atom.at.to - atom.at.from) / 2;
        }
        at.from = atom.at.to;
        while (at.from < at.to && is_space(s->text.ptr[at.from]))
            at.from++;
        while (atom.at.to > atom.at.from && is_space(s->text.ptr[atom.at.to - 1]))
            atom.at.to--;
        TRY(add_counted(s, atom, err));
        like.starts_paragraph = false;
    }
out:
    return rc;
}

static bool has_body(const struct splitter *s)
{
    return s->atom_count > 0 && !s->atoms[s->atom_count - 1].heading;
}

static enum errc add_heading(struct splitter *s, const struct block *b, struct error *err)
{
    struct slice title = slice_of(s->text.ptr + b->title.from, b->title.to - b->title.from);

    unsigned level = b->level < HEADING_LEVELS ? b->level : HEADING_LEVELS;

    if (has_body(s) && (s->tokens >= SECTION_TOKENS_MIN || level < s->first_level))
        close_all(s);
    else if (s->atom_count > 0 && s->atoms[0].is_repeated)
        close_all(s); /* the rest of a long section, under another heading */
    set_heading(s, title, level);
    return add_text(s, b->at, (struct atom){ .heading = level }, err);
}

static enum errc add_sentences(struct splitter *s, const struct block *b, struct error *err)
{
    enum errc rc = OK;
    struct slice text = slice_of(s->text.ptr + b->at.from, b->at.to - b->at.from);
    struct atom like = { .starts_paragraph = b->has_gap || b->kind == BLOCK_ITEM };
    struct span sentence;
    size_t at = 0;

    while (sentence_next(text, &at, &sentence)) {
        sentence.from += b->at.from;
        sentence.to += b->at.from;
        TRY(add_text(s, sentence, like, err));
        like.starts_paragraph = false;
    }
out:
    return rc;
}

static enum errc add_block(struct splitter *s, const struct block *b, struct error *err)
{
    switch (b->kind) {
    case BLOCK_HEADING:
        return add_heading(s, b, err);
    case BLOCK_ROW:
    case BLOCK_CODE:
        return add_text(s, b->at, (struct atom){ .starts_paragraph = b->has_gap }, err);
    case BLOCK_TEXT:
    case BLOCK_ITEM:
        return add_sentences(s, b, err);
    }
    BUG("unknown block %d", (int)b->kind);
}

enum errc chunk_split(struct chunk_list *out, struct slice text, const struct chunk_options *opt,
                      struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct splitter *s = NULL;
    struct block_scan scan;
    struct block block;
    size_t target = opt->target_tokens ? opt->target_tokens : TARGET_TOKENS;

    *out = (struct chunk_list){ 0 };
    if (text.len > CHUNK_DOC_BYTES_MAX)
        return fail(err, ERR_TOO_LARGE, "a document of %zu bytes is over the limit of %zu",
                    text.len, CHUNK_DOC_BYTES_MAX);
    s = mem_zalloc(sizeof *s);
    s->text = text;
    s->opt = opt;
    s->arena = arena;
    TRY(opt->counter.count(opt->counter.ctx, slice_of("", 0), &s->special_tokens, err));
    if (opt->window_tokens > s->special_tokens && target > opt->window_tokens - s->special_tokens)
        target = opt->window_tokens - s->special_tokens;
    s->target = target;

    block_scan_init(&scan, text, opt->is_markdown);
    while (block_next(&scan, &block))
        TRY(add_block(s, &block, err));
    close_all(s);
    out->items = arena_alloc(arena, (s->count + 1) * sizeof *out->items);
    if (s->count > 0)
        memcpy(out->items, s->items, s->count * sizeof *out->items);
    out->count = s->count;
out:
    mem_free(s->items);
    mem_free(s);
    return rc;
}

struct slice chunk_title(struct slice text, bool is_markdown)
{
    struct block_scan scan;
    struct block b;

    block_scan_init(&scan, text, is_markdown);
    for (int i = 0; i < TITLE_BLOCKS && block_next(&scan, &b); i++)
        if (b.kind == BLOCK_HEADING && b.title.to > b.title.from)
            return clip(slice_of(text.ptr + b.title.from, b.title.to - b.title.from), 200);
    return slice_of(NULL, 0);
}
