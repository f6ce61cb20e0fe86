/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of AQL. The text ends in a zero byte, on which every rule stops; a zero
 * byte before the end is an illegal character. The text is known to be UTF-8, so
 * the rules work on bytes and never cut a character.
 */
#include "query/lex.h"
#include "query/ast.h"
#include "query/parse.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { REGION_BYTES = 32 }; /* of the text in a message, as ArangoDB shows it */

/* ---- messages ---- */

struct ast_position ast_position(struct slice text, uint32_t pos)
{
    struct ast_position at = { 1, 1 };
    size_t end = pos < text.len ? pos : text.len;
    for (size_t i = 0; i < end; i++) {
        bool is_line_end = text.ptr[i] == '\n';
        at.line += is_line_end;
        at.column = is_line_end ? 1 : at.column + 1;
    }
    return at;
}

enum errc lex_fail(struct error *err, int num, struct slice text, uint32_t pos, const char *fmt,
                   ...)
{
    char what[128], region[REGION_BYTES + 4];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);

    size_t rest = pos < text.len ? text.len - pos : 0;
    size_t len = rest > REGION_BYTES ? REGION_BYTES : rest;
    while (len > 0 && len < rest && (text.ptr[pos + len] & 0xc0) == 0x80)
        len--;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[pos + i];
        region[i] = c < ' ' || c == 0x7f ? ' ' : (char)c;
    }
    memcpy(region + len, "...", 4);
    if (len == rest)
        region[len] = 0;

    struct ast_position at = ast_position(text, pos);
    return fail_num(err, num, "%s near '%s' at position %u:%u", what, region, at.line, at.column);
}

/* ---- literals ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f')
        return (c | 32) - 'a' + 10;
    return -1;
}

/* Four hexadecimal digits, -1 when they are not. The text ends in zero, so nothing is overrun. */
static int hex4(const char *at)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* The code point behind \u at *at, which moves behind it; -1: bad digits or half a pair. */
static int32_t read_unicode(const char **at)
{
    int high = hex4(*at);
    if (high < 0 || (high >= 0xdc00 && high < 0xe000))
        return -1;
    *at += 4;
    if (high < 0xd800 || high >= 0xdc00)
        return high;
    int low = (*at)[0] == '\\' && (*at)[1] == 'u' ? hex4(*at + 2) : -1;
    if (low < 0xdc00 || low >= 0xe000)
        return -1;
    *at += 6;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* As in ArangoDB, a backslash before a character without a meaning is dropped. */
static char escaped(char c)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    return found ? to[found - from] : c;
}

/* What stands between the quotes, which are quote_len bytes each. */
static enum errc unescape(const struct lexer *lx, const struct token *t, uint32_t quote_len,
                          struct slice *out, struct error *err)
{
    const char *at = lx->text.ptr + t->pos + quote_len;
    const char *end = lx->text.ptr + t->pos + t->len - quote_len;
    size_t size = (size_t)(end - at);
    if (!memchr(at, '\\', size)) {
        *out = slice_of(at, size);
        return OK;
    }
    char *first = arena_alloc(lx->arena, size), *to = first;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        const char *escape = at;
        char c = at[1];
        at += 2;
        if (c != 'u') {
            *to++ = escaped(c);
            continue;
        }
        int32_t code = read_unicode(&at);
        if (code < 0)
            return lex_fail(err, 1501, lx->text, (uint32_t)(escape - lx->text.ptr),
                            "syntax error, bad \\u escape in a literal");
        to = put_utf8(to, (uint32_t)code);
    }
    *out = slice_of(first, (size_t)(to - first));
    return OK;
}

static enum errc string(const struct lexer *lx, struct token *t, struct error *err)
{
    struct slice text;
    enum errc rc = unescape(lx, t, 1, &text, err);
    t->kind = TK_STRING;
    if (rc == OK) {
        t->name = text;
        t->val = val_new_string(lx->arena, text);
    }
    return rc;
}

