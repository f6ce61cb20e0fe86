/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start: store, users, models, workers, listener. Requests go through admit.
 * Stop: refuse new requests, wait for the running ones, then server_close in its
 * order.
 *
 * Signals only set a flag, from the first line to the exit: the start looks at it
 * between its steps, the loop at every tick, and the stop no more.
 */
#include "server/server.h"
#include "base/env.h"
#include "base/files.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_plan.h"
#include "base/metrics.h"
#include "net/certificate.h"
#include "net/tls.h"
#include "query/computed.h"
#include "retrieve/embed_writes.h"
#include "server/admit.h"
#include "server/audit.h"
#include "server/change_hub.h"
#include "server/context.h"
#include "server/key_meter.h"
#include "server/model_change.h"
#include "server/model_dir.h"
#include "server/notify.h"
#include "server/query_list.h"
#include "server/sleep_call.h"
#include "store/expire.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TICK_MS = 100, CHORES_MS = 1000, MODEL_CHANGES_MAX = 16 };

struct server {
    struct server_ctx ctx;
    struct server_options opt;
    struct http_server *http;
    struct certificate *certificate; /* NULL without TLS */
    struct cluster *cluster;         /* NULL: a single node */
    struct loop_timer *tick;
    struct job chores_job;
    atomic_bool has_chores;
    atomic_bool is_serving, is_closing;
    atomic_bool has_new_keys; /* perhaps: the chores look */
    uint64_t last_expire_ms;  /* the chores' */
    uint64_t last_chores_ms, drain_until_ms;
};

static struct metric query_memory_bytes =
    METRIC_GAUGE("themis_query_memory_bytes",
                 "Memory of all queries and their results, bounded by query_total_mb.");
static struct metric certificate_expires = METRIC_GAUGE(
    "themis_tls_certificate_expires_seconds", "End of the certificate's validity, since 1970.");
static struct metric certificate_failures = METRIC_COUNTER(
    "themis_tls_certificate_failures_total", "Changed certificates that could not be used.");

static atomic_bool stop_was_asked, reload_was_asked; /* signals belong to the process */

/* ---- time ---- */

static void expire_documents(struct server *s)
{
    struct error err = { 0 };
    uint64_t now_ms = env_mono_ms(env_system()), removed;

    if (now_ms - s->last_expire_ms < (uint64_t)s->ctx.settings->ttl_interval_ms)
        return;
    s->last_expire_ms = now_ms;
    if (store_expire(s->ctx.store, env_wall_us(env_system()) / 1000,
                     (uint64_t)s->ctx.settings->ttl_max_removes, &removed, &err) != OK)
        log_warn("server", "documents of TTL indexes could not be removed: %s", err.text);
    if (removed)
        log_info("server", "%llu documents were removed by TTL indexes",
                 (unsigned long long)removed);
}

static void reload_keys(struct server *s)
{
    struct error err = { 0 };

    if (store_reload_keys(s->ctx.store, &err) == OK)
        log_info("server", "SIGHUP: the key file was read again");
    else
        log_error("server", "SIGHUP: the keys stay as they are: %s", err.text);
}

static void run_chores(struct job *job)
{
    struct server *s = CONTAINER_OF(job, struct server, chores_job);

    cursors_expire(s->ctx.cursors, env_mono_ms(env_system()));
    stream_expire(s->ctx.streams);
    expire_documents(s);
    if (atomic_exchange(&s->has_new_keys, false))
        reload_keys(s);
    if (s->certificate)
        certificate_check(s->certificate);
    if (s->cluster)
        cluster_chores(s->cluster);
    atomic_store(&s->has_chores, false);
}

static void use_certificate(void *arg, struct tls_config *tls)
{
    struct server *s = arg;

    if (s->http)
        http_server_set_tls(s->http, tls);
    else /* at the end */
        tls_config_free(tls);
}

static void begin_drain(struct server *s)
{
    if (atomic_exchange(&s->ctx.is_draining, true))
        return;
    s->drain_until_ms = loop_now_ms(s->ctx.loop) + (uint64_t)s->ctx.settings->drain_timeout_ms;
    log_info("server", "stopping: %zu requests are running", http_server_active(s->http));
    notify_manager("STOPPING=1");
    cluster_drain(s->cluster);
    http_server_drain(s->http);
}

