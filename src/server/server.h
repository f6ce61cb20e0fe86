/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server -- the composition root: opens store and models, listens, routes
 * requests to handlers, drains at the end. Only server.c knows everybody.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/base.h"
#include "base/error.h"
#include "base/settings.h"
#include "cluster/cluster.h"

enum { SERVER_MODELS_MAX = 16 };
#define THEMIS_VERSION "0.1.0"
#define THEMIS_ARANGO_VERSION "3.12.5"

struct server_model {
    const char *name;
    const char *path;
};

struct server_options {
    const char *data;  /* directory of the store */
    const char *host;  /* numeric address */
    uint16_t port;     /* 0 = any free */
    bool is_insecure;  /* waives TLS off loopback */
    bool accepts_loss; /* opens a store that lost acknowledged commits */
    struct server_model models[SERVER_MODELS_MAX];
    size_t model_count;
    struct cluster_flags cluster;
    struct settings settings;
};

struct server;

/*
 * Opens everything and listens. Progress goes to standard error. ERR_GONE: SIGTERM or SIGINT came
 * meanwhile, and everything is closed again. From here on both signals only ask for the stop.
 */
MUST_CHECK enum errc server_open(struct server **out, const struct server_options *opt,
                                 struct error *err);

/* The calling thread becomes the loop; returns when a signal (TERM, INT) was drained. */
void server_run(struct server *s);
uint16_t server_port(const struct server *s);
bool server_has_tls(const struct server *s);

/* Stops listening, cancels what runs, waits for every thread, closes the store. NULL is allowed. */
void server_close(struct server *s);

#endif
