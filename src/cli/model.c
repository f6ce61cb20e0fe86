/* SPDX-License-Identifier: Apache-2.0 */
/* themis model: what is loaded; loads, unloads, adds and removes. */
#include "cli/model.h"
#include <stdio.h>
#include <stdlib.h>

static double mib_of(struct val m, const char *name)
{
    return val_double(val_get(m, slice_str(name))) / MIB;
}

static void print_model(struct val m)
{
    struct slice kind = val_string(val_get(m, slice_str("kind")));
    struct slice sha256 = val_string(val_get(m, slice_str("sha256")));
    char memory[32] = "";

    if (!val_is_null(val_get(m, slice_str("memory_bytes"))))
        snprintf(memory, sizeof memory, "%.0f MiB", mib_of(m, "memory_bytes"));
    printf("%-16.*s %-10.*s %-9.*s %10s %-13.*s %.*s\n",
           SLICE_ARG(val_string(val_get(m, slice_str("id")))),
           SLICE_ARG(val_string(val_get(m, slice_str("status")))), SLICE_ARG(kind), memory,
           (int)(sha256.len < 12 ? sha256.len : 12), sha256.ptr,
           SLICE_ARG(val_string(val_get(m, slice_str("description")))));
}

static int list(struct cli *c)
{
    struct val answer, rows;

    if (!cli_call(c, "GET", "/v1/models?all=true", VAL_NONE, &answer))
        return EXIT_FAILED;
    if (c->is_json) {
        cli_print_val(answer, true);
        return EXIT_DONE;
    }
    rows = val_get(answer, slice_str("data"));
    printf("%-16s %-10s %-9s %10s %-13s %s\n", "NAME", "STATUS", "KIND", "MEMORY", "SHA-256",
           "DESCRIPTION");
    for (size_t i = 0; i < val_count(rows); i++)
        print_model(val_at(rows, i));
    return EXIT_DONE;
}

static int change(struct cli *c, const char *method, const char *name, const char *tail)
{
    struct val answer;
    struct buf path;

    buf_init(&path, 0);
    buf_add_str(&path, "/v1/models/");
    url_encode(slice_str(name), &path);
    buf_add_str(&path, tail);
    bool is_done = cli_call(c, method, buf_cstr(&path), VAL_NONE, &answer);
    buf_release(&path);
    if (is_done)
        cli_print_val(answer, c->is_json);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

static int unload(struct cli *c, const char *name, const char *drain_ms)
{
    char tail[64];

    if (!drain_ms)
        return change(c, "POST", name, "/unload");
    if (!*drain_ms || strlen(drain_ms) > 9 || drain_ms[strspn(drain_ms, "0123456789")])
        return cli_misuse("--drain-ms takes a whole number of milliseconds, not '%s'", drain_ms);
    snprintf(tail, sizeof tail, "/unload?drain_ms=%s", drain_ms);
    return change(c, "POST", name, tail);
}

static int run(struct cli *c, int argc, char **argv)
{
    const char *name = cli_option(&argc, argv, "--name");
    const char *drain_ms = cli_option(&argc, argv, "--drain-ms");
    const char *quantize = cli_option(&argc, argv, "--quantize");
    const char *what = argc ? argv[0] : "list";

    cli_no_options(argc, argv);
    if (name && (strcmp(what, "add") || argc != 2))
        return cli_misuse("--name is for one added file");
    if (quantize && strcmp(what, "add"))
        return cli_misuse("--quantize is for add");
    if (drain_ms && strcmp(what, "unload"))
        return cli_misuse("--drain-ms is for unload");
    if (argc <= 1 && !strcmp(what, "list"))
        return list(c);
    if (argc == 2 && !strcmp(what, "load"))
        return change(c, "POST", argv[1], "/load");
    if (argc == 2 && !strcmp(what, "unload"))
        return unload(c, argv[1], drain_ms);
    if (argc == 2 && !strcmp(what, "remove"))
        return change(c, "DELETE", argv[1], "");
    if (argc >= 2 && !strcmp(what, "add"))
        return model_add(c, argc - 1, argv + 1, &(struct model_add_options){ name, quantize });
    return cli_misuse_of(&command_model);
}

static const struct command_option options[] = {
    { "--name", "NAME", "What one added file is called; from its own name unless given." },
    { "--quantize", "TYPE", "Added files get weights of this type first, for example Q8_0." },
    { "--drain-ms", "N", "How long unloading waits for running requests." },
    { NULL, NULL, NULL },
};

const struct command command_model = {
    .name = "model",
    .arguments = "[list | load NAME | unload NAME | remove NAME | add FILE.gguf|DIR...]",
    .help = "Models of the node: lists, loads, unloads, removes, adds.",
    .run = run,
    .options = options,
    .words = "list load unload remove add",
    .about = "An added model is kept by the server and loaded again when it starts. Removing takes "
             "its file away; unloading gives its memory back until it is loaded again.",
};