static enum errc quoted_name(const struct lexer *lx, struct token *t, uint32_t quote_len,
                             struct error *err)
{
    t->kind = TK_ID;
    if (t->len == 2 * quote_len)
        return lex_fail(err, 1501, lx->text, t->pos, "syntax error, empty name");
    return unescape(lx, t, quote_len, &t->name, err);
}

/* Integers beyond int64 become doubles. */
static enum errc integer(const struct lexer *lx, struct token *t, unsigned base)
{
    const char *at = lx->text.ptr + t->pos + (base == 10 ? 0 : 2);
    const char *end = lx->text.ptr + t->pos + t->len;
    int64_t v = 0;
    double d = 0;
    bool is_exact = true;
    for (; at < end; at++) {
        int digit = hex_digit(*at);
        is_exact = is_exact && !__builtin_mul_overflow(v, (int64_t)base, &v) &&
                   !__builtin_add_overflow(v, (int64_t)digit, &v);
        d = d * base + digit;
    }
    if (!is_exact && base == 10) /* the sum above was rounded at each digit */
        d = strtod(lx->text.ptr + t->pos, NULL);
    t->kind = TK_NUMBER;
    t->val = is_exact ? val_new_int(lx->arena, v) : val_new_double(lx->arena, d);
    return OK;
}

static enum errc decimal(const struct lexer *lx, struct token *t, struct error *err)
{
    double d = strtod(lx->text.ptr + t->pos, NULL);
    t->kind = TK_NUMBER;
    if (!isfinite(d))
        return lex_fail(err, 1504, lx->text, t->pos, "number out of range");
    t->val = val_new_double(lx->arena, d);
    return OK;
}

/* ---- the scanner ---- */

static enum errc unterminated(const struct lexer *lx, const struct token *t, const char *what,
                              struct error *err)
{
    return lex_fail(err, 1501, lx->text, t->pos, "syntax error, unterminated %s", what);
}

enum errc lex_next(struct lexer *lx, struct token *t, struct error *err)
{
    const unsigned char *text = (const unsigned char *)lx->text.ptr;
    const unsigned char *YYCURSOR = text + lx->pos;
    const unsigned char *YYMARKER;
    const unsigned char *start;
    const struct token empty = { 0 };

/* Ends the token; name_skip leading bytes are no part of its name. */
#define SCANNED(name_skip)                                                                         \
    t->pos = (uint32_t)(start - text), t->len = (uint32_t)(YYCURSOR - start),                      \
    lx->pos = t->pos + t->len, t->name = slice_of(start + (name_skip), t->len - (name_skip))
#define TOKEN(k) return SCANNED(0), t->kind = (k), OK

