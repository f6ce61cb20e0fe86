/* SPDX-License-Identifier: Apache-2.0 */
#include "server/collection_reply.h"
#include <stdio.h>

static const char *const kept[] = { "numberOfShards", "replicationFactor", "writeConcern",
                                    "shardKeys",      "shardingStrategy",  "distributeShardsLike",
                                    "cacheEnabled",   "smartJoinAttribute" };

void collection_put_basic(struct reply *a, const struct collection *c)
{
    char guid[64];

    reply_id(a, "id", c->id);
    reply_text(a, "name", c->name);
    reply_int(a, "status", 3); /* loaded: always */
    reply_int(a, "type", c->type);
    reply_bool(a, "isSystem", c->is_system);
    snprintf(guid, sizeof guid, "h%llx/%llu", (unsigned long long)c->db_id,
             (unsigned long long)c->id);
    reply_str(a, "globallyUniqueId", guid);
}

static void put_key_options(struct reply *a, const struct collection *c)
{
    static const char *const numbers[] = { "increment", "offset" };
    struct slice type = val_string(val_get(c->key_options, slice_str("type")));
    struct val v;

    reply_open(a, "keyOptions");
    reply_bool(a, "allowUserKeys", c->allow_user_keys);
    reply_text(a, "type", type.len ? type : slice_str("traditional"));
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (val_find(c->key_options, slice_str(numbers[i]), &v))
            reply_val(a, numbers[i], v);
    reply_close(a);
}

/* Only where there are some: a client of ArangoDB sees what it knows. */
static void put_encrypted_fields(struct reply *a, const struct collection *c)
{
    if (!c->encrypted_count)
        return;
    reply_list(a, "encryptedFields");
    for (size_t i = 0; i < c->encrypted_count; i++)
        reply_text(a, NULL, c->sealed[i].text);
    reply_close(a);
}

void collection_put_properties(struct reply *a, const struct collection *c)
{
    struct val v;

    reply_bool(a, "waitForSync", c->wait_for_sync);
    reply_str(a, "statusString", "loaded");
    reply_bool(a, "cacheEnabled", val_bool(val_get(c->extra, slice_str("cacheEnabled"))));
    reply_val(a, "schema", c->schema);
    reply_val(a, "computedValues", c->computed);
    reply_bool(a, "syncByRevision", true);
    put_key_options(a, c);
    put_encrypted_fields(a, c);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (strcmp(kept[i], "cacheEnabled") && val_find(c->extra, slice_str(kept[i]), &v))
            reply_val(a, kept[i], v);
}

bool collection_is_kept(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (slice_is(name, kept[i]))
            return true;
    return false;
}

struct val collection_kept(struct request *r, struct val body)
{
    struct slice names[ARRAY_LEN(kept)];
    struct val values[ARRAY_LEN(kept)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (val_find(body, slice_str(kept[i]), &values[n]))
            names[n++] = slice_str(kept[i]);
    return val_new_object(r->arena, names, values, n);
}
