/* SPDX-License-Identifier: Apache-2.0 */
/* batch [PART...]: the parts named, or all of them. */
#include "batch.h"

static const struct bench_part parts[] = {
    { "virtual", batch_virtual },
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
