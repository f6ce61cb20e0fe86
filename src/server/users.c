/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table in memory is sorted by name; a change writes the account's document
 * in a transaction, then puts a new struct user in the place of the old one.
 * Changes are serialised by one lock, which is not the table's.
 */
#include "server/users.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/val_text.h"
#include "server/user_private.h"
#include "store/doc.h"
#include <pthread.h>

static const char collection_name[] = "_users";

struct users {
    struct store *store;
    uint64_t db_id;
    pthread_mutex_t changing; /* held over a whole change */
    pthread_mutex_t lock;     /* the table: a few instructions */
    struct user **list;       /* owned references, sorted by name */
    size_t count;
};

/* ---- the table ---- */

/* Where the name is, or would be. Lock held. */
static size_t position(const struct users *us, struct slice name, bool *is_there)
{
    size_t low = 0, high = us->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = slice_cmp(us->list[middle]->name, name);
        if (c == 0) {
            *is_there = true;
            return middle;
        }
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = false;
    return low;
}

struct user *users_find(struct users *us, struct slice name)
{
    bool is_there;

    pthread_mutex_lock(&us->lock);
    size_t at = position(us, name, &is_there);
    struct user *u = is_there ? user_ref(us->list[at]) : NULL;
    pthread_mutex_unlock(&us->lock);
    return u;
}

struct user **users_all(struct users *us, size_t *count)
{
    pthread_mutex_lock(&us->lock);
    struct user **all = mem_alloc((us->count + 1) * sizeof *all);
    for (size_t i = 0; i < us->count; i++)
        all[i] = user_ref(us->list[i]);
    *count = us->count;
    pthread_mutex_unlock(&us->lock);
    return all;
}

/* Takes the reference. */
static void table_put(struct users *us, struct user *u)
{
    bool is_there;

    pthread_mutex_lock(&us->lock);
    size_t at = position(us, u->name, &is_there);
    struct user *old = is_there ? us->list[at] : NULL;
    if (!is_there) {
        us->list = mem_realloc(us->list, (us->count + 1) * sizeof *us->list);
        memmove(us->list + at + 1, us->list + at, (us->count - at) * sizeof *us->list);
        us->count++;
    }
    us->list[at] = u;
    pthread_mutex_unlock(&us->lock);
    user_unref(old);
}

static void table_remove(struct users *us, struct slice name)
{
    bool is_there;

    pthread_mutex_lock(&us->lock);
    size_t at = position(us, name, &is_there);
    struct user *old = is_there ? us->list[at] : NULL;
    if (is_there) {
        us->count--;
        memmove(us->list + at, us->list + at + 1, (us->count - at) * sizeof *us->list);
    }
    pthread_mutex_unlock(&us->lock);
    user_unref(old);
}

/* ---- the store ---- */

static enum errc begin(struct users *us, struct txn **t, const struct collection **c,
                       struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT, .must_sync = true };
    enum errc rc = txn_begin(t, us->store, &opt, err);

    if (rc != OK)
        return rc;
    *c = catalog_collection(txn_catalog(*t), us->db_id, slice_str(collection_name));
    return *c ? OK : fail_num(err, 1203, "the collection %s is gone", collection_name);
}

/* A key for every name: names may hold what keys may not. */
static struct slice key_of(struct slice name, struct arena *arena)
{
    uint8_t digest[32];
    char text[65];

    hash_sha256(name.ptr, name.len, digest);
    hash_hex(digest, 16, text);
    return arena_copy(arena, slice_str(text));
}

static enum errc store_document(struct users *us, struct val doc, struct arena *arena,
                                struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    struct doc_change change;
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    struct slice name = slice_str("_key");
    struct val key =
        val_new_string(arena, key_of(val_string(val_get(doc, slice_str("user"))), arena));

    TRY(begin(us, &t, &c, err));
    doc = val_merge(arena, doc, val_new_object(arena, &name, &key, 1));
    TRY(doc_insert(t, c, doc, &opt, arena, &change, err));
    rc = txn_commit(t, err);
out:
    txn_end(t);
    return rc;
}

static enum errc load_all(struct users *us, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    struct doc_iter *it = NULL;
    struct val doc;

    TRY(begin(us, &t, &c, err));
    TRY(doc_iter_new(&it, t, c, err));
    while (doc_iter_next(it, &doc))
        if (val_string(val_get(doc, slice_str("user"))).len)
            table_put(us, user_new(doc));
    rc = doc_iter_check(it, err);
out:
    doc_iter_free(it);
    txn_end(t);
    return rc;
}

