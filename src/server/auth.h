/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth -- who is asking: Basic passwords and HS256 tokens, and the rule about
 * Host and Origin that keeps web pages away from a loopback server.
 *
 * Immutable after opening: any thread.
 */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/settings.h"

struct auth;

/* Reads root_password_file or THEMIS_ROOT_PASSWORD, and jwt_secret_file. */
MUST_CHECK enum errc auth_open(struct auth **out, const struct settings *s, struct error *err);
void auth_close(struct auth *a);
bool auth_has_password(const struct auth *a);

struct identity {
    char user[65]; /* "" = nobody */
};

/*
 * The Authorization header (may be empty). No credentials: nobody, OK. Wrong ones:
 * ERR_UNAUTHORIZED. With auth off a bearer that is not a token is taken for a
 * placeholder of a client library and ignored.
 */
MUST_CHECK enum errc auth_check(const struct auth *a, struct slice authorization, bool is_auth_on,
                                struct identity *out, struct error *err);

/* POST /_open/auth: a token of an hour. */
MUST_CHECK enum errc auth_issue(const struct auth *a, struct slice user, struct slice password,
                                struct buf *token, struct error *err);

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
