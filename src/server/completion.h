/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion -- the shape of an answer of /v1/chat/completions and
 * /v1/completions: whole, or a stream of chunks. Worker threads only.
 */
#ifndef SERVER_COMPLETION_H
#define SERVER_COMPLETION_H

#include "server/answer_message.h"
#include "server/reply.h"
#include "server/request.h"

struct completion {
    struct request *r;
    bool is_chat, is_streaming, wants_usage, has_begun;
    bool wants_logprobs;
    struct answer_sent sent; /* of an answer with parts */
    int64_t text_offset;     /* characters of the tokens so far, for completions */
    char id[48];
    int64_t created;
    char model[128];
};

/* Gives it its id and time; the flags are the caller's. */
void completion_begin(struct completion *c, struct request *r, const char *model);

/* Streaming: sends a piece of the text, and its tokens (gen_token_next) if they are wanted. */
void completion_text(struct completion *c, struct slice text, struct slice tokens);
/* The same for an answer with parts: of parts, which is all of it so far, what is new. */
void completion_parts(struct completion *c, const struct answer_parts *parts, struct slice tokens);

/*
 * Ends the request: with the whole text and its tokens, or the last chunks. last has finish and counts; answer,
 * which may be NULL, becomes the member "retrieval".
 */
struct completion_whole {
    struct slice text, tokens;
    const struct answer_parts *parts; /* instead of text, if not NULL */
};
void completion_end(struct completion *c, const struct completion_whole *whole,
                    const struct gen_event *last, const struct rag_answer *answer);

/* Ends the request with an error, in the stream if one has begun. */
void completion_fail(struct completion *c, const struct error *err);

#endif
