/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree to canonical AQL. Parentheses stand where the grammar needs them: an
 * operand gets them when it binds no tighter than its operator asks for. The
 * levels are those of the grammar's precedences. Words that are keywords in some
 * places are written in ticks wherever they are names of their own.
 */
#include "base/val_text.h"
#include "query/ast.h"
#include "query/lex.h"

enum level {
    LEVEL_ANY, /* whole expressions */
    LEVEL_TERNARY,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_QUANTIFIED,
    LEVEL_EQUALITY,
    LEVEL_IN,
    LEVEL_ORDER,
    LEVEL_RANGE,
    LEVEL_ADD,
    LEVEL_MUL,
    LEVEL_UNARY,
    LEVEL_LITERAL,
    LEVEL_REFERENCE, /* what accessors can follow */
};

static const struct {
    const char *text;
    enum level level;
} ops[] = {
    [AST_OP_OR] = { "OR", LEVEL_OR },           [AST_OP_AND] = { "AND", LEVEL_AND },
    [AST_OP_EQ] = { "==", LEVEL_EQUALITY },     [AST_OP_NE] = { "!=", LEVEL_EQUALITY },
    [AST_OP_LT] = { "<", LEVEL_ORDER },         [AST_OP_LE] = { "<=", LEVEL_ORDER },
    [AST_OP_GT] = { ">", LEVEL_ORDER },         [AST_OP_GE] = { ">=", LEVEL_ORDER },
    [AST_OP_IN] = { "IN", LEVEL_IN },           [AST_OP_NOT_IN] = { "NOT IN", LEVEL_IN },
    [AST_OP_LIKE] = { "LIKE", LEVEL_EQUALITY }, [AST_OP_NOT_LIKE] = { "NOT LIKE", LEVEL_EQUALITY },
    [AST_OP_MATCH] = { "=~", LEVEL_EQUALITY },  [AST_OP_NOT_MATCH] = { "!~", LEVEL_EQUALITY },
    [AST_OP_ADD] = { "+", LEVEL_ADD },          [AST_OP_SUB] = { "-", LEVEL_ADD },
    [AST_OP_MUL] = { "*", LEVEL_MUL },          [AST_OP_DIV] = { "/", LEVEL_MUL },
    [AST_OP_MOD] = { "%", LEVEL_MUL },          [AST_OP_NOT] = { "!", LEVEL_UNARY },
    [AST_OP_PLUS] = { "+", LEVEL_UNARY },       [AST_OP_MINUS] = { "-", LEVEL_UNARY },
};

static const char *const directions[] = {
    [AST_OUTBOUND] = "OUTBOUND",
    [AST_INBOUND] = "INBOUND",
    [AST_ANY] = "ANY",
};

static void print(const struct ast *n, struct buf *out);

/* ---- names and values ---- */

static void print_ticked(struct slice name, struct buf *out)
{
    buf_add_char(out, '`');
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < ' ')
            buf_printf(out, "\\u%04x", c);
        else if (c == '`' || c == '\\')
            buf_printf(out, "\\%c", c);
        else
            buf_add_char(out, (char)c);
    }
    buf_add_char(out, '`');
}

/* min: the class from which on the name may stand without ticks. */
static void print_name(struct slice name, enum word_class min, struct buf *out)
{
    if (lex_word_class(name) >= min)
        buf_add_slice(out, name);
    else
        print_ticked(name, out);
}

/* A name that is a member: nothing there is a keyword but the reserved ones. */
static void print_member(struct slice name, struct buf *out)
{
    if (lex_word_class(name) >= WORD_CONTEXTUAL)
        buf_add_slice(out, name);
    else
        val_print_string(name, out);
}

/* A double without a fraction must not be read as an integer. */
static void print_value(struct val v, struct buf *out)
{
    size_t start = out->len;
    val_print(v, out);
    if (val_type(v) != VAL_NUMBER || val_is_int(v))
        return;
    for (size_t i = start; i < out->len; i++)
        if (out->ptr[i] == '.' || out->ptr[i] == 'e' || out->ptr[i] == 'E')
            return;
    buf_add_str(out, ".0");
}

