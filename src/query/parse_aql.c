/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to tree: feeds tokens to the grammar and reports errors.
 *
 * The grammar has one token of look-ahead. What needs more is decided here,
 * on the way from the lexer to the grammar:
 *
 *   NOT IN            one operator
 *   AT LEAST (        a quantifier; AT and LEAST are names elsewhere
 *   INFER "m" prompt  an operation; INFER and EMBED are names elsewhere
 *   INFER @m prompt
 *
 * Nesting is limited in three places, none of which recurses: open brackets
 * here, levels of the tree where nodes are made, and the engine's stack (for
 * what is neither yet, such as a long row of minus signs).
 */
#include "query/parse_aql.h"
#include "base/val_text.h"
#include "query/parse.h"
#include <stdarg.h>
#include <stdio.h>

enum { STACK_BYTES_MAX = 2 * MIB }; /* far beyond what LIMIT_AQL_NESTING levels need */
enum { TOKENS_PER_MEMORY_CHECK = 1024 };

/* ---- errors ---- */

void parse_fail(struct parser *p, int num, uint32_t pos, const char *fmt, ...)
{
    char what[128];
    va_list args;
    if (p->rc != OK) /* the first one counts */
        return;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    p->rc = lex_fail(p->err, num, p->lexer.text, pos, "%s", what);
}

/* What ArangoDB calls its tokens; those without a name here are shown as they are. */
static const char *const token_names[] = {
    [0] = "end of query string",
    [TK_AGGREGATE] = "AGGREGATE keyword",
    [TK_ALL] = "all modifier",
    [TK_ALL_SHORTEST_PATHS] = "ALL_SHORTEST_PATHS keyword",
    [TK_AND] = "and operator",
    [TK_ANY] = "any modifier",
    [TK_ASC] = "ASC keyword",
    [TK_ASSIGN] = "assignment",
    [TK_AT_LEAST] = "at least modifier",
    [TK_BIND] = "bind parameter",
    [TK_BIND_COLLECTION] = "bind data source parameter",
    [TK_COLLECT] = "COLLECT declaration",
    [TK_DESC] = "DESC keyword",
    [TK_DISTINCT] = "DISTINCT modifier",
    [TK_EMBED] = "EMBED operation",
    [TK_FALSE] = "false",
    [TK_FILTER] = "FILTER declaration",
    [TK_FOR] = "FOR declaration",
    [TK_GRAPH] = "GRAPH keyword",
    [TK_IN] = "IN keyword",
    [TK_INBOUND] = "inbound modifier",
    [TK_INFER] = "INFER operation",
    [TK_INSERT] = "INSERT command",
    [TK_INTO] = "INTO keyword",
    [TK_K_PATHS] = "K_PATHS keyword",
    [TK_K_SHORTEST_PATHS] = "K_SHORTEST_PATHS keyword",
    [TK_LET] = "LET declaration",
    [TK_LIKE] = "like operator",
    [TK_LIMIT] = "LIMIT declaration",
    [TK_NONE] = "none modifier",
    [TK_NOT] = "not operator",
    [TK_NOT_IN] = "not in operator",
    [TK_NULL] = "null",
    [TK_NUMBER] = "number",
    [TK_OR] = "or operator",
    [TK_OUTBOUND] = "outbound modifier",
    [TK_REMOVE] = "REMOVE command",
    [TK_REPLACE] = "REPLACE command",
    [TK_RETURN] = "RETURN declaration",
    [TK_SHORTEST_PATH] = "SHORTEST_PATH keyword",
    [TK_SORT] = "SORT declaration",
    [TK_STRING] = "quoted string",
    [TK_TRUE] = "true",
    [TK_UPDATE] = "UPDATE command",
    [TK_UPSERT] = "UPSERT command",
    [TK_WINDOW] = "WINDOW declaration",
    [TK_WITH] = "WITH keyword",
};

static const char *token_name(int kind)
{
    return (size_t)kind < ARRAY_LEN(token_names) ? token_names[kind] : NULL;
}

static bool is_name(int kind)
{
    return kind == TK_ID || kind == TK_COUNT || kind == TK_DOMAIN || kind == TK_KEEP ||
           kind == TK_OPTIONS || kind == TK_PRUNE || kind == TK_SEARCH || kind == TK_TO ||
           kind == TK_AT || kind == TK_LEAST;
}

/* Bytes of the token, or of the whole character when it is none. */
static uint32_t token_bytes(const struct parser *p, const struct token *t)
{
    uint32_t len = t->len;
    struct slice text = p->lexer.text;
    if (t->kind == TK_ILLEGAL && len == 1)
        while (t->pos + len < text.len && (text.ptr[t->pos + len] & 0xc0) == 0x80)
            len++;
    return len;
}

void parse_syntax_error(struct parser *p, const struct token *t)
{
    const char *name = is_name(t->kind) ? "identifier" : token_name(t->kind);
    if (t->kind == TK_ILLEGAL && (t->len == 0 || (unsigned char)p->lexer.text.ptr[t->pos] < ' '))
        parse_fail(p, 1501, t->pos, "syntax error, unexpected control character");
    else if (name)
        parse_fail(p, 1501, t->pos, "syntax error, unexpected %s", name);
    else
        parse_fail(p, 1501, t->pos, "syntax error, unexpected '%.*s'", (int)token_bytes(p, t),
                   p->lexer.text.ptr + t->pos);
}

