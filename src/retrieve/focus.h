/* SPDX-License-Identifier: Apache-2.0 */
/*
 * focus -- the few sentences of the hits that matter to the question, for
 * models that lose the thread in whole chunks. Pure; vectors come from outside.
 *
 * Use: focus_collect, embed the inputs, focus_choose.
 */
#ifndef RETRIEVE_FOCUS_H
#define RETRIEVE_FOCUS_H

#include "retrieve/passage.h"

struct focus {
    struct passages passages;
    struct slice *inputs; /* text to embed of each passage, its heading in front */
    size_t hit_count;     /* hits they come from: the first ones */
};

void focus_collect(struct focus *f, const struct corpus_hit *hits, size_t hit_count,
                   struct arena *arena);

/*
 * Keeps the passages that are nearest to the question and not far behind the
 * nearest one, best first; 2 at most.
 */
void focus_choose(struct focus *f, struct slice question, const float *question_vector,
                  const float *vectors, uint32_t dimension, const struct corpus_hit *hits,
                  struct arena *arena);

#endif
