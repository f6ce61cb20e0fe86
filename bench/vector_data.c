/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row is a center, plus noise in a space of few dimensions that all clusters
 * share (as topics do), plus a little noise everywhere.
 */
#include "vector_data.h"

#include <math.h>

#include "store/vector.h"

enum { CENTERS = 2000, NOISE_DIMENSIONS = 48 };

const unsigned vector_filter_steps[VECTOR_FILTERS] = { 1, 2, 10, 100, 1000 };

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) / (double)(1ull << 53);
}

static float normal(void)
{
    return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static float *normals(size_t count)
{
    float *out = mem_alloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = normal();
    return out;
}

static void make_row(float *row, const float *centers, const float *noise)
{
    const float *center = centers + (size_t)(uniform() * CENTERS) * VECTOR_DIMENSION;
    float scale = 0.85f * (float)(0.6 + 0.7 * uniform()) / sqrtf(NOISE_DIMENSIONS);
    for (size_t i = 0; i < VECTOR_DIMENSION; i++)
        row[i] = center[i] + 0.35f * normal();
    for (size_t j = 0; j < NOISE_DIMENSIONS; j++) {
        float x = scale * normal();
        for (size_t i = 0; i < VECTOR_DIMENSION; i++)
            row[i] += x * noise[j * VECTOR_DIMENSION + i];
    }
    float length = sqrtf(vector_dot(row, row, VECTOR_DIMENSION));
    for (size_t i = 0; i < VECTOR_DIMENSION; i++)
        row[i] /= length;
}

static void insert(uint32_t *numbers, float *scores, uint32_t number, float score)
{
    size_t at = VECTOR_K;
    if (score <= scores[VECTOR_K - 1])
        return;
    while (at > 0 && scores[at - 1] < score)
        at--;
    memmove(scores + at + 1, scores + at, (VECTOR_K - 1 - at) * sizeof *scores);
    memmove(numbers + at + 1, numbers + at, (VECTOR_K - 1 - at) * sizeof *numbers);
    scores[at] = score;
    numbers[at] = number;
}

static void find_nearest(struct vector_data *d, size_t question)
{
    float scores[VECTOR_FILTERS][VECTOR_K];
    for (size_t f = 0; f < VECTOR_FILTERS; f++)
        for (size_t i = 0; i < VECTOR_K; i++)
            scores[f][i] = -INFINITY;
    for (size_t i = 0; i < d->count; i++) {
        float score =
            vector_dot(vector_data_question(d, question), vector_data_row(d, i), VECTOR_DIMENSION);
        for (size_t f = 0; f < VECTOR_FILTERS && i % vector_filter_steps[f] == 0; f++)
            insert(d->nearest[question][f], scores[f], (uint32_t)i, score);
    }
}

void vector_data_make(struct vector_data *d, size_t count)
{
    state = 7;
    float *centers = normals((size_t)CENTERS * VECTOR_DIMENSION);
    float *noise = normals((size_t)NOISE_DIMENSIONS * VECTOR_DIMENSION);
    d->count = count;
    d->rows = mem_alloc(count * VECTOR_DIMENSION * sizeof *d->rows);
    d->questions = mem_alloc((size_t)VECTOR_QUESTIONS * VECTOR_DIMENSION * sizeof *d->questions);
    d->nearest = mem_alloc(VECTOR_QUESTIONS * sizeof *d->nearest);
    for (size_t i = 0; i < count; i++)
        make_row(d->rows + i * VECTOR_DIMENSION, centers, noise);
    for (size_t i = 0; i < VECTOR_QUESTIONS; i++)
        make_row(d->questions + i * VECTOR_DIMENSION, centers, noise);
    for (size_t i = 0; i < VECTOR_QUESTIONS; i++)
        find_nearest(d, i);
    mem_free(centers);
    mem_free(noise);
}

void vector_data_release(struct vector_data *d)
{
    mem_free(d->rows);
    mem_free(d->questions);
    mem_free(d->nearest);
}

const float *vector_data_row(const struct vector_data *d, size_t i)
{
    return d->rows + i * VECTOR_DIMENSION;
}

const float *vector_data_question(const struct vector_data *d, size_t i)
{
    return d->questions + i * VECTOR_DIMENSION;
}

size_t vector_data_hits(const struct vector_data *d, size_t question, size_t filter,
                        const uint32_t *numbers, size_t count)
{
    size_t hits = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < VECTOR_K; j++)
            hits += numbers[i] == d->nearest[question][filter][j];
    return hits;
}
