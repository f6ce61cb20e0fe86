/* SPDX-License-Identifier: Apache-2.0 */
/* What AQL refuses: errorNum and the whole message, with the exact position. */
#include "../check.h"
#include "query/ast.h"

static const struct refused {
    const char *text;
    int num;
    const char *message;
} refused[] = {
    { "", 1502, "query is empty" },
    { "   ", 1502, "query is empty" },
    { "// c", 1502, "query is empty" },
    { "/* c */", 1502, "query is empty" },
    { "RETURN", 1501, "syntax error, unexpected end of query string near '' at position 1:7" },
    { "FOR", 1501, "syntax error, unexpected end of query string near '' at position 1:4" },
    { "FOR x", 1501, "syntax error, unexpected end of query string near '' at position 1:6" },
    { "FOR x IN", 1501, "syntax error, unexpected end of query string near '' at position 1:9" },
    { "FOR x IN y", 1501, "syntax error, unexpected end of query string near '' at position 1:11" },
    { "FOR x IN y FILTER", 1501,
      "syntax error, unexpected end of query string near '' at position 1:18" },
    { "FOR x IN y FILTER x", 1501,
      "syntax error, unexpected end of query string near '' at position 1:20" },
    { "FOR 1 IN y RETURN 1", 1501,
      "syntax error, unexpected number near '1 IN y RETURN 1' at position 1:5" },
    { "FOR for IN y RETURN 1", 1501,
      "syntax error, unexpected FOR declaration near 'for IN y RETURN 1' at position 1:5" },
    { "FOR x, y IN z RETURN 1", 1501,
      "syntax error, only a traversal or path search has more than one variable near 'y IN z "
      "RETURN 1' at position 1:8" },
    { "FOR [a], b IN z RETURN a", 1501,
      "syntax error, unexpected ',' near ', b IN z RETURN a' at position 1:8" },
    { "FOR [] IN z RETURN 1", 1501,
      "syntax error, no variable to assign to near '[] IN z RETURN 1' at position 1:5" },
    { "LET [,,] = x RETURN 1", 1501,
      "syntax error, no variable to assign to near '[,,] = x RETURN 1' at position 1:5" },
    { "LET {} = x RETURN 1", 1501,
      "syntax error, unexpected '}' near '} = x RETURN 1' at position 1:6" },
    { "LET a RETURN a", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN a' at position 1:7" },
    { "LET a == 1 RETURN a", 1501,
      "syntax error, unexpected '==' near '== 1 RETURN a' at position 1:7" },
    { "LET 1 = 2 RETURN 1", 1501,
      "syntax error, unexpected number near '1 = 2 RETURN 1' at position 1:5" },
    { "LET a = 1", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "LET a = 1 RETURN a;", 1501, "syntax error, unexpected ';' near ';' at position 1:19" },
    { "RETURN 1;", 1501, "syntax error, unexpected ';' near ';' at position 1:9" },
    { "RETURN 1 RETURN 2", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN 2' at position 1:10" },
    { "RETURN 1 2", 1501, "syntax error, unexpected number near '2' at position 1:10" },
    { "RETURN 1,", 1501, "syntax error, unexpected ',' near ',' at position 1:9" },
    { "RETURN (1", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN 1)", 1501, "syntax error, unexpected ')' near ')' at position 1:9" },
    { "RETURN [1", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN [1}", 1501, "syntax error, unexpected '}' near '}' at position 1:10" },
    { "RETURN [,]", 1501, "syntax error, unexpected ',' near ',]' at position 1:9" },
    { "RETURN {,}", 1501, "syntax error, unexpected ',' near ',}' at position 1:9" },
    { "RETURN {a: }", 1501, "syntax error, unexpected '}' near '}' at position 1:12" },
    { "RETURN {1: 2}", 1501, "syntax error, unexpected number near '1: 2}' at position 1:9" },
    { "RETURN {a.b: 2}", 1501, "syntax error, unexpected '.' near '.b: 2}' at position 1:10" },
    { "RETURN {return: 1}", 1501,
      "syntax error, unexpected RETURN declaration near 'return: 1}' at position 1:9" },
    { "RETURN {a b}", 1501, "syntax error, unexpected identifier near 'b}' at position 1:11" },
    { "RETURN F(", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN F(1,)", 1501, "syntax error, unexpected ')' near ')' at position 1:12" },
    { "RETURN F(,1)", 1501, "syntax error, unexpected ',' near ',1)' at position 1:10" },
    { "RETURN a.", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN a.1", 1501, "syntax error, unexpected number near '.1' at position 1:9" },
    { "RETURN a.filter", 1501,
      "syntax error, unexpected FILTER declaration near 'filter' at position 1:10" },
    { "RETURN a.[1]", 1501, "syntax error, unexpected '[' near '[1]' at position 1:10" },
    { "RETURN a[", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN a[]", 1501, "syntax error, unexpected ']' near ']' at position 1:10" },
    { "RETURN a[* RETURN CURRENT FILTER 1]", 1501,
      "syntax error, unexpected FILTER declaration near 'FILTER 1]' at position 1:27" },
    { "RETURN a[* ANY FILTER 1]", 1501,
      "syntax error, unexpected any modifier near 'ANY FILTER 1]' at position 1:12" },
    { "RETURN a[? ANY]", 1501, "syntax error, unexpected ']' near ']' at position 1:15" },
    { "RETURN a[? 2]", 1501, "syntax error, unexpected ']' near ']' at position 1:13" },
    { "RETURN \"abc\"[0]", 1501, "syntax error, unexpected '[' near '[0]' at position 1:13" },
    { "RETURN 1.x", 1501, "syntax error, unexpected '.' near '.x' at position 1:9" },
    { "RETURN 1.", 1501, "syntax error, unexpected '.' near '.' at position 1:9" },
    { "RETURN 01", 1501, "syntax error, unexpected number near '1' at position 1:9" },
    { "RETURN 00", 1501, "syntax error, unexpected number near '0' at position 1:9" },
    { "RETURN 1e", 1501, "syntax error, unexpected identifier near 'e' at position 1:9" },
    { "RETURN 1e999", 1504, "number out of range near '1e999' at position 1:8" },
    { "RETURN 0x", 1501, "syntax error, unexpected identifier near 'x' at position 1:9" },
    { "RETURN 0b2", 1501, "syntax error, unexpected identifier near 'b2' at position 1:9" },
    { "RETURN 1abc", 1501, "syntax error, unexpected identifier near 'abc' at position 1:9" },
    { "RETURN a +", 1501, "syntax error, unexpected end of query string near '' at position 1:11" },
    { "RETURN + ", 1501, "syntax error, unexpected end of query string near '' at position 1:10" },
    { "RETURN * a", 1501, "syntax error, unexpected '*' near '* a' at position 1:8" },
    { "RETURN a ? b", 1501,
      "syntax error, unexpected end of query string near '' at position 1:13" },
    { "RETURN a ? b :", 1501,
      "syntax error, unexpected end of query string near '' at position 1:15" },
    { "RETURN a : b", 1501, "syntax error, unexpected ':' near ': b' at position 1:10" },
    { "RETURN a = b", 1501, "syntax error, unexpected assignment near '= b' at position 1:10" },
    { "RETURN a === b", 1501, "syntax error, unexpected assignment near '= b' at position 1:12" },
    { "RETURN a & b", 1501, "syntax error, unexpected '&' near '& b' at position 1:10" },
    { "RETURN a | b", 1501, "syntax error, unexpected '|' near '| b' at position 1:10" },
    { "RETURN a <> b", 1501, "syntax error, unexpected '>' near '> b' at position 1:11" },
    { "RETURN a ~ b", 1501, "syntax error, unexpected '~' near '~ b' at position 1:10" },
    { "RETURN a ^ b", 1501, "syntax error, unexpected '^' near '^ b' at position 1:10" },
    { "RETURN #", 1501, "syntax error, unexpected '#' near '#' at position 1:8" },
    { "RETURN a \\ b", 1501, "syntax error, unexpected '\\' near '\\ b' at position 1:10" },
    { "RETURN é", 1501, "syntax error, unexpected 'é' near 'é' at position 1:8" },
    { "RETURN ALL == 1", 1501,
      "syntax error, unexpected all modifier near 'ALL == 1' at position 1:8" },
    { "RETURN a ALL 1", 1501, "syntax error, unexpected number near '1' at position 1:14" },
    { "RETURN a AT LEAST 2 == 1", 1501,
      "syntax error, unexpected identifier near 'AT LEAST 2 == 1' at position 1:10" },
    { "RETURN a AT LEAST (2)", 1501,
      "syntax error, unexpected end of query string near '' at position 1:22" },
    { "RETURN a NOT b", 1501, "syntax error, unexpected identifier near 'b' at position 1:14" },
    { "RETURN a ! IN b", 1501, "syntax error, unexpected IN keyword near 'IN b' at position 1:12" },
    { "RETURN @", 1501, "syntax error, unexpected '@' near '@' at position 1:8" },
    { "RETURN @@", 1501, "syntax error, unexpected '@' near '@@' at position 1:8" },
    { "RETURN @_", 1501, "syntax error, unexpected '@' near '@_' at position 1:8" },
    { "RETURN @-x", 1501, "syntax error, unexpected '@' near '@-x' at position 1:8" },
    { "RETURN d.@@c", 1501,
      "syntax error, unexpected bind data source parameter near '@@c' at position 1:10" },
    { "RETURN {@@k: 1}", 1501,
      "syntax error, unexpected bind data source parameter near '@@k: 1}' at position 1:9" },
    { "RETURN \"abc", 1501,
      "syntax error, unterminated string literal near '\"abc' at position 1:8" },
    { "RETURN 'abc", 1501,
      "syntax error, unterminated string literal near ''abc' at position 1:8" },
    { "RETURN 'it's'", 1501, "syntax error, unexpected identifier near 's'' at position 1:12" },
    { "RETURN `abc", 1501, "syntax error, unterminated name near '`abc' at position 1:8" },
    { "RETURN ´abc", 1501, "syntax error, unterminated name near '´abc' at position 1:8" },
    { "RETURN ``", 1501, "syntax error, empty name near '``' at position 1:8" },
    { "RETURN /* abc", 1501, "syntax error, unterminated comment near '/* abc' at position 1:8" },
    { "RETURN \"\\u12\"", 1501,
      "syntax error, bad \\u escape in a literal near '\\u12\"' at position 1:9" },
    { "RETURN \"a\\ud800b\"", 1501,
      "syntax error, bad \\u escape in a literal near '\\ud800b\"' at position 1:10" },
    { "RETURN \"\\udc00\"", 1501,
      "syntax error, bad \\u escape in a literal near '\\udc00\"' at position 1:9" },
    { "RETURN \"\\ud83dA\"", 1501,
      "syntax error, bad \\u escape in a literal near '\\ud83dA\"' at position 1:9" },
    { "RETURN DISTINCT 1", 1501,
      "cannot use DISTINCT modifier on top-level query element near 'RETURN DISTINCT 1' at "
      "position 1:1" },
    { "RETURN (RETURN DISTINCT 1)", 1501,
      "cannot use DISTINCT modifier on top-level query element near 'RETURN DISTINCT 1)' at "
      "position 1:9" },
    { "RETURN (FOR x IN y)", 1501, "syntax error, unexpected ')' near ')' at position 1:19" },
    { "RETURN (LET a = 1)", 1501, "syntax error, unexpected ')' near ')' at position 1:18" },
    { "RETURN ()", 1501, "syntax error, unexpected ')' near ')' at position 1:9" },
    { "FOR v IN OUTBOUND RETURN v", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN v' at position 1:19" },
    { "FOR v IN OUTBOUND s RETURN v", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN v' at position 1:21" },
    { "FOR v IN OUTBOUND s GRAPH RETURN v", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN v' at position 1:27" },
    { "FOR v IN OUTBOUND s \"e\" RETURN v", 1501,
      "syntax error, unexpected quoted string near '\"e\" RETURN v' at position 1:21" },
    { "FOR v, e, p, q IN OUTBOUND s e RETURN v", 1501,
      "syntax error, at most 3 variables here near 'q IN OUTBOUND s e RETURN v' at position "
      "1:14" },
    { "FOR [v] IN OUTBOUND s e RETURN v", 1501,
      "syntax error, a traversal or path search cannot destructure near '[v] IN OUTBOUND s e "
      "RETURN v' at position 1:5" },
    { "FOR v, e, p IN OUTBOUND SHORTEST_PATH a TO b e RETURN v", 1501,
      "syntax error, at most 2 variables here near 'p IN OUTBOUND SHORTEST_PATH a TO...' at "
      "position 1:11" },
    { "FOR v, e IN OUTBOUND K_SHORTEST_PATHS a TO b e RETURN v", 1501,
      "syntax error, at most 1 variable here near 'e IN OUTBOUND K_SHORTEST_PATHS a...' at "
      "position 1:8" },
    { "FOR v, e IN OUTBOUND ALL_SHORTEST_PATHS a TO b e RETURN v", 1501,
      "syntax error, at most 1 variable here near 'e IN OUTBOUND ALL_SHORTEST_PATHS...' at "
      "position 1:8" },
    { "FOR v, e IN OUTBOUND K_PATHS a TO b e RETURN v", 1501,
      "syntax error, at most 1 variable here near 'e IN OUTBOUND K_PATHS a TO b e R...' at "
      "position 1:8" },
    { "FOR v IN OUTBOUND SHORTEST_PATH a IN b e RETURN v", 1501,
      "syntax error, unexpected identifier near 'e RETURN v' at position 1:40" },
    { "FOR v IN 1..2 OUTBOUND SHORTEST_PATH a TO b e RETURN v", 1501,
      "syntax error, unexpected SHORTEST_PATH keyword near 'SHORTEST_PATH a TO b e RETURN v' "
      "at position 1:24" },
    { "FOR x IN y OPTIONS 5 RETURN x", 1501,
      "syntax error, unexpected number near '5 RETURN x' at position 1:20" },
    { "FOR x IN y OPTIONS {a: 1} SEARCH x RETURN x", 1501,
      "syntax error, unexpected identifier near 'SEARCH x RETURN x' at position 1:27" },
    { "FOR d IN c SORT RETURN d", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN d' at position 1:17" },
    { "FOR d IN c SORT d.a \"up\" RETURN d", 1501,
      "syntax error, a sort direction is ASC or DESC near '\"up\" RETURN d' at position 1:21" },
    { "FOR d IN c SORT d.a 1 RETURN d", 1501,
      "syntax error, a sort direction is ASC or DESC near '1 RETURN d' at position 1:21" },
    { "FOR d IN c LIMIT 1, 2, 3 RETURN d", 1501,
      "syntax error, unexpected ',' near ', 3 RETURN d' at position 1:22" },
    { "FOR d IN c LIMIT RETURN d", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN d' at position 1:18" },
    { "FOR d IN c COLLECT RETURN d", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN d' at position 1:20" },
    { "FOR d IN c COLLECT INTO g RETURN g", 1501,
      "syntax error, unexpected INTO keyword near 'INTO g RETURN g' at position 1:20" },
    { "FOR d IN c COLLECT x RETURN x", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN x' at position 1:22" },
    { "FOR d IN c COLLECT x = d.x KEEP d RETURN x", 1501,
      "syntax error, use of 'KEEP' without 'INTO' near 'KEEP d RETURN x' at position 1:28" },
    { "FOR d IN c COLLECT x = d.x WITH LENGTH INTO n RETURN n", 1501,
      "syntax error, unexpected identifier near 'LENGTH INTO n RETURN n' at position 1:33" },
    { "FOR d IN c COLLECT AGGREGATE m = d.x RETURN m", 1501,
      "syntax error, unexpected '.' near '.x RETURN m' at position 1:35" },
    { "FOR d IN c COLLECT x = d.x INTO g AGGREGATE m = MAX(d.x) RETURN m", 1501,
      "syntax error, unexpected AGGREGATE keyword near 'AGGREGATE m = MAX(d.x) RETURN m' at "
      "position 1:35" },
    { "FOR d IN c WINDOW {} AGGREGATE a = SUM(d) RETURN a", 1501,
      "syntax error, WINDOW bounds need 'preceding' or 'following' near '{} AGGREGATE a = "
      "SUM(d) RETURN a' at position 1:19" },
    { "FOR d IN c WINDOW {before: 1} AGGREGATE a = SUM(d) RETURN a", 1501,
      "syntax error, WINDOW bounds are 'preceding' and 'following', each once near 'before: "
      "1} AGGREGATE a = SUM(d) ...' at position 1:20" },
    { "FOR d IN c WINDOW {preceding: 1, preceding: 2} AGGREGATE a = SUM(d) RETURN a", 1501,
      "syntax error, WINDOW bounds are 'preceding' and 'following', each once near "
      "'preceding: 2} AGGREGATE a = SUM(...' at position 1:34" },
    { "FOR d IN c WINDOW {preceding: 1} RETURN d", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN d' at position 1:34" },
    { "WITH RETURN 1", 1501,
      "syntax error, unexpected RETURN declaration near 'RETURN 1' at position 1:6" },
    { "WITH a", 1501, "syntax error, unexpected end of query string near '' at position 1:7" },
    { "LET x = 1 WITH a RETURN x", 1501,
      "syntax error, unexpected WITH keyword near 'WITH a RETURN x' at position 1:11" },
    { "INSERT {} INTO", 1501,
      "syntax error, unexpected end of query string near '' at position 1:15" },
    { "INSERT {} INTO 1", 1501, "syntax error, unexpected number near '1' at position 1:16" },
    { "INSERT {} INTO @c", 1501,
      "syntax error, unexpected bind parameter near '@c' at position 1:16" },
    { "INSERT INTO c", 1501,
      "syntax error, unexpected INTO keyword near 'INTO c' at position 1:8" },
    { "INSERT {} c", 1501, "syntax error, unexpected identifier near 'c' at position 1:11" },
    { "INSERT {} INTO c OPTIONS", 1501,
      "syntax error, unexpected end of query string near '' at position 1:25" },
    { "INSERT {} INTO c RETURN", 1501,
      "syntax error, unexpected end of query string near '' at position 1:24" },
    { "UPDATE d", 1501, "syntax error, unexpected end of query string near '' at position 1:9" },
    { "UPDATE d WITH IN c", 1501,
      "syntax error, unexpected IN keyword near 'IN c' at position 1:15" },
    { "UPDATE a OR b IN c", 1501,
      "syntax error, unexpected end of query string near '' at position 1:19" },
    { "REPLACE d WITH {a: 1}", 1501,
      "syntax error, unexpected end of query string near '' at position 1:22" },
    { "REMOVE IN c", 1501, "syntax error, unexpected IN keyword near 'IN c' at position 1:8" },
    { "UPSERT 5 INSERT {} UPDATE {} IN c", 1501,
      "syntax error, unexpected number near '5 INSERT {} UPDATE {} IN c' at position 1:8" },
    { "UPSERT {} UPDATE {} IN c", 1501,
      "syntax error, unexpected UPDATE command near 'UPDATE {} IN c' at position 1:11" },
    { "UPSERT {} INSERT {} IN c", 1501,
      "syntax error, unexpected end of query string near '' at position 1:25" },
    { "UPSERT FILTER INSERT {} UPDATE {} IN c", 1501,
      "syntax error, unexpected INSERT command near 'INSERT {} UPDATE {} IN c' at position 1:15" },
    { "DELETE d IN c", 1501,
      "syntax error, unexpected identifier near 'DELETE d IN c' at position 1:1" },
    { "SELECT * FROM c", 1501,
      "syntax error, unexpected identifier near 'SELECT * FROM c' at position 1:1" },
    { "return a.b.c d", 1501, "syntax error, unexpected identifier near 'd' at position 1:14" },
    { "RETURN `a b`(1)", 1501,
      "syntax error, bad name of a function near '`a b`(1)' at position 1:8" },
    { "RETURN A::`b c`(1)", 1501,
      "syntax error, bad name of a function near '`b c`(1)' at position 1:11" },
    { "RETURN A::", 1501, "syntax error, unexpected end of query string near '' at position 1:11" },
    { "RETURN FOR(1)", 1501,
      "syntax error, unexpected FOR declaration near 'FOR(1)' at position 1:8" },
    { "RETURN INFER \"m\"", 1501,
      "syntax error, unexpected quoted string near '\"m\"' at position 1:14" },
    { "RETURN INFER \"m\" -1", 1501,
      "syntax error, a prompt that begins with '[', '-' or '+' needs parentheses near '-1' at "
      "position 1:18" },
    { "RETURN INFER \"m\" [1]", 1501,
      "syntax error, a prompt that begins with '[', '-' or '+' needs parentheses near '[1]' "
      "at position 1:18" },
    { "RETURN INFER \"m\" p DOMAIN", 1501,
      "syntax error, unexpected end of query string near '' at position 1:26" },
    { "RETURN INFER \"m\" p OPTIONS {} DOMAIN \"d\"", 1501,
      "syntax error, unexpected identifier near 'DOMAIN \"d\"' at position 1:31" },
    { "RETURN INFER m p", 1501, "syntax error, unexpected identifier near 'm p' at position 1:14" },
    { "RETURN EMBED \"m\" p DOMAIN \"d\"", 1501,
      "syntax error, unexpected identifier near 'DOMAIN \"d\"' at position 1:20" },
    { "RETURN INFER \"m\" +x", 1501,
      "syntax error, a prompt that begins with '[', '-' or '+' needs parentheses near '+x' at "
      "position 1:18" },
};

static void check(struct slice text, int num, const char *message)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct ast *query = NULL;
    if (aql_parse(text, arena, &query, &err) == OK)
        fail_msg("accepted: %.*s", SLICE_ARG(text));
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(err.num, num);
    assert_string_equal(err.text, message);
    arena_free(arena);
}

static void each_error_names_what_and_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        check(slice_str(refused[i].text), refused[i].num, refused[i].message);
}

static void lines_and_columns_count_from_one_in_bytes(void **state)
{
    (void)state;
    check(slice_str("FOR d IN c\n  FILTER 'ä' d\n  RETURN d"), 1501,
          "syntax error, unexpected identifier near 'd   RETURN d' at position 2:15");
    check(slice_str("RETURN 1\r\n\r\n+"), 1501,
          "syntax error, unexpected end of query string near '' at position 3:2");
    check(slice_str("/* 1\n2\n3 */ RETURN\t'\n\n"), 1501,
          "syntax error, unterminated string literal near ''  ' at position 3:13");
}

static void a_long_rest_of_the_text_is_cut_between_characters(void **state)
{
    (void)state;
    check(slice_str("RETURN ) äöüäöüäöüäöüäöüäöüäöü"), 1501,
          "syntax error, unexpected ')' near ') äöüäöüäöüäöüäöü...' at position 1:8");
}

static void control_characters_and_zero_bytes_are_refused(void **state)
{
    (void)state;
    check(slice_str("RETURN \1"), 1501,
          "syntax error, unexpected control character near ' ' at position 1:8");
    check(slice_of("RETURN 1\0", 9), 1501,
          "syntax error, unexpected control character near ' ' at position 1:9");
    check(slice_of("RETURN 1\0 + 2", 13), 1501,
          "syntax error, unexpected control character near '  + 2' at position 1:9");
    check(slice_of("RETURN 'a\0b'", 12), 1501,
          "syntax error, unterminated string literal near ''a b'' at position 1:8");
    check(slice_of("\0", 1), 1501,
          "syntax error, unexpected control character near ' ' at position 1:1");
}

static void invalid_utf8_is_refused_with_its_position(void **state)
{
    (void)state;
    check(slice_str("RETURN 1 +\n '\xff'"), 1501, "syntax error, invalid UTF-8 at position 2:3");
    check(slice_str("RETURN '\xc3"), 1501, "syntax error, invalid UTF-8 at position 1:9");
    check(slice_str("RETURN '\xed\xa0\x80'"), 1501, "syntax error, invalid UTF-8 at position 1:9");
}

static void an_error_of_the_lexer_waits_for_the_errors_before_it(void **state)
{
    (void)state;
    check(slice_str("RETURN RETURN NOT 'open"), 1501,
          "syntax error, unexpected RETURN declaration near 'RETURN NOT 'open' at position 1:8");
    check(slice_str("RETURN 1 INFER 'open"), 1501,
          "syntax error, unexpected identifier near 'INFER 'open' at position 1:10");
}

static void an_error_need_not_be_asked_for(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    struct ast *query = NULL;
    assert_int_equal(aql_parse(slice_str("RETURN"), arena, &query, NULL), ERR_INVALID);
    assert_int_equal(aql_parse(slice_str("RETURN '"), arena, &query, NULL), ERR_INVALID);
    assert_int_equal(aql_parse(slice_str(""), arena, &query, NULL), ERR_INVALID);
    arena_free(arena);
}

static void the_memory_budget_ends_a_parse(void **state)
{
    (void)state;
    struct arena *arena = arena_new(256 * KIB);
    struct error err = { 0 };
    struct ast *query = NULL;
    struct buf text;
    buf_init(&text, 0);
    buf_add_str(&text, "RETURN [0");
    for (int i = 0; i < 50000; i++)
        buf_add_str(&text, ",0");
    buf_add_str(&text, "]");
    assert_int_equal(aql_parse(buf_slice(&text), arena, &query, &err), ERR_LIMIT);
    assert_int_equal(error_num(&err), 32);
    assert_in_range(arena_used(arena), 1, MIB);
    arena_free(arena);

    arena = arena_new(64 * KIB); /* less than the text */
    assert_int_equal(aql_parse(buf_slice(&text), arena, &query, &err), ERR_LIMIT);
    buf_release(&text);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_names_what_and_where),
        cmocka_unit_test(lines_and_columns_count_from_one_in_bytes),
        cmocka_unit_test(a_long_rest_of_the_text_is_cut_between_characters),
        cmocka_unit_test(control_characters_and_zero_bytes_are_refused),
        cmocka_unit_test(invalid_utf8_is_refused_with_its_position),
        cmocka_unit_test(an_error_of_the_lexer_waits_for_the_errors_before_it),
        cmocka_unit_test(an_error_need_not_be_asked_for),
        cmocka_unit_test(the_memory_budget_ends_a_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
