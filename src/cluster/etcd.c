/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's ways: keys and values are base64, 64-bit numbers are strings,
 * members that are zero, false or empty are absent, an event without a type is
 * a PUT, and a keep-alive without TTL means that the lease is gone although the
 * status is 200. A watch is an answer without an end, one JSON object a line.
 */
#include "cluster/etcd.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/val_text.h"
#include "net/client.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    LINE_MAX = 16 * MIB,
    PATH_BYTES = 1024,
    WATCH_SILENCE_MS = 15000, /* then the watch begins anew: the server may be gone unheard */
};

struct etcd {
    struct etcd_options opt;
    char *urls[ETCD_SERVERS_MAX];
    size_t url_count, at;       /* who answered last */
    struct http_client *client; /* of urls[at]; NULL = none */
    char files[3][PATH_BYTES];  /* ca, certificate, key */
};

/* ---- servers ---- */

static bool is_https(const char *url)
{
    return !strncmp(url, "https://", 8);
}

static enum errc connect_to(struct etcd *e, size_t i, uint64_t silence_ms, struct http_client **out,
                            struct error *err)
{
    bool has_certs = e->opt.certs && is_https(e->urls[i]);
    struct http_client_options opt = {
        .url = e->urls[i],
        .ca_file = has_certs ? e->files[0] : NULL,
        .cert_file = has_certs ? e->files[1] : NULL,
        .key_file = has_certs ? e->files[2] : NULL,
        .program = "etcd",
        .connect_ms = e->opt.timeout_ms,
        .read_ms = silence_ms,
        .cancel = e->opt.cancel,
    };

    return http_client_new(out, &opt, err);
}

static enum errc read_urls(struct etcd *e, const char *text, struct error *err)
{
    enum errc rc = OK;
    struct http_client *probe = NULL;

    for (const char *at = text; rc == OK; at++) {
        size_t len = strcspn(at, ",");
        if (!len || e->url_count == ETCD_SERVERS_MAX)
            return fail(err, ERR_INVALID,
                        "--etcd takes 1 to %d URLs with commas between (got '%s')",
                        ETCD_SERVERS_MAX, text);
        e->urls[e->url_count++] = mem_strndup(slice_of(at, len));
        rc = connect_to(e, e->url_count - 1, e->opt.timeout_ms, &probe, err);
        http_client_free(rc == OK ? probe : NULL);
        at += len;
        if (!*at)
            break;
    }
    return rc == OK ? OK : wrap(err, "--etcd");
}

enum errc etcd_open(struct etcd **out, const struct etcd_options *opt, struct error *err)
{
    static const char *const names[] = { "ca.crt", "node.crt", "node.key" };
    struct etcd *e = mem_zalloc(sizeof *e);
    enum errc rc = OK;

    e->opt = *opt;
    for (size_t i = 0; opt->certs && i < ARRAY_LEN(names); i++)
        if ((size_t)snprintf(e->files[i], PATH_BYTES, "%s/%s", opt->certs, names[i]) >= PATH_BYTES)
            TRY(fail(err, ERR_INVALID, "the path of --etcd-certs is too long"));
    TRY(read_urls(e, opt->urls, err));
    *out = e;
    e = NULL;
out:
    etcd_close(e);
    return rc;
}

void etcd_close(struct etcd *e)
{
    if (!e)
        return;
    http_client_free(e->client);
    for (size_t i = 0; i < e->url_count; i++)
        mem_free(e->urls[i]);
    mem_free(e);
}

const char *etcd_exposed(const struct etcd *e)
{
    static const char *const local[] = { "http://127.", "http://localhost:", "http://localhost/",
                                         "http://[::1]" };

    for (size_t i = 0; i < e->url_count; i++) {
        bool is_local = is_https(e->urls[i]) || !strcmp(e->urls[i], "http://localhost");
        for (size_t k = 0; k < ARRAY_LEN(local); k++)
            is_local = is_local || !strncmp(e->urls[i], local[k], strlen(local[k]));
        if (!is_local)
            return e->urls[i];
    }
    return NULL;
}

