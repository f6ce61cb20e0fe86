/* SPDX-License-Identifier: Apache-2.0 */
/* /_admin/cluster: the nodes, as this one sees them. */
#include "cluster/cluster.h"
#include "server/reply.h"
#include "server/router.h"

static void get_cluster(struct request *r)
{
    struct error err = { 0 };
    struct reply a;

    if (!r->ctx->cluster) {
        (void)fail(&err, ERR_NOT_FOUND, "this node is alone: it was started without --cluster");
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    cluster_put_status(r->ctx->cluster, a.b);
    reply_str(&a, "data", r->ctx->has_local_data ? "local" : "not distributed yet");
    reply_send(&a, 200);
}

const struct route api_cluster_routes[] = {
    { METHOD_GET, "/_admin/cluster", ROLE_USER, ON_POOL, 0, get_cluster,
      "The nodes of the cluster, as this one sees them." },
    { 0 },
};
