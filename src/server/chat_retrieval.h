/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_retrieval -- the field "retrieval" of a chat request: the last message of
 * the user is answered from the documents, in the shape of a chat completion.
 */
#ifndef SERVER_CHAT_RETRIEVAL_H
#define SERVER_CHAT_RETRIEVAL_H

#include "server/completion.h"

/* True when the request asks for it: neither absent, null, false nor an empty object. */
bool chat_wants_retrieval(struct val body);

/*
 * Answers the request, whose fields have been read into c and req. retrieval is true or an object
 * {collection, top_k, min_score, embedding_model, in_text}.
 */
void chat_retrieval_start(struct completion *c, struct val body, const struct gen_request *req);

#endif
