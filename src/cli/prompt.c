/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C is a key and no signal while a line is edited, so that nothing is
 * interrupted half-way; outside, when a query runs, it is the signal.
 */
#include "cli/prompt.h"
#include "base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1000 };

struct prompt {
    EditLine *el;
    History *past;
    FILE *out;
    const char *text;
    char *path; /* of the history; NULL: it is not kept */
    bool is_cancelled;
};

static struct prompt *of(EditLine *el)
{
    struct prompt *p = NULL;

    el_get(el, EL_CLIENTDATA, &p);
    return p;
}

static const char *show(EditLine *el)
{
    return of(el)->text;
}

static unsigned char on_interrupt(EditLine *el, int key)
{
    struct prompt *p = of(el);

    (void)key;
    p->is_cancelled = true;
    fputs("^C\n", p->out);
    fflush(p->out);
    el_insertstr(el, "\n"); /* an empty line would be the end of file */
    return CC_NEWLINE;
}

static unsigned char on_suspend(EditLine *el, int key)
{
    (void)el;
    (void)key;
    raise(SIGTSTP); /* libedit's handler puts the terminal right, before and after */
    return CC_REDISPLAY;
}

/* ---- history ---- */

/* Makes the folders of the path that are missing, for the user alone. */
static bool make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        bool is_made = !mkdir(path, 0700) || errno == EEXIST;
        *at = '/';
        if (!is_made)
            return false;
    }
    return true;
}

/* Returned to the caller; NULL: there is no home. */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct buf path;
    char *out = NULL;

    buf_init(&path, 0);
    if (state && state[0] == '/')
        buf_printf(&path, "%s/themis/history", state);
    else if (home && home[0] == '/')
        buf_printf(&path, "%s/.local/state/themis/history", home);
    if (path.len)
        out = mem_strdup(buf_cstr(&path));
    buf_release(&path);
    return out;
}

static void forget_path(struct prompt *p, const char *what)
{
    fprintf(stderr, "themis: the history is not kept: %s %s: %s\n", what, p->path, strerror(errno));
    mem_free(p->path);
    p->path = NULL;
}

static void load_history(struct prompt *p)
{
    HistEvent event;

    p->path = history_path();
    if (!p->path)
        return;
    int file = make_folders(p->path) ? open(p->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        forget_path(p, "cannot open");
        return;
    }
    close(file);
    history(p->past, &event, H_LOAD, p->path); /* an empty or foreign file gives none */
}

/* Whole or not at all: a full disk must not cost what was there. */
static void save_history(struct prompt *p)
{
    HistEvent event;
    struct buf other;

    buf_init(&other, 0);
    buf_printf(&other, "%s.new", p->path);
    const char *name = buf_cstr(&other);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0)
        close(file);
    if (file < 0 || history(p->past, &event, H_SAVE, name) < 0 || rename(name, p->path)) {
        unlink(name);
        forget_path(p, "cannot write");
    }
    buf_release(&other);
}

void prompt_remember(struct prompt *p, struct slice entry)
{
    HistEvent event;
    struct buf text;

    if (!entry.len || entry.ptr[0] == ' ') /* as shells do: a blank keeps it out */
        return;
    buf_init(&text, 0);
    buf_add_slice(&text, entry);
    buf_add_char(&text, '\n');
    history(p->past, &event, H_ENTER, buf_cstr(&text));
    buf_release(&text);
    if (p->path)
        save_history(p);
}

/* ---- lines ---- */

struct prompt *prompt_open(void)
{
    struct prompt *p = mem_zalloc(sizeof *p);
    HistEvent event;

    setlocale(LC_CTYPE, "");
    p->out = isatty(STDOUT_FILENO) ? stdout : stderr;
    p->el = el_init("themis", stdin, p->out, stderr);
    p->past = history_init();
    if (!p->el || !p->past)
        BUG("libedit does not start");
    history(p->past, &event, H_SETSIZE, ENTRIES_MAX);
    history(p->past, &event, H_SETUNIQUE, 1);
    load_history(p);
    el_set(p->el, EL_CLIENTDATA, p);
    el_set(p->el, EL_PROMPT, show);
    el_set(p->el, EL_SIGNAL, 1); /* a terminal that is left is left as it was */
    el_set(p->el, EL_EDITOR, "emacs");
    el_set(p->el, EL_HIST, history, p->past);
    el_source(p->el, NULL);
    el_set(p->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_wset(p->el, EL_ADDFN, L"themis-interrupt", L"Gives up the statement", on_interrupt);
    el_wset(p->el, EL_ADDFN, L"themis-suspend", L"Stops the program", on_suspend);
    el_set(p->el, EL_BIND, "^C", "themis-interrupt", NULL);
    el_set(p->el, EL_BIND, "^Z", "themis-suspend", NULL);
    el_set(p->el, EL_SETTY, "-d", "-isig", NULL);
    return p;
}

void prompt_close(struct prompt *p)
{
    history_end(p->past);
    el_end(p->el);
    mem_free(p->path);
    mem_free(p);
}

enum typed prompt_line(struct prompt *p, const char *text, struct slice *line)
{
    int len = 0;

    p->text = text;
    p->is_cancelled = false;
    fflush(stdout);
    const char *typed = el_gets(p->el, &len);
    if (p->is_cancelled)
        return TYPED_CANCEL;
    if (!typed || len <= 0) {
        fputc('\n', p->out);
        return TYPED_END;
    }
    while (len > 0 && (typed[len - 1] == '\n' || typed[len - 1] == '\r'))
        len--;
    *line = slice_of(typed, (size_t)len);
    return TYPED_LINE;
}
