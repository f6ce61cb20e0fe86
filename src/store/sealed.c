/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sealed value, behind tag and length:
 *
 *   01 | length of the key id | key id | check 4 | nonce 12 | ciphertext | tag 16
 *
 * The place, u64 collection id, u8 length of the key, key, path, is authenticated with the value.
 * It also makes a key of its own for each attribute of each document, HMAC-SHA256(key, label and
 * place): random nonces then can only meet those of earlier values of that one attribute.
 *
 * The nonce is drawn for each write and never counted: a store that was restored twice would count
 * twice.
 */
#include "store/sealed.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/key.h"

enum { SEALED_VERSION = 1, PATH_BYTES = 1024 };

static const char label[] = "themis field key 1";

/* ---- keys ---- */

/* All that were ever read: a reader may still use an older one. */
struct key_set {
    struct keyring *ring;
    struct key_set *older;
};

const struct keyring *sealed_keys(const struct store *s)
{
    const struct key_set *set = atomic_load(&s->keys);
    return set ? set->ring : NULL;
}

enum errc sealed_load_keys(struct store *s, struct error *err)
{
    struct keyring *ring;
    if (!s->settings || !s->settings->encryption_key_file[0])
        return OK;
    enum errc rc =
        keyring_load(&ring, s->settings->encryption_key_file, s->settings->encryption_key_id, err);
    if (rc != OK)
        return rc;
    struct key_set *set = mem_zalloc(sizeof *set);
    set->ring = ring;
    set->older = atomic_load(&s->keys);
    atomic_store(&s->keys, set);
    return OK;
}

void sealed_free_keys(struct store *s)
{
    struct key_set *set = atomic_load(&s->keys);
    while (set) {
        struct key_set *older = set->older;
        keyring_free(set->ring);
        mem_free(set);
        set = older;
    }
}

/* ---- one value ---- */

/* Where a value stands. */
struct place {
    const struct keyring *keys;
    const struct collection *collection;
    struct slice key;
    const struct field_path *path;
};

struct parts {
    struct slice key_id, check, nonce, sealed;
};

static bool take(struct slice *from, size_t len, struct slice *out)
{
    if (from->len < len)
        return false;
    *out = slice_of(from->ptr, len);
    *from = slice_of(from->ptr + len, from->len - len);
    return true;
}

static bool read_parts(struct val v, struct parts *out)
{
    struct slice rest = val_sealed_bytes(v), head;
    bool is_right = take(&rest, 2, &head) && head.ptr[0] == SEALED_VERSION &&
                    take(&rest, (uint8_t)head.ptr[1], &out->key_id) &&
                    take(&rest, KEY_CHECK_BYTES, &out->check) &&
                    take(&rest, SEAL_NONCE_BYTES, &out->nonce);
    out->sealed = rest;
    return is_right && rest.len > SEAL_TAG_BYTES;
}

static void put_place(struct buf *out, const struct place *p)
{
    key_add_u64(out, p->collection->id);
    buf_add_char(out, (char)p->key.len);
    buf_add_slice(out, p->key);
    buf_add_slice(out, p->path->text);
}

/* The key of this attribute of this document. */
static void derive(const struct keyring_key *key, struct slice place, uint8_t out[SEAL_KEY_BYTES])
{
    struct buf text;
    buf_init(&text, 0);
    buf_add_str(&text, label);
    buf_add_slice(&text, place);
    hash_hmac_sha256(slice_of(key->bytes, sizeof key->bytes), buf_slice(&text), out);
    buf_release(&text);
}

static enum errc seal_value(struct store *s, const struct place *p, struct val v,
                            struct arena *arena, struct val *out, struct error *err)
{
    const struct keyring_key *key = keyring_writer(p->keys);
    uint8_t own[SEAL_KEY_BYTES], *at;
    struct slice text = val_bytes(v);
    struct buf place;
    if (!key)
        return fail(err, ERR_IO,
                    "attribute '%.*s' of collection '%.*s' is to be encrypted, but the node has no "
                    "key: set encryption_key_file",
                    SLICE_ARG(p->path->text), SLICE_ARG(p->collection->name));
    size_t id_len = strlen(key->id);
    size_t head = 2 + id_len + KEY_CHECK_BYTES + SEAL_NONCE_BYTES;
    *out = val_new_sealed(arena, head + text.len + SEAL_TAG_BYTES, &at);
    at[0] = SEALED_VERSION;
    at[1] = (uint8_t)id_len;
    memcpy(at + 2, key->id, id_len);
    memcpy(at + 2 + id_len, key->check, KEY_CHECK_BYTES);
    uint8_t *nonce = at + head - SEAL_NONCE_BYTES;
    s->env->random(s->env->ctx, nonce, SEAL_NONCE_BYTES);
    buf_init(&place, 0);
    put_place(&place, p);
    derive(key, buf_slice(&place), own);
    seal_encrypt(own, nonce, buf_slice(&place), text, at + head);
    seal_wipe(own, sizeof own);
    buf_release(&place);
    return OK;
}

