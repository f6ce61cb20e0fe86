/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command -- what the shell can do, as tables: help, manual and completion are
 * made of them, and an option that is not in its table is not taken.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/base.h"
#include "base/buf.h"

struct cli;

struct command_option {
    const char *name;  /* "--model" */
    const char *value; /* what stands behind it; NULL: a flag */
    const char *help;
};

struct command {
    const char *name;
    const char *arguments;                            /* behind the name, without the options */
    const char *help;                                 /* one sentence */
    int (*run)(struct cli *c, int argc, char **argv); /* argv[0] is the first argument */
    const struct command_option *options;             /* ended by a row of NULL; NULL: none */
    const char *words; /* that an argument can be, separated by blanks; NULL: none */
    const char *about; /* for the manual, paragraphs separated by empty lines; NULL: nothing */
};

/* In the order of the alphabet; NULL at the end. */
const struct command *command_at(size_t i);
const struct command *command_find(const char *name);

/* Before or behind any command; ended by a row of NULL. */
extern const struct command_option command_globals[];

/* "ask 'QUESTION' [--top-k N]" */
void command_usage(const struct command *command, struct buf *out);

/* The command whose options are taken from now on; NULL: the global ones. */
void command_begin(const struct command *command);
/* A bug unless the option is in that table, as a flag or with a value. */
void command_expect(const char *option, bool is_flag);

/* A completion script for "bash" or "zsh"; false: for no other shell. */
bool command_completion(const char *shell, struct buf *out);

#endif
