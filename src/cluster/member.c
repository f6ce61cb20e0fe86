/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, under /themis/CLUSTER/:
 *
 *   topology   the topology; changed only at the revision that was read
 *   live/ID    boot id and address of a node that runs; on its lease
 *
 * A node that was killed and starts again finds its old key, since the lease
 * has not run out: the same address means that it is the successor, for two
 * programs cannot listen there.
 */
#include "cluster/member.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include "cluster/etcd.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ETCD_TIMEOUT_MS = 3000,
    PAUSE_MS = 200, /* before another try of what failed */
    PAUSE_MAX_MS = 2000,
    CAS_TRIES = 100,
    PREFIX_BYTES = 128,
};

struct live_node {
    char id[NODE_ID_BYTES], boot[BOOT_BYTES];
};

struct member {
    struct member_options opt;
    char prefix[PREFIX_BYTES], topology_key[PREFIX_BYTES + 16];
    char live_key[PREFIX_BYTES + 8 + NODE_ID_BYTES];
    struct etcd *etcd;    /* the keeper's */
    struct etcd *watcher; /* the follower's */
    int64_t lease;        /* the keeper's; 0 = none */
    int64_t revision;     /* the follower's: where it goes on */
    atomic_bool is_ending, is_leaving, has_etcd;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct topology *topology;
    struct live_node *live;
    size_t live_count;

    pthread_t threads[2];
    size_t thread_count;
};

static struct metric etcd_up =
    METRIC_GAUGE("themis_cluster_etcd_up", "1 while etcd answers, 0 while it does not.");
static struct metric epoch_now =
    METRIC_GAUGE("themis_cluster_epoch", "Epoch of the topology in force.");
static struct metric leases_total =
    METRIC_COUNTER("themis_cluster_leases_total", "Leases that this node was granted.");

/* ---- what is known ---- */

static struct slice prefix_of(const struct member *m)
{
    return slice_str(m->prefix);
}

static void note_etcd(struct member *m, enum errc rc, const struct error *err)
{
    bool is_up = rc == OK, was_up = atomic_exchange(&m->has_etcd, is_up);

    metric_set(&etcd_up, is_up);
    if (was_up && !is_up && !atomic_load(&m->is_ending))
        log_warn("cluster", "etcd: %s; the last topology stays in force", err->text);
    else if (!was_up && is_up)
        log_info("cluster", "etcd answers");
}

bool member_has_etcd(const struct member *m)
{
    return atomic_load(&m->has_etcd);
}

/* Takes it over if it is newer. */
static void use_topology(struct member *m, struct topology *t)
{
    pthread_mutex_lock(&m->lock);
    struct topology *old = m->topology;
    bool is_newer = !old || t->epoch > old->epoch;
    if (is_newer)
        m->topology = topology_ref(t);
    pthread_mutex_unlock(&m->lock);
    if (!is_newer)
        return;
    topology_unref(old);
    metric_set(&epoch_now, (int64_t)t->epoch);
    log_info("cluster", "topology %llu: %zu nodes", (unsigned long long)t->epoch, t->node_count);
    m->opt.on_topology(m->opt.ctx, t);
}

static void take_topology(struct member *m, struct slice text)
{
    struct topology *t = NULL;
    struct error err = { 0 };

    if (topology_parse(text, &t, &err) != OK)
        log_error("cluster", "%s; the topology in force stays", err.text);
    else
        use_topology(m, t);
    topology_unref(t);
}

/* Lock held. */
static struct live_node *find_live(struct member *m, struct slice id)
{
    for (size_t i = 0; i < m->live_count; i++)
        if (slice_is(id, m->live[i].id))
            return &m->live[i];
    return NULL;
}

/* Its boot id and address, or false for what is none. */
static bool read_live(struct slice value, char boot[BOOT_BYTES], char address[NODE_ADDRESS_BYTES])
{
    struct arena *arena = arena_new(0);
    struct val v;
    bool is_ok = val_parse(value, arena, &v, NULL) == OK;

    if (is_ok) {
        snprintf(boot, BOOT_BYTES, "%.*s", SLICE_ARG(val_string(val_get(v, slice_str("boot")))));
        snprintf(address, NODE_ADDRESS_BYTES, "%.*s",
                 SLICE_ARG(val_string(val_get(v, slice_str("cluster")))));
    }
    arena_free(arena);
    return is_ok;
}

