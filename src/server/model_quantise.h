/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_quantise -- requantising in a child process: this program again, with
 * limits, at a low priority. What goes wrong in it does not reach the node.
 */
#ifndef SERVER_MODEL_QUANTISE_H
#define SERVER_MODEL_QUANTISE_H

#include "base/error.h"

/*
 * Writes the model at in to out, which is there and stays as it is on an error, or holds a part. Blocks until
 * the child has ended; asked often, should_stop ends it (ERR_GONE).
 */
MUST_CHECK enum errc model_quantise(const char *in, const char *out, const char *type,
                                    bool (*should_stop)(void *ctx), void *ctx, struct error *err);

/* The child's main: limits, then the work. Returns the exit status, with a line on standard error. */
int model_quantise_main(const char *in, const char *out, const char *type);

#endif
