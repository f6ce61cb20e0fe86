/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli -- the shell: one file per command, each a row in command.c. Exit codes: 0
 * done, 1 failed, 2 misuse.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/arena.h"
#include "base/val.h"
#include "cli/command.h"
#include "net/client.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSE = 2 };

struct cli {
    struct http_client *client;
    const char *url;
    const char *ca_file; /* NULL = the system's authorities */
    const char *db;      /* NULL = _system */
    bool is_json;        /* --json */
    bool is_tty;         /* standard output is a terminal */
    struct arena *arena;
};

extern const struct command command_ask, command_backup, command_chat, command_check,
    command_cluster, command_convert, command_embed, command_import, command_model, command_query,
    command_restore, command_status;

/* ---- arguments: options must be in the table of the command ---- */

/*
 * Takes --name VALUE (or --name=VALUE) out of argv; NULL when absent. A missing
 * value ends the program with 2.
 */
const char *cli_option(int *argc, char **argv, const char *name);
bool cli_flag(int *argc, char **argv, const char *name);
/* Ends the program with 2 if an option is left. */
void cli_no_options(int argc, char **argv);
/* The option's value as a number of at least 1, or VAL_NONE; ends the program with 2. */
struct val cli_number_option(struct cli *c, int *argc, char **argv, const char *name);
int cli_misuse(const char *fmt, ...) PRINTF_LIKE(1, 2);
int cli_misuse_of(const struct command *command); /* prints its usage */
int cli_fail(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* ---- calls ---- */

/* Set by whoever wants the running call to end, in a signal handler too: it fails then. */
extern atomic_bool cli_is_interrupted;

/* Sends JSON (null = no body) and reads JSON. Prints the error itself; false then. */
bool cli_call(struct cli *c, const char *method, const char *path, struct val body,
              struct val *out);
/* The same without a word: the status, or 0 without an answer; *why from 400 on and for 0. */
int cli_try(struct cli *c, const char *method, const char *path, struct val body, struct val *out,
            const char **why);
/* The path within the chosen database. */
const char *cli_db_path(struct cli *c, const char *path);
/* "message" of an error answer in either API's shape. */
const char *cli_error_text(struct cli *c, int status, struct slice body);
/* Streams server-sent events to on_event; false when it failed (and said so). */
bool cli_events(struct cli *c, const char *path, struct val body,
                bool (*on_event)(void *ctx, struct val event), void *ctx);

/* ---- printing ---- */

void cli_print_val(struct val v, bool is_pretty); /* with a line end */
/* Rows as a table when they are objects, one line each otherwise. */
void cli_print_rows(struct cli *c, struct val rows);
struct val cli_text(struct cli *c, const char *text);
/* An object of the members that are not VAL_NONE. */
struct val cli_object(struct cli *c, const char *const *names, const struct val *values,
                      size_t count);
/* All that the descriptor gives, added to out; at most max bytes. err does not name the file. */
MUST_CHECK enum errc cli_read_all(int file, size_t max, struct buf *out, struct error *err);

#endif
