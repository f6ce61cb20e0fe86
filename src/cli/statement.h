/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statement -- where a query typed over several lines ends: at a ';' that stands
 * in no string, name or comment. AQL itself has no ';'. Pure.
 */
#ifndef CLI_STATEMENT_H
#define CLI_STATEMENT_H

#include "base/base.h"

enum statement_state {
    STATEMENT_EMPTY, /* blanks and comments only */
    STATEMENT_MORE,  /* a text without its ';' */
    STATEMENT_OPEN,  /* it breaks off inside a string, name or comment */
    STATEMENT_WHOLE, /* a text with its ';' */
};

struct statement {
    enum statement_state state;
    size_t len;  /* bytes of the text, without the ';' */
    size_t used; /* with it */
    bool has_line_comment;
};

struct statement statement_first(struct slice text);

#endif
