/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask_prompt -- the messages that make a model answer from numbered sources,
 * within its context.
 */
#ifndef RETRIEVE_ASK_PROMPT_H
#define RETRIEVE_ASK_PROMPT_H

#include "base/arena.h"
#include "retrieve/corpus.h"
#include "retrieve/focus.h"

struct ask_prompt_options {
    struct slice question;
    const struct corpus_hit *hits; /* best first */
    size_t hit_count;
    const struct focus *focus; /* these sentences instead of the hits; NULL = the hits */
    const struct model_info *model;
    uint32_t max_tokens; /* of the answer */
};

/* True for models that do better with a few sentences and an example than with whole chunks. */
bool ask_prompt_wants_focus(const struct model_info *model);

/*
 * Messages [{role, content}] in the arena; *used = hits that fit (all with focus). The lowest
 * are dropped first.
 */
MUST_CHECK enum errc ask_prompt_build(struct generator *g, const struct ask_prompt_options *opt,
                                      struct arena *arena, struct val *messages, size_t *used,
                                      struct error *err);

/* What is answered when nothing relevant was found. */
extern const char ask_prompt_unknown[];

#endif
