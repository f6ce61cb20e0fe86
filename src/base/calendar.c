/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Days are counted in eras of 400 years that begin on the first of March (Howard
 * Hinnant, "chrono-compatible low-level date algorithms"), so that the leap day
 * is the last of its year.
 */
#include "base/calendar.h"
#include <stdio.h>
#include <strings.h>

enum { MONTHS_MAX = 10000000 }; /* of one step: beyond all years, within an int64 of milliseconds */

static int64_t days_of(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

int64_t date_ms(const struct date *d)
{
    return days_of(d->year, d->month, d->day) * DAY_MS + d->hour * INT64_C(3600000) +
           d->minute * INT64_C(60000) + d->second * INT64_C(1000) + d->ms;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t date_days(int64_t ms)
{
    return floor_div(ms, DAY_MS);
}

struct date date_of(int64_t ms)
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

int date_weekday(int64_t ms)
{
    return (int)(((date_days(ms) + 4) % 7 + 7) % 7);
}

int date_yearday(int64_t ms)
{
    return (int)(date_days(ms) - days_of(date_of(ms).year, 1, 1) + 1);
}

bool date_is_leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

int date_days_in_month(int64_t y, int m)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

    return days[m - 1] + (m == 2 && date_is_leap(y));
}

struct week date_week(int64_t ms)
{
    /* A week belongs to the year of its Thursday. */
    int64_t thursday = ms + (3 - (date_weekday(ms) + 6) % 7) * DAY_MS;

    return (struct week){ date_of(thursday).year, (date_yearday(thursday) - 1) / 7 + 1 };
}

int64_t date_add_months(int64_t ms, int64_t months)
{
    struct date d = date_of(ms);

    months = months > MONTHS_MAX ? MONTHS_MAX : months < -MONTHS_MAX ? -MONTHS_MAX : months;
    int64_t all = d.year * 12 + d.month - 1 + months;

    d.year = floor_div(all, 12);
    d.month = (int)(all - d.year * 12) + 1;
    return date_ms(&d);
}

/* ---- text ---- */

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

bool date_parse(struct slice s, int64_t *ms)
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
    if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > date_days_in_month(d.year, d.month) ||
        d.hour > 23 || d.minute > 59 || d.second > 59)
        return false;
    *ms = date_ms(&d) - shift;
    return *ms >= DATE_MIN && *ms <= DATE_MAX;
}

void date_print(int64_t ms, bool is_utc, char out[DATE_TEXT_BYTES])
{
    struct date d = date_of(ms);

    snprintf(out, DATE_TEXT_BYTES, "%s%04lld-%02d-%02dT%02d:%02d:%02d.%03d%s",
             d.year < 0 ? "-" : "", (long long)(d.year < 0 ? -d.year : d.year), d.month, d.day,
             d.hour, d.minute, d.second, d.ms, is_utc ? "Z" : "");
}

/* ---- units ---- */

static const struct {
    const char *names[3];
    double ms;
} units[] = {
    [UNIT_YEAR] = { { "y", "year", "years" }, 31556952000.0 },
    [UNIT_MONTH] = { { "m", "month", "months" }, 2629746000.0 },
    [UNIT_WEEK] = { { "w", "week", "weeks" }, 604800000.0 },
    [UNIT_DAY] = { { "d", "day", "days" }, 86400000.0 },
    [UNIT_HOUR] = { { "h", "hour", "hours" }, 3600000.0 },
    [UNIT_MINUTE] = { { "i", "minute", "minutes" }, 60000.0 },
    [UNIT_SECOND] = { { "s", "second", "seconds" }, 1000.0 },
    [UNIT_MS] = { { "f", "millisecond", "milliseconds" }, 1.0 },
};

bool date_unit_find(struct slice name, enum date_unit *out)
{
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        for (size_t k = 0; k < ARRAY_LEN(units[i].names); k++) {
            const char *known = units[i].names[k];
            if (name.len == strlen(known) && !strncasecmp(name.ptr, known, name.len)) {
                *out = (enum date_unit)i;
                return true;
            }
        }
    }
    return false;
}

double date_unit_ms(enum date_unit unit)
{
    return units[unit].ms;
}

/* The letter of a duration, before or behind its T. */
static bool duration_unit(char c, bool in_time, enum date_unit *out)
{
    static const char before[] = "YMWD", behind[] = "HMS";
    const char *at = c ? strchr(in_time ? behind : before, c) : NULL;

    if (!at)
        return false;
    *out = in_time ? (enum date_unit)(UNIT_HOUR + (at - behind))
                   : (enum date_unit)(UNIT_YEAR + (at - before));
    return true;
}

/* A number with an optional fraction. */
static bool duration_number(struct slice *s, double *out)
{
    int whole;
    double scale = 0.1;

    if (!digits(s, 1, 9, &whole))
        return false;
    *out = whole;
    if (!skip(s, ".,"))
        return true;
    for (; s->len && s->ptr[0] >= '0' && s->ptr[0] <= '9'; scale /= 10) {
        *out += (s->ptr[0] - '0') * scale;
        *s = slice_of(s->ptr + 1, s->len - 1);
    }
    return true;
}

bool date_add_duration(struct slice s, int sign, int64_t *ms)
{
    bool in_time = false, any = false;
    enum date_unit unit;
    double n;

    if (!skip(&s, "P"))
        return false;
    while (s.len) {
        if (!in_time && skip(&s, "T")) {
            in_time = true;
            continue;
        }
        if (!duration_number(&s, &n) || !s.len || !duration_unit(s.ptr[0], in_time, &unit))
            return false;
        s = slice_of(s.ptr + 1, s.len - 1);
        if (unit <= UNIT_MONTH)
            *ms = date_add_months(*ms, (int64_t)n * (unit == UNIT_YEAR ? 12 : 1) * sign);
        else
            *ms += (int64_t)(n * units[unit].ms + 0.5) * sign;
        any = true;
        if (*ms < DATE_MIN * 2 || *ms > DATE_MAX * 2) /* many long parts stay in range */
            return true;
    }
    return any;
}
