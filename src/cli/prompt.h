/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt -- lines that somebody types at a terminal, with editing and a history
 * that is kept in a file ($XDG_STATE_HOME/themis/history, else
 * ~/.local/state/themis/history; 0600). Hides libedit. One per process.
 */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "base/base.h"

struct prompt;

enum typed { TYPED_LINE, TYPED_CANCEL, TYPED_END };

/* A history that cannot be read or kept is told on standard error and no reason to fail. */
struct prompt *prompt_open(void);
void prompt_close(struct prompt *p);

/*
 * Shows the text and reads a line, which lives until the next call and has no line end. Ctrl-C is
 * TYPED_CANCEL, Ctrl-D on an empty line TYPED_END.
 */
enum typed prompt_line(struct prompt *p, const char *text, struct slice *line);

/* Puts an entry of one line into the history and the history into its file. */
void prompt_remember(struct prompt *p, struct slice entry);

#endif
