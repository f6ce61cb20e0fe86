/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answer_shape.h"

#include "server/body.h"

static enum errc use_schema(struct val schema, const char *where, struct gen_shape *out,
                            struct error *err)
{
    if (val_type(schema) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'%s' must be a JSON schema (an object)", where);
    *out = (struct gen_shape){ .kind = GEN_SCHEMA, .schema = schema };
    return OK;
}

/* {"name": ..., "schema": {...}, "strict": ..., "description": ...}; it is strict anyway. */
static enum errc read_named_schema(struct val v, struct gen_shape *out, struct error *err)
{
    static const char *const known[] = { "name", "schema", "strict", "description" };
    struct slice text;
    bool is_strict;
    enum errc rc = OK;

    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'response_format.json_schema' must be an object");
    TRY(body_check_names(v, known, ARRAY_LEN(known), err));
    TRY(body_text(v, "name", &text, err));
    if (!slice_is_file_name(text, 64))
        TRY(fail(err, ERR_INVALID,
                 "'response_format.json_schema.name' must be 1 to 64 of A-Z a-z 0-9 _ -"));
    TRY(body_text(v, "description", &text, err));
    TRY(body_bool(v, "strict", &is_strict, err));
    rc =
        use_schema(val_get(v, slice_str("schema")), "response_format.json_schema.schema", out, err);
out:
    return rc;
}

/* As OpenAI has it; {"type": "json_object", "schema": {...}} as llama-server does. */
static enum errc read_format(struct val v, struct gen_shape *out, struct error *err)
{
    static const char *const known[] = { "type", "json_schema", "schema" };
    struct val schema = val_get(v, slice_str("schema"));
    struct val named = val_get(v, slice_str("json_schema"));
    struct slice type;
    enum errc rc = OK;

    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'response_format' must be an object with a 'type'");
    TRY(body_check_names(v, known, ARRAY_LEN(known), err));
    TRY(body_text(v, "type", &type, err));
    bool is_schema = slice_is(type, "json_schema"), is_json = slice_is(type, "json_object");
    if (!is_schema && !is_json && !slice_is(type, "text"))
        TRY(fail(err, ERR_INVALID,
                 "'response_format.type' must be text, json_object or json_schema"));
    if ((!val_is_null(named) && !is_schema) || (!val_is_null(schema) && !is_json))
        TRY(fail(err, ERR_INVALID, "'response_format' has a schema that its type does not take"));
    if (is_schema)
        rc = read_named_schema(named, out, err);
    else if (!val_is_null(schema))
        rc = use_schema(schema, "response_format.schema", out, err);
    else if (is_json)
        out->kind = GEN_JSON;
out:
    return rc;
}

enum errc answer_shape_read(struct val body, struct gen_shape *out, struct error *err)
{
    struct val schema = val_get(body, slice_str("json_schema"));
    struct slice grammar;
    enum errc rc = OK;

    *out = (struct gen_shape){ .kind = GEN_FREE };
    TRY(read_format(val_get(body, slice_str("response_format")), out, err));
    TRY(body_text(body, "grammar", &grammar, err));
    if (grammar.len + !val_is_null(schema) > 0 && out->kind != GEN_FREE)
        TRY(fail(err, ERR_INVALID,
                 "only one of 'response_format', 'json_schema' and 'grammar' can be followed"));
    if (grammar.len > 0 && !val_is_null(schema))
        TRY(fail(err, ERR_INVALID, "only one of 'json_schema' and 'grammar' can be followed"));
    if (!val_is_null(val_get(body, slice_str("grammar"))) && grammar.len == 0)
        TRY(fail(err, ERR_INVALID, "'grammar' is empty"));
    if (!val_is_null(schema))
        TRY(use_schema(schema, "json_schema", out, err));
    if (grammar.len > 0)
        *out = (struct gen_shape){ .kind = GEN_GRAMMAR, .grammar = grammar };
out:
    return rc;
}
