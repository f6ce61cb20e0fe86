/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ddl.h"

#include <inttypes.h>

#include "store/rules.h"
#include "store/sealed.h"

enum errc change_begin(struct change *ch, struct store *s, struct error *err)
{
    *ch = (struct change){ .store = s };
    pthread_mutex_lock(&s->ddl);
    enum errc rc =
        txn_begin(&ch->txn, s, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, err);
    if (rc != OK)
        return rc;
    ch->txn->options.no_sync = false;
    ch->arena = arena_new(0);
    ch->clone = catalog_clone(ch->txn->view->catalog, ch->arena);
    return OK;
}

void change_end(struct change *ch)
{
    txn_end(ch->txn);
    catalog_unref(ch->next);
    arena_free(ch->arena);
    pthread_mutex_unlock(&ch->store->ddl);
}

void change_kill(struct change *ch, uint64_t object_id)
{
    uint64_t *more = arena_alloc(ch->arena, (ch->dead_count + 1) * sizeof *more);
    if (ch->dead_count)
        memcpy(more, ch->dead, ch->dead_count * sizeof *more);
    more[ch->dead_count++] = object_id;
    ch->dead = more;
}

static enum errc put_garbage(struct change *ch, struct error *err)
{
    enum errc rc = OK;
    struct buf key;
    buf_init(&key, 0);
    for (size_t i = 0; rc == OK && i < ch->dead_count; i++) {
        buf_clear(&key);
        garbage_key(&key, ch->dead[i]);
        rc = txn_put(ch->txn, KV_META, buf_slice(&key), slice_str(""), err);
    }
    buf_release(&key);
    return rc;
}

enum errc change_commit(struct change *ch, struct error *err)
{
    enum errc rc = OK;
    struct slice bytes;
    ch->clone->version++;
    TRY(catalog_encode(ch->clone, ch->arena, &bytes, err));
    TRY(catalog_decode(&ch->next, bytes, err));
    TRY(txn_put(ch->txn, KV_META, slice_str("catalog"), bytes, err));
    TRY(put_garbage(ch, err));
    txn_set_catalog(ch->txn, ch->next);
    TRY(txn_commit(ch->txn, err));
    for (size_t i = 0; i < ch->dead_count; i++)
        garbage_add(ch->store->garbage, ch->dead[i], txn_commit_seq(ch->txn));
out:
    return rc;
}

/* ---- databases ---- */

