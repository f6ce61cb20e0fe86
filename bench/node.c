/* SPDX-License-Identifier: Apache-2.0 */
/* node [PART...]: the parts named, or all of them. */
#include "node.h"

#include "bench_commit.h"

static void commit(void)
{
    bench_commit("node");
}

static const struct bench_part parts[] = {
    { "get", node_get },       { "commit", commit },        { "http", node_http },
    { "decode", node_decode }, { "streams", node_streams }, { "infer", node_infer },
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