static void drop_live(struct member *m, struct slice id)
{
    pthread_mutex_lock(&m->lock);
    struct live_node *n = find_live(m, id);
    if (n)
        *n = m->live[--m->live_count];
    pthread_mutex_unlock(&m->lock);
    if (n)
        log_info("cluster", "node %.*s is not registered any more", SLICE_ARG(id));
}

static void take_live(struct member *m, struct slice id, struct slice value)
{
    char boot[BOOT_BYTES], address[NODE_ADDRESS_BYTES];

    if (!value.ptr) {
        drop_live(m, id);
        return;
    }
    if (!node_id_is_valid(id) || !read_live(value, boot, address))
        return;
    pthread_mutex_lock(&m->lock);
    struct live_node *n = find_live(m, id);
    bool is_new = !n || strcmp(n->boot, boot) != 0;
    if (!n && m->live_count < TOPOLOGY_NODES_MAX)
        n = &m->live[m->live_count++];
    if (n && is_new) {
        snprintf(n->id, sizeof n->id, "%.*s", SLICE_ARG(id));
        snprintf(n->boot, sizeof n->boot, "%s", boot);
    }
    pthread_mutex_unlock(&m->lock);
    if (is_new)
        log_info("cluster", "node %.*s is registered: boot %s at %s", SLICE_ARG(id), boot, address);
}

bool member_boot_of(struct member *m, struct slice id, char boot[BOOT_BYTES])
{
    pthread_mutex_lock(&m->lock);
    const struct live_node *n = find_live(m, id);
    if (n)
        memcpy(boot, n->boot, BOOT_BYTES);
    pthread_mutex_unlock(&m->lock);
    return n != NULL;
}

static bool take_entry(void *ctx, const struct etcd_entry *e)
{
    struct member *m = ctx;
    struct slice name = slice_of(e->key.ptr + strlen(m->prefix), e->key.len - strlen(m->prefix));

    if (slice_is(name, "topology") && e->value.ptr)
        take_topology(m, e->value);
    else if (slice_starts(name, "live/"))
        take_live(m, slice_of(name.ptr + 5, name.len - 5), e->value);
    return !atomic_load(&m->is_ending);
}

/* Everything anew: whoever is not there has gone. */
static void take_all(struct member *m, const struct etcd_range *all)
{
    pthread_mutex_lock(&m->lock);
    m->live_count = 0;
    pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; i < all->count; i++)
        take_entry(m, &all->entries[i]);
}

/* ---- registering ---- */

static const struct etcd_entry *find_entry(const struct etcd_range *all, const char *key)
{
    for (size_t i = 0; i < all->count; i++)
        if (slice_is(all->entries[i].key, key))
            return &all->entries[i];
    return NULL;
}

/* *is_done false: somebody wrote meanwhile. */
static enum errc write_live(struct member *m, const struct etcd_range *all, bool *is_done,
                            struct error *err)
{
    const struct etcd_entry *old = find_entry(all, m->live_key);
    char boot[BOOT_BYTES], address[NODE_ADDRESS_BYTES];
    struct buf value;

    if (old && read_live(old->value, boot, address) && strcmp(boot, m->opt.boot) != 0 &&
        strcmp(address, m->opt.cluster_address) != 0)
        return fail(err, ERR_EXISTS,
                    "a node %s runs already at %s; give this one another --node-id, or stop that "
                    "one (its lease ends %llu s after it died)",
                    m->opt.id, address, (unsigned long long)m->opt.lease_s);
    buf_init(&value, 0);
    buf_printf(&value, "{\"boot\":\"%s\",\"cluster\":", m->opt.boot);
    val_print_string(slice_str(m->opt.cluster_address), &value);
    buf_add_char(&value, '}');
    struct etcd_entry entry = { .key = slice_str(m->live_key),
                                .value = buf_slice(&value),
                                .revision = old ? old->revision : 0 };
    enum errc rc = etcd_write(m->etcd, &entry, m->lease, is_done, err);
    buf_release(&value);
    return rc;
}

/*
 * With this node in it. When etcd has none (its data were lost), the one in
 * force is written again. NULL: what is there is right.
 */
static enum errc next_topology(struct member *m, const struct etcd_entry *old,
                               struct topology **out, struct error *err)
{
    struct topology_node me = { 0 };
    struct topology *base = NULL;
    struct error why = { 0 };

