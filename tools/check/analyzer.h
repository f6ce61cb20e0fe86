/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analyzer -- included first when clang-tidy reads a C file. It sees one file
 * at a time, so it does not know that these functions never return OK, and
 * would follow paths on which a failure is taken for a success.
 */
#ifndef CHECK_ANALYZER_H
#define CHECK_ANALYZER_H

#include "base/error.h"

#define fail(err, code, ...) ((void)(fail)((err), (code), __VA_ARGS__), (code))
#define fail_num(err, num, ...) ((void)(fail_num)((err), (num), __VA_ARGS__), ERR_INTERNAL)
#define wrap(err, ...) ((void)(wrap)((err), __VA_ARGS__), ERR_INTERNAL)

#endif
