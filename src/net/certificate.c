/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two files are often replaced one after the other: between the two they do
 * not fit, which is an ordinary failure, and the second change mends it.
 */
#include "net/certificate.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/loop.h"
#include "net/tls.h"
#include <stdatomic.h>
#include <sys/stat.h>

/* What tells that a file has changed: replaced, or written to. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec modified;
};

enum { FILE_COUNT = 3 };

struct certificate {
    struct certificate_options opt;
    struct stamp stamps[FILE_COUNT]; /* when last read */
    atomic_bool is_asked;
    struct loop *loop;
    struct loop_task task;
    _Atomic(struct tls_config *) fresh; /* on its way to the loop */
    void (*use)(void *ctx, struct tls_config *tls);
    void *ctx;
};

/* Of a file that is not there: zeroes, which differ from any that is. */
static struct stamp stamp_of(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return (struct stamp){ 0 };
    return (struct stamp){ st.st_ino, st.st_size, st.st_mtim };
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
    return a->inode == b->inode && a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec;
}

/* Notes the files as they are now. True: they differ from those read before. */
static bool note_files(struct certificate *c)
{
    const char *const files[FILE_COUNT] = { c->opt.cert, c->opt.key, c->opt.ca };
    bool has_changed = false;

    for (size_t i = 0; i < FILE_COUNT && files[i]; i++) {
        struct stamp now = stamp_of(files[i]);
        has_changed |= !is_same(&now, &c->stamps[i]);
        c->stamps[i] = now;
    }
    return has_changed;
}

static enum errc read_files(struct certificate *c, struct tls_config **out, struct error *err)
{
    const struct certificate_options *o = &c->opt;
    enum errc rc = o->ca ? tls_config_mutual(out, o->ca, o->cert, o->key, err)
                         : tls_config_server(out, o->cert, o->key, err);

    if (rc != OK)
        return rc;
    int64_t now_s = (int64_t)(env_wall_us(env_system()) / 1000000);
    struct tls_validity validity = tls_config_validity(*out);
    metric_set(o->expires, validity.until_s);
    metric_register(o->failures);
    if (now_s >= validity.until_s)
        log_warn("net", "the certificate %s has expired", o->cert);
    else if (now_s < validity.from_s)
        log_warn("net", "the certificate %s is not valid yet", o->cert);
    return OK;
}

enum errc certificate_open(struct certificate **out, struct tls_config **first,
                           const struct certificate_options *opt, struct error *err)
{
    struct certificate *c = mem_zalloc(sizeof *c);

    *out = NULL;
    *first = NULL;
    c->opt = *opt;
    note_files(c);
    enum errc rc = read_files(c, first, err);
    if (rc != OK)
        certificate_close(c);
    else
        *out = c;
    return rc;
}

void certificate_close(struct certificate *c)
{
    if (c)
        tls_config_free(atomic_load(&c->fresh));
    mem_free(c);
}

void certificate_on_change(struct certificate *c, struct loop *loop,
                           void (*use)(void *ctx, struct tls_config *tls), void *ctx)
{
    c->loop = loop;
    c->use = use;
    c->ctx = ctx;
}

void certificate_reload(struct certificate *c)
{
    atomic_store(&c->is_asked, true);
}

static void hand_over(struct loop_task *task)
{
    struct certificate *c = CONTAINER_OF(task, struct certificate, task);

    c->use(c->ctx, atomic_exchange(&c->fresh, NULL));
}

void certificate_check(struct certificate *c)
{
    struct tls_config *tls;
    struct error err = { 0 };

    if (atomic_load(&c->fresh)) /* the loop has not got to the last one yet */
        return;
    bool is_asked = atomic_exchange(&c->is_asked, false);
    if (!note_files(c) && !is_asked)
        return;
    if (read_files(c, &tls, &err) != OK) {
        metric_add(c->opt.failures, 1);
        log_error("net", "%s; the certificate in use stays", err.text);
        return;
    }
    log_info("net", "the certificate %s was read again", c->opt.cert);
    atomic_store(&c->fresh, tls);
    c->task.run = hand_over;
    loop_post(c->loop, &c->task);
}
