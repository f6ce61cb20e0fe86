/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of AQL. Rules read like the manual; what a rule makes is a call
 * of one constructor. Precedences are ArangoDB's, lowest first. There are no
 * conflicts besides those that the precedences decide.
 */
%include {
#include "query/parse_aql.h"
#include <stdlib.h>

/* The engine's stack grows on the heap, through one door and up to a limit. */
#define YYSTACKDEPTH 0
#define malloc(bytes) parse_stack_grow(NULL, bytes)
#define realloc(ptr, bytes) parse_stack_grow(ptr, bytes)
#define free(ptr) mem_free(ptr)

#define UNARY(op, t, x) parse_unary(p, AST_OP_##op, &(t), x)
#define BINARY(op, t, l, r) parse_binary(p, AST_OP_##op, &(t), l, r)
#define QUANTIFIED(op, t, l, q, r) parse_quantified(p, AST_OP_##op, &(t), l, q, r)
#define LEAF(kind, t) parse_leaf(p, kind, &(t))
#define NAMED(kind, t, kid) parse_named(p, kind, &(t), kid)
#define LIST(kind, t, list) parse_list_node(p, kind, (t).pos, list)
}

%name aql_engine
%token_prefix TK_
%token_type {struct token}
%default_type {struct ast *}
%extra_argument {struct parser *p}
%start_symbol start
%stack_size 0

%syntax_error { parse_syntax_error(p, &TOKEN); }
%stack_overflow { parse_fail(p, 1524, p->lexer.pos, "too much nesting or too many objects"); }

/* Words that are keywords in their place and names elsewhere. */
%fallback ID COUNT DOMAIN KEEP OPTIONS PRUNE SEARCH TO.
/* AT, LEAST, INFER and EMBED are decided before the grammar sees them. */
%token AT LEAST ILLEGAL.

%nonassoc INFER EMBED.
%nonassoc DOMAIN OPTIONS.
%right QUESTION COLON.
%left OR.
%left AND.
%nonassoc OUTBOUND INBOUND ANY ALL NONE.
%left AT_LEAST.
%left EQ NE LIKE MATCH NOT_MATCH.
%left IN NOT NOT_IN.
%left LT LE GT GE.
%left RANGE.
%left PLUS MINUS.
%left TIMES DIV MOD.
%right UNARY.

/* ---- queries ---- */

start ::= with_query(Q). { p->result = parse_query(p, AST_QUERY, 0, Q); }

%type with_query {struct ast_list *}
%type query {struct ast_list *}
%type ops {struct ast_list *}
%type lets {struct ast_list *}
with_query(A) ::= query(Q). { A = Q; }
with_query(A) ::= WITH(T) with_list(W) query(Q). {
    A = parse_append(p, parse_list(p), LIST(AST_WITH, T, W));
    for (uint32_t i = 0; i < Q->count; i++)
        parse_append(p, A, Q->items[i]);
}
%type with_list {struct ast_list *}
with_list(A) ::= source_name(C). { A = parse_append(p, parse_list(p), C); }
with_list(A) ::= with_list(L) source_name(C). { A = parse_append(p, L, C); }
with_list(A) ::= with_list(L) COMMA source_name(C). { A = parse_append(p, L, C); }

/* A query ends in RETURN or in a write. */
query(A) ::= ops(L) write(W). { A = parse_append(p, L, W); }
query(A) ::= ops(L) RETURN(T) expr(E). { A = parse_append(p, L, NODE(AST_RETURN, T.pos, E)); }
query(A) ::= ops(L) RETURN(T) DISTINCT expr(E). {
    struct ast *n = NODE(AST_RETURN, T.pos, E);
    n->flags = AST_IS_DISTINCT;
    A = parse_append(p, L, n);
}

ops(A) ::= . { A = parse_list(p); }
ops(A) ::= ops(L) op(X). { A = parse_append(p, L, X); }
ops(A) ::= ops(L) write(X). { A = parse_append(p, L, X); }
ops(A) ::= lets(L). { A = L; }
lets(A) ::= ops(L) LET let(X). { A = parse_append(p, L, X); }
lets(A) ::= lets(L) COMMA let(X). { A = parse_append(p, L, X); }
let(A) ::= pattern(V) ASSIGN expr(E). { A = NODE(AST_LET, V->pos, V, E); }

