/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static const char *const names[] = { "error", "warn", "info", "debug" };
static _Atomic int level_now = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&level_now, (int)level);
}

bool log_parse_level(const char *name, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!strcmp(name, names[i])) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_is_on(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

void log_write(enum log_level level, const char *module, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    struct timespec now;
    struct tm utc;
    va_list args;
    size_t n;

    if (!log_is_on(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %s %s ", now.tv_nsec / 1000000,
                          names[level], module);
    va_start(args, fmt);
    int text = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    va_end(args);
    if (text > 0)
        n += (size_t)text < sizeof line - n - 1 ? (size_t)text : sizeof line - n - 2;
    for (size_t i = 0; i < n; i++) /* one line per event, whatever the text holds */
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere to complain */
}
