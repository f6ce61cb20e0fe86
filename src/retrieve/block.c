/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines are grouped into blocks by looking at their first characters only.
 *
 *   # Title                     heading (also underlined by === or ---)
 *   2. TERM                     heading of plain text: alone between blank
 *                               lines, numbered or in capitals
 *   - item, 1. item             list item, until a blank line or the next item
 *   | a | b |, "a     b"        table row: one line
 *   ``` ... ```                 code: one block per line
 *   anything else               paragraph, until a blank line or one of these
 *
 * A line ends at LF, CR, CR LF or form feed; a form feed counts as a blank line.
 */
#include "retrieve/sentence.h"

enum { TEXT_HEADING_BYTES_MAX = 80, COLUMN_GAP = 3 };

/* One line: [from, to) without white space around it, next = start of the one after. */
struct line {
    size_t from, to, next;
    bool has_form_feed;
};

static bool is_blank_char(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\r' || c == '\n' || c == '\f' || c == '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool line_read(struct slice text, size_t at, struct line *out)
{
    size_t end = at;

    if (at >= text.len)
        return false;
    while (end < text.len && text.ptr[end] != '\n' && text.ptr[end] != '\r' &&
           text.ptr[end] != '\f')
        end++;
    out->next = end < text.len ? end + 1 : end;
    out->has_form_feed = end < text.len && text.ptr[end] == '\f';
    if (end + 1 < text.len && text.ptr[end] == '\r' && text.ptr[end + 1] == '\n')
        out->next++;
    while (at < end && is_blank_char(text.ptr[at]))
        at++;
    while (end > at && is_blank_char(text.ptr[end - 1]))
        end--;
    out->from = at;
    out->to = end;
    return true;
}

static bool line_is_blank(const struct line *line)
{
    return line->from == line->to;
}

static struct slice line_text(struct slice text, const struct line *line)
{
    return slice_of(text.ptr + line->from, line->to - line->from);
}

/* The line behind this one is blank or missing. */
static bool line_ends_group(struct slice text, const struct line *line)
{
    struct line next;
    return line->has_form_feed || !line_read(text, line->next, &next) || line_is_blank(&next);
}

/* Length of an opening or closing fence (3 or more of one character), or 0. */
static size_t fence_length(struct slice s, char *mark)
{
    size_t n = 0;

    if (s.len < 3 || (s.ptr[0] != '`' && s.ptr[0] != '~'))
        return 0;
    while (n < s.len && s.ptr[n] == s.ptr[0])
        n++;
    *mark = s.ptr[0];
    return n >= 3 ? n : 0;
}

static bool is_row(struct slice s, bool is_markdown)
{
    size_t run = 0;

    if (is_markdown)
        return s.ptr[0] == '|';
    for (size_t i = 0; i < s.len; i++) {
        run = s.ptr[i] == ' ' ? run + 1 : s.ptr[i] == '\t' ? run + COLUMN_GAP : 0;
        if (run >= COLUMN_GAP)
            return true;
    }
    return false;
}

/* "- ", "* ", "+ ", a bullet, "12. ", "3) ", "(a) ". *is_first: may interrupt a paragraph. */
static bool is_item(struct slice s, bool *is_first)
{
    size_t i = 0;

    *is_first = true;
    if (s.len > 1 && (s.ptr[0] == '-' || s.ptr[0] == '*' || s.ptr[0] == '+'))
        return s.ptr[1] == ' ' || s.ptr[1] == '\t';
    if (slice_starts(s, "\xe2\x80\xa2"))
        return true;
    if (s.len > 3 && s.ptr[0] == '(')
        i = 1;
    if (i < s.len && is_digit(s.ptr[i])) {
        size_t from = i;
        while (i < s.len && i - from < 3 && is_digit(s.ptr[i]))
            i++;
        *is_first = i - from == 1 && s.ptr[from] == '1';
    } else if (i < s.len && is_lower(s.ptr[i])) {
        *is_first = s.ptr[i] == 'a';
        i++;
        if (i < s.len && s.ptr[i] == '.')
            return false; /* "e.g. " */
    } else {
        return false;
    }
    return i + 1 < s.len && (s.ptr[i] == '.' || s.ptr[i] == ')') && s.ptr[i + 1] == ' ';
}

static unsigned hashes(struct slice s)
{
    unsigned n = 0;

    while (n < s.len && s.ptr[n] == '#')
        n++;
    return n >= 1 && n <= 6 && n < s.len && (s.ptr[n] == ' ' || s.ptr[n] == '\t') ? n : 0;
}

/* Level of a heading that is underlined by this line, or 0. */
static unsigned underline_level(struct slice s)
{
    if (s.len < 3 || (s.ptr[0] != '=' && s.ptr[0] != '-' && s.ptr[0] != '~'))
        return 0;
    for (size_t i = 1; i < s.len; i++)
        if (s.ptr[i] != s.ptr[0])
            return 0;
    return s.ptr[0] == '=' ? 1 : s.ptr[0] == '-' ? 2 : 3;
}

static bool is_mostly_capitals(struct slice s)
{
    size_t upper = 0, lower = 0;

    for (size_t i = 0; i < s.len; i++) {
        upper += is_upper(s.ptr[i]);
        lower += is_lower(s.ptr[i]);
    }
    return upper >= 3 && lower * 8 <= upper;
}

/* Depth of "1. X" = 1, "2.3 X" = 2; 0 when the line does not begin with a number and a capital. */
static unsigned number_depth(struct slice s)
{
    unsigned depth = 0;
    size_t i = 0;

    while (i < s.len && is_digit(s.ptr[i])) {
        while (i < s.len && is_digit(s.ptr[i]))
            i++;
        depth++;
        if (i < s.len && (s.ptr[i] == '.' || s.ptr[i] == ')'))
            i++;
        else
            break;
    }
    if (depth == 0 || i > 12 || i + 1 >= s.len || s.ptr[i] != ' ')
        return 0;
    while (i < s.len && s.ptr[i] == ' ')
        i++;
    return i < s.len && (is_upper(s.ptr[i]) || (unsigned char)s.ptr[i] >= 0x80) ? depth : 0;
}

static unsigned text_heading_level(struct slice text, const struct line *line, bool is_first)
{
    struct slice s = line_text(text, line);
    bool is_caps = s.len <= TEXT_HEADING_BYTES_MAX && is_mostly_capitals(s);
    unsigned depth;
    char last;

    if (is_first && is_caps)
        return 1;
    if (s.len > TEXT_HEADING_BYTES_MAX || !line_ends_group(text, line))
        return 0;
    last = s.ptr[s.len - 1];
    depth = number_depth(s);
    if (last == ';' || last == ',' || (last == '.' && !is_caps && (depth == 0 || s.len > 50)))
        return 0;
    return depth ? depth + 1 : is_caps ? 2 : 0;
}

static struct span trim(struct slice text, struct span s)
{
    while (s.from < s.to && is_blank_char(text.ptr[s.from]))
        s.from++;
    while (s.to > s.from && is_blank_char(text.ptr[s.to - 1]))
        s.to--;
    return s;
}

/* Recognises a heading at this line; *next moves behind it. */
static bool read_heading(const struct block_scan *scan, const struct line *line, bool has_gap,
                         struct block *out, size_t *next)
{
    struct slice text = scan->text, s = line_text(text, line);
    bool is_first = !scan->is_started, is_first_item;
    unsigned level = scan->is_markdown ? hashes(s) : 0;
    struct line under;

    out->kind = BLOCK_HEADING;
    out->at = out->title = (struct span){ line->from, line->to };
    *next = line->next;
    if (level > 0) {
        out->title.from += level;
        out->title = trim(text, out->title);
        while (out->title.to > out->title.from && text.ptr[out->title.to - 1] == '#')
            out->title.to--;
        out->title = trim(text, out->title);
    } else if ((has_gap || is_first) && s.len <= TEXT_HEADING_BYTES_MAX && !underline_level(s) &&
               !is_item(s, &is_first_item) && !is_row(s, scan->is_markdown) &&
               !line->has_form_feed && line_read(text, line->next, &under)) {
        level = underline_level(line_text(text, &under));
        if (level > 0) {
            out->at.to = under.to;
            *next = under.next;
        }
    }
    if (level == 0 && !scan->is_markdown && (has_gap || is_first))
        level = text_heading_level(text, line, is_first);
    out->level = level;
    return level > 0;
}

/* A line that cannot continue a paragraph or, in a list, an item. */
static bool starts_block(const struct block_scan *scan, struct slice s, bool in_item)
{
    bool is_first;
    char mark;

    if (is_row(s, scan->is_markdown))
        return true;
    if (is_item(s, &is_first))
        return in_item || is_first;
    return scan->is_markdown && (fence_length(s, &mark) > 0 || hashes(s) > 0);
}

/* Code: one block per line, the fences included. */
static bool read_code(struct block_scan *scan, struct slice s)
{
    char mark = 0;
    size_t n = scan->is_markdown ? fence_length(s, &mark) : 0;

    if (scan->fence) {
        if (n >= scan->fence_len && mark == scan->fence && n == s.len)
            scan->fence = 0;
        return true;
    }
    if (n == 0)
        return false;
    scan->fence = mark;
    scan->fence_len = n;
    return true;
}

static void read_group(struct block_scan *scan, struct line line, struct block *out)
{
    bool in_item = out->kind == BLOCK_ITEM;

    while (!line.has_form_feed && line_read(scan->text, line.next, &line)) {
        if (line_is_blank(&line) || starts_block(scan, line_text(scan->text, &line), in_item))
            break;
        out->at.to = line.to;
        scan->at = line.next;
    }
}

void block_scan_init(struct block_scan *scan, struct slice text, bool is_markdown)
{
    *scan = (struct block_scan){ .text = text, .is_markdown = is_markdown };
    if (slice_starts(text, "\xef\xbb\xbf"))
        scan->at = 3; /* byte order mark */
}

bool block_next(struct block_scan *scan, struct block *out)
{
    struct line line;
    struct slice s;
    bool has_gap = false, is_first_item;
    size_t next;

    for (;;) {
        if (!line_read(scan->text, scan->at, &line))
            return false;
        if (!line_is_blank(&line))
            break;
        has_gap = true;
        scan->at = line.next;
    }
    if (scan->at > 0 && scan->text.ptr[scan->at - 1] == '\f')
        has_gap = true;

    s = line_text(scan->text, &line);
    if (!scan->fence && read_heading(scan, &line, has_gap, out, &next)) {
        scan->at = next;
    } else {
        *out = (struct block){ .kind = BLOCK_TEXT, .at = { line.from, line.to } };
        scan->at = line.next;
        if (read_code(scan, s)) {
            out->kind = BLOCK_CODE;
        } else if (is_row(s, scan->is_markdown)) {
            out->kind = BLOCK_ROW;
        } else {
            out->kind = is_item(s, &is_first_item) ? BLOCK_ITEM : BLOCK_TEXT;
            read_group(scan, line, out);
        }
    }
    out->has_gap = has_gap;
    scan->is_started = true;
    return true;
}
