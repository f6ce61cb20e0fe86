/* SPDX-License-Identifier: Apache-2.0 */
/* What AQL accepts: each form of the language, with the text that its tree prints. */
#include "../check.h"
#include "ast_rules.h"
#include "base/val_text.h"

#define SAME(text)                                                                                 \
    {                                                                                              \
        text, text                                                                                 \
    }

static const struct accepted {
    const char *text, *canonical;
} accepted[] = {
    /* the smallest queries, case, comments */
    { "\t// only\r\n  RETURN//\n1\n/***/", "RETURN 1" },
    SAME("RETURN 1"),
    { "return 1", "RETURN 1" },
    { "Return true", "RETURN true" },
    { "/* c */ RETURN /* d ** e */ 1 // end", "RETURN 1" },
    /* FOR */
    SAME("FOR u IN users RETURN u"),
    SAME("FOR u IN @@coll RETURN u"),
    SAME("FOR i IN 1..10 RETURN i"),
    { "FOR x IN [1, 2, 3,] RETURN x", "FOR x IN [1, 2, 3] RETURN x" },
    SAME("FOR x IN (FOR y IN z RETURN y) RETURN x"),
    { "FOR u IN users OPTIONS { indexHint: \"byName\", forceIndexHint: true } RETURN u",
      "FOR u IN users OPTIONS {indexHint: \"byName\", forceIndexHint: true} RETURN u" },
    SAME("FOR u IN users OPTIONS @o RETURN u"),
    SAME("FOR d IN view SEARCH d.a == 1 RETURN d"),
    { "FOR d IN view SEARCH ANALYZER(d.text == \"x\", \"text_en\") OPTIONS { "
      "conditionOptimization: \"none\" } SORT BM25(d) DESC RETURN d",
      "FOR d IN view SEARCH ANALYZER(d.text == \"x\", \"text_en\") OPTIONS "
      "{conditionOptimization: \"none\"} SORT BM25(d) DESC RETURN d" },
    SAME("FOR [k, v] IN pairs RETURN k"),
    { "FOR {name, age: years} IN users RETURN {name, years}",
      "FOR {name: name, age: years} IN users RETURN {name: name, years: years}" },
    /* traversals */
    { "FOR v IN OUTBOUND \"p/1\" edges RETURN v",
      "FOR v IN OUTBOUND \"p/1\" OUTBOUND edges RETURN v" },
    { "FOR v, e IN 2 INBOUND @start edges RETURN e",
      "FOR v, e IN 2 INBOUND @start INBOUND edges RETURN e" },
    SAME("FOR v, e, p IN 1..5 ANY d._id GRAPH \"social\" RETURN p"),
    SAME("FOR v IN OUTBOUND d GRAPH social RETURN v"),
    SAME("FOR v IN OUTBOUND d GRAPH @g RETURN v"),
    { "FOR v IN 1..3 OUTBOUND @s a, INBOUND b, ANY @@c, @d RETURN v",
      "FOR v IN 1..3 OUTBOUND @s OUTBOUND a, INBOUND b, ANY @@c, OUTBOUND @d RETURN v" },
    { "FOR v, e, p IN @min..@max OUTBOUND s e1 PRUNE v.x == 1 RETURN v",
      "FOR v, e, p IN @min..@max OUTBOUND s OUTBOUND e1 PRUNE v.x == 1 RETURN v" },
    { "FOR v, e, p IN 1..3 OUTBOUND s e1 PRUNE stop = v.x == 1 OPTIONS { order: \"bfs\", "
      "uniqueVertices: \"global\" } FILTER !stop RETURN v",
      "FOR v, e, p IN 1..3 OUTBOUND s OUTBOUND e1 PRUNE stop = v.x == 1 OPTIONS {order: "
      "\"bfs\", uniqueVertices: \"global\"} FILTER !stop RETURN v" },
    { "FOR v IN 1..3 OUTBOUND s GRAPH \"g\" OPTIONS { order: \"weighted\" } RETURN v",
      "FOR v IN 1..3 OUTBOUND s GRAPH \"g\" OPTIONS {order: \"weighted\"} RETURN v" },
    { "FOR v IN x + 1 OUTBOUND s e RETURN v", "FOR v IN x + 1 OUTBOUND s OUTBOUND e RETURN v" },
    /* path searches */
    { "FOR v, e IN OUTBOUND SHORTEST_PATH \"a/1\" TO \"a/2\" edges RETURN [v, e]",
      "FOR v, e IN OUTBOUND SHORTEST_PATH \"a/1\" TO \"a/2\" OUTBOUND edges RETURN [v, e]" },
    { "FOR v IN ANY SHORTEST_PATH @a TO @b GRAPH \"g\" OPTIONS { weightAttribute: \"w\" } "
      "RETURN v",
      "FOR v IN ANY SHORTEST_PATH @a TO @b GRAPH \"g\" OPTIONS {weightAttribute: \"w\"} "
      "RETURN v" },
    SAME("FOR p IN INBOUND ALL_SHORTEST_PATHS a TO b GRAPH \"g\" RETURN p"),
    { "FOR p IN OUTBOUND K_SHORTEST_PATHS a TO b e1, e2 OPTIONS {weightAttribute: \"w\"} "
      "LIMIT 3 RETURN p",
      "FOR p IN OUTBOUND K_SHORTEST_PATHS a TO b OUTBOUND e1, OUTBOUND e2 OPTIONS "
      "{weightAttribute: \"w\"} LIMIT 3 RETURN p" },
    SAME("FOR p IN 1..10 OUTBOUND K_PATHS a TO b GRAPH \"g\" RETURN p"),
    SAME("FOR p IN OUTBOUND K_PATHS a TO b GRAPH \"g\" RETURN p"),
    { "FOR to IN to RETURN to.to", "FOR `to` IN `to` RETURN `to`.to" },
    /* FILTER, SORT, LIMIT, LET */
    SAME("FOR d IN c FILTER d.a FILTER d.b RETURN d"),
    SAME("FOR d IN c SORT d.a RETURN d"),
    { "FOR d IN c SORT d.a ASC, d.b DESC, d.c RETURN d",
      "FOR d IN c SORT d.a, d.b DESC, d.c RETURN d" },
    SAME("FOR d IN c SORT null RETURN d"),
    SAME("FOR d IN c SORT d.a @dir RETURN d"),
    { "FOR d IN c SORT d.a \"desc\", d.b 'ASC', d.c true RETURN d",
      "FOR d IN c SORT d.a DESC, d.b, d.c RETURN d" },
    SAME("FOR d IN c SORT RAND() LIMIT 5 RETURN d"),
    SAME("FOR d IN c LIMIT @n RETURN d"),
    SAME("FOR d IN c LIMIT 10, 5 RETURN d"),
    SAME("FOR d IN c LIMIT 10, null RETURN d"),
    SAME("LET a = 1 RETURN a"),
    { "LET a = 1, b = 2, c = a + b RETURN c", "LET a = 1 LET b = 2 LET c = a + b RETURN c" },
    SAME("LET [a, b] = [1, 2] RETURN a"),
    { "LET [, a, , b, ] = x RETURN a", "LET [, a, , b] = x RETURN a" },
    { "LET {a, b: c, \"d e\": {f}, g: [h],} = x RETURN a",
      "LET {a: a, b: c, \"d e\": {f: f}, g: [h]} = x RETURN a" },
    SAME("LET x = (RETURN 1) RETURN x"),
    /* COLLECT */
    SAME("FOR d IN c COLLECT x = d.x RETURN x"),
    SAME("FOR d IN c COLLECT x = d.x, y = d.y RETURN x"),
    SAME("FOR d IN c COLLECT x = d.x INTO g RETURN g"),
    SAME("FOR d IN c COLLECT x = d.x INTO g = d.name RETURN g"),
    SAME("FOR d IN c LET n = 1 COLLECT x = d.x INTO g KEEP d, n RETURN g"),
    SAME("FOR d IN c COLLECT x = d.x WITH COUNT INTO n RETURN n"),
    SAME("FOR d IN c COLLECT WITH COUNT INTO n RETURN n"),
    { "FOR d IN c COLLECT x = d.x AGGREGATE m = MAX(d.y), s = sum(d.z) RETURN [x, m]",
      "FOR d IN c COLLECT x = d.x AGGREGATE m = MAX(d.y), s = SUM(d.z) RETURN [x, m]" },
    SAME("FOR d IN c COLLECT AGGREGATE m = MAX(d.y) RETURN m"),
    SAME("FOR d IN c COLLECT AGGREGATE m = MAX(d.y) INTO g RETURN m"),
    { "FOR d IN c COLLECT x = d.x AGGREGATE n = COUNT() INTO g = {d} OPTIONS { method: "
      "\"hash\" } RETURN x",
      "FOR d IN c COLLECT x = d.x AGGREGATE n = COUNT() INTO g = {d: d} OPTIONS {method: "
      "\"hash\"} RETURN x" },
    { "FOR d IN c COLLECT x = d.x OPTIONS { method: \"sorted\" } RETURN x",
      "FOR d IN c COLLECT x = d.x OPTIONS {method: \"sorted\"} RETURN x" },
    { "FOR d IN c COLLECT keep = d.options INTO search KEEP d RETURN keep",
      "FOR d IN c COLLECT `keep` = d.options INTO `search` KEEP d RETURN `keep`" },
    /* WINDOW, RETURN DISTINCT, WITH */
    { "FOR t IN obs SORT t.time WINDOW { preceding: 1, following: 1 } AGGREGATE a = "
      "AVG(t.val), b = SUM(t.val) RETURN a",
      "FOR t IN obs SORT t.time WINDOW {preceding: 1, following: 1} AGGREGATE a = AVG(t.val), "
      "b = SUM(t.val) RETURN a" },
    { "FOR t IN obs WINDOW t.time WITH { preceding: 10 } AGGREGATE a = AVG(t.val) RETURN a",
      "FOR t IN obs WINDOW t.time WITH {preceding: 10} AGGREGATE a = AVG(t.val) RETURN a" },
    { "FOR t IN obs WINDOW DATE_TIMESTAMP(t.time) WITH { preceding: \"PT30M\", \"following\": "
      "\"P1D\" } AGGREGATE a = AVG(t.val) RETURN a",
      "FOR t IN obs WINDOW DATE_TIMESTAMP(t.time) WITH {preceding: \"PT30M\", following: "
      "\"P1D\"} AGGREGATE a = AVG(t.val) RETURN a" },
    SAME("FOR d IN c RETURN DISTINCT d.x"),
    SAME("RETURN (FOR d IN c RETURN DISTINCT d.x)"),
    { "WITH a, b, @@c FOR v IN OUTBOUND \"a/1\" e RETURN v",
      "WITH a, b, @@c FOR v IN OUTBOUND \"a/1\" OUTBOUND e RETURN v" },
    { "WITH a b @d RETURN 1", "WITH a, b, @d RETURN 1" },
    /* writes */
    SAME("INSERT {a: 1} INTO c"),
    { "INSERT {a: 1} IN c", "INSERT {a: 1} INTO c" },
    SAME("INSERT @doc INTO @@c"),
    { "INSERT {a: 1} INTO \"quoted name\"", "INSERT {a: 1} INTO `quoted name`" },
    { "INSERT {a: 1} INTO c OPTIONS { overwriteMode: \"replace\" } RETURN NEW",
      "INSERT {a: 1} INTO c OPTIONS {overwriteMode: \"replace\"} RETURN NEW" },
    { "FOR i IN 1..3 INSERT {i} INTO c LET n = NEW RETURN n._key",
      "FOR i IN 1..3 INSERT {i: i} INTO c LET n = NEW RETURN n._key" },
    SAME("UPDATE {_key: \"1\", a: 2} IN c"),
    SAME("UPDATE \"1\" WITH {a: 2} IN c"),
    { "FOR d IN c UPDATE d WITH {n: d.n + 1} IN c OPTIONS { keepNull: false } RETURN [OLD, NEW]",
      "FOR d IN c UPDATE d WITH {n: d.n + 1} IN c OPTIONS {keepNull: false} RETURN [OLD, NEW]" },
    SAME("UPDATE d.key + 1 IN c"),
    SAME("REPLACE {_key: \"1\"} IN c"),
    { "REPLACE d._key WITH {x: 1} INTO c OPTIONS {ignoreErrors: true}",
      "REPLACE d._key WITH {x: 1} IN c OPTIONS {ignoreErrors: true}" },
    SAME("REMOVE \"k\" IN c"),
    { "REMOVE {_key: \"k\"} INTO c RETURN OLD", "REMOVE {_key: \"k\"} IN c RETURN OLD" },
    SAME("FOR d IN c REMOVE d IN c"),
    { "FOR d IN c REMOVE d._key IN @@c OPTIONS { exclusive: true }",
      "FOR d IN c REMOVE d._key IN @@c OPTIONS {exclusive: true}" },
    SAME("UPSERT {a: 1} INSERT {a: 1, n: 0} UPDATE {n: OLD.n + 1} IN c"),
    { "UPSERT {a: 1} INSERT {a: 1} REPLACE {a: 2} INTO c OPTIONS { ignoreErrors: true } "
      "RETURN { NEW, type: OLD ? \"update\" : \"insert\" }",
      "UPSERT {a: 1} INSERT {a: 1} REPLACE {a: 2} IN c OPTIONS {ignoreErrors: true} RETURN "
      "{NEW: NEW, type: OLD ? \"update\" : \"insert\"}" },
    SAME("UPSERT @s INSERT @i UPDATE @u IN @@c"),
    SAME("UPSERT FILTER CURRENT.a == 1 AND CURRENT.b > 2 INSERT {a: 1} UPDATE {b: 3} IN c"),
    SAME("FOR d IN c UPDATE d WITH {a: 1} IN c INSERT {b: OLD} INTO log"),
    /* subqueries */
    { "RETURN LENGTH(FOR d IN c RETURN 1)", "RETURN LENGTH((FOR d IN c RETURN 1))" },
    { "RETURN CONCAT((FOR d IN c RETURN d), FOR e IN c RETURN e, 3)",
      "RETURN CONCAT((FOR d IN c RETURN d), (FOR e IN c RETURN e), 3)" },
    { "RETURN F(INSERT {} INTO c, 2)", "RETURN F((INSERT {} INTO c), 2)" },
    SAME("RETURN (INSERT {} INTO c RETURN NEW)[0]._key"),
    /* operators */
    SAME("RETURN a ? b : c"),
    SAME("RETURN a ? : c"),
    { "RETURN a ?: c", "RETURN a ? : c" },
    SAME("RETURN a ? b : c ? d : e"),
    SAME("RETURN a ? b ? c : d : e"),
    SAME("RETURN (a ? b : c) ? d : e"),
    { "RETURN a || b && !c", "RETURN a OR b AND !c" },
    { "RETURN (a OR b) AND NOT c", "RETURN (a OR b) AND !c" },
    { "RETURN NOT a == b", "RETURN !a == b" },
    SAME("RETURN !(a == b)"),
    { "RETURN NOT d.attr LIKE \"x\"", "RETURN !d.attr LIKE \"x\"" },
    SAME("RETURN a == b != c"),
    SAME("RETURN a == (b != c)"),
    SAME("RETURN a < b IN c == d"),
    SAME("RETURN a IN b NOT IN c"),
    { "RETURN a NOT    IN b", "RETURN a NOT IN b" },
    { "RETURN a not /* x */ in b", "RETURN a NOT IN b" },
    SAME("RETURN a LIKE \"x%\" AND b NOT LIKE \"y\""),
    { "RETURN a == b NOT LIKE c", "RETURN a == (b NOT LIKE c)" },
    SAME("RETURN (a == b) NOT LIKE c"),
    SAME("RETURN a NOT LIKE b IN c"),
    SAME("RETURN LIKE(a, \"x\", true)"),
    { "RETURN NOT LIKE(a, \"x\")", "RETURN !LIKE(a, \"x\")" },
    { "RETURN a =~ \"^x\" && b !~ \"y$\"", "RETURN a =~ \"^x\" AND b !~ \"y$\"" },
    { "RETURN a NOT =~ b", "RETURN a !~ b" },
    { "RETURN a NOT !~ b", "RETURN a =~ b" },
    SAME("RETURN a ALL == 1 AND b ANY IN [1] OR c NONE >= 2"),
    SAME("RETURN a ALL NOT IN b"),
    SAME("RETURN a AT LEAST (2) IN [1, 2, 3]"),
    SAME("RETURN a AT LEAST (1 + n) != 1"),
    SAME("RETURN [1] ALL == 1 ANY == 2"),
    SAME("RETURN x == (a ALL IN b)"),
    SAME("RETURN (a OR b) ANY == 1"),
    SAME("RETURN a + b - c"),
    SAME("RETURN a - (b + c)"),
    SAME("RETURN a * (b + c) / d % e"),
    SAME("RETURN -a + +b"),
    { "RETURN - -a", "RETURN --a" },
    SAME("RETURN -(a + b)"),
    SAME("RETURN -a.b[0]"),
    SAME("RETURN 1 - -1"),
    SAME("RETURN -5"),
    { "RETURN +5", "RETURN 5" },
    SAME("RETURN (-5)[0]"),
    { "RETURN -(5)", "RETURN -5" },
    SAME("RETURN 1..2"),
    { "RETURN 1+1..2*2", "RETURN 1 + 1..2 * 2" },
    { "RETURN (1..2)..3", "RETURN 1..2..3" },
    SAME("RETURN 1..(2..3)"),
    SAME("RETURN a..b"),
    { "RETURN .5...5", "RETURN 0.5..0.5" },
    /* accessors */
    SAME("RETURN d.a.b.c"),
    { "RETURN d[\"a\"][\"b c\"][0][-1][\"0\"][\"\"]", "RETURN d.a.`b c`[0][-1][\"0\"][\"\"]" },
    { "RETURN d.`a b`.´c d´.\"e f\"", "RETURN d.`a b`.`c d`.`e f`" },
    SAME("RETURN d.@a.@b"),
    SAME("RETURN d[@a]"),
    SAME("RETURN [1, 2][0]"),
    SAME("RETURN {a: 1}.a"),
    SAME("RETURN @a.b"),
    SAME("RETURN F(1)[0].x"),
    SAME("RETURN (RETURN 1)[0]"),
    /* expansions and array tests */
    SAME("RETURN a[*]"),
    SAME("RETURN a[*].b.c"),
    SAME("RETURN a[*].b[*].c"),
    SAME("RETURN a[*][*]"),
    SAME("RETURN (a[*]).b"),
    SAME("RETURN (a[*].b)[*].c"),
    SAME("RETURN a[**]"),
    { "RETURN a[*].b[**].c", "RETURN (a[*].b)[**].c" },
    SAME("RETURN a[***]"),
    { "RETURN a[* FILTER CURRENT.x > 1 && true]", "RETURN a[* FILTER CURRENT.x > 1 AND true]" },
    SAME("RETURN a[* LIMIT 2]"),
    SAME("RETURN a[** LIMIT 1, 2]"),
    SAME("RETURN a[* RETURN CURRENT.x]"),
    SAME("RETURN a[* FILTER CURRENT.x LIMIT 1, 2 RETURN {y: CURRENT.y}].y[0].@z"),
    SAME("RETURN a[?]"),
    SAME("RETURN a[? FILTER CURRENT == 1]"),
    SAME("RETURN a[? ANY FILTER CURRENT == 1]"),
    SAME("RETURN a[? ALL FILTER CURRENT == 1]"),
    SAME("RETURN a[? NONE FILTER CURRENT == 1]"),
    SAME("RETURN a[? AT LEAST (2) FILTER CURRENT == 1]"),
    SAME("RETURN a[? 2 FILTER CURRENT == 1]"),
    SAME("RETURN a[? 2..3 FILTER CURRENT.x]"),
    SAME("RETURN a[?? FILTER CURRENT == 1]"),
    SAME("RETURN a[*].b[? FILTER CURRENT == 1]"),
    /* literals */
    SAME("RETURN []"),
    { "RETURN [[], [[]],]", "RETURN [[], [[]]]" },
    SAME("RETURN {}"),
    { "RETURN {a, b: 1, \"c\": 2, 'd e': 3, [x + 1]: 4, @k: 5,}",
      "RETURN {a: a, b: 1, c: 2, \"d e\": 3, [x + 1]: 4, @k: 5}" },
    { "RETURN {`a b`, c: {d: {}}}", "RETURN {\"a b\": `a b`, c: {d: {}}}" },
    SAME("RETURN {options: 1, keep: 2, to: 3, infer: 4, at: 5, domain: 6}"),
    { "RETURN [0, 1, 9223372036854775807, 9223372036854775808, -9223372036854775808]",
      "RETURN [0, 1, 9223372036854775807, 9223372036854776000.0, -9223372036854775808]" },
    { "RETURN [1.0, 0.5, .5, 1e3, 1E-3, 1.5e+2, 0.1]",
      "RETURN [1.0, 0.5, 0.5, 1000.0, 0.001, 150.0, 0.1]" },
    { "RETURN [0x0, 0xFF, 0Xabcdef02, 0b0, 0B101]", "RETURN [0, 255, 2882400002, 0, 5]" },
    { "RETURN [null, NULL, true, False]", "RETURN [null, null, true, false]" },
    { "RETURN 'it\\'s'", "RETURN \"it's\"" },
    { "RETURN \"a\\\"b\\\\c\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\uDE00\"",
      "RETURN \"a\\\"b\\\\c/\\b\\f\\n\\r\\tä😀\"" },
    { "RETURN \"\\d\\%\\_\"", "RETURN \"d%_\"" },
    SAME("RETURN \"äöü 😀\""),
    /* names */
    SAME("RETURN $x"),
    SAME("RETURN _x.__y"),
    SAME("RETURN `for`"),
    { "RETURN ´a\\´b´", "RETURN `a´b`" },
    SAME("RETURN `a\\`b`"),
    { "RETURN length([1])", "RETURN LENGTH([1])" },
    { "RETURN my::fn(1)", "RETURN MY::FN(1)" },
    { "RETURN A::B::c(1, 2)", "RETURN A::B::C(1, 2)" },
    { "RETURN `filter`(1)", "RETURN `FILTER`(1)" },
    { "RETURN COUNT(x) + AT(1) + options(2)", "RETURN COUNT(x) + AT(1) + OPTIONS(2)" },
    SAME("RETURN CURRENT"),
    { "RETURN at", "RETURN `at`" },
    SAME("RETURN [@a, @1, @_x1, @@c]"),
    /* INFER and EMBED */
    { "RETURN INFER \"m\" d.text", "RETURN INFER(\"m\", d.text)" },
    { "RETURN infer \"m\" \"prompt\"", "RETURN INFER(\"m\", \"prompt\")" },
    { "RETURN INFER @m @p DOMAIN \"med\"", "RETURN INFER(@m, @p, {domain: \"med\"})" },
    { "RETURN INFER \"m\" CONCAT(\"a\", d.text) DOMAIN d.domain OPTIONS {max_tokens: 5}",
      "RETURN INFER(\"m\", CONCAT(\"a\", d.text), {domain: d.domain, max_tokens: 5})" },
    { "RETURN INFER \"m\" p OPTIONS @o", "RETURN INFER(\"m\", p, @o)" },
    { "RETURN INFER \"m\" p DOMAIN x OPTIONS @o",
      "RETURN INFER(\"m\", p, MERGE(@o, {domain: x}))" },
    { "RETURN INFER \"m\" (a + b)", "RETURN INFER(\"m\", a + b)" },
    { "RETURN INFER \"m\" (-1)", "RETURN INFER(\"m\", -1)" },
    { "RETURN INFER \"m\" ([1])", "RETURN INFER(\"m\", [1])" },
    { "RETURN INFER \"m\" a || b", "RETURN INFER(\"m\", a OR b)" },
    { "RETURN [INFER \"m\" a, INFER \"m\" b]", "RETURN [INFER(\"m\", a), INFER(\"m\", b)]" },
    { "RETURN INFER \"m\" INFER \"n\" p OPTIONS {a: 1}",
      "RETURN INFER(\"m\", INFER(\"n\", p, {a: 1}))" },
    { "RETURN INFER \"m\" (INFER \"n\" p) OPTIONS {a: 1}",
      "RETURN INFER(\"m\", INFER(\"n\", p), {a: 1})" },
    SAME("RETURN INFER(\"m\", p, {domain: \"x\"})"),
    { "RETURN EMBED \"m\" d.text", "RETURN EMBED(\"m\", d.text)" },
    { "RETURN EMBED @m d.text", "RETURN EMBED(@m, d.text)" },
    { "RETURN embed(\"m\", \"x\")", "RETURN EMBED(\"m\", \"x\")" },
    { "FOR d IN c LET v = EMBED \"m\" d.text SORT COSINE_SIMILARITY(v, @q) DESC LIMIT 3 RETURN d",
      "FOR d IN c LET v = EMBED(\"m\", d.text) SORT COSINE_SIMILARITY(v, @q) DESC LIMIT 3 "
      "RETURN d" },
    { "LET infer = 1 RETURN infer", "LET `infer` = 1 RETURN `infer`" },
    { "LET embed = 1, domain = 2 RETURN doc.domain + doc.infer + infer + domain",
      "LET `embed` = 1 LET `domain` = 2 RETURN doc.domain + doc.infer + `infer` + `domain`" },
    { "FOR d IN c SORT infer @dir LIMIT 1 RETURN d",
      "FOR d IN c SORT `infer` @dir LIMIT 1 RETURN d" },
    { "FOR d IN c SORT infer \"desc\" RETURN d", "FOR d IN c SORT `infer` DESC RETURN d" },
    { "FOR v IN OUTBOUND infer @edges OPTIONS {order: \"bfs\"} RETURN v",
      "FOR v IN OUTBOUND `infer` OUTBOUND @edges OPTIONS {order: \"bfs\"} RETURN v" },
    { "FOR x IN infer RETURN x", "FOR x IN `infer` RETURN x" },
    SAME("RETURN {infer: 1}.infer"),
    { "RETURN a ? INFER \"m\" p : q", "RETURN a ? INFER(\"m\", p) : q" },
    { "RETURN NOT INFER \"m\" p", "RETURN !INFER(\"m\", p)" },
    { "RETURN 1 + EMBED \"m\" p + 2", "RETURN 1 + EMBED(\"m\", p + 2)" },
    /* names and operands where the grammar would read something else */
    { "FOR v IN OUTBOUND a `options` RETURN v", "FOR v IN OUTBOUND a OUTBOUND `options` RETURN v" },
    { "FOR v IN (a OR b) ANY c d RETURN v", "FOR v IN (a OR b) ANY c ANY d RETURN v" },
    SAME("FOR v IN OUTBOUND (a OR b) ANY e RETURN v"),
    { "FOR options IN options OPTIONS {x: 1} RETURN options",
      "FOR `options` IN `options` OPTIONS {x: 1} RETURN `options`" },
    SAME("UPDATE (a OR b) IN c"),
    SAME("REMOVE (a ? b : c) IN d"),
};

