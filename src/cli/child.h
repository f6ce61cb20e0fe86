/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child -- runs a program that reads untrusted bytes, with limits on time, memory
 * and output. A crash or an endless loop there is an error here.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "base/buf.h"
#include "base/error.h"

struct child_limits {
    unsigned cpu_s, wall_s;
    size_t memory_bytes; /* address space; not kept in builds with sanitizers */
    size_t output_bytes;
};

/*
 * Runs argv, found in PATH, without a shell; input becomes its standard input, its standard output
 * is added to out. It has no other open files, may write none, and has no environment but PATH.
 * ERR_LIMIT: it took too long or its output is too long; ERR_INVALID: it failed or crashed; err
 * says why, with the first line of its standard error.
 */
MUST_CHECK enum errc child_run(const char *const *argv, int input,
                               const struct child_limits *limits, struct buf *out,
                               struct error *err);

#endif
