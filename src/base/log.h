/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log -- one line per event on standard error: time, level, module, sentence
 * with fields. Any thread.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"
#include "base/error.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
bool log_parse_level(const char *name, enum log_level *out);
bool log_is_on(enum log_level level);
void log_write(enum log_level level, const char *module, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* module is the layer's name: log_info("store", "opened %s", path). */
#define log_error(module, ...) log_write(LOG_ERROR, module, __VA_ARGS__)
#define log_warn(module, ...) log_write(LOG_WARN, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_INFO, module, __VA_ARGS__)
#define log_debug(module, ...)                                                                     \
    do {                                                                                           \
        if (log_is_on(LOG_DEBUG))                                                                  \
            log_write(LOG_DEBUG, module, __VA_ARGS__);                                             \
    } while (0)

#endif
