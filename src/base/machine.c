/* SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The first number of a file of one line; fallback when there is none ("max"). */
static uint64_t number_in(const char *path, int skip, uint64_t fallback)
{
    char line[128] = "", *at = line, *end;
    FILE *f = fopen(path, "re");
    if (!f)
        return fallback;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    fclose(f);
    for (int i = 0; i <= skip; i++, at = end) {
        unsigned long long n = strtoull(at, &end, 10);
        if (end == at)
            return fallback;
        if (i == skip)
            return n;
    }
    return fallback;
}

/* "0::/path" of the process, then memory.max there; its parents' limits are not looked at. */
static uint64_t group_limit(void)
{
    char line[512] = "", path[640];
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return UINT64_MAX;
    while (fgets(line, sizeof line, f) && strncmp(line, "0::", 3) != 0)
        line[0] = 0;
    fclose(f);
    line[strcspn(line, "\n")] = 0;
    if (line[0] != '0')
        return UINT64_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line + 3);
    return number_in(path, 0, UINT64_MAX);
}

uint64_t machine_memory_bytes(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit = group_limit();
    return limit < all ? limit : all;
}

uint64_t process_memory_bytes(void)
{
    return number_in("/proc/self/statm", 1, 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void process_memory_give_back(void)
{
    malloc_trim(0);
}
