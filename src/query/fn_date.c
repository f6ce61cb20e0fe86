/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates are milliseconds since 1970 or ISO 8601 texts, always UTC. The calendar
 * is the proleptic Gregorian one, by days since 1970-03-01 shifted eras (Howard
 * Hinnant, "chrono-compatible low-level date algorithms").
 */
#include "query/fn_support.h"
#include <math.h>
#include <stdio.h>

#define DAY_MS INT64_C(86400000)
/* Years -9999 to 9999. */
#define DATE_MIN (-INT64_C(377705116800000))
#define DATE_MAX INT64_C(253402300799999)

struct date {
    int64_t year;
    int month, day, hour, minute, second, ms;
};

static int64_t days_of(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static int64_t date_ms(const struct date *d)
{
    return days_of(d->year, d->month, d->day) * DAY_MS + d->hour * INT64_C(3600000) +
           d->minute * INT64_C(60000) + d->second * INT64_C(1000) + d->ms;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static struct date date_of(int64_t ms)
{
    int64_t days = floor_div(ms, DAY_MS), rest = ms - days * DAY_MS;
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    struct date d = { .day = (int)(doy - (153 * mp + 2) / 5 + 1),
                      .month = (int)(mp < 10 ? mp + 3 : mp - 9) };

    d.year = yoe + era * 400 + (d.month <= 2);
    d.hour = (int)(rest / 3600000);
    d.minute = (int)(rest / 60000 % 60);
    d.second = (int)(rest / 1000 % 60);
    d.ms = (int)(rest % 1000);
    return d;
}

static int days_in_month(int64_t y, int m)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool is_leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

    return days[m - 1] + (m == 2 && is_leap);
}

/* ---- reading ---- */

static bool digits(struct slice *s, int min, int max, int *out)
{
    int n = 0;

    *out = 0;
    while (n < max && s->len && s->ptr[0] >= '0' && s->ptr[0] <= '9') {
        *out = *out * 10 + (s->ptr[0] - '0');
        *s = slice_of(s->ptr + 1, s->len - 1);
        n++;
    }
    return n >= min;
}

static bool skip(struct slice *s, const char *chars)
{
    if (!s->len || !strchr(chars, s->ptr[0]))
        return false;
    *s = slice_of(s->ptr + 1, s->len - 1);
    return true;
}

static bool read_time(struct slice *s, struct date *d)
{
    if (!digits(s, 1, 2, &d->hour) || !skip(s, ":") || !digits(s, 1, 2, &d->minute))
        return false;
    if (skip(s, ":")) {
        if (!digits(s, 1, 2, &d->second))
            return false;
        if (skip(s, ".,")) {
            int scale = 100;
            if (!s->len || s->ptr[0] < '0' || s->ptr[0] > '9')
                return false;
            while (s->len && s->ptr[0] >= '0' && s->ptr[0] <= '9') {
                d->ms += (s->ptr[0] - '0') * scale;
                scale /= 10;
                *s = slice_of(s->ptr + 1, s->len - 1);
            }
        }
    }
    return true;
}

/* Z, +hh:mm, -hhmm; *shift_ms is what to subtract. */
static bool read_zone(struct slice *s, int64_t *shift_ms)
{
    int hours, minutes = 0;

    *shift_ms = 0;
    if (!s->len || skip(s, "zZ"))
        return true;
    bool is_west = s->ptr[0] == '-';
    if (!skip(s, "+-") || !digits(s, 2, 2, &hours))
        return false;
    skip(s, ":");
    if (s->len && !digits(s, 2, 2, &minutes))
        return false;
    *shift_ms = (hours * INT64_C(60) + minutes) * 60000 * (is_west ? -1 : 1);
    return hours <= 23 && minutes <= 59;
}

static bool parse_date(struct slice s, int64_t *ms)
{
    struct date d = { .month = 1, .day = 1 };
    int64_t shift;
    int year;

    while (s.len && s.ptr[0] == ' ')
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len && s.ptr[s.len - 1] == ' ')
        s.len--;
    bool is_negative = skip(&s, "-");
    if (!is_negative)
        skip(&s, "+");
    if (!digits(&s, 4, 6, &year))
        return false;
    d.year = is_negative ? -year : year;
    if (skip(&s, "-")) {
        if (!digits(&s, 1, 2, &d.month))
            return false;
        if (skip(&s, "-") && !digits(&s, 1, 2, &d.day))
            return false;
    }
    if (skip(&s, "tT ") && !read_time(&s, &d))
        return false;
    if (!read_zone(&s, &shift) || s.len)
        return false;
    if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_in_month(d.year, d.month) ||
        d.hour > 23 || d.minute > 59 || d.second > 59)
        return false;
    *ms = date_ms(&d) - shift;
    return *ms >= DATE_MIN && *ms <= DATE_MAX;
}

