/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on numbers and on arrays of numbers. */
#include "base/env.h"
#include "query/aggregate.h"
#include "query/fn_support.h"
#include <math.h>

enum { RANGE_MAX = 10000000 };

static enum errc math(struct fn_call *call, double (*fn)(double))
{
    double d = fn(fn_number_arg(call, 0));

    return isfinite(d) ? fn_return_double(call, d) : fn_return(call, val_null);
}

/* Whole results stay whole numbers. */
static enum errc whole(struct fn_call *call, double (*fn)(double))
{
    struct val v = cast_number(call->arena, fn_arg(call, 0));

    if (val_is_int(v))
        return fn_return(call, v);
    double d = fn(val_double(v));
    return fabs(d) < 9e15 ? fn_return_int(call, (int64_t)d) : fn_return_double(call, d);
}

/* Halves go up, as in ArangoDB. */
static double round_half_up(double d)
{
    return floor(d + 0.5);
}

static enum errc fn_round(struct fn_call *call)
{
    return whole(call, round_half_up);
}

static enum errc fn_floor(struct fn_call *call)
{
    return whole(call, floor);
}

static enum errc fn_ceil(struct fn_call *call)
{
    return whole(call, ceil);
}

static enum errc fn_abs(struct fn_call *call)
{
    struct val v = cast_number(call->arena, fn_arg(call, 0));

    if (val_is_int(v) && val_int(v) != INT64_MIN)
        return fn_return_int(call, val_int(v) < 0 ? -val_int(v) : val_int(v));
    return fn_return_double(call, fabs(val_double(v)));
}

#define MATH_FN(name, fn)                                                                          \
    static enum errc name(struct fn_call *call)                                                    \
    {                                                                                              \
        return math(call, fn);                                                                     \
    }

MATH_FN(fn_sqrt, sqrt)
MATH_FN(fn_exp, exp)
MATH_FN(fn_exp2, exp2)
MATH_FN(fn_log, log)
MATH_FN(fn_log2, log2)
MATH_FN(fn_log10, log10)
MATH_FN(fn_sin, sin)
MATH_FN(fn_cos, cos)
MATH_FN(fn_tan, tan)
MATH_FN(fn_asin, asin)
MATH_FN(fn_acos, acos)
MATH_FN(fn_atan, atan)

static enum errc return_finite(struct fn_call *call, double d)
{
    if (!isfinite(d))
        return fn_return(call, val_null);
    if (d == floor(d) && fabs(d) < 9e15)
        return fn_return_int(call, (int64_t)d);
    return fn_return_double(call, d);
}

static enum errc fn_pow(struct fn_call *call)
{
    return return_finite(call, pow(fn_number_arg(call, 0), fn_number_arg(call, 1)));
}

static enum errc fn_atan2(struct fn_call *call)
{
    return return_finite(call, atan2(fn_number_arg(call, 0), fn_number_arg(call, 1)));
}

static enum errc fn_radians(struct fn_call *call)
{
    return fn_return_double(call, fn_number_arg(call, 0) * M_PI / 180);
}

static enum errc fn_degrees(struct fn_call *call)
{
    return fn_return_double(call, fn_number_arg(call, 0) * 180 / M_PI);
}

static enum errc fn_pi(struct fn_call *call)
{
    return fn_return_double(call, M_PI);
}

static enum errc fn_rand(struct fn_call *call)
{
    return fn_return_double(call, (double)(env_random_u64(call->env) >> 11) * 0x1p-53);
}

static enum errc fn_range(struct fn_call *call)
{
    struct val from = cast_number(call->arena, fn_arg(call, 0));
    struct val to = cast_number(call->arena, fn_arg(call, 1));
    double a = val_double(from), b = val_double(to);
    bool is_whole = val_is_int(from) && (call->count < 3 || val_is_int(fn_arg(call, 2)));
    double step = call->count > 2 ? fn_number_arg(call, 2) : a <= b ? 1 : -1;

    if (step == 0 || (b > a && step < 0) || (b < a && step > 0))
        return fn_bad_arg(call, 2, "a step towards the end");
    double count = floor((b - a) / step) + 1;
    if (count > RANGE_MAX)
        return fail_num(call->err, 1504, "RANGE of %.0f numbers is larger than the limit of %d",
                        count, RANGE_MAX);
    struct val_builder *builder = val_builder_new(0);
    val_open_array(builder);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        if (is_whole)
            val_put_int(builder, (int64_t)(a + (double)i * step));
        else
            val_put_double(builder, a + (double)i * step);
    }
    val_close(builder);
    enum errc rc = val_finish_in(builder, call->arena, &call->result, call->err);
    val_builder_free(builder);
    return rc;
}

/* ---- over arrays: the same rules as COLLECT ... AGGREGATE ---- */

static enum errc over_array(struct fn_call *call, const char *aggregate)
{
    struct aggregate_state s = { 0 };
    struct expr_env env = { .collator = call->collator, .env = call->env };
    int kind = aggregate_find(slice_str(aggregate));

