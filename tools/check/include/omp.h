/* SPDX-License-Identifier: Apache-2.0 */
/* For the static analysis only: what FAISS's headers and our door to it use of OpenMP's header, of
 * which clang has none and cannot read GCC's. */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
typedef struct omp_lock omp_lock_t;
void omp_set_num_threads(int count);
#ifdef __cplusplus
}
#endif