static bool read_date(struct fn_call *call, int i, int64_t *ms)
{
    struct val v = fn_arg(call, i);
    bool is_ok = false;

    if (val_type(v) == VAL_NUMBER) {
        *ms = val_int(v);
        is_ok = *ms >= DATE_MIN && *ms <= DATE_MAX;
    } else if (val_type(v) == VAL_STRING) {
        is_ok = parse_date(val_string(v), ms);
    }
    if (!is_ok) {
        fn_warn(call, 1572, "invalid date value");
        call->result = val_null;
    }
    return is_ok;
}

static enum errc return_date(struct fn_call *call, int64_t ms)
{
    char text[48];
    struct date d = date_of(ms);

    if (ms < DATE_MIN || ms > DATE_MAX) {
        fn_warn(call, 1572, "invalid date value");
        return fn_return(call, val_null);
    }
    snprintf(text, sizeof text, "%s%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", d.year < 0 ? "-" : "",
             (long long)(d.year < 0 ? -d.year : d.year), d.month, d.day, d.hour, d.minute, d.second,
             d.ms);
    return fn_return_text(call, slice_str(text));
}

/* A date, or its parts as arguments. */
static bool read_date_or_parts(struct fn_call *call, int64_t *ms)
{
    struct date d = { .month = 1, .day = 1 };

    if (call->count == 1)
        return read_date(call, 0, ms);
    int64_t p[7] = { 0, 1, 1 };
    for (int i = 0; i < call->count && i < 7; i++)
        p[i] = fn_int_arg(call, i);
    bool is_ok = p[0] >= -9999 && p[0] <= 9999 && p[1] >= 1 && p[1] <= 12 && p[2] >= 1 &&
                 p[2] <= 31 && p[3] >= 0 && p[3] <= 23 && p[4] >= 0 && p[4] <= 59 && p[5] >= 0 &&
                 p[5] <= 59 && p[6] >= 0 && p[6] <= 999;
    if (!is_ok) {
        fn_warn(call, 1572, "invalid date value");
        call->result = val_null;
        return false;
    }
    d = (struct date){ p[0], (int)p[1], (int)p[2], (int)p[3], (int)p[4], (int)p[5], (int)p[6] };
    *ms = date_ms(&d);
    return true;
}

/* ---- functions ---- */

static enum errc fn_date_now(struct fn_call *call)
{
    return fn_return_int(call, (int64_t)(call->now_us / 1000));
}

static enum errc fn_date_iso8601(struct fn_call *call)
{
    int64_t ms;

    return read_date_or_parts(call, &ms) ? return_date(call, ms) : OK;
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
                          fn_is(call, 0, VAL_STRING) && parse_date(val_string(call->args[0]), &ms));
}

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
    PART_QUARTER
};

static enum errc date_part(struct fn_call *call, enum date_part part)
{
    int64_t ms;

    if (!read_date(call, 0, &ms))
        return OK;
    struct date d = date_of(ms);
    int64_t days = floor_div(ms, DAY_MS);
    const int64_t parts[] = { d.year,
                              d.month,
                              d.day,
                              d.hour,
                              d.minute,
                              d.second,
                              d.ms,
                              ((days + 4) % 7 + 7) % 7,
                              days - days_of(d.year, 1, 1) + 1,
                              (d.month + 2) / 3 };
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

/* ---- arithmetic ---- */

struct unit {
    const char *names[4];
    double ms;  /* of one, on average */
    int months; /* of one; 0 = a fixed length */
};

static const struct unit units[] = {
    { { "y", "year", "years" }, 31556952000.0, 12 },
    { { "m", "month", "months" }, 2629746000.0, 1 },
    { { "w", "week", "weeks" }, 604800000.0, 0 },
    { { "d", "day", "days" }, 86400000.0, 0 },
    { { "h", "hour", "hours" }, 3600000.0, 0 },
    { { "i", "minute", "minutes" }, 60000.0, 0 },
    { { "s", "second", "seconds" }, 1000.0, 0 },
    { { "f", "millisecond", "milliseconds" }, 1.0, 0 },
};

static const struct unit *find_unit(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        for (size_t k = 0; k < 3; k++)
            if (slice_is(name, units[i].names[k]))
                return &units[i];
    return NULL;
}

static int64_t add_months(int64_t ms, int64_t months)
{
    struct date d = date_of(ms);
    int64_t all = d.year * 12 + d.month - 1 + months;

    d.year = floor_div(all, 12);
    d.month = (int)(all - d.year * 12) + 1;
    return date_ms(&d); /* the 31st of a short month runs over, as in ArangoDB */
}

/* "P1Y2M3W4DT5H6M7.8S" applied with a sign. */
static bool add_duration(struct slice s, int sign, int64_t *ms)
{
    bool in_time = false, any = false;

    if (!skip(&s, "P"))
        return false;
    while (s.len) {
        if (skip(&s, "T")) {
            in_time = true;
            continue;
        }
        int whole;
        double n;
        if (!digits(&s, 1, 9, &whole))
            return false;
        n = whole;
        if (skip(&s, ".,")) {
            double scale = 0.1;
            for (; s.len && s.ptr[0] >= '0' && s.ptr[0] <= '9'; scale /= 10) {
                n += (s.ptr[0] - '0') * scale;
                s = slice_of(s.ptr + 1, s.len - 1);
            }
        }
        if (!s.len)
            return false;
        char c = s.ptr[0];
        s = slice_of(s.ptr + 1, s.len - 1);
        const char *unit = !in_time ? (c == 'Y'   ? "y"
                                       : c == 'M' ? "m"
                                       : c == 'W' ? "w"
                                       : c == 'D' ? "d"
                                                  : "")
                                    : (c == 'H'   ? "h"
                                       : c == 'M' ? "i"
                                       : c == 'S' ? "s"
                                                  : "");
        const struct unit *u = find_unit(slice_str(unit));
        if (!u)
            return false;
        *ms = u->months ? add_months(*ms, (int64_t)n * u->months * sign)
                        : *ms + (int64_t)(n * u->ms) * sign;
        any = true;
    }
    return any;
}

static enum errc shift_date(struct fn_call *call, int sign)
{
    int64_t ms;

