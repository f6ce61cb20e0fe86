/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and conversions of types. */
#include "query/fn_support.h"
#include "store/doc.h"

static enum errc is_type(struct fn_call *call, enum val_type type)
{
    return fn_return_bool(call, val_type(fn_arg(call, 0)) == type);
}

static enum errc fn_is_null(struct fn_call *call)
{
    return is_type(call, VAL_NULL);
}

static enum errc fn_is_bool(struct fn_call *call)
{
    return is_type(call, VAL_BOOL);
}

static enum errc fn_is_number(struct fn_call *call)
{
    return is_type(call, VAL_NUMBER);
}

static enum errc fn_is_string(struct fn_call *call)
{
    return is_type(call, VAL_STRING);
}

static enum errc fn_is_array(struct fn_call *call)
{
    return is_type(call, VAL_ARRAY);
}

static enum errc fn_is_object(struct fn_call *call)
{
    return is_type(call, VAL_OBJECT);
}

static enum errc fn_is_key(struct fn_call *call)
{
    return fn_return_bool(call, fn_is(call, 0, VAL_STRING) &&
                                    doc_key_is_legal(val_string(call->args[0])));
}

static enum errc fn_typename(struct fn_call *call)
{
    return fn_return_text(call, slice_str(val_type_name(val_type(fn_arg(call, 0)))));
}

static enum errc fn_to_bool(struct fn_call *call)
{
    return fn_return_bool(call, val_truth(fn_arg(call, 0)));
}

static enum errc fn_to_number(struct fn_call *call)
{
    return fn_return(call, cast_number(call->arena, fn_arg(call, 0)));
}

static enum errc fn_to_string(struct fn_call *call)
{
    return fn_return(call, cast_string(call->arena, fn_arg(call, 0)));
}

static enum errc fn_to_array(struct fn_call *call)
{
    return fn_return(call, cast_array(call->arena, fn_arg(call, 0)));
}

const struct fn fn_type[] = {
    { "IS_NULL", 1, 1, "", FN_PURE, fn_is_null, "Is it null?" },
    { "IS_BOOL", 1, 1, "", FN_PURE, fn_is_bool, "Is it true or false?" },
    { "IS_NUMBER", 1, 1, "", FN_PURE, fn_is_number, "Is it a number?" },
    { "IS_STRING", 1, 1, "", FN_PURE, fn_is_string, "Is it a string?" },
    { "IS_ARRAY", 1, 1, "", FN_PURE, fn_is_array, "Is it an array?" },
    { "IS_LIST", 1, 1, "", FN_PURE, fn_is_array, "As IS_ARRAY." },
    { "IS_OBJECT", 1, 1, "", FN_PURE, fn_is_object, "Is it an object?" },
    { "IS_DOCUMENT", 1, 1, "", FN_PURE, fn_is_object, "As IS_OBJECT." },
    { "IS_KEY", 1, 1, "", FN_PURE, fn_is_key, "Can it be a document's key?" },
    { "TYPENAME", 1, 1, "", FN_PURE, fn_typename, "Name of the type." },
    { "TO_BOOL", 1, 1, "", FN_PURE, fn_to_bool, "As a boolean." },
    { "TO_NUMBER", 1, 1, "", FN_PURE, fn_to_number, "As a number." },
    { "TO_STRING", 1, 1, "", FN_PURE, fn_to_string, "As a string." },
    { "TO_ARRAY", 1, 1, "", FN_PURE, fn_to_array, "As an array." },
    { "TO_LIST", 1, 1, "", FN_PURE, fn_to_array, "As TO_ARRAY." },
    { 0 },
};
