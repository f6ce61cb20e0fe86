/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings.h"
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>

enum setting_kind { SETTING_KIND_INT, SETTING_KIND_DOUBLE, SETTING_KIND_BOOL, SETTING_KIND_STRING };

struct setting_row {
    const char *name;
    enum setting_kind kind;
    size_t offset;
    double min, max;
    const char *def, *unit, *help;
};

#define ROW(name, kind, min, max, def, unit, help)                                                 \
    { #name, kind, offsetof(struct settings, name), min, max, def, unit, help },

static const struct setting_row rows[] = {
#define SETTING_INT(name, def, min, max, unit, help)                                               \
    ROW(name, SETTING_KIND_INT, min, max, #def, unit, help)
#define SETTING_DOUBLE(name, def, min, max, unit, help)                                            \
    ROW(name, SETTING_KIND_DOUBLE, min, max, #def, unit, help)
#define SETTING_BOOL(name, def, help)                                                              \
    ROW(name, SETTING_KIND_BOOL, 0, 1, def ? "on" : "off", "", help)
#define SETTING_STRING(name, def, help) ROW(name, SETTING_KIND_STRING, 0, 0, def, "", help)
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
};

void settings_init(struct settings *s)
{
    memset(s, 0, sizeof *s);
#define SETTING_INT(name, def, min, max, unit, help) s->name = def;
#define SETTING_DOUBLE(name, def, min, max, unit, help) s->name = def;
#define SETTING_BOOL(name, def, help) s->name = def;
#define SETTING_STRING(name, def, help) snprintf(s->name, sizeof s->name, "%s", def);
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
}

static enum errc set_int(int64_t *out, const struct setting_row *row, const char *text,
                         struct error *err)
{
    char *end;

    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!*text || *end || errno || (double)v < row->min || (double)v > row->max)
        return fail(err, ERR_INVALID, "%s must be %.0f..%.0f (got %s)", row->name, row->min,
                    row->max, text);
    *out = v;
    return OK;
}

static enum errc set_double(double *out, const struct setting_row *row, const char *text,
                            struct error *err)
{
    char *end;
    double v = strtod(text, &end);

    if (!*text || *end || !(v >= row->min && v <= row->max))
        return fail(err, ERR_INVALID, "%s must be %g..%g (got %s)", row->name, row->min, row->max,
                    text);
    *out = v;
    return OK;
}

static enum errc set_bool(bool *out, const struct setting_row *row, const char *text,
                          struct error *err)
{
    static const char *const yes[] = { "on", "true", "yes", "1" };
    static const char *const no[] = { "off", "false", "no", "0" };

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (!strcmp(text, yes[i]) || !strcmp(text, no[i])) {
            *out = !strcmp(text, yes[i]);
            return OK;
        }
    }
    return fail(err, ERR_INVALID, "%s must be on or off (got %s)", row->name, text);
}

static enum errc set_string(char *out, const struct setting_row *row, const char *text,
                            struct error *err)
{
    if (strlen(text) >= SETTING_STRING_BYTES)
        return fail(err, ERR_INVALID, "%s is longer than %d bytes", row->name,
                    SETTING_STRING_BYTES - 1);
    strcpy(out, text);
    return OK;
}

static enum errc set_row(struct settings *s, const struct setting_row *row, const char *text,
                         struct error *err)
{
    void *field = (char *)s + row->offset;

    switch (row->kind) {
    case SETTING_KIND_INT:
        return set_int(field, row, text, err);
    case SETTING_KIND_DOUBLE:
        return set_double(field, row, text, err);
    case SETTING_KIND_BOOL:
        return set_bool(field, row, text, err);
    case SETTING_KIND_STRING:
        return set_string(field, row, text, err);
    }
    return OK;
}

enum errc settings_set(struct settings *s, struct slice name, struct slice value, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!slice_is(name, rows[i].name))
            continue;
        char *text = mem_strndup(value);
        enum errc rc = set_row(s, &rows[i], text, err);
        mem_free(text);
        return rc;
    }
    return fail(err, ERR_INVALID, "unknown setting '%.*s'; see themisd --help-settings",
                SLICE_ARG(name));
}

enum errc settings_set_pair(struct settings *s, const char *pair, struct error *err)
{
    const char *equals = strchr(pair, '=');

    if (!equals)
        return fail(err, ERR_INVALID, "a setting is given as name=value (got '%s')", pair);
    return settings_set(s, slice_of(pair, (size_t)(equals - pair)), slice_str(equals + 1), err);
}

/* ---- the file ---- */

struct load {
    struct settings *s;
    FILE *file;
    enum errc rc;
    int lines;
    bool is_cut; /* the last line is longer than the parser takes */
    struct error err;
};

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct load *l = user;

    (void)section;
    if (l->rc == OK)
        l->rc = settings_set(l->s, slice_str(name), slice_str(value), &l->err);
    return l->rc == OK;
}

/* A comment behind a value; the parser knows only those with a semicolon. */
static void cut_comment(char *line)
{
    for (char *at = line; (at = strchr(at, '#')); at++) {
        if (at > line && (at[-1] == ' ' || at[-1] == '\t')) {
            *at = 0;
            return;
        }
    }
}

/* The parser takes an indented line for more of the value before, so nothing is indented here. */
static char *read_line(char *line, int room, void *user)
{
    struct load *l = user;

    if (l->rc != OK || l->is_cut || !fgets(line, room, l->file))
        return NULL;
    l->lines++;
    size_t len = strlen(line), blank = strspn(line, " \t");
    l->is_cut = len == (size_t)room - 1 && line[len - 1] != '\n';
    memmove(line, line + blank, len - blank + 1);
    cut_comment(line);
    return line;
}

enum errc settings_load(struct settings *s, const char *path, struct error *err)
{
    struct load l = { .s = s, .file = fopen(path, "re") };

    if (!l.file)
        return fail(err, ERR_INVALID, "cannot read the settings file %s: %s", path,
                    strerror(errno));
    int line = ini_parse_stream(read_line, &l, on_pair, &l);
    fclose(l.file);
    if (l.is_cut)
        return fail(err, ERR_INVALID, "%s line %d is too long", path, l.lines);
    if (l.rc != OK)
        return fail(err, ERR_INVALID, "%s line %d: %s", path, l.lines, l.err.text);
    if (line)
        return fail(err, ERR_INVALID, "%s line %d is not \"name = value\"", path, line);
    return OK;
}

void settings_print_help(struct buf *out)
{
    static const char *const kinds[] = { "whole number", "number", "on or off", "text" };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct setting_row *r = &rows[i];
        buf_printf(out, "%s (%s", r->name, kinds[r->kind]);
        if (r->kind == SETTING_KIND_INT)
            buf_printf(out, ", %.0f..%.0f %s", r->min, r->max, r->unit);
        if (r->kind == SETTING_KIND_DOUBLE)
            buf_printf(out, ", %g..%g %s", r->min, r->max, r->unit);
        buf_printf(out, ", default %s)\n    %s.\n", *r->def ? r->def : "empty", r->help);
    }
}