    *out = NULL;
    snprintf(me.id, sizeof me.id, "%s", m->opt.id);
    snprintf(me.cluster, sizeof me.cluster, "%s", m->opt.cluster_address);
    snprintf(me.public_url, sizeof me.public_url, "%s", m->opt.public_url);
    if (old) {
        enum errc rc = topology_parse(old->value, &base, err);
        if (rc != OK)
            return rc;
    } else {
        pthread_mutex_lock(&m->lock);
        base = m->topology ? topology_ref(m->topology) : NULL;
        pthread_mutex_unlock(&m->lock);
    }
    *out = topology_with(base, &me, &why);
    if (why.code != OK)
        *err = why;
    else if (!*out && !old)
        *out = topology_ref(base);
    topology_unref(base);
    return why.code;
}

static enum errc write_topology(struct member *m, const struct etcd_range *all, bool *is_done,
                                struct error *err)
{
    const struct etcd_entry *old = find_entry(all, m->topology_key);
    struct topology *next;
    struct buf text;
    enum errc rc = next_topology(m, old, &next, err);

    *is_done = true;
    if (rc != OK || !next)
        return rc;
    buf_init(&text, 0);
    topology_print(next, &text);
    struct etcd_entry entry = { .key = slice_str(m->topology_key),
                                .value = buf_slice(&text),
                                .revision = old ? old->revision : 0 };
    rc = etcd_write(m->etcd, &entry, 0, is_done, err);
    if (rc == OK && *is_done)
        use_topology(m, next);
    topology_unref(next);
    buf_release(&text);
    return rc;
}

/* One try of everything, again while others change the same keys. */
static enum errc register_node(struct member *m, struct error *err)
{
    enum errc rc = OK;
    bool is_live = false, is_in = false;

    if (!m->lease) {
        rc = etcd_grant(m->etcd, m->opt.lease_s, &m->lease, err);
        if (rc == OK)
            metric_add(&leases_total, 1);
    }
    for (int tries = 0; rc == OK && !(is_live && is_in); tries++) {
        struct arena *arena = arena_new(0);
        struct etcd_range all;
        if (tries == CAS_TRIES)
            rc = fail(err, ERR_CONFLICT, "the topology changes faster than it can be joined");
        if (rc == OK)
            rc = etcd_read(m->etcd, prefix_of(m), arena, &all, err);
        if (rc == OK && !is_live)
            rc = write_live(m, &all, &is_live, err);
        if (rc == OK && is_live)
            rc = write_topology(m, &all, &is_in, err);
        arena_free(arena);
    }
    return rc;
}

/* ---- threads ---- */