static enum errc make_collection(struct users *us, struct error *err)
{
    struct collection_options opt = { .name = slice_str(collection_name),
                                      .type = COLLECTION_DOCUMENT,
                                      .wait_for_sync = true,
                                      .allow_user_keys = true };
    enum errc rc = store_create_collection(us->store, us->db_id, &opt, NULL, err);

    return rc == ERR_EXISTS ? OK : rc;
}

static enum errc find_system(struct users *us, bool *has_collection, struct error *err)
{
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    enum errc rc = txn_begin(&t, us->store, &opt, err);

    if (rc != OK)
        return rc;
    us->db_id = catalog_database(txn_catalog(t), slice_str("_system"))->id;
    *has_collection =
        catalog_collection(txn_catalog(t), us->db_id, slice_str(collection_name)) != NULL;
    txn_end(t);
    return OK;
}

/* An account that was never written: no grants, the empty password. */
static struct val blank(struct slice name, struct arena *arena)
{
    struct slice names[] = { slice_str("user"), slice_str("active"), slice_str("extra"),
                             slice_str("grants"), slice_str("tokens") };
    struct val values[] = { val_new_string(arena, name), val_true, val_empty_object,
                            val_empty_object, val_empty_array };

    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

static void add_root(struct users *us)
{
    bool is_there;
    struct arena *arena = arena_new(0);

    position(us, slice_str("root"), &is_there);
    if (!is_there)
        table_put(us, user_new(blank(slice_str("root"), arena)));
    arena_free(arena);
}

enum errc users_open(struct users **out, struct store *s, struct error *err)
{
    enum errc rc = OK;
    bool has_collection = false;
    struct users *us = mem_zalloc(sizeof *us);

    us->store = s;
    pthread_mutex_init(&us->changing, NULL);
    pthread_mutex_init(&us->lock, NULL);
    TRY(find_system(us, &has_collection, err));
    if (!has_collection)
        TRY(make_collection(us, err));
    TRY(load_all(us, err));
    add_root(us);
    *out = us;
    us = NULL;
out:
    users_close(us);
    return rc;
}

void users_close(struct users *us)
{
    if (!us)
        return;
    for (size_t i = 0; i < us->count; i++)
        user_unref(us->list[i]);
    mem_free(us->list);
    pthread_mutex_destroy(&us->changing);
    pthread_mutex_destroy(&us->lock);
    mem_free(us);
}

/* ---- changes ---- */

/* What one change may use; the lock is held and the arena is its own. */
struct edit {
    struct users *us;
    struct arena *arena;
    struct user *old; /* owned reference; NULL for a new account */
};

static void edit_begin(struct edit *e, struct users *us, struct slice name)
{
    pthread_mutex_lock(&us->changing);
    *e = (struct edit){ .us = us, .arena = arena_new(0), .old = users_find(us, name) };
}

static void edit_end(struct edit *e)
{
    user_unref(e->old);
    arena_free(e->arena);
    pthread_mutex_unlock(&e->us->changing);
}

static enum errc edit_existing(struct edit *e, struct users *us, struct slice name,
                               struct error *err)
{
    edit_begin(e, us, name);
    return e->old ? OK : fail_num(err, 1703, "user '%.*s' not found", SLICE_ARG(name));
}

/* Stores the account with the members changed and puts it into the table. */
static enum errc edit_write(struct edit *e, struct val doc, struct val members, struct error *err)
{
    struct val all = val_merge(e->arena, doc, members);
    enum errc rc = store_document(e->us, all, e->arena, err);

    if (rc == OK)
        table_put(e->us, user_new(all));
    return rc;
}

static struct val member(struct arena *arena, const char *name, struct val value)
{
    struct slice text = slice_str(name);

    return val_new_object(arena, &text, &value, 1);
}

static enum errc check_change(const struct user_change *change, struct error *err)
{
    if (change->password && change->password->len > USER_PASSWORD_MAX)
        return fail(err, ERR_INVALID, "a password has at most %d bytes", USER_PASSWORD_MAX);
    if (change->extra.at && val_type(change->extra) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'extra' must be an object");
    return OK;
}

/* The members that a change gives the account. */
static struct val changed_members(struct arena *arena, const struct user_change *change,
                                  const struct user *old)
{
    struct slice names[3];
    struct val values[3];
    size_t n = 0;
    bool fills = change->replaces || !old;
    struct slice no_password = slice_of(NULL, 0);

    if (change->password || fills) {
        names[n] = slice_str("password");
        values[n++] = user_hash_password(change->password ? *change->password : no_password, arena);
    }
    if (change->is_active || fills) {
        names[n] = slice_str("active");
        values[n++] = val_new_bool(!change->is_active || *change->is_active);
    }
    if (change->extra.at || fills) {
        struct val extra = change->extra.at ? change->extra : val_empty_object;
        names[n] = slice_str("extra");
        values[n++] = fills ? extra : val_merge(arena, user_extra(old), extra);
    }
    return val_new_object(arena, names, values, n);
}

enum errc users_create(struct users *us, struct slice name, const struct user_change *change,
                       struct error *err)
{
    struct edit e;
    enum errc rc = check_change(change, err);