static void reload(struct server *s)
{
    audit_reopen(s->ctx.audit);
    atomic_store(&s->has_new_keys, s->ctx.settings->encryption_key_file[0] != 0);
    if (s->cluster)
        cluster_reload(s->cluster);
    if (s->certificate)
        certificate_reload(s->certificate);
    else
        log_info("server", "SIGHUP: there is no certificate to read again");
}

static void save_meters(struct job *job)
{
    struct server_ctx *ctx = CONTAINER_OF(job, struct server_ctx, meters_save);
    struct error err;

    if (key_meters_save(ctx->meters, &err) != OK)
        log_warn("server", "saving what access tokens used: %s", err.text);
    atomic_store(&ctx->is_saving_meters, false);
}

static void tick_meters(struct server_ctx *ctx)
{
    struct error err;

    if (!key_meters_are_due(ctx->meters) || atomic_exchange(&ctx->is_saving_meters, true))
        return;
    ctx->meters_save.run = save_meters;
    if (pool_post(ctx->pool, &ctx->meters_save, &err) != OK)
        atomic_store(&ctx->is_saving_meters, false); /* at a later tick */
}

static void close_meters(struct server_ctx *ctx)
{
    if (ctx->meters)
        save_meters(&ctx->meters_save);
    key_meters_close(ctx->meters);
}

static void on_tick(void *arg)
{
    struct server *s = arg;
    uint64_t now_ms = loop_now_ms(s->ctx.loop);

    if (atomic_exchange(&reload_was_asked, false))
        reload(s);
    if (atomic_load(&stop_was_asked))
        begin_drain(s);
    tick_meters(&s->ctx);
    metric_set(&query_memory_bytes, (int64_t)atomic_load(&s->ctx.query_memory.used_bytes));
    change_hub_tick(s->ctx.changes, env_mono_ms(env_system()), atomic_load(&s->ctx.is_draining));
    if (atomic_load(&s->ctx.is_draining)) {
        size_t active = http_server_active(s->http) + cluster_active(s->cluster);
        if (active && now_ms < s->drain_until_ms)
            return;
        if (active)
            log_warn("server", "%zu requests did not end within drain_timeout_ms", active);
        loop_stop(s->ctx.loop);
    } else if (now_ms - s->last_chores_ms >= CHORES_MS && !atomic_exchange(&s->has_chores, true)) {
        s->last_chores_ms = now_ms;
        s->chores_job.run = run_chores;
        pool_resume(s->ctx.pool, &s->chores_job);
    }
}

static void on_signal(int signum)
{
    atomic_store(signum == SIGHUP ? &reload_was_asked : &stop_was_asked, true);
}

/* Handled rather than blocked: libraries start threads of their own before main. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

/* Asked by what takes long: during the start, and on workers when the drain is over. */
static bool should_stop(void *arg)
{
    struct server *s = arg;

    return atomic_load(&s->is_closing) ||
           (atomic_load(&stop_was_asked) && !atomic_load(&s->is_serving));
}

/* ---- start ---- */

static enum errc check_stop(struct server *s, struct error *err)
{
    return should_stop(s) ? fail(err, ERR_GONE, "a signal came while the server started") : OK;
}

static bool on_load_progress(void *arg, const char *name, double done)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rloading %s: %3.0f %%%s", name, done * 100, done >= 1 ? "\n" : "");
    return !should_stop(arg);
}

/* A model that was added to the node before. A bad one never stops a start. */
static enum errc load_added(void *arg, const char *name, const char *path, struct error *err)
{
    struct server *s = arg;
    struct error why = { 0 };

    if (model_load_file(&s->ctx, name, path, &why) != OK && !should_stop(s))
        log_warn("server", "%s; the node starts without it", why.text);
    return check_stop(s, err);
}

/* Files of queries that need more than memory; without data on disk there are none. */
static enum errc open_spill(struct server *s, struct error *err)
{
    struct spill_space *spill = &s->ctx.spill;
    char dir[sizeof spill->dir];

    if (!s->opt.data)
        return OK;
    snprintf(dir, sizeof dir, "%s/tmp", s->opt.data);
    spill->memory_bytes = (uint64_t)s->opt.settings.spill_memory_mb * MIB;
    spill->is_encrypted = s->opt.settings.encryption_key_file[0] != 0;
    spill->max_bytes = (uint64_t)s->opt.settings.spill_max_mb * MIB;
    s->ctx.query.spill = spill;
    return spill_space_open(spill, dir, err);
}

