/* SPDX-License-Identifier: Apache-2.0 */
/* query -- statements of `themis query`, given at once or typed at its prompt. */
#ifndef CLI_QUERY_H
#define CLI_QUERY_H

#include "cli/cli.h"

struct query_session {
    struct cli *c;
    struct val bind; /* object, or VAL_NONE */
};

/* Runs it and prints its rows; false: it failed, and that was said. */
bool query_session_run(struct query_session *s, struct slice text);
/* Prints its plan instead. */
bool query_session_explain(struct query_session *s, struct slice text);

/* Reads and runs statements until the end of file; Ctrl-C ends a running one. */
void query_prompt(struct query_session *s);

/* An answer of /_api/explain, for people. */
void plan_text_print(struct val answer);

#endif
