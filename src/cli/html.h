/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html -- the readable text of a web page as Markdown: headings, paragraphs,
 * list items, rows of tables, code. Scripts, styles, navigation and forms are
 * left out. Hides libxml2.
 *
 * Parses untrusted bytes: call it in a child process.
 */
#ifndef CLI_HTML_H
#define CLI_HTML_H

#include "base/buf.h"
#include "base/error.h"

/*
 * Adds the title as one line (which may be empty), then the text. The encoding is what the page
 * says, else UTF-8. Broken markup is read as browsers do; ERR_INVALID when it is no page at all.
 */
MUST_CHECK enum errc html_to_markdown(struct slice html, struct buf *out, struct error *err);

#endif