/* ---- a call ---- */

static enum errc read_reply(const struct http_reply *reply, const char *path, struct arena *arena,
                            struct val *out, struct error *err)
{
    enum errc rc = val_parse(buf_slice(&reply->body), arena, out, err);

    if (reply->status == 200)
        return rc;
    struct slice why =
        rc == OK ? val_string(val_get(*out, slice_str("message"))) : slice_of(NULL, 0);
    if (!why.len && rc == OK)
        why = val_string(val_get(*out, slice_str("error")));
    return fail(err, ERR_IO, "etcd answered %s with %d: %.*s", path, reply->status,
                (int)(why.len < 120 ? why.len : 120), why.ptr ? why.ptr : "");
}

static enum errc call_one(struct etcd *e, const struct http_call *call, struct arena *arena,
                          struct val *out, struct error *err)
{
    struct http_reply reply;
    enum errc rc = OK;

    if (!e->client)
        rc = connect_to(e, e->at, e->opt.timeout_ms, &e->client, err);
    if (rc != OK)
        return rc;
    rc = http_client_call(e->client, call, &reply, err);
    if (rc == OK) {
        rc = read_reply(&reply, call->path, arena, out, err);
        http_reply_release(&reply);
    }
    return rc;
}

/* The body is JSON; the answer lives in arena. */
static enum errc etcd_call(struct etcd *e, const char *path, struct slice body, struct arena *arena,
                           struct val *out, struct error *err)
{
    struct http_call call = {
        .method = "POST", .path = path, .content_type = "application/json", .body = body
    };
    enum errc rc = ERR_IO;

    for (size_t tries = 0; tries < e->url_count; tries++) {
        rc = call_one(e, &call, arena, out, err);
        if (rc == OK || rc == ERR_GONE)
            return rc;
        http_client_free(e->client);
        e->client = NULL;
        e->at = (e->at + 1) % e->url_count;
    }
    return rc;
}

/* ---- reading answers ---- */

static int64_t number(struct val object, const char *name)
{
    struct val v = val_get(object, slice_str(name));
    struct slice text = val_string(v);
    char digits[24];

    if (val_type(v) == VAL_NUMBER)
        return val_int(v);
    if (!text.len || text.len >= sizeof digits)
        return 0;
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = 0;
    return strtoll(digits, NULL, 10);
}

static int64_t header_revision(struct val answer)
{
    return number(val_get(answer, slice_str("header")), "revision");
}

static struct slice decode(struct val object, const char *name, struct arena *arena)
{
    struct buf out;
    struct slice copy = slice_of("", 0);

    buf_init(&out, 0);
    if (base64_decode(val_string(val_get(object, slice_str(name))), false, &out) >= 0)
        copy = arena_copy(arena, buf_slice(&out));
    buf_release(&out);
    return copy;
}

static struct etcd_entry read_entry(struct val kv, struct arena *arena)
{
    return (struct etcd_entry){ .key = decode(kv, "key", arena),
                                .value = decode(kv, "value", arena),
                                .revision = number(kv, "mod_revision") };
}

/* ---- writing requests ---- */

static void add_base64(struct buf *out, const char *name, struct slice bytes)
{
    buf_printf(out, "\"%s\":\"", name);
    base64_encode(bytes, false, out);
    buf_add_char(out, '"');
}

/* "key" and "range_end" of all keys with the prefix, which does not end with 0xff. */
static void add_prefix(struct buf *out, struct slice prefix)
{
    char *end = mem_strndup(prefix);

    end[prefix.len - 1]++;
    add_base64(out, "key", prefix);
    buf_add_char(out, ',');
    add_base64(out, "range_end", slice_of(end, prefix.len));
    mem_free(end);
}

/* ---- leases ---- */

static enum errc call_small(struct etcd *e, const char *path, const char *name, int64_t n,
                            struct val *out, struct arena *arena, struct error *err)
{
    char body[64];

    snprintf(body, sizeof body, "{\"%s\":\"%lld\"}", name, (long long)n);
    return etcd_call(e, path, slice_str(body), arena, out, err);
}

