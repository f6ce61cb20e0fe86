/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens -- texts and conversations as the tokens of a model, and back.
 *
 * Runs on the caller's thread and takes time with the length of the text: worker threads.
 */
#ifndef MODEL_TOKENS_H
#define MODEL_TOKENS_H

#include "base/buf.h"
#include "model/model.h"

struct tokenise_request {
    struct slice model;  /* empty = the default chat model; of any kind otherwise */
    struct val messages; /* by the chat template, as a generation sees them; or null: */
    struct slice text;
    bool add_special;   /* the model's start and end tokens around the text */
    bool parse_special; /* spellings of control tokens in the text are control tokens */
};

struct token_list {
    int32_t *ids; /* owned */
    size_t count;
    uint32_t context_tokens;
    char model[128];
    struct buf pieces; /* bytes of all tokens, one after the other */
    size_t *ends;      /* owned; where each ends */
};
void token_list_release(struct token_list *t); /* zeroes are allowed */

/* Fills out, which the caller releases, also after an error. */
MUST_CHECK enum errc models_tokenise(struct models *m, const struct tokenise_request *q,
                                     struct token_list *out, struct error *err);

/*
 * The pieces of the ids in out->ids (which are the caller's): control tokens by their spelling.
 * ERR_INVALID: an id that the model does not have.
 */
MUST_CHECK enum errc models_spell(struct models *m, struct slice model, struct token_list *out,
                                  struct error *err);

#endif