    if (rc == OK && !user_name_is_legal(name))
        rc = fail_num(err, 1700,
                      "a user's name is 1 to %d bytes of UTF-8 without ':' and control "
                      "characters",
                      USER_NAME_MAX);
    if (rc != OK)
        return rc;
    edit_begin(&e, us, name);
    if (e.old)
        rc = fail_num(err, 1702, "user '%.*s' exists already", SLICE_ARG(name));
    else if (us->count >= USERS_MAX)
        rc = fail(err, ERR_LIMIT, "there are %d users, which is the limit", USERS_MAX);
    else
        rc = edit_write(&e, blank(name, e.arena), changed_members(e.arena, change, NULL), err);
    edit_end(&e);
    return rc;
}

enum errc users_change(struct users *us, struct slice name, const struct user_change *change,
                       struct error *err)
{
    struct edit e;
    enum errc rc = check_change(change, err);

    if (rc != OK)
        return rc;
    rc = edit_existing(&e, us, name, err);
    if (rc == OK)
        rc = edit_write(&e, e.old->doc, changed_members(e.arena, change, e.old), err);
    edit_end(&e);
    return rc;
}

enum errc users_remove(struct users *us, struct slice name, struct error *err)
{
    enum errc rc = OK;
    struct edit e;
    struct txn *t = NULL;
    const struct collection *c;
    struct doc_change change;

    if (slice_is(name, "root"))
        return fail(err, ERR_FORBIDDEN, "root cannot be removed");
    TRY(edit_existing(&e, us, name, err));
    TRY(begin(us, &t, &c, err));
    TRY(doc_remove(t, c, key_of(name, e.arena), NULL, e.arena, &change, err));
    TRY(txn_commit(t, err));
    table_remove(us, name);
out:
    txn_end(t);
    edit_end(&e);
    return rc;
}

enum errc users_grant(struct users *us, struct slice name, struct slice db, struct slice collection,
                      const enum access_level *level, struct error *err)
{
    struct edit e;
    enum errc rc = edit_existing(&e, us, name, err);

    if (rc == OK) {
        struct val grants = grants_change(user_grants(e.old), db, collection, level, e.arena);
        rc = edit_write(&e, e.old->doc, member(e.arena, "grants", grants), err);
    }
    edit_end(&e);
    return rc;
}

/* ---- access tokens ---- */

enum errc users_add_token(struct users *us, struct slice name, const struct token_wish *wish,
                          struct arena *arena, struct val *out, struct buf *text, struct error *err)
{
    enum errc rc = OK;
    struct edit e;
    struct val row, tokens;

    TRY(edit_existing(&e, us, name, err));
    tokens = user_tokens(e.old);
    if (val_count(tokens) >= USER_TOKENS_MAX)
        TRY(fail(err, ERR_LIMIT, "a user has at most %d access tokens", USER_TOKENS_MAX));
    TRY(token_new(e.old, wish, e.arena, &row, text, err));
    TRY(edit_write(&e, e.old->doc, member(e.arena, "tokens", tokens_with(tokens, row, e.arena)),
                   err));
    *out = val_copy(arena, row);
out:
    edit_end(&e);
    return rc;
}

enum errc users_remove_token(struct users *us, struct slice name, int64_t id, struct error *err)
{
    enum errc rc = OK;
    struct edit e;
    struct val left;

    TRY(edit_existing(&e, us, name, err));
    left = tokens_without(user_tokens(e.old), id, e.arena);
    if (val_count(left) == val_count(user_tokens(e.old)))
        TRY(fail(err, ERR_NOT_FOUND, "user '%.*s' has no token %lld", SLICE_ARG(name),
                 (long long)id));
    rc = edit_write(&e, e.old->doc, member(e.arena, "tokens", left), err);
out:
    edit_end(&e);
    return rc;
}