/* ---- names ---- */

collection(A) ::= ID(T). { A = LEAF(AST_NAME, T); }
collection(A) ::= BIND_COLLECTION(T). { A = LEAF(AST_BIND_COLLECTION, T); }
source_name(A) ::= collection(C). { A = C; }
source_name(A) ::= BIND(T). { A = LEAF(AST_BIND, T); }
variable(A) ::= ID(T). { A = LEAF(AST_VAR, T); }

pattern(A) ::= variable(V). { A = V; }
pattern(A) ::= nested_pattern(P). { A = P; }
nested_pattern(A) ::= LB(T) skips_pattern(L) RB. { A = parse_array_pattern(p, &T, L); }
nested_pattern(A) ::= LC(T) field_patterns(L) RC. { A = LIST(AST_OBJECT_PATTERN, T, L); }
nested_pattern(A) ::= LC(T) field_patterns(L) COMMA RC. { A = LIST(AST_OBJECT_PATTERN, T, L); }
%type skips_pattern {struct ast_list *}
skips_pattern(A) ::= maybe_pattern(X). { A = parse_append(p, parse_list(p), X); }
skips_pattern(A) ::= skips_pattern(L) COMMA maybe_pattern(X). { A = parse_append(p, L, X); }
maybe_pattern(A) ::= . { A = NULL; }
maybe_pattern(A) ::= pattern(P). { A = P; }
%type field_patterns {struct ast_list *}
field_patterns(A) ::= field_pattern(X). { A = parse_append(p, parse_list(p), X); }
field_patterns(A) ::= field_patterns(L) COMMA field_pattern(X). { A = parse_append(p, L, X); }
field_pattern(A) ::= ID(T). { A = NAMED(AST_FIELD_PATTERN, T, LEAF(AST_VAR, T)); }
field_pattern(A) ::= ID(T) COLON pattern(P). { A = NAMED(AST_FIELD_PATTERN, T, P); }
field_pattern(A) ::= STRING(T) COLON pattern(P). { A = NAMED(AST_FIELD_PATTERN, T, P); }

/* ---- FOR ---- */

%type for_vars {struct ast_list *}
%type names {struct ast_list *}
for_vars(A) ::= names(L). { A = L; }
for_vars(A) ::= nested_pattern(P). { A = parse_append(p, parse_list(p), P); }
names(A) ::= variable(V). { A = parse_append(p, parse_list(p), V); }
names(A) ::= names(L) COMMA variable(V). { A = parse_append(p, L, V); }

op(A) ::= FOR(T) for_vars(V) IN expr(S) search(C) options(O). {
    A = parse_for(p, &T, V, S, C, O);
}
search(A) ::= . { A = NULL; }
search(A) ::= SEARCH expr(E). { A = E; }

op(A) ::= FOR(T) for_vars(V) IN steps(D) expr(S) graph(G) prune(P) options(O). {
    struct path_parts parts = { AST_TRAVERSE, D.direction, V, D.depth, S, NULL, G, P, O };
    A = parse_path(p, &T, parts);
}
op(A) ::= FOR(T) for_vars(V) IN direction(D) path_search(K) expr(S) TO expr(E) graph(G)
          options(O). {
    enum ast_direction direction = (enum ast_direction)D;
    struct path_parts parts = { (enum ast_kind)K, direction, V, NULL, S, E, G, NULL, O };
    A = parse_path(p, &T, parts);
}
op(A) ::= FOR(T) for_vars(V) IN steps(D) K_PATHS expr(S) TO expr(E) graph(G) options(O). {
    struct path_parts parts = { AST_K_PATHS, D.direction, V, D.depth, S, E, G, NULL, O };
    A = parse_path(p, &T, parts);
}

