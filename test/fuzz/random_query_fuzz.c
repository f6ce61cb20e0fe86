/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes become a well-formed query, which runs over the small store directly and through the
 * codec: with the same rows, or with one of the errors that its values explain.
 */
#include "random_query.h"
#include "small_store.h"

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
    1554, /* APPROX_NEAR_* where it cannot search */
    1563, /* FOR over what is no array */
    1569, /* FAIL */
    1579, /* UPSERT whose values read the collection */
    1593, /* ASSERT */
};

static bool is_expected(const struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(expected_errors); i++)
        if (error_num(err) == expected_errors[i])
            return true;
    return false;
}

/* Prints the rows; false when it ended with an error. */
static bool run(struct slice text, bool through_codec, struct buf *rows)
{
    struct query_env env = { .store = small_store(),
                             .calls = { &small_infer, &small_embed },
                             .env = env_system() };
    struct query_options opt = {
        .db_id = 1, .memory_limit = 8 * MIB, .max_runtime_ms = 50, .through_codec = through_codec
    };
    struct error err = { 0 };
    struct query *q = NULL;
    enum query_state state = QUERY_DONE;

    must(txn_begin(&opt.txn, small_store(), &(struct txn_options){ 0 }, &err), &err);
    enum errc rc = query_new(&q, &env, text, val_null, &opt, &err);
    if (rc == OK)
        rc = query_run(q, &state, &err);
    if (rc != OK && (err.code != rc || !err.text[0] || !is_expected(&err)))
        BUG("%d %s: %.*s", error_num(&err), err.text, SLICE_ARG(text));
    if (rc == OK && state != QUERY_DONE)
        BUG("nobody is there to wait for: %.*s", SLICE_ARG(text));
    for (size_t i = 0; rc == OK && i < query_row_count(q); i++) {
        val_print(query_row(q, i), rows);
        buf_add_char(rows, '\n');
    }
    query_free(q);
    txn_end(opt.txn);
    return rc == OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct random_query q;
    struct buf direct, coded;

    random_query(&q, data, size);
    buf_init(&direct, 0);
    buf_init(&coded, 0);
    bool is_ok = run(buf_slice(&q.text), false, &direct);
    bool is_coded_ok = run(buf_slice(&q.text), true, &coded);
    if (q.is_stable && is_ok && is_coded_ok && !slice_eq(buf_slice(&direct), buf_slice(&coded)))
        BUG("%s\n%s and through the codec\n%s", buf_cstr(&q.text), buf_cstr(&direct),
            buf_cstr(&coded));
    buf_release(&direct);
    buf_release(&coded);
    buf_release(&q.text);
    return 0;
}
