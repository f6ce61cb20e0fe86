/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes become a well-formed query, which runs over the small store directly, through the codec,
 * without the planner's rules and without those that change the order of documents: with the same
 * rows, or with one of the errors that its values explain.
 */
#include "random_query.h"
#include "small_store.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What values can do wrong; names, arities and syntax are right. */
static const int expected_errors[] = {
    9,    /* what is not implemented */
    10,   /* a document that an index refuses */
    32,   /* memory */
    1202, /* UPDATE, REPLACE, REMOVE of a document that is not there */
    1203, /* COLLECTION_COUNT of a value that names none */
    1205, /* an _id of another collection */
    1210, /* INSERT of one that is */
    1221, /* a key that cannot be one */
    1227, /* a document that is no object */
    1233, /* an edge without ends */
    1500, /* time */
    1504, /* a range too large */
    1540, /* CALL, APPLY of a name that is none */
    1541, /* the same with other arguments */
    1554, /* APPROX_NEAR_* where it cannot search */
    1563, /* FOR over what is no array */
    1569, /* FAIL */
    1579, /* UPSERT whose values read the collection */
    1593, /* ASSERT */
    1621, /* SCHEMA_VALIDATE with what is no schema */
};

static bool is_expected(const struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(expected_errors); i++)
        if (error_num(err) == expected_errors[i])
            return true;
    return false;
}

/* Rules that are switched off; a list of names. */
static const char *const all_rules[] = { NULL };
static const char *const no_rules[] = { "-all", NULL };
static const char *const keeping_order[] = { "-use-indexes", "-use-index-for-sort",
                                             "-use-index-for-collect", NULL };

static struct val rule_list(struct arena *arena, const char *const *names)
{
    struct val items[8];
    size_t count = 0;

    for (; names[count]; count++)
        items[count] = val_new_string(arena, slice_str(names[count]));
    return val_new_array(arena, items, count);
}

/* Prints the rows; false when it ended with an error. */
static bool run(struct slice text, const char *const *rules, bool through_codec, struct buf *rows,
                struct error *err)
{
    struct query_env env = { .store = small_store(),
                             .calls = { &small_infer, &small_embed },
                             .env = env_system() };
    struct arena *arena = arena_new(0);
    struct query_options opt = { .db_id = 1,
                                 .memory_limit = 8 * MIB,
                                 .max_runtime_ms = 50,
                                 .rules = rule_list(arena, rules),
                                 .through_codec = through_codec };
    struct query *q = NULL;
    enum query_state state = QUERY_DONE;

    *err = (struct error){ 0 };
    must(txn_begin(&opt.txn, small_store(), &(struct txn_options){ 0 }, err), err);
    enum errc rc = query_new(&q, &env, text, val_null, &opt, err);
    if (rc == OK)
        rc = query_run(q, &state, err);
    if (rc != OK && (err->code != rc || !err->text[0] || !is_expected(err)))
        BUG("%d %s: %.*s", error_num(err), err->text, SLICE_ARG(text));
    if (rc == OK && state != QUERY_DONE)
        BUG("nobody is there to wait for: %.*s", SLICE_ARG(text));
    for (size_t i = 0; rc == OK && i < query_row_count(q); i++) {
        val_print(query_row(q, i), rows);
        buf_add_char(rows, '\n');
    }
    query_free(q);
    txn_end(opt.txn);
    arena_free(arena);
    return rc == OK;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines in the order of their bytes. */
static void sort_lines(struct buf *rows)
{
    char *copy = mem_strndup(buf_slice(rows)), *rest = NULL;
    size_t count = 0, cap = 0;
    char **lines = NULL;

    for (char *at = strtok_r(copy, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        if (count == cap)
            lines = mem_realloc(lines, (cap = cap ? cap * 2 : 64) * sizeof(*lines));
        lines[count++] = at;
    }
    if (count)
        qsort(lines, count, sizeof(*lines), compare_lines);
    buf_clear(rows);
    for (size_t i = 0; i < count; i++)
        buf_printf(rows, "%s\n", lines[i]);
    mem_free(lines);
    mem_free(copy);
}

struct way {
    const char *name;
    const char *const *rules;
    bool is_sorted; /* is_sorted: rows may come in another order */
};

static const struct way ways[] = {
    { "with all rules", all_rules, true },
    { "with rules that keep the order", keeping_order, false },
};

/* Time and memory depend on the way. */
static bool is_resource_error(const struct error *err)
{
    return error_num(err) == 1500 || error_num(err) == 32;
}

static void compare(struct random_query *q, const struct way *way, struct slice plain)
{
    struct buf rows, want;
    struct error err;

    buf_init(&rows, 0);
    buf_init(&want, 0);
    buf_add_slice(&want, plain);
    bool is_ok = run(buf_slice(&q->text), way->rules, false, &rows, &err);
    if (is_ok && way->is_sorted) {
        sort_lines(&rows);
        sort_lines(&want);
    }
    if (!is_ok && !is_resource_error(&err))
        BUG("%s\nruns without rules; %s: %s", buf_cstr(&q->text), way->name, err.text);
    bool must_equal = is_ok && (q->is_order_free || !way->is_sorted);
    if (must_equal && !slice_eq(buf_slice(&rows), buf_slice(&want)))
        BUG("%s\n%s without rules, %s\n%s", buf_cstr(&q->text), buf_cstr(&want), way->name,
            buf_cstr(&rows));
    buf_release(&rows);
    buf_release(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct random_query q;
    struct buf plain, direct, coded;
    struct error err;

    random_query(&q, data, size);
    buf_init(&plain, 0);
    buf_init(&direct, 0);
    buf_init(&coded, 0);
    bool is_ok = run(buf_slice(&q.text), no_rules, false, &plain, &err);
    for (size_t i = 0; is_ok && q.is_stable && i < ARRAY_LEN(ways); i++)
        compare(&q, &ways[i], buf_slice(&plain));
    bool both_ok = run(buf_slice(&q.text), all_rules, false, &direct, &err);
    both_ok = run(buf_slice(&q.text), all_rules, true, &coded, &err) && both_ok;
    if (q.is_stable && both_ok && !slice_eq(buf_slice(&direct), buf_slice(&coded)))
        BUG("%s\n%s and through the codec\n%s", buf_cstr(&q.text), buf_cstr(&direct),
            buf_cstr(&coded));
    buf_release(&plain);
    buf_release(&direct);
    buf_release(&coded);
    buf_release(&q.text);
    return 0;
}
