/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mask walks over the tokens in the order of their bytes. states[k] is where the first k bytes
 * of the last token have led; the next token begins with what both share. When a beginning is dead,
 * all tokens that share it are passed over. So in the middle of a key two or three bytes decide
 * about the vocabulary, and inside of a string, where nearly all is allowed, each byte is one look
 * into a table.
 */
#include "model/shape.h"

struct shape {
    struct shape_options opt; /* its lists are ours */
    struct grammar_run *run;  /* owned */
    int state;
    bool is_waiting; /* for a trigger */
    struct slice triggers[SHAPE_TRIGGERS_MAX];
    char trigger_bytes[SHAPE_TRIGGERS_MAX][SHAPE_TRIGGER_BYTES];
    int32_t spelled[SHAPE_SPELLED_MAX];
    char tail[SHAPE_TRIGGER_BYTES + ENGINE_PIECE_BYTES]; /* of the text so far, while waiting */
    size_t tail_len;
};

static enum errc copy_lists(struct shape *s, const struct shape_options *opt, struct error *err)
{
    if (opt->trigger_count > SHAPE_TRIGGERS_MAX || opt->spelled_count > SHAPE_SPELLED_MAX)
        return fail(err, ERR_INVALID, "the model's tool format has too many markers");
    for (size_t i = 0; i < opt->trigger_count; i++) {
        struct slice t = opt->triggers[i];
        if (t.len == 0 || t.len > SHAPE_TRIGGER_BYTES)
            return fail(err, ERR_INVALID, "the model's tool format has a marker of %zu bytes",
                        t.len);
        memcpy(s->trigger_bytes[i], t.ptr, t.len);
        s->triggers[i] = slice_of(s->trigger_bytes[i], t.len);
    }
    if (opt->spelled_count > 0)
        memcpy(s->spelled, opt->spelled, opt->spelled_count * sizeof *s->spelled);
    return OK;
}

enum errc shape_new(struct shape **out, const struct shape_options *opt, struct error *err)
{
    struct shape *s = mem_zalloc(sizeof *s);
    enum errc rc = OK;
    s->opt = *opt;
    s->run = grammar_run_new(opt->grammar);
    TRY(copy_lists(s, opt, err));
    s->is_waiting = opt->trigger_count > 0;
    s->state = grammar_run_begin(s->run);
    s->state = grammar_run_text(s->run, s->state, opt->begun);
    if (s->state == GRAMMAR_DEAD)
        TRY(shape_why(s, err));
    *out = s;
    s = NULL;
out:
    shape_free(s);
    return rc;
}

void shape_free(struct shape *s)
{
    if (!s)
        return;
    grammar_run_free(s->run);
    mem_free(s);
}

static bool is_spelled(const struct shape *s, int32_t id)
{
    for (size_t i = 0; i < s->opt.spelled_count; i++) {
        if (s->spelled[i] == id)
            return true;
    }
    return false;
}

size_t shape_piece(const struct shape *s, int32_t id, char out[ENGINE_PIECE_BYTES])
{
    struct engine *e = s->opt.engine;
    return is_spelled(s, id) ? e->ops->spell(e, id, out) : e->ops->piece(e, id, out);
}

static bool is_end(const struct shape *s, int32_t id)
{
    return s->opt.engine->ops->is_end(s->opt.engine, id);
}

/* The first place of a trigger in text; its length when there is none. */
static size_t find_trigger(const struct shape *s, struct slice text)
{
    size_t best = text.len;
    for (size_t i = 0; i < s->opt.trigger_count; i++) {
        const char *at =
            memmem(text.len ? text.ptr : "", text.len, s->triggers[i].ptr, s->triggers[i].len);
        if (at && (size_t)(at - text.ptr) < best)
            best = (size_t)(at - text.ptr);
    }
    return best;
}

/* Where bytes lead. While waiting: the state at the beginning unless they complete a trigger. */
static int follow(struct shape *s, struct slice bytes, bool *is_begun)
{
    char both[sizeof s->tail];
    *is_begun = !s->is_waiting;
    if (!s->is_waiting)
        return grammar_run_text(s->run, s->state, bytes);
    memcpy(both, s->tail, s->tail_len);
    memcpy(both + s->tail_len, bytes.ptr, bytes.len);
    struct slice text = slice_of(both, s->tail_len + bytes.len);
    size_t at = find_trigger(s, text);
    if (at == text.len)
        return s->state;
    *is_begun = true;
    return grammar_run_text(s->run, s->state, slice_of(both + at, text.len - at));
}

