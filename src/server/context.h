/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context -- what handlers may reach: filled by server.c, constant while the
 * server runs.
 */
#ifndef SERVER_CONTEXT_H
#define SERVER_CONTEXT_H

#include "base/pool.h"
#include "base/settings.h"
#include "model/model.h"
#include "query/query.h"
#include "query/spill.h"
#include "retrieve/rag.h"
#include "server/auth.h"
#include "server/cursor.h"
#include "server/stream_txn.h"
#include "store/store.h"
#include <stdatomic.h>

struct admission;
struct audit;
struct change_hub;
struct cluster;
struct key_meters;
struct server_model;

/* Requests whose passwords wait to be compared; loop thread. */
struct proof_queue {
    struct admission *first, *last;
    unsigned waiting, running;
};

struct server_ctx {
    const struct settings *settings;
    struct store *store;
    struct models *models;
    struct generator *generator;
    struct generator *chat;           /* over all nodes of the cluster; without one the same */
    struct cluster *cluster;          /* NULL = a single node */
    bool has_local_data;              /* of a cluster: cluster_data=local */
    const struct server_model *named; /* models of the command line */
    size_t named_count;
    struct pool *pool;
    struct pool *model_pool; /* one thread: models are loaded and unloaded one after the other */
    struct loop *loop;
    struct users *users;
    struct auth *auth;
    struct key_meters *meters; /* of access tokens with scopes or limits */
    struct job meters_save;
    atomic_bool is_saving_meters;
    struct proof_queue proofs;
    struct cursors *cursors;
    struct stream_txns *streams;
    struct audit *audit; /* NULL = none */
    struct change_hub *changes;
    struct rag_env rag;
    struct query_env query;
    struct spill_space spill;
    struct arena_budget query_memory; /* of all queries */
    struct rag_calls *calls;
    struct sleep_calls *sleeps;
    struct query_list *queries;
    uint64_t started_us;
    char host[128]; /* of --listen, for the Host rule */
    uint16_t port;
    char server_id[32];
    char models_dir[1024]; /* of added models */
    char backup_dir[1024];
    atomic_bool is_backing_up; /* one backup is made or deleted at a time */
    atomic_bool is_draining;
    _Atomic uint64_t requests;
};

#endif