static void print_function(struct slice name, struct buf *out)
{
    while (name.len > 0) {
        const char *colon = memchr(name.ptr, ':', name.len);
        size_t len = colon ? (size_t)(colon - name.ptr) : name.len;
        struct slice part = slice_of(name.ptr, len);
        print_name(part, slice_is(part, "LIKE") ? WORD_RESERVED : WORD_CONTEXTUAL, out);
        if (!colon)
            break;
        buf_add_str(out, "::");
        name = slice_of(colon + 2, name.len - len - 2);
    }
}

/* ---- lists ---- */

static void print_each(const struct ast *n, const char *between, struct buf *out)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (i > 0)
            buf_add_str(out, between);
        if (n->kids[i])
            print(n->kids[i], out);
    }
}

static void print_word(const char *word, const struct ast *n, struct buf *out)
{
    if (!n)
        return;
    buf_printf(out, " %s ", word);
    print(n, out);
}

/* Kinds that are nothing but their children between other things. */
static const struct enclosure {
    const char *open, *between, *close;
} enclosures[] = {
    [AST_QUERY] = { "", " ", "" },
    [AST_SUBQUERY] = { "(", " ", ")" },
    [AST_WITH] = { "WITH ", ", ", "" },
    [AST_FILTER] = { "FILTER ", "", "" },
    [AST_SORT] = { "SORT ", ", ", "" },
    [AST_LET] = { "LET ", " = ", "" },
    [AST_LIST] = { "", ", ", "" },
    [AST_ARRAY_PATTERN] = { "[", ", ", "]" },
    [AST_OBJECT_PATTERN] = { "{", ", ", "}" },
    [AST_FIELD_PATTERN] = { ": ", "", "" },
    [AST_ASSIGN] = { "", " = ", "" },
    [AST_GRAPH] = { "GRAPH ", "", "" },
    [AST_EDGES] = { "", ", ", "" },
    [AST_CALL] = { "(", ", ", ")" },
    [AST_ARRAY] = { "[", ", ", "]" },
    [AST_OBJECT] = { "{", ", ", "}" },
    [AST_FIELD] = { ": ", "", "" },
    [AST_FIELD_BIND] = { ": ", "", "" },
    [AST_FIELD_COMPUTED] = { "[", "]: ", "" },
};

static void print_enclosed(const struct ast *n, struct buf *out)
{
    const struct enclosure *e = &enclosures[n->kind];
    buf_add_str(out, e->open);
    print_each(n, e->between, out);
    buf_add_str(out, e->close);
}

/* ---- expressions ---- */

static enum level level_of(const struct ast *n)
{
    if (n->kind == AST_TERNARY)
        return LEVEL_TERNARY;
    if (n->kind == AST_QUANTIFIED)
        return LEVEL_QUANTIFIED;
    if (n->kind == AST_RANGE)
        return LEVEL_RANGE;
    if (n->kind == AST_UNARY || n->kind == AST_BINARY)
        return ops[n->op].level;
    if (n->kind == AST_VALUE && val_type(n->val) == VAL_NUMBER && val_double(n->val) < 0)
        return LEVEL_UNARY;
    if (n->kind == AST_VALUE || n->kind == AST_EXPAND) /* what follows would go into its tail */
        return LEVEL_LITERAL;
    return LEVEL_REFERENCE; /* closed in itself */
}

static void print_operand(const struct ast *n, enum level min, struct buf *out)
{
    bool is_open = level_of(n) < min;
    if (is_open)
        buf_add_char(out, '(');
    print(n, out);
    if (is_open)
        buf_add_char(out, ')');
}

static void print_binary(const struct ast *n, struct buf *out)
{
    enum level level = ops[n->op].level;
    /* NOT of NOT LIKE binds as IN does: an equality before it would be cut in two. */
    print_operand(n->kids[0], n->op == AST_OP_NOT_LIKE ? LEVEL_IN : level, out);
    buf_printf(out, " %s ", ops[n->op].text);
    print_operand(n->kids[1], level + 1, out);
}

static void print_quantified(const struct ast *n, struct buf *out)
{
    print_operand(n->kids[0], LEVEL_QUANTIFIED, out);
    buf_add_char(out, ' ');
    print(n->kids[2], out);
    buf_printf(out, " %s ", ops[n->op].text);
    print_operand(n->kids[1], ops[n->op].level + 1, out);
}

