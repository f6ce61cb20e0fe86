/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask_flow -- a question to the documents on its way through a request: steps of
 * the operation, text that arrives meanwhile, waiting. How the answer looks is
 * the caller's (ask, search, chat with retrieval, tool call).
 */
#ifndef SERVER_ASK_FLOW_H
#define SERVER_ASK_FLOW_H

#include "server/reply.h"
#include "server/request.h"

/* Called on a worker, in order; done or failed comes last, once, and ends the request. */
struct ask_shape {
    void (*text)(void *ctx, struct slice text); /* NULL: not streaming */
    void (*done)(void *ctx, const struct rag_answer *answer);
    void (*failed)(void *ctx, const struct error *err);
};

/*
 * Fails when the user may not read the collection. Borrows opt, whose callbacks and cancel flag it
 * sets; shape and ctx outlive the request.
 */
void ask_flow_start(struct request *r, const struct rag_ask_options *opt,
                    const struct ask_shape *shape, void *ctx);

/*
 * The members of a question, with opt->search_only of a search; others are refused, except one
 * that the caller reads, unless NULL. The texts stay in body.
 */
MUST_CHECK enum errc ask_read_options(struct val body, const char *other,
                                      struct rag_ask_options *opt, struct error *err);

/* Members of a reply: "sources", then "citations" that number them. */
void ask_put_sources(struct reply *a, const struct rag_answer *answer);
void ask_put_citations(struct reply *a, const struct rag_answer *answer);
/* All of an answer, or of what a search found. */
void ask_put_answer(struct reply *a, const struct rag_answer *answer, bool is_search);

#endif
