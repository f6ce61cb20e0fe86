/* SPDX-License-Identifier: Apache-2.0 */
#include "server/mcp.h"
#include "base/val_text.h"
#include "server/ask_flow.h"
#include "server/body.h"
#include "server/query_flow.h"

/* A model reads the rows: more than this is no help to it. */
enum { ROWS_DEFAULT = 100, ROWS_MAX = 10000, ROWS_BYTES_MAX = MIB };

/* ---- query ---- */

struct query_call {
    struct mcp_call *call;
    size_t rows_max;
};

static void put_warnings(struct reply *a, const struct query *q)
{
    reply_list(a, "warnings");
    for (size_t i = 0; i < query_warning_count(q); i++)
        val_put(a->b, text_clean(a->r->arena, slice_str(query_warning(q, i)->text)));
    reply_close(a);
}

/* As many rows as fit; an answer cut short says so. */
static void query_done(void *ctx, struct query *q)
{
    struct query_call *k = ctx;
    struct mcp_call *call = k->call;
    size_t all = query_row_count(q), bytes = 0, n = 0;
    struct reply a;

    reply_begin(&a, call->r);
    reply_list(&a, "rows");
    while (n < all && n < k->rows_max && bytes + val_size(query_row(q, n)) <= ROWS_BYTES_MAX) {
        bytes += val_size(query_row(q, n));
        val_put(a.b, query_row(q, n++));
    }
    reply_close(&a);
    reply_int(&a, "count", (int64_t)all);
    reply_bool(&a, "truncated", n < all);
    reply_int(&a, "written", (int64_t)query_stats(q)->writes_executed);
    put_warnings(&a, q);
    query_free(q);
    call->done(call, reply_finish(&a));
}

static void query_failed(void *ctx, const struct error *err)
{
    struct query_call *k = ctx;

    k->call->failed(k->call, err);
}

static enum errc query_open(struct query_call *k, struct val arguments, struct query **out,
                            struct error *err)
{
    static const char *const known[] = { "query", "bind", "limit", "write" };
    struct request *r = k->call->r;
    struct val bind = val_get(arguments, slice_str("bind"));
    struct query_options opt;
    struct slice text;
    double limit;
    bool may_write;
    enum errc rc = OK;

