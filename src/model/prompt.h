/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt -- from messages or text to token ids, with a guard in front of the
 * chat template: shapes are checked, and the texts of control tokens inside
 * what users wrote stay text.
 *
 * Any thread.
 */
#ifndef MODEL_PROMPT_H
#define MODEL_PROMPT_H

#include "model/engine.h"

/*
 * *tokens is returned to the caller (mem_free). tools: what the messages may call; may be NULL.
 * ERR_INVALID: bad messages, or more than context_tokens - 1 tokens (both numbers
 * are in the text).
 */
MUST_CHECK enum errc prompt_tokens(struct engine *e, const struct gen_request *req,
                                   const struct toolset *tools, uint32_t context_tokens,
                                   int32_t **tokens, uint32_t *count, struct error *err);

/* Tokens of a text, growing *out (mem_realloc) behind *count. */
void tokens_append(struct engine *e, struct slice text, bool add_special, bool parse_special,
                   int32_t **out, size_t *count);

#endif
