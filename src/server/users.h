/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users -- accounts with their passwords, tokens and grants: stored as documents
 * of _system/_users, held in memory as immutable values. Hides how they are
 * stored and hashed.
 *
 * users_find and what reads a struct user: any thread. What changes an account
 * writes to the store, user_password_is_right takes tens of milliseconds:
 * worker threads.
 */
#ifndef SERVER_USERS_H
#define SERVER_USERS_H

#include "base/buf.h"
#include "store/access.h"
#include "store/store.h"

enum { USER_NAME_MAX = 128, USER_PASSWORD_MAX = 1024, USERS_MAX = 10000, USER_TOKENS_MAX = 64 };

/* What an access token is good for. */
enum scope {
    SCOPE_INFER = 1, /* models: generations, embeddings, INFER and ASK */
    SCOPE_DATA = 2,  /* documents, queries, imports */
    SCOPE_ADMIN = 4, /* accounts, tokens, and what administrators may */
    SCOPE_ALL = 7,
};

struct token_limits {
    uint64_t requests_per_minute, tokens_per_minute, tokens_per_day; /* 0 = none */
};

struct token_facts {
    int64_t id;        /* 0: not by an access token */
    int64_t created_s; /* since 1970; ids are used again */
    unsigned scopes;   /* enum scope, or-ed */
    struct token_limits limits;
};
/* Neither scopes nor limits bound what it may do. */
bool token_is_whole(const struct token_facts *t);
bool token_has_limits(const struct token_facts *t);
/* The names in scopes, an array of texts or null: all. False: names something else, or nothing. */
bool scopes_parse(struct val names, unsigned *out);

struct user; /* one account as it was at one moment */
struct users;

/* Makes the collection when it is missing; root is always there. Borrows the store. */
MUST_CHECK enum errc users_open(struct users **out, struct store *s, struct error *err);
void users_close(struct users *us); /* NULL is allowed */

/* With a reference for the caller; NULL when there is none of that name. */
struct user *users_find(struct users *us, struct slice name);
/* All, sorted by name, each with a reference. Returns the array to the caller, who mem_frees it. */
struct user **users_all(struct users *us, size_t *count);
struct user *user_ref(struct user *u);
void user_unref(struct user *u); /* NULL is allowed */

struct slice user_name(const struct user *u);
bool user_is_root(const struct user *u);
bool user_is_active(const struct user *u);
struct val user_extra(const struct user *u);
/* {database: {access, collections: {name: access}}} as granted. */
struct val user_grants(const struct user *u);
/* [{id, name, created_at, valid_until, fingerprint, scopes, limits, ...}]; the last two or null */
struct val user_tokens(const struct user *u);
uint64_t user_version(const struct user *u); /* another one after each change of any account */

/* Slow on purpose. */
bool user_password_is_right(const struct user *u, struct slice password);
/* An access token: fast, since it is random. out: when it is right. */
bool user_token_is_right(const struct user *u, struct slice token, uint64_t now_s,
                         struct token_facts *out);
/* The name in an access token, into out; false when it is none. Proves nothing. */
bool user_of_token(struct slice token, char out[USER_NAME_MAX + 1]);

/*
 * What the account may do: the grant itself, else that for "*". System
 * collections follow the database, _users follows _system. Root may do everything.
 */
enum access_level user_database_level(const struct user *u, struct slice db);
enum access_level user_collection_level(const struct user *u, struct slice db,
                                        struct slice collection);
/* For transactions; NULL = everything. Lives as long as u. */
struct access_rights *user_access(struct user *u);

/* ---- changes: durable on return ---- */

struct user_change {
    const struct slice *password; /* NULL = as it is; of a new account: empty */
    const bool *is_active;        /* NULL = as it is; of a new account: true */
    struct val extra;             /* VAL_NONE = as it is; else merged with what is there */
    bool replaces;                /* members that are not given go back to those of a new account */
};

/* 1700 bad name, 1702 exists. */
MUST_CHECK enum errc users_create(struct users *us, struct slice name,
                                  const struct user_change *change, struct error *err);
/* The others: 1703 unknown. */
MUST_CHECK enum errc users_change(struct users *us, struct slice name,
                                  const struct user_change *change, struct error *err);
/* Root stays: ERR_FORBIDDEN. */
MUST_CHECK enum errc users_remove(struct users *us, struct slice name, struct error *err);

/* collection empty: the database. level NULL takes the grant back. */
MUST_CHECK enum errc users_grant(struct users *us, struct slice name, struct slice db,
                                 struct slice collection, const enum access_level *level,
                                 struct error *err);

struct token_wish {
    struct slice name;
    uint64_t valid_until_s;    /* since 1970 */
    struct val scopes, limits; /* checked; or null */
};

/*
 * A new access token: *text is shown once, only its hash is kept. *out is its
 * row of user_tokens, in arena.
 */
MUST_CHECK enum errc users_add_token(struct users *us, struct slice name,
                                     const struct token_wish *wish, struct arena *arena,
                                     struct val *out, struct buf *text, struct error *err);
MUST_CHECK enum errc users_remove_token(struct users *us, struct slice name, int64_t id,
                                        struct error *err);

/* "rw", "ro", "none" */
const char *access_level_name(enum access_level level);
bool access_level_parse(struct slice text, enum access_level *out);

#endif