static void print_quantifier(const struct ast *n, struct buf *out)
{
    switch ((enum ast_quantifier)n->op) {
    case AST_Q_ALL:
        buf_add_str(out, "ALL");
        break;
    case AST_Q_ANY:
        buf_add_str(out, "ANY");
        break;
    case AST_Q_NONE:
        buf_add_str(out, "NONE");
        break;
    case AST_Q_AT_LEAST:
        buf_add_str(out, "AT LEAST (");
        print(n->kids[0], out);
        buf_add_char(out, ')');
        break;
    case AST_Q_COUNT:
        print(n->kids[0], out);
        break;
    }
}

static void print_ternary(const struct ast *n, struct buf *out)
{
    print_operand(n->kids[0], LEVEL_TERNARY + 1, out);
    buf_add_str(out, " ?");
    if (n->kids[1]) {
        buf_add_char(out, ' ');
        print(n->kids[1], out);
    }
    buf_add_str(out, " : ");
    print(n->kids[2], out);
}

/* The array or object before an accessor. In a tail that is an expansion without parentheses. */
static void print_base(const struct ast *n, struct buf *out)
{
    print_operand(n, LEVEL_REFERENCE, out);
}

static void print_attr(const struct ast *n, struct buf *out)
{
    print_base(n->kids[0], out);
    if (n->name.len == 0) {
        buf_add_str(out, "[\"\"]");
    } else {
        buf_add_char(out, '.');
        print_name(n->name, WORD_CONTEXTUAL, out);
    }
}

static void print_index(const struct ast *n, struct buf *out)
{
    print_base(n->kids[0], out);
    buf_add_char(out, '[');
    print(n->kids[1], out);
    buf_add_char(out, ']');
}

static void print_levels(const struct ast *n, char mark, struct buf *out)
{
    buf_add_char(out, '[');
    for (unsigned i = 0; i < n->op; i++)
        buf_add_char(out, mark);
}

static void print_expand(const struct ast *n, struct buf *out)
{
    print_base(n->kids[0], out);
    print_levels(n, '*', out);
    print_word("FILTER", n->kids[1], out);
    if (n->kids[2]) {
        print_word("LIMIT", n->kids[2], out);
        buf_add_str(out, ", ");
        print(n->kids[3], out);
    } else {
        print_word("LIMIT", n->kids[3], out);
    }
    print_word("RETURN", n->kids[4], out);
    buf_add_char(out, ']');
    if (n->kids[5])
        print(n->kids[5], out);
}

static void print_array_test(const struct ast *n, struct buf *out)
{
    print_base(n->kids[0], out);
    print_levels(n, '?', out);
    if (n->kids[1]) {
        buf_add_char(out, ' ');
        print(n->kids[1], out);
    }
    print_word("FILTER", n->kids[2], out);
    buf_add_char(out, ']');
}

/* ---- operations ---- */

static void print_options(const struct ast *n, struct buf *out)
{
    print_word("OPTIONS", n, out);
}

/* From kid first on: vars, then depth and direction. */
static void print_path_head(const struct ast *n, unsigned vars, const struct ast *depth,
                            struct buf *out)
{
    buf_add_str(out, "FOR ");
    for (unsigned i = 0; i < vars && n->kids[i]; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        print(n->kids[i], out);
    }
    buf_add_str(out, " IN ");
    if (depth) {
        print_operand(depth, LEVEL_QUANTIFIED, out);
        buf_add_char(out, ' ');
    }
    buf_printf(out, "%s ", directions[n->op]);
}

/* first: the kid that is the start; target, graph and options follow it. */
static void print_path_search(const struct ast *n, const char *name, unsigned vars,
                              const struct ast *depth, unsigned first, struct buf *out)
{
    print_path_head(n, vars, depth, out);
    buf_printf(out, "%s ", name);
    print(n->kids[first], out);
    buf_add_str(out, " TO ");
    print_operand(n->kids[first + 1], LEVEL_QUANTIFIED, out);
    buf_add_char(out, ' ');
    print(n->kids[first + 2], out);
    print_options(n->kids[first + 3], out);
}

