/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics -- counters, gauges and histograms in Prometheus text format.
 *
 * A metric is a static row in the file that counts it:
 *
 *   static struct metric requests = METRIC_COUNTER("themis_http_requests_total", "Requests.");
 *   metric_add(&requests, 1);
 *
 * Rows register themselves at first use or by metric_register() at start.
 * All calls from any thread.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/base.h"
#include "base/buf.h"
#include <stdatomic.h>

enum metric_kind { METRIC_KIND_COUNTER, METRIC_KIND_GAUGE, METRIC_KIND_HISTOGRAM };
enum { METRIC_BUCKETS = 20 };

struct metric {
    const char *name; /* "themis_x_total" */
    const char *help;
    const char *labels; /* "code=\"200\"" or NULL; rows of one name share help and kind */
    enum metric_kind kind;
    _Atomic int64_t value; /* counter, gauge; sum in microunits of a histogram */
    _Atomic uint64_t buckets[METRIC_BUCKETS + 1]; /* seconds: 1e-4 * 2^i, then +Inf */
    _Atomic bool is_registered;
    struct metric *next; /* the registry's */
};

#define METRIC_COUNTER(n, h)                                                                       \
    {                                                                                              \
        .name = n, .help = h, .kind = METRIC_KIND_COUNTER                                          \
    }
#define METRIC_GAUGE(n, h)                                                                         \
    {                                                                                              \
        .name = n, .help = h, .kind = METRIC_KIND_GAUGE                                            \
    }
#define METRIC_HISTOGRAM(n, h)                                                                     \
    {                                                                                              \
        .name = n, .help = h, .kind = METRIC_KIND_HISTOGRAM                                        \
    }

void metric_register(struct metric *m);
void metric_add(struct metric *m, int64_t delta);
void metric_set(struct metric *m, int64_t value);
void metric_observe_us(struct metric *m, uint64_t us); /* a duration, shown in seconds */

/* Called at each print, to set gauges that are read elsewhere. */
void metrics_on_print(void (*fn)(void *ctx), void *ctx);
void metrics_print(struct buf *out);

#endif
