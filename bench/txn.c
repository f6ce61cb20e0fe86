/* SPDX-License-Identifier: Apache-2.0 */
/* txn [PART...]: the parts named, or all of them. */
#include "txn.h"

#include "bench_commit.h"

static void commit(void)
{
    bench_commit("txn");
}

static const struct bench_part parts[] = {
    { "commit", commit },   { "postgres", txn_postgres },     { "hot", txn_hot },
    { "check", txn_check }, { "change_log", txn_change_log }, { "encrypted", txn_encrypted },
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
