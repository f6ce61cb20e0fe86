/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files -- how many files this process may have open, and who gets how many of
 * them: a socket is one, too. Any thread, after files_raise.
 */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include "base/base.h"
#include "base/error.h"

enum { FILES_MIN = 320 };

/* Raises the limit to the most that the system allows. Fails when that is below FILES_MIN. */
MUST_CHECK enum errc files_raise(struct error *err);

/* Tables that the store keeps open. */
size_t files_for_store(void);

/* Connections of clients: what is wanted, or what the limit leaves for them. */
size_t files_for_connections(size_t wanted);

#endif
