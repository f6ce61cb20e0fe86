/* SPDX-License-Identifier: Apache-2.0 */
/* Health, metrics, versions, tokens, the built-in page. */
#include "base/metrics.h"
#include "base/val_text.h"
#include "server/console.h"
#include "server/openapi.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

static void get_livez(struct request *r)
{
    request_reply_text(r, 200, "text/plain; charset=utf-8", slice_str("ok\n"));
}

static const char *not_ready(struct request *r, struct error *err)
{
    if (atomic_load(&r->ctx->is_draining))
        return "shutting down";
    if (store_check_writable(r->ctx->store, err) != OK)
        return err->text;
    return NULL;
}

static void get_readyz(struct request *r)
{
    struct error err = { 0 };
    const char *why = not_ready(r, &err);
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "status", why ? "not ready" : "ready");
    if (why)
        reply_str(&a, "reason", why);
    reply_send_bare(&a, why ? 503 : 200);
}

static void put_models(struct reply *a)
{
    struct model_info infos[MODELS_MAX];
    struct generator *g = a->r->ctx->generator;
    size_t n = g->models(g, infos, ARRAY_LEN(infos));

    reply_list(a, "models");
    for (size_t i = 0; i < n && i < ARRAY_LEN(infos); i++) {
        bool is_ready = infos[i].state == MODEL_READY;
        reply_open(a, NULL);
        reply_str(a, "name", infos[i].name);
        if (is_ready) {
            reply_str(a, "kind", model_kind_name(infos[i].kind));
            reply_str(a, "description", infos[i].description);
        }
        reply_bool(a, "ready", is_ready);
        reply_close(a);
    }
    reply_close(a);
}

static void get_health(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "status", atomic_load(&r->ctx->is_draining) ? "draining" : "ok");
    reply_str(&a, "version", THEMIS_VERSION);
    reply_double(&a, "uptime_seconds",
                 (double)(env_wall_us(env_system()) - r->ctx->started_us) / 1e6);
    put_models(&a);
    reply_send_bare(&a, 200);
}

static void get_metrics(struct request *r)
{
    struct buf text;

    buf_init(&text, 16 * MIB);
    metrics_print(&text);
    request_reply_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_slice(&text));
    buf_release(&text);
}

/* The worker side of the page's and the shell's status. */
static void get_status(struct request *r)
{
    struct store_stats s;
    struct pool_stats p;
    struct models_stats m;
    struct reply a;

    store_stats(r->ctx->store, &s);
    pool_stats(r->ctx->pool, &p);
    models_stats(r->ctx->models, &m);
    reply_begin(&a, r);
    reply_str(&a, "server", "arango");
    reply_str(&a, "license", "community");
    reply_str(&a, "version", THEMIS_ARANGO_VERSION);
    reply_str(&a, "mode", "server");
    reply_int(&a, "pid", getpid());
    reply_open(&a, "themis");
    reply_str(&a, "version", THEMIS_VERSION);
    reply_double(&a, "uptimeSeconds",
                 (double)(env_wall_us(env_system()) - r->ctx->started_us) / 1e6);
    reply_int(&a, "requests", (int64_t)r->ctx->requests);
    reply_int(&a, "cursors", (int64_t)cursors_count(r->ctx->cursors));
    reply_open(&a, "store");
    reply_int(&a, "commits", (int64_t)s.commits);
    reply_int(&a, "conflicts", (int64_t)s.conflicts);
    reply_int(&a, "diskBytes", (int64_t)s.disk_bytes);
    reply_int(&a, "windowBytes", (int64_t)s.window_bytes);
    reply_close(&a);
    reply_open(&a, "workers");
    reply_int(&a, "threads", p.threads);
    reply_int(&a, "busy", p.busy);
    reply_int(&a, "queued", p.queued);
    reply_close(&a);
    reply_open(&a, "inference");
    reply_int(&a, "running", m.running);
    reply_int(&a, "waiting", m.waiting);
    reply_int(&a, "promptTokens", (int64_t)m.prompt_tokens);
    reply_int(&a, "completionTokens", (int64_t)m.completion_tokens);
    reply_int(&a, "cachedTokens", (int64_t)m.cached_tokens);
    reply_int(&a, "memoryBytes", (int64_t)m.memory_bytes);
    reply_int(&a, "memoryLimitBytes", (int64_t)m.memory_limit_bytes);
    reply_close(&a);
    put_models(&a);
    reply_close(&a);
    reply_send_bare(&a, 200);
}

