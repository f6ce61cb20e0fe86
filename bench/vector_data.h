/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_data -- clustered vectors of length 1 that resemble embeddings, and
 * for some questions the true nearest ones under filters. The same numbers in
 * every run.
 */
#ifndef BENCH_VECTOR_DATA_H
#define BENCH_VECTOR_DATA_H

#include "base/base.h"

enum { VECTOR_DIMENSION = 384, VECTOR_QUESTIONS = 300, VECTOR_K = 10, VECTOR_FILTERS = 5 };

/* A filter lets rows pass whose number is a multiple of this. */
extern const unsigned vector_filter_steps[VECTOR_FILTERS]; /* 1, 2, 10, 100, 1000 */

struct vector_data {
    size_t count;
    float *rows, *questions;                       /* VECTOR_DIMENSION floats each */
    uint32_t (*nearest)[VECTOR_FILTERS][VECTOR_K]; /* by question; the order does not matter */
};
void vector_data_make(struct vector_data *d, size_t count);
void vector_data_release(struct vector_data *d);

const float *vector_data_row(const struct vector_data *d, size_t i);
const float *vector_data_question(const struct vector_data *d, size_t i);
/* How many of the numbers are among the true nearest of that question behind that filter. */
size_t vector_data_hits(const struct vector_data *d, size_t question, size_t filter,
                        const uint32_t *numbers, size_t count);

#endif