%type direction {int}
direction(A) ::= OUTBOUND. { A = AST_OUTBOUND; }
direction(A) ::= INBOUND. { A = AST_INBOUND; }
direction(A) ::= ANY. { A = AST_ANY; }
%type steps {struct path_steps}
steps(A) ::= direction(D). { A = (struct path_steps){ .direction = (enum ast_direction)D }; }
steps(A) ::= expr(E) direction(D). {
    A = (struct path_steps){ .direction = (enum ast_direction)D, .depth = E };
}
%type path_search {int}
path_search(A) ::= SHORTEST_PATH. { A = AST_SHORTEST_PATH; }
path_search(A) ::= ALL_SHORTEST_PATHS. { A = AST_ALL_SHORTEST_PATHS; }
path_search(A) ::= K_SHORTEST_PATHS. { A = AST_K_SHORTEST_PATHS; }

graph(A) ::= GRAPH(T) ID(N). { A = NODE(AST_GRAPH, T.pos, LEAF(AST_NAME, N)); }
graph(A) ::= GRAPH(T) STRING(N). { A = NODE(AST_GRAPH, T.pos, LEAF(AST_VALUE, N)); }
graph(A) ::= GRAPH(T) bind(N). { A = NODE(AST_GRAPH, T.pos, N); }
graph(A) ::= edges(L). { A = parse_list_node(p, AST_EDGES, L->pos, L); }
%type edges {struct ast_list *}
edges(A) ::= edge(X). { A = parse_append(p, parse_list(p), X); }
edges(A) ::= edges(L) COMMA edge(X). { A = parse_append(p, L, X); }
edge(A) ::= source_name(C). {
    A = parse_with_op(NODE(AST_EDGE_COLLECTION, C->pos, C), EDGE_AS_OPERATION);
}
edge(A) ::= direction(D) source_name(C). {
    A = parse_with_op(NODE(AST_EDGE_COLLECTION, C->pos, C), D);
}

prune(A) ::= . { A = NULL; }
prune(A) ::= PRUNE(T) expr(E). { A = NODE(AST_PRUNE, T.pos, NULL, E); }
prune(A) ::= PRUNE(T) variable(V) ASSIGN expr(E). { A = NODE(AST_PRUNE, T.pos, V, E); }

options(A) ::= . { A = NULL; }
options(A) ::= OPTIONS object(O). { A = O; }
options(A) ::= OPTIONS BIND(T). { A = LEAF(AST_BIND, T); }

/* ---- other reading operations ---- */

op(A) ::= FILTER(T) expr(E). { A = NODE(AST_FILTER, T.pos, E); }
op(A) ::= SORT(T) sort_keys(L). { A = LIST(AST_SORT, T, L); }
op(A) ::= LIMIT(T) expr(N). { A = NODE(AST_LIMIT, T.pos, NULL, N); }
op(A) ::= LIMIT(T) expr(F) COMMA expr(N). { A = NODE(AST_LIMIT, T.pos, F, N); }

%type sort_keys {struct ast_list *}
sort_keys(A) ::= sort_key(X). { A = parse_append(p, parse_list(p), X); }
sort_keys(A) ::= sort_keys(L) COMMA sort_key(X). { A = parse_append(p, L, X); }
sort_key(A) ::= expr(E). { A = parse_sort_key(p, E, NULL); }
sort_key(A) ::= expr(E) ASC. { A = parse_sort_key(p, E, NULL); }
sort_key(A) ::= expr(E) DESC. { A = parse_with_op(parse_sort_key(p, E, NULL), AST_DESC); }
sort_key(A) ::= expr(E) literal(V). { A = parse_sort_key(p, E, V); }
sort_key(A) ::= expr(E) BIND(T). { A = parse_sort_key(p, E, LEAF(AST_BIND, T)); }

