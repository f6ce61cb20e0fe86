/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in: yyjson's tree is walked with a stack of our own, never by recursion,
 * into a builder. Text out: the value is walked the same way.
 */
#include "base/val_text.h"
#include <yyjson.h>

/* ---- in ---- */

struct level {
    yyjson_val *next; /* member to take: a name in an object */
    size_t left;
    bool is_object;
};

static void put_number(struct val_builder *b, yyjson_val *v)
{
    if (yyjson_is_sint(v))
        val_put_int(b, yyjson_get_sint(v));
    else if (yyjson_is_uint(v) && yyjson_get_uint(v) <= INT64_MAX)
        val_put_int(b, (int64_t)yyjson_get_uint(v));
    else if (yyjson_is_uint(v))
        val_put_double(b, (double)yyjson_get_uint(v));
    else
        val_put_double(b, yyjson_get_real(v));
}

static void put_scalar(struct val_builder *b, yyjson_val *v)
{
    if (yyjson_is_str(v))
        val_put_string(b, slice_of(yyjson_get_str(v), yyjson_get_len(v)));
    else if (yyjson_is_num(v))
        put_number(b, v);
    else if (yyjson_is_bool(v))
        val_put_bool(b, yyjson_get_bool(v));
    else
        val_put_null(b);
}

static struct level open_level(struct val_builder *b, yyjson_val *v)
{
    bool is_object = yyjson_is_obj(v);

    if (is_object)
        val_open_object(b);
    else
        val_open_array(b);
    size_t count = unsafe_yyjson_get_len(v);
    return (struct level){ count ? unsafe_yyjson_get_first(v) : NULL, count, is_object };
}

static enum errc convert(struct val_builder *b, yyjson_val *root, struct error *err)
{
    struct level stack[LIMIT_NESTING];
    size_t depth = 0;

    if (!yyjson_is_ctn(root)) {
        put_scalar(b, root);
        return OK;
    }
    stack[depth++] = open_level(b, root);
    while (depth) {
        struct level *top = &stack[depth - 1];
        if (!top->left) {
            val_close(b);
            depth--;
            continue;
        }
        yyjson_val *v = top->next;
        top->left--;
        if (top->is_object) {
            val_put_name(b, slice_of(yyjson_get_str(v), yyjson_get_len(v)));
            v++; /* the value follows its name */
        }
        top->next = unsafe_yyjson_get_next(v);
        if (!yyjson_is_ctn(v)) {
            put_scalar(b, v);
        } else if (depth == LIMIT_NESTING) {
            return fail_num(err, 600, "nesting deeper than %d levels", LIMIT_NESTING);
        } else {
            stack[depth++] = open_level(b, v);
        }
    }
    return OK;
}

static enum errc bad_text(struct slice text, const yyjson_read_err *why, struct error *err)
{
    size_t line = 1, start = 0, pos = why->pos < text.len ? why->pos : text.len;

