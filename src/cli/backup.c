/* SPDX-License-Identifier: Apache-2.0 */
/* themis backup: makes, lists and deletes backups of a running node, in its backup_dir. */
#include <stdio.h>

#include "cli/cli.h"

static bool call(struct cli *c, const char *what, const char *member, const char *value,
                 struct val *out)
{
    struct val v = value ? cli_text(c, value) : VAL_NONE;
    struct val body = cli_object(c, &member, &v, 1), answer;

    if (!cli_call(c, "POST", arena_printf(c->arena, "/_admin/backup/%s", what), body, &answer))
        return false;
    *out = val_get(answer, slice_str("result"));
    return true;
}

static int list(struct cli *c)
{
    struct val answer;

    if (!call(c, "list", "id", NULL, &answer))
        return EXIT_FAILED;
    struct val all = val_get(answer, slice_str("list"));
    if (c->is_json) {
        cli_print_val(all, true);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < val_count(all); i++) {
        struct val one = val_at(all, i);
        printf("%-40.*s %-11s", SLICE_ARG(val_name_at(all, i)),
               val_bool(val_get(one, slice_str("incremental"))) ? "incremental" : "full");
        if (val_bool(val_get(one, slice_str("available"))))
            printf(" %10.1f MB\n", (double)val_int(val_get(one, slice_str("sizeInBytes"))) / 1e6);
        else
            printf(" not usable: %.*s\n",
                   SLICE_ARG(val_string(val_get(one, slice_str("message")))));
    }
    return EXIT_DONE;
}

static int create(struct cli *c, const char *label, const char *parent, bool is_incremental)
{
    static const char *const names[] = { "label", "parent", "incremental" };
    struct val values[] = { label ? cli_text(c, label) : VAL_NONE,
                            parent ? cli_text(c, parent) : VAL_NONE,
                            is_incremental ? val_true : VAL_NONE };
    struct val answer;

    if (!cli_call(c, "POST", "/_admin/backup/create", cli_object(c, names, values, 3), &answer))
        return EXIT_FAILED;
    struct val made = val_get(answer, slice_str("result"));
    if (c->is_json)
        cli_print_val(made, true);
    else
        printf("%.*s: %lld files, %.1f MB\n", SLICE_ARG(val_string(val_get(made, slice_str("id")))),
               (long long)val_int(val_get(made, slice_str("nrFiles"))),
               (double)val_int(val_get(made, slice_str("sizeInBytes"))) / 1e6);
    return EXIT_DONE;
}

static int run(struct cli *c, int argc, char **argv)
{
    struct val ignored;
    const char *gone = cli_option(&argc, argv, "--delete");
    const char *parent = cli_option(&argc, argv, "--parent");
    bool is_list = cli_flag(&argc, argv, "--list");
    bool is_incremental = cli_flag(&argc, argv, "--incremental") || parent;

    cli_no_options(argc, argv);
    if (argc > 1 || (argc > 0 || is_incremental) + is_list + (gone != NULL) > 1)
        return cli_misuse_of(&command_backup);
    if (is_list)
        return list(c);
    if (gone)
        return call(c, "delete", "id", gone, &ignored) ? EXIT_DONE : EXIT_FAILED;
    return create(c, argc ? argv[0] : NULL, parent, is_incremental);
}

static const struct command_option options[] = {
    { "--incremental", NULL, "Holds only the commits since another backup." },
    { "--parent", "ID", "Which one that is; else the one that goes furthest." },
    { "--list", NULL, "Shows the backups that there are." },
    { "--delete", "ID", "Deletes one." },
    { NULL, NULL, NULL },
};

const struct command command_backup = {
    .name = "backup",
    .arguments = "[LABEL]",
    .help = "Makes a backup of the node while it runs.",
    .run = run,
    .options = options,
    .about = "Prints the id, which is the name of a folder under backup_dir of the server.",
};
