/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on documents, databases and errors. */
#include "base/calendar.h"
#include "query/fn_support.h"
#include "store/doc.h"
#include "store/ids.h"

static enum errc fn_not_null(struct fn_call *call)
{
    for (int i = 0; i < call->count; i++)
        if (!val_is_null(call->args[i]))
            return fn_return(call, call->args[i]);
    return fn_return(call, val_null);
}

static enum errc first_of(struct fn_call *call, enum val_type type)
{
    for (int i = 0; i < call->count; i++)
        if (fn_is(call, i, type))
            return fn_return(call, call->args[i]);
    return fn_return(call, val_null);
}

static enum errc fn_first_list(struct fn_call *call)
{
    return first_of(call, VAL_ARRAY);
}

static enum errc fn_first_document(struct fn_call *call)
{
    return first_of(call, VAL_OBJECT);
}

/* ---- DOCUMENT ---- */

static enum errc fetch(struct fn_call *call, struct slice collection, struct slice key,
                       struct val *out)
{
    struct error why = { 0 };
    const struct collection *c =
        catalog_collection(txn_catalog(call->txn), call->db_id, collection);

    *out = val_null;
    if (!c) {
        fn_warn(call, 1203, "collection or view not found");
        return OK;
    }
    enum errc rc = doc_get(call->txn, c, key, call->arena, out, &why);
    if (rc == ERR_NOT_FOUND || rc == ERR_INVALID) {
        *out = val_null;
        return OK;
    }
    if (rc != OK)
        *call->err = why;
    return rc;
}

static enum errc fetch_one(struct fn_call *call, struct slice collection, struct val v,
                           struct val *out)
{
    struct slice own, key;

    *out = val_null;
    if (val_type(v) != VAL_STRING)
        return OK;
    if (doc_split_id(val_string(v), &own, &key))
        return fetch(call, own, key, out);
    return collection.len ? fetch(call, collection, val_string(v), out) : OK;
}

static enum errc fn_document(struct fn_call *call)
{
    struct slice collection = call->count == 2 ? fn_text_arg(call, 0) : slice_of("", 0);
    struct val ids = fn_arg(call, call->count - 1), one;
    size_t n = 0;

    if (!call->txn)
        return fail(call->err, ERR_INVALID, "DOCUMENT cannot be used here");
    if (val_type(ids) != VAL_ARRAY) {
        enum errc rc = fetch_one(call, collection, ids, &one);
        call->result = one;
        return rc;
    }
    struct val *items = fn_room(call, val_count(ids));
    for (size_t i = 0; i < val_count(ids); i++) {
        enum errc rc = fetch_one(call, collection, val_at(ids, i), &one);
        if (rc == OK)
            rc = arena_check(call->arena, call->err);
        if (rc != OK)
            return rc;
        if (!val_is_null(one))
            items[n++] = one;
    }
    return fn_return(call, val_new_array(call->arena, items, n));
}

static enum errc fn_parse_identifier(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);
    struct slice collection, key;
    struct slice names[] = { slice_str("collection"), slice_str("key") };

    if (val_type(v) == VAL_OBJECT)
        v = val_get(v, slice_str("_id"));
    if (val_type(v) != VAL_STRING || !doc_split_id(val_string(v), &collection, &key))
        return fn_bad_arg(call, 0, "a document or its _id");
    struct val values[] = { val_new_string(call->arena, collection),
                            val_new_string(call->arena, key) };
    return fn_return(call, val_new_object(call->arena, names, values, 2));
}

static enum errc part_of_id(struct fn_call *call, bool wants_key)
{
    struct val v = fn_arg(call, 0);
    struct slice collection, key;

    if (val_type(v) == VAL_OBJECT)
        v = val_get(v, slice_str("_id"));
    if (val_type(v) != VAL_STRING || !doc_split_id(val_string(v), &collection, &key))
        return fn_bad_arg(call, 0, "a document or its _id");
    return fn_return_text(call, wants_key ? key : collection);
}

static enum errc fn_parse_collection(struct fn_call *call)
{
    return part_of_id(call, false);
}

static enum errc fn_parse_key(struct fn_call *call)
{
    return part_of_id(call, true);
}

static enum errc fn_passthru(struct fn_call *call)
{
    return fn_return(call, call->args[0]);
}

