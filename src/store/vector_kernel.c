/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop per instruction set, four accumulators each to hide the latency of
 * the additions; chosen at the first call.
 */
#include <immintrin.h>
#include <stdatomic.h>

#include "store/index.h"

typedef float vector_fn(const float *a, const float *b, size_t n);

#define KERNEL(set) static float __attribute__((target(set)))

/* ---- SSE2: part of x86-64 ---- */

static float sum_sse(__m128 s)
{
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_shuffle_ps(s, s, 1));
    return _mm_cvtss_f32(s);
}

static float dot_sse2(const float *a, const float *b, size_t n)
{
    __m128 s0 = _mm_setzero_ps(), s1 = s0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        s0 = _mm_add_ps(s0, _mm_mul_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(b + i)));
        s1 = _mm_add_ps(s1, _mm_mul_ps(_mm_loadu_ps(a + i + 4), _mm_loadu_ps(b + i + 4)));
    }
    float sum = sum_sse(_mm_add_ps(s0, s1));
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static float l2_sse2(const float *a, const float *b, size_t n)
{
    __m128 s0 = _mm_setzero_ps(), s1 = s0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128 d0 = _mm_sub_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(b + i));
        __m128 d1 = _mm_sub_ps(_mm_loadu_ps(a + i + 4), _mm_loadu_ps(b + i + 4));
        s0 = _mm_add_ps(s0, _mm_mul_ps(d0, d0));
        s1 = _mm_add_ps(s1, _mm_mul_ps(d1, d1));
    }
    float sum = sum_sse(_mm_add_ps(s0, s1));
    for (; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* ---- AVX2 with FMA ---- */

KERNEL("avx2,fma") sum_avx(__m256 s)
{
    __m128 low = _mm256_castps256_ps128(s), high = _mm256_extractf128_ps(s, 1);
    return sum_sse(_mm_add_ps(low, high));
}

KERNEL("avx2,fma") dot_avx2(const float *a, const float *b, size_t n)
{
    __m256 s[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps() };
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 4; j++)
            s[j] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * j), _mm256_loadu_ps(b + i + 8 * j),
                                   s[j]);
    for (; i + 8 <= n; i += 8)
        s[0] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s[0]);
    float sum = sum_avx(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

KERNEL("avx2,fma") l2_avx2(const float *a, const float *b, size_t n)
{
    __m256 s[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps() };
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        for (size_t j = 0; j < 4; j++) {
            __m256 d =
                _mm256_sub_ps(_mm256_loadu_ps(a + i + 8 * j), _mm256_loadu_ps(b + i + 8 * j));
            s[j] = _mm256_fmadd_ps(d, d, s[j]);
        }
    }
    for (; i + 8 <= n; i += 8) {
        __m256 d = _mm256_sub_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i));
        s[0] = _mm256_fmadd_ps(d, d, s[0]);
    }
    float sum = sum_avx(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
    for (; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* ---- AVX-512: the tail by a mask ---- */

KERNEL("avx512f") dot_avx512(const float *a, const float *b, size_t n)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), s0);
        s1 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), s1);
    }
    for (; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        s0 = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i), s0);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(s0, s1));
}

KERNEL("avx512f") l2_avx512(const float *a, const float *b, size_t n)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m512 d0 = _mm512_sub_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i));
        __m512 d1 = _mm512_sub_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16));
        s0 = _mm512_fmadd_ps(d0, d0, s0);
        s1 = _mm512_fmadd_ps(d1, d1, s1);
    }
    for (; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i));
        s0 = _mm512_fmadd_ps(d, d, s0);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(s0, s1));
}

/* ---- choice ---- */

static const struct kernel {
    const char *name;
    vector_fn *dot, *l2;
} kernels[] = {
    { "sse2", dot_sse2, l2_sse2 },
    { "avx2", dot_avx2, l2_avx2 },
    { "avx512", dot_avx512, l2_avx512 },
};

static _Atomic(const struct kernel *) chosen;

static const struct kernel *kernel_best(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return &kernels[2];
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kernels[1];
    return &kernels[0];
}

static const struct kernel *kernel_get(void)
{
    const struct kernel *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!k) {
        k = kernel_best();
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

float vector_dot(const float *a, const float *b, size_t n)
{
    return kernel_get()->dot(a, b, n);
}

float vector_l2_squared(const float *a, const float *b, size_t n)
{
    return kernel_get()->l2(a, b, n);
}

bool vector_use_kernel(const char *name)
{
    size_t best = (size_t)(kernel_best() - kernels);
    for (size_t i = 0; name && i <= best; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            atomic_store(&chosen, &kernels[i]);
            return true;
        }
    }
    atomic_store(&chosen, kernel_best());
    return name == NULL;
}
