/* SPDX-License-Identifier: Apache-2.0 */
/* Functions called by a name that is computed. */
#include "query/fn_support.h"

/* The named function with arguments from call->args on; may not be one of these again. */
static enum errc call_named(struct fn_call *call, struct val name, const struct val *args,
                            size_t count)
{
    const struct fn *fn = fn_find(val_string(name));

    if (val_type(name) != VAL_STRING)
        return fn_bad_arg(call, 0, "the name of a function");
    if (!fn)
        return fail_num(call->err, 1540, "unknown function '%.*s()'", SLICE_ARG(val_string(name)));
    if (fn->flags & FN_CALLS)
        return fail_num(call->err, 10, "%s() cannot be called by its name", fn->name);
    if (count < (size_t)fn->min_args || (fn->max_args >= 0 && count > (size_t)fn->max_args))
        return fail_num(call->err, 1541,
                        "invalid number of arguments for function '%s()', expected number of "
                        "arguments: minimum: %d, maximum: %d",
                        fn->name, fn->min_args, fn->max_args < 0 ? 65536 : fn->max_args);
    struct fn_call inner = *call;
    inner.args = args;
    inner.count = (int)count;
    enum errc rc = fn_eval(fn, &inner);
    call->result = inner.result;
    return rc;
}

static enum errc fn_call_name(struct fn_call *call)
{
    return call_named(call, call->args[0], call->args + 1, (size_t)call->count - 1);
}

static enum errc fn_apply(struct fn_call *call)
{
    struct val list = fn_arg(call, 1);
    size_t count = val_count(list);

    if (!val_is_null(list) && val_type(list) != VAL_ARRAY)
        return fn_bad_arg(call, 1, "an array of arguments");
    struct val *args = fn_room(call, count);
    for (size_t i = 0; i < count; i++)
        args[i] = val_at(list, i);
    return call_named(call, call->args[0], args, count);
}

const struct fn fn_dynamic[] = {
    { "CALL", 1, -1, "", FN_CALLS, fn_call_name, "The function of that name with arguments." },
    { "APPLY", 1, 2, "", FN_CALLS, fn_apply, "The same with an array of arguments." },
    { 0 },
};
