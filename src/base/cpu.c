/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned cpu_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return n > 0 ? (unsigned)n : 1;
}

/* The fourth word of /proc/loadavg: "2/345" are two of 345 threads. */
unsigned cpu_runnable(void)
{
    char text[128];
    char *at = text, *end;
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINT_MAX;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    for (int word = 0; at && word < 3; word++)
        at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
    unsigned long running = at ? strtoul(at, &end, 10) : 0;
    return running > 0 && running < UINT_MAX && *end == '/' ? (unsigned)running : UINT_MAX;
}

void cpu_name(char *out, size_t size)
{
    char row[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    out[0] = 0;
    while (f && !out[0] && fgets(row, sizeof row, f)) {
        char *value = strstr(row, ": ");
        row[strcspn(row, "\n")] = 0;
        if (value && !strncmp(row, "model name", 10))
            snprintf(out, size, "%s", value + 2);
    }
    if (f)
        fclose(f);
}
