/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones, and dates as text by a pattern. */
#include "base/zone.h"
#include "query/fn_date_arg.h"
#include <stdio.h>
#include <strings.h>

enum { FORMAT_MAX = 64 * KIB };

static struct val date_text(struct fn_call *call, int64_t ms, bool is_utc)
{
    char text[DATE_TEXT_BYTES];

    date_print(ms, is_utc, text);
    return val_new_string(call->arena, slice_str(text));
}

static struct val rule_object(struct fn_call *call, const struct zone_rule *rule)
{
    struct slice names[] = { slice_str("name"), slice_str("begin"), slice_str("end"),
                             slice_str("dst"), slice_str("offset") };
    struct val values[] = { val_new_string(call->arena, slice_str(rule->name)),
                            rule->has_begin ? date_text(call, rule->begin_ms, true) : val_null,
                            rule->has_end ? date_text(call, rule->end_ms, true) : val_null,
                            val_new_bool(rule->is_dst),
                            val_new_int(call->arena, rule->offset_ms / 1000) };

    return val_new_object(call->arena, names, values, ARRAY_LEN(names));
}

static enum errc convert(struct fn_call *call, bool to_utc)
{
    struct zone *zone;
    struct zone_rule rule;
    int64_t ms;
    enum errc rc;

    if (!fn_date_arg(call, 0, &ms))
        return OK;
    if (!fn_is(call, 1, VAL_STRING))
        return fn_bad_arg(call, 1, "the name of a time zone");
    if (call->count > 2 && !fn_is(call, 2, VAL_BOOL))
        return fn_bad_arg(call, 2, "a boolean");
    rc = zone_open(&zone, val_string(call->args[1]), call->err);
    if (rc != OK)
        return rc;
    int64_t result = to_utc ? zone_to_utc(zone, ms) : zone_to_local(zone, ms);
    zone_at(zone, to_utc ? result : ms, &rule);
    zone_close(zone);
    struct val text = date_text(call, result, to_utc);
    if (!val_truth(fn_arg(call, 2)))
        return fn_return(call, text);
    struct slice names[] = { slice_str(to_utc ? "utc" : "local"), slice_str("tzdb"),
                             slice_str("zoneInfo") };
    struct val values[] = { text, val_new_string(call->arena, slice_str(zone_version())),
                            rule_object(call, &rule) };
    return fn_return(call, val_new_object(call->arena, names, values, ARRAY_LEN(names)));
}

static enum errc fn_utc_to_local(struct fn_call *call)
{
    return convert(call, false);
}

static enum errc fn_local_to_utc(struct fn_call *call)
{
    return convert(call, true);
}

static enum errc fn_date_zone_name(struct fn_call *call)
{
    char name[64];

    zone_system(name, sizeof name);
    return fn_return_text(call, slice_str(name));
}

static void add_name(void *ctx, struct slice name)
{
    val_put_string(ctx, name);
}

static enum errc fn_date_zones(struct fn_call *call)
{
    struct val_builder *b = val_builder_new(0);

    val_open_array(b);
    zone_each(add_name, b);
    val_close(b);
    enum errc rc = val_finish_in(b, call->arena, &call->result, call->err);
    val_builder_free(b);
    return rc;
}

/* ---- DATE_FORMAT ---- */

/* Longest first among those that begin alike. */
enum mark {
    MARK_YEAR_SIGNED,
    MARK_MONTH_NAME,
    MARK_DAY_NAME,
    MARK_YEAR_FOUR,
    MARK_MONTH_SHORT,
    MARK_DAY_SHORT,
    MARK_MS_PADDED,
    MARK_YEARDAY_PADDED,
    MARK_YEAR_TWO,
    MARK_MONTH_PADDED,
    MARK_DAY_PADDED,
    MARK_HOUR_PADDED,
    MARK_MINUTE_PADDED,
    MARK_SECOND_PADDED,
    MARK_WEEK_PADDED,
    MARK_TIMESTAMP,
    MARK_ISO,
    MARK_WEEKDAY,
    MARK_YEAR,
    MARK_MONTH,
    MARK_DAY,
    MARK_HOUR,
    MARK_MINUTE,
    MARK_SECOND,
    MARK_MS,
    MARK_YEARDAY,
    MARK_WEEK,
    MARK_LEAP,
    MARK_QUARTER,
    MARK_MONTH_DAYS,
    MARK_NOTHING,
    MARK_PERCENT,
    MARK_COUNT
};

