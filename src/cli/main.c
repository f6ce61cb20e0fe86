/* SPDX-License-Identifier: Apache-2.0 */
/* themis: the shell's command line. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_ask,     &command_backup,  &command_chat,   &command_check,
    &command_convert, &command_embed,   &command_import, &command_model,
    &command_query,   &command_restore, &command_status,
};

static void print_usage(FILE *to)
{
    fprintf(to, "usage: themis [--url URL] [--cacert FILE] [--db NAME] [--json] COMMAND ...\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(to, "  %-8s %-44s %s\n", commands[i]->name, commands[i]->usage, commands[i]->help);
    fprintf(to, "\nThe server is http://127.0.0.1:8765 unless --url or THEMIS_URL says otherwise.\n"
                "For https, FILE (or THEMIS_CACERT) names the authorities to trust instead of the "
                "system's.\n"
                "THEMIS_USER, THEMIS_PASSWORD and THEMIS_API_KEY are used when set.\n");
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

static int run(struct cli *c, const struct command *command, int argc, char **argv)
{
    struct error err = { 0 };
    struct http_client_options opt = { .url = c->url,
                                       .ca_file = c->ca_file,
                                       .user = getenv("THEMIS_USER"),
                                       .password = getenv("THEMIS_PASSWORD"),
                                       .api_key = getenv("THEMIS_API_KEY") };

    if (http_client_new(&c->client, &opt, &err) != OK)
        return cli_misuse("%s", err.text);
    c->arena = arena_new(0);
    int code = command->run(c, argc, argv);
    arena_free(c->arena);
    http_client_free(c->client);
    if (fflush(stdout) && code == EXIT_DONE)
        code = EXIT_FAILED;
    return code;
}

int main(int argc, char **argv)
{
    struct cli c = { .url = getenv("THEMIS_URL"),
                     .ca_file = getenv("THEMIS_CACERT"),
                     .is_tty = isatty(STDOUT_FILENO) };
    const char *value;

    argc--, argv++;
    if ((value = cli_option(&argc, argv, "--url")))
        c.url = value;
    if ((value = cli_option(&argc, argv, "--cacert")))
        c.ca_file = value;
    if (c.ca_file && !*c.ca_file)
        c.ca_file = NULL;
    c.db = cli_option(&argc, argv, "--db");
    c.is_json = cli_flag(&argc, argv, "--json");
    if (!c.url || !*c.url)
        c.url = "http://127.0.0.1:8765";
    if (argc == 0 || !strcmp(argv[0], "--help") || !strcmp(argv[0], "help")) {
        print_usage(argc ? stdout : stderr);
        return argc ? EXIT_DONE : EXIT_MISUSE;
    }
    if (!strcmp(argv[0], "--version")) {
        puts("themis 0.1.0");
        return EXIT_DONE;
    }
    const struct command *command = find_command(argv[0]);
    if (!command)
        return cli_misuse("unknown command '%s'", argv[0]);
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        printf("usage: themis %s %s\n%s\n", command->name, command->usage, command->help);
        return EXIT_DONE;
    }
    return run(&c, command, argc - 1, argv + 1);
}
