/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer_options -- the arguments of INFER as a generator request: checks types,
 * names and ranges, says what is allowed when one is wrong.
 */
#ifndef RETRIEVE_INFER_OPTIONS_H
#define RETRIEVE_INFER_OPTIONS_H

#include "base/arena.h"
#include "model/generator.h"

/*
 * Fills model, messages or prompt, sampling, limits and hints of *req; slices live
 * in the arena or in the values. Greedy unless options say otherwise. Errors: 1542
 * wrong type, 1504 out of range, 10 unknown option.
 */
MUST_CHECK enum errc infer_options_read(struct val model, struct val prompt, struct val options,
                                        struct arena *arena, struct gen_request *req,
                                        struct error *err);

#endif