    if (why->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return fail_num(err, 32, "no memory to read JSON of %zu bytes", text.len);
    for (size_t i = 0; i < pos; i++) {
        if (text.ptr[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return fail_num(err, 600, "invalid JSON: %s at byte %zu (line %zu, column %zu)",
                    why->msg ? why->msg : "cannot be read", pos, line, pos - start + 1);
}

enum errc val_parse(struct slice text, struct arena *arena, struct val *out, struct error *err)
{
    yyjson_read_err why;
    struct val_builder *b;

    if (!text.len)
        return fail_num(err, 600, "invalid JSON: the text is empty");
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)text.ptr, text.len, YYJSON_READ_NOFLAG, NULL, &why);
    if (!doc)
        return bad_text(text, &why, err);
    b = val_builder_new(0);
    enum errc rc = convert(b, yyjson_doc_get_root(doc), err);
    yyjson_doc_free(doc);
    if (rc == OK)
        rc = val_finish_in(b, arena, out, err);
    val_builder_free(b);
    return rc;
}

/* ---- out ---- */

static void print_int(int64_t i, struct buf *out)
{
    char text[24];
    size_t n = sizeof text;
    uint64_t v = i < 0 ? -(uint64_t)i : (uint64_t)i;

    do
        text[--n] = (char)('0' + v % 10);
    while (v /= 10);
    if (i < 0)
        text[--n] = '-';
    buf_add(out, text + n, sizeof text - n);
}

/*
 * The shortest text that reads back equal. Whole numbers are printed as such:
 * within int64 exactly, since that is how they are read; above, the reader
 * rounds to double as it does for every long integer.
 */
static void print_double(double d, struct buf *out)
{
    char room[1024];
    yyjson_alc alc;
    yyjson_val v = { 0 };
    size_t len;

    if (d >= -0x1p63 && d < 0x1p63 && d == (double)(int64_t)d) {
        print_int((int64_t)d, out);
        return;
    }
    unsafe_yyjson_set_real(&v, d);
    yyjson_alc_pool_init(&alc, room, sizeof room);
    const char *text = yyjson_val_write_opts(&v, YYJSON_WRITE_NOFLAG, &alc, &len, NULL);
    if (!text)
        BUG("a number that cannot be written");
    if (len > 2 && text[len - 2] == '.' && text[len - 1] == '0')
        len -= 2;
    buf_add(out, text, len);
}

static void print_escape(uint8_t c, struct buf *out)
{
    switch (c) {
    case '"':
        buf_add_str(out, "\\\"");
        break;
    case '\\':
        buf_add_str(out, "\\\\");
        break;
    case '\n':
        buf_add_str(out, "\\n");
        break;
    case '\r':
        buf_add_str(out, "\\r");
        break;
    case '\t':
        buf_add_str(out, "\\t");
        break;
    case '\b':
        buf_add_str(out, "\\b");
        break;
    case '\f':
        buf_add_str(out, "\\f");
        break;
    default:
        buf_printf(out, "\\u%04x", c);
    }
}

#define EACH_BYTE 0x0101010101010101u

/* Some byte may need an escape: below 20, a quote or a backslash. Borrows may give false alarms. */
static bool may_escape(uint64_t eight)
{
    uint64_t quote = eight ^ EACH_BYTE * '"', backslash = eight ^ EACH_BYTE * '\\';
    uint64_t found = ((eight - EACH_BYTE * 0x20) & ~eight) | ((quote - EACH_BYTE) & ~quote) |
                     ((backslash - EACH_BYTE) & ~backslash);

    return found & EACH_BYTE * 0x80;
}

/* Bytes at the start of text that are printed as they are. */
static size_t plain_run(struct slice text)
{
    size_t i = 0;
    uint64_t eight;

    for (; i + sizeof eight <= text.len; i += sizeof eight) {
        memcpy(&eight, text.ptr + i, sizeof eight);
        if (may_escape(eight))
            break;
    }
    for (; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
    }
    return i;
}

void val_print_string(struct slice text, struct buf *out)
{
    buf_add_char(out, '"');
    while (text.len) {
        size_t n = plain_run(text);
        buf_add(out, text.ptr, n);
        text = slice_of(text.ptr + n, text.len - n);
        if (!text.len)
            break;
        print_escape((uint8_t)*text.ptr, out);
        text = slice_of(text.ptr + 1, text.len - 1);
    }
    buf_add_char(out, '"');
}

static void print_scalar(struct val v, struct buf *out)
{
    switch (val_type(v)) {
    case VAL_NULL:
        buf_add_str(out, "null");
        break;
    case VAL_BOOL:
        buf_add_str(out, val_bool(v) ? "true" : "false");
        break;
    case VAL_NUMBER:
        if (val_is_int(v))
            print_int(val_int(v), out);
        else
            print_double(val_double(v), out);
        break;
    case VAL_STRING:
        val_print_string(val_string(v), out);
        break;
    case VAL_ARRAY:
        buf_add_str(out, "[]");
        break;
    case VAL_OBJECT:
        buf_add_str(out, "{}");
        break;
    }
}

struct print_level {
    struct val v;
    size_t next, count;
    bool is_object;
};

static void new_line(struct buf *out, bool is_pretty, size_t depth)
{
    if (!is_pretty)
        return;
    buf_add_char(out, '\n');
    for (size_t i = 0; i < depth; i++)
        buf_add(out, "  ", 2);
}

/* Levels that are open; a query may nest values deeper than any stored one. */
struct print_stack {
    struct print_level few[32], *levels;
    size_t depth, cap;
};

static void push_level(struct print_stack *s, struct val v, size_t count, bool is_object)
{
    if (s->depth == s->cap) {
        bool is_first = s->levels == s->few;
        s->cap *= 4;
        s->levels = mem_realloc(is_first ? NULL : s->levels, s->cap * sizeof *s->levels);
        if (is_first)
            memcpy(s->levels, s->few, sizeof s->few);
    }
    s->levels[s->depth++] = (struct print_level){ v, 0, count, is_object };
}

/* Prints a scalar, or opens what has members. */
static void print_value(struct print_stack *s, struct val v, struct buf *out)
{
    size_t count = val_count(v);
    bool is_object = val_type(v) == VAL_OBJECT;

    if (!count) {
        print_scalar(v, out);
        return;
    }
    buf_add_char(out, is_object ? '{' : '[');
    push_level(s, v, count, is_object);
}

static void close_levels(struct print_stack *s, struct buf *out, bool is_pretty)
{
    while (s->depth && s->levels[s->depth - 1].next == s->levels[s->depth - 1].count) {
        s->depth--;
        new_line(out, is_pretty, s->depth);
        buf_add_char(out, s->levels[s->depth].is_object ? '}' : ']');
    }
}

static void print(struct val root, struct buf *out, bool is_pretty)
{
    struct print_stack s;

    s.levels = s.few;
    s.depth = 0;
    s.cap = ARRAY_LEN(s.few);
    print_value(&s, root, out);
    close_levels(&s, out, is_pretty);
    while (s.depth && !out->is_overfull) {
        struct print_level *top = &s.levels[s.depth - 1];
        if (top->next)
            buf_add_char(out, ',');
        new_line(out, is_pretty, s.depth);
        if (top->is_object) {
            val_print_string(val_name_at(top->v, top->next), out);
            buf_add(out, ": ", is_pretty ? 2 : 1);
        }
        print_value(&s, val_at(top->v, top->next++), out);
        close_levels(&s, out, is_pretty);
    }
    if (s.levels != s.few)
        mem_free(s.levels);
}

void val_print(struct val v, struct buf *out)
{
    print(v, out, false);
}

void val_print_pretty(struct val v, struct buf *out)
{
    print(v, out, true);
}

/* ---- UTF-8 ---- */

/* Bytes of the character at p, 0 when it is not well formed (RFC 3629). */
static size_t utf8_len(const uint8_t *p, size_t left)
{
    uint8_t c = p[0];
    size_t n = c < 0x80                ? 1
               : c >= 0xC2 && c < 0xE0 ? 2
               : (c & 0xF0) == 0xE0    ? 3
               : c >= 0xF0 && c < 0xF5 ? 4
                                       : 0;

    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) ||
        (c == 0xF4 && p[1] > 0x8F))
        return 0;
    return n;
}

bool utf8_check(struct slice text, size_t *at)
{
    const uint8_t *p = (const uint8_t *)text.ptr;
    size_t i = 0;

    while (i < text.len) {
        uint64_t eight;
        if (text.len - i >= sizeof eight) {
            memcpy(&eight, p + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        size_t n = utf8_len(p + i, text.len - i);
        if (!n)
            break;
        i += n;
    }
    if (at)
        *at = i;
    return i == text.len;
}

size_t utf8_count(struct slice text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return n;
}
