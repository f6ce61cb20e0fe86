/* SPDX-License-Identifier: Apache-2.0 */
/* aql [PART...]: the parts named, or all of them. */
#include "aql.h"

#include <stdio.h>

#include "base/log.h"

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = { { "eval", aql_eval } };

static void run(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!strcmp(parts[i].name, name)) {
            parts[i].run();
            return;
        }
    }
    fprintf(stderr, "usage: aql [PART...], where PART is eval\n");
    bench_fail("there is no part '%s'", name);
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR);
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    for (size_t i = 0; argc < 2 && i < ARRAY_LEN(parts); i++)
        parts[i].run();
    return 0;
}
