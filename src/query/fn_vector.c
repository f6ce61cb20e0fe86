/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of vectors. */
#include "query/fn_support.h"
#include <math.h>

/* Sums over two arrays of numbers of one length. */
struct sums {
    double dot, a, b, l1, l2;
};

static bool read_sums(struct fn_call *call, struct sums *s)
{
    struct val a = fn_arg(call, 0), b = fn_arg(call, 1);
    size_t n = val_count(a);

    *s = (struct sums){ 0 };
    if (val_type(a) != VAL_ARRAY || val_type(b) != VAL_ARRAY || n != val_count(b)) {
        fn_bad_arg(call, val_type(a) == VAL_ARRAY, "an array of numbers, both of one length");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct val x = val_at(a, i), y = val_at(b, i);
        if (val_type(x) != VAL_NUMBER || val_type(y) != VAL_NUMBER) {
            fn_bad_arg(call, val_type(x) == VAL_NUMBER, "an array of numbers");
            return false;
        }
        double p = val_double(x), q = val_double(y);
        s->dot += p * q;
        s->a += p * p;
        s->b += q * q;
        s->l1 += fabs(p - q);
        s->l2 += (p - q) * (p - q);
    }
    return true;
}

static enum errc fn_cosine(struct fn_call *call)
{
    struct sums s;

    if (!read_sums(call, &s))
        return OK;
    if (s.a == 0 || s.b == 0)
        return fn_return(call, val_null);
    return fn_return_double(call, s.dot / sqrt(s.a) / sqrt(s.b));
}

static enum errc fn_l1(struct fn_call *call)
{
    struct sums s;

    return read_sums(call, &s) ? fn_return_double(call, s.l1) : OK;
}

static enum errc fn_l2(struct fn_call *call)
{
    struct sums s;

    return read_sums(call, &s) ? fn_return_double(call, sqrt(s.l2)) : OK;
}

/* The planner turns these into a search; what is left could not be one. */
static enum errc fn_near(struct fn_call *call)
{
    return fail_num(call->err, 1554,
                    "failed vector search: it needs SORT by the function and LIMIT "
                    "over a collection with a vector index");
}

const struct fn fn_vector[] = {
    { "COSINE_SIMILARITY", 2, 2, "", FN_PURE, fn_cosine, "Cosine of the angle of two vectors." },
    { "L1_DISTANCE", 2, 2, "", FN_PURE, fn_l1, "Manhattan distance." },
    { "L2_DISTANCE", 2, 2, "", FN_PURE, fn_l2, "Euclidean distance." },
    { "APPROX_NEAR_COSINE", 2, 3, "", FN_READS, fn_near, "Nearest vectors by cosine." },
    { "APPROX_NEAR_L2", 2, 3, "", FN_READS, fn_near, "Nearest vectors by distance." },
    { "APPROX_NEAR_INNER_PRODUCT", 2, 3, "", FN_READS, fn_near, "Nearest vectors by product." },
    { 0 },
};
