/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   limit = tables of the store (a quarter, at most 1,024)
 *         + everything else (logs, models, backups, connections that are being refused)
 *         + connections
 */
#include "base/files.h"
#include <errno.h>
#include <sys/resource.h>

enum { STORE_MIN = 64, STORE_MAX = 1024, OTHERS = 192 };

static size_t limit(void)
{
    struct rlimit now;

    return getrlimit(RLIMIT_NOFILE, &now) ? FILES_MIN : (size_t)now.rlim_cur;
}

enum errc files_raise(struct error *err)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now))
        return fail(err, ERR_IO, "cannot read the limit of open files: %s", strerror(errno));
    now.rlim_cur = now.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &now))
        return fail(err, ERR_IO, "cannot raise the limit of open files: %s", strerror(errno));
    if (now.rlim_max < FILES_MIN)
        return fail(err, ERR_INVALID,
                    "this process may have %zu files open, and needs %d: raise the hard limit "
                    "(ulimit -Hn, or LimitNOFILE= of the service)",
                    (size_t)now.rlim_max, FILES_MIN);
    return OK;
}

size_t files_for_store(void)
{
    size_t quarter = limit() / 4;

    return quarter < STORE_MIN ? STORE_MIN : quarter > STORE_MAX ? STORE_MAX : quarter;
}

size_t files_for_connections(size_t wanted)
{
    size_t others = files_for_store() + OTHERS, all = limit();
    size_t left = all > others ? all - others : 1;

    return wanted < left ? wanted : left;
}
