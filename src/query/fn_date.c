/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates are milliseconds since 1970 or ISO 8601 texts in UTC. Functions that take a zone
 * compute with the local time there.
 */
#include "query/fn_date_arg.h"
#include <math.h>

/* A date, or its parts as arguments. */
static bool read_date_or_parts(struct fn_call *call, int64_t *ms)
{
    struct date d = { .month = 1, .day = 1 };

    if (call->count == 1)
        return fn_date_arg(call, 0, ms);
    int64_t p[7] = { 0, 1, 1 };
    for (int i = 0; i < call->count && i < 7; i++)
        p[i] = fn_int_arg(call, i);
    bool is_ok = p[0] >= -9999 && p[0] <= 9999 && p[1] >= 1 && p[1] <= 12 && p[2] >= 1;
    for (int i = 2; i < 7; i++) /* beyond its largest a part runs over into the next one */
        is_ok = is_ok && p[i] >= 0 && p[i] <= INT32_MAX;
    d = (struct date){ p[0], (int)(is_ok ? p[1] : 1), 1, 0, 0, 0, 0 };
    if (is_ok)
        *ms =
            date_ms(&d) + (p[2] - 1) * DAY_MS + p[3] * 3600000 + p[4] * 60000 + p[5] * 1000 + p[6];
    if (!is_ok || *ms > DATE_MAX) {
        fn_warn(call, 1572, "invalid date value");
        call->result = val_null;
        return false;
    }
    return true;
}

/* ---- now, texts, numbers ---- */

static enum errc fn_date_now(struct fn_call *call)
{
    return fn_return_int(call, (int64_t)(call->now_us / 1000));
}

static enum errc fn_date_iso8601(struct fn_call *call)
{
    int64_t ms;

    return read_date_or_parts(call, &ms) ? fn_return_date(call, ms) : OK;
}

static enum errc fn_date_timestamp(struct fn_call *call)
{
    int64_t ms;

    return read_date_or_parts(call, &ms) ? fn_return_int(call, ms) : OK;
}

static enum errc fn_is_datestring(struct fn_call *call)
{
    int64_t ms;

    return fn_return_bool(call,
                          fn_is(call, 0, VAL_STRING) && date_parse(val_string(call->args[0]), &ms));
}

/* ---- parts ---- */

enum date_part {
    PART_YEAR,
    PART_MONTH,
    PART_DAY,
    PART_HOUR,
    PART_MINUTE,
    PART_SECOND,
    PART_MS,
    PART_WEEKDAY,
    PART_YEARDAY,
    PART_QUARTER,
    PART_WEEK,
    PART_MONTH_DAYS
};

/* The second argument may be a zone. */
static enum errc date_part(struct fn_call *call, enum date_part part)
{
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 1, &ms, &is_date);

    if (rc != OK || !is_date)
        return rc;
    struct date d = date_of(ms);
    const int64_t parts[] = {
        [PART_YEAR] = d.year,
        [PART_MONTH] = d.month,
        [PART_DAY] = d.day,
        [PART_HOUR] = d.hour,
        [PART_MINUTE] = d.minute,
        [PART_SECOND] = d.second,
        [PART_MS] = d.ms,
        [PART_WEEKDAY] = date_weekday(ms),
        [PART_YEARDAY] = date_yearday(ms),
        [PART_QUARTER] = (d.month + 2) / 3,
        [PART_WEEK] = date_week(ms).week,
        [PART_MONTH_DAYS] = date_days_in_month(d.year, d.month),
    };
    return fn_return_int(call, parts[part]);
}

#define PART_FN(name, part)                                                                        \
    static enum errc name(struct fn_call *call)                                                    \
    {                                                                                              \
        return date_part(call, part);                                                              \
    }

PART_FN(fn_date_year, PART_YEAR)
PART_FN(fn_date_month, PART_MONTH)
PART_FN(fn_date_day, PART_DAY)
PART_FN(fn_date_hour, PART_HOUR)
PART_FN(fn_date_minute, PART_MINUTE)
PART_FN(fn_date_second, PART_SECOND)
PART_FN(fn_date_ms, PART_MS)
PART_FN(fn_date_weekday, PART_WEEKDAY)
PART_FN(fn_date_yearday, PART_YEARDAY)
PART_FN(fn_date_quarter, PART_QUARTER)
PART_FN(fn_date_week, PART_WEEK)
PART_FN(fn_date_month_days, PART_MONTH_DAYS)

static enum errc fn_date_week_year(struct fn_call *call)
{
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 1, &ms, &is_date);

    if (rc != OK || !is_date)
        return rc;
    struct week w = date_week(ms);
    struct slice names[] = { slice_str("week"), slice_str("year") };
    struct val values[] = { val_new_int(call->arena, w.week), val_new_int(call->arena, w.year) };
    return fn_return(call, val_new_object(call->arena, names, values, 2));
}