static void get_version(struct request *r)
{
    bool wants_details;
    struct error err = { 0 };
    struct utsname host;
    struct reply a;

    if (request_flag(r, "details", false, &wants_details, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_str(&a, "server", "arango");
    reply_str(&a, "license", "community");
    reply_str(&a, "version", THEMIS_ARANGO_VERSION);
    if (wants_details) {
        reply_open(&a, "details");
        reply_str(&a, "name", "themis");
        reply_str(&a, "themis-version", THEMIS_VERSION);
        reply_str(&a, "server-version", THEMIS_ARANGO_VERSION);
        reply_str(&a, "mode", "server");
        reply_str(&a, "role", "SINGLE");
        reply_str(&a, "architecture", "64bit");
        reply_str(&a, "platform", uname(&host) == 0 ? host.sysname : "Linux");
        reply_close(&a);
    }
    reply_send_bare(&a, 200);
}

static void get_engine(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "name", "rocksdb");
    reply_open(&a, "supports");
    reply_list(&a, "indexes");
    const char *const types[] = { "primary",  "edge", "persistent", "hash",
                                  "skiplist", "geo",  "fulltext",   "vector" };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        reply_str(&a, NULL, types[i]);
    reply_close(&a);
    reply_close(&a);
    reply_send(&a, 200);
}

static void get_time(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
    reply_double(&a, "time", (double)env_wall_us(env_system()) / 1e6);
    reply_send(&a, 200);
}

static void get_role(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "role", "SINGLE");
    reply_str(&a, "mode", "default");
    reply_send(&a, 200);
}

