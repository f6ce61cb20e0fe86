/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One account. Passwords are hashed with scrypt (16 MiB of memory each), access
 * tokens, which are random, with SHA-256. An access token is "v1." and the
 * hexadecimal of {"u": user, "i": id, "r": random}, so that the account is found
 * without a search.
 */
#include "base/env.h"
#include "base/hash.h"
#include "base/val_text.h"
#include "server/server_access.h"
#include "server/user_private.h"
#include <stdio.h>

enum { SCRYPT_LOG_N = 14, SCRYPT_LOG_N_MAX = 20, TOKEN_TEXT_MAX = 4096 };

static struct val get(struct val v, const char *name)
{
    return val_get(v, slice_str(name));
}

/* ---- life ---- */

static struct user *user_of(const struct access_rights *a)
{
    return (struct user *)CONTAINER_OF(a, struct user, access);
}

static void access_ref(struct access_rights *a)
{
    user_ref(user_of(a));
}

static void access_unref(struct access_rights *a)
{
    user_unref(user_of(a));
}

static enum errc access_allow(const struct access_rights *a, const struct database *db,
                              const struct collection *c, enum access_level need, struct error *err)
{
    const struct user *u = user_of(a);
    struct slice db_name = db ? db->name : slice_of(NULL, 0);

    if (user_collection_level(u, db_name, c->name) >= need)
        return server_access_check(c->name, need, err);
    return fail(err, ERR_FORBIDDEN, "user '%.*s' may not %s collection '%.*s'", SLICE_ARG(u->name),
                need == ACCESS_WRITE ? "write to" : "read", SLICE_ARG(c->name));
}

struct user *user_new(struct val doc)
{
    static _Atomic uint64_t versions;
    struct user *u = mem_zalloc(sizeof *u);

    u->access = (struct access_rights){ access_allow, access_ref, access_unref };
    u->refs = 1;
    u->arena = arena_new(0);
    u->doc = val_copy(u->arena, doc);
    u->name = val_string(get(u->doc, "user"));
    u->version = atomic_fetch_add(&versions, 1) + 1;
    return u;
}

struct user *user_ref(struct user *u)
{
    atomic_fetch_add(&u->refs, 1);
    return u;
}

void user_unref(struct user *u)
{
    if (!u || atomic_fetch_sub(&u->refs, 1) != 1)
        return;
    arena_free(u->arena);
    mem_free(u);
}

struct slice user_name(const struct user *u)
{
    return u->name;
}

bool user_is_root(const struct user *u)
{
    return slice_is(u->name, "root");
}

bool user_is_active(const struct user *u)
{
    return val_bool(get(u->doc, "active"));
}

struct val user_extra(const struct user *u)
{
    return get(u->doc, "extra");
}

struct val user_grants(const struct user *u)
{
    return get(u->doc, "grants");
}

struct val user_tokens(const struct user *u)
{
    return get(u->doc, "tokens");
}

uint64_t user_version(const struct user *u)
{
    return u->version;
}

struct access_rights *user_access(struct user *u)
{
    return user_is_root(u) ? NULL : &u->access;
}

bool user_name_is_legal(struct slice name)
{
    if (!name.len || name.len > USER_NAME_MAX || !utf8_check(name, NULL))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] < 0x20 || name.ptr[i] == 0x7f || name.ptr[i] == ':')
            return false;
    return true;
}

/* ---- passwords ---- */

static struct val new_bytes(struct arena *arena, const uint8_t *bytes, size_t len)
{
    struct buf text;

    buf_init(&text, 0);
    base64_encode(slice_of(bytes, len), false, &text);
    struct val out = val_new_string(arena, buf_slice(&text));
    buf_release(&text);
    return out;
}

static bool read_bytes(struct val v, uint8_t *out, size_t len)
{
    struct buf bytes;

    buf_init(&bytes, KIB);
    bool is_ok = base64_decode(val_string(v), false, &bytes) >= 0 && bytes.len == len;
    if (is_ok)
        memcpy(out, bytes.ptr, len);
    buf_release(&bytes);
    return is_ok;
}

