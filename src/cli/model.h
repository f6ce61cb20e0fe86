/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model -- parts of "themis model": adding files.
 */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/cli.h"

/*
 * Sends GGUF files, and the *.gguf of folders, to the node. One that is refused does not stop the
 * others; with several a summary ends the output. name: of a single file, or NULL; quantize: the type that
 * the node makes of them, or NULL.
 */
struct model_add_options {
    const char *name, *quantize;
};
int model_add(struct cli *c, int count, char **paths, const struct model_add_options *opt);

#endif