static enum errc fn_is_same_collection(struct fn_call *call)
{
    struct val v = fn_arg(call, 1);
    struct slice collection, key;

    if (val_type(v) == VAL_OBJECT)
        v = val_get(v, slice_str("_id"));
    if (val_type(v) != VAL_STRING || !doc_split_id(val_string(v), &collection, &key))
        return fn_bad_arg(call, 1, "a document or its _id");
    return fn_return_bool(call, slice_eq(collection, fn_text_arg(call, 0)));
}

static enum errc fn_current_database(struct fn_call *call)
{
    const struct database *db =
        call->txn ? catalog_database_by_id(txn_catalog(call->txn), call->db_id) : NULL;

    return db ? fn_return_text(call, db->name) : fn_return(call, val_null);
}

static enum errc fn_collections(struct fn_call *call)
{
    const struct database *db =
        call->txn ? catalog_database_by_id(txn_catalog(call->txn), call->db_id) : NULL;
    size_t count = db ? db->collection_count : 0;
    struct val *items = fn_room(call, count);
    struct slice name = slice_str("name");

    for (size_t i = 0; i < count; i++) {
        struct val v = val_new_string(call->arena, db->collections[i].name);
        items[i] = val_new_object(call->arena, &name, &v, 1);
    }
    return fn_return(call, val_new_array(call->arena, items, count));
}

static enum errc fn_collection_count(struct fn_call *call)
{
    struct slice name = fn_text_arg(call, 0);
    const struct collection *c =
        call->txn ? catalog_collection(txn_catalog(call->txn), call->db_id, name) : NULL;
    uint64_t count;

    if (!c)
        return fail_num(call->err, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
    enum errc rc = doc_count(call->txn, c, &count, call->err);
    return rc == OK ? fn_return_int(call, (int64_t)count) : rc;
}

static enum errc fn_current_user(struct fn_call *call)
{
    return call->user.len ? fn_return_text(call, call->user) : fn_return(call, val_null);
}

/* Every object of ours has each name once. */
static enum errc fn_check_document(struct fn_call *call)
{
    return fn_return_bool(call, fn_is(call, 0, VAL_OBJECT));
}

static enum errc fn_decode_rev(struct fn_call *call)
{
    char text[DATE_TEXT_BYTES];
    uint64_t rev;

    if (!fn_is(call, 0, VAL_STRING) || !rev_decode(val_string(call->args[0]), &rev))
        return fn_bad_arg(call, 0, "the _rev of a document");
    date_print((int64_t)rev_ms(rev), true, text);
    struct slice names[] = { slice_str("date"), slice_str("count") };
    struct val values[] = { val_new_string(call->arena, slice_str(text)),
                            val_new_int(call->arena, rev_count(rev)) };
    return fn_return(call, val_new_object(call->arena, names, values, 2));
}

/* Without a cluster the shard of a collection is the collection, as in ArangoDB. */
static enum errc fn_shard_id(struct fn_call *call)
{
    struct slice name = fn_text_arg(call, 0);

    if (!fn_is(call, 1, VAL_OBJECT))
        return fn_bad_arg(call, 1, "an object");
    if (!call->txn || !catalog_collection(txn_catalog(call->txn), call->db_id, name))
        return fail_num(call->err, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
    return fn_return_text(call, name);
}

static enum errc fn_in_range(struct fn_call *call)
{
    bool with_low = val_truth(call->args[3]), with_high = val_truth(call->args[4]);
    int low = val_compare(call->args[0], call->args[1], call->collator);
    int high = val_compare(call->args[0], call->args[2], call->collator);

    return fn_return_bool(call,
                          (with_low ? low >= 0 : low > 0) && (with_high ? high <= 0 : high < 0));
}

static enum errc fn_min_match(struct fn_call *call)
{
    int64_t needed = fn_int_arg(call, call->count - 1);
    int matches = 0;

    if (!fn_is(call, call->count - 1, VAL_NUMBER) || needed < 0)
        return fn_bad_arg(call, call->count - 1, "how many conditions must hold");
    for (int i = 0; i < call->count - 1; i++)
        matches += val_truth(call->args[i]);
    return fn_return_bool(call, matches >= needed);
}

/* ---- errors on purpose ---- */

static enum errc fn_fail(struct fn_call *call)
{
    struct slice why = fn_text_arg(call, 0);