static void print_traverse(const struct ast *n, struct buf *out)
{
    print_path_head(n, 3, n->kids[3], out);
    print_operand(n->kids[4], LEVEL_QUANTIFIED, out);
    buf_add_char(out, ' ');
    print(n->kids[5], out);
    if (n->kids[6]) {
        buf_add_char(out, ' ');
        print(n->kids[6], out);
    }
    print_options(n->kids[7], out);
}

static void print_for(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "FOR ");
    print(n->kids[0], out);
    print_word("IN", n->kids[1], out);
    print_word("SEARCH", n->kids[2], out);
    print_options(n->kids[3], out);
}

static void print_sort_key(const struct ast *n, struct buf *out)
{
    print(n->kids[0], out);
    if (n->kids[1]) {
        buf_add_char(out, ' ');
        print(n->kids[1], out);
    } else if (n->op == AST_DESC) {
        buf_add_str(out, " DESC");
    }
}

static void print_prune(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "PRUNE ");
    if (n->kids[0]) {
        print(n->kids[0], out);
        buf_add_str(out, " = ");
    }
    print(n->kids[1], out);
}

static void print_limit(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "LIMIT ");
    if (n->kids[0]) {
        print(n->kids[0], out);
        buf_add_str(out, ", ");
    }
    print(n->kids[1], out);
}

static void print_collect(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "COLLECT");
    if (n->kids[0]->count > 0) {
        buf_add_char(out, ' ');
        print(n->kids[0], out);
    }
    if (n->kids[1]->count > 0)
        print_word("AGGREGATE", n->kids[1], out);
    if (n->kids[2]) {
        buf_add_char(out, ' ');
        print(n->kids[2], out);
    }
    print_word("KEEP", n->kids[3], out);
    print_word("WITH COUNT INTO", n->kids[4], out);
    print_options(n->kids[5], out);
}

static void print_window(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "WINDOW ");
    if (n->kids[0]) {
        print(n->kids[0], out);
        buf_add_str(out, " WITH ");
    }
    print(n->kids[1], out);
    print_word("AGGREGATE", n->kids[2], out);
}

static void print_return(const struct ast *n, struct buf *out)
{
    buf_add_str(out, n->flags & AST_IS_DISTINCT ? "RETURN DISTINCT " : "RETURN ");
    print(n->kids[0], out);
}

static void print_insert(const struct ast *n, struct buf *out)
{
    buf_add_str(out, "INSERT ");
    print(n->kids[0], out);
    print_word("INTO", n->kids[1], out);
    print_options(n->kids[2], out);
}

/* IN would become the operator behind an operand that binds less tightly. */
static void print_target(const struct ast *document, const struct ast *collection,
                         const struct ast *options, struct buf *out)
{
    print_operand(document, LEVEL_IN, out);
    print_word("IN", collection, out);
    print_options(options, out);
}

static void print_update(const struct ast *n, const char *verb, struct buf *out)
{
    buf_printf(out, "%s ", verb);
    if (n->kids[0]) {
        print(n->kids[0], out);
        buf_add_str(out, " WITH ");
    }
    print_target(n->kids[1], n->kids[2], n->kids[3], out);
}

static void print_upsert(const struct ast *n, struct buf *out)
{
    buf_add_str(out, n->flags & AST_IS_FILTER ? "UPSERT FILTER " : "UPSERT ");
    print(n->kids[0], out);
    print_word("INSERT", n->kids[1], out);
    buf_add_str(out, n->op == AST_UPDATE ? " UPDATE " : " REPLACE ");
    print_target(n->kids[2], n->kids[3], n->kids[4], out);
}

/* ---- one node; recursion is bounded by the depth of trees ---- */