bool shape_allows(struct shape *s, int32_t id)
{
    char piece[ENGINE_PIECE_BYTES];
    bool is_begun;
    if (is_end(s, id))
        return s->is_waiting || grammar_run_may_end(s->run, s->state);
    size_t len = shape_piece(s, id, piece);
    if (len == 0)
        return s->is_waiting;
    return follow(s, slice_of(piece, len), &is_begun) != GRAMMAR_DEAD;
}

size_t shape_mask_words(uint32_t vocab_size)
{
    return (vocab_size + 63) / 64;
}

static void set_bit(uint64_t *mask, int32_t id)
{
    mask[id / 64] |= UINT64_C(1) << (id % 64);
}

static void walk(struct shape *s, uint64_t *mask)
{
    const struct token_order *o = s->opt.order;
    int states[ENGINE_PIECE_BYTES + 1];
    size_t dead = 0; /* so many first bytes of the last token are dead; 0 = it is allowed */
    states[0] = s->state;
    for (size_t i = 0; i < o->count; i++) {
        const char *bytes = o->bytes + o->begin[i];
        size_t len = o->begin[i + 1] - o->begin[i], k = o->shared[i];
        if (dead > 0 && k >= dead)
            continue;
        dead = 0;
        for (; k < len && dead == 0; k++) {
            states[k + 1] = grammar_run_next(s->run, states[k], (uint8_t)bytes[k]);
            if (states[k + 1] == GRAMMAR_DEAD)
                dead = k + 1;
        }
        if (dead == 0)
            set_bit(mask, o->ids[i]);
    }
}

void shape_mask(struct shape *s, uint64_t *mask)
{
    const struct token_order *o = s->opt.order;
    uint32_t vocab = s->opt.engine->info.vocab_size;
    memset(mask, 0, shape_mask_words(vocab) * sizeof *mask);
    if (s->is_waiting) {
        for (uint32_t id = 0; id < vocab; id++) {
            if (shape_allows(s, (int32_t)id))
                set_bit(mask, (int32_t)id);
        }
        return;
    }
    walk(s, mask);
    for (size_t i = 0; i < s->opt.spelled_count; i++) {
        if (shape_allows(s, s->spelled[i]))
            set_bit(mask, s->spelled[i]);
    }
    for (size_t i = 0; i < o->end_count && grammar_run_may_end(s->run, s->state); i++)
        set_bit(mask, o->ends[i]);
}

static void keep_tail(struct shape *s, struct slice bytes)
{
    memcpy(s->tail + s->tail_len, bytes.ptr, bytes.len);
    s->tail_len += bytes.len;
    if (s->tail_len < SHAPE_TRIGGER_BYTES)
        return;
    size_t drop = s->tail_len - (SHAPE_TRIGGER_BYTES - 1);
    memmove(s->tail, s->tail + drop, s->tail_len - drop);
    s->tail_len -= drop;
}

enum errc shape_take(struct shape *s, int32_t id, struct error *err)
{
    char piece[ENGINE_PIECE_BYTES];
    bool is_begun;
    if (is_end(s, id))
        return OK;
    struct slice bytes = slice_of(piece, shape_piece(s, id, piece));
    int state = follow(s, bytes, &is_begun);
    if (state == GRAMMAR_DEAD)
        return shape_why(s, err);
    if (s->is_waiting && !is_begun)
        keep_tail(s, bytes);
    s->is_waiting = !is_begun;
    s->state = grammar_run_keep(s->run, state);
    return OK;
}

bool shape_is_done(const struct shape *s)
{
    return !s->is_waiting && grammar_run_must_end(s->run, s->state);
}

enum errc shape_why(const struct shape *s, struct error *err)
{
    if (grammar_run_is_over(s->run))
        return fail(err, ERR_INVALID,
                    "the grammar is too ambiguous: following it here takes too many readings");
    return fail(err, ERR_INVALID, "no token of the model continues what the grammar allows here");
}
