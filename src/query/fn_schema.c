/* SPDX-License-Identifier: Apache-2.0 */
/* Functions about schemas of collections. */
#include "base/validator.h"
#include "query/fn_support.h"
#include "store/doc.h"

static enum errc fn_schema_get(struct fn_call *call)
{
    struct slice name = val_string(fn_arg(call, 0));
    const struct collection *c = NULL;

    if (!name.len)
        return fail(call->err, ERR_INVALID, "SCHEMA_GET needs the name of a collection");
    if (call->txn)
        c = catalog_collection(txn_catalog(call->txn), call->db_id, name);
    if (!c)
        return fail_num(call->err, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
    return doc_schema(call->txn, c, &call->result, call->err);
}

/* The one of the last call when its rule was the same. *is_own: to be freed after use. */
static enum errc find_validator(struct fn_call *call, struct val rule, struct validator **out,
                                bool *is_own)
{
    *is_own = !call->validator;
    *out = call->validator ? *call->validator : NULL;
    if (*out && slice_eq(val_bytes(validator_rule(*out)), val_bytes(rule)))
        return OK;
    enum errc rc = validator_new(out, rule, call->err);
    if (rc == OK && call->validator) {
        validator_free(*call->validator);
        *call->validator = *out;
    }
    return rc;
}

static enum errc fn_schema_validate(struct fn_call *call)
{
    struct slice names[] = { slice_str("valid"), slice_str("errorMessage") };
    struct val values[] = { val_true, val_null }, def = fn_arg(call, 1);
    struct validator_def read;
    struct validator *validator;
    bool is_own, is_valid = false;

    if (!fn_is(call, 0, VAL_OBJECT))
        return fn_bad_arg(call, 0, "an object");
    if (val_is_null(def) || (val_type(def) == VAL_OBJECT && !val_count(def)))
        return fn_return(call, val_new_object(call->arena, names, values, 1));
    if (val_type(def) != VAL_OBJECT)
        return fail(call->err, ERR_INVALID, "the second argument of SCHEMA_VALIDATE is no schema");
    enum errc rc = validator_def_read(&read, def, call->err);
    if (rc == OK)
        rc = find_validator(call, read.rule, &validator, &is_own);
    if (rc != OK)
        return rc;
    rc = validator_check(validator, fn_arg(call, 0), &is_valid, call->err);
    if (is_own)
        validator_free(validator);
    if (rc != OK)
        return rc;
    values[0] = val_new_bool(is_valid);
    values[1] =
        val_new_string(call->arena, read.message.len ? read.message : slice_str(errnum_text(1620)));
    return fn_return(call, val_new_object(call->arena, names, values, is_valid ? 1 : 2));
}

const struct fn fn_schema[] = {
    { "SCHEMA_GET", 1, 1, "", FN_READS | FN_NAMES, fn_schema_get,
      "The schema of a collection; null without one." },
    { "SCHEMA_VALIDATE", 2, 2, "", FN_PURE | FN_SESSION, fn_schema_validate,
      "Does the document meet the schema {rule, message}? Says {valid, errorMessage}." },
    { 0 },
};
