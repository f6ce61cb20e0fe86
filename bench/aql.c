/* SPDX-License-Identifier: Apache-2.0 */
/* aql [PART...]: the parts named, or all of them. BENCH_DOCS sets the number of documents and edges. */
#include "aql.h"

static const struct bench_part parts[] = {
    { "eval", aql_eval },
    { "raw", aql_raw },
    { "postgres", aql_postgres },
    { "graph", aql_graph },
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
