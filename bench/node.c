/* SPDX-License-Identifier: Apache-2.0 */
/* node [PART...]: the parts named, or all of them. */
#include "node.h"

#include <stdio.h>

#include "base/log.h"
#include "bench_commit.h"

static void commit(void)
{
    bench_commit("node");
}

static const struct node_part parts[] = {
    { "get", node_get },       { "commit", commit },        { "http", node_http },
    { "decode", node_decode }, { "streams", node_streams }, { "infer", node_infer },
};

static const struct node_part *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!strcmp(parts[i].name, name))
            return &parts[i];
    fprintf(stderr, "usage: node [PART...], where PART is one of:");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        fprintf(stderr, " %s", parts[i].name);
    fputc('\n', stderr);
    bench_fail("there is no part '%s'", name);
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR);
    for (int i = 1; i < argc; i++)
        (void)find(argv[i]);
    for (int i = 1; i < argc; i++)
        find(argv[i])->run();
    for (size_t i = 0; argc < 2 && i < ARRAY_LEN(parts); i++)
        parts[i].run();
    return 0;
}
