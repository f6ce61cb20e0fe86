/* SPDX-License-Identifier: Apache-2.0 */
/* themis query: statements from the command line, from a file, or from a prompt. */
#include "cli/query.h"
#include "base/val_text.h"
#include "cli/statement.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUERY_BYTES_MAX = 16 * MIB };

static void print_stats(struct cli *c, struct val extra, size_t rows)
{
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

/* Rows that nobody wants to see any more. */
static void drop_cursor(struct cli *c, const char *path)
{
    struct val ignored;
    const char *why;

    atomic_store(&cli_is_interrupted, false);
    cli_try(c, "DELETE", path, VAL_NONE, &ignored, &why);
    cli_fail("interrupted");
}

/* The batches behind the first, each in the memory of the one before. */
static bool print_rest(struct cli *c, struct val first, size_t *rows)
{
    struct val answer = first;
    const char *path = arena_printf(c->arena, "/_api/cursor/%.*s",
                                    SLICE_ARG(val_string(val_get(first, slice_str("id")))));
    struct arena_mark mark = arena_mark(c->arena);

    while (val_bool(val_get(answer, slice_str("hasMore")))) {
        if (atomic_load(&cli_is_interrupted)) {
            drop_cursor(c, path);
            return false;
        }
        arena_rewind(c->arena, mark);
        if (!cli_call(c, "POST", path, VAL_NONE, &answer))
            return false;
        *rows += val_count(val_get(answer, slice_str("result")));
        cli_print_rows(c, val_get(answer, slice_str("result")));
    }
    return true;
}

bool query_session_run(struct query_session *s, struct slice text)
{
    static const char *const names[] = { "query", "bindVars", "batchSize" };
    struct cli *c = s->c;
    struct arena_mark mark = arena_mark(c->arena);
    struct val values[] = { val_new_string(c->arena, text), s->bind, val_new_int(c->arena, 1000) };
    struct val answer;
    bool is_ok = cli_call(c, "POST", "/_api/cursor", cli_object(c, names, values, ARRAY_LEN(names)),
                          &answer);

    if (is_ok) {
        size_t rows = val_count(val_get(answer, slice_str("result")));
        cli_print_rows(c, val_get(answer, slice_str("result")));
        is_ok = print_rest(c, answer, &rows);
        fflush(stdout);
        if (is_ok)
            print_stats(c, val_get(answer, slice_str("extra")), rows);
    }
    arena_rewind(c->arena, mark);
    return is_ok;
}

bool query_session_explain(struct query_session *s, struct slice text)
{
    static const char *const names[] = { "query", "bindVars" };
    struct cli *c = s->c;
    struct arena_mark mark = arena_mark(c->arena);
    struct val values[] = { val_new_string(c->arena, text), s->bind };
    struct val answer;
    bool is_ok = cli_call(c, "POST", "/_api/explain",
                          cli_object(c, names, values, ARRAY_LEN(names)), &answer);

    if (is_ok && c->is_json)
        cli_print_val(answer, true);
    else if (is_ok)
        plan_text_print(answer);
    arena_rewind(c->arena, mark);
    return is_ok;
}

/* The first that fails is the last. */
static bool run_all(struct query_session *s, struct slice text, bool explains)
{
    bool is_ok = true;

    while (is_ok && text.len) {
        struct statement one = statement_first(text);
        struct slice query = slice_of(text.ptr, one.len);
        if (one.state != STATEMENT_EMPTY)
            is_ok = explains ? query_session_explain(s, query) : query_session_run(s, query);
        text = slice_of(text.ptr + one.used, text.len - one.used);
    }
    return is_ok;
}

static int run_file(struct query_session *s, bool explains)
{
    struct error err = { 0 };
    struct buf text;
    bool is_ok;

    buf_init(&text, 0);
    is_ok = cli_read_all(STDIN_FILENO, QUERY_BYTES_MAX, &text, &err) == OK;
    if (is_ok)
        is_ok = run_all(s, buf_slice(&text), explains);
    else
        cli_fail("standard input: %s", err.text);
    buf_release(&text);
    return is_ok ? EXIT_DONE : EXIT_FAILED;
}

static int run(struct cli *c, int argc, char **argv)
{
    const char *bind_text = cli_option(&argc, argv, "--bind");
    bool explains = cli_flag(&argc, argv, "--explain");
    struct query_session s = { c, VAL_NONE };
    struct error err = { 0 };

    cli_no_options(argc, argv);
    if (bind_text && val_parse(slice_str(bind_text), c->arena, &s.bind, &err) != OK)
        return cli_misuse("--bind takes a JSON object: %s", err.text);
    if (bind_text && val_type(s.bind) != VAL_OBJECT)
        return cli_misuse("--bind takes a JSON object, for example '{\"name\": 1}'");
    if (argc > 1)
        return cli_misuse("the query must be one argument: quote it");
    if (argc)
        return run_all(&s, slice_str(argv[0]), explains) ? EXIT_DONE : EXIT_FAILED;
    if (!isatty(STDIN_FILENO))
        return run_file(&s, explains);
    if (explains)
        return cli_misuse("--explain needs a query; at the prompt, \\p shows plans");
    query_prompt(&s);
    return EXIT_DONE;
}

static const struct command_option options[] = {
    { "--bind", "JSON", "Values of the bind parameters, an object." },
    { "--explain", NULL, "Shows the plan instead of running it." },
    { NULL, NULL, NULL },
};

const struct command command_query = {
    .name = "query",
    .arguments = "[AQL]",
    .help = "Runs queries, from the command line, standard input or a prompt.",
    .run = run,
    .options = options,
    .about =
        "Several queries are separated by ';'; the first that fails is the last. Rows that are "
        "objects are shown as a table.\n\n"
        "Without a query and at a terminal it reads queries from a prompt: one ends with ';' or "
        "with an empty line. Ctrl-C gives up what is typed, or ends the query that runs; Ctrl-D "
        "leaves. \\h lists the commands of the prompt. The history is kept in "
        "$XDG_STATE_HOME/themis/history, or ~/.local/state/themis/history; a line that begins "
        "with a blank is not.",
};
