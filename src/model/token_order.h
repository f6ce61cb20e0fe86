/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_order -- the tokens of a model sorted by their bytes, so that a walk over all of them looks
 * at a common beginning once.
 *
 * Immutable: any thread. Tokens without bytes (control tokens) are not in it.
 */
#ifndef MODEL_TOKEN_ORDER_H
#define MODEL_TOKEN_ORDER_H

#include "model/engine.h"

struct token_order {
    size_t count;
    int32_t *ids;    /* owned */
    uint32_t *begin; /* owned; count + 1: where the bytes of each begin */
    uint8_t *shared; /* owned; bytes in common with the one before, 255 at most */
    char *bytes;     /* owned */
    int32_t *ends;   /* owned; tokens that end an answer */
    size_t end_count;
};

/* Returned to the caller. Asks the engine for every token: takes some milliseconds. */
struct token_order *token_order_new(struct engine *e);
void token_order_free(struct token_order *order); /* NULL is allowed */

#endif