void *parse_stack_grow(void *ptr, size_t bytes)
{
    return bytes <= STACK_BYTES_MAX ? mem_realloc(ptr, bytes) : NULL;
}

/* ---- tokens ---- */

/* The i-th token that was not given yet. A lexer's error is a token, so that it waits its turn. */
static const struct token *peek(struct parser *p, unsigned i)
{
    while (p->ahead_count <= i) {
        struct token *t = &p->ahead[p->ahead_count++];
        bool has_failed = p->lex_error.code != OK;
        if (has_failed || lex_next(&p->lexer, t, &p->lex_error) != OK)
            t->kind = LEX_FAILED;
    }
    return &p->ahead[i];
}

static struct token take(struct parser *p)
{
    struct token t = *peek(p, 0);
    p->ahead_count--;
    memmove(p->ahead, p->ahead + 1, p->ahead_count * sizeof p->ahead[0]);
    return t;
}

/* Makes t reach up to the end of the next token, which is thus taken. */
static void join(struct parser *p, struct token *t, int kind)
{
    struct token next = take(p);
    t->kind = kind;
    t->len = next.pos + next.len - t->pos;
}

static bool starts_expression(int kind)
{
    switch (kind) {
    case TK_BIND:
    case TK_BIND_COLLECTION:
    case TK_EMBED:
    case TK_FALSE:
    case TK_INFER:
    case TK_LC:
    case TK_LIKE:
    case TK_LP:
    case TK_NOT:
    case TK_NULL:
    case TK_NUMBER:
    case TK_STRING:
    case TK_TRUE:
        return true;
    default: /* token kinds are numbers of the grammar, not an enum */
        return is_name(kind);
    }
}

/*
 * INFER and EMBED are operations before a model and the beginning of a prompt.
 * The prompt is looked for because of SORT infer @direction, and not taken for
 * one in FOR v IN OUTBOUND infer @edges OPTIONS {...}.
 */
static int infer_or_name(struct parser *p, const struct token *t)
{
    if (p->last_kind == TK_DOT || p->last_kind == TK_SCOPE)
        return TK_ID;
    int model = peek(p, 0)->kind;
    if (model != TK_STRING && model != TK_BIND)
        return TK_ID;
    int prompt = peek(p, 1)->kind;
    if (prompt == TK_LB || prompt == TK_MINUS || prompt == TK_PLUS)
        parse_fail(p, 1501, peek(p, 1)->pos,
                   "syntax error, a prompt that begins with '[', '-' or '+' needs parentheses");
    if (model == TK_BIND && (prompt == TK_OPTIONS || prompt == TK_PRUNE))
        return TK_ID;
    return starts_expression(prompt) ? t->kind : TK_ID;
}

static void count_brackets(struct parser *p, const struct token *t)
{
    if (t->kind == TK_LP || t->kind == TK_LB || t->kind == TK_LC) {
        if (++p->brackets > LIMIT_AQL_NESTING)
            parse_fail(p, 1524, t->pos, "too much nesting or too many objects");
    } else if (t->kind == TK_RP || t->kind == TK_RB || t->kind == TK_RC) {
        p->brackets -= p->brackets > 0; /* one too many is the grammar's to refuse */
    }
}

void parse_next(struct parser *p, struct token *out)
{
    struct token t = take(p);
    if (t.kind == LEX_FAILED) {
        *p->err = p->lex_error;
        p->rc = p->lex_error.code;
    } else if (t.kind == TK_NOT && t.len > 1) { /* the word, not "!" */
        if (peek(p, 0)->kind == TK_IN)
            join(p, &t, TK_NOT_IN);
    } else if (t.kind == TK_AT) {
        t.kind = TK_ID;
        if (peek(p, 0)->kind == TK_LEAST && peek(p, 1)->kind == TK_LP)
            join(p, &t, TK_AT_LEAST);
    } else if (t.kind == TK_LEAST) {
        t.kind = TK_ID;
    } else if (t.kind == TK_INFER || t.kind == TK_EMBED) {
        t.kind = infer_or_name(p, &t);
    } else {
        count_brackets(p, &t);
    }
    p->last_kind = t.kind;
    if (p->rc == OK && p->given++ % TOKENS_PER_MEMORY_CHECK == 0)
        p->rc = arena_check(p->arena, p->err);
    *out = t;
}

/* ---- the whole ---- */

enum errc aql_parse(struct slice text, struct arena *arena, struct ast **out, struct error *err)
{
    enum errc rc = OK;
    struct error unwanted;
    struct parser p = { .arena = arena, .rc = OK, .err = err ? err : &unwanted };
    void *copy = NULL;
    size_t bad = 0;

    if (text.len > INT32_MAX)
        return fail(err, ERR_TOO_LARGE, "the query has more than %d bytes", INT32_MAX);
    TRY(arena_try(arena, text.len + 1, &copy, err));
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    ((char *)copy)[text.len] = 0;
    p.lexer = (struct lexer){ .text = slice_of(copy, text.len), .arena = arena };
    if (!utf8_check(text, &bad)) {
        struct ast_position at = ast_position(text, (uint32_t)bad);
        return fail_num(err, 1501, "syntax error, invalid UTF-8 at position %u:%u", at.line,
                        at.column);
    }
    if (peek(&p, 0)->kind == 0)
        return fail_num(err, 1502, "query is empty");
    parse_run(&p);
    rc = p.rc;
    *out = p.result;

out:
    return rc;
}
