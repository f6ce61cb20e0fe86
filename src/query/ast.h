/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ast -- the tree of one AQL query: its kinds, and which children each has.
 *
 * A tree lives in one arena, is made by aql_parse and never changes shape
 * afterwards; the resolver may fill slot. Names are not resolved: a bare name
 * is AST_NAME whether it will be a variable, a collection or a view.
 *
 * Children are listed below in brackets, in their order. A child marked with ?
 * may be absent and is then a NULL pointer at its place, so that an index
 * always means the same child. "each" means any number of children. A
 * "collection" is AST_NAME or AST_BIND_COLLECTION; declared collections and edge
 * collections may also be AST_BIND.
 */
#ifndef QUERY_AST_H
#define QUERY_AST_H

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/val.h"

enum ast_kind {
    /* ---- queries ---- */
    AST_QUERY,    /* [each operation] the whole text */
    AST_SUBQUERY, /* [each operation] an expression; its value is an array */

    /* ---- operations ---- */
    AST_WITH,               /* [each collection] declared collections */
    AST_FOR,                /* [pattern, source, search?, options?] pattern: as for AST_LET */
    AST_TRAVERSE,           /* [vertex AST_VAR, edge AST_VAR?, path AST_VAR?, depth?, start, graph,
                               AST_PRUNE?, options?] op: ast_direction; depth: AST_RANGE or one
                               number */
    AST_SHORTEST_PATH,      /* [vertex AST_VAR, edge AST_VAR?, start, target, graph, options?]
                               op: ast_direction, as for the three below */
    AST_ALL_SHORTEST_PATHS, /* [path AST_VAR, start, target, graph, options?] */
    AST_K_SHORTEST_PATHS,   /* [path AST_VAR, start, target, graph, options?] */
    AST_K_PATHS,            /* [path AST_VAR, depth?, start, target, graph, options?] */
    AST_FILTER,             /* [condition] */
    AST_SORT,               /* [each AST_SORT_KEY] */
    AST_LIMIT,              /* [offset?, count] */
    AST_LET,                /* [pattern, value] one per assignment; pattern: AST_VAR,
                               AST_ARRAY_PATTERN or AST_OBJECT_PATTERN */
    AST_COLLECT,            /* [keys AST_LIST of AST_ASSIGN, aggregates AST_LIST of AST_ASSIGN,
                               AST_INTO?, keep AST_LIST of AST_NAME?, count AST_VAR?, options?]
                               count: WITH COUNT INTO. Both lists are always there, maybe empty */
    AST_WINDOW,             /* [range value?, bounds, aggregates AST_LIST of AST_ASSIGN]
                               without range value the bounds count rows */
    AST_RETURN,             /* [value] flag AST_IS_DISTINCT */
    AST_INSERT,             /* [document, collection, options?] */
    AST_UPDATE,             /* [key?, document, collection, options?] no key: the document has it */
    AST_REPLACE,            /* [key?, document, collection, options?] */
    AST_REMOVE,             /* [key or document, collection, options?] */
    AST_UPSERT,             /* [search, insert, update, collection, options?]
                               op: AST_UPDATE or AST_REPLACE; flag AST_IS_FILTER: search is a
                               condition over CURRENT, otherwise an example document */

    /* ---- parts of operations ---- */
    AST_LIST,            /* [each] */
    AST_VAR,             /* [] name: a variable that is declared here */
    AST_ARRAY_PATTERN,   /* [each pattern?] absent: the element is skipped */
    AST_OBJECT_PATTERN,  /* [each AST_FIELD_PATTERN] */
    AST_FIELD_PATTERN,   /* [pattern] name: the attribute */
    AST_ASSIGN,          /* [AST_VAR, value] */
    AST_INTO,            /* [AST_VAR, value?] */
    AST_SORT_KEY,        /* [value, direction?] op: ast_order, unless direction is there:
                            a bind parameter or a value that says "ASC" or "DESC" */
    AST_PRUNE,           /* [AST_VAR?, condition] */
    AST_GRAPH,           /* [name] a named graph; name: a string, a name or a bind parameter */
    AST_EDGES,           /* [each AST_EDGE_COLLECTION] an anonymous graph */
    AST_EDGE_COLLECTION, /* [collection] op: ast_direction, the operation's unless it has its own */
    AST_QUANTIFIER,      /* [number?] op: ast_quantifier; number: for AT LEAST and for a count */

