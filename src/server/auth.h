/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth -- who is asking: Basic passwords, access tokens and HS256 tokens, and
 * the rule about Host and Origin that keeps web pages away from a loopback server.
 *
 * Any thread, except auth_prove and auth_issue, which take tens of milliseconds.
 */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/settings.h"
#include "server/users.h"

struct auth;

/*
 * Reads root_password_file or THEMIS_ROOT_PASSWORD, and jwt_secret_file. Borrows
 * users; NULL: there is only root. A password of root from the operator holds
 * whatever is stored.
 */
MUST_CHECK enum errc auth_open(struct auth **out, const struct settings *s, struct users *users,
                               struct error *err);
void auth_close(struct auth *a);
/* Slow when the password of root is stored. */
bool auth_has_password(const struct auth *a);
/* Does the operator give the password of root? Then it is not changed by requests. */
bool auth_root_is_fixed(const struct auth *a);

enum auth_state {
    AUTH_NOBODY,   /* no credentials */
    AUTH_KNOWN,    /* right ones */
    AUTH_UNPROVEN, /* a password that auth_prove must compare */
};

struct identity {
    enum auth_state state;
    char user[USER_NAME_MAX + 1]; /* "" = nobody */
    struct user *account;         /* owned; NULL: root or superuser, who may do everything */
    struct buf password;          /* owned; of AUTH_UNPROVEN */
    struct token_facts token;     /* of an access token */
};
void identity_release(struct identity *who); /* wipes the password */

/*
 * The Authorization header (may be empty). Wrong credentials: ERR_UNAUTHORIZED.
 * With auth off a bearer that is not a token is taken for a placeholder of a
 * client library and ignored. *out is released by the caller in any case.
 */
MUST_CHECK enum errc auth_check(struct auth *a, struct slice authorization, bool is_auth_on,
                                struct identity *out, struct error *err);
/* Compares the password; the same pair is known at once the next time. */
MUST_CHECK enum errc auth_prove(struct auth *a, struct identity *who, struct error *err);

/*
 * POST /_open/auth: a token of an hour. ERR_BUSY: too many at once. ERR_FORBIDDEN: the password is
 * an access token with scopes or limits, which the new one would not have.
 */
MUST_CHECK enum errc auth_issue(struct auth *a, struct slice user, struct slice password,
                                struct buf *token, struct error *err);
/* The same for somebody who is known; user empty: a superuser. */
void auth_renew(const struct auth *a, struct slice user, struct buf *token);

/*
 * Host must be the listen address, localhost, a loopback literal or in
 * allowed; Origin, when present, its own host or in cors. ERR_FORBIDDEN.
 */
MUST_CHECK enum errc auth_check_host(struct slice host, struct slice origin,
                                     const char *listen_host, uint16_t port, const char *allowed,
                                     const char *cors, struct error *err);

/* True when the address is loopback ("127.x.y.z", "::1", "localhost"). */
bool host_is_loopback(struct slice host);

#endif
