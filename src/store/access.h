/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access -- what somebody may do with collections: asked by a transaction
 * before it touches one, whoever makes it do so (a document call, a query, a
 * traversal). The layer that knows users fills it.
 */
#ifndef STORE_ACCESS_H
#define STORE_ACCESS_H

#include "store/catalog.h"

enum access_level { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE };

/* Immutable and shared between threads; a transaction holds a reference. */
struct access_rights {
    /* OK, or ERR_FORBIDDEN with a sentence that names the collection. */
    enum errc (*allow)(const struct access_rights *a, const struct database *db,
                       const struct collection *c, enum access_level need, struct error *err);
    void (*ref)(struct access_rights *a);
    void (*unref)(struct access_rights *a);
};

#endif