static struct ast *parse(struct arena *arena, struct slice text)
{
    struct error err = { 0 };
    struct ast *query = NULL;
    if (aql_parse(text, arena, &query, &err) != OK)
        fail_msg("%.*s: %s", SLICE_ARG(text), err.text);
    return query;
}

static void every_form_of_the_language_prints_its_canonical_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct arena *arena = arena_new(0);
        struct buf out;
        buf_init(&out, 0);
        ast_print(parse(arena, slice_str(accepted[i].text)), &out);
        assert_string_equal(buf_cstr(&out), accepted[i].canonical);
        buf_release(&out);
        arena_free(arena);
    }
}

static void canonical_text_gives_an_equal_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct arena *arena = arena_new(0);
        const struct ast *one = parse(arena, slice_str(accepted[i].text));
        const struct ast *two = parse(arena, slice_str(accepted[i].canonical));
        if (!ast_equal(one, two))
            fail_msg("the trees of %s and %s differ", accepted[i].text, accepted[i].canonical);
        arena_free(arena);
    }
}

static void every_node_has_the_children_of_its_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct arena *arena = arena_new(0);
        const char *broken = ast_broken_rule(parse(arena, slice_str(accepted[i].text)));
        if (broken)
            fail_msg("%s breaks the rule of %s", accepted[i].text, broken);
        arena_free(arena);
    }
}

