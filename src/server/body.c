/* SPDX-License-Identifier: Apache-2.0 */
#include "server/body.h"
#include <stdio.h>

/* The known ones, as far as a message holds them. */
static enum errc unknown_name(struct slice name, const char *const *known, size_t count,
                              struct error *err)
{
    char list[160] = "";
    size_t len = 0;

    for (size_t i = 0; i < count && len + strlen(known[i]) + 3 < sizeof list; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", known[i]);
    return fail(err, ERR_INVALID, "unknown field '%.*s'; there are: %s", SLICE_ARG(name), list);
}

enum errc body_check_names(struct val body, const char *const *known, size_t count,
                           struct error *err)
{
    for (size_t i = 0; i < val_count(body); i++) {
        bool is_known = false;
        for (size_t k = 0; k < count; k++)
            is_known |= slice_is(val_name_at(body, i), known[k]);
        if (!is_known)
            return unknown_name(val_name_at(body, i), known, count, err);
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
