/* SPDX-License-Identifier: Apache-2.0 */
/*
 * focus -- the few sentences of the hits that matter to the question, for
 * models that lose the thread in whole chunks. Pure.
 */
#ifndef RETRIEVE_FOCUS_H
#define RETRIEVE_FOCUS_H

#include "retrieve/evidence.h"

struct focus {
    struct passages passages; /* best first */
    size_t hit_count;         /* hits they come from: the first ones */
};

/*
 * Keeps the passages that are nearest to the question and not far behind the nearest one; 2 at
 * most, of the first hits. The evidence has been weighed.
 */
void focus_choose(struct focus *f, struct slice question, const struct evidence *e,
                  const struct corpus_hit *hits, size_t hit_count, struct arena *arena);

#endif