    if (!read_date(call, 0, &ms))
        return OK;
    if (call->count == 2) {
        if (!add_duration(fn_text_arg(call, 1), sign, &ms))
            return fn_bad_arg(call, 1, "an ISO 8601 duration");
        return return_date(call, ms);
    }
    const struct unit *u = find_unit(fn_text_arg(call, 2));
    double amount = fn_number_arg(call, 1) * sign;
    if (!u || !fn_is(call, 1, VAL_NUMBER) || fabs(amount) > 1e15)
        return fn_bad_arg(call, u ? 1 : 2, u ? "a number" : "a unit such as \"days\"");
    if (u->months && fabs(amount) < 1e7)
        return return_date(call, add_months(ms, (int64_t)amount * u->months));
    double result = (double)ms + amount * u->ms;
    if (fabs(result) > 1e16)
        result = 1e16;
    return return_date(call, (int64_t)result);
}

static enum errc fn_date_add(struct fn_call *call)
{
    return shift_date(call, 1);
}

static enum errc fn_date_subtract(struct fn_call *call)
{
    return shift_date(call, -1);
}

static enum errc fn_date_diff(struct fn_call *call)
{
    int64_t a, b;

    if (!read_date(call, 0, &a) || !read_date(call, 1, &b))
        return OK;
    const struct unit *u = find_unit(fn_text_arg(call, 2));
    if (!u)
        return fn_bad_arg(call, 2, "a unit such as \"days\"");
    double n = (double)(b - a) / u->ms;
    return val_truth(fn_arg(call, 3)) ? fn_return_double(call, n)
                                      : fn_return_int(call, (int64_t)trunc(n));
}

const struct fn fn_date[] = {
    { "DATE_NOW", 0, 0, "", FN_STABLE, fn_date_now, "Milliseconds since 1970." },
    { "DATE_ISO8601", 1, 7, "", FN_PURE, fn_date_iso8601, "As an ISO 8601 text in UTC." },
    { "DATE_TIMESTAMP", 1, 7, "", FN_PURE, fn_date_timestamp, "As milliseconds since 1970." },
    { "IS_DATESTRING", 1, 1, "", FN_PURE, fn_is_datestring, "Is it a date text?" },
    { "DATE_YEAR", 1, 1, "", FN_PURE, fn_date_year, "Its year." },
    { "DATE_MONTH", 1, 1, "", FN_PURE, fn_date_month, "Its month, from 1." },
    { "DATE_DAY", 1, 1, "", FN_PURE, fn_date_day, "Its day of the month." },
    { "DATE_HOUR", 1, 1, "", FN_PURE, fn_date_hour, "Its hour." },
    { "DATE_MINUTE", 1, 1, "", FN_PURE, fn_date_minute, "Its minute." },
    { "DATE_SECOND", 1, 1, "", FN_PURE, fn_date_second, "Its second." },
    { "DATE_MILLISECOND", 1, 1, "", FN_PURE, fn_date_ms, "Its millisecond." },
    { "DATE_DAYOFWEEK", 1, 1, "", FN_PURE, fn_date_weekday, "Day of the week, Sunday is 0." },
    { "DATE_DAYOFYEAR", 1, 1, "", FN_PURE, fn_date_yearday, "Day of the year, from 1." },
    { "DATE_QUARTER", 1, 1, "", FN_PURE, fn_date_quarter, "Its quarter." },
    { "DATE_ADD", 2, 3, "", FN_PURE, fn_date_add, "A later date." },
    { "DATE_SUBTRACT", 2, 3, "", FN_PURE, fn_date_subtract, "An earlier date." },
    { "DATE_DIFF", 3, 4, "", FN_PURE, fn_date_diff, "Time between two dates in a unit." },
    { 0 },
};