op(A) ::= COLLECT(T) count_into(N) options(O). {
    A = parse_collect(p, &T, NULL, NULL, NULL, NULL, N, O);
}
op(A) ::= COLLECT(T) assigns(K) count_into(N) options(O). {
    A = parse_collect(p, &T, K, NULL, NULL, NULL, N, O);
}
op(A) ::= COLLECT(T) assigns(K) into(I) keep(V) options(O). {
    A = parse_collect(p, &T, K, NULL, I, V, NULL, O);
}
op(A) ::= COLLECT(T) assigns(K) aggregate(G) into(I) keep(V) options(O). {
    A = parse_collect(p, &T, K, G, I, V, NULL, O);
}
op(A) ::= COLLECT(T) aggregate(G) into(I) keep(V) options(O). {
    A = parse_collect(p, &T, NULL, G, I, V, NULL, O);
}
count_into(A) ::= WITH COUNT INTO variable(V). { A = V; }
%type assigns {struct ast_list *}
assigns(A) ::= assign(X). { A = parse_append(p, parse_list(p), X); }
assigns(A) ::= assigns(L) COMMA assign(X). { A = parse_append(p, L, X); }
assign(A) ::= variable(V) ASSIGN expr(E). { A = NODE(AST_ASSIGN, V->pos, V, E); }
%type aggregate {struct ast_list *}
aggregate(A) ::= AGGREGATE aggregates(L). { A = L; }
%type aggregates {struct ast_list *}
aggregates(A) ::= aggregated(X). { A = parse_append(p, parse_list(p), X); }
aggregates(A) ::= aggregates(L) COMMA aggregated(X). { A = parse_append(p, L, X); }
aggregated(A) ::= variable(V) ASSIGN call(C). { A = NODE(AST_ASSIGN, V->pos, V, C); }
into(A) ::= . { A = NULL; }
into(A) ::= INTO(T) variable(V). { A = NODE(AST_INTO, T.pos, V, NULL); }
into(A) ::= INTO(T) variable(V) ASSIGN expr(E). { A = NODE(AST_INTO, T.pos, V, E); }
keep(A) ::= . { A = NULL; }
keep(A) ::= KEEP(T) kept(L). { A = LIST(AST_LIST, T, L); }
%type kept {struct ast_list *}
kept(A) ::= ID(T). { A = parse_append(p, parse_list(p), LEAF(AST_NAME, T)); }
kept(A) ::= kept(L) COMMA ID(T). { A = parse_append(p, L, LEAF(AST_NAME, T)); }

op(A) ::= WINDOW(T) object(B) aggregate(G). { A = parse_window(p, &T, NULL, B, G); }
op(A) ::= WINDOW(T) expr(R) WITH object(B) aggregate(G). { A = parse_window(p, &T, R, B, G); }

/* ---- writes ---- */

write(A) ::= INSERT(T) expr(D) target(C) options(O). { A = NODE(AST_INSERT, T.pos, D, C, O); }
write(A) ::= REMOVE(T) expr(D) target(C) options(O). { A = NODE(AST_REMOVE, T.pos, D, C, O); }
write(A) ::= UPDATE(T) expr(D) target(C) options(O). { A = NODE(AST_UPDATE, T.pos, NULL, D, C, O); }
write(A) ::= UPDATE(T) expr(K) WITH expr(D) target(C) options(O). {
    A = NODE(AST_UPDATE, T.pos, K, D, C, O);
}
write(A) ::= REPLACE(T) expr(D) target(C) options(O). {
    A = NODE(AST_REPLACE, T.pos, NULL, D, C, O);
}
write(A) ::= REPLACE(T) expr(K) WITH expr(D) target(C) options(O). {
    A = NODE(AST_REPLACE, T.pos, K, D, C, O);
}
write(A) ::= UPSERT(T) example(S) INSERT expr(I) upsert_with(W) expr(U) target(C) options(O). {
    A = parse_with_op(NODE(AST_UPSERT, T.pos, S, I, U, C, O), W);
}
write(A) ::= UPSERT(T) FILTER expr(S) INSERT expr(I) upsert_with(W) expr(U) target(C) options(O). {
    A = parse_with_op(NODE(AST_UPSERT, T.pos, S, I, U, C, O), W);
    A->flags = AST_IS_FILTER;
}
example(A) ::= object(O). { A = O; }
example(A) ::= bind(B). { A = B; }
%type upsert_with {int}
upsert_with(A) ::= UPDATE. { A = AST_UPDATE; }
upsert_with(A) ::= REPLACE. { A = AST_REPLACE; }
target(A) ::= IN into_collection(C). { A = C; }
target(A) ::= INTO into_collection(C). { A = C; }
into_collection(A) ::= collection(C). { A = C; }
into_collection(A) ::= STRING(T). { A = LEAF(AST_NAME, T); }

/* ---- expressions ---- */

