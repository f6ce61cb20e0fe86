/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOOKS_MAX = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct metric *first;
static size_t row_count;

struct hook {
    void (*fn)(void *ctx);
    void *ctx;
};
static struct hook hooks[HOOKS_MAX];
static size_t hook_count;

void metric_register(struct metric *m)
{
    if (atomic_load_explicit(&m->is_registered, memory_order_acquire))
        return;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&m->is_registered)) {
        m->next = first;
        first = m;
        row_count++;
        atomic_store_explicit(&m->is_registered, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void metric_add(struct metric *m, int64_t delta)
{
    metric_register(m);
    atomic_fetch_add_explicit(&m->value, delta, memory_order_relaxed);
}

void metric_set(struct metric *m, int64_t value)
{
    metric_register(m);
    atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

void metric_observe_us(struct metric *m, uint64_t us)
{
    size_t i = 0;

    metric_register(m);
    for (uint64_t bound = 100; i < METRIC_BUCKETS && us > bound; bound *= 2)
        i++;
    atomic_fetch_add_explicit(&m->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->value, (int64_t)us, memory_order_relaxed);
}

void metrics_on_print(void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&lock);
    if (hook_count == HOOKS_MAX)
        BUG("too many metric hooks");
    hooks[hook_count++] = (struct hook){ fn, ctx };
    pthread_mutex_unlock(&lock);
}

static void print_histogram(const struct metric *m, struct buf *out)
{
    uint64_t seen = 0;
    double bound = 1e-4;
    const char *labels = m->labels ? m->labels : "", *comma = m->labels ? "," : "";

    for (size_t i = 0; i < METRIC_BUCKETS; i++, bound *= 2) {
        seen += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", m->name, labels, comma, bound,
                   (unsigned long long)seen);
    }
    seen += atomic_load_explicit(&m->buckets[METRIC_BUCKETS], memory_order_relaxed);
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", m->name, labels, comma,
               (unsigned long long)seen);
    const char *open = m->labels ? "{" : "", *shut = m->labels ? "}" : "";
    buf_printf(out, "%s_sum%s%s%s %.6f\n%s_count%s%s%s %llu\n", m->name, open, labels, shut,
               (double)atomic_load(&m->value) / 1e6, m->name, open, labels, shut,
               (unsigned long long)seen);
}

static void print_row(const struct metric *m, struct buf *out)
{
    if (m->kind == METRIC_KIND_HISTOGRAM) {
        print_histogram(m, out);
        return;
    }
    buf_add_str(out, m->name);
    if (m->labels)
        buf_printf(out, "{%s}", m->labels);
    buf_printf(out, " %lld\n", (long long)atomic_load(&m->value));
}

static int compare(const void *a, const void *b)
{
    const struct metric *x = *(struct metric *const *)a, *y = *(struct metric *const *)b;
    int c = strcmp(x->name, y->name);

    return c ? c : strcmp(x->labels ? x->labels : "", y->labels ? y->labels : "");
}

/* Hooks set gauges, so the lock is not held while they run. */
static void run_hooks(void)
{
    struct hook copy[HOOKS_MAX];

    pthread_mutex_lock(&lock);
    size_t count = hook_count;
    memcpy(copy, hooks, sizeof copy);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++)
        copy[i].fn(copy[i].ctx);
}

/* All rows by name; returned to the caller, who frees them. */
static struct metric **sorted_rows(size_t *count)
{
    pthread_mutex_lock(&lock);
    struct metric **rows = mem_alloc(row_count * sizeof(*rows));
    *count = 0;
    for (struct metric *m = first; m; m = m->next)
        rows[(*count)++] = m;
    pthread_mutex_unlock(&lock);
    qsort(rows, *count, sizeof(*rows), compare);
    return rows;
}

void metrics_print(struct buf *out)
{
    static const char *const kinds[] = { "counter", "gauge", "histogram" };
    size_t count;

    run_hooks();
    struct metric **rows = sorted_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (!i || strcmp(rows[i]->name, rows[i - 1]->name))
            buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[i]->name, rows[i]->help,
                       rows[i]->name, kinds[rows[i]->kind]);
        print_row(rows[i], out);
    }
    mem_free(rows);
}
