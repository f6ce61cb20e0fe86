// SPDX-License-Identifier: Apache-2.0
// FAISS 1.7.3 sizes the heap of candidates by the index's own efSearch and silently cuts a query's
// larger value, so the index's is raised once to the most that is asked for. Newer versions take the
// query's value as it is.
#include "store/faiss_shim.h"

#include <faiss/Index.h>
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/impl/io.h>
#include <faiss/index_io.h>
#include <faiss/utils/utils.h>
#include <omp.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#define AT_LEAST_1_8 (FAISS_VERSION_MAJOR > 1 || FAISS_VERSION_MINOR >= 8)

struct hnsw {
    std::unique_ptr<faiss::IndexHNSW> index;
    const faiss::IndexFlat *rows; // the index's own storage
};

namespace
{

enum : size_t { EFFORT_MAX = AT_LEAST_1_8 ? 16384 : 512 };

// Runs body; an exception becomes an error.
template <class F> enum errc guarded(struct error *err, F body) noexcept
{
    // FAISS opens OpenMP teams of the size that the calling thread asks for.
    static thread_local bool is_single = false;
    try {
        if (!is_single) {
            omp_set_num_threads(1);
            is_single = true;
        }
        return body();
    } catch (const std::bad_alloc &) {
        return fail(err, ERR_LIMIT, "not enough memory for a graph of vectors");
    } catch (const std::exception &e) {
        return fail(err, ERR_INTERNAL, "FAISS: %.200s", e.what());
    } catch (...) {
        return fail(err, ERR_INTERNAL, "FAISS failed without saying why");
    }
}

struct hnsw *take(std::unique_ptr<faiss::IndexHNSW> index)
{
    auto h = std::make_unique<struct hnsw>();
    h->rows = dynamic_cast<const faiss::IndexFlat *>(index->storage);
    if (!h->rows)
        throw std::bad_cast();
    index->hnsw.efSearch = EFFORT_MAX;
    h->index = std::move(index);
    return h.release();
}

// Answers 0 after a failure, which FAISS turns into an exception; rc keeps the reason.
class Writer : public faiss::IOWriter
{
  public:
    Writer(hnsw_write_fn *f, void *c, struct error *e) : write(f), ctx(c), err(e)
    {
    }
    size_t operator()(const void *bytes, size_t size, size_t count) override
    {
        if (rc == OK && size && count)
            rc = write(ctx, bytes, size * count, err);
        return rc == OK ? count : 0;
    }
    enum errc rc = OK;

  private:
    hnsw_write_fn *write;
    void *ctx;
    struct error *err;
};

class Reader : public faiss::IOReader
{
  public:
    Reader(hnsw_read_fn *f, void *c, struct error *e) : read(f), ctx(c), err(e)
    {
    }
    size_t operator()(void *bytes, size_t size, size_t count) override
    {
        if (rc == OK && size && count)
            rc = read(ctx, bytes, size * count, err);
        return rc == OK ? count : 0;
    }
    enum errc rc = OK;

  private:
    hnsw_read_fn *read;
    void *ctx;
    struct error *err;
};

std::string describe()
{
    char text[100];
    std::string built = faiss::get_compile_options();
    const char *set = built.find("AVX512") != std::string::npos ? " AVX512"
                      : built.find("AVX2") != std::string::npos ? " AVX2"
                                                                : "";
    snprintf(text, sizeof text, "FAISS %d.%d.%d%s", FAISS_VERSION_MAJOR, FAISS_VERSION_MINOR,
             FAISS_VERSION_PATCH, set);
    return text;
}

} // namespace

