/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of vectors. */
#include "query/fn_support.h"
#include <math.h>

/* Sums over two arrays of numbers of one length. */
struct sums {
    double dot, a, b, l1, l2;
};

/* False when they are not that. */
static bool read_sums(struct val a, struct val b, struct sums *s)
{
    size_t n = val_count(a);

    *s = (struct sums){ 0 };
    if (val_type(a) != VAL_ARRAY || val_type(b) != VAL_ARRAY || n != val_count(b))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct val x = val_at(a, i), y = val_at(b, i);
        if (val_type(x) != VAL_NUMBER || val_type(y) != VAL_NUMBER)
            return false;
        double p = val_double(x), q = val_double(y);
        s->dot += p * q;
        s->a += p * p;
        s->b += q * q;
        s->l1 += fabs(p - q);
        s->l2 += (p - q) * (p - q);
    }
    return true;
}

static bool is_matrix(struct val v)
{
    return val_type(v) == VAL_ARRAY && val_type(val_at(v, 0)) == VAL_ARRAY;
}

/* Of two vectors a number; of a matrix and a vector an array, one for each row. */
static enum errc of_vectors(struct fn_call *call, double (*fn)(const struct sums *s))
{
    bool is_second = !is_matrix(call->args[0]) && is_matrix(call->args[1]);
    struct val rows = call->args[is_second], other = call->args[!is_second];
    struct sums s;

    if (!is_matrix(rows)) {
        if (!read_sums(call->args[0], call->args[1], &s))
            return fn_bad_arg(call, 1, "an array of numbers, both of one length");
        double d = fn(&s);
        return isfinite(d) ? fn_return_double(call, d) : fn_return(call, val_null);
    }
    struct val *items = fn_room(call, val_count(rows));
    for (size_t i = 0; i < val_count(rows); i++) {
        if (!read_sums(val_at(rows, i), other, &s))
            return fn_bad_arg(call, is_second, "rows of numbers as long as the other array");
        items[i] = val_new_double(call->arena, fn(&s));
    }
    return fn_return(call, val_new_array(call->arena, items, val_count(rows)));
}

static double cosine_of(const struct sums *s)
{
    return s->a == 0 || s->b == 0 ? NAN : s->dot / sqrt(s->a) / sqrt(s->b);
}

static double l1_of(const struct sums *s)
{
    return s->l1;
}

static double l2_of(const struct sums *s)
{
    return sqrt(s->l2);
}

static enum errc fn_cosine(struct fn_call *call)
{
    return of_vectors(call, cosine_of);
}

static enum errc fn_l1(struct fn_call *call)
{
    return of_vectors(call, l1_of);
}

static enum errc fn_l2(struct fn_call *call)
{
    return of_vectors(call, l2_of);
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