enum errc etcd_grant(struct etcd *e, uint64_t ttl_s, int64_t *lease, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct val answer;
    enum errc rc = call_small(e, "/v3/lease/grant", "TTL", (int64_t)ttl_s, &answer, arena, err);

    if (rc == OK) {
        *lease = number(answer, "ID");
        if (!*lease)
            rc = fail(err, ERR_IO, "etcd granted no lease");
    }
    arena_free(arena);
    return rc;
}

enum errc etcd_keep_alive(struct etcd *e, int64_t lease, bool *is_alive, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct val answer;
    enum errc rc = call_small(e, "/v3/lease/keepalive", "ID", lease, &answer, arena, err);

    if (rc == OK)
        *is_alive = number(val_get(answer, slice_str("result")), "TTL") > 0;
    arena_free(arena);
    return rc;
}

enum errc etcd_revoke(struct etcd *e, int64_t lease, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct val answer;
    enum errc rc = call_small(e, "/v3/lease/revoke", "ID", lease, &answer, arena, err);

    arena_free(arena);
    return rc;
}

/* ---- keys ---- */

enum errc etcd_read(struct etcd *e, struct slice prefix, struct arena *arena,
                    struct etcd_range *out, struct error *err)
{
    struct buf body;
    struct val answer;

    buf_init(&body, 0);
    buf_add_char(&body, '{');
    add_prefix(&body, prefix);
    buf_add_char(&body, '}');
    enum errc rc = etcd_call(e, "/v3/kv/range", buf_slice(&body), arena, &answer, err);
    buf_release(&body);
    if (rc != OK)
        return rc;
    struct val kvs = val_get(answer, slice_str("kvs"));
    out->count = val_count(kvs);
    out->revision = header_revision(answer);
    out->entries = arena_alloc(arena, (out->count + 1) * sizeof *out->entries);
    for (size_t i = 0; i < out->count; i++)
        out->entries[i] = read_entry(val_at(kvs, i), arena);
    return OK;
}

enum errc etcd_write(struct etcd *e, const struct etcd_entry *entry, int64_t lease,
                     bool *is_written, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct buf body;
    struct val answer;

    buf_init(&body, 0);
    buf_add_str(&body, "{\"compare\":[{\"target\":\"MOD\",\"result\":\"EQUAL\",");
    add_base64(&body, "key", entry->key);
    buf_printf(&body, ",\"mod_revision\":\"%lld\"}],\"success\":[{\"request_put\":{",
               (long long)entry->revision);
    add_base64(&body, "key", entry->key);
    buf_add_char(&body, ',');
    add_base64(&body, "value", entry->value);
    buf_printf(&body, ",\"lease\":\"%lld\"}}]}", (long long)lease);
    enum errc rc = etcd_call(e, "/v3/kv/txn", buf_slice(&body), arena, &answer, err);
    if (rc == OK)
        *is_written = val_bool(val_get(answer, slice_str("succeeded")));
    buf_release(&body);
    arena_free(arena);
    return rc;
}

/* ---- watch ---- */

struct watch {
    const struct etcd_watcher *w;
    int64_t *revision;
    struct buf line;
    bool is_compacted, is_ended; /* ended: by the server or by us */
    char why[160];
};

static void end_watch(struct watch *w, const char *what, struct slice why)
{
    w->is_ended = true;
    snprintf(w->why, sizeof w->why, "%s%.*s", what, (int)(why.len < 100 ? why.len : 100),
             why.ptr ? why.ptr : "");
}

static void take_events(struct watch *w, struct val result, struct arena *arena)
{
    struct val events = val_get(result, slice_str("events"));

    for (size_t i = 0; i < val_count(events) && !w->is_ended; i++) {
        struct val event = val_at(events, i);
        struct etcd_entry entry = read_entry(val_get(event, slice_str("kv")), arena);
        if (slice_is(val_string(val_get(event, slice_str("type"))), "DELETE"))
            entry.value = slice_of(NULL, 0);
        if (!w->w->on_change(w->w->ctx, &entry))
            end_watch(w, "it was left", slice_of(NULL, 0));
    }
    /* All changes of a revision come together. */
    if (!w->is_ended && header_revision(result) >= *w->revision)
        *w->revision = header_revision(result) + 1;
}