    /* ---- expressions ---- */
    AST_VALUE,           /* [] val: null, bool, number (with its sign) or string */
    AST_NAME,            /* [] name: variable, collection, view, or CURRENT, NEW, OLD */
    AST_BIND,            /* [] name: @name without its @ */
    AST_BIND_COLLECTION, /* [] name: @@name with one @, as in the bind values */
    AST_ATTR,            /* [object] name: object.name and object["name"], but ["0"] is AST_INDEX */
    AST_ATTR_BIND,       /* [object] name: of the bind parameter; a string or an array of them */
    AST_INDEX,           /* [object, index] */
    AST_EXPAND,          /* [array, filter?, offset?, count?, projection?, tail?] op: levels, 1 for
                            [*], 2 for [**]. filter and projection see CURRENT. tail is the
                            access behind the bracket, applied to each element; its
                            innermost object is AST_ELEMENT: a[*].b has tail ATTR(ELEMENT, b),
                            a[*].b[*].c has tail EXPAND(ATTR(ELEMENT, b), tail ATTR(ELEMENT, c)),
                            and a[*].b[**] is EXPAND(a[*].b) as ArangoDB has it */
    AST_ELEMENT,         /* [] the element within the nearest tail */
    AST_ARRAY_TEST,      /* [array, AST_QUANTIFIER?, filter?] op: levels as for AST_EXPAND;
                            a[? ANY FILTER ...]; no quantifier is ANY; neither: not empty */
    AST_CALL,            /* [each argument] name: upper case, with namespace. INFER and EMBED in
                            either form: [model, prompt, options?] and [model, text] */
    AST_UNARY,           /* [value] op: AST_OP_NOT, AST_OP_PLUS, AST_OP_MINUS */
    AST_BINARY,          /* [left, right] op: ast_op */
    AST_QUANTIFIED,      /* [array, right, AST_QUANTIFIER] op: AST_OP_EQ to AST_OP_NOT_IN */
    AST_TERNARY,         /* [condition, then?, else] a ? : b has no then */
    AST_RANGE,           /* [from, to] */
    AST_ARRAY,           /* [each element] */
    AST_OBJECT,          /* [each AST_FIELD, AST_FIELD_BIND or AST_FIELD_COMPUTED] of a name given
                            twice the first counts */
    AST_FIELD,           /* [value] name; {x} is the same as {x: x} */
    AST_FIELD_BIND,      /* [value] name: of the bind parameter that holds the field's name */
    AST_FIELD_COMPUTED,  /* [field's name, value] */
};

/* Of AST_UNARY, AST_BINARY and AST_QUANTIFIED. */
enum ast_op {
    AST_OP_OR,
    AST_OP_AND,
    AST_OP_EQ, /* first that can be quantified */
    AST_OP_NE,
    AST_OP_LT,
    AST_OP_LE,
    AST_OP_GT,
    AST_OP_GE,
    AST_OP_IN,
    AST_OP_NOT_IN, /* last that can be quantified */
    AST_OP_LIKE,
    AST_OP_NOT_LIKE,
    AST_OP_MATCH,     /* =~ */
    AST_OP_NOT_MATCH, /* !~ */
    AST_OP_ADD,
    AST_OP_SUB,
    AST_OP_MUL,
    AST_OP_DIV,
    AST_OP_MOD,
    AST_OP_NOT,
    AST_OP_PLUS,
    AST_OP_MINUS,
};

enum ast_direction { AST_OUTBOUND, AST_INBOUND, AST_ANY };
enum ast_order { AST_ASC, AST_DESC };
/* AST_Q_COUNT: exactly so many, or a range of numbers; only within AST_ARRAY_TEST. */
enum ast_quantifier { AST_Q_ALL, AST_Q_ANY, AST_Q_NONE, AST_Q_AT_LEAST, AST_Q_COUNT };

enum ast_flags {
    AST_IS_DISTINCT = 1, /* AST_RETURN */
    AST_IS_FILTER = 2,   /* AST_UPSERT */
};

struct ast {
    uint8_t kind;        /* enum ast_kind */
    uint8_t op;          /* see the kind */
    uint16_t flags : 4;  /* enum ast_flags */
    uint16_t depth : 12; /* levels of this tree, 1 without children; at most LIMIT_AQL_NESTING */
    uint32_t pos;        /* byte offset in the text where it begins; of an operator, a dot's name or
                          a bracket where that stands */
    uint32_t count;      /* children */
    uint32_t slot;       /* the resolver's; 0 from the parser */
    struct ast **kids;   /* NULL when there are none */
    struct slice name;   /* unescaped, lives in the arena */
    struct val val;      /* AST_VALUE only */
};

static inline enum ast_kind ast_kind(const struct ast *n)
{
    return (enum ast_kind)n->kind;
}

/*
 * Parses a whole query. On OK *out is AST_QUERY and lives in arena together with
 * everything it refers to, except that it borrows nothing from text. Thread-safe.
 * Errors carry "at position LINE:COLUMN" (both from 1, columns in bytes):
 * 1501 syntax, 1502 empty, 1524 nesting over LIMIT_AQL_NESTING, 32 memory.
 */
MUST_CHECK enum errc aql_parse(struct slice text, struct arena *arena, struct ast **out,
                               struct error *err);

/* Line and column of an offset. */
struct ast_position {
    unsigned line, column;
};
struct ast_position ast_position(struct slice text, uint32_t pos);

/* Appends canonical AQL on one line; parsing it gives an equal tree. Queries and expressions. */
void ast_print(const struct ast *n, struct buf *out);

/* Same kinds, names, values and children; positions and slots do not count. Either may be NULL. */
bool ast_equal(const struct ast *a, const struct ast *b);

const char *ast_kind_name(enum ast_kind kind); /* "for", "traverse": for explain and messages */

#endif