struct val user_hash_password(struct slice password, struct arena *arena)
{
    uint8_t salt[USER_SALT_BYTES], hash[USER_HASH_BYTES];
    const struct env *env = env_system();

    env->random(env->ctx, salt, sizeof salt);
    hash_scrypt(password, slice_of(salt, sizeof salt), SCRYPT_LOG_N, hash);
    struct slice names[] = { slice_str("method"), slice_str("log_n"), slice_str("salt"),
                             slice_str("hash") };
    struct val values[] = { val_new_string(arena, slice_str("scrypt")),
                            val_new_int(arena, SCRYPT_LOG_N), new_bytes(arena, salt, sizeof salt),
                            new_bytes(arena, hash, sizeof hash) };
    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

bool user_password_is_right(const struct user *u, struct slice password)
{
    struct val stored = get(u->doc, "password");
    uint8_t salt[USER_SALT_BYTES], want[USER_HASH_BYTES], got[USER_HASH_BYTES];
    int64_t log_n = val_int(get(stored, "log_n"));

    if (val_is_null(stored)) /* root before a password was set */
        return password.len == 0;
    if (!slice_is(val_string(get(stored, "method")), "scrypt") || log_n < 1 ||
        log_n > SCRYPT_LOG_N_MAX || !read_bytes(get(stored, "salt"), salt, sizeof salt) ||
        !read_bytes(get(stored, "hash"), want, sizeof want))
        return false;
    hash_scrypt(password, slice_of(salt, sizeof salt), (unsigned)log_n, got);
    return hash_equal(want, got, sizeof want);
}

/* ---- grants ---- */

const char *access_level_name(enum access_level level)
{
    switch (level) {
    case ACCESS_NONE:
        return "none";
    case ACCESS_READ:
        return "ro";
    case ACCESS_WRITE:
        return "rw";
    }
    BUG("unknown access level %d", level);
}

bool access_level_parse(struct slice text, enum access_level *out)
{
    for (enum access_level level = ACCESS_NONE; level <= ACCESS_WRITE; level++) {
        if (slice_is(text, access_level_name(level))) {
            *out = level;
            return true;
        }
    }
    return false;
}

enum access_level user_database_level(const struct user *u, struct slice db)
{
    struct slice any = slice_str("*");
    struct val grants = user_grants(u);
    enum access_level level = ACCESS_NONE;

    if (user_is_root(u))
        return ACCESS_WRITE;
    if (!access_level_parse(val_string(get(val_get(grants, db), "access")), &level))
        access_level_parse(val_string(get(val_get(grants, any), "access")), &level);
    return level;
}

static bool granted(struct val grants, struct slice db, struct slice collection,
                    enum access_level *out)
{
    struct val given = get(val_get(grants, db), "collections");

    return access_level_parse(val_string(val_get(given, collection)), out);
}

enum access_level user_collection_level(const struct user *u, struct slice db,
                                        struct slice collection)
{
    struct slice any = slice_str("*");
    struct val grants = user_grants(u);
    enum access_level level = ACCESS_NONE;

    if (user_is_root(u))
        return ACCESS_WRITE;
    if (slice_is(collection, "_users"))
        return user_database_level(u, slice_str("_system")) == ACCESS_WRITE ? ACCESS_WRITE
                                                                            : ACCESS_NONE;
    if (user_database_level(u, db) == ACCESS_NONE)
        return ACCESS_NONE;
    if (granted(grants, db, collection, &level))
        return level;
    if (slice_starts(collection, "_"))
        return user_database_level(u, db);
    if (!granted(grants, db, any, &level) && !granted(grants, any, collection, &level))
        granted(grants, any, any, &level);
    return level;
}

/* The object with one member changed, or without it when value is VAL_NONE. */
static struct val with(struct val object, struct slice name, struct val value, struct arena *arena)
{
    size_t count = val_count(object), n = 0;
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof *names);
    struct val *values = arena_alloc(arena, (count + 1) * sizeof *values);

