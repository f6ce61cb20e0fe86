/* SPDX-License-Identifier: Apache-2.0 */
/* themis: the shell's command line. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void print_usage(FILE *to)
{
    const struct command *command;

    fputs("usage: themis [OPTION]... COMMAND ...\n\n", to);
    for (size_t i = 0; (command = command_at(i)); i++)
        fprintf(to, "  %-8s %s\n", command->name, command->help);
    fputc('\n', to);
    for (const struct command_option *o = command_globals; o->name; o++)
        fprintf(to, "  %s %-*s %s\n", o->name, 18 - (int)strlen(o->name), o->value ? o->value : "",
                o->help);
    fputs("\nTHEMIS_USER, THEMIS_PASSWORD and THEMIS_API_KEY are used when set.\n"
          "'themis COMMAND --help' tells more.\n",
          to);
}

static int print_help(const struct command *command)
{
    struct buf usage;

    buf_init(&usage, 0);
    command_usage(command, &usage);
    printf("usage: themis %s\n%s\n", buf_cstr(&usage), command->help);
    for (const struct command_option *o = command->options; o && o->name; o++)
        printf("  %s %-*s %s\n", o->name, 18 - (int)strlen(o->name), o->value ? o->value : "",
               o->help);
    if (command->about)
        printf("\n%s\n", command->about);
    buf_release(&usage);
    return EXIT_DONE;
}

static int print_completion(const char *shell)
{
    struct buf text;

    buf_init(&text, 0);
    bool is_known = command_completion(shell, &text);
    if (is_known)
        fwrite(text.ptr, 1, text.len, stdout);
    buf_release(&text);
    return is_known ? EXIT_DONE : cli_misuse("--completion is for bash or zsh (got '%s')", shell);
}

static int run(struct cli *c, const struct command *command, int argc, char **argv)
{
    struct error err = { 0 };
    struct http_client_options opt = { .url = c->url,
                                       .ca_file = c->ca_file,
                                       .user = getenv("THEMIS_USER"),
                                       .password = getenv("THEMIS_PASSWORD"),
                                       .api_key = getenv("THEMIS_API_KEY"),
                                       .cancel = &cli_is_interrupted };

    if (http_client_new(&c->client, &opt, &err) != OK)
        return cli_misuse("%s", err.text);
    c->arena = arena_new(0);
    command_begin(command);
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
    if ((value = cli_option(&argc, argv, "--completion")))
        return print_completion(value);
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
    const struct command *command = command_find(argv[0]);
    if (!command)
        return cli_misuse("unknown command '%s'", argv[0]);
    if (argc > 1 && !strcmp(argv[1], "--help"))
        return print_help(command);
    return run(&c, command, argc - 1, argv + 1);
}