    for (size_t i = 0; i < val_count(call->args[0]); i++)
        aggregate_add(kind, &s, val_at(call->args[0], i), call->arena, &env);
    return fn_return(call, aggregate_result(kind, &s, call->arena, &env));
}

static enum errc fn_sum(struct fn_call *call)
{
    return over_array(call, "SUM");
}

static enum errc fn_average(struct fn_call *call)
{
    return over_array(call, "AVERAGE");
}

static enum errc fn_min(struct fn_call *call)
{
    return over_array(call, "MIN");
}

static enum errc fn_max(struct fn_call *call)
{
    return over_array(call, "MAX");
}

static enum errc fn_variance(struct fn_call *call)
{
    return over_array(call, "VARIANCE_POPULATION");
}

static enum errc fn_variance_sample(struct fn_call *call)
{
    return over_array(call, "VARIANCE_SAMPLE");
}

static enum errc fn_stddev(struct fn_call *call)
{
    return over_array(call, "STDDEV_POPULATION");
}

static enum errc fn_stddev_sample(struct fn_call *call)
{
    return over_array(call, "STDDEV_SAMPLE");
}

/* Numbers of the array in order; -1 when something else than null is in it. */
static long sorted_numbers(struct fn_call *call, struct val **out)
{
    size_t count = 0;

    *out = fn_room(call, val_count(call->args[0]));
    for (size_t i = 0; i < val_count(call->args[0]); i++) {
        struct val v = val_at(call->args[0], i);
        if (val_is_null(v))
            continue;
        if (val_type(v) != VAL_NUMBER)
            return -1;
        (*out)[count++] = v;
    }
    fn_sort(call, *out, count);
    return (long)count;
}

static enum errc fn_median(struct fn_call *call)
{
    struct val *items;

    long n = sorted_numbers(call, &items);
    if (n < 1)
        return fn_return(call, val_null);
    if (n % 2)
        return fn_return(call, items[n / 2]);
    return return_finite(call, (val_double(items[n / 2 - 1]) + val_double(items[n / 2])) / 2);
}

static enum errc fn_product(struct fn_call *call)
{
    double product = 1;

    for (size_t i = 0; i < val_count(call->args[0]); i++) {
        struct val v = val_at(call->args[0], i);
        if (val_is_null(v))
            continue;
        if (val_type(v) != VAL_NUMBER)
            return fn_return(call, val_null);
        product *= val_double(v);
    }
    return return_finite(call, product);
}

static enum errc fn_percentile(struct fn_call *call)
{
    struct val *items;
    double p = fn_number_arg(call, 1);
    bool interpolates =
        fn_is(call, 2, VAL_STRING) && slice_is(val_string(call->args[2]), "interpolation");

    long n = sorted_numbers(call, &items);
    if (n < 1 || !(p > 0 && p <= 100))
        return fn_return(call, val_null);
    if (!interpolates)
        return fn_return(call, items[(long)ceil(p / 100 * (double)n) - 1]);
    double at = p / 100 * (double)(n + 1);
    long low = (long)floor(at);
    if (low < 1)
        return fn_return(call, items[0]);
    if (low >= n)
        return fn_return(call, items[n - 1]);
    double a = val_double(items[low - 1]), b = val_double(items[low]);
    return return_finite(call, a + (at - (double)low) * (b - a));
}

/* ---- decay: how far a number is from where it should be, as a score from 1 down to 0 ---- */

struct decay {
    double origin, scale, offset, at_scale;
    char shape; /* 'g' Gaussian, 'e' exponential, 'l' linear */
};

static double decay_score(const struct decay *d, double value)
{
    double x = fmax(0, fabs(value - d->origin) - d->offset) / d->scale;

    switch (d->shape) {
    case 'g':
        return pow(d->at_scale, x * x);
    case 'e':
        return pow(d->at_scale, x);
    default:
        return fmax(0, 1 - x * (1 - d->at_scale));
    }
}

static enum errc decay(struct fn_call *call, char shape)
{
    struct decay d = { fn_number_arg(call, 1), fn_number_arg(call, 2), fn_number_arg(call, 3),
                       fn_number_arg(call, 4), shape };
    struct val v = call->args[0];

    for (int i = 1; i < 5; i++)
        if (!fn_is(call, i, VAL_NUMBER))
            return fn_bad_arg(call, i, "a number");
    if (!(d.scale > 0))
        return fn_bad_arg(call, 2, "a scale above 0");
    if (!(d.offset >= 0))
        return fn_bad_arg(call, 3, "an offset from 0");
    if (!(d.at_scale > 0 && d.at_scale < 1))
        return fn_bad_arg(call, 4, "a decay between 0 and 1, both excluded");
    if (val_type(v) == VAL_NUMBER)
        return fn_return_double(call, decay_score(&d, val_double(v)));
    if (val_type(v) != VAL_ARRAY)
        return fn_bad_arg(call, 0, "a number or an array of numbers");
    struct val *items = fn_room(call, val_count(v));
    for (size_t i = 0; i < val_count(v); i++) {
        if (val_type(val_at(v, i)) != VAL_NUMBER)
            return fn_bad_arg(call, 0, "an array of numbers");
        items[i] = val_new_double(call->arena, decay_score(&d, val_double(val_at(v, i))));
    }
    return fn_return(call, val_new_array(call->arena, items, val_count(v)));
}

