/* SPDX-License-Identifier: Apache-2.0 */
#include "server/body.h"

enum errc body_check_names(struct val body, const char *const *known, size_t count,
                           struct error *err)
{
    for (size_t i = 0; i < val_count(body); i++) {
        bool is_known = false;
        for (size_t k = 0; k < count; k++)
            is_known |= slice_is(val_name_at(body, i), known[k]);
        if (!is_known)
            return fail(err, ERR_INVALID, "unknown field '%.*s'", SLICE_ARG(val_name_at(body, i)));
    }
    return OK;
}

enum errc body_text(struct val body, const char *name, struct slice *out, struct error *err)
{
    struct val v = val_get(body, slice_str(name));

    *out = val_string(v);
    if (val_is_null(v) || val_type(v) == VAL_STRING)
        return OK;
    return fail(err, ERR_INVALID, "'%s' must be a string", name);
}

enum errc body_bool(struct val body, const char *name, bool *out, struct error *err)
{
    struct val v = val_get(body, slice_str(name));

    *out = val_bool(v);
    if (val_is_null(v) || val_type(v) == VAL_BOOL)
        return OK;
    return fail(err, ERR_INVALID, "'%s' must be true or false", name);
}

enum errc body_number(struct val body, const char *name, double min, double max, double def,
                      double *out, struct error *err)
{
    struct val v = val_get(body, slice_str(name));

    *out = def;
    if (val_is_null(v))
        return OK;
    *out = val_double(v);
    if (val_type(v) == VAL_NUMBER && *out >= min && *out <= max)
        return OK;
    return fail(err, ERR_INVALID, "'%s' must be a number from %g to %g", name, min, max);
}
