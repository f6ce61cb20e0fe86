/* SPDX-License-Identifier: Apache-2.0 */
#include "store/salvage.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/disk.h"
#include "store/store_private.h"

/* The last commit in front of the damage. An error: it is not the log that is damaged. */
static enum errc probe(const struct salvage_options *opt, uint64_t *last_seq, struct error *err)
{
    struct kv_options kv_opt = opt->kv;
    struct kv *kv = NULL;
    kv_opt.is_read_only = kv_opt.cuts_log = true;
    enum errc rc = kv_open(&kv, &kv_opt, err);
    if (rc == OK)
        rc = change_log_last(kv, last_seq, err);
    kv_close(kv);
    return rc;
}

static enum errc check_loss(const struct salvage_options *opt, uint64_t last_seq, struct error *err)
{
    uint64_t mark;
    bool is_known;
    enum errc rc = disk_read_mark(opt->dir, &mark, &is_known, err);
    if (rc != OK || opt->accept_loss)
        return rc;
    if (!is_known)
        return fail(err, ERR_CORRUPT,
                    "the log in %s is damaged behind commit %" PRIu64
                    ", and which commits were acknowledged is not known: restore a backup, or "
                    "start with --accept-loss",
                    opt->dir, last_seq);
    if (mark > last_seq)
        return fail(err, ERR_CORRUPT,
                    "the log in %s is damaged: acknowledged commits %" PRIu64 " to %" PRIu64
                    " are behind the damage: restore a backup, or start with --accept-loss",
                    opt->dir, last_seq + 1, mark);
    return OK;
}

static int is_log(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 4 && !strcmp(d->d_name + n - 4, ".log");
}

static enum errc link_one(const char *from_dir, const char *to_dir, const char *name,
                          struct error *err)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    buf_printf(&from, "%s/%s", from_dir, name);
    buf_printf(&to, "%s/%s", to_dir, name);
    bool is_kept = !link(buf_cstr(&from), buf_cstr(&to)) || errno == EEXIST;
    enum errc rc = is_kept ? OK
                           : fail(err, ERR_IO, "cannot keep %s as %s: %s", buf_cstr(&from),
                                  buf_cstr(&to), strerror(errno));
    buf_release(&from);
    buf_release(&to);
    return rc;
}

/* RocksDB deletes the files once it has read them; it never writes to them again. */
static enum errc keep_log(const struct salvage_options *opt, struct error *err)
{
    struct dirent **names;
    struct buf dir;
    enum errc rc = OK;
    buf_init(&dir, 0);
    buf_printf(&dir, "%s/damaged-log", opt->dir);
    int n = scandir(opt->kv.path, &names, is_log, alphasort);
    if (n < 0)
        rc = fail(err, ERR_IO, "cannot read %s: %s", opt->kv.path, strerror(errno));
    else if (mkdir(buf_cstr(&dir), 0700) && errno != EEXIST)
        rc = fail(err, ERR_IO, "cannot make %s: %s", buf_cstr(&dir), strerror(errno));
    for (int i = 0; i < n; i++) {
        if (rc == OK)
            rc = link_one(opt->kv.path, buf_cstr(&dir), names[i]->d_name, err);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    buf_release(&dir);
    return rc;
}

enum errc salvage_open(struct kv **out, const struct salvage_options *opt, struct error *err)
{
    struct kv_options cut = opt->kv;
    uint64_t last_seq;
    struct error other;
    enum errc rc = OK;
    *out = NULL;
    if (probe(opt, &last_seq, &other) != OK) {
        if (err)
            *err = *opt->why;
        return opt->why->code;
    }
    TRY(check_loss(opt, last_seq, err));
    TRY(keep_log(opt, err));
    cut.cuts_log = true;
    TRY(kv_open(out, &cut, err));
    log_warn("store",
             "the log was damaged and is read up to commit %" PRIu64
             "; its files are kept in %s/damaged-log: %s",
             last_seq, opt->dir, opt->why->text);
out:
    return rc;
}