static enum errc fail_key(const struct place *p, struct slice id, struct error *err)
{
    return fail(err, ERR_IO,
                "attribute '%.*s' of document '%.*s/%.*s' is encrypted with the key '%.*s', which "
                "%s",
                SLICE_ARG(p->path->text), SLICE_ARG(p->collection->name), SLICE_ARG(p->key),
                SLICE_ARG(id),
                p->keys ? "is not in encryption_key_file"
                        : "the node does not have: set "
                          "encryption_key_file");
}

static enum errc fail_value(const struct place *p, const char *why, struct slice id,
                            struct error *err)
{
    return fail(err, ERR_CORRUPT,
                "attribute '%.*s' of document '%.*s/%.*s' cannot be decrypted: %s (key '%.*s')",
                SLICE_ARG(p->path->text), SLICE_ARG(p->collection->name), SLICE_ARG(p->key), why,
                SLICE_ARG(id));
}

static enum errc open_value(const struct place *p, struct val v, struct arena *arena,
                            struct val *out, struct error *err)
{
    struct parts parts;
    uint8_t own[SEAL_KEY_BYTES];
    struct buf place;
    if (!read_parts(v, &parts))
        return fail_value(p, "its parts are damaged", slice_str("unknown"), err);
    const struct keyring_key *key = keyring_find(p->keys, parts.key_id);
    if (!key)
        return fail_key(p, parts.key_id, err);
    if (memcmp(parts.check.ptr, key->check, KEY_CHECK_BYTES) != 0)
        return fail_value(p, "encryption_key_file has another key under this id than the value",
                          parts.key_id, err);
    size_t len = parts.sealed.len - SEAL_TAG_BYTES;
    uint8_t *text = arena_alloc(arena, len + 1);
    buf_init(&place, 0);
    put_place(&place, p);
    derive(key, buf_slice(&place), own);
    bool is_right =
        seal_decrypt(own, (const uint8_t *)parts.nonce.ptr, buf_slice(&place), parts.sealed, text);
    seal_wipe(own, sizeof own);
    buf_release(&place);
    if (!is_right)
        return fail_value(p, "it was changed, or belongs to another place", parts.key_id, err);
    return val_validate(slice_of(text, len), out, err);
}

/* ---- a document ---- */

/* One walk through a document along the paths. */
struct walk {
    struct store *store; /* sealing only */
    struct place place;
    const struct field_path *paths;
    size_t count;
    struct arena *arena;
    enum errc (*visit)(struct walk *w, struct val v, struct val *out, struct error *err);
};

static bool is_below(const struct field_path *path, const struct slice *names, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        if (!slice_eq(path->names[i], names[i]))
            return false;
    return path->count > depth;
}

static enum errc walk_object(struct walk *w, struct val object, struct slice *names, size_t depth,
                             struct val *out, struct error *err);

/* The value of the name names[depth - 1]. */
static enum errc walk_value(struct walk *w, struct val v, struct slice *names, size_t depth,
                            struct val *out, struct error *err)
{
    const struct field_path *deeper = NULL;
    *out = v;
    for (size_t i = 0; i < w->count; i++) {
        const struct field_path *path = &w->paths[i];
        if (!is_below(path, names, depth - 1) ||
            !slice_eq(path->names[depth - 1], names[depth - 1]))
            continue;
        w->place.path = path;
        if (path->count > depth) {
            deeper = path;
            continue;
        }
        enum errc rc = w->visit(w, *out, out, err);
        if (rc != OK)
            return rc;
    }
    if (!deeper || val_is_sealed(*out))
        return OK;
    if (val_type(*out) == VAL_OBJECT)
        return walk_object(w, *out, names, depth, out, err);
    if (w->store && val_type(*out) == VAL_ARRAY && val_count(*out))
        return fail(err, ERR_INVALID,
                    "'%.*s' is an array on the way to the encrypted attribute '%.*s', which leads "
                    "through objects only",
                    SLICE_ARG(names[depth - 1]), SLICE_ARG(deeper->text));
    return OK;
}

