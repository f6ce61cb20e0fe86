/* SPDX-License-Identifier: Apache-2.0 */
/* aql [PART...]: the parts named, or all of them. */
#include "aql.h"

static const struct bench_part parts[] = { { "eval", aql_eval } };

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
