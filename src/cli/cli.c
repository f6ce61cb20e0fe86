/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "base/val_text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- arguments ---- */

int cli_misuse(const char *fmt, ...)
{
    va_list args;

    fputs("themis: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputs("\nTry 'themis --help'.\n", stderr);
    return EXIT_MISUSE;
}

int cli_fail(const char *fmt, ...)
{
    va_list args;

    fputs("themis: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_FAILED;
}

int cli_misuse_of(const struct command *command)
{
    struct buf usage;

    buf_init(&usage, 0);
    command_usage(command, &usage);
    cli_misuse("usage: themis %s", buf_cstr(&usage));
    buf_release(&usage);
    return EXIT_MISUSE;
}

static void take(int *argc, char **argv, int at, int count)
{
    for (int i = at; i + count < *argc; i++)
        argv[i] = argv[i + count];
    *argc -= count;
}

const char *cli_option(int *argc, char **argv, const char *name)
{
    size_t len = strlen(name);

    command_expect(name, false);
    for (int i = 0; i < *argc && strcmp(argv[i], "--"); i++) {
        if (!strncmp(argv[i], name, len) && argv[i][len] == '=') {
            const char *value = argv[i] + len + 1;
            take(argc, argv, i, 1);
            return value;
        }
        if (strcmp(argv[i], name))
            continue;
        if (i + 1 == *argc)
            exit(cli_misuse("%s needs a value", name));
        const char *value = argv[i + 1];
        take(argc, argv, i, 2);
        return value;
    }
    return NULL;
}

bool cli_flag(int *argc, char **argv, const char *name)
{
    command_expect(name, true);
    for (int i = 0; i < *argc && strcmp(argv[i], "--"); i++) {
        if (strcmp(argv[i], name))
            continue;
        take(argc, argv, i, 1);
        return true;
    }
    return false;
}

struct val cli_number_option(struct cli *c, int *argc, char **argv, const char *name)
{
    const char *text = cli_option(argc, argv, name);
    char *end;

    if (!text)
        return VAL_NONE;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (!*text || *end || errno || n < 1)
        exit(cli_misuse("%s takes a whole number from 1 (got '%s')", name, text));
    return val_new_int(c->arena, n);
}

void cli_no_options(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (argv[i][0] == '-' && argv[i][1] == '-')
            exit(cli_misuse("unknown option '%s'", argv[i]));
}

/* ---- calls ---- */

atomic_bool cli_is_interrupted;

const char *cli_db_path(struct cli *c, const char *path)
{
    struct buf out;

    if (!c->db)
        return path;
    buf_init(&out, 0);
    buf_add_str(&out, "/_db/");
    url_encode(slice_str(c->db), &out);
    buf_add_str(&out, path);
    const char *copy = arena_copy(c->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return copy;
}

const char *cli_error_text(struct cli *c, int status, struct slice body)
{
    struct val v, message = val_null;

    if (val_parse(body, c->arena, &v, NULL) == OK) {
        message = val_get(v, slice_str("errorMessage"));
        if (val_is_null(message))
            message = val_get(val_get(v, slice_str("error")), slice_str("message"));
    }
    if (val_type(message) == VAL_STRING)
        return arena_copy(c->arena, val_string(message)).ptr;
    return arena_printf(c->arena, "the server answered with status %d", status);
}

static struct slice print_body(struct cli *c, struct val body)
{
    struct buf text;

    if (!body.at)
        return slice_of(NULL, 0);
    buf_init(&text, 0);
    val_print(body, &text);
    struct slice copy = arena_copy(c->arena, buf_slice(&text));
    buf_release(&text);
    return copy;
}

int cli_try(struct cli *c, const char *method, const char *path, struct val body, struct val *out,
            const char **why)
{
    struct error err = { 0 };
    struct http_reply reply;
    struct http_call call = { .method = method,
                              .path = cli_db_path(c, path),
                              .body = print_body(c, body) };
    int status;

    if (call.body.len)
        call.content_type = "application/json";
    if (http_client_call(c->client, &call, &reply, &err) != OK) {
        *why = arena_printf(c->arena, "%s", err.text);
        return 0;
    }
    struct slice text = buf_slice(&reply.body);
    status = reply.status;
    if (status >= 400) {
        *why = cli_error_text(c, status, text);
    } else if (val_parse(text, c->arena, out, &err) != OK) {
        *why = arena_printf(c->arena, "the server's answer is not JSON: %s", err.text);
        status = 0;
    }
    http_reply_release(&reply);
    return status;
}

bool cli_call(struct cli *c, const char *method, const char *path, struct val body, struct val *out)
{
    const char *why;
    int status = cli_try(c, method, path, body, out, &why);

    if (status > 0 && status < 400)
        return true;
    cli_fail("%s", why);
    return false;
}

struct events {
    struct cli *c;
    struct sse_reader sse;
    struct buf failed; /* body of an error answer */
    int status;
    bool (*on_event)(void *ctx, struct val event);
    void *ctx;
    bool has_failed;
};

static bool on_data(void *arg, struct slice data)
{
    struct events *e = arg;
    struct val v;

    if (slice_is(data, "[DONE]"))
        return true;
    if (val_parse(data, e->c->arena, &v, NULL) != OK)
        return true;
    struct val error = val_get(v, slice_str("error"));
    if (val_type(error) == VAL_OBJECT) {
        cli_fail("%.*s", SLICE_ARG(val_string(val_get(error, slice_str("message")))));
        e->has_failed = true;
        return false;
    }
    return e->on_event(e->ctx, v);
}

static bool on_piece(void *arg, int status, struct slice piece)
{
    struct events *e = arg;

    e->status = status;
    if (status < 400)
        return sse_reader_add(&e->sse, piece, on_data, e);
    buf_add_slice(&e->failed, piece);
    return true;
}

bool cli_events(struct cli *c, const char *path, struct val body,
                bool (*on_event)(void *ctx, struct val event), void *ctx)
{
    struct error err = { 0 };
    struct http_reply reply;
    struct events e = { .c = c, .on_event = on_event, .ctx = ctx };
    struct http_call call = { .method = "POST",
                              .path = cli_db_path(c, path),
                              .content_type = "application/json",
                              .body = print_body(c, body),
                              .on_piece = on_piece,
                              .piece_ctx = &e };

    sse_reader_init(&e.sse);
    buf_init(&e.failed, MIB);
    enum errc rc = http_client_call(c->client, &call, &reply, &err);
    if (rc != OK)
        cli_fail("%s", err.text);
    else if (reply.status >= 400)
        cli_fail("%s", cli_error_text(c, reply.status, buf_slice(&e.failed)));
    bool is_ok = rc == OK && reply.status < 400 && !e.has_failed;
    if (rc == OK)
        http_reply_release(&reply);
    sse_reader_release(&e.sse);
    buf_release(&e.failed);
    return is_ok;
}

/* ---- printing ---- */

void cli_print_val(struct val v, bool is_pretty)
{
    struct buf text;

    buf_init(&text, 0);
    if (is_pretty)
        val_print_pretty(v, &text);
    else
        val_print(v, &text);
    buf_add_char(&text, '\n');
    fwrite(text.ptr, 1, text.len, stdout);
    buf_release(&text);
}

struct val cli_text(struct cli *c, const char *text)
{
    return val_new_string(c->arena, slice_str(text));
}

struct val cli_object(struct cli *c, const char *const *names, const struct val *values,
                      size_t count)
{
    struct slice *kept_names = arena_alloc(c->arena, (count + 1) * sizeof *kept_names);
    struct val *kept = arena_alloc(c->arena, (count + 1) * sizeof *kept);
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        if (!values[i].at)
            continue;
        kept_names[n] = slice_str(names[i]);
        kept[n++] = values[i];
    }
    return val_new_object(c->arena, kept_names, kept, n);
}

enum errc cli_read_all(int file, size_t max, struct buf *out, struct error *err)
{
    char piece[64 * KIB];
    ssize_t n;

    out->max = max;
    while ((n = read(file, piece, sizeof piece)) != 0 && !out->is_overfull) {
        if (n > 0)
            buf_add(out, piece, (size_t)n);
        else if (errno != EINTR)
            return fail(err, ERR_IO, "it cannot be read: %s", strerror(errno));
    }
    if (out->is_overfull)
        return fail(err, ERR_TOO_LARGE, "it is larger than %zu bytes", max);
    return OK;
}
