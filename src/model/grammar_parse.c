/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GBNF as llama.cpp reads it:
 *
 *   root ::= "yes" | "no" reason?      # a choice between sequences
 *   reason ::= [a-z ]{1,40}            # ends with the line, unless inside ( ) or behind | or ::=
 *
 * Sequences are collected on a stack of their own and moved into the grammar when they end, so that
 * the elements of each are side by side. Tokens in angle brackets are refused: our grammars are
 * about characters.
 */
#include "model/grammar_private.h"

#include <stdio.h>

struct parser {
    struct grammar *g;
    const char *text, *at, *end;
    uint32_t line;
    unsigned depth;
    struct elem *open; /* owned; elements of sequences that have not ended */
    size_t open_count, open_cap;
    uint32_t *open_choices; /* owned; of rules that have not ended */
    size_t open_choice_count, open_choice_cap;
    uint32_t *names; /* owned; hash table: rule + 1 */
    struct error *err;
};

enum { NAME_SLOTS = 2 * GRAMMAR_RULES_MAX, NAME_MAX_BYTES = 512 };

#define GROW(list, count, cap)                                                                     \
    do {                                                                                           \
        if ((count) == (cap)) {                                                                    \
            (cap) = (cap) ? (cap)*2 : 64;                                                          \
            (list) = mem_realloc((list), (cap) * sizeof *(list));                                  \
        }                                                                                          \
    } while (0)

static enum errc syntax(struct parser *p, const char *what)
{
    size_t n = (size_t)(p->end - p->at);
    if (n == 0)
        return fail(p->err, ERR_INVALID, "grammar, line %u: %s at the end", p->line, what);
    n = n < 24 ? n : 24;
    for (size_t i = 0; i < n; i++)
        if (p->at[i] == '\n')
            n = i;
    return fail(p->err, ERR_INVALID, "grammar, line %u: %s at '%.*s'", p->line, what, (int)n,
                p->at);
}

/* ---- characters ---- */

static void skip_space(struct parser *p, bool newlines_too)
{
    for (; p->at < p->end; p->at++) {
        char c = *p->at;
        if (c == '#') {
            while (p->at + 1 < p->end && p->at[1] != '\n' && p->at[1] != '\r')
                p->at++;
        } else if (c == '\n' && newlines_too) {
            p->line++;
        } else if (c != ' ' && c != '\t' && !(c == '\r' && newlines_too)) {
            return;
        }
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static enum errc read_hex(struct parser *p, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int d = p->at < p->end ? hex_digit(*p->at) : -1;
        if (d < 0)
            return syntax(p, "hexadecimal digits are missing");
        *out = *out << 4 | (uint32_t)d;
    }
    return *out <= CODE_POINT_MAX ? OK : syntax(p, "no such character before this");
}

static enum errc read_escape(struct parser *p, uint32_t *out)
{
    char c = p->at < p->end ? *p->at : 0;
    p->at++;
    switch (c) {
    case 'x':
        return read_hex(p, 2, out);
    case 'u':
        return read_hex(p, 4, out);
    case 'U':
        return read_hex(p, 8, out);
    case 't':
        *out = '\t';
        return OK;
    case 'r':
        *out = '\r';
        return OK;
    case 'n':
        *out = '\n';
        return OK;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
        *out = (unsigned char)c;
        return OK;
    default:
        p->at--;
        return syntax(p, "unknown escape");
    }
}

/* The text is valid UTF-8. */
static uint32_t read_code_point(struct parser *p)
{
    const unsigned char *s = (const unsigned char *)p->at;
    int more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    uint32_t c = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    for (int i = 1; i <= more; i++)
        c = c << 6 | (s[i] & 0x3f);
    p->at += more + 1;
    return c;
}

static enum errc read_char(struct parser *p, uint32_t *out)
{
    if (p->at == p->end || *p->at == '\n')
        return syntax(p, "the text or class does not end");
    if (*p->at != '\\') {
        *out = read_code_point(p);
        return OK;
    }
    p->at++;
    return read_escape(p, out);
}

/* ---- rules ---- */

static uint32_t hash_name(struct slice name)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.ptr[i]) * 16777619u;
    return h;
}