static enum errc fn_decay_gauss(struct fn_call *call)
{
    return decay(call, 'g');
}

static enum errc fn_decay_exp(struct fn_call *call)
{
    return decay(call, 'e');
}

static enum errc fn_decay_linear(struct fn_call *call)
{
    return decay(call, 'l');
}

const struct fn fn_number[] = {
    { "ROUND", 1, 1, "", FN_PURE, fn_round, "The nearest whole number; halves go up." },
    { "FLOOR", 1, 1, "", FN_PURE, fn_floor, "The whole number below." },
    { "CEIL", 1, 1, "", FN_PURE, fn_ceil, "The whole number above." },
    { "ABS", 1, 1, "", FN_PURE, fn_abs, "Without its sign." },
    { "SQRT", 1, 1, "", FN_PURE, fn_sqrt, "Square root." },
    { "POW", 2, 2, "", FN_PURE, fn_pow, "Power." },
    { "EXP", 1, 1, "", FN_PURE, fn_exp, "e to the power." },
    { "EXP2", 1, 1, "", FN_PURE, fn_exp2, "2 to the power." },
    { "LOG", 1, 1, "", FN_PURE, fn_log, "Natural logarithm." },
    { "LOG2", 1, 1, "", FN_PURE, fn_log2, "Logarithm to base 2." },
    { "LOG10", 1, 1, "", FN_PURE, fn_log10, "Logarithm to base 10." },
    { "SIN", 1, 1, "", FN_PURE, fn_sin, "Sine." },
    { "COS", 1, 1, "", FN_PURE, fn_cos, "Cosine." },
    { "TAN", 1, 1, "", FN_PURE, fn_tan, "Tangent." },
    { "ASIN", 1, 1, "", FN_PURE, fn_asin, "Arc sine." },
    { "ACOS", 1, 1, "", FN_PURE, fn_acos, "Arc cosine." },
    { "ATAN", 1, 1, "", FN_PURE, fn_atan, "Arc tangent." },
    { "ATAN2", 2, 2, "", FN_PURE, fn_atan2, "Arc tangent of two sides." },
    { "RADIANS", 1, 1, "", FN_PURE, fn_radians, "Degrees to radians." },
    { "DEGREES", 1, 1, "", FN_PURE, fn_degrees, "Radians to degrees." },
    { "PI", 0, 0, "", FN_PURE, fn_pi, "The number pi." },
    { "RAND", 0, 0, "", 0, fn_rand, "A random number from 0 to below 1." },
    { "RANDOM", 0, 0, "", 0, fn_rand, "As RAND." },
    { "RANGE", 2, 3, "", FN_PURE, fn_range, "An array of numbers." },
    { "SUM", 1, 1, "a", FN_PURE, fn_sum, "Sum of the numbers." },
    { "AVERAGE", 1, 1, "a", FN_PURE, fn_average, "Their mean." },
    { "AVG", 1, 1, "a", FN_PURE, fn_average, "As AVERAGE." },
    { "MIN", 1, 1, "a", FN_PURE, fn_min, "The smallest value." },
    { "MAX", 1, 1, "a", FN_PURE, fn_max, "The largest value." },
    { "MEDIAN", 1, 1, "a", FN_PURE, fn_median, "The middle number." },
    { "PRODUCT", 1, 1, "a", FN_PURE, fn_product, "Product of the numbers." },
    { "PERCENTILE", 2, 3, "a.", FN_PURE, fn_percentile, "The nth percentile." },
    { "VARIANCE_POPULATION", 1, 1, "a", FN_PURE, fn_variance, "Variance of a population." },
    { "VARIANCE", 1, 1, "a", FN_PURE, fn_variance, "As VARIANCE_POPULATION." },
    { "VARIANCE_SAMPLE", 1, 1, "a", FN_PURE, fn_variance_sample, "Variance of a sample." },
    { "STDDEV_POPULATION", 1, 1, "a", FN_PURE, fn_stddev, "Standard deviation of a population." },
    { "STDDEV", 1, 1, "a", FN_PURE, fn_stddev, "As STDDEV_POPULATION." },
    { "STDDEV_SAMPLE", 1, 1, "a", FN_PURE, fn_stddev_sample, "Standard deviation of a sample." },
    { "DECAY_GAUSS", 5, 5, "", FN_PURE, fn_decay_gauss,
      "Score by the distance from an origin, falling as a Gaussian." },
    { "DECAY_EXP", 5, 5, "", FN_PURE, fn_decay_exp, "The same, falling exponentially." },
    { "DECAY_LINEAR", 5, 5, "", FN_PURE, fn_decay_linear, "The same, falling on a line." },
    { 0 },
};
