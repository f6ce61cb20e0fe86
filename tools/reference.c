/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference PAGE: prints a page of the reference from the tables that the
 * programs themselves use. As Markdown: settings, functions, routes, errors; as
 * manual pages: themis.1, themisd.8.
 */
#include <stdio.h>

#include "base/settings.h"
#include "cli/command.h"
#include "query/fn.h"
#include "server/router.h"
#include "server/server.h"

static void head(const char *title, const char *columns, const char *rule)
{
    printf("# %s\n\nGenerated from the source by `make docs`.\n\n%s\n%s\n", title, columns, rule);
}

/* Text of a cell: a bar would end it. */
static void cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void row_end(const char *help)
{
    printf(" | ");
    cell(help);
    printf(" |\n");
}

static void print_settings(void)
{
    head("Settings", "| name | type | default | range | meaning |", "|---|---|---|---|---|");
#define SETTING_INT(name, def, min, max, unit, help)                                               \
    printf("| `" #name "` | integer, " unit " | " #def " | " #min " to " #max);                    \
    row_end(help);
#define SETTING_DOUBLE(name, def, min, max, unit, help)                                            \
    printf("| `" #name "` | number, " unit " | " #def " | " #min " to " #max);                     \
    row_end(help);
#define SETTING_BOOL(name, def, help)                                                              \
    printf("| `" #name "` | on or off | " #def " | ");                                             \
    row_end(help);
#define SETTING_STRING(name, def, help)                                                            \
    printf("| `" #name "` | text | " #def " | ");                                                  \
    row_end(help);
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
}

static const char *type_name(char type)
{
    switch (type) {
    case 'a':
        return "array";
    case 'A':
        return "array or null";
    case 'n':
        return "array, null gives null";
    case 'o':
        return "object";
    case 's':
        return "string";
    default:
        return "any";
    }
}

static void print_arguments(const struct fn *fn)
{
    if (fn->max_args < 0)
        printf("%d or more", fn->min_args);
    else if (fn->min_args == fn->max_args)
        printf("%d", fn->min_args);
    else
        printf("%d to %d", fn->min_args, fn->max_args);
    for (const char *t = fn->types; *t; t++)
        printf("%s%s", t == fn->types ? ": " : ", ", type_name(*t));
}

static void print_functions(void)
{
    head("AQL functions", "| function | arguments | folded | meaning |", "|---|---|---|---|");
    for (size_t i = 0; fn_at(i); i++) {
        const struct fn *fn = fn_at(i);
        printf("| `%s` | ", fn->name);
        print_arguments(fn);
        printf(" | %s", fn->flags & FN_PURE     ? "when planned"
                        : fn->flags & FN_STABLE ? "once per query"
                                                : "");
        row_end(fn->help);
    }
}

static const char *role_name(enum role role)
{
    return role == ROLE_NONE ? "nobody" : role == ROLE_USER ? "a user" : "an administrator";
}

static void print_routes(void)
{
    head("Routes", "| methods | path | parameters | credentials of | in a transaction | meaning |",
         "|---|---|---|---|---|---|");
    for (size_t i = 0; router_row(i); i++) {
        const struct route *r = router_row(i);
        size_t path = strcspn(r->path, "?");
        char methods[64];
        router_allow_text(r->methods, methods, sizeof methods);
        printf("| %s | `%.*s` | ", methods, (int)path, r->path);
        for (const char *p = r->path + path; *p; p++) { /* ?a&b */
            if (*p == '&')
                printf(", ");
            else if (*p != '?')
                putchar(*p);
        }
        printf(" | %s | %s", role_name(r->role), r->runs_on == ON_POOL_TRX ? "yes" : "");
        row_end(r->help);
    }
}

static void print_errors(void)
{
    static const struct {
        int num, http;
        const char *text;
    } rows[] = {
#define ERRNUM(num, code, http, text) { num, http, text },
#include "base/errnum.def"
#undef ERRNUM
    };
    head("Error numbers", "| errorNum | HTTP status | meaning |", "|---|---|---|");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        printf("| %d | %d", rows[i].num, rows[i].http);
        row_end(rows[i].text);
    }
}

/* ---- manual pages: roff with the man macros ---- */

/* A dot or quote that begins a line would be a request, a backslash an escape, '-' a hyphen. */
static void roff(const char *text)
{
    bool begins = true;

    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\'')
            fputs("\\(aq", stdout);
        else if (*text == '~')
            fputs("\\(ti", stdout);
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

/* Empty lines separate paragraphs. */
static void roff_paragraphs(const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        char one[2048];
        snprintf(one, sizeof one, "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
        puts(".PP");
        roff(one);
        putchar('\n');
        text = end ? end + 2 : "";
    }
}

static void roff_head(const char *name, int section, const char *help, const char *usage)
{
    printf(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" Made by tools/docs.sh from the tables in "
           "the source.\n.TH %s %d \"\" \"themis %s\"\n.SH NAME\n%s \\- ",
           name, section, THEMIS_VERSION, name);
    roff(help);
    printf("\n.SH SYNOPSIS\n.B %s\n", name);
    roff(usage);
    putchar('\n');
}

static void roff_option(const char *name, const char *value, const char *help)
{
    fputs(".TP\n.B ", stdout);
    roff(name);
    if (value && *value) {
        fputs(" \\fI", stdout);
        roff(value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    roff(help);
    putchar('\n');
}

static void print_themis(void)
{
    const struct command *command;
    struct buf usage;

    roff_head("themis", 1, "shell of the database and model server themisd",
              "[OPTION]... COMMAND [ARGUMENT]...");
    puts(".SH DESCRIPTION\nSends requests to a node that runs, imports files into it, asks it, and keeps "
         "backups of it.\n.SH OPTIONS\nThey may stand before or behind the command.");
    for (const struct command_option *o = command_globals; o->name; o++)
        roff_option(o->name, o->value, o->help);
    puts(".SH COMMANDS");
    for (size_t i = 0; (command = command_at(i)); i++) {
        buf_init(&usage, 0);
        command_usage(command, &usage);
        fputs(".SS ", stdout);
        roff(buf_cstr(&usage));
        putchar('\n');
        roff(command->help);
        putchar('\n');
        for (const struct command_option *o = command->options; o && o->name; o++)
            roff_option(o->name, o->value, o->help);
        roff_paragraphs(command->about ? command->about : "");
        buf_release(&usage);
    }
    puts(".SH ENVIRONMENT");
    roff_option("THEMIS_URL, THEMIS_CACERT", NULL, "As --url and --cacert.");
    roff_option("THEMIS_USER, THEMIS_PASSWORD", NULL, "Credentials of an account.");
    roff_option("THEMIS_API_KEY", NULL, "A token instead of them.");
    puts(".SH EXIT STATUS\n0: done. 1: it failed, and standard error says why. 2: misuse of the command "
         "line.\n.SH SEE ALSO\n.BR themisd (8)");
}

static void print_themisd(void)
{
    roff_head("themisd", 8, "server for documents, vectors, queries and language models",
              "--data DIR [OPTION]...");
    puts(".SH DESCRIPTION\nServes one store and its models over HTTP: ArangoDB\\(aqs API, OpenAI\\(aqs API, "
         "and questions answered from documents.\n.PP\nSIGTERM and SIGINT stop it after the running "
         "requests have ended; SIGHUP reads the certificate again.\n.SH OPTIONS");
#define FLAG(name, value, help) roff_option(name, value, help);
#include "server/flags.def"
#undef FLAG
    puts(".SH SETTINGS\nFor \\-\\-set and for the file of \\-\\-config.");
#define SETTING_INT(name, def, min, max, unit, help)                                               \
    roff_option(#name, "INTEGER", help ". In " unit ": " #min " to " #max ", default " #def ".");
#define SETTING_DOUBLE(name, def, min, max, unit, help)                                            \
    roff_option(#name, "NUMBER", help ". In " unit ": " #min " to " #max ", default " #def ".");
#define SETTING_BOOL(name, def, help)                                                              \
    roff_option(#name, "on|off", help ". Default: " #def ".");
#define SETTING_STRING(name, def, help)                                                            \
    roff_option(#name, "TEXT", help ". Default: " #def ".");
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
    puts(".SH ENVIRONMENT");
    roff_option("THEMIS_ROOT_PASSWORD", NULL, "Password of the user root.");
    puts(".SH EXIT STATUS\n0: stopped. 1: it failed, and standard error says why. 2: misuse of the command "
         "line or of a setting.\n.SH SEE ALSO\n.BR themis (1)");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } pages[] = { { "settings", print_settings },
                  { "functions", print_functions },
                  { "routes", print_routes },
                  { "errors", print_errors },
                  { "themis.1", print_themis },
                  { "themisd.8", print_themisd } };
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(pages); i++) {
        if (!strcmp(argv[1], pages[i].name)) {
            pages[i].print();
            return 0;
        }
    }
    fprintf(stderr, "usage: reference settings|functions|routes|errors|themis.1|themisd.8\n");
    return 2;
}
