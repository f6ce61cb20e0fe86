/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_message -- an answer with reasoning and calls of functions in OpenAI's form: the request's
 * members about tools, the whole message, and what a stream adds to it.
 */
#ifndef SERVER_ANSWER_MESSAGE_H
#define SERVER_ANSWER_MESSAGE_H

#include "model/answer_format.h"
#include "model/generator.h"
#include "server/reply.h"

/* tools, tool_choice, parallel_tool_calls. ERR_INVALID names the member. */
MUST_CHECK enum errc answer_tools_read(struct val body, struct gen_tools *out, struct error *err);

/* Members of a message behind its role. */
void answer_message_put(struct reply *a, const struct answer_parts *parts);

/* What a stream has sent. */
struct answer_sent {
    size_t content, reasoning; /* bytes */
    size_t calls;              /* whose names were sent */
    size_t arguments;          /* bytes, of the last of them */
};

/* Is anything of parts new? */
bool answer_delta_has(const struct answer_parts *parts, const struct answer_sent *sent);
/* Members of a delta: what is new, which is sent then. */
void answer_delta_put(struct reply *a, const struct answer_parts *parts, struct answer_sent *sent);

#endif
