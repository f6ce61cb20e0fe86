/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_access.h"

#include <stdatomic.h>

struct bounded {
    struct access_rights rights; /* first: its functions cast back */
    _Atomic int refs;
    struct access_rights *inner;
};

bool server_owns(struct slice collection)
{
    return slice_is(collection, "_users") || slice_is(collection, "_key_usage");
}

enum errc server_access_check(struct slice collection, enum access_level need, struct error *err)
{
    if (need != ACCESS_WRITE || !server_owns(collection))
        return OK;
    return fail(err, ERR_FORBIDDEN, "collection '%.*s' is written by the server only: by %s",
                SLICE_ARG(collection), "/_api/user and /_api/token");
}

/* ---- root ---- */

static enum errc root_allow(const struct access_rights *a, const struct database *db,
                            const struct collection *c, enum access_level need, struct error *err)
{
    (void)a, (void)db;
    return server_access_check(c->name, need, err);
}

static void ignore(struct access_rights *a)
{
    (void)a;
}

struct access_rights *server_access_root(void)
{
    static struct access_rights root = { .allow = root_allow, .ref = ignore, .unref = ignore };

    return &root;
}

/* ---- a token without the scope ---- */

static enum errc bounded_allow(const struct access_rights *a, const struct database *db,
                               const struct collection *c, enum access_level need,
                               struct error *err)
{
    const struct bounded *b = (const struct bounded *)a;

    if (server_owns(c->name))
        return fail(err, ERR_FORBIDDEN,
                    "this access token has no scope 'admin', which collection '%.*s' needs",
                    SLICE_ARG(c->name));
    return b->inner->allow(b->inner, db, c, need, err);
}

static void bounded_ref(struct access_rights *a)
{
    atomic_fetch_add(&((struct bounded *)a)->refs, 1);
}

static void bounded_unref(struct access_rights *a)
{
    struct bounded *b = (struct bounded *)a;

    if (atomic_fetch_sub(&b->refs, 1) != 1)
        return;
    b->inner->unref(b->inner);
    mem_free(b);
}

struct access_rights *server_access_without(struct access_rights *inner)
{
    struct bounded *b = mem_zalloc(sizeof *b);

    b->rights = (struct access_rights){ bounded_allow, bounded_ref, bounded_unref };
    b->refs = 1;
    b->inner = inner ? inner : server_access_root();
    b->inner->ref(b->inner);
    return &b->rights;
}