static enum errc add_rule(struct parser *p, struct slice name, uint32_t *out)
{
    struct grammar *g = p->g;
    if (g->rule_count == GRAMMAR_RULES_MAX)
        return fail(p->err, ERR_INVALID,
                    "the grammar has more than %d rules (groups and repeated items count)",
                    GRAMMAR_RULES_MAX);
    GROW(g->rules, g->rule_count, g->rule_cap);
    *out = (uint32_t)g->rule_count++;
    g->rules[*out] = (struct rule){ .name = name.len ? mem_strndup(name) : NULL, .line = p->line };
    return OK;
}

static enum errc find_rule(struct parser *p, struct slice name, uint32_t *out)
{
    uint32_t slot = hash_name(name) % NAME_SLOTS;
    if (name.len > NAME_MAX_BYTES)
        return syntax(p, "the name before this is too long");
    for (; p->names[slot]; slot = (slot + 1) % NAME_SLOTS) {
        *out = p->names[slot] - 1;
        if (slice_is(name, p->g->rules[*out].name))
            return OK;
    }
    enum errc rc = add_rule(p, name, out);
    if (rc == OK)
        p->names[slot] = *out + 1;
    return rc;
}

static struct slice read_name(struct parser *p)
{
    const char *from = p->at;
    while (p->at < p->end && is_name_char(*p->at))
        p->at++;
    return slice_of(from, (size_t)(p->at - from));
}

static enum errc push(struct parser *p, struct elem e)
{
    if (p->open_count + p->g->elem_count >= GRAMMAR_ELEMENTS_MAX)
        return fail(p->err, ERR_INVALID, "the grammar has more than %d elements",
                    GRAMMAR_ELEMENTS_MAX);
    GROW(p->open, p->open_count, p->open_cap);
    p->open[p->open_count++] = e;
    return OK;
}

/* Moves the elements from from on, and an end, into the grammar. */
static uint32_t close_sequence(struct parser *p, size_t from)
{
    struct grammar *g = p->g;
    uint32_t first = (uint32_t)g->elem_count;
    for (size_t i = from; i < p->open_count; i++) {
        GROW(g->elems, g->elem_count, g->elem_cap);
        g->elems[g->elem_count++] = p->open[i];
    }
    GROW(g->elems, g->elem_count, g->elem_cap);
    g->elems[g->elem_count++] = (struct elem){ .type = ELEM_END };
    p->open_count = from;
    return first;
}

static void close_rule(struct parser *p, uint32_t rule, size_t from)
{
    struct grammar *g = p->g;
    g->rules[rule].first = (uint32_t)g->choice_count;
    g->rules[rule].count = (uint32_t)(p->open_choice_count - from);
    g->rules[rule].is_defined = true;
    for (size_t i = from; i < p->open_choice_count; i++) {
        GROW(g->choices, g->choice_count, g->choice_cap);
        g->choices[g->choice_count++] = p->open_choices[i];
    }
    p->open_choice_count = from;
}

static void push_choice(struct parser *p, uint32_t first)
{
    GROW(p->open_choices, p->open_choice_count, p->open_choice_cap);
    p->open_choices[p->open_choice_count++] = first;
}

/* ---- items of a sequence ---- */

static enum errc read_literal(struct parser *p)
{
    enum errc rc = OK;
    p->at++;
    while (p->at < p->end && *p->at != '"') {
        struct elem e = { .type = ELEM_CHAR };
        TRY(read_char(p, &e.a));
        TRY(push(p, e));
    }
    if (p->at == p->end)
        rc = syntax(p, "a text does not end");
    p->at++;
out:
    return rc;
}

static void add_range(struct parser *p, uint32_t from, uint32_t to)
{
    struct grammar *g = p->g;
    GROW(g->ranges, g->range_count, g->range_cap);
    g->ranges[g->range_count++] = (struct char_range){ from, to };
}

