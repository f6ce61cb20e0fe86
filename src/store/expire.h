/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expire -- removing documents whose time is over, by TTL indexes. Blocks on the
 * store; one thread at a time.
 */
#ifndef STORE_EXPIRE_H
#define STORE_EXPIRE_H

#include "base/error.h"

struct store;

/*
 * Removes at most max documents, in transactions of some hundreds. One that was changed
 * meanwhile is left for the next time. *removed counts also when it fails.
 */
MUST_CHECK enum errc store_expire(struct store *s, uint64_t now_ms, uint64_t max, uint64_t *removed,
                                  struct error *err);

#endif
