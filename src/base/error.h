/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error -- what went wrong, as plain data: a code that drives behaviour, an
 * ArangoDB errorNum for drivers and a finished sentence for people.
 *
 * Lives on the caller's stack or in the job and crosses threads by copy. On
 * success it is untouched.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/base.h"

enum errc {
#define ERROR(name, http, num, retryable, text) name,
#include "base/error.def"
#undef ERROR
};

/* Numbers that are looked for. */
enum { ERRNUM_CONTEXT_LENGTH = 60001 };

struct error {
    enum errc code;
    int num;  /* ArangoDB errorNum; 0 = the default of the code */
    int http; /* HTTP status; 0 = the default of the code */
    char text[244];
};

/* Fills err (may be NULL) and returns the code. Text that does not fit is cut at a character. */
enum errc fail(struct error *err, enum errc code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same by ArangoDB errorNum: code and status come from errnum.def. */
enum errc fail_num(struct error *err, int num, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* "cannot WHAT PATH: " and the text of errno; ERR_LIMIT when the disk is full, else ERR_IO. */
enum errc fail_os(struct error *err, const char *what, const char *path);

/* Puts "context: " in front of the text on the way up. Returns err->code. */
enum errc wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *errc_name(enum errc code); /* "ERR_BUSY" */
const char *errc_text(enum errc code);
bool errc_is_retryable(enum errc code);
int error_num(const struct error *err);  /* never 0 for an error */
int error_http(const struct error *err); /* HTTP status */
const char *errnum_text(int num);        /* NULL when the number is not ours */

#endif
