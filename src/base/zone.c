/* SPDX-License-Identifier: Apache-2.0 */
#include "base/zone.h"
#include <stdio.h>
#include <unicode/ucal.h>
#include <unicode/uenum.h>
#include <unicode/ustring.h>

enum { NAME_MAX_BYTES = 64 };

struct zone {
    UCalendar *cal;
};

static bool to_utf16(struct slice name, UChar out[NAME_MAX_BYTES])
{
    if (!name.len || name.len >= NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] <= ' ' || name.ptr[i] > '~')
            return false;
        out[i] = (UChar)name.ptr[i];
    }
    out[name.len] = 0;
    return true;
}

enum errc zone_open(struct zone **out, struct slice name, struct error *err)
{
    UErrorCode status = U_ZERO_ERROR;
    UChar id[NAME_MAX_BYTES], canonical[NAME_MAX_BYTES];
    UBool is_known = false;

    *out = NULL;
    if (to_utf16(name, id))
        ucal_getCanonicalTimeZoneID(id, (int32_t)name.len, canonical, NAME_MAX_BYTES, &is_known,
                                    &status);
    if (U_FAILURE(status) || !is_known)
        return fail_num(err, 10, "unknown time zone '%.*s'; a name such as 'Europe/Berlin' is",
                        SLICE_ARG(name));
    UCalendar *cal = ucal_open(id, (int32_t)name.len, "en_GB", UCAL_GREGORIAN, &status);
    if (U_FAILURE(status))
        BUG("calendar: %s", u_errorName(status));
    *out = mem_zalloc(sizeof **out);
    (*out)->cal = cal;
    return OK;
}

void zone_close(struct zone *z)
{
    if (!z)
        return;
    ucal_close(z->cal);
    mem_free(z);
}

static int64_t offset_at(struct zone *z, int64_t utc_ms)
{
    UErrorCode status = U_ZERO_ERROR;

    ucal_setMillis(z->cal, (UDate)utc_ms, &status);
    int64_t offset = ucal_get(z->cal, UCAL_ZONE_OFFSET, &status);
    offset += ucal_get(z->cal, UCAL_DST_OFFSET, &status);
    if (U_FAILURE(status))
        BUG("calendar: %s", u_errorName(status));
    return offset;
}

/* The calendar stands at the moment asked about. */
static bool change_at(struct zone *z, UTimeZoneTransitionType type, int64_t *out)
{
    UErrorCode status = U_ZERO_ERROR;
    UDate at;

    if (!ucal_getTimeZoneTransitionDate(z->cal, type, &at, &status) || U_FAILURE(status))
        return false;
    *out = (int64_t)at;
    return true;
}

void zone_at(struct zone *z, int64_t utc_ms, struct zone_rule *out)
{
    UErrorCode status = U_ZERO_ERROR;
    UChar name[sizeof out->name];
    int32_t n;

    *out = (struct zone_rule){ .offset_ms = offset_at(z, utc_ms) };
    out->is_dst = ucal_get(z->cal, UCAL_DST_OFFSET, &status) != 0;
    out->has_begin = change_at(z, UCAL_TZ_TRANSITION_PREVIOUS_INCLUSIVE, &out->begin_ms);
    out->has_end = change_at(z, UCAL_TZ_TRANSITION_NEXT, &out->end_ms);
    ucal_getTimeZoneDisplayName(z->cal, out->is_dst ? UCAL_SHORT_DST : UCAL_SHORT_STANDARD, "en_GB",
                                name, (int32_t)ARRAY_LEN(name), &status);
    u_strToUTF8(out->name, sizeof out->name, &n, name, -1, &status);
    if (U_FAILURE(status) || n >= (int32_t)sizeof out->name)
        out->name[0] = 0; /* no name rather than half of one */
}

int64_t zone_to_local(struct zone *z, int64_t utc_ms)
{
    return utc_ms + offset_at(z, utc_ms);
}

int64_t zone_to_utc(struct zone *z, int64_t local_ms)
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t raw, dst;
    int64_t change;

    ucal_setMillis(z->cal, (UDate)local_ms, &status);
    ucal_getTimeZoneOffsetFromLocal(z->cal, UCAL_TZ_LOCAL_FORMER, UCAL_TZ_LOCAL_FORMER, &raw, &dst,
                                    &status);
    if (U_FAILURE(status))
        BUG("calendar: %s", u_errorName(status));
    int64_t utc = local_ms - raw - dst;
    if (zone_to_local(z, utc) != local_ms &&
        change_at(z, UCAL_TZ_TRANSITION_PREVIOUS_INCLUSIVE, &change))
        return change;
    return utc;
}

void zone_each(void (*fn)(void *ctx, struct slice name), void *ctx)
{
    UErrorCode status = U_ZERO_ERROR;
    UEnumeration *all = ucal_openTimeZones(&status);
    const char *name;
    int32_t len;

    if (U_FAILURE(status))
        BUG("time zones: %s", u_errorName(status));
    while ((name = uenum_next(all, &len, &status)) && U_SUCCESS(status))
        fn(ctx, slice_of(name, (size_t)len));
    uenum_close(all);
}

void zone_system(char *out, size_t room)
{
    UErrorCode status = U_ZERO_ERROR;
    UChar name[NAME_MAX_BYTES];
    int32_t n = 0;

    ucal_getHostTimeZone(name, NAME_MAX_BYTES, &status);
    u_strToUTF8(out, (int32_t)room, &n, name, -1, &status);
    if (U_FAILURE(status) || (size_t)n >= room)
        snprintf(out, room, "UTC");
}

const char *zone_version(void)
{
    UErrorCode status = U_ZERO_ERROR;
    const char *version = ucal_getTZDataVersion(&status);

    return U_SUCCESS(status) ? version : "";
}