static void mark_kinds(const struct ast *n, bool *is_seen)
{
    is_seen[n->kind] = true;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->kids[i])
            mark_kinds(n->kids[i], is_seen);
}

static void every_kind_of_node_is_made_by_some_query_here(void **state)
{
    (void)state;
    bool is_seen[ARRAY_LEN(ast_rules)] = { false };
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct arena *arena = arena_new(0);
        mark_kinds(parse(arena, slice_str(accepted[i].text)), is_seen);
        arena_free(arena);
    }
    for (size_t kind = 0; kind < ARRAY_LEN(is_seen); kind++)
        if (!is_seen[kind])
            fail_msg("no query makes %s", ast_kind_name((enum ast_kind)kind));
}

static void a_tree_borrows_nothing_from_the_text(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    char text[] = "FOR doc IN coll FILTER doc.name == 'x' RETURN F(@v, `a b`)";
    struct buf out;
    const struct ast *query = parse(arena, slice_str(text));
    memset(text, '#', sizeof text - 1);
    buf_init(&out, 0);
    ast_print(query, &out);
    assert_string_equal(buf_cstr(&out),
                        "FOR doc IN coll FILTER doc.name == \"x\" RETURN F(@v, `a b`)");
    buf_release(&out);
    arena_free(arena);
}

