/* SPDX-License-Identifier: Apache-2.0 */
/* user_private -- one account as a value, for users.c and user.c. */
#ifndef SERVER_USER_PRIVATE_H
#define SERVER_USER_PRIVATE_H

#include "server/users.h"
#include <stdatomic.h>

enum { USER_SALT_BYTES = 16, USER_HASH_BYTES = 32 };

struct user {
    struct access_rights access; /* first: its functions cast back */
    _Atomic int refs;
    struct arena *arena; /* owned; holds doc */
    struct val doc;      /* as stored */
    struct slice name;   /* in doc */
    uint64_t version;
};

/* A copy of the document with one reference for the caller. */
struct user *user_new(struct val doc);
bool user_name_is_legal(struct slice name);

/* {method, log_n, salt, hash} with a fresh salt. Slow on purpose. */
struct val user_hash_password(struct slice password, struct arena *arena);

/* grants with one of them changed; level NULL takes it back. In arena. */
struct val grants_change(struct val grants, struct slice db, struct slice collection,
                         const enum access_level *level, struct arena *arena);

/* A row for user_tokens, and the token itself into text. ERR_EXISTS: the name is taken. */
MUST_CHECK enum errc token_new(const struct user *u, const struct token_wish *wish,
                               struct arena *arena, struct val *row, struct buf *text,
                               struct error *err);
struct val tokens_with(struct val tokens, struct val row, struct arena *arena);
struct val tokens_without(struct val tokens, int64_t id, struct arena *arena);

#endif
