/* SPDX-License-Identifier: Apache-2.0 */
/* themis cluster: certificates for nodes, and what a node knows of the others. */
#include "cli/cli.h"
#include "net/authority.h"
#include <stdio.h>
#include <stdlib.h>

enum { NODES_MAX = 1024 };

static int make_certs(struct cli *c, const char *dir, struct val nodes)
{
    struct authority *a = NULL;
    struct error err = { 0 };
    bool is_new = false;
    int64_t count = val_int(nodes);
    enum errc rc = authority_open(&a, dir, &is_new, &err);

    for (int64_t i = 1; rc == OK && i <= count; i++)
        rc = authority_issue(a, arena_printf(c->arena, "n%lld", (long long)i), &err);
    authority_close(a);
    if (rc != OK)
        return cli_fail("%s", err.text);
    printf("%s %s/ca.crt; certificates of n1 to n%lld are in %s/n1 to %s/n%lld (--certs)\n",
           is_new ? "made the authority" : "used the authority", dir, (long long)count, dir, dir,
           (long long)count);
    return EXIT_DONE;
}

static void print_node(struct val n)
{
    char rtt[32] = "-";

    if (!val_is_null(val_get(n, slice_str("rttMs"))))
        snprintf(rtt, sizeof rtt, "%.2f ms", val_double(val_get(n, slice_str("rttMs"))));
    struct slice boot = val_string(val_get(n, slice_str("boot")));
    printf("%-12.*s %-11.*s %6lld %10s  %-18.*s %-22.*s %.*s\n",
           SLICE_ARG(val_string(val_get(n, slice_str("id")))),
           SLICE_ARG(val_string(val_get(n, slice_str("state")))),
           (long long)val_int(val_get(n, slice_str("slots"))), rtt, SLICE_ARG(boot),
           SLICE_ARG(val_string(val_get(n, slice_str("cluster")))),
           SLICE_ARG(val_string(val_get(n, slice_str("public")))));
    struct slice breaker = val_string(val_get(n, slice_str("breaker")));
    if (breaker.len && !slice_is(breaker, "closed"))
        printf("%-12s its circuit breaker is %.*s\n", "", SLICE_ARG(breaker));
    struct slice why = val_string(val_get(n, slice_str("why")));
    if (why.len)
        printf("%-12s %.*s\n", "", SLICE_ARG(why));
}

static int show_status(struct cli *c)
{
    struct val answer;

    if (!cli_call(c, "GET", "/_admin/cluster", VAL_NONE, &answer))
        return EXIT_FAILED;
    if (c->is_json) {
        cli_print_val(answer, true);
        return EXIT_DONE;
    }
    struct val nodes = val_get(answer, slice_str("nodes"));
    printf("cluster %.*s seen from %.*s, epoch %lld, etcd %s, data %.*s\n",
           SLICE_ARG(val_string(val_get(answer, slice_str("cluster")))),
           SLICE_ARG(val_string(val_get(answer, slice_str("node")))),
           (long long)val_int(val_get(answer, slice_str("epoch"))),
           val_bool(val_get(answer, slice_str("etcd"))) ? "reachable" : "NOT REACHABLE",
           SLICE_ARG(val_string(val_get(answer, slice_str("data")))));
    printf("%-12s %-11s %6s %10s  %-18s %-22s %s\n", "NODE", "STATE", "SLOTS", "RTT", "BOOT",
           "CLUSTER", "PUBLIC");
    for (size_t i = 0; i < val_count(nodes); i++)
        print_node(val_at(nodes, i));
    return EXIT_DONE;
}

static int run(struct cli *c, int argc, char **argv)
{
    struct val nodes = cli_number_option(c, &argc, argv, "--nodes");

    cli_no_options(argc, argv);
    if (argc == 2 && !strcmp(argv[0], "certs")) {
        if (val_is_null(nodes) || val_int(nodes) > NODES_MAX)
            return cli_misuse("certs needs --nodes N, 1 to %d", NODES_MAX);
        return make_certs(c, argv[1], nodes);
    }
    if (!val_is_null(nodes))
        return cli_misuse("--nodes is for certs");
    if (argc == 1 && !strcmp(argv[0], "status"))
        return show_status(c);
    return cli_misuse_of(&command_cluster);
}

static const struct command_option options[] = {
    { "--nodes", "N", "For certs: how many nodes; they are called n1, n2 and so on." },
    { NULL, NULL, NULL },
};

const struct command command_cluster = {
    .name = "cluster",
    .arguments = "[status | certs DIR]",
    .help = "Shows the nodes of a cluster, or makes certificates for them.",
    .run = run,
    .options = options,
    .words = "status certs",
    .about =
        "certs makes an authority in DIR (or uses the one there) and a directory for each node "
        "with what themisd takes with --certs. Certificates of nodes hold a year; run it again "
        "to renew them: nodes that run read them again by themselves.",
};