/* What all parts may take together, against what there is. */
static enum errc plan_memory(struct server *s, struct error *err)
{
    struct memory_plan plan;
    struct buf text;
    bool is_over;

    memory_plan_make(&plan, &s->opt.settings, machine_memory_bytes());
    enum errc rc = memory_plan_check(&plan, &is_over, err);
    if (rc == OK && is_over) {
        buf_init(&text, 0);
        memory_plan_print(&plan, &text);
        log_warn("server",
                 "the parts of this node may take %llu MiB together, but there are %llu MiB: %s; "
                 "set memory_budget_mb, or lower some",
                 (unsigned long long)(memory_plan_sum(&plan) / MIB),
                 (unsigned long long)(plan.machine / MIB), buf_cstr(&text));
        buf_release(&text);
    }
    metric_register(&query_memory_bytes);
    s->ctx.query_memory =
        (struct arena_budget){ .limit_bytes = (size_t)plan.queries, .name = "query_total_mb" };
    return rc;
}

static void tell_load(void *arg, uint32_t *running, uint32_t *waiting)
{
    struct server *s = arg;
    struct models_stats stats;

    models_stats(s->ctx.models, &stats);
    *running = stats.running;
    *waiting = stats.waiting;
}

static enum errc open_cluster(struct server *s, struct error *err)
{
    const char *data = s->opt.settings.cluster_data;
    struct cluster_options opt = { .flags = s->opt.cluster,
                                   .settings = &s->opt.settings,
                                   .is_insecure = s->opt.is_insecure,
                                   .loop = s->ctx.loop,
                                   .pool = s->ctx.pool,
                                   .local = s->ctx.generator,
                                   .load = tell_load,
                                   .ctx = s,
                                   .server_name = "themis/" THEMIS_VERSION };

    s->ctx.chat = s->ctx.generator;
    if (strcmp(data, "off") != 0 && strcmp(data, "local") != 0)
        return fail(err, ERR_INVALID, "cluster_data must be off or local (got %s)", data);
    if (!s->opt.cluster.name)
        return OK;
    enum errc rc = cluster_open(&s->cluster, &opt, err);
    if (rc != OK)
        return rc;
    s->ctx.cluster = s->cluster;
    s->ctx.chat = cluster_generator(s->cluster);
    s->ctx.has_local_data = !strcmp(data, "local");
    return OK;
}

static enum errc join_cluster(struct server *s, struct error *err)
{
    char url[256];
    bool is_v6 = strchr(s->opt.host, ':') != NULL;

    if (!s->cluster)
        return OK;
    snprintf(url, sizeof url, "%s://%s%.200s%s:%u", s->certificate ? "https" : "http",
             is_v6 ? "[" : "", s->opt.host, is_v6 ? "]" : "", s->ctx.port);
    return cluster_join(s->cluster, url, should_stop, s, err);
}

static enum errc open_parts(struct server *s, struct error *err)
{
    enum errc rc = OK;
    struct server_ctx *ctx = &s->ctx;
    struct settings *set = &s->opt.settings;
    struct store_options store_opt = { .path = s->opt.data,
                                       .settings = set,
                                       .compute = &query_compute,
                                       .should_stop = should_stop,
                                       .ctx = s,
                                       .accept_loss = s->opt.accepts_loss };
    struct models_options model_opt = { .settings = set,
                                        .on_progress = on_load_progress,
                                        .ctx = s };
    unsigned workers = (unsigned)set->workers;
    struct vector_embedder embedder;

