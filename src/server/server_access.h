/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_access -- collections that only the server writes: accounts and what
 * their tokens used. Whoever administers may read them; nobody writes them by
 * documents, queries or graphs.
 */
#ifndef SERVER_SERVER_ACCESS_H
#define SERVER_SERVER_ACCESS_H

#include "store/access.h"

/* Is it one of them? By name, in any database. */
bool server_owns(struct slice collection);
/* ERR_FORBIDDEN for writing one of them. */
MUST_CHECK enum errc server_access_check(struct slice collection, enum access_level need,
                                         struct error *err);

/* Of root: everything else. */
struct access_rights *server_access_root(void);
/*
 * What inner allows (NULL: root's), without these collections: of an access token that does not
 * administer. With a reference for the caller; holds one of inner.
 */
struct access_rights *server_access_without(struct access_rights *inner);

#endif
