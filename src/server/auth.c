/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's password of root comes from a file or the environment at each
 * start, so only a salted digest of it is held; both sides of a comparison are
 * digests of equal length, compared in constant time. Stored passwords are
 * scrypt, slow on purpose: a pair that was right once is remembered by digest
 * until an account changes. Tokens are HS256 only.
 */
#include "server/auth.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/val_text.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { TOKEN_LIFE_S = 3600, SECRET_MAX = 4096, PROVEN_MAX = 256, ISSUING_MAX = 2 };

/* A pair of user and password that was right for that version of the account. */
struct proven {
    uint8_t digest[32];
    uint64_t version; /* 0 = free */
};

struct auth {
    uint8_t salt[16];
    uint8_t password[32]; /* HMAC-SHA-256 of the password, keyed by the salt */
    bool is_fixed;        /* the operator gives it */
    uint8_t secret[SECRET_MAX];
    size_t secret_len;
    struct users *users; /* borrowed; may be NULL */
    pthread_mutex_t lock;
    struct proven proven[PROVEN_MAX];
    size_t next_proven;
    _Atomic int issuing;
};

static void password_digest(const struct auth *a, struct slice password, uint8_t out[32])
{
    hash_hmac_sha256(slice_of(a->salt, sizeof a->salt), password, out);
}

/* A small file without its trailing line end. */
static enum errc secret_read(const char *path, const char *what, uint8_t *out, size_t *len,
                             struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, SECRET_MAX);
    int saved = errno;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return fail(err, ERR_IO, "cannot read %s %s: %s", what, path, strerror(saved));
    if (n == SECRET_MAX)
        return fail(err, ERR_INVALID, "%s %s is longer than %d bytes", what, path, SECRET_MAX - 1);
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    *len = (size_t)n;
    return OK;
}

static enum errc load_password(struct auth *a, const struct settings *s, struct error *err)
{
    uint8_t file[SECRET_MAX];
    const char *env = getenv("THEMIS_ROOT_PASSWORD");
    struct slice password = slice_of(NULL, 0);

    if (s->root_password_file[0]) {
        size_t len;
        enum errc rc = secret_read(s->root_password_file, "root_password_file", file, &len, err);
        if (rc != OK)
            return rc;
        password = slice_of(file, len);
    } else if (env) {
        password = slice_str(env);
    }
    a->is_fixed = password.len > 0;
    password_digest(a, password, a->password);
    return OK;
}

enum errc auth_open(struct auth **out, const struct settings *s, struct users *users,
                    struct error *err)
{
    enum errc rc = OK;
    const struct env *env = env_system();
    struct auth *a = mem_zalloc(sizeof *a);

    a->users = users;
    pthread_mutex_init(&a->lock, NULL);
    env->random(env->ctx, a->salt, sizeof a->salt);
    TRY(load_password(a, s, err));
    if (s->jwt_secret_file[0]) {
        TRY(secret_read(s->jwt_secret_file, "jwt_secret_file", a->secret, &a->secret_len, err));
        if (a->secret_len < 8) {
            rc = fail(err, ERR_INVALID, "jwt_secret_file %s has fewer than 8 bytes",
                      s->jwt_secret_file);
            goto out;
        }
    } else {
        a->secret_len = 64;
        env->random(env->ctx, a->secret, a->secret_len);
    }
    *out = a;
    a = NULL;
out:
    auth_close(a);
    return rc;
}

void auth_close(struct auth *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    explicit_bzero(a, sizeof *a);
    mem_free(a);
}

bool auth_has_password(const struct auth *a)
{
    struct user *root = a->users ? users_find(a->users, slice_str("root")) : NULL;
    bool has = a->is_fixed || (root && !user_password_is_right(root, slice_of(NULL, 0)));

    user_unref(root);
    return has;
}

bool auth_root_is_fixed(const struct auth *a)
{
    return a->is_fixed;
}

void identity_release(struct identity *who)
{
    if (who->password.len)
        explicit_bzero(who->password.ptr, who->password.len);
    buf_release(&who->password);
    user_unref(who->account);
    *who = (struct identity){ 0 };
}

static enum errc wrong_password(struct error *err)
{
    return fail(err, ERR_UNAUTHORIZED, "wrong user or password");
}

/* Root may do everything, so it needs no account. */
static void set_right(struct identity *who)
{
    who->state = AUTH_KNOWN;
    if (!who->account || !user_is_root(who->account))
        return;
    user_unref(who->account);
    who->account = NULL;
}