extern "C" {

enum errc hnsw_new(struct hnsw **out, const struct hnsw_options *opt, struct error *err)
{
    *out = nullptr;
    return guarded(err, [&] {
        auto metric = opt->is_inner_product ? faiss::METRIC_INNER_PRODUCT : faiss::METRIC_L2;
        auto index =
            std::make_unique<faiss::IndexHNSWFlat>((int)opt->dimension, (int)opt->links, metric);
        index->hnsw.efConstruction = (int)opt->build_effort;
        *out = take(std::move(index));
        return OK;
    });
}

void hnsw_free(struct hnsw *h)
{
    delete h;
}

// Part by part: clone_index of 1.7.3 makes an index that cannot be saved.
enum errc hnsw_copy(struct hnsw **out, const struct hnsw *h, struct error *err)
{
    *out = nullptr;
    return guarded(err, [&] {
        const faiss::IndexHNSW &from = *h->index;
        auto index = std::make_unique<faiss::IndexHNSWFlat>(from.d, 4, from.metric_type);
        auto *rows = dynamic_cast<faiss::IndexFlat *>(index->storage);
        if (!rows)
            throw std::bad_cast();
        index->hnsw = from.hnsw;
        rows->codes = h->rows->codes;
        rows->ntotal = h->rows->ntotal;
        index->ntotal = from.ntotal;
        *out = take(std::move(index));
        return OK;
    });
}

enum errc hnsw_add(struct hnsw *h, const float *rows, size_t count, struct error *err)
{
    return guarded(err, [&] {
        h->index->add((int64_t)count, rows);
        return OK;
    });
}

enum errc hnsw_search(const struct hnsw *h, const struct hnsw_query *query, int64_t *rows,
                      float *distances, size_t *count, struct error *err)
{
    *count = 0;
    return guarded(err, [&] {
        faiss::SearchParametersHNSW how;
        how.efSearch = (int)(query->effort < EFFORT_MAX ? query->effort : EFFORT_MAX);
        h->index->search(1, query->vector, (int64_t)query->k, distances, rows, &how);
        while (*count < query->k && rows[*count] >= 0)
            ++*count;
        return OK;
    });
}

size_t hnsw_effort_max(void)
{
    return EFFORT_MAX;
}

size_t hnsw_count(const struct hnsw *h)
{
    return (size_t)h->index->ntotal;
}

uint32_t hnsw_dimension(const struct hnsw *h)
{
    return (uint32_t)h->index->d;
}

const float *hnsw_row(const struct hnsw *h, size_t row)
{
    return h->rows->get_xb() + row * (size_t)h->index->d;
}

size_t hnsw_bytes(const struct hnsw *h)
{
    size_t n = hnsw_count(h);
    return n * (size_t)h->index->d * sizeof(float) +
           n * (sizeof(int) + sizeof(size_t)) + // level and offset
           h->index->hnsw.neighbors.size() * sizeof(int);
}

enum errc hnsw_save(const struct hnsw *h, hnsw_write_fn *write, void *ctx, struct error *err)
{
    Writer writer(write, ctx, err);
    struct error why;
    enum errc rc = guarded(&why, [&] {
        faiss::write_index(h->index.get(), &writer);
        return OK;
    });
    if (writer.rc != OK)
        return writer.rc;
    if (rc != OK && err)
        *err = why;
    return rc;
}

enum errc hnsw_load(struct hnsw **out, hnsw_read_fn *read, void *ctx, struct error *err)
{
    Reader reader(read, ctx, err);
    struct error why;
    *out = nullptr;
    enum errc rc = guarded(&why, [&] {
        std::unique_ptr<faiss::Index> index(faiss::read_index(&reader));
        std::unique_ptr<faiss::IndexHNSW> graph(dynamic_cast<faiss::IndexHNSW *>(index.get()));
        if (!graph)
            throw std::bad_cast();
        (void)index.release();
        *out = take(std::move(graph));
        return OK;
    });
    if (reader.rc != OK)
        return reader.rc;
    if (rc != OK && err)
        *err = why;
    return rc;
}

const char *hnsw_version(void)
{
    static const std::string text = describe();
    return text.c_str();
}
}
