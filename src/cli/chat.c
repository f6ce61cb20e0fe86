/* SPDX-License-Identifier: Apache-2.0 */
/* themis chat: one message, or a conversation. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TURNS_MAX = 200 };

struct conversation {
    struct cli *c;
    struct val messages[TURNS_MAX];
    size_t count;
    struct buf answer;
};

static void add_message(struct conversation *k, const char *role, struct slice text)
{
    static const char *const names[] = { "role", "content" };
    struct val values[] = { cli_text(k->c, role), val_new_string(k->c->arena, text) };

    k->messages[k->count++] = cli_object(k->c, names, values, ARRAY_LEN(names));
}

static bool on_event(void *ctx, struct val e)
{
    struct conversation *k = ctx;
    struct val choice = val_at(val_get(e, slice_str("choices")), 0);
    struct slice text =
        val_string(val_get(val_get(choice, slice_str("delta")), slice_str("content")));

    buf_add_slice(&k->answer, text);
    if (!k->c->is_json) {
        fwrite(text.ptr, 1, text.len, stdout);
        fflush(stdout);
    }
    return true;
}

static bool turn(struct conversation *k, const char *model, struct val max_tokens)
{
    static const char *const names[] = { "model", "messages", "stream", "max_tokens" };
    struct cli *c = k->c;
    struct val values[] = { model ? cli_text(c, model) : VAL_NONE,
                            val_new_array(c->arena, k->messages, k->count), val_true, max_tokens };

    buf_clear(&k->answer);
    if (!cli_events(c, "/v1/chat/completions", cli_object(c, names, values, ARRAY_LEN(names)),
                    on_event, k))
        return false;
    add_message(k, "assistant", buf_slice(&k->answer));
    if (c->is_json)
        cli_print_val(k->messages[k->count - 1], false);
    else
        putchar('\n');
    return true;
}

static int run(struct cli *c, int argc, char **argv)
{
    const char *model = cli_option(&argc, argv, "--model");
    const char *system = cli_option(&argc, argv, "--system");
    struct val max_tokens = cli_number_option(c, &argc, argv, "--max-tokens");
    struct conversation k = { .c = c };
    char line[16 * KIB];
    bool is_ok = true;

    cli_no_options(argc, argv);
    if (argc > 1)
        return cli_misuse_of(&command_chat);
    buf_init(&k.answer, 64 * MIB);
    if (system)
        add_message(&k, "system", slice_str(system));
    if (argc) {
        add_message(&k, "user", slice_str(argv[0]));
        is_ok = turn(&k, model, max_tokens);
    }
    while (!argc && k.count + 2 < TURNS_MAX) {
        if (isatty(STDIN_FILENO))
            fputs("> ", stderr);
        if (!fgets(line, sizeof line, stdin))
            break;
        line[strcspn(line, "\n")] = 0;
        if (!line[0])
            continue;
        add_message(&k, "user", slice_str(line));
        is_ok = turn(&k, model, max_tokens);
        if (!is_ok)
            k.count--;
    }
    buf_release(&k.answer);
    return is_ok ? EXIT_DONE : EXIT_FAILED;
}

static const struct command_option options[] = {
    { "--model", "MODEL", "Which of the loaded models; the first of its kind unless given." },
    { "--system", "TEXT", "The system message." },
    { "--max-tokens", "N", "Longest answer." },
    { NULL, NULL, NULL },
};

const struct command command_chat = {
    .name = "chat",
    .arguments = "['MESSAGE']",
    .help = "Talks to a model.",
    .run = run,
    .options = options,
    .about = "Without a message it reads one a line until end of file, as one conversation.",
};