    if (!workers) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        workers = cores > 2 ? (unsigned)cores * 2 : 4;
    }
    TRY(plan_memory(s, err));
    TRY(audit_open(&ctx->audit, set, err));
    TRY(store_open(&ctx->store, &store_opt, err));
    TRY(users_open(&ctx->users, ctx->store, err));
    TRY(key_meters_open(&ctx->meters, ctx->store, env_system(), err));
    TRY(auth_open(&ctx->auth, set, ctx->users, err));
    TRY(models_new(&ctx->models, &model_opt, err));
    for (size_t i = 0; i < s->opt.model_count; i++) {
        TRY(check_stop(s, err));
        TRY(models_load(ctx->models, s->opt.models[i].name, s->opt.models[i].path, err));
    }
    if (set->backup_dir[0])
        snprintf(ctx->backup_dir, sizeof ctx->backup_dir, "%s", set->backup_dir);
    else
        snprintf(ctx->backup_dir, sizeof ctx->backup_dir, "%s/backups", s->opt.data);
    if (set->models_dir[0])
        snprintf(ctx->models_dir, sizeof ctx->models_dir, "%s", set->models_dir);
    else
        snprintf(ctx->models_dir, sizeof ctx->models_dir, "%s/models", s->opt.data);
    TRY(check_stop(s, err));
    ctx->generator = models_generator(ctx->models);
    ctx->named = s->opt.models;
    ctx->named_count = s->opt.model_count;
    model_dir_clean(ctx->models_dir);
    TRY(model_dir_walk(ctx->models_dir, load_added, s, err));
    embedder = embed_writes(ctx->generator);
    TRY(store_start_embedding(ctx->store, &embedder, err));
    TRY(pool_new(&ctx->model_pool, "models", 1, MODEL_CHANGES_MAX, err));
    TRY(pool_new(&ctx->pool, "worker", workers, (unsigned)set->worker_queue, err));
    ctx->changes = change_hub_new(ctx->store, (unsigned)set->max_change_feeds, workers / 2);
    ctx->cursors = cursors_new((size_t)set->max_cursors, 0);
    ctx->streams = stream_txns_new(ctx->store, set, env_system());
    ctx->rag =
        (struct rag_env){ .store = ctx->store, .generator = ctx->generator, .settings = set };
    ctx->calls = rag_calls_new(ctx->generator);
    ctx->sleeps = sleep_calls_new(ctx->loop);
    ctx->queries = query_list_new();
    ctx->query =
        (struct query_env){ .store = ctx->store,
                            .memory = &ctx->query_memory,
                            .calls = { rag_calls_infer(ctx->calls), rag_calls_embed(ctx->calls),
                                       sleep_calls_row(ctx->sleeps) },
                            .env = env_system() };
    TRY(open_spill(s, err));
    rc = open_cluster(s, err);
out:
    return rc;
}

static enum errc check_exposure(const struct server *s, struct error *err)
{
    struct settings *set = (struct settings *)&s->opt.settings;

    if (host_is_loopback(slice_str(s->opt.host)))
        return OK;
    set->auth = true;
    if (!auth_has_password(s->ctx.auth))
        return fail(err, ERR_INVALID,
                    "listening on %s needs a password for root: set root_password_file or "
                    "THEMIS_ROOT_PASSWORD",
                    s->opt.host);
    if (!set->tls_cert_file[0] && !s->opt.is_insecure)
        return fail(err, ERR_INVALID,
                    "listening on %s needs TLS: set tls_cert_file and tls_key_file, or pass "
                    "--insecure to serve plain HTTP",
                    s->opt.host);
    return OK;
}

static size_t room_for_connections(const struct settings *set)
{
    size_t wanted = (size_t)set->max_connections, room = files_for_connections(wanted);

    if (room < wanted)
        log_warn("server",
                 "the limit of open files leaves room for %zu connections, not for "
                 "max_connections=%zu: raise it (ulimit -Hn, or LimitNOFILE= of the service)",
                 room, wanted);
    return room;
}

/* Keeps tls. */
static enum errc listen_on(struct server *s, struct tls_config *tls, struct error *err)
{
    const struct settings *set = &s->opt.settings;
    struct http_server_options opt = {
        .host = s->opt.host,
        .port = s->opt.port,
        .limits = { .header_bytes = (size_t)set->max_header_bytes,
                    .body_bytes = (size_t)set->max_body_bytes,
                    .connections = room_for_connections(set),
                    .gzip_bytes = (size_t)set->gzip_min_bytes,
                    .header_ms = (uint64_t)set->header_timeout_ms,
                    .body_ms = (uint64_t)set->body_timeout_ms,
                    .idle_ms = (uint64_t)set->idle_timeout_ms,
                    .pipeline = 16,
                    .streams = (size_t)set->max_streams },
        .handler = { .on_headers = admit_headers,
                     .on_request = admit_request,
                     .ctx = (void *)&s->ctx },
        .server_name = "themis/" THEMIS_VERSION,
        .tls = tls,
    };