    for (size_t i = 0; i < count; i++) {
        if (slice_eq(val_name_at(object, i), name))
            continue;
        names[n] = val_name_at(object, i);
        values[n++] = val_at(object, i);
    }
    if (value.at) {
        names[n] = name;
        values[n++] = value;
    }
    return val_new_object(arena, names, values, n);
}

struct val grants_change(struct val grants, struct slice db, struct slice collection,
                         const enum access_level *level, struct arena *arena)
{
    struct val mine = val_get(grants, db);
    struct val value =
        level ? val_new_string(arena, slice_str(access_level_name(*level))) : VAL_NONE;

    if (collection.len) {
        struct val all = with(get(mine, "collections"), collection, value, arena);
        mine = with(mine, slice_str("collections"), val_count(all) ? all : VAL_NONE, arena);
    } else {
        mine = with(mine, slice_str("access"), value, arena);
    }
    return with(grants, db, val_count(mine) ? mine : VAL_NONE, arena);
}

/* ---- access tokens ---- */

static struct slice token_hash(struct slice token, char out[65])
{
    uint8_t digest[32];

    hash_sha256(token.ptr, token.len, digest);
    hash_hex(digest, sizeof digest, out);
    return slice_str(out);
}

static int64_t next_id(struct val tokens)
{
    int64_t last = 0;

    for (size_t i = 0; i < val_count(tokens); i++) {
        int64_t id = val_int(get(val_at(tokens, i), "id"));
        last = id > last ? id : last;
    }
    return last + 1;
}

static void token_text(struct slice user, int64_t id, struct buf *out)
{
    uint8_t secret[32];
    char hex[65], one[3];
    struct buf json;
    const struct env *env = env_system();

    env->random(env->ctx, secret, sizeof secret);
    hash_hex(secret, sizeof secret, hex);
    buf_init(&json, 0);
    buf_add_str(&json, "{\"u\":");
    val_print_string(user, &json);
    buf_printf(&json, ",\"i\":%lld,\"r\":\"%s\"}", (long long)id, hex);
    buf_add_str(out, "v1.");
    for (size_t i = 0; i < json.len; i++) {
        hash_hex((const uint8_t *)json.ptr + i, 1, one);
        buf_add_str(out, one);
    }
    buf_release(&json);
}

enum errc token_new(const struct user *u, const struct token_wish *wish, struct arena *arena,
                    struct val *row, struct buf *text, struct error *err)
{
    struct val tokens = user_tokens(u);
    int64_t id = next_id(tokens);
    uint64_t now_s = env_wall_us(env_system()) / 1000000;
    char hash[65];

    for (size_t i = 0; i < val_count(tokens); i++)
        if (slice_eq(val_string(get(val_at(tokens, i), "name")), wish->name))
            return fail(err, ERR_EXISTS, "user '%.*s' has a token named '%.*s' already",
                        SLICE_ARG(u->name), SLICE_ARG(wish->name));
    token_text(u->name, id, text);
    token_hash(buf_slice(text), hash);
    struct slice end = slice_of(text->ptr + text->len - 6, 6);
    struct slice names[] = { slice_str("id"),          slice_str("name"),
                             slice_str("created_at"),  slice_str("valid_until"),
                             slice_str("fingerprint"), slice_str("hash"),
                             slice_str("scopes"),      slice_str("limits") };
    struct val values[] = {
        val_new_int(arena, id),
        val_new_string(arena, wish->name),
        val_new_int(arena, (int64_t)now_s),
        val_new_int(arena, (int64_t)wish->valid_until_s),
        val_new_string(arena, slice_str(arena_printf(arena, "v1...%.*s", SLICE_ARG(end)))),
        val_new_string(arena, slice_str(hash)),
        wish->scopes,
        wish->limits,
    };
    *row = val_new_object(arena, names, values, ARRAY_LEN(names));
    return OK;
}

struct val tokens_with(struct val tokens, struct val row, struct arena *arena)
{
    size_t count = val_count(tokens);
    struct val *all = arena_alloc(arena, (count + 1) * sizeof *all);

