/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/metrics.h"
#include <pthread.h>

static struct metric requests = METRIC_COUNTER("test_requests_total", "Requests.");
static struct metric open_now = METRIC_GAUGE("test_open", "Open now.");
static struct metric duration = METRIC_HISTOGRAM("test_seconds", "Duration.");
static struct metric labelled[2] = {
    { .name = "test_codes_total", .help = "Codes.", .labels = "code=\"200\"" },
    { .name = "test_codes_total", .help = "Codes.", .labels = "code=\"404\"" },
};
static struct metric labelled_seconds = { .name = "test_labelled_seconds",
                                          .help = "By route.",
                                          .labels = "route=\"/\"",
                                          .kind = METRIC_KIND_HISTOGRAM };

static void print(struct buf *out)
{
    buf_clear(out);
    metrics_print(out);
    buf_cstr(out);
}

static void expect(struct buf *out, const char *line)
{
    if (!strstr(buf_cstr(out), line))
        fail_msg("no '%s' in\n%s", line, buf_cstr(out));
}

static size_t times(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void counters_and_gauges_are_printed_with_help_and_type(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    metric_add(&requests, 3);
    metric_add(&requests, 4);
    metric_set(&open_now, 9);
    metric_add(&open_now, -11);
    metric_add(&labelled[1], 2);
    metric_register(&labelled[0]);
    metric_register(&labelled[0]);
    print(&out);
    expect(&out, "# HELP test_requests_total Requests.\n# TYPE test_requests_total counter\n"
                 "test_requests_total 7\n");
    expect(&out, "# TYPE test_open gauge\ntest_open -2\n");
    expect(&out, "test_codes_total{code=\"200\"} 0\ntest_codes_total{code=\"404\"} 2\n");
    assert_int_equal(times(out.ptr, "# TYPE test_codes_total"), 1);
    buf_release(&out);
}

static void histograms_are_cumulative(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    metric_observe_us(&duration, 0);
    metric_observe_us(&duration, 100);
    metric_observe_us(&duration, 101);
    metric_observe_us(&duration, 1000000000);
    metric_observe_us(&labelled_seconds, 150);
    print(&out);
    expect(&out, "# TYPE test_seconds histogram\n");
    expect(&out, "test_seconds_bucket{le=\"0.0001\"} 2\n");
    expect(&out, "test_seconds_bucket{le=\"0.0002\"} 3\n");
    expect(&out, "test_seconds_bucket{le=\"52.4288\"} 3\n");
    expect(&out, "test_seconds_bucket{le=\"+Inf\"} 4\n");
    expect(&out, "test_seconds_sum 1000.000201\ntest_seconds_count 4\n");
    expect(&out, "test_labelled_seconds_bucket{route=\"/\",le=\"0.0002\"} 1\n");
    expect(&out, "test_labelled_seconds_sum{route=\"/\"} 0.000150\n");
    expect(&out, "test_labelled_seconds_count{route=\"/\"} 1\n");
    buf_release(&out);
}

static void set_open(void *ctx)
{
    metric_set(&open_now, *(int *)ctx);
}

static void hooks_set_gauges_at_each_print(void **state)
{
    static int value = 41;
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    metrics_on_print(set_open, &value);
    print(&out);
    expect(&out, "\ntest_open 41\n");
    value = 42;
    print(&out);
    expect(&out, "\ntest_open 42\n");
    buf_release(&out);
}

static struct metric shared = METRIC_COUNTER("test_shared_total", "Shared.");

static void *add_many(void *arg)
{
    for (int i = 0; i < 10000; i++)
        metric_add(&shared, 1);
    return arg;
}

static void counting_from_many_threads_loses_nothing(void **state)
{
    pthread_t threads[4];
    struct buf out;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, add_many, NULL);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    buf_init(&out, 0);
    print(&out);
    expect(&out, "\ntest_shared_total 40000\n");
    assert_int_equal(times(out.ptr, "\ntest_shared_total "), 1);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges_are_printed_with_help_and_type),
        cmocka_unit_test(histograms_are_cumulative),
        cmocka_unit_test(hooks_set_gauges_at_each_print),
        cmocka_unit_test(counting_from_many_threads_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
