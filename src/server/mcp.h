/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp -- the tools that language models call over the Model Context Protocol;
 * hides how each reads its arguments and shapes its result. The messages around
 * them are the endpoint's (/mcp).
 */
#ifndef SERVER_MCP_H
#define SERVER_MCP_H

#include "server/request.h"

/* A call on its way; in the request's arena. */
struct mcp_call {
    struct request *r;
    /* On a worker, exactly one of them, once: result is an object in the arena. */
    void (*done)(struct mcp_call *c, struct val result);
    void (*failed)(struct mcp_call *c, const struct error *err);
};

struct mcp_tool {
    const char *name, *title, *help;
    bool reads_only;
    const char *input, *output; /* JSON Schema */
    /* Any time later, on any worker, the call ends: touch nothing of it after that. */
    void (*call)(struct mcp_call *c, struct val arguments);
};

/* NULL at the end. */
const struct mcp_tool *mcp_tool_at(size_t i);

#endif