static enum errc read_class(struct parser *p)
{
    struct elem e = { .type = ELEM_CLASS, .a = (uint32_t)p->g->range_count };
    enum errc rc = OK;
    p->at++;
    if (p->at < p->end && *p->at == '^') {
        e.type = ELEM_NOT;
        p->at++;
    }
    while (p->at < p->end && *p->at != ']') {
        uint32_t from = 0, to = 0;
        TRY(read_char(p, &from));
        to = from;
        if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            TRY(read_char(p, &to));
        }
        if (to < from)
            TRY(syntax(p, "a range ends before it begins, before this,"));
        if (p->g->range_count >= GRAMMAR_ELEMENTS_MAX)
            TRY(syntax(p, "too many ranges"));
        add_range(p, from, to);
    }
    if (p->at == p->end)
        TRY(syntax(p, "a class does not end"));
    p->at++;
    e.b = (uint32_t)p->g->range_count - e.a;
    rc = push(p, e);
out:
    return rc;
}

static enum errc read_choices(struct parser *p, uint32_t rule, bool is_nested);

static enum errc read_group(struct parser *p)
{
    struct elem e = { .type = ELEM_RULE };
    enum errc rc = OK;
    if (p->depth == GRAMMAR_DEPTH_MAX)
        return fail(p->err, ERR_INVALID, "grammar, line %u: more than %d parentheses in each other",
                    p->line, GRAMMAR_DEPTH_MAX);
    p->depth++;
    p->at++;
    skip_space(p, true);
    TRY(add_rule(p, slice_of(NULL, 0), &e.a));
    TRY(read_choices(p, e.a, true));
    if (p->at == p->end || *p->at != ')')
        TRY(syntax(p, "')' is missing"));
    p->at++;
    p->depth--;
    rc = push(p, e);
out:
    return rc;
}

static enum errc read_count(struct parser *p, uint32_t *out)
{
    uint64_t n = 0;
    if (p->at == p->end || *p->at < '0' || *p->at > '9')
        return syntax(p, "a number is missing");
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        n = n > GRAMMAR_REPEAT_MAX ? n : n * 10 + (uint64_t)(*p->at - '0');
    if (n > GRAMMAR_REPEAT_MAX)
        return fail(p->err, ERR_INVALID, "grammar, line %u: more than %d repetitions", p->line,
                    GRAMMAR_REPEAT_MAX);
    *out = (uint32_t)n;
    return OK;
}

/* {m}, {m,} or {m,n} */
static enum errc read_counts(struct parser *p, bool is_nested, struct elem *e)
{
    enum errc rc = OK;
    p->at++;
    skip_space(p, is_nested);
    TRY(read_count(p, &e->b));
    e->c = e->b;
    skip_space(p, is_nested);
    if (p->at < p->end && *p->at == ',') {
        p->at++;
        skip_space(p, is_nested);
        e->c = REPEAT_FOREVER;
        if (p->at < p->end && *p->at != '}')
            TRY(read_count(p, &e->c));
        skip_space(p, is_nested);
    }
    if (p->at == p->end || *p->at != '}')
        TRY(syntax(p, "'}' is missing"));
    p->at++;
    if (e->c < e->b)
        rc = syntax(p, "fewer repetitions at most than at least, before this,");
out:
    return rc;
}

/* The elements from last on are repeated. */
static enum errc read_repeat(struct parser *p, size_t last, bool is_nested)
{
    struct elem e = { .type = ELEM_REPEAT, .b = *p->at == '+', .c = REPEAT_FOREVER };
    enum errc rc = OK;
    if (last == p->open_count)
        return syntax(p, "nothing is there to repeat");
    if (*p->at == '{') {
        TRY(read_counts(p, is_nested, &e));
    } else {
        e.c = *p->at == '?' ? 1 : REPEAT_FOREVER;
        p->at++;
    }
    if (p->open_count == last + 1 && p->open[last].type == ELEM_RULE) {
        e.a = p->open[last].a;
        p->open_count = last;
    } else {
        TRY(add_rule(p, slice_of(NULL, 0), &e.a));
        size_t choices = p->open_choice_count;
        push_choice(p, close_sequence(p, last));
        close_rule(p, e.a, choices);
    }
    rc = push(p, e);
out:
    return rc;
}