    return fail_num(call->err, 1569, "FAIL(%.*s) called", SLICE_ARG(why));
}

static enum errc fn_assert(struct fn_call *call)
{
    struct slice why = fn_text_arg(call, 1);

    if (val_truth(fn_arg(call, 0)))
        return fn_return_bool(call, true);
    if (!why.len)
        why = slice_str("assertion failed");
    return fail_num(call->err, 1593, "%.*s", SLICE_ARG(why));
}

static enum errc fn_warn_if(struct fn_call *call)
{
    bool is_true = val_truth(fn_arg(call, 0));

    if (!is_true) /* 1594 is ArangoDB's number for warnings of the user */
        fn_warn(call, 1594, arena_printf(call->arena, "%.*s", SLICE_ARG(fn_text_arg(call, 1))));
    return fn_return_bool(call, is_true);
}

static enum errc fn_hash(struct fn_call *call)
{
    return fn_return_int(call, (int64_t)(val_hash(fn_arg(call, 0)) >> 11));
}

static enum errc fn_version(struct fn_call *call)
{
    return fn_return_text(call, slice_str("3.12.5"));
}

const struct fn fn_misc[] = {
    { "NOT_NULL", 1, -1, "", FN_PURE, fn_not_null, "The first argument that is not null." },
    { "FIRST_LIST", 1, -1, "", FN_PURE, fn_first_list, "The first argument that is an array." },
    { "FIRST_DOCUMENT", 1, -1, "", FN_PURE, fn_first_document, "The first that is an object." },
    { "DOCUMENT", 1, 2, "", FN_READS | FN_NAMES, fn_document, "Documents by their _id or key." },
    { "PARSE_IDENTIFIER", 1, 1, "", FN_PURE, fn_parse_identifier, "Collection and key of an _id." },
    { "PARSE_COLLECTION", 1, 1, "", FN_PURE, fn_parse_collection, "Collection of an _id." },
    { "PARSE_KEY", 1, 1, "", FN_PURE, fn_parse_key, "Key of an _id." },
    { "PASSTHRU", 1, 1, "", 0, fn_passthru, "The argument; never computed while planning." },
    { "NOOPT", 1, 1, "", 0, fn_passthru, "The same." },
    { "V8", 1, 1, "", FN_SESSION, fn_passthru, "The same." },
    { "NOEVAL", 1, 1, "", FN_PURE, fn_passthru, "The argument." },
    { "IS_SAME_COLLECTION", 2, 2, "", FN_PURE | FN_NAMES, fn_is_same_collection,
      "Is it of that collection?" },
    { "CURRENT_DATABASE", 0, 0, "", FN_STABLE | FN_SESSION, fn_current_database,
      "Name of the database." },
    { "CURRENT_USER", 0, 0, "", FN_STABLE | FN_SESSION, fn_current_user,
      "Name of the user; null when no credentials are asked for." },
    { "CHECK_DOCUMENT", 1, 1, "", FN_PURE, fn_check_document, "Is it an object?" },
    { "DECODE_REV", 1, 1, "", FN_PURE, fn_decode_rev, "Date and count in a _rev of this server." },
    { "SHARD_ID", 2, 2, "", FN_READS | FN_NAMES, fn_shard_id, "The collection: it has one shard." },
    { "IN_RANGE", 5, 5, "", FN_PURE, fn_in_range, "Is it between two values? Flags include them." },
    { "MIN_MATCH", 2, -1, "", FN_PURE, fn_min_match, "Do so many conditions hold?" },
    { "COLLECTION_COUNT", 1, 1, "", FN_READS | FN_NAMES, fn_collection_count,
      "Documents of a collection; LENGTH(collection) is the same." },
    { "COLLECTIONS", 0, 0, "", FN_READS, fn_collections, "Collections of the database." },
    { "FAIL", 0, 1, "", 0, fn_fail, "Ends the query with an error." },
    { "ASSERT", 2, 2, "", 0, fn_assert, "Ends it when the condition is false." },
    { "WARN", 2, 2, "", 0, fn_warn_if, "A warning when the condition is false." },
    { "HASH", 1, 1, "", FN_PURE, fn_hash, "A number for a value; equal values, equal numbers." },
    { "VERSION", 0, 0, "", FN_PURE | FN_SESSION, fn_version, "Version of the language." },
    { 0 },
};
