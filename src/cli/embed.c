/* SPDX-License-Identifier: Apache-2.0 */
/* themis embed: texts to vectors, one JSON array a line. */
#include "cli/cli.h"

static int run(struct cli *c, int argc, char **argv)
{
    static const char *const names[] = { "model", "input" };
    const char *model = cli_option(&argc, argv, "--model");
    struct val answer;

    cli_no_options(argc, argv);
    if (!argc)
        return cli_misuse_of(&command_embed);
    struct val *texts = arena_alloc(c->arena, (size_t)argc * sizeof *texts);
    for (int i = 0; i < argc; i++)
        texts[i] = cli_text(c, argv[i]);
    struct val values[] = { model ? cli_text(c, model) : VAL_NONE,
                            val_new_array(c->arena, texts, (size_t)argc) };
    if (!cli_call(c, "POST", "/v1/embeddings", cli_object(c, names, values, ARRAY_LEN(names)),
                  &answer))
        return EXIT_FAILED;
    if (c->is_json) {
        cli_print_val(answer, false);
        return EXIT_DONE;
    }
    struct val data = val_get(answer, slice_str("data"));
    for (size_t i = 0; i < val_count(data); i++)
        cli_print_val(val_get(val_at(data, i), slice_str("embedding")), false);
    return EXIT_DONE;
}

static const struct command_option options[] = {
    { "--model", "MODEL", "Which of the loaded models; the first of its kind unless given." },
    { NULL, NULL, NULL },
};

const struct command command_embed = {
    .name = "embed",
    .arguments = "TEXT...",
    .help = "Prints the vectors of texts, one a line.",
    .run = run,
    .options = options,
};
