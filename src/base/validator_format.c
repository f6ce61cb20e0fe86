/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of JSON Schema's draft 4. Others are not looked at. */
#include <arpa/inet.h>
#include <ctype.h>

#include "base/validator_private.h"

enum { NAME_MAX_BYTES = 255, LABEL_MAX_BYTES = 63 };

enum validator_format validator_format_named(struct slice name)
{
    static const struct {
        const char *name;
        enum validator_format format;
    } rows[] = { { "date-time", FORMAT_DATE_TIME }, { "email", FORMAT_EMAIL },
                 { "hostname", FORMAT_HOSTNAME },   { "ipv4", FORMAT_IPV4 },
                 { "ipv6", FORMAT_IPV6 },           { "uri", FORMAT_URI } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (slice_is(name, rows[i].name))
            return rows[i].format;
    return FORMAT_NONE;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- date-time ---- */

/* Digits where the form has 0, anything else as it stands. */
static bool has_form(struct slice text, const char *form)
{
    for (size_t i = 0; form[i]; i++) {
        if (i == text.len)
            return false;
        bool is_digit = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        if (form[i] == '0' ? !is_digit : text.ptr[i] != form[i])
            return false;
    }
    return true;
}

static int two_digits(const char *at)
{
    return (at[0] - '0') * 10 + (at[1] - '0');
}

static bool is_date(struct slice text)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year = two_digits(text.ptr) * 100 + two_digits(text.ptr + 2);
    int month = two_digits(text.ptr + 5), day = two_digits(text.ptr + 8);
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (month < 1 || month > 12)
        return false;
    return day >= 1 && day <= days[month - 1] + (month == 2 && is_leap);
}

static bool is_clock(const char *at)
{
    return two_digits(at) < 24 && two_digits(at + 3) < 60;
}

/* 2026-11-30T12:00:00, a fraction if there is one, Z or an offset. */
static bool is_date_time(struct slice text)
{
    if (!has_form(text, "0000-00-00T00:00:00") || !is_date(text) || !is_clock(text.ptr + 11) ||
        two_digits(text.ptr + 17) > 59)
        return false;
    size_t at = 19;
    if (at < text.len && text.ptr[at] == '.') {
        size_t first = ++at;
        while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9')
            at++;
        if (at == first)
            return false;
    }
    struct slice zone = slice_of(text.ptr + at, text.len - at);
    if (slice_is(zone, "Z"))
        return true;
    return zone.len == 6 && (has_form(zone, "+00:00") || has_form(zone, "-00:00")) &&
           is_clock(zone.ptr + 1);
}

/* ---- names ---- */

/* Parts between dots, each of 1 to max characters that fit. */
static bool are_parts(struct slice text, size_t max, bool (*fits)(char c, bool is_first))
{
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '.') {
            if (!len)
                return false;
            len = 0;
        } else if (!fits(text.ptr[i], len == 0) || ++len > max) {
            return false;
        }
    }
    return len > 0;
}

static bool fits_host(char c, bool is_first)
{
    return is_alnum(c) || (c == '-' && !is_first);
}

static bool fits_mailbox(char c, bool is_first)
{
    (void)is_first;
    return is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

static bool is_hostname(struct slice text)
{
    return text.len <= NAME_MAX_BYTES && are_parts(text, LABEL_MAX_BYTES, fits_host);
}

static bool is_email(struct slice text)
{
    const char *at = text.len ? memchr(text.ptr, '@', text.len) : NULL;

    if (!at || text.len > NAME_MAX_BYTES)
        return false;
    size_t n = (size_t)(at - text.ptr);
    return are_parts(slice_of(text.ptr, n), NAME_MAX_BYTES, fits_mailbox) &&
           is_hostname(slice_of(at + 1, text.len - n - 1));
}

/* ---- addresses ---- */

static bool is_address(struct slice text, int family)
{
    char copy[INET6_ADDRSTRLEN + 1], bytes[16];

    if (text.len >= sizeof copy || memchr(text.len ? text.ptr : "", 0, text.len))
        return false;
    memcpy(copy, text.len ? text.ptr : "", text.len);
    copy[text.len] = 0;
    return inet_pton(family, copy, bytes) == 1;
}

/* What may stand in a URI: RFC 3986, without looking at the parts of a path. */
static bool is_uri_char(struct slice text, size_t i)
{
    char c = text.ptr[i];

    if (c == '%')
        return i + 2 < text.len && isxdigit((unsigned char)text.ptr[i + 1]) &&
               isxdigit((unsigned char)text.ptr[i + 2]);
    return is_alnum(c) || (c && strchr("-._~:/?@!$&'()*+,;=", c));
}

/* [::1] between // and the path. */
static bool skip_literal(struct slice text, size_t *i)
{
    const char *end = memchr(text.ptr + *i, ']', text.len - *i);

    if (!end)
        return false;
    size_t len = (size_t)(end - text.ptr) - *i - 1;
    bool is_good = is_address(slice_of(text.ptr + *i + 1, len), AF_INET6);
    *i += len + 1;
    return is_good;
}

static bool is_uri(struct slice text)
{
    size_t i = 0, start;
    bool has_fragment = false;

    while (i < text.len && text.ptr[i] && (is_alnum(text.ptr[i]) || strchr("+-.", text.ptr[i])))
        i++;
    if (!i || i == text.len || text.ptr[i] != ':' || !isalpha((unsigned char)text.ptr[0]))
        return false;
    start = i + 1;
    for (i = start; i < text.len; i++) {
        bool is_host = text.ptr[i] == '[' && i >= start + 2 && text.ptr[start] == '/' &&
                       text.ptr[start + 1] == '/' &&
                       !memchr(text.ptr + start + 2, '/', i - start - 2);
        if (text.ptr[i] == '#' && !has_fragment)
            has_fragment = true;
        else if (is_host ? !skip_literal(text, &i) : !is_uri_char(text, i))
            return false;
    }
    return true;
}

bool validator_format_holds(enum validator_format format, struct slice text)
{
    switch (format) {
    case FORMAT_NONE:
        return true;
    case FORMAT_DATE_TIME:
        return is_date_time(text);
    case FORMAT_EMAIL:
        return is_email(text);
    case FORMAT_HOSTNAME:
        return is_hostname(text);
    case FORMAT_IPV4:
        return is_address(text, AF_INET);
    case FORMAT_IPV6:
        return is_address(text, AF_INET6);
    case FORMAT_URI:
        return is_uri(text);
    }
    return false;
}
