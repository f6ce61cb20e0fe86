/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/statement.h"

/* What quotes the character at the beginning: a quote of one byte, or the two of a forward tick. */
static struct slice quote_at(struct slice text)
{
    if (slice_starts(text, "\xC2\xB4"))
        return slice_of(text.ptr, 2);
    return slice_of(text.ptr, memchr("\"'`", text.ptr[0], 3) ? 1 : 0);
}

/* Bytes to behind the closing mark; 0: it is missing. */
static size_t skip_quoted(struct slice text, struct slice quote)
{
    for (size_t i = quote.len; i < text.len; i++) {
        if (text.ptr[i] == '\\')
            i++;
        else if (text.len - i >= quote.len && !memcmp(text.ptr + i, quote.ptr, quote.len))
            return i + quote.len;
    }
    return 0;
}

static size_t skip_comment(struct slice text)
{
    const char *end = memmem(text.ptr + 2, text.len - 2, "*/", 2);

    return end ? (size_t)(end + 2 - text.ptr) : 0;
}

static size_t skip_line(struct slice text)
{
    const char *end = memchr(text.ptr, '\n', text.len);

    return end ? (size_t)(end - text.ptr) : text.len;
}

struct statement statement_first(struct slice text)
{
    struct statement s = { .state = STATEMENT_EMPTY };
    size_t skip;

    for (size_t i = 0; i < text.len; i += skip) {
        struct slice rest = slice_of(text.ptr + i, text.len - i), quote = quote_at(rest);
        bool is_blank = strchr(" \t\r\n", rest.ptr[0]) && rest.ptr[0];
        skip = 1;
        if (rest.ptr[0] == ';') {
            s.state = s.state == STATEMENT_EMPTY ? STATEMENT_EMPTY : STATEMENT_WHOLE;
            s.len = i;
            s.used = i + 1;
            return s;
        }
        if (slice_starts(rest, "//")) {
            skip = skip_line(rest);
            s.has_line_comment = true;
        } else if (slice_starts(rest, "/*")) {
            skip = skip_comment(rest);
        } else if (!is_blank) {
            skip = quote.len ? skip_quoted(rest, quote) : 1;
            s.state = STATEMENT_MORE;
        }
        if (!skip) {
            s.state = STATEMENT_OPEN;
            break;
        }
    }
    s.len = s.used = text.len;
    return s;
}