expr(A) ::= literal(V). { A = V; }
expr(A) ::= ref(R). { A = R.node; }

expr(A) ::= PLUS(T) expr(X). [UNARY] { A = UNARY(PLUS, T, X); }
expr(A) ::= MINUS(T) expr(X). [UNARY] { A = UNARY(MINUS, T, X); }
expr(A) ::= NOT(T) expr(X). [UNARY] { A = UNARY(NOT, T, X); }

expr(A) ::= expr(L) OR(T) expr(R). { A = BINARY(OR, T, L, R); }
expr(A) ::= expr(L) AND(T) expr(R). { A = BINARY(AND, T, L, R); }
expr(A) ::= expr(L) EQ(T) expr(R). { A = BINARY(EQ, T, L, R); }
expr(A) ::= expr(L) NE(T) expr(R). { A = BINARY(NE, T, L, R); }
expr(A) ::= expr(L) LT(T) expr(R). { A = BINARY(LT, T, L, R); }
expr(A) ::= expr(L) LE(T) expr(R). { A = BINARY(LE, T, L, R); }
expr(A) ::= expr(L) GT(T) expr(R). { A = BINARY(GT, T, L, R); }
expr(A) ::= expr(L) GE(T) expr(R). { A = BINARY(GE, T, L, R); }
expr(A) ::= expr(L) IN(T) expr(R). { A = BINARY(IN, T, L, R); }
expr(A) ::= expr(L) NOT_IN(T) expr(R). { A = BINARY(NOT_IN, T, L, R); }
expr(A) ::= expr(L) LIKE(T) expr(R). { A = BINARY(LIKE, T, L, R); }
expr(A) ::= expr(L) NOT LIKE(T) expr(R). [LIKE] { A = BINARY(NOT_LIKE, T, L, R); }
expr(A) ::= expr(L) MATCH(T) expr(R). { A = BINARY(MATCH, T, L, R); }
expr(A) ::= expr(L) NOT MATCH(T) expr(R). [MATCH] { A = BINARY(NOT_MATCH, T, L, R); }
expr(A) ::= expr(L) NOT_MATCH(T) expr(R). { A = BINARY(NOT_MATCH, T, L, R); }
expr(A) ::= expr(L) NOT NOT_MATCH(T) expr(R). [MATCH] { A = BINARY(MATCH, T, L, R); }
expr(A) ::= expr(L) PLUS(T) expr(R). { A = BINARY(ADD, T, L, R); }
expr(A) ::= expr(L) MINUS(T) expr(R). { A = BINARY(SUB, T, L, R); }
expr(A) ::= expr(L) TIMES(T) expr(R). { A = BINARY(MUL, T, L, R); }
expr(A) ::= expr(L) DIV(T) expr(R). { A = BINARY(DIV, T, L, R); }
expr(A) ::= expr(L) MOD(T) expr(R). { A = BINARY(MOD, T, L, R); }
expr(A) ::= expr(L) RANGE(T) expr(R). { A = NODE(AST_RANGE, T.pos, L, R); }