/* True: it is time to end, or to leave. */
static bool sleep_ms(struct member *m, uint64_t ms, bool ends_to_leave)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&m->lock);
    bool is_over = false;
    for (int rc = 0; !rc && !is_over;) {
        is_over = atomic_load(&m->is_ending) || (ends_to_leave && atomic_load(&m->is_leaving));
        if (!is_over)
            rc = pthread_cond_timedwait(&m->wake, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
    return is_over;
}

static enum errc keep_lease(struct member *m, struct error *err)
{
    bool is_alive = false;
    enum errc rc = OK;

    if (m->lease) {
        rc = etcd_keep_alive(m->etcd, m->lease, &is_alive, err);
        if (rc == OK && !is_alive) {
            log_warn("cluster", "the lease of this node was lost; it registers again");
            m->lease = 0;
        }
    }
    return rc == OK && !m->lease ? register_node(m, err) : rc;
}

static void *run_keeper(void *arg)
{
    struct member *m = arg;
    struct error err = { 0 };
    uint64_t every_ms = m->opt.lease_s * 1000 / 3, pause_ms = every_ms;

    while (!sleep_ms(m, pause_ms, true)) {
        enum errc rc = keep_lease(m, &err);
        note_etcd(m, rc, &err);
        pause_ms = rc == OK ? every_ms : PAUSE_MS;
    }
    if (m->lease && atomic_load(&m->has_etcd) && etcd_revoke(m->etcd, m->lease, &err) != OK)
        log_info("cluster", "the lease could not be given back and will run out: %s", err.text);
    return NULL;
}

static enum errc read_again(struct member *m, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct etcd_range all;
    enum errc rc = etcd_read(m->watcher, prefix_of(m), arena, &all, err);

    if (rc == OK) {
        take_all(m, &all);
        m->revision = all.revision + 1;
    }
    arena_free(arena);
    return rc;
}

static void *run_follower(void *arg)
{
    struct member *m = arg;
    struct etcd_watcher watcher = { .on_change = take_entry, .ctx = m };
    struct error err = { 0 };
    bool is_stale = false, is_compacted = false;
    uint64_t pause_ms = PAUSE_MS;

    while (!atomic_load(&m->is_ending)) {
        int64_t before = m->revision;
        enum errc rc = is_stale ? read_again(m, &err) : OK;
        if (rc == OK) {
            rc = etcd_watch(m->watcher, prefix_of(m), &m->revision, &watcher, &is_compacted, &err);
            /* An etcd that lost its data may have come past our revision by then. */
            is_stale = rc != ERR_TIMEOUT;
        }
        log_debug("cluster", "watch from %lld: %s", (long long)before, err.text);
        pause_ms = rc == ERR_TIMEOUT || m->revision != before || is_compacted
                       ? PAUSE_MS
                       : (2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS);
        if (rc != ERR_TIMEOUT && sleep_ms(m, pause_ms, false))
            break;
    }
    return NULL;
}

static enum errc start_thread(struct member *m, void *(*run)(void *), struct error *err)
{
    if (pthread_create(&m->threads[m->thread_count], NULL, run, m))
        return fail(err, ERR_LIMIT, "cannot start a thread");
    m->thread_count++;
    return OK;
}

/* ---- life ---- */

enum errc member_open(struct member **out, const struct member_options *opt, struct error *err)
{
    struct member *m = mem_zalloc(sizeof *m);
    struct etcd_options etcd = { .urls = opt->etcd_urls,
                                 .certs = opt->etcd_certs,
                                 .timeout_ms = ETCD_TIMEOUT_MS,
                                 .cancel = &m->is_ending };
    pthread_condattr_t monotonic;
    enum errc rc = OK;

    m->opt = *opt;
    m->live = mem_zalloc(TOPOLOGY_NODES_MAX * sizeof *m->live);
    atomic_store(&m->has_etcd, true);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &monotonic);
    snprintf(m->prefix, sizeof m->prefix, "/themis/%s/", opt->cluster);
    snprintf(m->topology_key, sizeof m->topology_key, "%stopology", m->prefix);
    snprintf(m->live_key, sizeof m->live_key, "%slive/%s", m->prefix, opt->id);
    metric_register(&etcd_up);
    TRY(etcd_open(&m->etcd, &etcd, err));
    TRY(etcd_open(&m->watcher, &etcd, err));
    const char *exposed = etcd_exposed(m->etcd);
    if (exposed && !opt->is_insecure)
        TRY(fail(err, ERR_INVALID,
                 "etcd at %s is plain HTTP on another machine: use https:// and --etcd-certs, or "
                 "pass --insecure",
                 exposed));
    *out = m;
    m = NULL;
out:
    member_close(m);
    return rc;
}

enum errc member_join(struct member *m, bool (*should_stop)(void *ctx), void *ctx,
                      struct error *err)
{
    uint64_t until_ms = env_mono_ms(env_system()) + m->opt.join_ms;
    enum errc rc;

    for (;;) {
        rc = register_node(m, err);
        if (rc == OK)
            rc = read_again(m, err);
        note_etcd(m, rc, err);
        if (rc == OK || rc == ERR_EXISTS || rc == ERR_CORRUPT || rc == ERR_LIMIT)
            break;
        if (should_stop(ctx))
            return fail(err, ERR_GONE, "a signal came while the node joined its cluster");
        if (env_mono_ms(env_system()) > until_ms)
            return wrap(err, "cannot join the cluster %s", m->opt.cluster);
        sleep_ms(m, PAUSE_MS, true);
    }
    if (rc == OK)
        rc = start_thread(m, run_keeper, err);
    return rc == OK ? start_thread(m, run_follower, err) : rc;
}

static void wake_threads(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    pthread_cond_broadcast(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

void member_leave(struct member *m)
{
    atomic_store(&m->is_leaving, true);
    wake_threads(m);
}

void member_stop(struct member *m)
{
    if (!m)
        return;
    if (m->thread_count) { /* the keeper gives the lease back before calls are cancelled */
        member_leave(m);
        pthread_join(m->threads[0], NULL);
    }
    atomic_store(&m->is_ending, true);
    wake_threads(m);
    if (m->thread_count == 2)
        pthread_join(m->threads[1], NULL);
    m->thread_count = 0;
}

void member_close(struct member *m)
{
    if (!m)
        return;
    member_stop(m);
    etcd_close(m->etcd);
    etcd_close(m->watcher);
    topology_unref(m->topology);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->wake);
    mem_free(m->live);
    mem_free(m);
}