static enum errc fn_date_leap(struct fn_call *call)
{
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 1, &ms, &is_date);

    if (rc != OK || !is_date)
        return rc;
    return fn_return_bool(call, date_is_leap(date_of(ms).year));
}

/* ---- arithmetic ---- */

static enum errc shift_date(struct fn_call *call, int sign)
{
    /* The unit and the number may change places, as in ArangoDB. */
    bool is_turned = fn_is(call, 1, VAL_STRING) && fn_is(call, 2, VAL_NUMBER);
    int amount_at = is_turned ? 2 : 1, unit_at = is_turned ? 1 : 2;
    enum date_unit unit;
    bool is_date, is_duration = call->count == 2 || !fn_is(call, amount_at, VAL_NUMBER);
    int zone_at = is_duration ? 2 : 3;
    int64_t ms;
    enum errc rc = fn_local_date_arg(call, 0, zone_at, &ms, &is_date);

    if (rc != OK || !is_date)
        return rc;
    if (is_duration) {
        if (!fn_is(call, 1, VAL_STRING) || !date_add_duration(val_string(call->args[1]), sign, &ms))
            return fn_bad_arg(call, 1, "an ISO 8601 duration, or a number with a unit");
        return fn_return_local_date(call, ms, zone_at);
    }
    double amount = fn_number_arg(call, amount_at) * sign;
    if (!fn_unit_arg(call, unit_at, &unit))
        return OK;
    if (unit <= UNIT_MONTH)
        return fn_return_local_date(call,
                                    date_add_months(ms, (int64_t)fmax(fmin(amount, 1e9), -1e9) *
                                                            (unit == UNIT_YEAR ? 12 : 1)),
                                    zone_at);
    double result = (double)ms + amount * date_unit_ms(unit);
    return fn_return_local_date(call, (int64_t)fmax(fmin(result, 1e16), -1e16), zone_at);
}

static enum errc fn_date_add(struct fn_call *call)
{
    return shift_date(call, 1);
}

static enum errc fn_date_subtract(struct fn_call *call)
{
    return shift_date(call, -1);
}

/* Two dates, each in its zone; one zone holds for both. */
static enum errc read_two(struct fn_call *call, int zones_at, int64_t *a, int64_t *b, bool *is_ok)
{
    int second = val_is_null(fn_arg(call, zones_at + 1)) ? zones_at : zones_at + 1;
    enum errc rc = fn_local_date_arg(call, 0, zones_at, a, is_ok);

    return rc == OK && *is_ok ? fn_local_date_arg(call, 1, second, b, is_ok) : rc;
}

static enum errc fn_date_diff(struct fn_call *call)
{
    bool has_flag = !fn_is(call, 3, VAL_STRING), is_ok;
    enum date_unit unit;
    int64_t a, b;
    enum errc rc = read_two(call, has_flag ? 4 : 3, &a, &b, &is_ok);

    if (rc != OK || !is_ok || !fn_unit_arg(call, 2, &unit))
        return rc;
    double n = (double)(b - a) / date_unit_ms(unit);
    return has_flag && val_truth(fn_arg(call, 3)) ? fn_return_double(call, n)
                                                  : fn_return_int(call, (int64_t)trunc(n));
}

static int64_t part_of(const struct date *d, enum date_unit unit)
{
    const int64_t parts[] = {
        [UNIT_YEAR] = d->year,     [UNIT_MONTH] = d->month, [UNIT_WEEK] = 0,
        [UNIT_DAY] = d->day,       [UNIT_HOUR] = d->hour,   [UNIT_MINUTE] = d->minute,
        [UNIT_SECOND] = d->second, [UNIT_MS] = d->ms
    };

    return parts[unit];
}

static enum errc fn_date_compare(struct fn_call *call)
{
    enum date_unit from, to;
    bool is_ok,
        has_end = fn_is(call, 3, VAL_STRING) && date_unit_find(val_string(call->args[3]), &to);
    int64_t a, b;
    enum errc rc = read_two(call, has_end || val_is_null(fn_arg(call, 3)) ? 4 : 3, &a, &b, &is_ok);

    if (rc != OK || !is_ok || !fn_unit_arg(call, 2, &from))
        return rc;
    to = has_end ? to : from;
    if (from == UNIT_WEEK || to == UNIT_WEEK)
        return fn_bad_arg(call, from == UNIT_WEEK ? 2 : 3, "a unit other than a week");
    if (to < from)
        return fn_bad_arg(call, 3, "a unit that is not longer than the first one");
    struct date x = date_of(a), y = date_of(b);
    for (int unit = (int)from; unit <= (int)to; unit++)
        if (part_of(&x, (enum date_unit)unit) != part_of(&y, (enum date_unit)unit))
            return fn_return_bool(call, false);
    return fn_return_bool(call, true);
}