/* The n-th operation of a query. */
static const struct ast *operation(const struct ast *query, uint32_t i)
{
    assert_in_range(i, 0, query->count - 1);
    return query->kids[i];
}

static void nodes_know_where_they_begin(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    const char *text = "FOR d IN c\n  FILTER d.age >= 18\n  RETURN F(d)";
    const struct ast *query = parse(arena, slice_str(text));
    const struct ast *filter = operation(query, 1), *call = operation(query, 2)->kids[0];
    assert_int_equal(filter->pos, strstr(text, "FILTER") - text);
    assert_int_equal(filter->kids[0]->pos, strstr(text, ">=") - text);
    assert_int_equal(filter->kids[0]->kids[0]->pos, strstr(text, "age") - text);
    struct ast_position at = ast_position(slice_str(text), call->pos);
    assert_int_equal(at.line, 3);
    assert_int_equal(at.column, 10);
    arena_free(arena);
}

static void what_follows_an_expansion_is_its_tail(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    const struct ast *query = parse(arena, slice_str("RETURN a[*].b[* LIMIT 1].c"));
    const struct ast *outer = operation(query, 0)->kids[0];
    assert_int_equal(outer->kind, AST_EXPAND);
    assert_int_equal(outer->kids[0]->kind, AST_NAME);
    const struct ast *inner = outer->kids[5];
    assert_int_equal(inner->kind, AST_EXPAND);
    assert_int_equal(inner->kids[0]->kind, AST_ATTR);
    assert_int_equal(inner->kids[0]->kids[0]->kind, AST_ELEMENT);
    assert_non_null(inner->kids[3]);
    assert_int_equal(inner->kids[5]->kind, AST_ATTR);
    assert_int_equal(inner->kids[5]->kids[0]->kind, AST_ELEMENT);

    query = parse(arena, slice_str("RETURN (a[*]).b"));
    assert_int_equal(operation(query, 0)->kids[0]->kind, AST_ATTR);
    query = parse(arena, slice_str("RETURN a[*].b[**]"));
    assert_int_equal(operation(query, 0)->kids[0]->kids[0]->kind, AST_EXPAND);
    arena_free(arena);
}