/* Takes the reference. */
static void set_known(struct identity *who, struct slice name, struct user *account)
{
    snprintf(who->user, sizeof who->user, "%.*s", SLICE_ARG(name));
    who->account = account;
    set_right(who);
}

/* An active account of that name, with a reference. */
static struct user *find_active(const struct auth *a, struct slice name)
{
    struct user *u = a->users ? users_find(a->users, name) : NULL;

    if (u && user_is_active(u))
        return u;
    user_unref(u);
    return NULL;
}

/* ---- passwords ---- */

static void pair_digest(const struct auth *a, struct slice user, struct slice password,
                        uint8_t out[32])
{
    struct buf pair;

    buf_init(&pair, 0);
    buf_add_slice(&pair, user);
    buf_add_char(&pair, 0);
    buf_add_slice(&pair, password);
    hash_hmac_sha256(slice_of(a->salt, sizeof a->salt), buf_slice(&pair), out);
    explicit_bzero(pair.ptr, pair.len);
    buf_release(&pair);
}

static bool is_proven(struct auth *a, const uint8_t digest[32], uint64_t version)
{
    bool is_found = false;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < PROVEN_MAX && !is_found; i++)
        is_found = a->proven[i].version == version && hash_equal(a->proven[i].digest, digest, 32);
    pthread_mutex_unlock(&a->lock);
    return is_found;
}

static void remember(struct auth *a, const uint8_t digest[32], uint64_t version)
{
    pthread_mutex_lock(&a->lock);
    struct proven *p = &a->proven[a->next_proven++ % PROVEN_MAX];
    memcpy(p->digest, digest, sizeof p->digest);
    p->version = version;
    pthread_mutex_unlock(&a->lock);
}

static bool token_fits(struct slice token, const struct user *u, struct identity *out)
{
    return user_token_is_right(u, token, env_wall_us(env_system()) / 1000000, &out->token);
}

/* An unknown user takes as long as a wrong password: names are not given away. */
static enum errc check_password(struct auth *a, struct slice name, struct slice password,
                                struct identity *out, struct error *err)
{
    uint8_t digest[32];
    bool is_root = slice_is(name, "root");

    if (is_root && (a->is_fixed || !a->users)) {
        password_digest(a, password, digest);
        if (!hash_equal(digest, a->password, sizeof digest))
            return wrong_password(err);
        set_known(out, name, NULL);
        return OK;
    }
    if (!a->users || !name.len || name.len > USER_NAME_MAX || password.len > USER_PASSWORD_MAX * 4)
        return wrong_password(err);
    struct user *u = find_active(a, name);
    pair_digest(a, name, password, digest);
    if (u && (is_proven(a, digest, user_version(u)) || token_fits(password, u, out))) {
        set_known(out, name, u);
        return OK;
    }
    out->state = AUTH_UNPROVEN;
    snprintf(out->user, sizeof out->user, "%.*s", SLICE_ARG(name));
    out->account = u;
    buf_add_slice(&out->password, password);
    return OK;
}

enum errc auth_prove(struct auth *a, struct identity *who, struct error *err)
{
    struct slice password = buf_slice(&who->password), name = slice_str(who->user);
    uint8_t digest[32];
    bool is_right = false;

    if (who->account)
        is_right = user_password_is_right(who->account, password);
    else
        hash_scrypt(password, slice_of(a->salt, sizeof a->salt), 14, digest);
    if (!is_right)
        return wrong_password(err);
    pair_digest(a, name, password, digest);
    remember(a, digest, user_version(who->account));
    set_right(who);
    return OK;
}

/* ---- tokens ---- */

static void token_signature(const struct auth *a, struct slice signed_part, struct buf *out)
{
    uint8_t mac[32];

    hash_hmac_sha256(slice_of(a->secret, a->secret_len), signed_part, mac);
    base64_encode(slice_of(mac, sizeof mac), true, out);
}

