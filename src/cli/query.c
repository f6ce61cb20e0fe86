/* SPDX-License-Identifier: Apache-2.0 */
/* themis query: one AQL, or a prompt that reads them. */
#include "base/val_text.h"
#include "cli/cli.h"
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUERY_BYTES_MAX = 16 * MIB };

static const char *prompt(EditLine *el)
{
    (void)el;
    return "aql> ";
}

static void print_stats(struct cli *c, struct val answer, size_t rows)
{
    struct val extra = val_get(answer, slice_str("extra"));
    struct val warnings = val_get(extra, slice_str("warnings"));
    struct val stats = val_get(extra, slice_str("stats"));

    for (size_t i = 0; i < val_count(warnings); i++)
        fprintf(stderr, "warning %lld: %.*s\n",
                (long long)val_int(val_get(val_at(warnings, i), slice_str("code"))),
                SLICE_ARG(val_string(val_get(val_at(warnings, i), slice_str("message")))));
    if (!c->is_json && c->is_tty)
        fprintf(stderr, "%zu rows, %.1f ms, %lld written\n", rows,
                val_double(val_get(stats, slice_str("executionTime"))) * 1000,
                (long long)val_int(val_get(stats, slice_str("writesExecuted"))));
}

static bool run_query(struct cli *c, const char *text, struct val bind)
{
    static const char *const names[] = { "query", "bindVars", "batchSize" };
    struct val values[] = { cli_text(c, text), bind, val_new_int(c->arena, 1000) };
    struct val answer, first;
    size_t rows = 0;

    if (!cli_call(c, "POST", "/_api/cursor", cli_object(c, names, values, ARRAY_LEN(names)),
                  &answer))
        return false;
    first = answer;
    for (;;) {
        struct val batch = val_get(answer, slice_str("result"));
        rows += val_count(batch);
        cli_print_rows(c, batch);
        if (!val_bool(val_get(answer, slice_str("hasMore"))))
            break;
        const char *path = arena_printf(c->arena, "/_api/cursor/%.*s",
                                        SLICE_ARG(val_string(val_get(answer, slice_str("id")))));
        if (!cli_call(c, "POST", path, VAL_NONE, &answer))
            return false;
    }
    print_stats(c, first, rows);
    return true;
}

static int repl(struct cli *c)
{
    EditLine *el = el_init("themis", stdin, stdout, stderr);
    History *past = history_init();
    HistEvent event;
    const char *line;
    int len;

    history(past, &event, H_SETSIZE, 1000);
    el_set(el, EL_PROMPT, prompt);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_HIST, history, past);
    fprintf(stderr, "AQL at %s; an empty line or Ctrl-D ends.\n", c->url);
    while ((line = el_gets(el, &len)) && len > 1) {
        history(past, &event, H_ENTER, line);
        run_query(c, line, VAL_NONE);
    }
    history_end(past);
    el_end(el);
    return EXIT_DONE;
}

static int run(struct cli *c, int argc, char **argv)
{
    const char *bind_text = cli_option(&argc, argv, "--bind");
    struct val bind = VAL_NONE;
    struct error err = { 0 };
    struct buf text;

    cli_no_options(argc, argv);
    if (bind_text && val_parse(slice_str(bind_text), c->arena, &bind, &err) != OK)
        return cli_misuse("--bind takes a JSON object: %s", err.text);
    if (argc > 1)
        return cli_misuse("the query must be one argument: quote it");
    if (!argc && isatty(STDIN_FILENO))
        return repl(c);
    if (argc)
        return run_query(c, argv[0], bind) ? EXIT_DONE : EXIT_FAILED;
    buf_init(&text, 0);
    bool is_ok = cli_read_all(STDIN_FILENO, QUERY_BYTES_MAX, &text, &err) == OK;
    if (is_ok)
        is_ok = run_query(c, buf_cstr(&text), bind);
    else
        cli_fail("standard input: %s", err.text);
    buf_release(&text);
    return is_ok ? EXIT_DONE : EXIT_FAILED;
}

const struct command command_query = { "query", "[AQL] [--bind JSON]",
                                       "Runs a query, or reads queries from a prompt.", run };
