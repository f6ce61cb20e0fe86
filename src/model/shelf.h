/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf -- prompt beginnings of finished generations: their tokens and the KV
 * state of those, in main memory. A lane that gets a prompt with such a
 * beginning loads it instead of computing it.
 *
 * States are kept outside of the lanes' cells because every used cell slows
 * every step of its lane down, while a load costs a thousandth of a prefill.
 * One shelf serves all lanes of a model. Any thread.
 */
#ifndef MODEL_SHELF_H
#define MODEL_SHELF_H

#include "base/base.h"

struct shelf;
struct shelf_item;

/* Keeps at most max_bytes; 0 keeps nothing. */
struct shelf *shelf_new(size_t max_bytes);
void shelf_free(struct shelf *s); /* no item is held any more; NULL is allowed */

/*
 * The item with the longest common beginning, at most max tokens of it. *len >=
 * PREFIX_MIN of its tokens are equal. Held until shelf_release; NULL when
 * there is none. Only equal salts share.
 */
const struct shelf_item *shelf_find(struct shelf *s, uint64_t salt, const int32_t *tokens,
                                    uint32_t max, uint32_t *len);
struct slice shelf_state(const struct shelf_item *item);
void shelf_release(struct shelf *s, const struct shelf_item *item);

/*
 * Is a sequence worth its place? It must be long enough, fit, and not be just a
 * short branch of what is there.
 */
bool shelf_wants(struct shelf *s, uint64_t salt, const int32_t *tokens, uint32_t count,
                 size_t state_bytes);

/*
 * An item with room for the state, which the caller fills (shelf_room) before
 * shelf_put. Copies the tokens.
 */
struct shelf_item *shelf_item_new(uint64_t salt, const int32_t *tokens, uint32_t count,
                                  size_t state_bytes);
void *shelf_room(struct shelf_item *item);
/* Keeps the item. Beginnings of it and, as far as needed, the longest unused go. */
void shelf_put(struct shelf *s, struct shelf_item *item);
void shelf_item_free(struct shelf_item *item); /* one that was not put */

#endif
