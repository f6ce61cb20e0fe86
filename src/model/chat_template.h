/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_template -- the chat template of a model in our terms, over the C++ library behind
 * chat_shim.
 *
 * Any thread.
 */
#ifndef MODEL_CHAT_TEMPLATE_H
#define MODEL_CHAT_TEMPLATE_H

#include "model/chat_shim.h"
#include "model/engine.h"

/* What engine_ops.render and engine_ops.format promise. */
MUST_CHECK enum errc chat_render(struct chat_shim *shim, const struct chat_message *messages,
                                 size_t count, struct slice tools, struct buf *out,
                                 struct error *err);
MUST_CHECK enum errc chat_format_of(struct chat_shim *shim, struct engine *e,
                                    const struct toolset *tools, struct chat_format *out,
                                    struct error *err);

#endif