static void get_availability(struct request *r)
{
    struct error err = { 0 };
    struct reply a;

    if (not_ready(r, &err)) {
        fail(&err, ERR_BUSY, "the server does not take writes now");
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_str(&a, "mode", "default");
    reply_send(&a, 200);
}

static void post_auth(struct request *r)
{
    struct error err = { 0 };
    struct val body;
    struct buf token;
    struct reply a;

    buf_init(&token, 16 * KIB);
    enum errc rc = request_object(r, &body, &err);
    if (rc == OK)
        rc = auth_issue(r->ctx->auth, val_string(val_get(body, slice_str("username"))),
                        val_string(val_get(body, slice_str("password"))), &token, &err);
    if (rc != OK) {
        request_fail(r, &err);
    } else {
        reply_begin(&a, r);
        reply_text(&a, "jwt", buf_slice(&token));
        reply_send_bare(&a, 200);
    }
    buf_release(&token);
}

static void post_renew(struct request *r)
{
    struct buf token;
    struct reply a;
    struct error err;

    if (r->meter) {
        fail(&err, ERR_FORBIDDEN, "an access token with scopes or limits gives no other token");
        request_fail(r, &err);
        return;
    }
    buf_init(&token, 16 * KIB);
    auth_renew(r->ctx->auth, r->user, &token);
    reply_begin(&a, r);
    reply_text(&a, "jwt", buf_slice(&token));
    reply_send_bare(&a, 200);
    buf_release(&token);
}

static void get_page(struct request *r)
{
    static const struct http_header headers[] = {
        { "Content-Security-Policy",
          "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
          "connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
    };

    exchange_reply(r->x, 200, "text/html; charset=utf-8", headers, ARRAY_LEN(headers),
                   slice_of(console_html, console_html_len));
    request_done(r);
}

static void get_openapi(struct request *r)
{
    request_reply(r, 200, openapi_document(r->arena));
}

/* What drivers look for; there is nothing to license. */
static void get_license(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "license", "none");
    reply_send_bare(&a, 200);
}

/* ArangoDB's number of a version: 3.12.5 is 31205. */
static void get_target_version(struct request *r)
{
    char text[32], *at;
    struct reply a;
    long major = strtol(THEMIS_ARANGO_VERSION, &at, 10);
    long minor = strtol(at + 1, &at, 10), patch = strtol(at + 1, NULL, 10);

    snprintf(text, sizeof text, "%ld", major * 10000 + minor * 100 + patch);
    reply_begin(&a, r);
    reply_str(&a, "version", text);
    reply_send(&a, 200);
}

static void get_options(struct request *r)
{
    const struct settings *s = r->ctx->settings;
    struct reply a;

    reply_begin(&a, r);
#define SETTING_INT(name, def, min, max, unit, help) reply_int(&a, #name, s->name);
#define SETTING_DOUBLE(name, def, min, max, unit, help) reply_double(&a, #name, s->name);
#define SETTING_BOOL(name, def, help) reply_bool(&a, #name, s->name);
#define SETTING_STRING(name, def, help) reply_str(&a, #name, s->name);
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
    reply_send_bare(&a, 200);
}

static void put_option(struct reply *a, const char *name, const char *type, const char *help)
{
    reply_open(a, name);
    reply_str(a, "section", "");
    reply_str(a, "type", type);
    reply_str(a, "description", help);
    reply_close(a);
}

static void get_options_description(struct request *r)
{
    struct reply a;

    reply_begin(&a, r);
#define SETTING_INT(name, def, min, max, unit, help) put_option(&a, #name, "int64", help);
#define SETTING_DOUBLE(name, def, min, max, unit, help) put_option(&a, #name, "double", help);
#define SETTING_BOOL(name, def, help) put_option(&a, #name, "boolean", help);
#define SETTING_STRING(name, def, help) put_option(&a, #name, "string", help);
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
    reply_send_bare(&a, 200);
}

const struct route api_admin_routes[] = {
    { METHOD_GET | METHOD_HEAD, "/", ROLE_NONE, ON_LOOP, 0, get_page, "The built-in page." },
    { METHOD_GET | METHOD_HEAD, "/livez", ROLE_NONE, ON_LOOP, 0, get_livez,
      "Is the process alive?" },
    { METHOD_GET | METHOD_HEAD, "/readyz", ROLE_NONE, ON_POOL, 0, get_readyz,
      "Does it take writes and answer?" },
    { METHOD_GET | METHOD_HEAD, "/health", ROLE_NONE, ON_POOL, 0, get_health,
      "Status and models." },
    { METHOD_GET, "/openapi.json", ROLE_NONE, ON_POOL, 0, get_openapi,
      "This interface as OpenAPI 3.1." },
    { METHOD_GET, "/metrics", ROLE_NONE, ON_POOL, 0, get_metrics, "Prometheus text." },
    { METHOD_GET, "/_api/version?details", ROLE_USER, ON_LOOP, 0, get_version,
      "Server and version." },
    { METHOD_GET, "/_api/engine", ROLE_USER, ON_LOOP, 0, get_engine, "The storage engine." },
    { METHOD_GET, "/_admin/status", ROLE_USER, ON_POOL, 0, get_status, "Figures of this node." },
    { METHOD_GET, "/_admin/database/target-version", ROLE_USER, ON_LOOP, 0, get_target_version,
      "Version of the data, as a number." },
    { METHOD_GET, "/_admin/license", ROLE_USER, ON_LOOP, 0, get_license, "There is none." },
    { METHOD_GET, "/_admin/options", ROLE_ADMIN, ON_POOL, 0, get_options, "Settings in force." },
    { METHOD_GET, "/_admin/options-description", ROLE_ADMIN, ON_POOL, 0, get_options_description,
      "What they mean." },
    { METHOD_GET, "/_admin/time", ROLE_USER, ON_LOOP, 0, get_time, "Wall clock." },
    { METHOD_GET, "/_admin/server/role", ROLE_USER, ON_LOOP, 0, get_role, "Role in a cluster." },
    { METHOD_GET, "/_admin/server/availability", ROLE_NONE, ON_POOL, 0, get_availability,
      "Does it take writes?" },
    { METHOD_GET, "/_admin/metrics", ROLE_USER, ON_POOL, 0, get_metrics, "Prometheus text." },
    { METHOD_GET, "/_admin/metrics/v2", ROLE_USER, ON_POOL, 0, get_metrics, "Prometheus text." },
    { METHOD_POST, "/_open/auth", ROLE_NONE, ON_POOL, 64 * KIB, post_auth,
      "A token for a password." },
    { METHOD_POST, "/_open/auth/renew", ROLE_USER, ON_POOL, 64 * KIB, post_renew,
      "A fresh token for one that still holds." },
    { 0 },
};
