/* SPDX-License-Identifier: Apache-2.0 */
/* console -- the built-in page, compiled in from console/index.html. */
#ifndef SERVER_CONSOLE_H
#define SERVER_CONSOLE_H

#include <stddef.h>

extern const char console_html[];
extern const size_t console_html_len;

#endif
