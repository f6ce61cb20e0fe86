/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise -- a GGUF file with its weights in another type. Meant for a process of its own: llama.cpp
 * reads all of a file that a stranger made, for minutes.
 */
#ifndef MODEL_QUANTISE_H
#define MODEL_QUANTISE_H

#include "base/base.h"
#include "base/error.h"

/* ERR_INVALID lists the types. */
MUST_CHECK enum errc quantise_check_type(struct slice type, struct error *err);

/* Checks the file at in first. After an error out holds a part. */
MUST_CHECK enum errc quantise_file(const char *in, const char *out, const char *type,
                                   struct error *err);

#endif
