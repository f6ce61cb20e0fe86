/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_format -- reads the text of an answer: what is content, what reasoning, and which
 * functions it calls. Hides who knows how: the model's chat template, or our own form of calls.
 */
#ifndef MODEL_ANSWER_FORMAT_H
#define MODEL_ANSWER_FORMAT_H

#include "base/arena.h"
#include "base/error.h"

struct answer_call {
    struct slice name;
    struct slice arguments; /* JSON text, perhaps not all of it yet */
};

struct answer_parts {
    struct slice content, reasoning;
    struct answer_call *calls;
    size_t call_count;
};

struct answer_format {
    void (*free)(struct answer_format *f); /* NULL = nothing to free */
    enum errc (*read)(const struct answer_format *f, struct slice text, bool is_partial,
                      struct arena *arena, struct answer_parts *out, struct error *err);
};

/*
 * The parts live in arena or in text. is_partial: more of the text will come; each part only grows
 * with it. ERR_INTERNAL: the text is not of the format. One thread at a time.
 */
static inline enum errc answer_format_read(const struct answer_format *f, struct slice text,
                                           bool is_partial, struct arena *arena,
                                           struct answer_parts *out, struct error *err)
{
    return f->read(f, text, is_partial, arena, out, err);
}

static inline void answer_format_free(struct answer_format *f)
{
    if (f && f->free)
        f->free(f);
}

#endif
