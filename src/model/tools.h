/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools -- the functions that a request offers to the model, read and checked; and their calls as
 * text, for models whose chat template knows none:
 *
 *   <tool_call>
 *   {"name": "weather", "arguments": {"city": "Oslo"}}
 *   </tool_call>
 *
 * Pure. That is how Hermes and Qwen models write calls, so small models have often seen it.
 */
#ifndef MODEL_TOOLS_H
#define MODEL_TOOLS_H

#include "model/engine.h"

enum { TOOLS_MAX = 128, TOOL_NAME_BYTES = 64 };

/* The text that begins a call. */
#define TOOL_CALL_BEGIN "<tool_call>"

/*
 * Reads OpenAI's array of tools, as the choice narrows it. *out has none (count 0) when the request
 * offers none. ERR_INVALID says which tool is wrong and why.
 */
MUST_CHECK enum errc tools_read(const struct gen_tools *in, struct arena *arena,
                                struct toolset *out, struct error *err);

/* The tools as JSON, in the form in which OpenAI's API has them. */
void tools_print(const struct toolset *tools, struct buf *out);
/* What a model that has not learned of tools is told about them. */
void tools_describe(const struct toolset *tools, struct buf *out);
/* A call, as such a model writes it. */
void tools_write_call(const struct chat_call *call, struct buf *out);

/*
 * The grammar of such calls: one, or with is_parallel several. Arguments follow their schema; of a
 * tool that is not strict as far as a grammar can say it.
 */
MUST_CHECK enum errc tools_grammar(const struct toolset *tools, struct buf *out, struct error *err);

/* Reads answers with such calls. Nothing to free. */
extern struct answer_format tools_answer_format;

/*
 * Reads an answer with such calls; parts of it live in arena or in text. While is_partial, nothing
 * is taken for content that may be the beginning of a call.
 */
void tools_read_answer(struct slice text, bool is_partial, struct arena *arena,
                       struct answer_parts *out);

#endif
