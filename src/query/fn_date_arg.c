/* SPDX-License-Identifier: Apache-2.0 */
#include "query/fn_date_arg.h"
#include "base/zone.h"

static void bad_date(struct fn_call *call)
{
    fn_warn(call, 1572, "invalid date value");
    call->result = val_null;
}

bool fn_date_arg(struct fn_call *call, int i, int64_t *ms)
{
    struct val v = fn_arg(call, i);
    bool is_ok = false;

    if (val_type(v) == VAL_NUMBER) {
        *ms = val_int(v);
        is_ok = *ms >= DATE_MIN && *ms <= DATE_MAX;
    } else if (val_type(v) == VAL_STRING) {
        is_ok = date_parse(val_string(v), ms);
    }
    if (!is_ok)
        bad_date(call);
    return is_ok;
}

/* *out stays NULL when the argument is absent or null. */
static enum errc zone_arg(struct fn_call *call, int i, struct zone **out)
{
    struct val v = fn_arg(call, i);

    *out = NULL;
    if (val_is_null(v))
        return OK;
    return zone_open(out, fn_text_arg(call, i), call->err);
}

enum errc fn_local_date_arg(struct fn_call *call, int i, int zone_at, int64_t *ms, bool *is_date)
{
    struct zone *zone;

    *is_date = fn_date_arg(call, i, ms);
    if (!*is_date)
        return OK;
    enum errc rc = zone_arg(call, zone_at, &zone);
    if (zone)
        *ms = zone_to_local(zone, *ms);
    zone_close(zone);
    return rc;
}

bool fn_unit_arg(struct fn_call *call, int i, enum date_unit *out)
{
    if (fn_is(call, i, VAL_STRING) && date_unit_find(val_string(call->args[i]), out))
        return true;
    fn_bad_arg(call, i, "a unit such as \"days\"");
    return false;
}

enum errc fn_return_date(struct fn_call *call, int64_t ms)
{
    char text[DATE_TEXT_BYTES];

    if (ms < DATE_MIN || ms > DATE_MAX) {
        bad_date(call);
        return OK;
    }
    date_print(ms, true, text);
    return fn_return_text(call, slice_str(text));
}

enum errc fn_return_local_date(struct fn_call *call, int64_t ms, int zone_at)
{
    struct zone *zone;
    enum errc rc = zone_arg(call, zone_at, &zone);

    if (zone && ms >= DATE_MIN && ms <= DATE_MAX)
        ms = zone_to_utc(zone, ms);
    zone_close(zone);
    return rc == OK ? fn_return_date(call, ms) : rc;
}