static enum errc fn_date_trunc(struct fn_call *call)
{
    enum date_unit unit;
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 2, &ms, &is_date);

    if (rc != OK || !is_date || !fn_unit_arg(call, 1, &unit))
        return rc;
    if (unit == UNIT_WEEK)
        return fn_bad_arg(call, 1, "a unit other than a week");
    struct date d = date_of(ms);
    struct date cut = { .year = d.year, .month = 1, .day = 1 };
    cut.month = unit >= UNIT_MONTH ? d.month : 1;
    cut.day = unit >= UNIT_DAY ? d.day : 1;
    cut.hour = unit >= UNIT_HOUR ? d.hour : 0;
    cut.minute = unit >= UNIT_MINUTE ? d.minute : 0;
    cut.second = unit >= UNIT_SECOND ? d.second : 0;
    cut.ms = unit >= UNIT_MS ? d.ms : 0;
    return fn_return_local_date(call, date_ms(&cut), 2);
}

static enum errc fn_date_round(struct fn_call *call)
{
    enum date_unit unit;
    double amount = fn_number_arg(call, 1);
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 3, &ms, &is_date);

    if (rc != OK || !is_date || !fn_unit_arg(call, 2, &unit))
        return rc;
    if (!fn_is(call, 1, VAL_NUMBER) || amount < 1 || amount > 1e9)
        return fn_bad_arg(call, 1, "a whole number from 1 to 1000000000");
    if (unit <= UNIT_WEEK)
        return fn_bad_arg(call, 2, "a unit from days to milliseconds");
    int64_t step = (int64_t)amount * (int64_t)date_unit_ms(unit);
    int64_t rest = ms % step;
    return fn_return_local_date(call, ms - rest - (rest < 0 ? step : 0), 3);
}

const struct fn fn_date[] = {
    { "DATE_NOW", 0, 0, "", FN_STABLE, fn_date_now, "Milliseconds since 1970." },
    { "DATE_ISO8601", 1, 7, "", FN_PURE, fn_date_iso8601, "As an ISO 8601 text in UTC." },
    { "DATE_TIMESTAMP", 1, 7, "", FN_PURE, fn_date_timestamp, "As milliseconds since 1970." },
    { "IS_DATESTRING", 1, 1, "", FN_PURE, fn_is_datestring, "Is it a date text?" },
    { "DATE_YEAR", 1, 2, "", FN_PURE, fn_date_year, "Its year; a zone may be named." },
    { "DATE_MONTH", 1, 2, "", FN_PURE, fn_date_month, "Its month, from 1." },
    { "DATE_DAY", 1, 2, "", FN_PURE, fn_date_day, "Its day of the month." },
    { "DATE_HOUR", 1, 2, "", FN_PURE, fn_date_hour, "Its hour." },
    { "DATE_MINUTE", 1, 2, "", FN_PURE, fn_date_minute, "Its minute." },
    { "DATE_SECOND", 1, 2, "", FN_PURE, fn_date_second, "Its second." },
    { "DATE_MILLISECOND", 1, 2, "", FN_PURE, fn_date_ms, "Its millisecond." },
    { "DATE_DAYOFWEEK", 1, 2, "", FN_PURE, fn_date_weekday, "Day of the week, Sunday is 0." },
    { "DATE_DAYOFYEAR", 1, 2, "", FN_PURE, fn_date_yearday, "Day of the year, from 1." },
    { "DATE_ISOWEEK", 1, 2, "", FN_PURE, fn_date_week, "Week of the year by ISO 8601." },
    { "DATE_ISOWEEKYEAR", 1, 2, "", FN_PURE, fn_date_week_year, "That week and its year." },
    { "DATE_LEAPYEAR", 1, 2, "", FN_PURE, fn_date_leap, "Is its year a leap year?" },
    { "DATE_DAYS_IN_MONTH", 1, 2, "", FN_PURE, fn_date_month_days, "Days of its month." },
    { "DATE_QUARTER", 1, 2, "", FN_PURE, fn_date_quarter, "Its quarter." },
    { "DATE_ADD", 2, 4, "", FN_PURE, fn_date_add, "A later date." },
    { "DATE_SUBTRACT", 2, 4, "", FN_PURE, fn_date_subtract, "An earlier date." },
    { "DATE_DIFF", 3, 6, "", FN_PURE, fn_date_diff, "Time between two dates in a unit." },
    { "DATE_COMPARE", 3, 6, "", FN_PURE, fn_date_compare, "Are parts of two dates equal?" },
    { "DATE_TRUNC", 2, 3, "", FN_PURE, fn_date_trunc, "The start of the unit it is in." },
    { "DATE_ROUND", 3, 4, "", FN_PURE, fn_date_round, "The start of its bin of equal length." },
    { 0 },
};