    return http_server_new(&s->http, s->ctx.loop, &opt, err);
}

/* Without files there is none, and the listener is plain. */
static enum errc open_certificate(struct server *s, struct tls_config **tls, struct error *err)
{
    const struct settings *set = &s->opt.settings;
    struct certificate_options opt = { .cert = set->tls_cert_file,
                                       .key = set->tls_key_file,
                                       .expires = &certificate_expires,
                                       .failures = &certificate_failures };

    if (!opt.cert[0] && !opt.key[0])
        return OK;
    if (!opt.cert[0] || !opt.key[0])
        return fail(err, ERR_INVALID, "tls_cert_file and tls_key_file belong together: %s is unset",
                    opt.cert[0] ? "tls_key_file" : "tls_cert_file");
    return certificate_open(&s->certificate, tls, &opt, err);
}

enum errc server_open(struct server **out, const struct server_options *opt, struct error *err)
{
    enum errc rc = OK;
    struct server *s = mem_zalloc(sizeof *s);
    struct tls_config *tls = NULL;

    s->opt = *opt;
    s->ctx.settings = &s->opt.settings;
    s->ctx.started_us = env_wall_us(env_system());
    snprintf(s->ctx.host, sizeof s->ctx.host, "%s", opt->host);
    snprintf(s->ctx.server_id, sizeof s->ctx.server_id, "%llu",
             (unsigned long long)(env_random_u64(env_system()) >> 12));
    signal(SIGPIPE, SIG_IGN);
    catch_signals();
    TRY(open_certificate(s, &tls, err));
    TRY(loop_new(&s->ctx.loop, err));
    TRY(open_parts(s, err));
    TRY(check_exposure(s, err));
    rc = listen_on(s, tls, err);
    tls = NULL;
    if (rc != OK)
        goto out;
    if (s->certificate)
        certificate_on_change(s->certificate, s->ctx.loop, use_certificate, s);
    s->ctx.port = http_server_port(s->http);
    TRY(join_cluster(s, err));
    s->tick = loop_timer_new(s->ctx.loop, on_tick, s);
    loop_timer_start(s->tick, TICK_MS, TICK_MS);
    *out = s;
    s = NULL;
out:
    tls_config_free(tls);
    server_close(s);
    return rc;
}

bool server_has_tls(const struct server *s)
{
    return s->certificate != NULL;
}

uint16_t server_port(const struct server *s)
{
    return s->ctx.port;
}

void server_run(struct server *s)
{
    atomic_store(&s->is_serving, true);
    loop_run(s->ctx.loop);
}

/*
 * Each step leaves whole what the threads that still run may call (docs/ARCHITECTURE.md, stopping):
 * a parked request ends on a worker after its model has given it up, so the models stop before the
 * workers and are freed after them.
 */
void server_close(struct server *s)
{
    if (!s)
        return;
    atomic_store(&s->is_closing, true);
    http_server_free(s->http); /* sets the cancel flag of what is left */
    s->http = NULL;
    cluster_stop(s->cluster);
    sleep_calls_stop(s->ctx.sleeps);
    models_stop(s->ctx.models);
    pool_stop(s->ctx.model_pool); /* its requests are woken; workers may still post to it */
    if (s->ctx.store)
        store_stop_embedding(s->ctx.store);
    pool_free(s->ctx.pool);
    pool_free(s->ctx.model_pool);
    cursors_free(s->ctx.cursors);
    stream_txns_free(s->ctx.streams);
    query_list_free(s->ctx.queries);
    rag_calls_free(s->ctx.calls);
    models_free(s->ctx.models);
    if (s->tick)
        loop_timer_free(s->tick);
    loop_free(s->ctx.loop);
    sleep_calls_free(s->ctx.sleeps); /* the loop may have held its task */
    certificate_close(s->certificate);
    cluster_free(s->cluster); /* the same, and its calls ended in the models */
    auth_close(s->ctx.auth);
    close_meters(&s->ctx);
    users_close(s->ctx.users);
    store_close(s->ctx.store);
    audit_close(s->ctx.audit);
    change_hub_free(s->ctx.changes); /* the store calls it until it ends */
    mem_free(s);
}