enum errc store_create_database(struct store *s, struct slice name, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    if (!name_is_database(name))
        return fail_num(
            err, 1229,
            "a database name is 1 to 128 bytes of UTF-8 in normal form C, without / : and "
            "control characters, and does not begin with _ . a digit or a space");
    TRY(change_begin(&ch, s, err));
    if (catalog_database(ch.clone, name)) {
        rc = fail_num(err, 1207, "duplicate database name '%.*s'", SLICE_ARG(name));
        goto out;
    }
    clone_add_database(ch.clone, ch.arena,
                       &(struct database){ .id = ids_new(&s->ids), .name = name });
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

/* The collection, its indexes and its writers end. */
static enum errc kill_collection(struct change *ch, const struct collection *c, struct error *err)
{
    change_kill(ch, c->object_id);
    for (size_t i = 0; i < c->index_count; i++)
        change_kill(ch, c->indexes[i].object_id);
    ch->txn->is_removal = true;
    return txn_break_guard(ch->txn, c->id, err);
}

enum errc store_drop_database(struct store *s, struct slice name, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct database *db;
    if (slice_is(name, "_system"))
        return fail(err, ERR_FORBIDDEN, "the database _system cannot be dropped");
    TRY(change_begin(&ch, s, err));
    db = (struct database *)catalog_database(ch.clone, name);
    if (!db) {
        rc = fail_num(err, 1228, "database '%.*s' not found", SLICE_ARG(name));
        goto out;
    }
    for (size_t i = 0; i < db->collection_count; i++)
        TRY(kill_collection(&ch, &db->collections[i], err));
    clone_remove_database(ch.clone, db);
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

/* ---- collections ---- */

static enum errc check_key_options(struct val options, struct error *err)
{
    static const char *const known[] = { "traditional", "autoincrement", "padded", "uuid" };
    struct val type = val_get(options, slice_str("type"));
    if (val_is_null(type))
        return OK;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (val_type(type) == VAL_STRING && slice_is(val_string(type), known[i]))
            return OK;
    return fail(err, ERR_INVALID,
                "keyOptions.type must be traditional, autoincrement, padded or uuid");
}

static enum errc check_name(struct slice name, struct error *err)
{
    if (name_is_collection(name))
        return OK;
    return fail_num(err, 1208,
                    "a collection name is 1 to %d bytes of UTF-8 in normal form C, without / and "
                    "control characters, and does not begin with . a digit or a space",
                    LIMIT_NAME_BYTES);
}

static enum errc check_is_free(const struct database *db, struct slice name, struct error *err)
{
    for (size_t i = 0; i < db->collection_count; i++)
        if (slice_eq(db->collections[i].name, name))
            return fail_num(err, 1207, "duplicate collection name '%.*s'", SLICE_ARG(name));
    return OK;
}

static enum errc check_options(const struct collection_options *opt, struct error *err)
{
    enum errc rc = check_name(opt->name, err);
    if (rc != OK)
        return rc;
    if (opt->type != COLLECTION_DOCUMENT && opt->type != COLLECTION_EDGE)
        return fail_num(err, 1218, "a collection has type 2 (document) or 3 (edge)");
    return check_key_options(opt->key_options, err);
}

static enum errc add_builtin_indexes(struct change *ch, struct collection *c, struct error *err)
{
    struct index_def index;
    int last = c->type == COLLECTION_EDGE ? INDEX_EDGE : INDEX_PRIMARY;
    for (int kind = INDEX_PRIMARY; kind <= last; kind++) {
        enum errc rc = index_def_builtin(&index, (enum index_kind)kind, ch->arena, err);
        if (rc != OK)
            return rc;
        index.object_id = ids_new(&ch->store->ids);
        index.collator_version = slice_str("binary");
        clone_add_index(c, ch->arena, &index);
    }
    return OK;
}

/* Without a key nothing could be written, and _users must be readable to let anybody in. */
static enum errc set_fields(struct store *s, struct collection *c, struct val fields,
                            struct arena *arena, struct error *err)
{
    if (val_type(fields) == VAL_ARRAY && val_count(fields) && c->is_system)
        return fail(err, ERR_INVALID, "encryptedFields: '%.*s' is a system collection",
                    SLICE_ARG(c->name));
    if (val_type(fields) == VAL_ARRAY && val_count(fields) && !keyring_writer(sealed_keys(s)))
        return fail(err, ERR_INVALID,
                    "encryptedFields needs a key: start the node with encryption_key_file");
    return sealed_set_fields(c, fields, arena, err);
}

static enum errc new_collection(struct change *ch, uint64_t db_id,
                                const struct collection_options *opt, struct collection *c,
                                struct error *err)
{
    struct val type = val_get(opt->key_options, slice_str("type"));
    *c = (struct collection){ .id = ids_new(&ch->store->ids),
                              .object_id = ids_new(&ch->store->ids),
                              .db_id = db_id,
                              .name = opt->name,
                              .type = opt->type,
                              .is_system = slice_starts(opt->name, "_"),
                              .wait_for_sync = opt->wait_for_sync,
                              .allow_user_keys = opt->allow_user_keys,
                              .keys_increment = slice_is(val_string(type), "autoincrement"),
                              .key_options = opt->key_options,
                              .extra = opt->extra };
    enum errc rc = rules_read_schema(opt->schema, ch->arena, &c->schema, err);
    if (rc == OK)
        rc = rules_read_computed(ch->store, opt->computed, ch->arena, &c->computed, err);
    if (rc == OK)
        rc = set_fields(ch->store, c, opt->encrypted_fields, ch->arena, err);
    return rc == OK ? add_builtin_indexes(ch, c, err) : rc;
}

enum errc store_create_collection(struct store *s, uint64_t db_id,
                                  const struct collection_options *opt, uint64_t *id,
                                  struct error *err)
{
    enum errc rc = check_options(opt, err);
    struct change ch;
    struct collection c;
    struct database *db;
    if (rc != OK)
        return rc;
    TRY(change_begin(&ch, s, err));
    db = clone_database(ch.clone, db_id);
    if (!db) {
        rc = fail_num(err, 1228, "the database does not exist");
        goto out;
    }
    TRY(check_is_free(db, opt->name, err));
    TRY(new_collection(&ch, db_id, opt, &c, err));
    clone_add_collection(db, ch.arena, &c);
    TRY(change_commit(&ch, err));
    if (id)
        *id = c.id;
out:
    change_end(&ch);
    return rc;
}

static enum errc fail_unknown(struct error *err, uint64_t id)
{
    return fail_num(err, 1203, "collection with id %" PRIu64 " not found", id);
}

enum errc store_drop_collection(struct store *s, uint64_t db_id, uint64_t id, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct database *db = NULL;
    struct collection *c;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, id, &db);
    if (!c || db->id != db_id) {
        rc = fail_unknown(err, id);
        goto out;
    }
    TRY(kill_collection(&ch, c, err));
    clone_remove_collection(db, c);
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

/* Rules that are to be different; *changed when they are. */
static enum errc set_rules(struct change *ch, struct collection *c,
                           const struct collection_change *to, bool *changed, struct error *err)
{
    enum errc rc = OK;
    struct val schema = c->schema, computed = c->computed;

    if (to->schema.at)
        TRY(rules_read_schema(to->schema, ch->arena, &schema, err));
    if (to->computed.at)
        TRY(rules_read_computed(ch->store, to->computed, ch->arena, &computed, err));
    *changed = !slice_eq(val_bytes(schema), val_bytes(c->schema)) ||
               !slice_eq(val_bytes(computed), val_bytes(c->computed));
    c->schema = schema;
    c->computed = computed;
out:
    return rc;
}

enum errc store_set_collection(struct store *s, uint64_t id, const struct collection_change *to,
                               struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c;
    bool has_other_rules;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, id, NULL);
    if (!c) {
        rc = fail_unknown(err, id);
        goto out;
    }
    TRY(set_rules(&ch, c, to, &has_other_rules, err));
    if (has_other_rules)
        TRY(txn_break_guard(ch.txn, id, err));
    c->wait_for_sync = to->wait_for_sync;
    if (val_count(to->extra))
        c->extra = val_merge(ch.arena, c->extra, to->extra);
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

enum errc store_set_encrypted_fields(struct store *s, uint64_t id, struct val fields,
                                     struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, id, NULL);
    if (!c) {
        rc = fail_unknown(err, id);
        goto out;
    }
    TRY(set_fields(s, c, fields, ch.arena, err));
    TRY(txn_break_guard(ch.txn, id, err));
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

enum errc store_rename_collection(struct store *s, uint64_t db_id, uint64_t id, struct slice name,
                                  struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct database *db = NULL;
    struct collection *c, renamed;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, id, &db);
    if (!c || db->id != db_id) {
        rc = fail_unknown(err, id);
        goto out;
    }
    if (slice_eq(c->name, name))
        goto out;
    TRY(check_name(name, err));
    TRY(check_is_free(db, name, err));
    renamed = *c;
    renamed.name = name;
    renamed.is_renamed = true;
    clone_remove_collection(db, c);
    clone_add_collection(db, ch.arena, &renamed);
    TRY(txn_break_guard(ch.txn, id, err));
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

enum errc store_truncate_collection(struct store *s, uint64_t id, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, id, NULL);
    if (!c) {
        rc = fail_unknown(err, id);
        goto out;
    }
    TRY(kill_collection(&ch, c, err));
    c->object_id = ids_new(&s->ids);
    for (size_t i = 0; i < c->index_count; i++)
        ((struct index_def *)c->indexes)[i].object_id = ids_new(&s->ids);
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}
