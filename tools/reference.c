/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference PAGE: prints a page of the reference as Markdown, from the tables
 * that the program itself uses. Pages: settings, functions, routes, errors.
 */
#include <stdio.h>

#include "base/settings.h"
#include "query/fn.h"
#include "server/router.h"

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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } pages[] = { { "settings", print_settings },
                  { "functions", print_functions },
                  { "routes", print_routes },
                  { "errors", print_errors } };
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(pages); i++) {
        if (!strcmp(argv[1], pages[i].name)) {
            pages[i].print();
            return 0;
        }
    }
    fprintf(stderr, "usage: reference settings|functions|routes|errors\n");
    return 2;
}
