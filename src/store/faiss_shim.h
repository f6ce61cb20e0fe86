/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faiss_shim -- C door to FAISS: graphs of float32 vectors (HNSW) that find
 * near rows. Rows are numbered in the order of their addition. No exception
 * leaves it; everything runs on the calling thread.
 *
 * Searches of one graph may run at once; adding excludes everything else.
 */
#ifndef STORE_FAISS_SHIM_H
#define STORE_FAISS_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hnsw;

struct hnsw_options {
    uint32_t dimension;
    bool is_inner_product; /* else squared L2 */
    uint32_t links;        /* neighbours per row and layer, 2 to 256 */
    uint32_t build_effort; /* candidates looked at while adding */
};

/* Empty. Returned to the caller, who must hnsw_free() it. ERR_INTERNAL is FAISS's refusal, as below. */
enum errc hnsw_new(struct hnsw **out, const struct hnsw_options *opt, struct error *err) MUST_CHECK;
void hnsw_free(struct hnsw *h); /* NULL is allowed */
/* An independent copy, to be added to. */
enum errc hnsw_copy(struct hnsw **out, const struct hnsw *h, struct error *err) MUST_CHECK;

enum errc hnsw_add(struct hnsw *h, const float *rows, size_t count, struct error *err) MUST_CHECK;

struct hnsw_query {
    const float *vector;
    size_t k;
    size_t effort; /* candidates kept while searching, at least k; more finds more */
};

/*
 * rows and distances have room for k; best first. The distance is the inner
 * product (high is near) or squared L2 (low is near). *count may be lower than
 * k although more rows exist: the graph is searched, not scanned.
 */
enum errc hnsw_search(const struct hnsw *h, const struct hnsw_query *query, int64_t *rows,
                      float *distances, size_t *count, struct error *err) MUST_CHECK;
/* The largest effort that has an effect. */
size_t hnsw_effort_max(void);

size_t hnsw_count(const struct hnsw *h);
uint32_t hnsw_dimension(const struct hnsw *h);
const float *hnsw_row(const struct hnsw *h, size_t row); /* until rows are added */
size_t hnsw_bytes(const struct hnsw *h);                 /* of memory, about */

/* Both report their own failure in err; a read gives exactly len bytes. */
typedef enum errc hnsw_write_fn(void *ctx, const void *bytes, size_t len, struct error *err);
typedef enum errc hnsw_read_fn(void *ctx, void *bytes, size_t len, struct error *err);

enum errc hnsw_save(const struct hnsw *h, hnsw_write_fn *write, void *ctx,
                    struct error *err) MUST_CHECK;
/* The bytes must be what hnsw_save wrote: check them before. */
enum errc hnsw_load(struct hnsw **out, hnsw_read_fn *read, void *ctx, struct error *err) MUST_CHECK;

/* "FAISS 1.12.0 AVX2" */
const char *hnsw_version(void);

#ifdef __cplusplus
}
#endif

#endif
