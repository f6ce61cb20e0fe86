/* SPDX-License-Identifier: Apache-2.0 */
/* routing [PART...]: the parts named, or all of them. */
#include "routing.h"

static const struct bench_part parts[] = {
    { "queue", routing_queue },
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