static void operation_and_function_form_of_infer_are_one_tree(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "RETURN INFER 'm' p", "RETURN infer('m', p)" },
        { "RETURN INFER @m p DOMAIN d.x", "RETURN INFER(@m, p, {domain: d.x})" },
        { "RETURN INFER 'm' p OPTIONS @o", "RETURN INFER('m', p, @o)" },
        { "RETURN INFER 'm' p DOMAIN 'a' OPTIONS {n: 1}",
          "RETURN INFER('m', p, {domain: 'a', n: 1})" },
        { "RETURN EMBED 'm' d.text", "RETURN EMBED('m', d.text)" },
        { "RETURN INFER 'm' (-x)", "RETURN INFER('m', -x)" },
    };
    struct arena *arena = arena_new(0);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_true(
            ast_equal(parse(arena, slice_str(pairs[i][0])), parse(arena, slice_str(pairs[i][1]))));
    arena_free(arena);
}

static void numbers_keep_their_kind(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    const struct ast *query =
        parse(arena, slice_str("RETURN [1, 1.0, 9223372036854775807, 9223372036854775808, "
                               "-9223372036854775808, 0x10, 18446744073709551615, 1e2, 1e-999]"));
    struct ast *const *items = operation(query, 0)->kids[0]->kids;
    assert_true(val_is_int(items[0]->val));
    assert_false(val_is_int(items[1]->val));
    assert_true(val_is_int(items[2]->val) && val_int(items[2]->val) == INT64_MAX);
    assert_false(val_is_int(items[3]->val));
    assert_true(val_double(items[3]->val) == 0x1p63);
    assert_true(val_is_int(items[4]->val) && val_int(items[4]->val) == INT64_MIN);
    assert_true(val_is_int(items[5]->val) && val_int(items[5]->val) == 16);
    assert_true(val_double(items[6]->val) == 0x1p64);
    assert_true(!val_is_int(items[7]->val) && val_double(items[7]->val) == 100);
    assert_true(val_double(items[8]->val) == 0);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_the_language_prints_its_canonical_text),
        cmocka_unit_test(canonical_text_gives_an_equal_tree),
        cmocka_unit_test(every_node_has_the_children_of_its_kind),
        cmocka_unit_test(every_kind_of_node_is_made_by_some_query_here),
        cmocka_unit_test(a_tree_borrows_nothing_from_the_text),
        cmocka_unit_test(nodes_know_where_they_begin),
        cmocka_unit_test(what_follows_an_expansion_is_its_tail),
        cmocka_unit_test(operation_and_function_form_of_infer_are_one_tree),
        cmocka_unit_test(numbers_keep_their_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