static const char *const marks[MARK_COUNT] = {
    [MARK_YEAR_SIGNED] = "yyyyyy",
    [MARK_MONTH_NAME] = "mmmm",
    [MARK_DAY_NAME] = "wwww",
    [MARK_YEAR_FOUR] = "yyyy",
    [MARK_MONTH_SHORT] = "mmm",
    [MARK_DAY_SHORT] = "www",
    [MARK_MS_PADDED] = "fff",
    [MARK_YEARDAY_PADDED] = "xxx",
    [MARK_YEAR_TWO] = "yy",
    [MARK_MONTH_PADDED] = "mm",
    [MARK_DAY_PADDED] = "dd",
    [MARK_HOUR_PADDED] = "hh",
    [MARK_MINUTE_PADDED] = "ii",
    [MARK_SECOND_PADDED] = "ss",
    [MARK_WEEK_PADDED] = "kk",
    [MARK_TIMESTAMP] = "t",
    [MARK_ISO] = "z",
    [MARK_WEEKDAY] = "w",
    [MARK_YEAR] = "y",
    [MARK_MONTH] = "m",
    [MARK_DAY] = "d",
    [MARK_HOUR] = "h",
    [MARK_MINUTE] = "i",
    [MARK_SECOND] = "s",
    [MARK_MS] = "f",
    [MARK_YEARDAY] = "x",
    [MARK_WEEK] = "k",
    [MARK_LEAP] = "l",
    [MARK_QUARTER] = "q",
    [MARK_MONTH_DAYS] = "a",
    [MARK_NOTHING] = "&",
    [MARK_PERCENT] = "%",
};

static void add_year_signed(struct buf *out, int64_t year)
{
    buf_printf(out, "%c%06lld", year < 0 ? '-' : '+', (long long)(year < 0 ? -year : year));
}

