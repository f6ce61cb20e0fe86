/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two files are often replaced one after the other: between the two they do
 * not fit, which is an ordinary failure, and the second change mends it.
 */
#include "server/certificate.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/settings.h"
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

struct certificate {
    const struct settings *settings;
    struct stamp cert, key; /* when last read */
    atomic_bool is_asked;
    struct loop *loop;
    struct loop_task task;
    _Atomic(struct tls_config *) fresh; /* on its way to the loop */
    void (*use)(void *ctx, struct tls_config *tls);
    void *ctx;
};

static struct metric expires = METRIC_GAUGE("themis_tls_certificate_expires_seconds",
                                            "End of the certificate's validity, since 1970.");
static struct metric failures = METRIC_COUNTER("themis_tls_certificate_failures_total",
                                               "Changed certificates that could not be used.");

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
    struct stamp cert = stamp_of(c->settings->tls_cert_file);
    struct stamp key = stamp_of(c->settings->tls_key_file);
    bool has_changed = !is_same(&cert, &c->cert) || !is_same(&key, &c->key);

    c->cert = cert;
    c->key = key;
    return has_changed;
}

static enum errc read_files(struct certificate *c, struct tls_config **out, struct error *err)
{
    const struct settings *s = c->settings;
    enum errc rc = tls_config_server(out, s->tls_cert_file, s->tls_key_file, err);

    if (rc != OK)
        return rc;
    int64_t now_s = (int64_t)(env_wall_us(env_system()) / 1000000);
    struct tls_validity validity = tls_config_validity(*out);
    metric_set(&expires, validity.until_s);
    metric_register(&failures);
    if (now_s >= validity.until_s)
        log_warn("server", "the certificate %s has expired", s->tls_cert_file);
    else if (now_s < validity.from_s)
        log_warn("server", "the certificate %s is not valid yet", s->tls_cert_file);
    return OK;
}

enum errc certificate_open(struct certificate **out, struct tls_config **first,
                           const struct settings *s, struct error *err)
{
    *out = NULL;
    *first = NULL;
    if (!s->tls_cert_file[0] && !s->tls_key_file[0])
        return OK;
    if (!s->tls_cert_file[0] || !s->tls_key_file[0])
        return fail(err, ERR_INVALID, "tls_cert_file and tls_key_file belong together: %s is unset",
                    s->tls_cert_file[0] ? "tls_key_file" : "tls_cert_file");
    struct certificate *c = mem_zalloc(sizeof *c);
    c->settings = s;
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
        metric_add(&failures, 1);
        log_error("server", "%s; the certificate in use stays", err.text);
        return;
    }
    log_info("server", "the certificate %s was read again", c->settings->tls_cert_file);
    atomic_store(&c->fresh, tls);
    c->task.run = hand_over;
    loop_post(c->loop, &c->task);
}