void auth_renew(const struct auth *a, struct slice user, struct buf *token)
{
    struct buf claims, mac;
    uint64_t now_s = env_wall_us(env_system()) / 1000000;

    base64_encode(slice_str("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), true, token);
    buf_init(&claims, 4 * KIB);
    buf_add_str(&claims, "{\"iss\":\"arangodb\",");
    buf_add_str(&claims, user.len ? "\"preferred_username\":" : "\"server_id\":");
    val_print_string(user.len ? user : slice_str("themis"), &claims);
    buf_printf(&claims, ",\"iat\":%llu,\"exp\":%llu}", (unsigned long long)now_s,
               (unsigned long long)now_s + TOKEN_LIFE_S);
    buf_add_char(token, '.');
    base64_encode(buf_slice(&claims), true, token);
    buf_release(&claims);

    buf_init(&mac, 256);
    token_signature(a, buf_slice(token), &mac);
    buf_add_char(token, '.');
    buf_add_slice(token, buf_slice(&mac));
    buf_release(&mac);
}

enum errc auth_issue(struct auth *a, struct slice user, struct slice password, struct buf *token,
                     struct error *err)
{
    struct identity who = { 0 };
    enum errc rc = check_password(a, user, password, &who, err);

    if (atomic_fetch_add(&a->issuing, 1) >= ISSUING_MAX)
        rc = fail(err, ERR_BUSY, "too many are logging in: try again");
    if (rc == OK && who.state == AUTH_UNPROVEN)
        rc = auth_prove(a, &who, err);
    atomic_fetch_sub(&a->issuing, 1);
    if (rc == OK && !token_is_whole(&who.token))
        rc = fail(err, ERR_FORBIDDEN, "an access token with scopes or limits gives no other token");
    identity_release(&who);
    if (rc == ERR_UNAUTHORIZED)
        return fail_num(err, 401, "wrong credentials");
    if (rc == OK)
        auth_renew(a, user, token);
    return rc;
}

static bool part_parse(struct slice encoded, struct arena *arena, struct val *out)
{
    struct buf text;
    bool is_ok;

    buf_init(&text, 16 * KIB);
    is_ok = base64_decode(encoded, true, &text) >= 0 &&
            val_parse(buf_slice(&text), arena, out, NULL) == OK && val_type(*out) == VAL_OBJECT;
    buf_release(&text);
    return is_ok;
}

static bool claims_accept(const struct auth *a, struct val header, struct val claims,
                          struct identity *out)
{
    uint64_t now_s = env_wall_us(env_system()) / 1000000;
    struct val exp = val_get(claims, slice_str("exp"));
    struct slice user = val_string(val_get(claims, slice_str("preferred_username")));

    if (!slice_is(val_string(val_get(header, slice_str("alg"))), "HS256"))
        return false;
    if (val_type(exp) == VAL_NUMBER && val_double(exp) <= (double)now_s)
        return false;
    if (user.len) {
        struct user *u = find_active(a, user);
        bool is_user = u || (!a->users && slice_is(user, "root"));
        if (is_user)
            set_known(out, user, u);
        return is_user;
    }
    /* ArangoDB's superuser token: no user, a server_id, signed with the shared secret. */
    bool is_superuser = val_type(val_get(claims, slice_str("server_id"))) == VAL_STRING;
    if (is_superuser)
        set_known(out, slice_str("root"), NULL);
    return is_superuser;
}

static bool token_is_right(const struct auth *a, struct slice token, struct identity *out)
{
    const char *first = memchr(token.ptr, '.', token.len);
    const char *last = memrchr(token.ptr, '.', token.len);
    struct buf mac;
    bool is_ok;

    if (!first || first == last || token.len > 16 * KIB)
        return false;
    struct slice given = slice_of(last + 1, (size_t)(token.ptr + token.len - last - 1));
    buf_init(&mac, 256);
    token_signature(a, slice_of(token.ptr, (size_t)(last - token.ptr)), &mac);
    is_ok = given.len == mac.len && hash_equal(given.ptr, mac.ptr, mac.len);
    buf_release(&mac);
    if (!is_ok)
        return false;

    struct val header, claims;
    struct arena *arena = arena_new(MIB);
    is_ok = part_parse(slice_of(token.ptr, (size_t)(first - token.ptr)), arena, &header) &&
            part_parse(slice_of(first + 1, (size_t)(last - first - 1)), arena, &claims) &&
            claims_accept(a, header, claims, out);
    arena_free(arena);
    return is_ok;
}

static bool looks_like_token(struct slice s)
{
    size_t dots = 0;

    for (size_t i = 0; i < s.len; i++)
        dots += s.ptr[i] == '.';
    return (dots == 2 && slice_starts(s, "eyJ")) || slice_starts(s, "v1.");
}

static enum errc check_basic(struct auth *a, struct slice encoded, struct identity *out,
                             struct error *err)
{
    struct buf text;
    enum errc rc;

    buf_init(&text, 16 * KIB);
    const char *colon = NULL;
    if (base64_decode(encoded, false, &text) >= 0 && text.len)
        colon = memchr(text.ptr, ':', text.len);
    if (!colon)
        rc = fail(err, ERR_UNAUTHORIZED, "the Basic credentials are not base64 of user:password");
    else
        rc = check_password(a, slice_of(text.ptr, (size_t)(colon - text.ptr)),
                            slice_of(colon + 1, (size_t)(text.ptr + text.len - colon - 1)), out,
                            err);
    if (text.len)
        explicit_bzero(text.ptr, text.len);
    buf_release(&text);
    return rc;
}

/* An access token as a key of a client library. */
static bool access_token_is_right(const struct auth *a, struct slice token, struct identity *out)
{
    char name[USER_NAME_MAX + 1];
    struct user *u = user_of_token(token, name) ? find_active(a, slice_str(name)) : NULL;
    bool is_right = u && token_fits(token, u, out);

    if (is_right)
        set_known(out, slice_str(name), u);
    else
        user_unref(u);
    return is_right;
}

static struct slice scheme_rest(struct slice header, const char *scheme)
{
    size_t n = strlen(scheme);

    if (header.len <= n || strncasecmp(header.ptr, scheme, n) != 0 || header.ptr[n] != ' ')
        return slice_of(NULL, 0);
    while (n < header.len && header.ptr[n] == ' ')
        n++;
    return slice_of(header.ptr + n, header.len - n);
}

enum errc auth_check(struct auth *a, struct slice authorization, bool is_auth_on,
                     struct identity *out, struct error *err)
{
    *out = (struct identity){ 0 };
    buf_init(&out->password, 16 * KIB);
    if (!authorization.len)
        return OK;

    struct slice basic = scheme_rest(authorization, "basic");
    if (basic.len)
        return check_basic(a, basic, out, err);

    struct slice bearer = scheme_rest(authorization, "bearer");
    if (bearer.len) {
        if (token_is_right(a, bearer, out) || access_token_is_right(a, bearer, out))
            return OK;
        if (!is_auth_on && !looks_like_token(bearer))
            return OK;
        return fail(err, ERR_UNAUTHORIZED, "the token is not valid or has expired");
    }
    return fail(err, ERR_UNAUTHORIZED, "Authorization must be Basic or Bearer");
}

/* ---- Host and Origin ---- */

static bool list_has(const char *list, struct slice item)
{
    for (const char *at = list; *at;) {
        const char *end = strchrnul(at, ',');
        struct slice one = slice_of(at, (size_t)(end - at));
        while (one.len && one.ptr[0] == ' ')
            one = slice_of(one.ptr + 1, one.len - 1);
        while (one.len && one.ptr[one.len - 1] == ' ')
            one.len--;
        if (one.len && one.len == item.len && strncasecmp(one.ptr, item.ptr, item.len) == 0)
            return true;
        at = *end ? end + 1 : end;
    }
    return false;
}

/* Host without its port: "[::1]:80" -> "::1". */
static struct slice host_name(struct slice host)
{
    if (host.len && host.ptr[0] == '[') {
        const char *end = memchr(host.ptr, ']', host.len);
        return end ? slice_of(host.ptr + 1, (size_t)(end - host.ptr - 1)) : host;
    }
    const char *colon = memrchr(host.ptr, ':', host.len);
    return colon ? slice_of(host.ptr, (size_t)(colon - host.ptr)) : host;
}

static bool is_ipv4_loopback(struct slice h)
{
    size_t dots = 0;

    if (!slice_starts(h, "127."))
        return false;
    for (size_t i = 0; i < h.len; i++) {
        if (h.ptr[i] != '.' && (h.ptr[i] < '0' || h.ptr[i] > '9'))
            return false;
        dots += h.ptr[i] == '.';
    }
    return dots == 3;
}

bool host_is_loopback(struct slice h)
{
    return is_ipv4_loopback(h) || slice_is(h, "::1") ||
           (h.len == 9 && strncasecmp(h.ptr, "localhost", 9) == 0);
}

enum errc auth_check_host(struct slice host, struct slice origin, const char *listen_host,
                          uint16_t port, const char *allowed, const char *cors, struct error *err)
{
    struct slice name = host_name(host);

    (void)port; /* any port: a forwarded one is as good */
    if (!host_is_loopback(name) && !slice_is(name, listen_host) && !list_has(allowed, name))
        return fail(err, ERR_FORBIDDEN, "Host '%.*s' is not served here; add it to allowed_hosts",
                    SLICE_ARG(name));
    if (!origin.len || list_has(cors, origin))
        return OK;
    const char *scheme = memmem(origin.ptr, origin.len, "://", 3);
    if (scheme) {
        size_t skip = (size_t)(scheme + 3 - origin.ptr);
        if (slice_eq(slice_of(origin.ptr + skip, origin.len - skip), host))
            return OK;
    }
    return fail(err, ERR_FORBIDDEN, "requests from the web origin '%.*s' are refused",
                SLICE_ARG(origin));
}
