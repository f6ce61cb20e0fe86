/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The password of root comes from a file or the environment at each start, so
 * only a salted digest of it is held; both sides of a comparison are digests
 * of equal length, compared in constant time. Tokens are HS256 only.
 */
#include "server/auth.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/val_text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { TOKEN_LIFE_S = 3600, SECRET_MAX = 4096 };

struct auth {
    uint8_t salt[16];
    uint8_t password[32]; /* HMAC-SHA-256 of the password, keyed by the salt */
    bool has_password;
    uint8_t secret[SECRET_MAX];
    size_t secret_len;
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
    a->has_password = password.len > 0;
    password_digest(a, password, a->password);
    return OK;
}

enum errc auth_open(struct auth **out, const struct settings *s, struct error *err)
{
    enum errc rc = OK;
    const struct env *env = env_system();
    struct auth *a = mem_zalloc(sizeof *a);

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
    if (a)
        explicit_bzero(a, sizeof *a);
    mem_free(a);
}

bool auth_has_password(const struct auth *a)
{
    return a->has_password;
}

static bool password_is_right(const struct auth *a, struct slice user, struct slice password)
{
    uint8_t digest[32];

    password_digest(a, password, digest);
    bool is_equal = hash_equal(digest, a->password, sizeof digest);
    return slice_is(user, "root") && is_equal;
}

/* ---- tokens ---- */

static void token_signature(const struct auth *a, struct slice signed_part, struct buf *out)
{
    uint8_t mac[32];

    hash_hmac_sha256(slice_of(a->secret, a->secret_len), signed_part, mac);
    base64_encode(slice_of(mac, sizeof mac), true, out);
}

enum errc auth_issue(const struct auth *a, struct slice user, struct slice password,
                     struct buf *token, struct error *err)
{
    struct buf claims;
    uint64_t now_s = env_wall_us(env_system()) / 1000000;

    if (!password_is_right(a, user, password))
        return fail_num(err, 401, "wrong credentials");
    base64_encode(slice_str("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), true, token);
    buf_init(&claims, 4 * KIB);
    buf_printf(&claims,
               "{\"iss\":\"arangodb\",\"preferred_username\":\"root\",\"iat\":%llu,"
               "\"exp\":%llu}",
               (unsigned long long)now_s, (unsigned long long)now_s + TOKEN_LIFE_S);
    buf_add_char(token, '.');
    base64_encode(buf_slice(&claims), true, token);
    buf_release(&claims);

    struct buf mac;
    buf_init(&mac, 256);
    token_signature(a, buf_slice(token), &mac);
    buf_add_char(token, '.');
    buf_add_slice(token, buf_slice(&mac));
    buf_release(&mac);
    return OK;
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

static bool claims_accept(struct val header, struct val claims, struct identity *out)
{
    uint64_t now_s = env_wall_us(env_system()) / 1000000;
    struct val exp = val_get(claims, slice_str("exp"));
    struct slice user = val_string(val_get(claims, slice_str("preferred_username")));

    if (!slice_is(val_string(val_get(header, slice_str("alg"))), "HS256"))
        return false;
    if (val_type(exp) == VAL_NUMBER && val_double(exp) <= (double)now_s)
        return false;
    if (slice_is(user, "root")) {
        strcpy(out->user, "root");
        return true;
    }
    /* ArangoDB's superuser token: no user, a server_id, signed with the shared secret. */
    if (!user.len && val_type(val_get(claims, slice_str("server_id"))) == VAL_STRING) {
        strcpy(out->user, "root");
        return true;
    }
    return false;
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
            claims_accept(header, claims, out);
    arena_free(arena);
    return is_ok;
}

static bool looks_like_token(struct slice s)
{
    size_t dots = 0;

    for (size_t i = 0; i < s.len; i++)
        dots += s.ptr[i] == '.';
    return dots == 2 && slice_starts(s, "eyJ");
}

static enum errc check_basic(const struct auth *a, struct slice encoded, struct identity *out,
                             struct error *err)
{
    struct buf text;
    enum errc rc = OK;

    buf_init(&text, 16 * KIB);
    const char *colon = NULL;
    if (base64_decode(encoded, false, &text) >= 0 && text.len)
        colon = memchr(text.ptr, ':', text.len);
    if (!colon)
        rc = fail_num(err, 401, "the Basic credentials are not base64 of user:password");
    else if (password_is_right(a, slice_of(text.ptr, (size_t)(colon - text.ptr)),
                               slice_of(colon + 1, (size_t)(text.ptr + text.len - colon - 1))))
        strcpy(out->user, "root");
    else
        rc = fail_num(err, 401, "wrong user or password");
    if (text.len)
        explicit_bzero(text.ptr, text.len);
    buf_release(&text);
    return rc;
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

enum errc auth_check(const struct auth *a, struct slice authorization, bool is_auth_on,
                     struct identity *out, struct error *err)
{
    *out = (struct identity){ 0 };
    if (!authorization.len)
        return OK;

    struct slice basic = scheme_rest(authorization, "basic");
    if (basic.len)
        return check_basic(a, basic, out, err);

    struct slice bearer = scheme_rest(authorization, "bearer");
    if (bearer.len) {
        if (token_is_right(a, bearer, out))
            return OK;
        if (!is_auth_on && !looks_like_token(bearer))
            return OK;
        return fail_num(err, 401, "the token is not valid or has expired");
    }
    return fail_num(err, 401, "Authorization must be Basic or Bearer");
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
