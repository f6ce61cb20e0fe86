/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http [livez] [document]: requests over HTTP/1.1 and HTTP/2, plain and over TLS,
 * against a server that does nothing but the protocol and answers the same bytes.
 * Both are driven by h2load; rates are its requests per second. As h2load may be
 * what limits them, the CPU time of both servers for each request stands beside.
 */
#include "http_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "bench_server.h"
#include "net/client.h"

enum { CLIENTS = 8, DOCUMENT_BYTES = 1024 };

static const char *const paths[PEER_ANSWERS] = { "/livez", "/_api/document/d/k" };
static const char *const names[PEER_ANSWERS] = { "livez", "document" };

struct side {
    pid_t pid;
    uint16_t port;
    double cpu, requests; /* since the warm-up */
    unsigned rounds;
};

struct compared {
    struct side ours, theirs;
    const char *scheme, *options, *path;
};

static double cpu_seconds(pid_t pid)
{
    char path[64];
    double user, system;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &user,
                     &system) != 2)
        bench_fail("%s is not as expected", path);
    fclose(f);
    return (user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double figure(struct buf *text, const char *before)
{
    char *at = strstr(buf_cstr(text), before);

    if (!at)
        bench_fail("h2load did not say '%s':\n%s", before, buf_cstr(text));
    return strtod(at + strlen(before), NULL);
}

/* ", 0 failed, 0 errored, 0 timeout" or it counts for nothing. */
static double load(struct compared *c, struct side *s, double seconds)
{
    char command[512];
    struct buf said;

    buf_init(&said, 0);
    snprintf(command, sizeof command, "h2load -D %.0fms -t 1 -c %d %s %s://127.0.0.1:%u%s",
             seconds * 1000, CLIENTS, c->options, c->scheme, s->port, c->path);
    double before = cpu_seconds(s->pid);
    bench_capture(command, &said);
    double used = cpu_seconds(s->pid) - before;
    if (!strstr(buf_cstr(&said), " 0 failed, 0 errored, 0 timeout"))
        bench_fail("requests failed:\n%s", buf_cstr(&said));
    if (!strstr(said.ptr, " 0 4xx, 0 5xx"))
        bench_fail("not every answer was 200:\n%s", said.ptr);
    double count = figure(&said, "status codes: ");
    char *rate = strstr(said.ptr, " req/s");
    while (rate && rate > said.ptr && rate[-1] != ' ')
        rate--;
    if (s->rounds++) { /* the first warms up */
        s->cpu += used;
        s->requests += count;
    }
    double result = rate ? strtod(rate, NULL) : 0;
    buf_release(&said);
    return result;
}

static double run_ours(void *ctx, double seconds)
{
    struct compared *c = ctx;
    return load(c, &c->ours, seconds);
}

static double run_theirs(void *ctx, double seconds)
{
    struct compared *c = ctx;
    return load(c, &c->theirs, seconds);
}

static void add_cpu(void *ctx, struct bench_line *line)
{
    const struct compared *c = ctx;
    double ours = c->ours.cpu / c->ours.requests * 1e6;
    double theirs = c->theirs.cpu / c->theirs.requests * 1e6;

    bench_number(line, "ours_cpu_us", ours);
    bench_number(line, "theirs_cpu_us", theirs);
    bench_number(line, "cpu_ratio", theirs / ours);
}

/* ---- one server of ours, one of theirs ---- */

struct files {
    char data[600], cert[600], key[600];
};

static void compare(const struct bench_server *s, const struct peer *p, bool is_tls, size_t path)
{
    static const struct {
        const char *name, *options;
    } rows[] = {
        { "protocol=http1 streams=1", "--h1" },
        { "protocol=http2 streams=1", "-m 1" },
        { "protocol=http2 streams=100", "-m 100" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char facts[128], opponent[256];
        struct compared c = { .ours = { .pid = s->pid, .port = s->port },
                              .theirs = { .pid = p->pid, .port = p->port },
                              .scheme = is_tls ? "https" : "http",
                              .options = rows[i].options,
                              .path = paths[path] };
        snprintf(facts, sizeof facts, "%s connections=%d tls=%s", rows[i].name, CLIENTS,
                 is_tls ? "yes" : "no");
        snprintf(opponent, sizeof opponent,
                 "llhttp, nghttp2, OpenSSL, epoll, one thread; h2load -t 1 -c %d %s %s://HOST%s",
                 CLIENTS, c.options, c.scheme, c.path);
        bench_compare(&(struct bench_pair){ .name = "http",
                                            .what = names[path],
                                            .facts = facts,
                                            .unit = "requests/s",
                                            .opponent = opponent,
                                            .target = 0.8,
                                            .rounds = 7,
                                            .ours = run_ours,
                                            .theirs = run_theirs,
                                            .add = add_cpu,
                                            .ctx = &c });
    }
}

/* The bytes that themis answers; they are the peer's, too. */
static void fetch(const struct bench_server *s, const char *path, struct buf *out)
{
    struct slice request;
    struct buf text;

    buf_init(&text, 0);
    bench_http_get(&text, path);
    request = buf_slice(&text);
    bench_http_fetch(s->port, request, out);
    buf_release(&text);
}

static void post(struct http_client *c, const char *path, const char *json)
{
    struct error err;
    struct http_reply reply;
    struct http_call call = {
        .method = "POST", .path = path, .content_type = "application/json", .body = slice_str(json)
    };

    bench_must(http_client_call(c, &call, &reply, &err), &err, path);
    if (reply.status >= 300)
        bench_fail("POST %s: %s", path, buf_cstr(&reply.body));
    http_reply_release(&reply);
}

/* The answer to a GET of the document is DOCUMENT_BYTES long, give or take its revision. */
static void make_document(const struct bench_server *s)
{
    char url[64], json[DOCUMENT_BYTES + 64], filler[DOCUMENT_BYTES];
    struct http_client *c;
    struct error err;

    memset(filler, 'x', sizeof filler);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", s->port);
    snprintf(json, sizeof json, "{\"_key\":\"k\",\"text\":\"%.*s\"}", DOCUMENT_BYTES - 62, filler);
    bench_must(http_client_new(&c, &(struct http_client_options){ .url = url }, &err), &err, url);
    post(c, "/_api/collection", "{\"name\":\"d\"}");
    post(c, "/_api/document/d", json);
    http_client_free(c);
}

static void make_certificate(const struct files *f)
{
    char command[2048];
    struct buf said;

    buf_init(&said, 0);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=localhost -keyout '%s' -out '%s' 2>&1",
             f->key, f->cert);
    bench_capture(command, &said);
    buf_release(&said);
}

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    struct files f;
    struct bench_server s;
    struct peer p;
    struct buf whole[PEER_ANSWERS];
    struct peer_answer answers[PEER_ANSWERS];

    log_set_level(LOG_ERROR);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], names[0]) != 0 && strcmp(argv[i], names[1]) != 0)
            bench_fail("there is no part '%s': livez, document", argv[i]);
    snprintf(f.data, sizeof f.data, "%s/data", bench_dir());
    snprintf(f.cert, sizeof f.cert, "tls_cert_file=%s/cert.pem", bench_dir());
    snprintf(f.key, sizeof f.key, "tls_key_file=%s/key.pem", bench_dir());
    const char *cert = strchr(f.cert, '=') + 1, *key = strchr(f.key, '=') + 1;
    struct files made;
    snprintf(made.cert, sizeof made.cert, "%s", cert);
    snprintf(made.key, sizeof made.key, "%s", key);
    make_certificate(&made);
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        const char *const arguments[] = { "--set", f.cert, "--set", f.key, NULL };
        bench_server_start(&s, f.data, is_tls ? arguments : NULL);
        for (size_t i = 0; !is_tls && i < PEER_ANSWERS; i++) {
            if (i == 0)
                make_document(&s);
            buf_init(&whole[i], 0);
            fetch(&s, paths[i], &whole[i]);
            answers[i] = (struct peer_answer){ paths[i], buf_slice(&whole[i]) };
        }
        peer_start(&p, answers, is_tls ? cert : NULL, key);
        for (size_t i = 0; i < PEER_ANSWERS; i++)
            if (is_wanted(argc, argv, names[i]))
                compare(&s, &p, is_tls, i);
        peer_stop(&p);
        bench_server_stop(&s);
    }
    for (size_t i = 0; i < PEER_ANSWERS; i++)
        buf_release(&whole[i]);
    return 0;
}
