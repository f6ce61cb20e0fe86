/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_code -- generation requests and their events as bytes between nodes
 * (docs/formats.md). Pure.
 */
#ifndef CLUSTER_GEN_CODE_H
#define CLUSTER_GEN_CODE_H

#include "base/buf.h"
#include "model/generator.h"

/* Without callbacks, cancel flag, deadline and node, which do not travel. */
MUST_CHECK enum errc gen_request_encode(const struct gen_request *req, struct buf *out,
                                        struct error *err);
/* What it points to lives in arena, or in the bytes. ERR_INVALID says what cannot be read. */
MUST_CHECK enum errc gen_request_decode(struct slice bytes, struct arena *arena,
                                        struct gen_request *out, struct error *err);

/* One frame at the end of out. */
void gen_event_encode(const struct gen_event *e, struct buf *out);

/* An event with the memory of its error. */
struct gen_event_frame {
    struct gen_event event; /* borrows text and tokens from the bytes */
    struct error err;
};

enum gen_frame { FRAME_WHOLE, FRAME_PARTIAL, FRAME_BROKEN };
/* Takes one frame off the bytes, if a whole one is there. */
enum gen_frame gen_event_decode(struct slice *bytes, struct gen_event_frame *out);

#endif
