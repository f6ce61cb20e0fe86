/* SPDX-License-Identifier: Apache-2.0 */
/* themis status: what a node is doing, on one screen. */
#include "cli/cli.h"
#include <stdio.h>

static int64_t number(struct val v, const char *group, const char *name)
{
    return val_int(val_get(val_get(v, slice_str(group)), slice_str(name)));
}

static void print_models(struct val models)
{
    for (size_t i = 0; i < val_count(models); i++) {
        struct val m = val_at(models, i);
        printf("  %-12.*s %-10.*s %.*s%s\n", SLICE_ARG(val_string(val_get(m, slice_str("name")))),
               SLICE_ARG(val_string(val_get(m, slice_str("kind")))),
               SLICE_ARG(val_string(val_get(m, slice_str("description")))),
               val_bool(val_get(m, slice_str("ready"))) ? "" : " (not ready)");
    }
}

static int ask_readiness(struct cli *c)
{
    struct val answer;

    if (!cli_call(c, "GET", "/readyz", VAL_NONE, &answer))
        return EXIT_FAILED;
    printf("%.*s\n", SLICE_ARG(val_string(val_get(answer, slice_str("status")))));
    return EXIT_DONE;
}

static int run(struct cli *c, int argc, char **argv)
{
    bool is_short = cli_flag(&argc, argv, "--ready");
    struct val answer;

    cli_no_options(argc, argv);
    if (argc)
        return cli_misuse_of(&command_status);
    if (is_short)
        return ask_readiness(c);
    if (!cli_call(c, "GET", "/_admin/status", VAL_NONE, &answer))
        return EXIT_FAILED;
    if (c->is_json) {
        cli_print_val(answer, true);
        return EXIT_DONE;
    }
    struct val t = val_get(answer, slice_str("themis"));
    printf("themis %.*s at %s, up %.0f s, %lld requests\n",
           SLICE_ARG(val_string(val_get(t, slice_str("version")))), c->url,
           val_double(val_get(t, slice_str("uptimeSeconds"))),
           (long long)val_int(val_get(t, slice_str("requests"))));
    printf("store      %lld commits, %lld conflicts, %.1f MB on disk\n",
           (long long)number(t, "store", "commits"), (long long)number(t, "store", "conflicts"),
           (double)number(t, "store", "diskBytes") / 1e6);
    printf("workers    %lld of %lld busy, %lld queued\n", (long long)number(t, "workers", "busy"),
           (long long)number(t, "workers", "threads"), (long long)number(t, "workers", "queued"));
    printf("inference  %lld running, %lld waiting, %lld tokens in, %lld out, %lld from cache\n",
           (long long)number(t, "inference", "running"),
           (long long)number(t, "inference", "waiting"),
           (long long)number(t, "inference", "promptTokens"),
           (long long)number(t, "inference", "completionTokens"),
           (long long)number(t, "inference", "cachedTokens"));
    printf("models\n");
    print_models(val_get(t, slice_str("models")));
    return EXIT_DONE;
}

static const struct command_option options[] = {
    { "--ready", NULL, "Asks only whether it is ready, which needs no credentials; status 1: no." },
    { NULL, NULL, NULL },
};

const struct command command_status = {
    .name = "status",
    .arguments = "",
    .help = "Shows what the node is doing, on one screen.",
    .run = run,
    .options = options,
};
