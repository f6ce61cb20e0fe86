/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of themis query: statements over several lines, and commands that begin with '\'. */
#include "cli/prompt.h"
#include "cli/query.h"
#include "cli/statement.h"
#include <signal.h>
#include <stdio.h>

enum { TYPED_BYTES_MAX = MIB };

struct shell {
    struct query_session *s;
    struct prompt *prompt;
    struct buf typed; /* of the statement, not whole yet */
    struct buf last;  /* the last statement that was run */
    bool is_over;
};

/* ---- commands ---- */

static void say_usage(struct shell *sh, struct slice argument);

static void leave(struct shell *sh, struct slice argument)
{
    (void)argument;
    sh->is_over = true;
}

static void show_collections(struct shell *sh)
{
    struct cli *c = sh->s->c;
    struct val answer;

    if (!cli_call(c, "GET", "/_api/collection?excludeSystem=true", VAL_NONE, &answer))
        return;
    struct val list = val_get(answer, slice_str("result"));
    for (size_t i = 0; i < val_count(list); i++) {
        struct val one = val_at(list, i);
        printf("%-30.*s %s\n", SLICE_ARG(val_string(val_get(one, slice_str("name")))),
               val_int(val_get(one, slice_str("type"))) == 3 ? "edges" : "documents");
    }
}

static void show_indexes(struct shell *sh, struct slice name)
{
    struct cli *c = sh->s->c;
    struct buf path;
    struct val answer;

    buf_init(&path, 0);
    buf_add_str(&path, "/_api/index?collection=");
    url_encode(name, &path);
    bool is_ok = cli_call(c, "GET", buf_cstr(&path), VAL_NONE, &answer);
    buf_release(&path);
    if (is_ok)
        cli_print_rows(c, val_get(answer, slice_str("indexes")));
}

static void describe(struct shell *sh, struct slice argument)
{
    if (argument.len)
        show_indexes(sh, argument);
    else
        show_collections(sh);
}

static void change_database(struct shell *sh, struct slice argument)
{
    struct cli *c = sh->s->c;
    const char *before = c->db;
    struct val answer;

    if (!argument.len) {
        printf("%s\n", c->db ? c->db : "_system");
        return;
    }
    c->db = arena_copy(c->arena, argument).ptr;
    if (!cli_call(c, "GET", "/_api/database/current", VAL_NONE, &answer))
        c->db = before;
}

static void show_plan(struct shell *sh, struct slice argument)
{
    struct statement one = statement_first(argument);
    struct slice query = slice_of(argument.ptr, one.len);

    if (one.state == STATEMENT_EMPTY)
        query = buf_slice(&sh->last);
    if (query.len)
        query_session_explain(sh->s, query);
    else
        cli_fail("there was no query yet");
}

static void switch_json(struct shell *sh, struct slice argument)
{
    (void)argument;
    sh->s->c->is_json = !sh->s->c->is_json;
    fprintf(stderr, "rows are shown %s\n", sh->s->c->is_json ? "as JSON" : "as a table");
}

static const struct {
    const char *name, *argument, *help;
    void (*run)(struct shell *sh, struct slice argument);
} commands[] = {
    { "\\c", "[DATABASE]", "goes to another database, or names this one", change_database },
    { "\\d", "[COLLECTION]", "lists the collections, or the indexes of one", describe },
    { "\\h", "", "this list", say_usage },
    { "\\j", "", "shows rows as JSON, or as a table again", switch_json },
    { "\\p", "[AQL]", "shows the plan of a query, or of the last one", show_plan },
    { "\\q", "", "leaves, as do Ctrl-D, exit and quit", leave },
};

static void say_usage(struct shell *sh, struct slice argument)
{
    (void)sh;
    (void)argument;
    puts("A query ends with ';' or with an empty line. Ctrl-C gives it up, also while it runs.");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf("  %s %-14s %s\n", commands[i].name, commands[i].argument, commands[i].help);
}