static void take_line(struct watch *w)
{
    struct arena *arena = arena_new(0);
    struct val v;

    if (!w->line.len) {
        arena_free(arena);
        return;
    }
    if (val_parse(buf_slice(&w->line), arena, &v, NULL) != OK) {
        end_watch(w, "what came is not JSON", slice_of(NULL, 0));
    } else if (val_is_null(val_get(v, slice_str("result")))) {
        end_watch(w, "etcd says: ",
                  val_string(val_path(
                      v, (struct slice[]){ slice_str("error"), slice_str("message") }, 2)));
    } else {
        struct val result = val_get(v, slice_str("result"));
        if (val_bool(val_get(result, slice_str("canceled")))) {
            w->is_compacted = number(result, "compact_revision") > 0;
            end_watch(w,
                      "etcd ended it: ", val_string(val_get(result, slice_str("cancel_reason"))));
        } else if (!val_bool(val_get(result, slice_str("created")))) {
            take_events(w, result, arena);
        } else if (header_revision(result) + 1 < *w->revision) {
            w->is_compacted = true; /* an etcd without our past: it would stay silent until then */
            end_watch(w, "etcd has lost its data", slice_of(NULL, 0));
        }
    }
    buf_clear(&w->line);
    arena_free(arena);
}

static bool on_watch(void *ctx, int status, struct slice piece)
{
    struct watch *w = ctx;

    while (piece.len && !w->is_ended) {
        const char *end = memchr(piece.ptr, '\n', piece.len);
        size_t n = end ? (size_t)(end - piece.ptr) : piece.len;
        buf_add(&w->line, piece.ptr, n);
        if (w->line.is_overfull)
            end_watch(w, "an event is too large", slice_of(NULL, 0));
        else if (end && status == 200)
            take_line(w);
        piece = slice_of(piece.ptr + n + (end != NULL), piece.len - n - (end != NULL));
    }
    if (status != 200 && !w->is_ended)
        end_watch(w, "etcd refused it: ", buf_slice(&w->line));
    return !w->is_ended;
}

/* A connection of its own: the answer has no end. */
static enum errc follow(struct etcd *e, struct slice body, struct watch *w, struct error *err)
{
    struct http_client *client = NULL;
    struct http_reply reply;
    struct http_call call = { .method = "POST",
                              .path = "/v3/watch",
                              .content_type = "application/json",
                              .body = body,
                              .on_piece = on_watch,
                              .piece_ctx = w };
    enum errc rc = connect_to(e, e->at, WATCH_SILENCE_MS, &client, err);

    if (rc == OK)
        rc = http_client_call(client, &call, &reply, err);
    if (rc == OK)
        http_reply_release(&reply);
    http_client_free(client);
    return rc;
}

enum errc etcd_watch(struct etcd *e, struct slice prefix, int64_t *revision,
                     const struct etcd_watcher *watcher, bool *is_compacted, struct error *err)
{
    struct watch w = { .w = watcher, .revision = revision };
    struct buf body;

    buf_init(&body, 0);
    buf_init(&w.line, LINE_MAX);
    buf_add_str(&body, "{\"create_request\":{");
    add_prefix(&body, prefix);
    buf_printf(&body, ",\"start_revision\":\"%lld\",\"progress_notify\":true}}",
               (long long)*revision);
    enum errc rc = follow(e, buf_slice(&body), &w, err);
    if (rc == OK)
        rc = fail(err, w.is_compacted ? ERR_GONE : ERR_IO, "the watch ended: %s",
                  w.is_ended ? w.why : "the connection was closed");
    else if (rc != ERR_TIMEOUT)
        e->at = (e->at + 1) % e->url_count;
    *is_compacted = w.is_compacted;
    buf_release(&body);
    buf_release(&w.line);
    return rc;
}
