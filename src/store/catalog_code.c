/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog as a stored value, and back. The members are listed in docs/formats.md. */
#include "store/catalog_private.h"
#include "store/rules.h"
#include "store/sealed.h"

static void put_text(struct val_builder *b, const char *name, struct slice text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, text);
}

static void put_id(struct val_builder *b, const char *name, uint64_t id)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, (int64_t)id);
}

static void put_bool(struct val_builder *b, const char *name, bool is_true)
{
    val_put_name(b, slice_str(name));
    val_put_bool(b, is_true);
}

static void put_val(struct val_builder *b, const char *name, struct val v)
{
    val_put_name(b, slice_str(name));
    if (v.at)
        val_put(b, v);
    else
        val_put_null(b);
}

static void put_index(struct val_builder *b, const struct index_def *x)
{
    val_open_object(b);
    put_id(b, "id", x->id);
    put_id(b, "object", x->object_id);
    put_bool(b, "ready", x->is_ready);
    put_text(b, "collator", x->collator_version);
    put_val(b, "def", x->def);
    val_close(b);
}

/* Left out where there is none, as in catalogs of before. */
static void put_paths(struct val_builder *b, const char *name, const struct field_path *paths,
                      size_t count)
{
    if (!paths || !count)
        return;
    val_put_name(b, slice_str(name));
    val_open_array(b);
    for (size_t i = 0; i < count; i++)
        val_put_string(b, paths[i].text);
    val_close(b);
}

static void put_collection(struct val_builder *b, const struct collection *c)
{
    val_open_object(b);
    put_id(b, "id", c->id);
    put_id(b, "object", c->object_id);
    put_text(b, "name", c->name);
    put_id(b, "type", (uint64_t)c->type);
    put_bool(b, "waitForSync", c->wait_for_sync);
    put_bool(b, "allowUserKeys", c->allow_user_keys);
    put_bool(b, "keysIncrement", c->keys_increment);
    put_bool(b, "renamed", c->is_renamed);
    put_val(b, "keyOptions", c->key_options);
    put_val(b, "extra", c->extra);
    put_val(b, "schema", c->schema);
    put_val(b, "computedValues", c->computed);
    put_paths(b, "encryptedFields", c->sealed, c->encrypted_count);
    put_paths(b, "formerFields", c->sealed ? c->sealed + c->encrypted_count : NULL,
              c->sealed_count - c->encrypted_count);
    val_put_name(b, slice_str("indexes"));
    val_open_array(b);
    for (size_t i = 0; i < c->index_count; i++)
        put_index(b, &c->indexes[i]);
    val_close(b);
    val_close(b);
}

static void put_database(struct val_builder *b, const struct database *db)
{
    val_open_object(b);
    put_id(b, "id", db->id);
    put_text(b, "name", db->name);
    val_put_name(b, slice_str("collections"));
    val_open_array(b);
    for (size_t i = 0; i < db->collection_count; i++)
        put_collection(b, &db->collections[i]);
    val_close(b);
    val_close(b);
}

enum errc catalog_encode(const struct catalog *c, struct arena *arena, struct slice *out,
                         struct error *err)
{
    struct val v;
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    put_id(b, "version", c->version);
    put_text(b, "locale", c->locale);
    val_put_name(b, slice_str("databases"));
    val_open_array(b);
    for (size_t i = 0; i < c->database_count; i++)
        put_database(b, &c->databases[i]);
    val_close(b);
    val_close(b);
    enum errc rc = val_finish_in(b, arena, &v, err);
    if (rc == OK)
        *out = val_bytes(v);
    val_builder_free(b);
    return rc;
}

/* ---- decoding ---- */

static struct val get(struct val v, const char *name)
{
    return val_get(v, slice_str(name));
}

static uint64_t get_id(struct val v, const char *name)
{
    return (uint64_t)val_int(get(v, name));
}

static enum errc read_index(struct index_def *out, struct val v, struct arena *arena,
                            struct error *err)
{
    enum errc rc = index_def_parse(out, get(v, "def"), arena, err);
    if (rc != OK)
        return rc;
    out->id = get_id(v, "id");
    out->object_id = get_id(v, "object");
    out->is_ready = val_bool(get(v, "ready"));
    out->collator_version = val_string(get(v, "collator"));
    out->def = get(v, "def");
    return OK;
}

static enum errc read_collection(struct collection *out, struct val v, uint64_t db_id,
                                 struct arena *arena, struct error *err)
{
    struct val indexes = get(v, "indexes");
    size_t count = val_count(indexes);
    struct index_def *defs = arena_zalloc(arena, count * sizeof *defs);
    struct slice name = val_string(get(v, "name"));
    *out = (struct collection){ .id = get_id(v, "id"),
                                .object_id = get_id(v, "object"),
                                .db_id = db_id,
                                .name = name,
                                .type = (enum collection_type)val_int(get(v, "type")),
                                .is_system = slice_starts(name, "_"),
                                .wait_for_sync = val_bool(get(v, "waitForSync")),
                                .allow_user_keys = val_bool(get(v, "allowUserKeys")),
                                .keys_increment = val_bool(get(v, "keysIncrement")),
                                .is_renamed = val_bool(get(v, "renamed")),
                                .key_options = get(v, "keyOptions"),
                                .extra = get(v, "extra"),
                                .schema = get(v, "schema"),
                                .computed = get(v, "computedValues"),
                                .indexes = defs,
                                .index_count = count };
    out->rules = rules_new(out->schema, out->computed);
    enum errc rc =
        sealed_decode_fields(out, get(v, "encryptedFields"), get(v, "formerFields"), arena, err);
    if (rc != OK)
        return wrap(err, "collection '%.*s'", SLICE_ARG(name));
    for (size_t i = 0; i < count; i++) {
        rc = read_index(&defs[i], val_at(indexes, i), arena, err);
        if (rc != OK)
            return wrap(err, "collection '%.*s'", SLICE_ARG(name));
    }
    return OK;
}

static enum errc read_database(struct database *out, struct val v, struct arena *arena,
                               struct error *err)
{
    struct val collections = get(v, "collections");
    size_t count = val_count(collections);
    struct collection *all = arena_zalloc(arena, count * sizeof *all);
    *out = (struct database){ .id = get_id(v, "id"),
                              .name = val_string(get(v, "name")),
                              .collections = all,
                              .collection_count = count };
    for (size_t i = 0; i < count; i++) {
        enum errc rc = read_collection(&all[i], val_at(collections, i), out->id, arena, err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

enum errc catalog_decode(struct catalog **out, struct slice bytes, struct error *err)
{
    enum errc rc = OK;
    struct val root, databases;
    struct catalog *c = mem_zalloc(sizeof *c);
    c->refs = 1;
    c->arena = arena_new(0);
    *out = NULL;
    TRY(val_validate(arena_copy(c->arena, bytes), &root, err));
    c->version = get_id(root, "version");
    c->locale = val_string(get(root, "locale"));
    databases = get(root, "databases");
    c->database_count = val_count(databases);
    c->databases = arena_zalloc(c->arena, c->database_count * sizeof *c->databases);
    for (size_t i = 0; i < c->database_count; i++)
        TRY(read_database(&c->databases[i], val_at(databases, i), c->arena, err));
    *out = c;
out:
    if (rc != OK) {
        catalog_unref(c);
        return wrap(err, "the stored catalog");
    }
    return rc;
}
