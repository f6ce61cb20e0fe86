/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_shape -- the members of a request that say what its answer must look like:
 * response_format, json_schema and grammar. Pure.
 */
#ifndef SERVER_ANSWER_SHAPE_H
#define SERVER_ANSWER_SHAPE_H

#include "model/generator.h"

/* *out borrows of body. ERR_INVALID names the member. The schema itself is read at submit. */
MUST_CHECK enum errc answer_shape_read(struct val body, struct gen_shape *out, struct error *err);

#endif