    for (size_t i = 0; i < count; i++)
        all[i] = val_at(tokens, i);
    all[count] = row;
    return val_new_array(arena, all, count + 1);
}

struct val tokens_without(struct val tokens, int64_t id, struct arena *arena)
{
    size_t count = val_count(tokens), n = 0;
    struct val *left = arena_alloc(arena, (count + 1) * sizeof *left);

    for (size_t i = 0; i < count; i++)
        if (val_int(get(val_at(tokens, i), "id")) != id)
            left[n++] = val_at(tokens, i);
    return val_new_array(arena, left, n);
}

bool token_has_limits(const struct token_facts *t)
{
    const struct token_limits *l = &t->limits;

    return l->requests_per_minute || l->tokens_per_minute || l->tokens_per_day;
}

bool token_is_whole(const struct token_facts *t)
{
    return !t->id || (t->scopes == SCOPE_ALL && !token_has_limits(t));
}

bool scopes_parse(struct val names, unsigned *out)
{
    static const char *const known[] = { "infer", "data", "admin" };

    *out = val_is_null(names) ? SCOPE_ALL : 0;
    if (val_is_null(names))
        return true;
    for (size_t i = 0; val_type(names) == VAL_ARRAY && i < val_count(names); i++) {
        unsigned one = 0;
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
            one |= slice_is(val_string(val_at(names, i)), known[k]) ? 1u << k : 0;
        if (!one)
            return false;
        *out |= one;
    }
    return *out != 0;
}

static uint64_t limit_of(struct val limits, const char *name)
{
    int64_t n = val_int(get(limits, name));

    return n > 0 ? (uint64_t)n : 0;
}

/* A row that cannot be read gives nothing. */
static struct token_facts facts_of(struct val row)
{
    struct val limits = get(row, "limits");
    struct token_facts t = { .id = val_int(get(row, "id")),
                             .created_s = val_int(get(row, "created_at")) };

    if (!scopes_parse(get(row, "scopes"), &t.scopes))
        t.scopes = 0;
    t.limits = (struct token_limits){ limit_of(limits, "requests_per_minute"),
                                      limit_of(limits, "tokens_per_minute"),
                                      limit_of(limits, "tokens_per_day") };
    return t;
}

bool user_token_is_right(const struct user *u, struct slice token, uint64_t now_s,
                         struct token_facts *out)
{
    char hash[65];
    struct val tokens = user_tokens(u);
    struct slice got = token_hash(token, hash);
    bool is_right = false;

    for (size_t i = 0; i < val_count(tokens); i++) {
        struct slice want = val_string(get(val_at(tokens, i), "hash"));
        bool is_valid = val_int(get(val_at(tokens, i), "valid_until")) > (int64_t)now_s;
        if (!is_valid || want.len != got.len || !hash_equal(want.ptr, got.ptr, got.len))
            continue;
        is_right = true;
        *out = facts_of(val_at(tokens, i));
    }
    return is_right;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

bool user_of_token(struct slice token, char out[USER_NAME_MAX + 1])
{
    struct buf json;
    struct val v;
    bool is_ok = slice_starts(token, "v1.") && token.len <= TOKEN_TEXT_MAX && token.len % 2 == 1;

    if (!is_ok)
        return false;
    buf_init(&json, TOKEN_TEXT_MAX);
    for (size_t i = 3; is_ok && i < token.len; i += 2) {
        int high = hex_digit(token.ptr[i]), low = hex_digit(token.ptr[i + 1]);
        is_ok = high >= 0 && low >= 0;
        if (is_ok)
            buf_add_char(&json, (char)(high << 4 | low));
    }
    struct arena *arena = arena_new(64 * KIB);
    is_ok = is_ok && val_parse(buf_slice(&json), arena, &v, NULL) == OK;
    struct slice name = is_ok ? val_string(get(v, "u")) : slice_of(NULL, 0);
    is_ok = user_name_is_legal(name);
    if (is_ok)
        snprintf(out, USER_NAME_MAX + 1, "%.*s", SLICE_ARG(name));
    arena_free(arena);
    buf_release(&json);
    return is_ok;
}