static void add_mark(struct buf *out, enum mark mark, int64_t ms)
{
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    struct date d = date_of(ms);
    char text[DATE_TEXT_BYTES];

    switch (mark) {
    case MARK_YEAR_SIGNED:
        add_year_signed(out, d.year);
        break;
    case MARK_YEAR_FOUR:
        if (d.year < 0 || d.year > 9999)
            add_year_signed(out, d.year);
        else
            buf_printf(out, "%04d", (int)d.year);
        break;
    case MARK_YEAR_TWO:
        buf_printf(out, "%s%02d", d.year < 0 ? "-" : "",
                   (int)(d.year < 0 ? -d.year : d.year) % 100);
        break;
    case MARK_MONTH_NAME:
        buf_add_str(out, months[d.month - 1]);
        break;
    case MARK_MONTH_SHORT:
        buf_printf(out, "%.3s", months[d.month - 1]);
        break;
    case MARK_DAY_NAME:
        buf_add_str(out, days[date_weekday(ms)]);
        break;
    case MARK_DAY_SHORT:
        buf_printf(out, "%.3s", days[date_weekday(ms)]);
        break;
    case MARK_ISO:
        date_print(ms, true, text);
        buf_add_str(out, text);
        break;
    case MARK_TIMESTAMP:
        buf_printf(out, "%lld", (long long)ms);
        break;
    case MARK_YEAR:
        buf_printf(out, "%lld", (long long)d.year);
        break;
    case MARK_MONTH_PADDED:
    case MARK_MONTH:
        buf_printf(out, "%0*d", mark == MARK_MONTH ? 1 : 2, d.month);
        break;
    case MARK_DAY_PADDED:
    case MARK_DAY:
        buf_printf(out, "%0*d", mark == MARK_DAY ? 1 : 2, d.day);
        break;
    case MARK_HOUR_PADDED:
    case MARK_HOUR:
        buf_printf(out, "%0*d", mark == MARK_HOUR ? 1 : 2, d.hour);
        break;
    case MARK_MINUTE_PADDED:
    case MARK_MINUTE:
        buf_printf(out, "%0*d", mark == MARK_MINUTE ? 1 : 2, d.minute);
        break;
    case MARK_SECOND_PADDED:
    case MARK_SECOND:
        buf_printf(out, "%0*d", mark == MARK_SECOND ? 1 : 2, d.second);
        break;
    case MARK_MS_PADDED:
    case MARK_MS:
        buf_printf(out, "%0*d", mark == MARK_MS ? 1 : 3, d.ms);
        break;
    case MARK_YEARDAY_PADDED:
    case MARK_YEARDAY:
        buf_printf(out, "%0*d", mark == MARK_YEARDAY ? 1 : 3, date_yearday(ms));
        break;
    case MARK_WEEK_PADDED:
    case MARK_WEEK:
        buf_printf(out, "%0*d", mark == MARK_WEEK ? 1 : 2, date_week(ms).week);
        break;
    case MARK_WEEKDAY:
        buf_printf(out, "%d", date_weekday(ms));
        break;
    case MARK_LEAP:
        buf_add_char(out, date_is_leap(d.year) ? '1' : '0');
        break;
    case MARK_QUARTER:
        buf_printf(out, "%d", (d.month + 2) / 3);
        break;
    case MARK_MONTH_DAYS:
        buf_printf(out, "%d", date_days_in_month(d.year, d.month));
        break;
    case MARK_PERCENT:
        buf_add_char(out, '%');
        break;
    case MARK_NOTHING:
    case MARK_COUNT:
        break;
    }
}

/* The mark that begins here, in any case; MARK_COUNT when none does. */
static enum mark find_mark(struct slice s)
{
    for (int i = 0; i < MARK_COUNT; i++) {
        size_t n = strlen(marks[i]);
        if (s.len >= n && !strncasecmp(s.ptr, marks[i], n))
            return (enum mark)i;
    }
    return MARK_COUNT;
}

static enum errc fn_date_format(struct fn_call *call)
{
    struct buf out;
    int64_t ms;
    bool is_date;
    enum errc rc = fn_local_date_arg(call, 0, 2, &ms, &is_date);

    if (rc != OK || !is_date)
        return rc;
    if (!fn_is(call, 1, VAL_STRING) || val_string(call->args[1]).len > FORMAT_MAX)
        return fn_bad_arg(call, 1, "a pattern of at most 64 KiB");
    struct slice s = val_string(call->args[1]);
    buf_init(&out, 0);
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] != '%') {
            buf_add_char(&out, s.ptr[i++]);
            continue;
        }
        enum mark mark = find_mark(slice_of(s.ptr + i + 1, s.len - i - 1));
        add_mark(&out, mark, ms);
        i += 1 + (mark < MARK_COUNT ? strlen(marks[mark]) : 0);
    }
    rc = fn_return_text(call, buf_slice(&out));
    buf_release(&out);
    return rc;
}

const struct fn fn_date_zone[] = {
    { "DATE_FORMAT", 2, 3, "", FN_PURE, fn_date_format, "As text by a pattern such as %yyyy-%mm." },
    { "DATE_UTCTOLOCAL", 2, 3, "", FN_PURE, fn_utc_to_local,
      "As local time of a zone; true adds what holds there then." },
    { "DATE_LOCALTOUTC", 2, 3, "", FN_PURE, fn_local_to_utc,
      "A local time in UTC; one that is skipped is the moment of the change." },
    { "DATE_TIMEZONE", 0, 0, "", FN_STABLE, fn_date_zone_name, "Zone of the machine." },
    { "DATE_TIMEZONES", 0, 0, "", FN_STABLE, fn_date_zones, "Names of the known zones." },
    { 0 },
};
