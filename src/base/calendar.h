/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calendar -- milliseconds since 1970 to parts of a date and back, and ISO 8601
 * texts. The proleptic Gregorian calendar, without leap seconds.
 */
#ifndef BASE_CALENDAR_H
#define BASE_CALENDAR_H

#include "base/base.h"

#define DAY_MS INT64_C(86400000)
/* Years -9999 to 9999. */
#define DATE_MIN (-INT64_C(377705116800000))
#define DATE_MAX INT64_C(253402300799999)

struct date {
    int64_t year;
    int month, day, hour, minute, second, ms;
};

struct date date_of(int64_t ms);
int64_t date_ms(const struct date *d);
int64_t date_days(int64_t ms); /* whole days since 1970 */
int date_weekday(int64_t ms);  /* Sunday is 0 */
int date_yearday(int64_t ms);  /* from 1 */
bool date_is_leap(int64_t year);
int date_days_in_month(int64_t year, int month);

/* Week by ISO 8601, and the year that it belongs to. */
struct week {
    int64_t year;
    int week;
};
struct week date_week(int64_t ms);

/* Years are shifted too: months may be any number. The 31st of a short month runs over. */
int64_t date_add_months(int64_t ms, int64_t months);

/* "2020-01-31T12:00:00.000Z" and its shorter forms; false when it is none. */
bool date_parse(struct slice text, int64_t *ms);

/* "2020-01-31T12:00:00.000", with Z when it is UTC. */
enum { DATE_TEXT_BYTES = 48 };
void date_print(int64_t ms, bool is_utc, char out[DATE_TEXT_BYTES]);

/* Units of time, in order of length; a week is between month and day. */
enum date_unit {
    UNIT_YEAR,
    UNIT_MONTH,
    UNIT_WEEK,
    UNIT_DAY,
    UNIT_HOUR,
    UNIT_MINUTE,
    UNIT_SECOND,
    UNIT_MS
};

/* "y", "year", "years" and so on, in any case. */
bool date_unit_find(struct slice name, enum date_unit *out);
double date_unit_ms(enum date_unit unit); /* of a year and a month: on average */

/* "P1Y2M3W4DT5H6M7.8S" added (sign 1) or taken away (-1); false when it is none. */
bool date_add_duration(struct slice text, int sign, int64_t *ms);

#endif