static struct slice trim(struct slice s)
{
    while (s.len && strchr(" \t", s.ptr[0]))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len && strchr(" \t", s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static void run_command(struct shell *sh, struct slice line)
{
    size_t len = 0;

    while (len < line.len && line.ptr[len] != ' ')
        len++;
    struct slice name = slice_of(line.ptr, len);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (!slice_is(name, commands[i].name))
            continue;
        commands[i].run(sh, trim(slice_of(line.ptr + len, line.len - len)));
        return;
    }
    cli_fail("unknown command '%.*s'; \\h lists them", SLICE_ARG(name));
}

/* ---- statements ---- */

/* Ctrl-C while a query runs; or just before the terminal gives it as a key. */
static void on_signal(int number)
{
    (void)number;
    atomic_store(&cli_is_interrupted, true);
}

static void run_statement(struct shell *sh, struct slice text)
{
    buf_clear(&sh->last);
    buf_add_slice(&sh->last, text);
    atomic_store(&cli_is_interrupted, false);
    query_session_run(sh->s, text);
}

/* An entry has one line; a comment to the end of its line would swallow the next. */
static void remember(struct shell *sh, struct slice text, bool has_line_comment)
{
    struct buf entry;

    if (text.len && text.ptr[0] == ' ')
        return;
    buf_init(&entry, 0);
    buf_add_slice(&entry, trim(text));
    for (size_t i = 0; i < entry.len; i++)
        if (entry.ptr[i] == '\n' && !has_line_comment)
            entry.ptr[i] = ' ';
    for (struct slice rest = buf_slice(&entry); rest.len;) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        prompt_remember(sh->prompt, slice_of(rest.ptr, len));
        rest = slice_of(rest.ptr + len + (end != NULL), rest.len - len - (end != NULL));
    }
    buf_release(&entry);
}

/* Runs what is whole of what was typed; with is_forced also what has no ';'. */
static void run_typed(struct shell *sh, bool is_forced)
{
    struct slice rest = buf_slice(&sh->typed);
    bool is_known = false;

    while (rest.len) {
        struct statement one = statement_first(rest);
        bool is_whole = one.state == STATEMENT_WHOLE || (is_forced && one.state == STATEMENT_MORE);
        if (!is_whole && one.state != STATEMENT_EMPTY)
            break;
        if (!is_known && is_whole)
            remember(sh, rest, statement_first(rest).has_line_comment);
        is_known |= is_whole;
        if (is_whole)
            run_statement(sh, slice_of(rest.ptr, one.len));
        rest = slice_of(rest.ptr + one.used, rest.len - one.used);
    }
    struct buf left;
    buf_init(&left, TYPED_BYTES_MAX);
    buf_add_slice(&left, rest);
    buf_release(&sh->typed);
    sh->typed = left;
}

static void take_line(struct shell *sh, struct slice line)
{
    struct slice words = trim(line);

    if (!sh->typed.len && words.len && words.ptr[0] == '\\') {
        prompt_remember(sh->prompt, line);
        run_command(sh, words);
    } else if (!sh->typed.len && (slice_is(words, "exit") || slice_is(words, "quit"))) {
        sh->is_over = true;
    } else if (words.len || sh->typed.len) {
        bool is_forced = !words.len; /* an empty line ends it, unless inside a string */
        if (sh->typed.len)
            buf_add_char(&sh->typed, '\n');
        buf_add_slice(&sh->typed, line);
        if (sh->typed.is_overfull) {
            cli_fail("a statement has at most %d bytes here", TYPED_BYTES_MAX);
            buf_clear(&sh->typed);
        }
        run_typed(sh, is_forced);
    }
}

void query_prompt(struct query_session *s)
{
    struct shell sh = { .s = s, .prompt = prompt_open() };
    struct sigaction mine = { .sa_handler = on_signal }, before;
    struct cli *c = s->c;
    enum typed typed;
    struct slice line;

    sigemptyset(&mine.sa_mask);
    sigaction(SIGINT, &mine, &before);

    buf_init(&sh.typed, TYPED_BYTES_MAX);
    buf_init(&sh.last, 0);
    fprintf(stderr, "AQL at %s; end a query with ';' or an empty line, \\h for help.\n", c->url);
    do {
        const char *text = sh.typed.len ? "...> "
                           : c->db      ? arena_printf(c->arena, "%s> ", c->db)
                                        : "aql> ";
        atomic_store(&cli_is_interrupted, false);
        typed = prompt_line(sh.prompt, text, &line);
        if (typed == TYPED_END && atomic_load(&cli_is_interrupted))
            typed = TYPED_CANCEL;
        if (typed == TYPED_LINE)
            take_line(&sh, line);
        else if (typed == TYPED_CANCEL)
            buf_clear(&sh.typed);
    } while (typed != TYPED_END && !sh.is_over);
    buf_release(&sh.typed);
    buf_release(&sh.last);
    prompt_close(sh.prompt);
    sigaction(SIGINT, &before, NULL);
}
