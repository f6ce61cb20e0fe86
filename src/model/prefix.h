/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix -- the sequences of one lane: which ids are in use, how many KV cells
 * they need at worst, and who shares the beginning of whose tokens.
 *
 * Pure bookkeeping for one thread; the caller does the engine calls.
 */
#ifndef MODEL_PREFIX_H
#define MODEL_PREFIX_H

#include "base/base.h"
#include "model/engine.h"

enum { PREFIX_MIN = 64 /* shorter common beginnings are computed again */ };

struct prefix_seq {
    bool is_running;       /* else the id is free */
    const int32_t *tokens; /* borrowed */
    uint32_t known;        /* tokens that will surely be computed: the prompt, or more */
    uint32_t computed;     /* tokens whose KV cells are filled */
    uint32_t reserved;     /* cells it may come to need, shared ones included */
    uint32_t shared;       /* the first so many belong to parent (or to its ancestors) */
    int16_t parent;        /* id; -1 = none */
    bool is_forked;        /* the shared cells are really in this sequence */
    uint64_t salt;         /* only equal salts may share */
};

struct prefix_table {
    struct prefix_seq seqs[ENGINE_SEQ_MAX];
    uint32_t seq_max;
    uint32_t cells_max, cells_reserved;
    uint32_t running;
};

void prefix_init(struct prefix_table *t, uint32_t seq_max, uint32_t cells);

/*
 * The sequence with the longest common beginning, at most max tokens of it.
 * Returns its id and *len >= PREFIX_MIN, or -1.
 */
int prefix_find(const struct prefix_table *t, uint64_t salt, const int32_t *tokens, uint32_t max,
                uint32_t *len);

/* Cells that a sequence of so many tokens adds when it shares the first ones. */
bool prefix_has_room(const struct prefix_table *t, uint32_t reserved, uint32_t shared);

struct prefix_open {
    const int32_t *tokens; /* borrowed until close */
    uint32_t known, reserved;
    uint64_t salt;
    int parent; /* from prefix_find, or -1 */
    uint32_t shared;
};
/* Takes the lowest free id; -1 when there is none or no room. */
int prefix_open(struct prefix_table *t, const struct prefix_open *o);

/*
 * Ends a sequence. Cells that others share pass to an heir. When the heir has
 * not forked yet (heir.id >= 0), the caller must fork its first n tokens from
 * id now, before it cuts id (n may be 0: nothing to do).
 */
struct prefix_heir {
    int id;
    uint32_t n;
};
struct prefix_heir prefix_close(struct prefix_table *t, int id);

#endif