    TRY(body_check_names(arguments, known, ARRAY_LEN(known), err));
    TRY(body_text(arguments, "query", &text, err));
    if (!text.len)
        return fail(err, ERR_INVALID, "'query' must be the text of an AQL query");
    if (!val_is_null(bind) && val_type(bind) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'bind' must be an object of bind values");
    TRY(body_number(arguments, "limit", 1, ROWS_MAX, ROWS_DEFAULT, &limit, err));
    TRY(body_bool(arguments, "write", &may_write, err));
    k->rows_max = (size_t)limit;
    TRY(query_flow_options(r, &opt, err));
    TRY(query_new(out, &r->ctx->query, text, bind, &opt, err));
    if (query_is_write(*out) && !may_write)
        rc = fail(err, ERR_FORBIDDEN,
                  "the query changes documents; call it with \"write\": true "
                  "if that is meant");
out:
    return rc;
}

static void call_query(struct mcp_call *c, struct val arguments)
{
    static const struct query_shape shape = { query_done, query_failed };
    struct query_call *k = ARENA_NEW(c->r->arena, struct query_call);
    struct query *q = NULL;
    struct error err = { 0 };

    k->call = c;
    if (query_open(k, arguments, &q, &err) == OK) {
        query_flow_start(c->r, q, &shape, k);
        return;
    }
    query_free(q);
    c->failed(c, &err);
}

/* ---- search, ask ---- */

struct ask_call {
    struct mcp_call *call;
    bool is_search;
};

static void ask_done(void *ctx, const struct rag_answer *answer)
{
    struct ask_call *k = ctx;
    struct reply a;

    reply_begin(&a, k->call->r);
    ask_put_answer(&a, answer, k->is_search);
    k->call->done(k->call, reply_finish(&a));
}

static void ask_failed(void *ctx, const struct error *err)
{
    struct ask_call *k = ctx;

    k->call->failed(k->call, err);
}

static void ask(struct mcp_call *c, struct val arguments, bool is_search)
{
    static const struct ask_shape shape = { NULL, ask_done, ask_failed };
    struct ask_call *k = ARENA_NEW(c->r->arena, struct ask_call);
    struct rag_ask_options opt = { .search_only = is_search };
    struct error err = { 0 };
    enum errc rc = OK;

    *k = (struct ask_call){ c, is_search };
    TRY(ask_read_options(arguments, NULL, &opt, &err));
    TRY(request_database_id(c->r, &opt.db_id, &err));
    ask_flow_start(c->r, &opt, &shape, k);
    return;
out:
    c->failed(c, &err);
}

static void call_search(struct mcp_call *c, struct val arguments)
{
    ask(c, arguments, true);
}

static void call_ask(struct mcp_call *c, struct val arguments)
{
    ask(c, arguments, false);
}

/* ---- table ---- */

#define TYPE(name, type, help) "\"" name "\":{\"type\":\"" type "\",\"description\":\"" help "\"}"
#define OBJECT(required, members)                                                                  \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[" required                  \
    "],\"properties\":{" members "}}"
/* Of results, to which later versions may add. */
#define RESULT(required, members)                                                                  \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" members "}}"
#define RANGE(name, type, low, high, help)                                                         \
    "\"" name "\":{\"type\":\"" type "\",\"minimum\":" low ",\"maximum\":" high                    \
    ",\"description\":\"" help "\"}"

#define QUESTION_MEMBERS                                                                                                                                              \
    TYPE("question", "string", "One whole question; nothing is known of earlier ones.")                                                                               \
    "," TYPE("collection", "string", "Collection of passages; 'chunks' unless given.") "," TYPE("model", "string", "Chat model, of those that are loaded.") "," TYPE( \
        "embedding_model", "string",                                                                                                                                  \
        "Embedding model, of those that are loaded.") "," RANGE("top_k", "integer", "1", "100",                                                                       \
                                                                "How many passages are looked "                                                                       \
                                                                "at.") "," RANGE("min_score",                                                                         \
                                                                                 "number", "-1",                                                                      \
                                                                                 "1",                                                                                 \
                                                                                 "Relevance "                                                                         \
                                                                                 "below which "                                                                       \
                                                                                 "nothing is "                                                                        \
                                                                                 "answered.") "," RANGE("max_tokens",                                                 \
                                                                                                        "integer",                                                    \
                                                                                                        "1",                                                          \
                                                                                                        "100000",                                                     \
                                                                                                        "Longest answer.") "," RANGE("temperature",                   \
                                                                                                                                     "number",                        \
                                                                                                                                     "0",                             \
                                                                                                                                     "2",                             \
                                                                                                                                     "0 takes the most probable words.")

static const struct mcp_tool tools[] = {
    { "query", "Query the database",
      "Runs a query in AQL, the query language of ArangoDB, for example "
      "FOR d IN documents FILTER d.chunks > 3 SORT d.title LIMIT 10 RETURN {title: d.title}. "
      "COLLECTIONS() lists the collections. Without \"write\": true it cannot change anything.",
      false,
      OBJECT(
          "\"query\"",
          TYPE("query", "string", "AQL. Put values into bind parameters: @name.") "," TYPE(
              "bind", "object",
              "Values of the bind parameters, by name without @.") "," RANGE("limit", "integer",
                                                                             "1", "10000",
                                                                             "Rows to return; 100 "
                                                                             "unless given.") "," TYPE("write",
                                                                                                       "boolean",
                                                                                                       "Allows INSERT, UPDATE, REPLACE, REMOVE, UPSERT.")),
      RESULT(
          "\"rows\",\"count\",\"truncated\"",
          TYPE("rows", "array", "What the query returned, at most limit rows and 1 MiB.") "," TYPE(
              "count", "integer",
              "How many rows there are in all.") "," TYPE("truncated", "boolean",
                                                          "There are more rows than "
                                                          "these.") "," TYPE("writte"
                                                                             "n",
                                                                             "intege"
                                                                             "r",
                                                                             "Documen"
                                                                             "ts "
                                                                             "that "
                                                                             "were "
                                                                             "changed"
                                                                             ".") "," TYPE("warning"
                                                                                           "s",
                                                                                           "array",
                                                                                           "What "
                                                                                           "the "
                                                                                           "query "
                                                                                           "met, "
                                                                                           "such "
                                                                                           "as a "
                                                                                           "divisio"
                                                                                           "n by "
                                                                                           "zero"
                                                                                           ".")),
      call_query },
    { "search", "Search the documents",
      "Finds the passages of the imported documents that are nearest to a question in meaning.",
      true,
      OBJECT("\"question\"", QUESTION_MEMBERS
             "," TYPE("rerank", "boolean", "false: quicker, in the order of the vectors alone.")),
      RESULT("\"sources\",\"relevant\"",
             TYPE("sources", "array", "Passages with title, path, byte range, score.") "," TYPE(
                 "relevant", "boolean",
                 "The passages are about the question.") "," TYPE("relevance", "number",
                                                                  "Between -1 and 1.")),
      call_search },
    { "ask", "Ask the documents",
      "Answers a question from the imported documents only. Each sentence is cited with the "
      "passage "
      "that supports it; answered is false when the documents do not say.",
      true, OBJECT("\"question\"", QUESTION_MEMBERS),
      RESULT(
          "\"answer\",\"answered\",\"sources\",\"citations\"",
          TYPE("answer", "string", "The answer, by a model that may be wrong: see citations.") "," TYPE("answered", "boolean", "false: not in the documents.") "," TYPE(
              "relevance", "number",
              "Between -1 and 1.") "," TYPE("sources", "array",
                                            "Passages with title, path, byte range, "
                                            "score.") "," TYPE("citations", "array",
                                                               "Quotes that support "
                                                               "parts of the answer.") "," TYPE("mo"
                                                                                                "de"
                                                                                                "l",
                                                                                                "st"
                                                                                                "ri"
                                                                                                "n"
                                                                                                "g",
                                                                                                "Wh"
                                                                                                "ic"
                                                                                                "h "
                                                                                                "mo"
                                                                                                "de"
                                                                                                "l "
                                                                                                "wr"
                                                                                                "ot"
                                                                                                "e "
                                                                                                "it"
                                                                                                ".")),
      call_ask },
};

const struct mcp_tool *mcp_tool_at(size_t i)
{
    return i < ARRAY_LEN(tools) ? &tools[i] : NULL;
}