/* Rebuilds what changes: members that a path leads to. */
static enum errc walk_object(struct walk *w, struct val object, struct slice *names, size_t depth,
                             struct val *out, struct error *err)
{
    size_t count = val_count(object);
    struct slice *members = arena_alloc(w->arena, (count + 1) * sizeof *members);
    struct val *values = arena_alloc(w->arena, (count + 1) * sizeof *values);
    bool has_changed = false;
    for (size_t i = 0; i < count; i++) {
        struct val v = val_at(object, i);
        members[i] = names[depth] = val_name_at(object, i);
        enum errc rc = walk_value(w, v, names, depth + 1, &values[i], err);
        if (rc != OK)
            return rc;
        has_changed |= values[i].at != v.at;
    }
    *out = has_changed ? val_new_object(w->arena, members, values, count) : object;
    return OK;
}

static enum errc walk_document(struct walk *w, struct val doc, struct val *out, struct error *err)
{
    struct slice names[LIMIT_NESTING + 1];
    size_t deepest = 0;
    for (size_t i = 0; i < w->count; i++)
        deepest = w->paths[i].count > deepest ? w->paths[i].count : deepest;
    assert(deepest <= LIMIT_NESTING);
    return walk_object(w, doc, names, 0, out, err);
}

static enum errc visit_close(struct walk *w, struct val v, struct val *out, struct error *err)
{
    return val_is_sealed(v) ? OK : seal_value(w->store, &w->place, v, w->arena, out, err);
}

static enum errc visit_open(struct walk *w, struct val v, struct val *out, struct error *err)
{
    return val_is_sealed(v) ? open_value(&w->place, v, w->arena, out, err) : OK;
}

enum errc sealed_close(struct store *s, const struct collection *c, struct slice key,
                       struct val doc, struct arena *arena, struct val *out, struct error *err)
{
    struct walk w = { .store = s,
                      .place = { .keys = sealed_keys(s), .collection = c, .key = key },
                      .paths = c->sealed,
                      .count = c->encrypted_count,
                      .arena = arena,
                      .visit = visit_close };
    *out = doc;
    return c->encrypted_count ? walk_document(&w, doc, out, err) : OK;
}

enum errc sealed_open_with(const struct keyring *keys, const struct collection *c, struct slice key,
                           struct val doc, struct arena *arena, struct val *out, struct error *err)
{
    struct walk w = { .place = { .keys = keys, .collection = c, .key = key },
                      .paths = c->sealed,
                      .count = c->sealed_count,
                      .arena = arena,
                      .visit = visit_open };
    *out = doc;
    return c->sealed_count ? walk_document(&w, doc, out, err) : OK;
}

enum errc sealed_open(struct store *s, const struct collection *c, struct slice key, struct val doc,
                      struct arena *arena, struct val *out, struct error *err)
{
    return sealed_open_with(sealed_keys(s), c, key, doc, arena, out, err);
}

/* ---- what is stored ---- */

static bool find_value(const struct field_path *path, struct val doc, struct val *out)
{
    for (size_t i = 0; i < path->count; i++)
        if (val_is_sealed(doc) || !val_find(doc, path->names[i], &doc))
            return false;
    *out = doc;
    return true;
}

static struct slice key_of(struct val v)
{
    struct parts parts;
    return read_parts(v, &parts) ? parts.key_id : slice_str("?");
}

void sealed_each(const struct collection *c, struct val doc,
                 void (*fn)(void *ctx, struct slice key_id), void *ctx)
{
    struct val v;
    for (size_t i = 0; i < c->sealed_count; i++) {
        if (!find_value(&c->sealed[i], doc, &v))
            continue;
        if (val_is_sealed(v))
            fn(ctx, key_of(v));
        else if (i < c->encrypted_count)
            fn(ctx, slice_str(""));
    }
}

bool sealed_is_stale(const struct store *s, const struct collection *c, struct val doc)
{
    const struct keyring_key *writer = keyring_writer(sealed_keys(s));
    struct val v;
    for (size_t i = 0; i < c->sealed_count; i++) {
        if (!find_value(&c->sealed[i], doc, &v))
            continue;
        bool is_wanted = i < c->encrypted_count;
        if (is_wanted != val_is_sealed(v) ||
            (is_wanted && writer && !slice_is(key_of(v), writer->id)))
            return true;
    }
    return false;
}

/* ---- which attributes ---- */

/* One is the other, or holds it. */
static bool is_related(const struct field_path *a, const struct field_path *b)
{
    size_t n = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < n; i++)
        if (!slice_eq(a->names[i], b->names[i]))
            return false;
    return true;
}

