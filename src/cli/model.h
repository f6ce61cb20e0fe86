/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model -- parts of "themis model": adding files.
 */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/cli.h"

/*
 * Sends GGUF files, and the *.gguf of folders, to the node. One that is refused does not stop the
 * others; with several a summary ends the output. name: of a single file, or NULL.
 */
int model_add(struct cli *c, int count, char **paths, const char *name);

#endif
