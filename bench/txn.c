/* SPDX-License-Identifier: Apache-2.0 */
/* txn [PART...]: the parts named, or all of them. */
#include "txn.h"

#include <stdio.h>

#include "base/log.h"
#include "bench_commit.h"

static void commit(void)
{
    bench_commit("txn");
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    { "commit", commit },
    { "postgres", txn_postgres },
    { "hot", txn_hot },
    { "check", txn_check },
};

static void run(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!strcmp(parts[i].name, name)) {
            parts[i].run();
            return;
        }
    }
    bench_fail("there is no part '%s'; there are commit, postgres, hot, check", name);
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