expr(A) ::= expr(L) quantifier(Q) EQ(T) expr(R). { A = QUANTIFIED(EQ, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) NE(T) expr(R). { A = QUANTIFIED(NE, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) LT(T) expr(R). { A = QUANTIFIED(LT, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) LE(T) expr(R). { A = QUANTIFIED(LE, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) GT(T) expr(R). { A = QUANTIFIED(GT, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) GE(T) expr(R). { A = QUANTIFIED(GE, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) IN(T) expr(R). { A = QUANTIFIED(IN, T, L, Q, R); }
expr(A) ::= expr(L) quantifier(Q) NOT_IN(T) expr(R). { A = QUANTIFIED(NOT_IN, T, L, Q, R); }

quantifier(A) ::= ALL(T). { A = parse_with_op(NODE(AST_QUANTIFIER, T.pos, NULL), AST_Q_ALL); }
quantifier(A) ::= ANY(T). { A = parse_with_op(NODE(AST_QUANTIFIER, T.pos, NULL), AST_Q_ANY); }
quantifier(A) ::= NONE(T). { A = parse_with_op(NODE(AST_QUANTIFIER, T.pos, NULL), AST_Q_NONE); }
quantifier(A) ::= AT_LEAST(T) LP expr(N) RP. {
    A = parse_with_op(NODE(AST_QUANTIFIER, T.pos, N), AST_Q_AT_LEAST);
}

expr(A) ::= expr(C) QUESTION(T) expr(Y) COLON expr(N). { A = NODE(AST_TERNARY, T.pos, C, Y, N); }
expr(A) ::= expr(C) QUESTION(T) COLON expr(N). { A = NODE(AST_TERNARY, T.pos, C, NULL, N); }

/* The prompt reaches as far as it can; DOMAIN and OPTIONS belong to the nearest INFER. */
expr(A) ::= INFER(T) model(M) expr(P) domain(D) infer_options(O). {
    A = parse_infer(p, &T, M, P, D, O);
}
expr(A) ::= EMBED(T) model(M) expr(X). { A = parse_infer(p, &T, M, X, NULL, NULL); }
model(A) ::= STRING(T). { A = LEAF(AST_VALUE, T); }
model(A) ::= BIND(T). { A = LEAF(AST_BIND, T); }
domain(A) ::= . [INFER] { A = NULL; }
domain(A) ::= DOMAIN expr(E). [INFER] { A = E; }
infer_options(A) ::= . [INFER] { A = NULL; }
infer_options(A) ::= OPTIONS expr(E). [INFER] { A = E; }

literal(A) ::= STRING(T). { A = LEAF(AST_VALUE, T); }
literal(A) ::= NUMBER|NULL|TRUE|FALSE(T). { A = LEAF(AST_VALUE, T); }
bind(A) ::= BIND(T). { A = LEAF(AST_BIND, T); }
bind(A) ::= BIND_COLLECTION(T). { A = LEAF(AST_BIND_COLLECTION, T); }

/* ---- references: what accessors can follow ---- */

%type ref {struct reference}
ref(A) ::= ID(T). { A = (struct reference){ LEAF(AST_NAME, T), false }; }
ref(A) ::= bind(X). { A = (struct reference){ X, false }; }
ref(A) ::= array(X). { A = (struct reference){ X, false }; }
ref(A) ::= object(X). { A = (struct reference){ X, false }; }
ref(A) ::= call(X). { A = (struct reference){ X, false }; }
ref(A) ::= LP expr(X) RP. { A = (struct reference){ X, false }; }
ref(A) ::= LP(T) query(Q) RP. {
    A = (struct reference){ parse_query(p, AST_SUBQUERY, T.pos, Q), false };
}
ref(A) ::= ref(R) DOT ID(T). { A = parse_access(p, R, NAMED(AST_ATTR, T, NULL)); }
ref(A) ::= ref(R) DOT STRING(T). { A = parse_access(p, R, NAMED(AST_ATTR, T, NULL)); }
ref(A) ::= ref(R) DOT BIND(T). { A = parse_access(p, R, NAMED(AST_ATTR_BIND, T, NULL)); }
ref(A) ::= ref(R) LB(T) expr(E) RB. { A = parse_access(p, R, parse_index(p, &T, E)); }
ref(A) ::= ref(R) LB(T) marks(N) array_test(X) RB. {
    X->pos = T.pos;
    A = parse_access(p, R, parse_with_op(X, N));
}
ref(A) ::= ref(R) LB(T) stars(N) inline_ops(O) RB. { A = parse_expand(p, R, &T, N, O); }

%type marks {int}
marks(A) ::= QUESTION. { A = 1; }
marks(A) ::= marks(N) QUESTION. { A = N < UINT8_MAX ? N + 1 : N; }
%type stars {int}
stars(A) ::= TIMES. { A = 1; }
stars(A) ::= stars(N) TIMES. { A = N < UINT8_MAX ? N + 1 : N; }

array_test(A) ::= . { A = NODE(AST_ARRAY_TEST, 0, NULL, NULL, NULL); }
array_test(A) ::= FILTER expr(E). { A = NODE(AST_ARRAY_TEST, 0, NULL, NULL, E); }
array_test(A) ::= quantifier(Q) FILTER expr(E). { A = NODE(AST_ARRAY_TEST, 0, NULL, Q, E); }
array_test(A) ::= expr(N) FILTER expr(E). {
    A = parse_with_op(NODE(AST_QUANTIFIER, N->pos, N), AST_Q_COUNT);
    A = NODE(AST_ARRAY_TEST, 0, NULL, A, E);
}

%type inline_ops {struct inline_ops}
%type inline_limit {struct inline_ops}
inline_ops(A) ::= inline_filter(F) inline_limit(L) inline_return(R). {
    A = L;
    A.filter = F;
    A.projection = R;
}
inline_filter(A) ::= . { A = NULL; }
inline_filter(A) ::= FILTER expr(E). { A = E; }
inline_limit(A) ::= . { A = (struct inline_ops){ 0 }; }
inline_limit(A) ::= LIMIT expr(N). { A = (struct inline_ops){ .count = N }; }
inline_limit(A) ::= LIMIT expr(F) COMMA expr(N). {
    A = (struct inline_ops){ .offset = F, .count = N };
}
inline_return(A) ::= . { A = NULL; }
inline_return(A) ::= RETURN expr(E). { A = E; }

/* ---- calls, arrays, objects ---- */

call(A) ::= function(N) LP args(L) RP. { A = parse_call(p, &N, L); }
call(A) ::= LIKE(T) LP args(L) RP. { A = parse_call(p, &T, L); }
%type function {struct token}
function(A) ::= ID(T). { A = parse_function(p, NULL, &T); }
function(A) ::= function(N) SCOPE ID(T). { A = parse_function(p, &N, &T); }
%type args {struct ast_list *}
%type some_args {struct ast_list *}
args(A) ::= . { A = parse_list(p); }
args(A) ::= some_args(L). { A = L; }
some_args(A) ::= arg(X). { A = parse_append(p, parse_list(p), X); }
some_args(A) ::= some_args(L) COMMA arg(X). { A = parse_append(p, L, X); }
arg(A) ::= expr(E). { A = E; }
arg(A) ::= query(Q). { A = parse_query(p, AST_SUBQUERY, Q->pos, Q); }

array(A) ::= LB(T) RB. { A = parse_list_node(p, AST_ARRAY, T.pos, parse_list(p)); }
array(A) ::= LB(T) elements(L) RB. { A = LIST(AST_ARRAY, T, L); }
array(A) ::= LB(T) elements(L) COMMA RB. { A = LIST(AST_ARRAY, T, L); }
%type elements {struct ast_list *}
elements(A) ::= expr(E). { A = parse_append(p, parse_list(p), E); }
elements(A) ::= elements(L) COMMA expr(E). { A = parse_append(p, L, E); }

object(A) ::= LC(T) RC. { A = parse_list_node(p, AST_OBJECT, T.pos, parse_list(p)); }
object(A) ::= LC(T) fields(L) RC. { A = LIST(AST_OBJECT, T, L); }
object(A) ::= LC(T) fields(L) COMMA RC. { A = LIST(AST_OBJECT, T, L); }
%type fields {struct ast_list *}
fields(A) ::= field(X). { A = parse_append(p, parse_list(p), X); }
fields(A) ::= fields(L) COMMA field(X). { A = parse_append(p, L, X); }
field(A) ::= ID(T). { A = NAMED(AST_FIELD, T, LEAF(AST_NAME, T)); }
field(A) ::= ID(T) COLON expr(E). { A = NAMED(AST_FIELD, T, E); }
field(A) ::= STRING(T) COLON expr(E). { A = NAMED(AST_FIELD, T, E); }
field(A) ::= BIND(T) COLON expr(E). { A = NAMED(AST_FIELD_BIND, T, E); }
field(A) ::= LB(T) expr(N) RB COLON expr(E). { A = NODE(AST_FIELD_COMPUTED, T.pos, N, E); }

%code {
void parse_run(struct parser *p)
{
    struct yyParser engine;
    struct token t;
    aql_engineInit(&engine);
    do {
        parse_next(p, &t);
        if (p->rc == OK)
            aql_engine(&engine, t.kind, t, p);
    } while (p->rc == OK && t.kind != 0);
    aql_engineFinalize(&engine);
}
}