static enum errc check_path(const struct field_path *paths, size_t at, struct error *err)
{
    const struct field_path *path = &paths[at];
    if (path->is_expanded || path->text.len > PATH_BYTES || path->count > LIMIT_NESTING)
        return fail(err, ERR_INVALID,
                    "encryptedFields: '%.*s' must be a path through objects, without [*]",
                    SLICE_ARG(path->text));
    if (path->names[0].ptr[0] == '_')
        return fail(err, ERR_INVALID,
                    "encryptedFields: '%.*s' begins with _, as system attributes do, which stay "
                    "readable",
                    SLICE_ARG(path->text));
    for (size_t i = 0; i < at; i++)
        if (is_related(&paths[i], path))
            return fail(err, ERR_INVALID,
                        "encryptedFields: '%.*s' and '%.*s' are the same or one in the other",
                        SLICE_ARG(paths[i].text), SLICE_ARG(path->text));
    return OK;
}

static enum errc parse_fields(struct field_path *out, size_t max, struct val fields,
                              struct arena *arena, struct error *err)
{
    if (!val_is_null(fields) && (val_type(fields) != VAL_ARRAY || val_count(fields) > max))
        return fail(err, ERR_INVALID,
                    "encryptedFields must be an array of up to %zu attribute paths", max);
    for (size_t i = 0; i < val_count(fields); i++) {
        struct val v = val_at(fields, i);
        if (val_type(v) != VAL_STRING)
            return fail(err, ERR_INVALID, "encryptedFields must hold strings");
        enum errc rc = field_path_parse(&out[i], val_string(v), arena, err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

static bool has_path(const struct field_path *paths, size_t count, struct slice text)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(paths[i].text, text))
            return true;
    return false;
}

enum errc sealed_set_fields(struct collection *c, struct val fields, struct arena *arena,
                            struct error *err)
{
    size_t count = val_count(fields), all = count;
    struct field_path *paths = arena_zalloc(arena, (ENCRYPTED_MAX + SEALED_MAX) * sizeof *paths);
    enum errc rc = parse_fields(paths, ENCRYPTED_MAX, fields, arena, err);
    for (size_t i = 0; rc == OK && i < count; i++)
        rc = check_path(paths, i, err);
    if (rc != OK)
        return rc;
    for (size_t i = 0; i < c->sealed_count; i++)
        if (!has_path(paths, count, c->sealed[i].text))
            paths[all++] = c->sealed[i];
    if (all > SEALED_MAX)
        return fail(err, ERR_LIMIT,
                    "a collection has at most %d encrypted attributes, with those "
                    "that were encrypted before",
                    SEALED_MAX);
    c->sealed = paths;
    c->encrypted_count = count;
    c->sealed_count = all;
    for (size_t i = 0; rc == OK && i < c->index_count; i++)
        rc = sealed_check_index(c, &c->indexes[i], err);
    return rc;
}

void sealed_forget_former(struct collection *c)
{
    c->sealed_count = c->encrypted_count;
}

enum errc sealed_decode_fields(struct collection *c, struct val fields, struct val former,
                               struct arena *arena, struct error *err)
{
    size_t count = val_count(fields), all = count + val_count(former);
    if (!all)
        return OK;
    struct field_path *paths = arena_zalloc(arena, all * sizeof *paths);
    enum errc rc = parse_fields(paths, count, fields, arena, err);
    if (rc == OK)
        rc = parse_fields(paths + count, all - count, former, arena, err);
    c->sealed = paths;
    c->encrypted_count = count;
    c->sealed_count = all;
    return rc;
}

static enum errc check_fields(const struct collection *c, const struct index_def *index,
                              const struct field_path *fields, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < c->sealed_count; j++)
            if (is_related(&fields[i], &c->sealed[j]))
                return fail(
                    err, ERR_INVALID,
                    "a %s index over '%.*s' of collection '%.*s' is not possible: '%.*s' %s",
                    index->type, SLICE_ARG(fields[i].text), SLICE_ARG(c->name),
                    SLICE_ARG(c->sealed[j].text),
                    j < c->encrypted_count
                        ? "is encrypted, and the index would keep it in clear text"
                        : "was encrypted, and documents may still hold it so: have them "
                          "rewritten first (POST /_admin/encryption/rewrite)");
    return OK;
}

enum errc sealed_check_index(const struct collection *c, const struct index_def *index,
                             struct error *err)
{
    if (index->kind == INDEX_PRIMARY || index->kind == INDEX_EDGE)
        return OK;
    enum errc rc = check_fields(c, index, index->fields, index->field_count, err);
    if (rc == OK)
        rc = check_fields(c, index, index->stored, index->stored_count, err);
    return rc == OK ? check_fields(c, index, index->source, index->source_count, err) : rc;
}