/* long: one case per kind, so that the compiler finds a new one */
static void print(const struct ast *n, struct buf *out)
{
    switch (ast_kind(n)) {
    case AST_QUERY:
    case AST_SUBQUERY:
    case AST_WITH:
    case AST_FILTER:
    case AST_SORT:
    case AST_LET:
    case AST_LIST:
    case AST_ARRAY_PATTERN:
    case AST_OBJECT_PATTERN:
    case AST_ASSIGN:
    case AST_GRAPH:
    case AST_EDGES:
    case AST_ARRAY:
    case AST_OBJECT:
    case AST_FIELD_COMPUTED:
        print_enclosed(n, out);
        break;
    case AST_FOR:
        print_for(n, out);
        break;
    case AST_TRAVERSE:
        print_traverse(n, out);
        break;
    case AST_SHORTEST_PATH:
        print_path_search(n, "SHORTEST_PATH", 2, NULL, 2, out);
        break;
    case AST_ALL_SHORTEST_PATHS:
        print_path_search(n, "ALL_SHORTEST_PATHS", 1, NULL, 1, out);
        break;
    case AST_K_SHORTEST_PATHS:
        print_path_search(n, "K_SHORTEST_PATHS", 1, NULL, 1, out);
        break;
    case AST_K_PATHS:
        print_path_search(n, "K_PATHS", 1, n->kids[1], 2, out);
        break;
    case AST_LIMIT:
        print_limit(n, out);
        break;
    case AST_COLLECT:
        print_collect(n, out);
        break;
    case AST_WINDOW:
        print_window(n, out);
        break;
    case AST_RETURN:
        print_return(n, out);
        break;
    case AST_INSERT:
        print_insert(n, out);
        break;
    case AST_UPDATE:
        print_update(n, "UPDATE", out);
        break;
    case AST_REPLACE:
        print_update(n, "REPLACE", out);
        break;
    case AST_REMOVE:
        buf_add_str(out, "REMOVE ");
        print_target(n->kids[0], n->kids[1], n->kids[2], out);
        break;
    case AST_UPSERT:
        print_upsert(n, out);
        break;
    case AST_VAR:
    case AST_NAME:
        print_name(n->name, WORD_PLAIN, out);
        break;
    case AST_FIELD_PATTERN:
    case AST_FIELD:
        print_member(n->name, out);
        print_enclosed(n, out);
        break;
    case AST_INTO:
        buf_add_str(out, "INTO ");
        print(n->kids[0], out);
        print_word("=", n->kids[1], out);
        break;
    case AST_SORT_KEY:
        print_sort_key(n, out);
        break;
    case AST_PRUNE:
        print_prune(n, out);
        break;
    case AST_EDGE_COLLECTION:
        buf_printf(out, "%s ", directions[n->op]);
        print(n->kids[0], out);
        break;
    case AST_QUANTIFIER:
        print_quantifier(n, out);
        break;
    case AST_VALUE:
        print_value(n->val, out);
        break;
    case AST_BIND:
    case AST_BIND_COLLECTION: /* its name begins with a second @ */
        buf_printf(out, "@%.*s", SLICE_ARG(n->name));
        break;
    case AST_ATTR:
        print_attr(n, out);
        break;
    case AST_ATTR_BIND:
        print_base(n->kids[0], out);
        buf_printf(out, ".@%.*s", SLICE_ARG(n->name));
        break;
    case AST_INDEX:
        print_index(n, out);
        break;
    case AST_EXPAND:
        print_expand(n, out);
        break;
    case AST_ELEMENT:
        break; /* the tail begins here */
    case AST_ARRAY_TEST:
        print_array_test(n, out);
        break;
    case AST_CALL:
        print_function(n->name, out);
        print_enclosed(n, out);
        break;
    case AST_UNARY:
        buf_add_str(out, ops[n->op].text);
        print_operand(n->kids[0], LEVEL_UNARY, out);
        break;
    case AST_BINARY:
        print_binary(n, out);
        break;
    case AST_QUANTIFIED:
        print_quantified(n, out);
        break;
    case AST_TERNARY:
        print_ternary(n, out);
        break;
    case AST_RANGE:
        print_operand(n->kids[0], LEVEL_RANGE, out);
        buf_add_str(out, "..");
        print_operand(n->kids[1], LEVEL_RANGE + 1, out);
        break;
    case AST_FIELD_BIND:
        buf_printf(out, "@%.*s", SLICE_ARG(n->name));
        print_enclosed(n, out);
        break;
    }
}

void ast_print(const struct ast *n, struct buf *out)
{
    print(n, out);
}