    *t = empty;
again:
    start = YYCURSOR;
    /*!re2c
    re2c:define:YYCTYPE = "unsigned char";
    re2c:yyfill:enable = 0;

    digits  = [0-9]+;
    int     = "0" | [1-9][0-9]*;
    exp     = [eE][+-]? digits;
    word    = "$"? "_"* [a-zA-Z][a-zA-Z0-9_]*;
    bind    = "_"* [a-zA-Z0-9][a-zA-Z0-9_]*;
    tick    = "\xc2\xb4";

    [ \t\r\n]+                                       { goto again; }
    "//" [^\n\x00]*                                  { goto again; }
    "/*" ([^*\x00] | "*"+ [^*/\x00])* "*"+ "/"       { goto again; }
    "/*"        { SCANNED(0); return unterminated(lx, t, "comment", err); }

    'AGGREGATE' { TOKEN(TK_AGGREGATE); }
    'ALL'       { TOKEN(TK_ALL); }
    'ALL_SHORTEST_PATHS' { TOKEN(TK_ALL_SHORTEST_PATHS); }
    'AND'       { TOKEN(TK_AND); }
    'ANY'       { TOKEN(TK_ANY); }
    'ASC'       { TOKEN(TK_ASC); }
    'COLLECT'   { TOKEN(TK_COLLECT); }
    'DESC'      { TOKEN(TK_DESC); }
    'DISTINCT'  { TOKEN(TK_DISTINCT); }
    'FALSE'     { SCANNED(0); t->kind = TK_FALSE; t->val = val_false; return OK; }
    'FILTER'    { TOKEN(TK_FILTER); }
    'FOR'       { TOKEN(TK_FOR); }
    'GRAPH'     { TOKEN(TK_GRAPH); }
    'IN'        { TOKEN(TK_IN); }
    'INBOUND'   { TOKEN(TK_INBOUND); }
    'INSERT'    { TOKEN(TK_INSERT); }
    'INTO'      { TOKEN(TK_INTO); }
    'K_PATHS'   { TOKEN(TK_K_PATHS); }
    'K_SHORTEST_PATHS' { TOKEN(TK_K_SHORTEST_PATHS); }
    'LET'       { TOKEN(TK_LET); }
    'LIKE'      { TOKEN(TK_LIKE); }
    'LIMIT'     { TOKEN(TK_LIMIT); }
    'NONE'      { TOKEN(TK_NONE); }
    'NOT'       { TOKEN(TK_NOT); }
    'NULL'      { SCANNED(0); t->kind = TK_NULL; t->val = val_null; return OK; }
    'OR'        { TOKEN(TK_OR); }
    'OUTBOUND'  { TOKEN(TK_OUTBOUND); }
    'REMOVE'    { TOKEN(TK_REMOVE); }
    'REPLACE'   { TOKEN(TK_REPLACE); }
    'RETURN'    { TOKEN(TK_RETURN); }
    'SHORTEST_PATH' { TOKEN(TK_SHORTEST_PATH); }
    'SORT'      { TOKEN(TK_SORT); }
    'TRUE'      { SCANNED(0); t->kind = TK_TRUE; t->val = val_true; return OK; }
    'UPDATE'    { TOKEN(TK_UPDATE); }
    'UPSERT'    { TOKEN(TK_UPSERT); }
    'WINDOW'    { TOKEN(TK_WINDOW); }
    'WITH'      { TOKEN(TK_WITH); }

    'COUNT'     { TOKEN(TK_COUNT); }
    'DOMAIN'    { TOKEN(TK_DOMAIN); }
    'KEEP'      { TOKEN(TK_KEEP); }
    'OPTIONS'   { TOKEN(TK_OPTIONS); }
    'PRUNE'     { TOKEN(TK_PRUNE); }
    'SEARCH'    { TOKEN(TK_SEARCH); }
    'TO'        { TOKEN(TK_TO); }

    'AT'        { TOKEN(TK_AT); }
    'LEAST'     { TOKEN(TK_LEAST); }
    'INFER'     { TOKEN(TK_INFER); }
    'EMBED'     { TOKEN(TK_EMBED); }

    word        { TOKEN(TK_ID); }
    "@" bind    { SCANNED(1); t->kind = TK_BIND; return OK; }
    "@@" bind   { SCANNED(1); t->kind = TK_BIND_COLLECTION; return OK; }

    "`" ([^`\\\x00] | "\\" [^\x00])* "`"
                { SCANNED(0); return quoted_name(lx, t, 1, err); }
    tick ([^\xc2\\\x00] | "\xc2" [^\xb4\x00] | "\\" [^\xc2\x00] | "\\\xc2" [^\x00])* tick
                { SCANNED(0); return quoted_name(lx, t, 2, err); }
    "`" | tick  { SCANNED(0); return unterminated(lx, t, "name", err); }

    ["] ([^"\\\x00] | "\\" [^\x00])* ["]  { SCANNED(0); return string(lx, t, err); }
    ['] ([^'\\\x00] | "\\" [^\x00])* [']  { SCANNED(0); return string(lx, t, err); }
    ["']        { SCANNED(0); return unterminated(lx, t, "string literal", err); }

    int                             { SCANNED(0); return integer(lx, t, 10); }
    '0x' [0-9a-fA-F]+               { SCANNED(0); return integer(lx, t, 16); }
    '0b' [01]+                      { SCANNED(0); return integer(lx, t, 2); }
    int? "." digits exp? | int exp  { SCANNED(0); return decimal(lx, t, err); }

    "=~"        { TOKEN(TK_MATCH); }
    "!~"        { TOKEN(TK_NOT_MATCH); }
    "=="        { TOKEN(TK_EQ); }
    "!="        { TOKEN(TK_NE); }
    "<"         { TOKEN(TK_LT); }
    "<="        { TOKEN(TK_LE); }
    ">"         { TOKEN(TK_GT); }
    ">="        { TOKEN(TK_GE); }
    "="         { TOKEN(TK_ASSIGN); }
    "!"         { TOKEN(TK_NOT); }
    "&&"        { TOKEN(TK_AND); }
    "||"        { TOKEN(TK_OR); }
    "+"         { TOKEN(TK_PLUS); }
    "-"         { TOKEN(TK_MINUS); }
    "*"         { TOKEN(TK_TIMES); }
    "/"         { TOKEN(TK_DIV); }
    "%"         { TOKEN(TK_MOD); }
    "?"         { TOKEN(TK_QUESTION); }
    "::"        { TOKEN(TK_SCOPE); }
    ":"         { TOKEN(TK_COLON); }
    ".."        { TOKEN(TK_RANGE); }
    "."         { TOKEN(TK_DOT); }
    ","         { TOKEN(TK_COMMA); }
    "("         { TOKEN(TK_LP); }
    ")"         { TOKEN(TK_RP); }
    "{"         { TOKEN(TK_LC); }
    "}"         { TOKEN(TK_RC); }
    "["         { TOKEN(TK_LB); }
    "]"         { TOKEN(TK_RB); }

    "\x00"      {
        YYCURSOR = start; /* the end is read again and again */
        SCANNED(0);
        t->kind = t->pos < lx->text.len ? TK_ILLEGAL : 0;
        return OK;
    }
    *           { TOKEN(TK_ILLEGAL); }
    */
#undef TOKEN
#undef SCANNED
}

static bool is_letter(char c)
{
    return (unsigned)((c | 32) - 'a') < 26;
}

static bool is_word(struct slice name)
{
    size_t i = name.len > 0 && name.ptr[0] == '$';
    while (i < name.len && name.ptr[i] == '_')
        i++;
    if (i == name.len || !is_letter(name.ptr[i]))
        return false;
    while (i < name.len && (is_letter(name.ptr[i]) || name.ptr[i] == '_' ||
                            (unsigned)(name.ptr[i] - '0') < 10))
        i++;
    return i == name.len;
}

enum word_class lex_word_class(struct slice name)
{
    char copy[32]; /* longer than every keyword */
    if (!is_word(name))
        return WORD_NONE;
    if (name.len >= sizeof copy)
        return WORD_PLAIN;
    memcpy(copy, name.ptr, name.len);
    copy[name.len] = 0;

    struct lexer lx = { .text = slice_of(copy, name.len) };
    struct token t;
    if (lex_next(&lx, &t, NULL) != OK)
        BUG("a word is a token");
    switch (t.kind) {
    case TK_ID:
        return WORD_PLAIN;
    case TK_AT:
    case TK_COUNT:
    case TK_DOMAIN:
    case TK_EMBED:
    case TK_INFER:
    case TK_KEEP:
    case TK_LEAST:
    case TK_OPTIONS:
    case TK_PRUNE:
    case TK_SEARCH:
    case TK_TO:
        return WORD_CONTEXTUAL;
    default: /* token kinds are numbers of the grammar, not an enum */
        return WORD_RESERVED;
    }
}