static enum errc read_sequence(struct parser *p, bool is_nested)
{
    enum errc rc = OK;
    size_t last = p->open_count; /* where the last item begins */
    while (p->at < p->end) {
        char c = *p->at;
        size_t before = p->open_count;
        if (c == '*' || c == '+' || c == '?' || c == '{') {
            TRY(read_repeat(p, last, is_nested));
            skip_space(p, is_nested);
            continue;
        }
        if (c == '"') {
            TRY(read_literal(p));
        } else if (c == '[') {
            TRY(read_class(p));
        } else if (c == '(') {
            TRY(read_group(p));
        } else if (c == '.') {
            p->at++;
            TRY(push(p, (struct elem){ .type = ELEM_NOT, .a = (uint32_t)p->g->range_count }));
        } else if (is_name_char(c)) {
            struct elem e = { .type = ELEM_RULE };
            TRY(find_rule(p, read_name(p), &e.a));
            TRY(push(p, e));
        } else if (c == '<' || c == '!') {
            TRY(syntax(p, "tokens are not supported, only their texts,"));
        } else {
            break;
        }
        last = before;
        skip_space(p, is_nested);
    }
out:
    return rc;
}

static enum errc read_choices(struct parser *p, uint32_t rule, bool is_nested)
{
    enum errc rc = OK;
    size_t choices = p->open_choice_count;
    for (;;) {
        size_t from = p->open_count;
        TRY(read_sequence(p, is_nested));
        push_choice(p, close_sequence(p, from));
        if (p->at == p->end || *p->at != '|')
            break;
        p->at++;
        skip_space(p, true);
    }
    close_rule(p, rule, choices);
out:
    return rc;
}

static enum errc read_rule(struct parser *p)
{
    enum errc rc = OK;
    uint32_t rule = 0;
    struct slice name = read_name(p);
    if (name.len == 0)
        return syntax(p, "the name of a rule is missing");
    TRY(find_rule(p, name, &rule));
    if (p->g->rules[rule].is_defined)
        TRY(fail(p->err, ERR_INVALID, "grammar, line %u: the rule '%s' is defined twice", p->line,
                 p->g->rules[rule].name));
    p->g->rules[rule].line = p->line;
    skip_space(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0)
        TRY(syntax(p, "'::=' is missing"));
    p->at += 3;
    skip_space(p, true);
    TRY(read_choices(p, rule, false));
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r')
        TRY(syntax(p, "unexpected"));
    skip_space(p, true);
out:
    return rc;
}

static enum errc find_root(struct parser *p)
{
    for (size_t i = 0; i < p->g->rule_count; i++) {
        const struct rule *r = &p->g->rules[i];
        if (r->name && strcmp(r->name, "root") == 0 && r->is_defined) {
            p->g->root = (uint32_t)i;
            return OK;
        }
    }
    return fail(p->err, ERR_INVALID, "the grammar has no rule 'root'");
}

enum errc grammar_parse(struct grammar **out, struct slice text, struct error *err)
{
    struct grammar *g = mem_zalloc(sizeof *g);
    struct parser p = {
        .g = g, .text = text.ptr, .at = text.ptr, .end = text.ptr + text.len, .line = 1, .err = err
    };
    enum errc rc = OK;
    atomic_init(&g->refs, 1);
    p.names = mem_zalloc(NAME_SLOTS * sizeof *p.names);
    if (text.len > GRAMMAR_BYTES_MAX)
        TRY(fail(err, ERR_INVALID, "a grammar may have %d bytes, not %zu", GRAMMAR_BYTES_MAX,
                 text.len));
    if (memchr(text.len ? text.ptr : "", 0, text.len))
        TRY(fail(err, ERR_INVALID, "the grammar has a zero byte; write \\x00"));
    skip_space(&p, true);
    while (p.at < p.end)
        TRY(read_rule(&p));
    TRY(find_root(&p));
    TRY(grammar_check(g, err));
    *out = g;
    g = NULL;
out:
    grammar_unref(g);
    mem_free(p.names);
    mem_free(p.open);
    mem_free(p.open_choices);
    return rc;
}

struct grammar *grammar_ref(struct grammar *g)
{
    atomic_fetch_add(&g->refs, 1);
    return g;
}

void grammar_unref(struct grammar *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    for (size_t i = 0; i < g->rule_count; i++)
        mem_free(g->rules[i].name);
    mem_free(g->rules);
    mem_free(g->choices);
    mem_free(g->ranges);
    mem_free(g->elems);
    mem_free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof *g + g->elem_cap * sizeof *g->elems + g->range_cap * sizeof *g->ranges +
           g->choice_cap * sizeof *g->choices + g->rule_cap * sizeof *g->rules;
}
